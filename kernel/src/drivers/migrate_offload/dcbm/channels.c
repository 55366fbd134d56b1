// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: the DMA channels
 *
 * They are taken once, when the module is loaded. A channel is retired, never
 * to be used again, when it is stuck or errs too often; reload the module to
 * give it another chance.
 */
#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "dcbm.h"

LIST_HEAD(dcbm_chans);
static unsigned int dcbm_nr_chans;

/* --- taking and releasing --- */

static bool dcbm_add_channel(struct dma_chan *chan, bool public)
{
	int node = dev_to_node(chan->device->dev);
	struct dcbm_chan *c;
	unsigned int i;

	c = kvzalloc_node(struct_size(c, parts, dcbm_queue_depth), GFP_KERNEL,
			  node);
	if (!c)
		return false;
	c->id = dcbm_nr_chans++;
	c->chan = chan;
	c->dev = dmaengine_get_dma_device(chan);
	c->node = node;
	c->public = public;
	c->state = DCBM_LIVE;
	spin_lock_init(&c->submit_lock);
	spin_lock_init(&c->lock);
	INIT_LIST_HEAD(&c->free);
	INIT_LIST_HEAD(&c->busy);
	INIT_LIST_HEAD(&c->lost);
	for (i = 0; i < dcbm_queue_depth; i++) {
		c->parts[i].chan = c;
		list_add_tail(&c->parts[i].node, &c->free);
	}
	list_add_tail(&c->link, &dcbm_chans);
	return true;
}

static void dcbm_take_exclusive(unsigned int max)
{
	struct dma_chan *chan;
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	while (dcbm_nr_chans < max) {
		chan = dma_request_chan_by_mask(&mask);
		if (IS_ERR(chan))
			break;
		if (!dcbm_add_channel(chan, false)) {
			dma_release_channel(chan);
			break;
		}
	}
}

static void dcbm_find_public(void *chan)
{
	*(struct dma_chan **)chan = dma_find_channel(DMA_MEMCPY);
}

static bool dcbm_has_channel(struct dma_chan *chan)
{
	struct dcbm_chan *c;

	list_for_each_entry(c, &dcbm_chans, link)
		if (c->chan == chan)
			return true;
	return false;
}

/* dmaengine gives each CPU one of the public channels */
static void dcbm_take_public(unsigned int max)
{
	struct dma_chan *chan;
	int cpu;

	dmaengine_get();
	cpus_read_lock();
	for_each_online_cpu(cpu) {
		if (dcbm_nr_chans == max)
			break;
		chan = NULL;
		smp_call_function_single(cpu, dcbm_find_public, &chan, 1);
		if (chan && !dcbm_has_channel(chan))
			dcbm_add_channel(chan, true);
	}
	cpus_read_unlock();
}

/**
 * dcbm_take_channels - take memcpy channels of whatever engine has them
 * @max: at most so many
 * @exclusive: also take public channels for dcbm alone, if nobody uses them
 *
 * Return: how many; if none, there is nothing to release.
 */
unsigned int dcbm_take_channels(unsigned int max, bool exclusive)
{
	if (exclusive)
		dcbm_take_exclusive(max);
	dcbm_take_public(max);
	if (!exclusive)
		dcbm_take_exclusive(max);
	if (!dcbm_nr_chans)
		dmaengine_put();
	return dcbm_nr_chans;
}

/* Nothing is in flight on any of them */
void dcbm_release_channels(void)
{
	struct dcbm_chan *c, *next;

	list_for_each_entry_safe(c, next, &dcbm_chans, link) {
		if (c->public)
			dmaengine_synchronize(c->chan);
		else
			dma_release_channel(c->chan);
		kvfree(c);
	}
	dmaengine_put();
}

/* --- choosing --- */

/**
 * dcbm_room - how many parts can be started now
 * @live: set to the number of channels that are in service
 *
 * Return: a number that may be outdated already.
 */
unsigned int dcbm_room(unsigned int *live)
{
	unsigned int room = 0;
	struct dcbm_chan *c;

	*live = 0;
	list_for_each_entry(c, &dcbm_chans, link) {
		if (READ_ONCE(c->state) != DCBM_LIVE)
			continue;
		room += dcbm_queue_depth - READ_ONCE(c->in_flight);
		++*live;
	}
	return room;
}

/* The least loaded channel; of several, one on the node */
static struct dcbm_chan *dcbm_choose(int node, const unsigned long *tried)
{
	unsigned int best_load = UINT_MAX;
	struct dcbm_chan *c, *best = NULL;

	list_for_each_entry(c, &dcbm_chans, link) {
		unsigned int load = 2 * READ_ONCE(c->in_flight);

		if (READ_ONCE(c->state) != DCBM_LIVE ||
		    test_bit(c->id, tried))
			continue;
		load += c->node != node;
		if (load < best_load) {
			best_load = load;
			best = c;
		}
	}
	return best;
}

/**
 * dcbm_get_part - take a free part of the channel that suits best
 * @node: where the data go
 * @tried: channels that are out of the question; the chosen one is added
 *
 * Return: the part, or NULL if no channel is left.
 */
struct dcbm_part *dcbm_get_part(int node, unsigned long *tried)
{
	struct dcbm_part *part = NULL;
	struct dcbm_chan *c;
	unsigned long flags;

	while (!part) {
		c = dcbm_choose(node, tried);
		if (!c)
			return NULL;
		__set_bit(c->id, tried);
		spin_lock_irqsave(&c->lock, flags);
		if (c->state == DCBM_LIVE)
			part = list_first_entry_or_null(&c->free,
							struct dcbm_part, node);
		if (part) {
			list_del(&part->node);
			WRITE_ONCE(c->in_flight, c->in_flight + 1);
		}
		spin_unlock_irqrestore(&c->lock, flags);
	}
	return part;
}

/* The part, which is on no list, is free again */
void dcbm_put_part(struct dcbm_part *part)
{
	struct dcbm_chan *c = part->chan;
	unsigned long flags;

	spin_lock_irqsave(&c->lock, flags);
	list_add(&part->node, &c->free);
	WRITE_ONCE(c->in_flight, c->in_flight - 1);
	spin_unlock_irqrestore(&c->lock, flags);
}

/* --- running --- */

/* Count a descriptor's result; retire the channel if it fails again and again */
void dcbm_result(struct dcbm_chan *c, bool copied)
{
	bool retire = false;
	unsigned long flags;

	spin_lock_irqsave(&c->lock, flags);
	if (copied) {
		c->completed++;
		c->errors_in_row = 0;
	} else {
		c->errors++;
		c->errors_in_row++;
		if (c->errors_in_row >= dcbm_max_errors &&
		    c->state == DCBM_LIVE) {
			WRITE_ONCE(c->state, DCBM_FAILED);
			retire = true;
		}
	}
	spin_unlock_irqrestore(&c->lock, flags);
	if (retire)
		dev_err(c->dev, "dcbm: %s retired after %u errors in a row\n",
			dcbm_name(c), dcbm_max_errors);
}

/* Start what was submitted to the channel, by whomever */
void dcbm_issue(struct dcbm_chan *c)
{
	if (!READ_ONCE(c->unissued))
		return;
	spin_lock(&c->submit_lock);
	WRITE_ONCE(c->unissued, false);
	dma_async_issue_pending(c->chan);
	spin_unlock(&c->submit_lock);
}

int dcbm_channels_show(struct seq_file *m, void *unused)
{
	static const char * const state[] = {
		[DCBM_LIVE] = "live",
		[DCBM_FAILED] = "failed",
		[DCBM_STUCK] = "stuck",
	};
	struct dcbm_chan *c;

	seq_puts(m, "channel device node submitted completed errors in_flight state\n");
	list_for_each_entry(c, &dcbm_chans, link) {
		spin_lock_irq(&c->lock);
		seq_printf(m, "%s %s %d %lu %lu %lu %u %s\n", dcbm_name(c),
			   dev_name(c->dev), c->node, c->submitted,
			   c->completed, c->errors, c->in_flight,
			   state[c->state]);
		spin_unlock_irq(&c->lock);
	}
	return 0;
}
