// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: the DMA channels
 *
 * They are taken when dcbm becomes the active migrator, and given back when it
 * is not any more, or when their driver leaves its device. A channel that errs
 * again and again is retired until dcbm is chosen anew. One that was stuck comes
 * back once its copies have ended after all; if they have failed, their errors count.
 *
 * live -> failed -> stuck, gone
 *      -> stuck  -> live, gone
 *      -> gone
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device.h>
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "dcbm.h"

LIST_HEAD(dcbm_chans);
atomic_t dcbm_nr_live;
DECLARE_WAIT_QUEUE_HEAD(dcbm_idle);

/* Protects what follows, and the writing of dcbm_chans */
static DEFINE_MUTEX(dcbm_lock);
static DECLARE_BITMAP(dcbm_ids, DCBM_MAX_CHANNELS);
static bool dcbm_active;

/* --- taking --- */

static struct dcbm_chan *dcbm_new_channel(struct dma_chan *chan)
{
	int node = dev_to_node(chan->device->dev);
	struct dcbm_chan *c;
	unsigned int i;

	c = kvzalloc_node(struct_size(c, parts, dcbm_queue_depth), GFP_KERNEL,
			  node);
	if (!c)
		return NULL;
	c->id = find_first_zero_bit(dcbm_ids, DCBM_MAX_CHANNELS);
	c->chan = chan;
	c->dev = get_device(dmaengine_get_dma_device(chan));
	strscpy(c->name, dma_chan_name(chan));
	c->node = node;
	c->polled = chan->device->status_completes;
	c->state = DCBM_LIVE;
	spin_lock_init(&c->submit_lock);
	spin_lock_init(&c->lock);
	INIT_LIST_HEAD(&c->free);
	INIT_LIST_HEAD(&c->busy);
	dcbm_add_scatters(c);
	for (i = 0; i < dcbm_queue_depth; i++) {
		c->parts[i].chan = c;
		list_add_tail(&c->parts[i].node, &c->free);
	}
	return c;
}

/* After a grace period nobody who has found the channels uses them */
static void dcbm_free_channels(struct list_head *gone)
{
	struct dcbm_chan *c, *next;

	if (list_empty(gone))
		return;
	synchronize_rcu();
	list_for_each_entry_safe(c, next, gone, leaving) {
		put_device(c->dev);
		dcbm_remove_scatters(c);
		kvfree(c);
	}
}

/* The channel, which is released, is found no more */
static void dcbm_unlink(struct dcbm_chan *c)
{
	lockdep_assert_held(&dcbm_lock);
	list_del_rcu(&c->link);
	__clear_bit(c->id, dcbm_ids);
}

static bool dcbm_of_device(struct dma_chan *chan, void *dev)
{
	return chan->device->dev == dev;
}

/* A device with memcpy channels that nobody uses */
struct dcbm_device {
	struct list_head node;
	struct device *dev;
	bool good;
	unsigned int nr_free;
	unsigned int nr_left;	/* of these, to others */
};

/* The device's lock is held: no driver comes or goes */
static void dcbm_take_device(struct dcbm_device *d)
{
	unsigned int nr = 0;
	struct dcbm_chan *c;
	struct dma_chan *chan;
	dma_cap_mask_t mask;

	lockdep_assert_held(&dcbm_lock);
	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	while (nr < d->nr_free - d->nr_left &&
	       bitmap_weight(dcbm_ids, DCBM_MAX_CHANNELS) < dcbm_max_channels) {
		chan = dma_request_channel(mask, dcbm_of_device, d->dev);
		if (!chan)
			break;
		/* Queues of DSA come at any time, also one that breaks the promise */
		c = dcbm_trusts(chan->device, dcbm_allow) ? dcbm_new_channel(chan) : NULL;
		if (!c) {
			dma_release_channel(chan);
			break;
		}
		__set_bit(c->id, dcbm_ids);
		atomic_inc(&dcbm_nr_live);
		list_add_tail_rcu(&c->link, &dcbm_chans);
		nr++;
	}
	dev_info(d->dev, "dcbm: takes %u of %u free channels\n", nr, d->nr_free);
}

/* Note the channel's device; the channel itself is not wanted yet */
static bool dcbm_note_device(struct dma_chan *chan, void *param)
{
	struct list_head *devices = param;
	struct dcbm_device *d;
	const char *why;

	list_for_each_entry(d, devices, node) {
		if (d->dev == chan->device->dev) {
			d->nr_free++;
			return false;
		}
	}
	d = kzalloc(sizeof(*d), GFP_KERNEL);
	if (!d)
		return false;
	d->dev = get_device(chan->device->dev);
	d->nr_free = 1;
	d->good = dcbm_may_use(chan, &why);
	if (why)
		dev_notice(d->dev, "dcbm: channels of %s are not used: %s\n",
			   d->dev->driver ? d->dev->driver->name : "nobody",
			   why);
	list_add_tail(&d->node, devices);
	return false;
}

/* Others ask for a channel of their node: the first devices of each leave some */
static void dcbm_leave_some(struct list_head *devices)
{
	struct dcbm_device *d, *before;

	list_for_each_entry(d, devices, node) {
		unsigned int nr = dcbm_leave;

		if (!d->good)
			continue;
		list_for_each_entry(before, devices, node) {
			if (before == d)
				break;
			if (dev_to_node(before->dev) == dev_to_node(d->dev))
				nr -= before->nr_left;
		}
		d->nr_left = min(nr, d->nr_free);
	}
}

/**
 * dcbm_take_channels - take memcpy channels that nobody uses and that may be used
 *
 * Some of each memory node are left to others, if the administrator wants that.
 *
 * Return: how many are in service.
 */
unsigned int dcbm_take_channels(void)
{
	struct dcbm_device *d, *next;
	struct dcbm_chan *c;
	dma_cap_mask_t mask;
	LIST_HEAD(devices);

	mutex_lock(&dcbm_lock);
	WRITE_ONCE(dcbm_active, true);
	list_for_each_entry(c, &dcbm_chans, link)
		dcbm_renew(c);
	mutex_unlock(&dcbm_lock);

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	dma_request_channel(mask, dcbm_note_device, &devices);
	dcbm_leave_some(&devices);

	list_for_each_entry_safe(d, next, &devices, node) {
		/* A driver that leaves has told us, or does so after this */
		device_lock(d->dev);
		mutex_lock(&dcbm_lock);
		if (d->good)
			dcbm_take_device(d);
		mutex_unlock(&dcbm_lock);
		device_unlock(d->dev);
		put_device(d->dev);
		list_del(&d->node);
		kfree(d);
	}
	return atomic_read(&dcbm_nr_live);
}

/* --- releasing --- */

/* Called with the channel's lock held */
void dcbm_note_oldest(struct dcbm_chan *c)
{
	struct dcbm_part *oldest;

	oldest = list_first_entry_or_null(&c->busy, struct dcbm_part, node);
	/* The watchdog alone looks at what is stuck */
	WRITE_ONCE(c->oldest,
		   oldest && c->state != DCBM_STUCK ? oldest->age : 0);
}

static void dcbm_set_state(struct dcbm_chan *c, enum dcbm_state state)
{
	lockdep_assert_held(&c->lock);
	atomic_add((state == DCBM_LIVE) - (c->state == DCBM_LIVE),
		   &dcbm_nr_live);
	WRITE_ONCE(c->state, state);
	dcbm_note_oldest(c);
}

/* Nothing is in flight, and nothing can be: the state is DCBM_GONE */
static void dcbm_release(struct dcbm_chan *c)
{
	struct dma_chan *chan;

	/* Whoever was about to issue has done so */
	spin_lock(&c->submit_lock);
	chan = c->chan;
	c->chan = NULL;
	c->unissued = false;
	spin_unlock(&c->submit_lock);
	/* Waits for callbacks, in whatever context they run */
	dma_release_channel(chan);
}

static bool dcbm_gone_if_idle(struct dcbm_chan *c)
{
	bool idle;

	spin_lock_irq(&c->lock);
	idle = !c->in_flight && c->state != DCBM_GONE;
	if (idle)
		dcbm_set_state(c, DCBM_GONE);
	spin_unlock_irq(&c->lock);
	return idle;
}

static void dcbm_release_idle(struct list_head *gone)
{
	struct dcbm_chan *c, *next;

	lockdep_assert_held(&dcbm_lock);
	list_for_each_entry_safe(c, next, &dcbm_chans, link) {
		if (dcbm_gone_if_idle(c))
			dcbm_release(c);
		/* If its driver leaves, whoever sees to that frees it */
		if (!c->chan) {
			dcbm_unlink(c);
			list_add_tail(&c->leaving, gone);
		}
	}
}

/**
 * dcbm_leave_channels - give all channels back
 *
 * Those with copies that are overdue are kept until these end.
 */
void dcbm_leave_channels(void)
{
	LIST_HEAD(gone);

	mutex_lock(&dcbm_lock);
	WRITE_ONCE(dcbm_active, false);
	dcbm_forget_runs();
	dcbm_release_idle(&gone);
	mutex_unlock(&dcbm_lock);
	dcbm_free_channels(&gone);
}

/* Return: false if channels are to be given back as soon as they are idle */
bool dcbm_is_active(void)
{
	return READ_ONCE(dcbm_active);
}

/* The last copies have ended: give back what was kept for them */
void dcbm_reap(void)
{
	LIST_HEAD(gone);

	mutex_lock(&dcbm_lock);
	if (!dcbm_active)
		dcbm_release_idle(&gone);
	mutex_unlock(&dcbm_lock);
	dcbm_free_channels(&gone);
}

static bool dcbm_is_idle(struct dcbm_chan *c)
{
	return !READ_ONCE(c->in_flight);
}

static bool dcbm_all_idle(void)
{
	struct dcbm_chan *c;
	bool idle = true;

	rcu_read_lock();
	list_for_each_entry_rcu(c, &dcbm_chans, link)
		idle &= dcbm_is_idle(c);
	rcu_read_unlock();
	return idle;
}

/* Wait until nothing is in flight on any channel */
void dcbm_wait_idle(void)
{
	while (!wait_event_timeout(dcbm_idle, dcbm_all_idle(), 10 * HZ))
		pr_warn("still waiting for copies to end\n");
}

static bool dcbm_are_idle(struct list_head *leaving)
{
	struct dcbm_chan *c;

	list_for_each_entry(c, leaving, leaving)
		if (!dcbm_is_idle(c))
			return false;
	return true;
}

/*
 * Wait for what is in flight, for one timeout in all. If it does not end in time
 * the driver is told to stop.
 */
static void dcbm_drain(struct list_head *leaving)
{
	struct dcbm_chan *c;

	list_for_each_entry(c, leaving, leaving)
		dcbm_issue(c);
	if (wait_event_timeout(dcbm_idle, dcbm_are_idle(leaving),
			       msecs_to_jiffies(dcbm_timeout_ms)))
		return;
	list_for_each_entry(c, leaving, leaving) {
		dcbm_poll(c);
		if (dcbm_is_idle(c))
			continue;
		dev_err(c->dev, "dcbm: %s is stuck as its driver leaves: told to stop\n",
			c->name);
		if (!dmaengine_terminate_sync(c->chan)) {
			dcbm_end_all(c);
			continue;
		}
		spin_lock_irq(&c->lock);
		dcbm_disown(c);
		spin_unlock_irq(&c->lock);
	}
}

/* The device's channels that are not left yet, which nobody else sees to now */
static void dcbm_collect_device(struct device *dev, struct list_head *leaving)
{
	struct dcbm_chan *c;

	lockdep_assert_held(&dcbm_lock);
	list_for_each_entry(c, &dcbm_chans, link) {
		if (!c->chan || c->chan->device->dev != dev)
			continue;
		spin_lock_irq(&c->lock);
		if (c->state != DCBM_GONE) {
			dcbm_set_state(c, DCBM_GONE);
			list_add_tail(&c->leaving, leaving);
		}
		spin_unlock_irq(&c->lock);
	}
}

/**
 * dcbm_leave_device - give a device's channels back
 * @dev: its driver is about to leave it, and its lock is held
 *
 * Waits for what the channels have in flight; those of other devices go on. A
 * driver that cannot stop a stuck channel is waited for.
 */
void dcbm_leave_device(struct device *dev)
{
	struct dcbm_chan *c, *next;
	LIST_HEAD(leaving);

	mutex_lock(&dcbm_lock);
	dcbm_collect_device(dev, &leaving);
	mutex_unlock(&dcbm_lock);

	dcbm_drain(&leaving);
	/* Channels of a device wait for each other: they share mappings */
	while (!wait_event_timeout(dcbm_idle, dcbm_are_idle(&leaving), 10 * HZ))
		dev_warn(dev, "dcbm: still waiting for copies to end\n");

	mutex_lock(&dcbm_lock);
	list_for_each_entry_safe(c, next, &leaving, leaving) {
		dev_notice(c->dev, "dcbm: %s is given back: its driver leaves\n",
			   c->name);
		dcbm_release(c);
		if (dcbm_active)
			list_del(&c->leaving);
		else
			dcbm_unlink(c);
	}
	mutex_unlock(&dcbm_lock);
	dcbm_free_channels(&leaving);
}

/* --- choosing --- */

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

/* Return: a free part of the channel, or NULL if it has none or is retired */
struct dcbm_part *dcbm_get_part_of(struct dcbm_chan *c)
{
	struct dcbm_part *part = NULL;
	unsigned long flags;

	spin_lock_irqsave(&c->lock, flags);
	if (c->state == DCBM_LIVE)
		part = list_first_entry_or_null(&c->free, struct dcbm_part,
						node);
	if (part) {
		list_del(&part->node);
		WRITE_ONCE(c->in_flight, c->in_flight + 1);
	}
	spin_unlock_irqrestore(&c->lock, flags);
	return part;
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

	while (!part) {
		c = dcbm_choose(node, tried);
		if (!c)
			return NULL;
		__set_bit(c->id, tried);
		part = dcbm_get_part_of(c);
	}
	return part;
}

/* The part, which is on no list, is free again */
void dcbm_put_part(struct dcbm_part *part)
{
	struct dcbm_chan *c = part->chan;
	unsigned long flags;

	spin_lock_irqsave(&c->lock, flags);
	if (part->scatter)
		dcbm_put_scatter(part);
	list_add(&part->node, &c->free);
	WRITE_ONCE(c->in_flight, c->in_flight - 1);
	spin_unlock_irqrestore(&c->lock, flags);
	if (wq_has_sleeper(&dcbm_idle))
		wake_up(&dcbm_idle);
}

/* --- retiring, and coming back --- */

/* Called with the channel's lock held; it may have copies in flight */
void dcbm_retire(struct dcbm_chan *c, enum dcbm_state state)
{
	unsigned int wait = min(c->stuck, 6U);

	if (state == DCBM_STUCK) {
		c->stuck++;
		/* Who is stuck again and again is left alone for longer */
		c->back_at = jiffies +
			     (msecs_to_jiffies(dcbm_timeout_ms) << wait);
	}
	dcbm_set_state(c, state);
}

/**
 * dcbm_refused - the channel's driver has not taken a part
 * @c: the channel, which is live
 * @len: bytes of the part
 *
 * One that has a part in flight may be full, and queues of DSA take 2 MiB by default. One
 * that refuses else, again and again, is of no use for now: it may be disabled, or halted.
 * As the least loaded it would get a part of each folio, for the CPU to copy.
 *
 * Context: its submit_lock is held, so nothing is submitted meanwhile.
 */
void dcbm_refused(struct dcbm_chan *c, size_t len)
{
	unsigned long flags;
	bool retired;

	spin_lock_irqsave(&c->lock, flags);
	retired = c->state == DCBM_LIVE && list_empty(&c->busy) &&
		  len <= SZ_2M && ++c->errors_in_row >= dcbm_max_errors;
	if (retired)
		dcbm_retire(c, DCBM_STUCK);
	spin_unlock_irqrestore(&c->lock, flags);
	if (!retired)
		return;
	dev_err(c->dev, "dcbm: %s is idle and takes no copy: retired for a while\n",
		c->name);
	dcbm_arm_watchdog();
}

/* A stuck channel gets work again once it has ended all it had, after a while */
void dcbm_bring_back(struct dcbm_chan *c)
{
	bool back;

	spin_lock_irq(&c->lock);
	back = c->state == DCBM_STUCK && !c->in_flight &&
	       time_after_eq(jiffies, c->back_at);
	if (back)
		dcbm_set_state(c, DCBM_LIVE);
	spin_unlock_irq(&c->lock);
	if (back)
		dev_notice(c->dev, "dcbm: %s is used again\n", c->name);
}

/*
 * Called when dcbm is chosen anew, for a channel that still waits for an old
 * copy: if it had failed, it is tried again after that copy ends.
 */
void dcbm_renew(struct dcbm_chan *c)
{
	spin_lock_irq(&c->lock);
	if (c->state == DCBM_FAILED) {
		c->errors_in_row = 0;
		c->back_at = jiffies;
		dcbm_set_state(c, DCBM_STUCK);
	}
	spin_unlock_irq(&c->lock);
}

/* --- running --- */

/* Start what the channel was given, by whomever; its submit_lock is held */
void dcbm_ring_locked(struct dcbm_chan *c)
{
	lockdep_assert_held(&c->submit_lock);
	if (!c->unissued)
		return;
	WRITE_ONCE(c->unissued, false);
	dma_async_issue_pending(c->chan);
}

void dcbm_ring(struct dcbm_chan *c)
{
	if (!READ_ONCE(c->unissued))
		return;
	spin_lock(&c->submit_lock);
	dcbm_ring_locked(c);
	spin_unlock(&c->submit_lock);
}

/*
 * Let the driver look at what its engine has done. Softirqs are off: tx_status
 * of plx_dma takes a lock that its tasklet also takes, and would deadlock with
 * a tasklet on this CPU.
 */
void dcbm_poll(struct dcbm_chan *c)
{
	if (dcbm_is_idle(c))
		return;
	spin_lock_bh(&c->submit_lock);
	if (c->chan)
		dma_async_is_tx_complete(c->chan, c->chan->cookie, NULL, NULL);
	spin_unlock_bh(&c->submit_lock);
}

/* Of those that can be looked at, the channel whose oldest part is the oldest */
static struct dcbm_chan *dcbm_oldest(void)
{
	struct dcbm_chan *c, *found = NULL;
	u64 age, oldest = U64_MAX;

	list_for_each_entry(c, &dcbm_chans, link) {
		age = READ_ONCE(c->oldest);
		if (c->polled && age && age < oldest) {
			oldest = age;
			found = c;
		}
	}
	return found;
}

/* Return: true if its oldest part has ended */
static bool dcbm_look_at(struct dcbm_chan *c)
{
	u64 oldest = READ_ONCE(c->oldest);

	dcbm_poll(c);
	return READ_ONCE(c->oldest) != oldest;
}

/**
 * dcbm_look - see what the channels have done
 *
 * What has waited for longest is likely to end first, and engines work in order:
 * so one access to one device's registers is enough, as a rule. If that channel
 * does not move the others are looked at as well, now and then.
 *
 * Return: as &migrator.look.
 */
int dcbm_look(void)
{
	struct dcbm_chan *c = dcbm_oldest();
	bool found = false;

	if (!c)
		return -ENOENT;
	if (dcbm_look_at(c)) {
		WRITE_ONCE(c->misses, 0);
		return 1;
	}
	WRITE_ONCE(c->misses, READ_ONCE(c->misses) + 1);
	if (READ_ONCE(c->misses) < DCBM_MISSES)
		return 0;
	WRITE_ONCE(c->misses, 0);
	list_for_each_entry(c, &dcbm_chans, link)
		if (c->polled && READ_ONCE(c->oldest))
			found |= dcbm_look_at(c);
	return found;
}

int dcbm_channels_show(struct seq_file *m, void *unused)
{
	static const char * const state[] = {
		[DCBM_LIVE] = "live",
		[DCBM_FAILED] = "failed",
		[DCBM_STUCK] = "stuck",
		[DCBM_GONE] = "gone",
	};
	struct dcbm_chan *c;

	seq_puts(m, "channel device node submitted completed errors in_flight state\n");
	rcu_read_lock();
	list_for_each_entry_rcu(c, &dcbm_chans, link) {
		spin_lock_irq(&c->lock);
		seq_printf(m, "%s %s %d %lu %lu %lu %u %s\n", c->name,
			   dev_name(c->dev), c->node, c->submitted,
			   c->completed, c->errors, c->in_flight,
			   state[c->state]);
		spin_unlock_irq(&c->lock);
	}
	rcu_read_unlock();
	return 0;
}
