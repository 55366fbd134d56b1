// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: the life of a part
 *
 * submit -> busy -> done: unmapped, reported to the core, free again
 *                -> lost: reported as -ETIMEDOUT, yet its channel may go on
 *                   writing: the DMA mapping, a reference to the destination
 *                   folio and one to the module stay, until the channel ends
 *                   the part after all, or for ever
 *
 * Each part is mapped on its own. One mapping of the folio per device would
 * save a few calls, but several devices work on one folio, and the DMA API
 * does not let two of them have the same memory mapped for writing: with
 * bounce buffers the one that is unmapped last would undo the other's work.
 *
 * The maximum segment size of a device is about entries of scatterlists, of
 * which there are none here; drivers set it to 64 KiB by default, take larger
 * copies, and answer NULL when they do not.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include "dcbm.h"

static LLIST_HEAD(dcbm_late_parts);
static DECLARE_WAIT_QUEUE_HEAD(dcbm_idle);

/* --- DMA mapping --- */

static int dcbm_map(struct dcbm_part *part, struct migrate_copy *copy,
		    size_t start, size_t len)
{
	struct page *src = folio_page(copy->src, start >> PAGE_SHIFT);
	struct page *dst = folio_page(copy->dst, start >> PAGE_SHIFT);
	struct device *dev = part->chan->dev;

	part->src_dma = dma_map_page(dev, src, 0, len, DMA_TO_DEVICE);
	if (dma_mapping_error(dev, part->src_dma))
		return -EIO;
	part->dst_dma = dma_map_page(dev, dst, 0, len, DMA_FROM_DEVICE);
	if (dma_mapping_error(dev, part->dst_dma)) {
		dma_unmap_page(dev, part->src_dma, len, DMA_TO_DEVICE);
		return -EIO;
	}
	part->len = len;
	return 0;
}

static void dcbm_unmap(struct dcbm_part *part)
{
	struct device *dev = part->chan->dev;

	dma_unmap_page(dev, part->dst_dma, part->len, DMA_FROM_DEVICE);
	dma_unmap_page(dev, part->src_dma, part->len, DMA_TO_DEVICE);
}

/* --- the end --- */

static void dcbm_free(struct dcbm_part *part)
{
	dcbm_put_part(part);
	if (wq_has_sleeper(&dcbm_idle))
		wake_up(&dcbm_idle);
}

/* Process context: what lost parts held is given back */
static void dcbm_end_late(struct work_struct *work)
{
	struct dcbm_part *part, *next;

	llist_for_each_entry_safe(part, next, llist_del_all(&dcbm_late_parts),
				  late) {
		struct folio *dst = part->dst;

		dev_warn_ratelimited(part->chan->dev,
				     "dcbm: %s ended a lost copy of %zu bytes\n",
				     dcbm_name(part->chan), part->len);
		dcbm_unmap(part);
		dcbm_free(part);
		folio_put(dst);
		module_put(THIS_MODULE);
	}
}

static DECLARE_WORK(dcbm_late_work, dcbm_end_late);

/* The channel is done with the part: the one place where parts end */
static void dcbm_end(struct dcbm_part *part, int error)
{
	struct dcbm_chan *c = part->chan;
	struct migrate_copy *copy;
	unsigned long flags;

	spin_lock_irqsave(&c->lock, flags);
	copy = part->copy;
	part->copy = NULL;
	/* A part's time runs once those before it are done */
	if (list_is_first(&part->node, &c->busy) &&
	    !list_is_last(&part->node, &c->busy))
		list_next_entry(part, node)->since = jiffies;
	list_del(&part->node);
	spin_unlock_irqrestore(&c->lock, flags);

	dcbm_result(c, !error);
	if (!copy) {
		llist_add(&part->late, &dcbm_late_parts);
		schedule_work(&dcbm_late_work);
		return;
	}
	dcbm_unmap(part);
	dcbm_free(part);
	migrate_copy_done(copy, error);
}

static void dcbm_callback(void *param, const struct dmaengine_result *result)
{
	struct dcbm_part *part = param;
	int error = 0;

	/* No word from the channel means that the part was not copied */
	if (!result || result->result != DMA_TRANS_NOERROR) {
		dev_err_ratelimited(part->chan->dev,
				    "dcbm: %s cannot copy %zu bytes: result %d\n",
				    dcbm_name(part->chan), part->len,
				    result ? result->result : -1);
		error = -EIO;
	}
	dcbm_end(part, error);
}

/* --- the beginning --- */

static int dcbm_start(struct dcbm_part *part, struct migrate_copy *copy)
{
	struct dcbm_chan *c = part->chan;
	struct dma_async_tx_descriptor *tx;
	unsigned long flags;
	dma_cookie_t cookie;

	spin_lock(&c->submit_lock);
	tx = dmaengine_prep_dma_memcpy(c->chan, part->dst_dma, part->src_dma,
				       part->len,
				       DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
	if (!tx) {
		spin_unlock(&c->submit_lock);
		return -EBUSY;
	}
	tx->callback_result = dcbm_callback;
	tx->callback_param = part;

	spin_lock_irqsave(&c->lock, flags);
	part->copy = copy;
	part->since = jiffies;
	list_add_tail(&part->node, &c->busy);
	c->submitted++;
	spin_unlock_irqrestore(&c->lock, flags);

	cookie = dmaengine_submit(tx);
	WRITE_ONCE(c->unissued, true);
	spin_unlock(&c->submit_lock);

	if (dma_submit_error(cookie))
		dcbm_end(part, -EIO);
	return 0;
}

/* Find a channel for a part of the folio */
static int dcbm_submit_part(struct migrate_copy *copy, size_t start, size_t len)
{
	DECLARE_BITMAP(tried, DCBM_MAX_CHANNELS) = { };
	int node = folio_nid(copy->dst);
	struct dcbm_part *part;
	int err = -EBUSY;

	while ((part = dcbm_get_part(node, tried))) {
		err = dcbm_map(part, copy, start, len);
		if (!err) {
			err = dcbm_start(part, copy);
			if (!err)
				break;
			dcbm_unmap(part);
		}
		dcbm_free(part);
	}
	return err;
}

int dcbm_submit(struct migrator *m, struct migrate_copy *copy)
{
	size_t size = folio_size(copy->src), start = 0, end;
	unsigned int live, room, nr, i;
	int err;

	room = dcbm_room(&live);
	if (!room)
		return live ? -EBUSY : -ENODEV;
	nr = dcbm_nr_parts(size, copy->stripe_bytes, live, room);
	migrate_copy_split(copy, nr);

	/* The copy may be gone once its last part was started */
	for (i = 0; i < nr; i++) {
		end = dcbm_part_start(size, nr, i + 1);
		err = dcbm_submit_part(copy, start, end - start);
		if (err && !i)
			return err;
		if (err)
			migrate_copy_done(copy, err);
		start = end;
	}
	dcbm_arm_watchdog();
	return 0;
}

/* --- losing --- */

/*
 * The oldest part goes from busy to lost; its copy is returned. Until that
 * copy is done, the destination folio belongs to it and a reference can be
 * taken.
 */
static struct migrate_copy *dcbm_lose(struct dcbm_chan *c)
{
	struct migrate_copy *copy = NULL;
	struct dcbm_part *part;

	spin_lock_irq(&c->lock);
	part = list_first_entry_or_null(&c->busy, struct dcbm_part, node);
	if (part) {
		copy = part->copy;
		part->copy = NULL;
		part->dst = copy->dst;
		folio_get(part->dst);
		__module_get(THIS_MODULE);
		list_move_tail(&part->node, &c->lost);
	}
	spin_unlock_irq(&c->lock);
	return copy;
}

static bool dcbm_is_stuck(struct dcbm_chan *c)
{
	struct dcbm_part *oldest;
	bool stuck = false;

	spin_lock_irq(&c->lock);
	oldest = list_first_entry_or_null(&c->busy, struct dcbm_part, node);
	if (oldest && time_after(jiffies, oldest->since +
				 msecs_to_jiffies(dcbm_timeout_ms))) {
		WRITE_ONCE(c->state, DCBM_STUCK);
		stuck = true;
	}
	spin_unlock_irq(&c->lock);
	return stuck;
}

/**
 * dcbm_check_stuck - give up on a channel that does not end a part in time
 * @c: the channel
 *
 * It is not terminated: some drivers do not survive that, others cannot stop
 * what they have begun. Its parts are lost, and kept safe for ever.
 */
void dcbm_check_stuck(struct dcbm_chan *c)
{
	struct migrate_copy *copy;
	unsigned int lost = 0;

	/* Nobody's descriptor waits for long because its submitter sleeps */
	dcbm_issue(c);
	if (!dcbm_is_stuck(c))
		return;
	while ((copy = dcbm_lose(c))) {
		lost++;
		migrate_copy_done(copy, -ETIMEDOUT);
	}
	dev_err(c->dev, "dcbm: %s is stuck for %u ms: retired, with %u copies lost and their pages kept\n",
		dcbm_name(c), dcbm_timeout_ms, lost);
}

static bool dcbm_all_idle(void)
{
	struct dcbm_chan *c;

	list_for_each_entry(c, &dcbm_chans, link)
		if (READ_ONCE(c->in_flight))
			return false;
	return true;
}

/* Wait for the last part, lost ones included, and for its callback's end */
void dcbm_wait_idle(void)
{
	while (!wait_event_timeout(dcbm_idle, dcbm_all_idle(), 10 * HZ))
		pr_warn("still waiting for a stuck channel\n");
	flush_work(&dcbm_late_work);
	synchronize_rcu();
}
