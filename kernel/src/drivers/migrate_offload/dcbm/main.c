// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm - a migrator that copies with DMA channels
 *
 * A folio is cut into parts, one per channel, which are submitted one by one
 * and complete in any order; small ones that adjoin make one part. What no
 * channel takes, or fails to copy, costs its folios the fast path: the core
 * copies them with the CPU. Nothing is allocated for a folio.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/device.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/sizes.h>

#include "dcbm.h"

unsigned int dcbm_max_channels;
module_param_named(channels, dcbm_max_channels, uint, 0444);
MODULE_PARM_DESC(channels, "take at most so many channels, up to 256; 0 takes all that are free (default 0)");

/*
 * None by default: whoever chooses dcbm wants its engines to be used, and hardly
 * anybody asks for a memcpy channel later. ntb_transport does, if it is told to
 * (use_dma), and says so when it gets none.
 */
unsigned int dcbm_leave;
module_param_named(leave, dcbm_leave, uint, 0444);
MODULE_PARM_DESC(leave, "leave so many free channels of each memory node to others, such as ntb_transport (default 0)");

unsigned int dcbm_queue_depth = 256;
module_param_named(queue_depth, dcbm_queue_depth, uint, 0444);
MODULE_PARM_DESC(queue_depth, "descriptors in flight per channel, 1 to 65536 (default 256)");

unsigned int dcbm_share_bytes = DCBM_RUN_BYTES;
module_param_named(share_bytes, dcbm_share_bytes, uint, 0444);
MODULE_PARM_DESC(share_bytes, "small folios share descriptors of up to so many bytes, at most 131072; 0: each has its own (default 131072)");

unsigned int dcbm_max_errors = 4;
module_param_named(max_errors, dcbm_max_errors, uint, 0444);
MODULE_PARM_DESC(max_errors, "errors in a row that retire a channel, at least 1 (default 4)");

unsigned int dcbm_timeout_ms = 5000;
module_param_named(timeout_ms, dcbm_timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "a channel whose oldest descriptor makes it wait for so many milliseconds is stuck, 10 to 600000 (default 5000)");

char *dcbm_allow;
module_param_named(allow, dcbm_allow, charp, 0444);
MODULE_PARM_DESC(allow, "drivers to use at one's own risk, separated by commas, besides those that promise to report errors (default: none)");

struct workqueue_struct *dcbm_wq;
static struct dentry *dcbm_debugfs;

/* --- watchdog: runs while something is in flight, or a channel is stuck --- */

static void dcbm_watch(struct work_struct *work)
{
	struct dcbm_chan *c;
	bool busy = false;

	rcu_read_lock();
	list_for_each_entry_rcu(c, &dcbm_chans, link) {
		dcbm_check_stuck(c);
		dcbm_bring_back(c);
		busy |= !list_empty(&c->busy) ||
			READ_ONCE(c->state) == DCBM_STUCK;
	}
	rcu_read_unlock();
	if (busy)
		dcbm_arm_watchdog();
}

static DECLARE_DELAYED_WORK(dcbm_watchdog, dcbm_watch);

void dcbm_arm_watchdog(void)
{
	/*
	 * A part was opened or became busy before. Either the watchdog sees it,
	 * or its pending bit, which it clears before it looks, is clear here.
	 */
	smp_mb();
	if (!delayed_work_pending(&dcbm_watchdog))
		queue_delayed_work(dcbm_wq, &dcbm_watchdog,
				   msecs_to_jiffies(dcbm_timeout_ms) / 4 + 1);
}

/* --- drivers that leave --- */

static int dcbm_bus_event(struct notifier_block *nb, unsigned long event,
			  void *dev)
{
	if (event == BUS_NOTIFY_UNBIND_DRIVER)
		dcbm_leave_device(dev);
	return NOTIFY_DONE;
}

/* Where dcbm hears of it; channels of devices on other buses are not taken */
static struct {
	const struct bus_type *bus;
	struct notifier_block nb;
} dcbm_buses[] = {
	{ &platform_bus_type, { .notifier_call = dcbm_bus_event } },
#ifdef CONFIG_PCI
	{ &pci_bus_type, { .notifier_call = dcbm_bus_event } },
#endif
};

bool dcbm_hears_of_unbind(struct device *dev)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(dcbm_buses); i++)
		if (dev->bus == dcbm_buses[i].bus)
			return true;
	return false;
}

static void dcbm_unwatch_buses(unsigned int nr)
{
	while (nr--)
		bus_unregister_notifier(dcbm_buses[nr].bus, &dcbm_buses[nr].nb);
}

static int dcbm_watch_buses(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(dcbm_buses); i++) {
		err = bus_register_notifier(dcbm_buses[i].bus,
					    &dcbm_buses[i].nb);
		if (err) {
			dcbm_unwatch_buses(i);
			return err;
		}
	}
	return 0;
}

/* --- migrator --- */

static int dcbm_begin(struct migrator *m)
{
	unsigned int nr = dcbm_take_channels();

	if (!nr) {
		dcbm_leave_channels();
		pr_err("no free DMA channel may copy memory: load the driver of a DMA engine first; of channels that are not used it is said above why\n");
		return -ENODEV;
	}
	pr_info("%u channels\n", nr);
	/* There may be some that were stuck before */
	dcbm_arm_watchdog();
	return 0;
}

static void dcbm_finish(struct migrator *m)
{
	dcbm_leave_channels();
}

static bool dcbm_in_service(struct migrator *m)
{
	return atomic_read(&dcbm_nr_live);
}

static void dcbm_limits(struct migrator *m, struct migrate_offload_limits *l)
{
	unsigned int live = atomic_read(&dcbm_nr_live);

	l->inflight_bytes = max_t(size_t, 2 * SZ_2M, live * SZ_256K);
	l->min_bytes = SZ_256K;
	l->stripe_bytes = SZ_128K;
}

static bool dcbm_flush(struct migrator *m, void *call)
{
	struct dcbm_chan *c;

	list_for_each_entry(c, &dcbm_chans, link)
		dcbm_issue(c);
	return true;
}

static int dcbm_look_at_channels(struct migrator *m, void *call)
{
	return dcbm_look();
}

static struct migrator dcbm_migrator = {
	.name = "dcbm",
	.owner = THIS_MODULE,
	.start = dcbm_begin,
	.stop = dcbm_finish,
	.in_service = dcbm_in_service,
	.limits = dcbm_limits,
	.submit = dcbm_submit,
	.flush = dcbm_flush,
	.look = dcbm_look_at_channels,
};

/* --- module --- */

DEFINE_SHOW_ATTRIBUTE(dcbm_channels);

static int dcbm_check_params(void)
{
	if (dcbm_max_channels > DCBM_MAX_CHANNELS)
		pr_err("channels must be 0 to %d\n", DCBM_MAX_CHANNELS);
	else if (!dcbm_queue_depth || dcbm_queue_depth > SZ_64K)
		pr_err("queue_depth must be 1 to 65536\n");
	else if (dcbm_share_bytes > DCBM_RUN_BYTES)
		pr_err("share_bytes must be 0 to %d\n", DCBM_RUN_BYTES);
	else if (!dcbm_max_errors)
		pr_err("max_errors must be at least 1\n");
	else if (dcbm_timeout_ms < 10 || dcbm_timeout_ms > 600000)
		pr_err("timeout_ms must be 10 to 600000\n");
	else
		return 0;
	return -EINVAL;
}

static int __init dcbm_init(void)
{
	int err;

	err = dcbm_check_params();
	if (err)
		return err;
	dcbm_max_channels = dcbm_max_channels ?: DCBM_MAX_CHANNELS;
	/* Memory may be reclaimed only once what a migration waits for is done */
	dcbm_wq = alloc_workqueue("dcbm", WQ_MEM_RECLAIM | WQ_PERCPU, 0);
	if (!dcbm_wq)
		return -ENOMEM;
	err = dcbm_watch_buses();
	if (err)
		goto free_wq;
	err = migrate_offload_register(&dcbm_migrator);
	if (err)
		goto unwatch;
	dcbm_debugfs = debugfs_create_dir("dcbm", NULL);
	debugfs_create_file("channels", 0444, dcbm_debugfs, NULL,
			    &dcbm_channels_fops);
	return 0;

unwatch:
	dcbm_unwatch_buses(ARRAY_SIZE(dcbm_buses));
free_wq:
	destroy_workqueue(dcbm_wq);
	return err;
}
module_init(dcbm_init);

static void __exit dcbm_exit(void)
{
	debugfs_remove_recursive(dcbm_debugfs);
	migrate_offload_unregister(&dcbm_migrator);
	/* Nothing arms it again */
	cancel_delayed_work_sync(&dcbm_watchdog);
	/* No copy is overdue, or the module would be in use */
	dcbm_wait_idle();
	dcbm_flush_reap();
	dcbm_reap();
	dcbm_unwatch_buses(ARRAY_SIZE(dcbm_buses));
	destroy_workqueue(dcbm_wq);
}
module_exit(dcbm_exit);

MODULE_DESCRIPTION("DMA channels as a copy engine for page migration");
MODULE_LICENSE("GPL");
