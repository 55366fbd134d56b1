/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of dcbm share.
 *
 * channels.c	takes channels, chooses among them, retires bad ones
 * copy.c	the life of a part: map, prepare, submit, complete, abandon
 * main.c	migrator, parameters, watchdog, module
 */
#ifndef _DCBM_H
#define _DCBM_H

#include <linux/bitmap.h>
#include <linux/dmaengine.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/migrate_offload.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#define DCBM_MAX_CHANNELS	256

struct dcbm_chan;

/**
 * struct dcbm_part - a part of a folio that one channel copies; a descriptor
 * @node: in the channel's list of free, busy or lost parts
 * @late: in the list of lost parts that have ended
 * @chan: whose it is
 * @copy: what it is a part of; NULL once the part is done or lost
 * @dst: the folio that a lost part may still write to, with a reference held
 * @src_dma: where the channel reads
 * @dst_dma: where it writes
 * @len: how many bytes
 * @since: when it was submitted or became the oldest in flight, in jiffies
 */
struct dcbm_part {
	struct list_head node;
	struct llist_node late;
	struct dcbm_chan *chan;
	struct migrate_copy *copy;
	struct folio *dst;
	dma_addr_t src_dma;
	dma_addr_t dst_dma;
	size_t len;
	unsigned long since;
};

enum dcbm_state {
	DCBM_LIVE,
	DCBM_FAILED,	/* too many errors in a row */
	DCBM_STUCK,	/* did not end a descriptor in time */
};

/**
 * struct dcbm_chan - a DMA channel that copies for page migration
 * @link: in dcbm_chans
 * @id: counts from 0
 * @chan: of dmaengine
 * @dev: whose DMA addresses the channel takes
 * @node: memory node of the device
 * @public: shared with other users; found, not requested
 * @submit_lock: held while a descriptor is prepared and submitted. Drivers
 *	may call back with their own lock held, so callbacks never take it
 * @unissued: something was submitted since the last issue; by @submit_lock
 * @lock: protects all below
 * @state: only %DCBM_LIVE channels get work
 * @free: parts to be used
 * @busy: parts in flight, in order of submission
 * @lost: parts in flight that nobody waits for any more
 * @in_flight: parts in use
 * @errors_in_row: since the last success
 * @submitted: counts descriptors that the channel took
 * @completed: counts those that it copied
 * @errors: counts those that ended without having been copied
 * @parts: as many as may be in flight
 */
struct dcbm_chan {
	struct list_head link;
	unsigned int id;
	struct dma_chan *chan;
	struct device *dev;
	int node;
	bool public;

	spinlock_t submit_lock;	/* descriptors are submitted one by one */
	bool unissued;

	spinlock_t lock;	/* state, lists, counters */
	enum dcbm_state state;
	struct list_head free;
	struct list_head busy;
	struct list_head lost;
	unsigned int in_flight;
	unsigned int errors_in_row;
	unsigned long submitted;
	unsigned long completed;
	unsigned long errors;
	struct dcbm_part parts[];
};

/* The parameters */
extern unsigned int dcbm_queue_depth;
extern unsigned int dcbm_max_errors;
extern unsigned int dcbm_timeout_ms;

/* The channels; the same ones for as long as the migrator is registered */
extern struct list_head dcbm_chans;

unsigned int dcbm_take_channels(unsigned int max, bool exclusive);
void dcbm_release_channels(void);
unsigned int dcbm_room(unsigned int *live);
struct dcbm_part *dcbm_get_part(int node, unsigned long *tried);
void dcbm_put_part(struct dcbm_part *part);
void dcbm_result(struct dcbm_chan *c, bool copied);
void dcbm_issue(struct dcbm_chan *c);
int dcbm_channels_show(struct seq_file *m, void *unused);

int dcbm_submit(struct migrator *m, struct migrate_copy *copy);
void dcbm_check_stuck(struct dcbm_chan *c);
void dcbm_wait_idle(void);
void dcbm_arm_watchdog(void);

static inline const char *dcbm_name(struct dcbm_chan *c)
{
	return dma_chan_name(c->chan);
}

/* As many parts as channels, but none of less than @stripe bytes; at least 1 */
static inline unsigned int dcbm_nr_parts(size_t size, size_t stripe,
					 unsigned int live, unsigned int room)
{
	size_t fit = size / max_t(size_t, stripe, PAGE_SIZE);

	return max_t(size_t, min3(fit, (size_t)live, (size_t)room), 1);
}

/* Part @i of @nr begins here; it ends where part @i + 1 begins */
static inline size_t dcbm_part_start(size_t size, unsigned int nr,
				     unsigned int i)
{
	return (size >> PAGE_SHIFT) * i / nr << PAGE_SHIFT;
}

#endif /* _DCBM_H */
