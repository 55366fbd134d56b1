// SPDX-License-Identifier: GPL-2.0
/*
 * softdma - a memcpy DMA engine in software, for tests only
 *
 * Each channel is a kernel thread that takes the issued descriptors one by
 * one, copies, sleeps until the modelled time of the copy is over, and
 * completes the descriptor with a result. Without a modelled bandwidth the
 * channel is as fast as the CPU. A page that is marked poisoned is not read,
 * as real hardware would not get its bytes.
 *
 * There is a platform device, which no IOMMU is in front of. A PCI device whose
 * driver_override says softdma becomes one as well: it lends its IOMMU. What that
 * does not map at this moment is neither read nor written.
 *
 * softdma_params.h describes the faults that can be injected.
 */
#include <linux/dma-direct.h>
#include <linux/dmaengine.h>
#include <linux/iommu.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "softdma_params.h"
#include "../virt-dma.h"

/* @src, @dst and @left are what is to be copied next: of a list, in an entry */
struct softdma_desc {
	struct virt_dma_desc vd;
	dma_addr_t src;
	dma_addr_t dst;
	size_t left;
	struct scatterlist *src_sg;
	struct scatterlist *dst_sg;
	unsigned int nents;
	size_t len;
	size_t done;
	ktime_t issued;
	unsigned long faults;
	int stall_epoch;
};

/* All but @idle is protected by vc.lock; the thread alone touches @busy_until */
struct softdma_chan {
	struct virt_dma_chan vc;
	struct task_struct *thread;
	struct softdma_desc *ring;
	struct list_head free;
	struct softdma_desc *active;
	bool abort;		/* @active has been terminated */
	bool full;		/* pretend so until a descriptor is free again */
	ktime_t busy_until;
	wait_queue_head_t idle;	/* woken when an aborted descriptor is gone */
};

struct softdma_dev {
	struct dma_device ddev;
	struct softdma_config config;
	struct list_head node;
	struct softdma_chan chan[] __counted_by(config.channels);
};

static DEFINE_MUTEX(softdma_lock);	/* protects softdma_devs */
static LIST_HEAD(softdma_devs);

/* --- the thread of a channel --- */

static struct softdma_chan *to_softdma_chan(struct dma_chan *chan)
{
	return container_of(chan, struct softdma_chan, vc.chan);
}

static struct softdma_dev *to_softdma_dev(struct dma_chan *chan)
{
	return container_of(chan->device, struct softdma_dev, ddev);
}

static struct softdma_desc *to_softdma_desc(struct virt_dma_desc *vd)
{
	return container_of(vd, struct softdma_desc, vd);
}

/* The active descriptor is wanted no more; called by the thread */
static bool softdma_gone(struct softdma_chan *c)
{
	return READ_ONCE(c->abort) || kthread_should_stop();
}

#include "softdma_copy.h"

/* Let the thread look at its channel again */
static void softdma_wake(struct softdma_chan *c)
{
	lockdep_assert_held(&c->vc.lock);
	if (c->thread)
		wake_up_process(c->thread);
}

static void softdma_sleep_until(struct softdma_chan *c, ktime_t end)
{
	for (;;) {
		set_current_state(TASK_IDLE);
		if (softdma_gone(c) || !ktime_before(ktime_get(), end))
			break;
		schedule_hrtimeout(&end, HRTIMER_MODE_ABS);
	}
	__set_current_state(TASK_RUNNING);
}

static struct softdma_desc *softdma_take(struct softdma_chan *c)
{
	struct virt_dma_desc *vd, *next;

	spin_lock_irq(&c->vc.lock);
	vd = vchan_next_desc(&c->vc);
	if (vd && !list_is_last(&vd->node, &c->vc.desc_issued) &&
	    softdma_inject(SOFTDMA_SWAP)) {
		next = list_next_entry(vd, node);
		/* The last completed cookie of a channel only ever grows */
		swap(vd->tx.cookie, next->tx.cookie);
		vd = next;
	}
	if (vd) {
		list_del(&vd->node);
		c->active = to_softdma_desc(vd);
	}
	spin_unlock_irq(&c->vc.lock);
	return vd ? to_softdma_desc(vd) : NULL;
}

static void softdma_put_desc(struct softdma_chan *c, struct softdma_desc *d)
{
	lockdep_assert_held(&c->vc.lock);
	list_add(&d->vd.node, &c->free);
	c->full = false;
}

static void softdma_finish(struct softdma_chan *c, struct softdma_desc *d,
			   enum dmaengine_tx_result result)
{
	/* Callbacks run at the end of the section, not in ksoftirqd later */
	local_bh_disable();
	spin_lock_irq(&c->vc.lock);
	c->active = NULL;
	if (softdma_gone(c)) {
		softdma_put_desc(c, d);
		c->abort = false;
		wake_up(&c->idle);
	} else {
		d->vd.tx_result.result = result;
		d->vd.tx_result.residue = d->len - d->done;
		vchan_cookie_complete(&d->vd);
	}
	spin_unlock_irq(&c->vc.lock);
	local_bh_enable();
}

static void softdma_wait_unstalled(struct softdma_chan *c,
				   struct softdma_desc *d)
{
	wait_event_idle(softdma_unstall, softdma_gone(c) ||
			softdma_unstalled(d->stall_epoch));
}

static void softdma_run(struct softdma_chan *c, struct softdma_desc *d)
{
	enum dmaengine_tx_result result;
	ktime_t start = d->issued, end;

	/* A queue that never ran dry goes on where its last copy ended */
	if (ktime_after(c->busy_until, start))
		start = c->busy_until;
	if (test_bit(SOFTDMA_LATE, &d->faults))
		start = ktime_add_ms(start, READ_ONCE(softdma_late_ms));
	end = ktime_add(start, softdma_copy_time(d->len, d->nents));
	c->busy_until = end;

	if (test_bit(SOFTDMA_STALL, &d->faults))
		softdma_wait_unstalled(c, d);
	if (test_bit(SOFTDMA_LATE, &d->faults))
		softdma_sleep_until(c, end);
	result = softdma_gone(c) ? DMA_TRANS_ABORTED : softdma_copy(c, d);
	softdma_sleep_until(c, end);
	if (test_bit(SOFTDMA_LOST_IRQ, &d->faults))
		softdma_wait_unstalled(c, d);
	softdma_finish(c, d, result);
}

static int softdma_thread(void *data)
{
	struct softdma_chan *c = data;
	struct softdma_desc *d;

	for (;;) {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		d = softdma_take(c);
		if (!d) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		softdma_run(c, d);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* --- dmaengine --- */

static void softdma_desc_free(struct virt_dma_desc *vd)
{
	struct softdma_chan *c = to_softdma_chan(vd->tx.chan);
	unsigned long flags;

	spin_lock_irqsave(&c->vc.lock, flags);
	softdma_put_desc(c, to_softdma_desc(vd));
	spin_unlock_irqrestore(&c->vc.lock, flags);
}

static struct softdma_desc *softdma_get_desc(struct softdma_chan *c)
{
	struct softdma_desc *d = NULL;
	struct virt_dma_desc *vd;
	unsigned long flags;

	spin_lock_irqsave(&c->vc.lock, flags);
	vd = list_first_entry_or_null(&c->free, struct virt_dma_desc, node);
	if (vd && !c->full) {
		list_del(&vd->node);
		d = to_softdma_desc(vd);
	}
	spin_unlock_irqrestore(&c->vc.lock, flags);
	return d;
}

/* The ring is full from now on if one of its descriptors is in use */
static bool softdma_pretend_full(struct softdma_chan *c)
{
	struct softdma_dev *sd = to_softdma_dev(&c->vc.chan);
	unsigned long flags;

	if (!softdma_inject(SOFTDMA_RING_FULL))
		return false;
	spin_lock_irqsave(&c->vc.lock, flags);
	c->full = list_count_nodes(&c->free) < sd->config.ring;
	spin_unlock_irqrestore(&c->vc.lock, flags);
	return true;
}

static struct softdma_desc *softdma_prep(struct softdma_chan *c, size_t len)
{
	struct softdma_desc *d;
	unsigned int id;

	if (!len || len > U32_MAX)	/* the residue is 32 bits wide */
		return NULL;
	if (softdma_inject(SOFTDMA_PREP_NULL) || softdma_pretend_full(c))
		return NULL;
	d = softdma_get_desc(c);
	if (!d)
		return NULL;

	memset(d, 0, sizeof(*d));
	d->len = len;
	for (id = SOFTDMA_READ_ERROR; id <= SOFTDMA_LATE; id++)
		if (softdma_inject(id))
			__set_bit(id, &d->faults);
	d->stall_epoch = softdma_stall_now();
	return d;
}

static struct dma_async_tx_descriptor *
softdma_prep_memcpy(struct dma_chan *chan, dma_addr_t dst, dma_addr_t src,
		    size_t len, unsigned long flags)
{
	struct softdma_chan *c = to_softdma_chan(chan);
	struct softdma_desc *d = softdma_prep(c, len);

	if (!d)
		return NULL;
	d->src = src;
	d->dst = dst;
	d->left = len;
	d->nents = 1;
	return vchan_tx_prep(&c->vc, &d->vd, flags);
}

static struct dma_async_tx_descriptor *
softdma_prep_memcpy_sg(struct dma_chan *chan, struct scatterlist *dst,
		       struct scatterlist *src, unsigned int nents,
		       unsigned long flags)
{
	struct softdma_chan *c = to_softdma_chan(chan);
	struct softdma_desc *d;
	struct scatterlist *sg;
	size_t len = 0;
	unsigned int i;

	for_each_sg(src, sg, nents, i)
		len += sg_dma_len(sg);
	d = softdma_prep(c, len);
	if (!d)
		return NULL;
	d->src_sg = src;
	d->dst_sg = dst;
	d->src = sg_dma_address(src);
	d->dst = sg_dma_address(dst);
	d->left = sg_dma_len(src);
	d->nents = nents;
	return vchan_tx_prep(&c->vc, &d->vd, flags);
}

static void softdma_issue_pending(struct dma_chan *chan)
{
	struct softdma_chan *c = to_softdma_chan(chan);
	ktime_t now = ktime_get();
	struct virt_dma_desc *vd;
	unsigned long flags;

	spin_lock_irqsave(&c->vc.lock, flags);
	list_for_each_entry(vd, &c->vc.desc_submitted, node)
		to_softdma_desc(vd)->issued = now;
	if (vchan_issue_pending(&c->vc))
		softdma_wake(c);
	spin_unlock_irqrestore(&c->vc.lock, flags);
}

static u32 softdma_residue(struct softdma_chan *c, dma_cookie_t cookie)
{
	unsigned int i;

	lockdep_assert_held(&c->vc.lock);
	for (i = 0; i < to_softdma_dev(&c->vc.chan)->config.ring; i++)
		if (c->ring[i].vd.tx.cookie == cookie)
			return c->ring[i].len - READ_ONCE(c->ring[i].done);
	return 0;
}

static enum dma_status softdma_tx_status(struct dma_chan *chan,
					 dma_cookie_t cookie,
					 struct dma_tx_state *state)
{
	struct softdma_chan *c = to_softdma_chan(chan);
	enum dma_status status;
	unsigned long flags;

	spin_lock_irqsave(&c->vc.lock, flags);
	status = dma_cookie_status(chan, cookie, state);
	if (status != DMA_COMPLETE)
		dma_set_residue(state, softdma_residue(c, cookie));
	spin_unlock_irqrestore(&c->vc.lock, flags);
	if (dma_has_cap(DMA_COMPLETION_NO_ORDER, chan->device->cap_mask))
		return DMA_OUT_OF_ORDER;
	return status;
}

/* Descriptors that are prepared but not submitted stay with their client */
static int softdma_terminate_all(struct dma_chan *chan)
{
	struct softdma_chan *c = to_softdma_chan(chan);
	unsigned long flags;
	LIST_HEAD(head);

	spin_lock_irqsave(&c->vc.lock, flags);
	list_splice_tail_init(&c->vc.desc_submitted, &head);
	list_splice_tail_init(&c->vc.desc_issued, &head);
	list_splice_tail_init(&c->vc.desc_completed, &head);
	if (c->active) {
		WRITE_ONCE(c->abort, true);
		softdma_wake(c);
	}
	spin_unlock_irqrestore(&c->vc.lock, flags);
	vchan_dma_desc_free_list(&c->vc, &head);
	return 0;
}

static void softdma_synchronize(struct dma_chan *chan)
{
	struct softdma_chan *c = to_softdma_chan(chan);

	wait_event(c->idle, !READ_ONCE(c->abort));
	vchan_synchronize(&c->vc);
}

static int softdma_alloc_chan_resources(struct dma_chan *chan)
{
	struct softdma_chan *c = to_softdma_chan(chan);
	struct softdma_dev *sd = to_softdma_dev(chan);
	struct task_struct *thread;
	unsigned int i;

	c->ring = kvcalloc(sd->config.ring, sizeof(*c->ring), GFP_KERNEL);
	if (!c->ring)
		return -ENOMEM;
	INIT_LIST_HEAD(&c->free);
	for (i = 0; i < sd->config.ring; i++)
		list_add_tail(&c->ring[i].vd.node, &c->free);
	c->full = false;

	thread = kthread_create_on_node(softdma_thread, c,
					dev_to_node(chan->device->dev),
					"%s", dma_chan_name(chan));
	if (IS_ERR(thread)) {
		kvfree(c->ring);
		return PTR_ERR(thread);
	}
	c->thread = thread;
	wake_up_process(thread);
	return sd->config.ring;
}

static void softdma_free_chan_resources(struct dma_chan *chan)
{
	struct softdma_chan *c = to_softdma_chan(chan);
	struct task_struct *thread = c->thread;

	spin_lock_irq(&c->vc.lock);
	c->thread = NULL;
	spin_unlock_irq(&c->vc.lock);
	kthread_stop(thread);
	tasklet_kill(&c->vc.task);
	vchan_free_chan_resources(&c->vc);
	kvfree(c->ring);
}

/* --- devices --- */

static void softdma_declare_order(struct softdma_dev *sd)
{
	if (softdma_faults[SOFTDMA_SWAP].every)
		dma_cap_set(DMA_COMPLETION_NO_ORDER, sd->ddev.cap_mask);
	else
		dma_cap_clear(DMA_COMPLETION_NO_ORDER, sd->ddev.cap_mask);
}

static void softdma_order_changed(void)
{
	struct softdma_dev *sd;

	mutex_lock(&softdma_lock);
	list_for_each_entry(sd, &softdma_devs, node)
		softdma_declare_order(sd);
	mutex_unlock(&softdma_lock);
}

static void softdma_init_chan(struct softdma_dev *sd, struct softdma_chan *c)
{
	c->vc.desc_free = softdma_desc_free;
	vchan_init(&c->vc, &sd->ddev);
	init_waitqueue_head(&c->idle);
}

static void softdma_init_dma_device(struct dma_device *ddev, struct device *dev)
{
	INIT_LIST_HEAD(&ddev->channels);
	ddev->dev = dev;
	ddev->directions = BIT(DMA_MEM_TO_MEM);
	ddev->residue_granularity = DMA_RESIDUE_GRANULARITY_BURST;
	ddev->device_alloc_chan_resources = softdma_alloc_chan_resources;
	ddev->device_free_chan_resources = softdma_free_chan_resources;
	ddev->device_prep_dma_memcpy = softdma_prep_memcpy;
	ddev->device_issue_pending = softdma_issue_pending;
	ddev->device_tx_status = softdma_tx_status;
	ddev->device_terminate_all = softdma_terminate_all;
	ddev->device_synchronize = softdma_synchronize;
	dma_cap_set(DMA_MEMCPY, ddev->cap_mask);
}

static int softdma_attach(struct device *dev, const struct softdma_config *config)
{
	struct softdma_dev *sd;
	unsigned int i;
	int err;

	sd = devm_kzalloc(dev, struct_size(sd, chan, config->channels),
			  GFP_KERNEL);
	if (!sd)
		return -ENOMEM;
	sd->config = *config;
	softdma_init_dma_device(&sd->ddev, dev);
	for (i = 0; i < config->channels; i++)
		softdma_init_chan(sd, &sd->chan[i]);
	sd->ddev.reports_errors = config->reports_errors;
	if (config->private)
		dma_cap_set(DMA_PRIVATE, sd->ddev.cap_mask);
	if (config->lists) {
		sd->ddev.device_prep_dma_memcpy_sg = softdma_prep_memcpy_sg;
		dma_cap_set(DMA_MEMCPY_SG, sd->ddev.cap_mask);
	}
	softdma_declare_order(sd);

	err = dma_async_device_register(&sd->ddev);
	if (err)
		return err;
	dev_set_drvdata(dev, sd);
	mutex_lock(&softdma_lock);
	list_add_tail(&sd->node, &softdma_devs);
	mutex_unlock(&softdma_lock);
	dev_info(dev, "%u channels in software, for tests only\n",
		 config->channels);
	return 0;
}

/* Clients give their channels back before; dmaengine warns of those who do not */
static void softdma_detach(struct device *dev)
{
	struct softdma_dev *sd = dev_get_drvdata(dev);

	mutex_lock(&softdma_lock);
	list_del(&sd->node);
	mutex_unlock(&softdma_lock);
	dma_async_device_unregister(&sd->ddev);
}

static int softdma_probe(struct platform_device *pdev)
{
	int err;

	err = dma_coerce_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (err)
		return err;
	return softdma_attach(&pdev->dev, dev_get_platdata(&pdev->dev));
}

static void softdma_remove(struct platform_device *pdev)
{
	softdma_detach(&pdev->dev);
}

static struct platform_driver softdma_driver = {
	.probe = softdma_probe,
	.remove = softdma_remove,
	.driver = {
		.name = "softdma",
	},
};

static int softdma_pci_probe(struct pci_dev *pdev,
			     const struct pci_device_id *id)
{
	int err;

	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (err)
		return err;
	return softdma_attach(&pdev->dev, &softdma_config);
}

static void softdma_pci_remove(struct pci_dev *pdev)
{
	softdma_detach(&pdev->dev);
}

/* Without ids it is bound to what names it in its driver_override */
static struct pci_driver softdma_pci_driver = {
	.name = "softdma",
	.probe = softdma_pci_probe,
	.remove = softdma_pci_remove,
};

static struct platform_device *softdma_pdevs[MAX_NUMNODES];

static struct platform_device *
softdma_add_device(int id, int node, const struct softdma_config *config)
{
	struct platform_device *pdev;
	int err;

	pdev = platform_device_alloc("softdma", id);
	if (!pdev)
		return ERR_PTR(-ENOMEM);
	set_dev_node(&pdev->dev, node);
	err = platform_device_add_data(pdev, config, sizeof(*config));
	if (!err)
		err = platform_device_add(pdev);
	if (err) {
		platform_device_put(pdev);
		return ERR_PTR(err);
	}
	if (!device_is_bound(&pdev->dev)) {
		platform_device_unregister(pdev);
		return ERR_PTR(-ENODEV);
	}
	return pdev;
}

static void softdma_remove_devices(void)
{
	int nid;

	for_each_node(nid)
		platform_device_unregister(softdma_pdevs[nid]);
}

static int softdma_add_devices(void)
{
	struct platform_device *pdev;
	int nid;

	for_each_node_state(nid, N_MEMORY) {
		pdev = softdma_add_device(nid, softdma_per_node ? nid :
					  NUMA_NO_NODE, &softdma_config);
		if (IS_ERR(pdev)) {
			softdma_remove_devices();
			return PTR_ERR(pdev);
		}
		softdma_pdevs[nid] = pdev;
		if (!softdma_per_node)
			break;
	}
	return 0;
}

static int __init softdma_init(void)
{
	int err;

	if (!softdma_config.channels ||
	    softdma_config.channels > SOFTDMA_MAX_CHANNELS ||
	    !softdma_config.ring || softdma_config.ring > SOFTDMA_MAX_RING) {
		pr_err("softdma: channels must be 1 to %d and ring 1 to %d\n",
		       SOFTDMA_MAX_CHANNELS, SOFTDMA_MAX_RING);
		return -EINVAL;
	}
	err = platform_driver_register(&softdma_driver);
	if (err)
		return err;
	err = softdma_add_devices();
	if (err)
		goto unregister;
	err = pci_register_driver(&softdma_pci_driver);
	if (err)
		goto remove;
	return 0;

remove:
	softdma_remove_devices();
unregister:
	platform_driver_unregister(&softdma_driver);
	return err;
}
module_init(softdma_init);

static void __exit softdma_exit(void)
{
	pci_unregister_driver(&softdma_pci_driver);
	softdma_remove_devices();
	platform_driver_unregister(&softdma_driver);
}
module_exit(softdma_exit);

#if IS_ENABLED(CONFIG_SOFTDMA_KUNIT_TEST)
#include "softdma_test.c"
#endif

MODULE_DESCRIPTION("Software memcpy DMA engine with fault injection, for tests only");
MODULE_LICENSE("GPL");
