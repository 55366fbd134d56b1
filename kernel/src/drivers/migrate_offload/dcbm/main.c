// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm - a migrator that copies with DMA channels
 *
 * A folio is cut into parts, one per channel, which are submitted one by one
 * and complete in any order. A part that no channel takes, or that fails,
 * costs that folio the fast path: the core copies it with the CPU. Nothing is
 * allocated between loading and unloading.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>

#include "dcbm.h"

static unsigned int dcbm_channels;
module_param_named(channels, dcbm_channels, uint, 0444);
MODULE_PARM_DESC(channels, "take at most so many channels, up to 256; 0 takes all that are free (default 0)");

static bool dcbm_exclusive = true;
module_param_named(exclusive, dcbm_exclusive, bool, 0444);
MODULE_PARM_DESC(exclusive, "take unused public channels for dcbm alone, rather than share them (default Y)");

unsigned int dcbm_queue_depth = 32;
module_param_named(queue_depth, dcbm_queue_depth, uint, 0444);
MODULE_PARM_DESC(queue_depth, "descriptors in flight per channel, 1 to 65536 (default 32)");

unsigned int dcbm_max_errors = 4;
module_param_named(max_errors, dcbm_max_errors, uint, 0444);
MODULE_PARM_DESC(max_errors, "errors in a row that retire a channel, at least 1 (default 4)");

unsigned int dcbm_timeout_ms = 5000;
module_param_named(timeout_ms, dcbm_timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "a channel whose oldest descriptor makes it wait for so many milliseconds is stuck, 10 to 600000 (default 5000)");

static struct dentry *dcbm_debugfs;

/* --- watchdog: runs while something is in flight --- */

static void dcbm_watch(struct work_struct *work)
{
	bool busy = false;
	struct dcbm_chan *c;

	list_for_each_entry(c, &dcbm_chans, link) {
		dcbm_check_stuck(c);
		busy |= !list_empty(&c->busy);
	}
	if (busy)
		dcbm_arm_watchdog();
}

static DECLARE_DELAYED_WORK(dcbm_watchdog, dcbm_watch);

void dcbm_arm_watchdog(void)
{
	/*
	 * A part was added to a busy list before. Either the watchdog sees it,
	 * or its pending bit, which it clears before it looks, is clear here.
	 */
	smp_mb();
	if (!delayed_work_pending(&dcbm_watchdog))
		schedule_delayed_work(&dcbm_watchdog,
				      msecs_to_jiffies(dcbm_timeout_ms) / 4 + 1);
}

/* --- migrator --- */

static void dcbm_limits(struct migrator *m, struct migrate_offload_limits *l)
{
	unsigned int live;

	dcbm_room(&live);
	l->inflight_bytes = max_t(size_t, 2 * SZ_2M, live * SZ_256K);
	l->min_bytes = SZ_256K;
	l->stripe_bytes = SZ_128K;
}

static bool dcbm_flush(struct migrator *m)
{
	struct dcbm_chan *c;

	list_for_each_entry(c, &dcbm_chans, link)
		dcbm_issue(c);
	return true;
}

static struct migrator dcbm_migrator = {
	.name = "dcbm",
	.owner = THIS_MODULE,
	.limits = dcbm_limits,
	.submit = dcbm_submit,
	.flush = dcbm_flush,
};

/* --- module --- */

DEFINE_SHOW_ATTRIBUTE(dcbm_channels);

static int dcbm_check_params(void)
{
	if (dcbm_channels > DCBM_MAX_CHANNELS)
		pr_err("channels must be 0 to %d\n", DCBM_MAX_CHANNELS);
	else if (!dcbm_queue_depth || dcbm_queue_depth > SZ_64K)
		pr_err("queue_depth must be 1 to 65536\n");
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
	unsigned int nr;
	int err;

	err = dcbm_check_params();
	if (err)
		return err;
	nr = dcbm_take_channels(dcbm_channels ?: DCBM_MAX_CHANNELS,
				dcbm_exclusive);
	if (!nr) {
		pr_err("no free DMA channel can copy memory: load the driver of a DMA engine first\n");
		return -ENODEV;
	}
	err = migrate_offload_register(&dcbm_migrator);
	if (err) {
		dcbm_release_channels();
		return err;
	}
	dcbm_debugfs = debugfs_create_dir("dcbm", NULL);
	debugfs_create_file("channels", 0444, dcbm_debugfs, NULL,
			    &dcbm_channels_fops);
	pr_info("%u channels\n", nr);
	return 0;
}
module_init(dcbm_init);

static void __exit dcbm_exit(void)
{
	debugfs_remove_recursive(dcbm_debugfs);
	migrate_offload_unregister(&dcbm_migrator);
	dcbm_wait_idle();
	cancel_delayed_work_sync(&dcbm_watchdog);
	dcbm_release_channels();
}
module_exit(dcbm_exit);

MODULE_DESCRIPTION("DMA channels as a copy engine for page migration");
MODULE_LICENSE("GPL");
