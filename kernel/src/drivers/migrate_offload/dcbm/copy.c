// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: the life of a part
 *
 * submit -> busy -> done: unmapped, reported to the core, free again
 *
 * A part that its channel does not end stays busy, and mapped, until it does, or for
 * ever. The core keeps its folios, and is told that nobody need wait for them.
 *
 * A part is all of a folio, or what one of several channels copies of it, or
 * several small folios (runs.c). Parts of a folio that follow each other on
 * channels of one device share a mapping, which the first of them owns. Nothing
 * else is shared: no two devices have the same bytes mapped.
 *
 * The maximum segment size of a device is about entries of scatterlists, of
 * which there are none here; drivers set it to 64 KiB by default, take larger
 * copies, and answer NULL when they do not.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/jiffies.h>
#include <linux/sched/clock.h>
#include <linux/workqueue.h>

#include "dcbm.h"

/* --- DMA mapping --- */

/* Map what @owner and those behind it that go to the same device will copy */
static int dcbm_map(struct dcbm_part *owner, struct list_head *parts)
{
	struct page *src = pfn_to_page(owner->src);
	struct page *dst = pfn_to_page(owner->dst);
	struct device *dev = owner->chan->dev;
	struct dcbm_part *part = owner;
	size_t len = 0;
	int users = 0;

	list_for_each_entry_from(part, parts, node) {
		if (part->chan->dev != dev)
			break;
		part->owner = owner;
		len += part->len;
		users++;
	}
	owner->src_dma = dma_map_page(dev, src, 0, len, DMA_TO_DEVICE);
	if (dma_mapping_error(dev, owner->src_dma))
		goto error;
	owner->dst_dma = dma_map_page(dev, dst, 0, len, DMA_FROM_DEVICE);
	if (dma_mapping_error(dev, owner->dst_dma))
		goto unmap;
	owner->mapped = len;
	atomic_set(&owner->users, users);
	return 0;

unmap:
	dma_unmap_page(dev, owner->src_dma, len, DMA_TO_DEVICE);
error:
	list_for_each_entry_from(owner, parts, node)
		owner->owner = NULL;
	return -EIO;
}

static int dcbm_map_one(struct dcbm_part *part)
{
	LIST_HEAD(parts);
	int err;

	if (part->scatter) {
		err = dcbm_map_scatter(part);
		part->owner = err ? NULL : part;
		atomic_set(&part->users, 1);
		return err;
	}
	list_add(&part->node, &parts);
	err = dcbm_map(part, &parts);
	list_del(&part->node);
	return err;
}

static void dcbm_unmap(struct dcbm_part *owner)
{
	struct device *dev = owner->chan->dev;

	if (owner->scatter) {
		dcbm_unmap_scatter(owner);
		return;
	}
	dma_unmap_page(dev, owner->dst_dma, owner->mapped, DMA_FROM_DEVICE);
	dma_unmap_page(dev, owner->src_dma, owner->mapped, DMA_TO_DEVICE);
}

/*
 * The channel needs the part no more, or never got it; an owner stays as long
 * as its mapping
 */
static void dcbm_free(struct dcbm_part *part)
{
	struct dcbm_part *owner = part->owner;

	if (part != owner)
		dcbm_put_part(part);
	if (owner && atomic_dec_and_test(&owner->users)) {
		dcbm_unmap(owner);
		dcbm_put_part(owner);
	}
}

/* --- the end --- */

/* Process context: channels that nobody uses any more are given back */
static void dcbm_reap_idle(struct work_struct *work)
{
	dcbm_reap();
}

static DECLARE_WORK(dcbm_reap_work, dcbm_reap_idle);

void dcbm_flush_reap(void)
{
	flush_work(&dcbm_reap_work);
}

/* Called with the channel's lock held. Return: true if it is retired by this */
static bool dcbm_count(struct dcbm_chan *c, bool copied)
{
	if (copied) {
		c->completed++;
		c->errors_in_row = 0;
		return false;
	}
	c->errors++;
	if (++c->errors_in_row < dcbm_max_errors || c->state != DCBM_LIVE)
		return false;
	dcbm_retire(c, DCBM_FAILED);
	return true;
}

/* Who waits for one of its copies wakes, while these are there */
static void dcbm_tell(struct dcbm_part *part)
{
	unsigned int i;

	for (i = 0; part->tell && i < part->nr_copies; i++)
		if (part->copies[i]->tell)
			migrate_copy_told(part->copies[i]);
}

/* The part is done with, and so is what it was of its copies */
static void dcbm_part_done(struct dcbm_part *part, int error)
{
	struct migrate_copy *copy = part->copies[0];
	unsigned int i, nr = part->nr_copies;

	dcbm_tell(part);
	if (nr == 1) {
		dcbm_free(part);
		migrate_copy_done(copy, error);
	} else {
		/* It shares its mapping with none: nobody else frees it */
		if (part->owner)
			dcbm_unmap(part);
		for (i = 0; i < nr; i++)
			migrate_copy_done(part->copies[i], error);
		dcbm_put_part(part);
	}
	if (!dcbm_is_active())
		queue_work(dcbm_wq, &dcbm_reap_work);
}

/* The channel is done with the part: the one place where parts in flight end */
static void dcbm_end(struct dcbm_part *part, int error)
{
	struct dcbm_chan *c = part->chan;
	unsigned long flags;
	bool retired;

	spin_lock_irqsave(&c->lock, flags);
	/* A part's time runs once those before it are done */
	if (list_is_first(&part->node, &c->busy) &&
	    !list_is_last(&part->node, &c->busy))
		list_next_entry(part, node)->since = jiffies;
	list_del(&part->node);
	dcbm_note_oldest(c);
	retired = dcbm_count(c, !error);
	spin_unlock_irqrestore(&c->lock, flags);

	if (retired)
		dev_err(c->dev, "dcbm: %s retired after %u errors in a row\n",
			c->name, dcbm_max_errors);
	dcbm_part_done(part, error);
}

/* A channel may say that all is well, and yet that something is left */
static bool dcbm_copied(const struct dmaengine_result *result)
{
	return result && result->result == DMA_TRANS_NOERROR &&
	       !result->residue;
}

static void dcbm_callback(void *param, const struct dmaengine_result *result)
{
	struct dcbm_part *part = param;
	struct dcbm_chan *c = part->chan;

	if (dcbm_copied(result)) {
		dcbm_end(part, 0);
		return;
	}
	dev_err_ratelimited(c->dev,
			    "dcbm: %s cannot copy %zu bytes: result %d, residue %u\n",
			    c->name, part->len, result ? result->result : -1,
			    result ? result->residue : 0);
	dcbm_end(part, -EIO);
}

/* --- the beginning --- */

/* Called with the channel's submit_lock held */
static struct dma_async_tx_descriptor *dcbm_prepare(struct dcbm_part *part)
{
	bool told = part->tell || !part->chan->polled;
	unsigned long flags = DMA_CTRL_ACK | (told ? DMA_PREP_INTERRUPT : 0);
	struct dcbm_part *owner = part->owner;
	size_t offset = (part->src - owner->src) << PAGE_SHIFT;
	struct dma_chan *chan = part->chan->chan;
	struct dcbm_scatter *s = part->scatter;
	struct dma_async_tx_descriptor *tx;

	if (s && s->listed)
		tx = dmaengine_prep_dma_memcpy_sg(chan, s->dst, s->src, s->nr,
						  flags);
	else
		tx = dmaengine_prep_dma_memcpy(chan, owner->dst_dma + offset,
					       owner->src_dma + offset,
					       part->len, flags);
	if (!tx)
		return NULL;
	tx->callback_result = dcbm_callback;
	tx->callback_param = part;
	return tx;
}

/*
 * Called with the channel's submit_lock held. Return: false if the channel
 * refuses; else the part is or will be ended, and its copies may be gone.
 */
static bool dcbm_start_locked(struct dcbm_part *part)
{
	struct dma_async_tx_descriptor *tx;
	struct dcbm_chan *c = part->chan;
	unsigned long flags;
	dma_cookie_t cookie;
	bool idle;

	lockdep_assert_held(&c->submit_lock);
	/* From here on a channel that is being left is not used */
	if (READ_ONCE(c->state) != DCBM_LIVE)
		return false;
	tx = dcbm_prepare(part);
	if (!tx) {
		dcbm_refused(c, part->len);
		return false;
	}
	spin_lock_irqsave(&c->lock, flags);
	part->since = jiffies;
	/* Never 0 */
	part->age = local_clock() + 1;
	idle = list_empty(&c->busy);
	list_add_tail(&part->node, &c->busy);
	dcbm_note_oldest(c);
	c->submitted++;
	spin_unlock_irqrestore(&c->lock, flags);

	cookie = dmaengine_submit(tx);
	WRITE_ONCE(c->unissued, true);
	if (dma_submit_error(cookie))
		dcbm_end(part, -EIO);
	/* What is behind others can wait for more */
	if (idle)
		dcbm_ring_locked(c);
	return true;
}

static bool dcbm_start(struct dcbm_part *part)
{
	struct dcbm_chan *c = part->chan;
	bool started;

	spin_lock(&c->submit_lock);
	started = dcbm_start_locked(part);
	spin_unlock(&c->submit_lock);
	return started;
}

/* The part, which is nobody's, is for @len bytes of a folio, from @start on */
void dcbm_fill(struct dcbm_part *part, struct migrate_copy *copy, size_t start,
	       size_t len)
{
	part->copies[0] = copy;
	part->nr_copies = 1;
	part->src = folio_pfn(copy->src) + (start >> PAGE_SHIFT);
	part->dst = folio_pfn(copy->dst) + (start >> PAGE_SHIFT);
	part->len = len;
	part->limit = dcbm_run_bytes(copy);
	part->tell = copy->tell;
	part->owner = NULL;
}

/* Take a part of as many channels as are worth it, and cut the folio for them */
static unsigned int dcbm_reserve(struct migrate_copy *copy,
				 struct list_head *parts,
				 const unsigned long *refused)
{
	size_t size = folio_size(copy->src);
	unsigned int live = atomic_read(&dcbm_nr_live);
	unsigned int want = dcbm_nr_parts(size, copy->stripe_bytes, live);
	DECLARE_BITMAP(tried, DCBM_MAX_CHANNELS);
	int node = folio_nid(copy->dst);
	unsigned int nr = 0, i = 0;
	struct dcbm_part *part;

	bitmap_copy(tried, refused, DCBM_MAX_CHANNELS);
	while (nr < want && (part = dcbm_get_part(node, tried))) {
		list_add_tail(&part->node, parts);
		nr++;
	}
	list_for_each_entry(part, parts, node) {
		size_t start = dcbm_part_start(size, nr, i++);
		size_t end = dcbm_part_start(size, nr, i);

		dcbm_fill(part, copy, start, end - start);
		part->tell &= i == nr;
	}
	return nr;
}

static int dcbm_map_all(struct list_head *parts)
{
	struct dcbm_part *part;

	list_for_each_entry(part, parts, node)
		if (!part->owner && dcbm_map(part, parts))
			return -EIO;
	return 0;
}

/* Return: how many parts there were that nobody will copy */
static unsigned int dcbm_give_up(struct list_head *parts)
{
	struct dcbm_part *part, *next;
	unsigned int nr = 0;

	list_for_each_entry_safe(part, next, parts, node) {
		list_del(&part->node);
		dcbm_free(part);
		nr++;
	}
	return nr;
}

/*
 * Start part after part, until a channel refuses. Return: the id of that
 * channel, or DCBM_MAX_CHANNELS; *nr is how many were started.
 */
static unsigned int dcbm_start_all(struct list_head *parts, unsigned int *nr)
{
	struct dcbm_part *part, *next;

	*nr = 0;
	list_for_each_entry_safe(part, next, parts, node) {
		list_del(&part->node);
		if (!dcbm_start(part)) {
			list_add(&part->node, parts);
			return part->chan->id;
		}
		++*nr;
	}
	return DCBM_MAX_CHANNELS;
}

/* A folio of its own, by as many channels as are worth it */
static int dcbm_submit_large(struct migrate_copy *copy)
{
	DECLARE_BITMAP(refused, DCBM_MAX_CHANNELS) = { };
	unsigned int nr, started, left, by;
	LIST_HEAD(parts);

	while ((nr = dcbm_reserve(copy, &parts, refused))) {
		if (dcbm_map_all(&parts)) {
			dcbm_give_up(&parts);
			return -EIO;
		}
		migrate_copy_split(copy, nr);
		/* The copy may be gone once its last part was started */
		by = dcbm_start_all(&parts, &started);
		left = dcbm_give_up(&parts);
		if (started)
			break;
		__set_bit(by, refused);
	}
	if (!nr)
		return atomic_read(&dcbm_nr_live) ? -EBUSY : -ENODEV;
	/* The CPU will copy the whole folio: send no more of it */
	if (left && copy->tell)
		migrate_copy_told(copy);
	while (left--)
		migrate_copy_done(copy, -EBUSY);
	dcbm_arm_watchdog();
	return 0;
}

int dcbm_submit(struct migrator *m, struct migrate_copy *copy)
{
	size_t size = folio_size(copy->src);

	if (size < dcbm_run_bytes(copy) &&
	    dcbm_nr_parts(size, copy->stripe_bytes, UINT_MAX) == 1)
		return dcbm_submit_small(copy);
	return dcbm_submit_large(copy);
}

/**
 * dcbm_send - have a part of whole folios copied
 * @part: filled, and on no list
 *
 * If it cannot be mapped, or its channel refuses, the CPU copies the folios. No
 * other channel is asked: until a part is submitted or done, whoever flushes
 * must find it.
 *
 * Context: the channel's submit_lock is held.
 */
void dcbm_send(struct dcbm_part *part)
{
	if (dcbm_map_one(part) || !dcbm_start_locked(part))
		dcbm_part_done(part, -EBUSY);
}

/* --- stuck --- */

/**
 * dcbm_disown - tell the core that a channel's copies will not end soon
 * @c: the channel
 *
 * Context: its lock is held, so none of them ends meanwhile.
 */
void dcbm_disown(struct dcbm_chan *c)
{
	struct dcbm_part *part;
	unsigned int i;

	lockdep_assert_held(&c->lock);
	list_for_each_entry(part, &c->busy, node)
		for (i = 0; i < part->nr_copies; i++)
			migrate_copy_disown(part->copies[i]);
}

/* The channel was stopped, and will call nobody back */
void dcbm_end_all(struct dcbm_chan *c)
{
	struct dcbm_part *part;

	for (;;) {
		spin_lock_irq(&c->lock);
		part = list_first_entry_or_null(&c->busy, struct dcbm_part,
						node);
		spin_unlock_irq(&c->lock);
		if (!part)
			return;
		dcbm_end(part, -EIO);
	}
}

static bool dcbm_is_late(struct dcbm_chan *c)
{
	struct dcbm_part *oldest;

	oldest = list_first_entry_or_null(&c->busy, struct dcbm_part, node);
	return oldest && time_after(jiffies, oldest->since +
				    msecs_to_jiffies(dcbm_timeout_ms));
}

/**
 * dcbm_check_stuck - retire a channel that does not end a part in time
 * @c: the channel
 *
 * Its driver is asked several times before: an interrupt may have got lost. It
 * is not terminated: some drivers do not survive that, others cannot stop what
 * they have begun.
 */
void dcbm_check_stuck(struct dcbm_chan *c)
{
	bool retired = false;

	/* Nobody's descriptor waits for long because its submitter sleeps */
	dcbm_issue(c);
	dcbm_poll(c);
	spin_lock_irq(&c->lock);
	/* Also what was submitted as it was retired; who leaves one waits for it */
	if (c->state != DCBM_GONE && dcbm_is_late(c)) {
		retired = c->state == DCBM_LIVE;
		if (retired)
			dcbm_retire(c, DCBM_STUCK);
		dcbm_disown(c);
	}
	spin_unlock_irq(&c->lock);
	if (retired)
		dev_err(c->dev, "dcbm: %s is stuck for %u ms: retired, and the pages of its copies kept\n",
			c->name, dcbm_timeout_ms);
}
