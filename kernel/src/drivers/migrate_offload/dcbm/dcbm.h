/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of dcbm share.
 *
 * providers.c	whose channels may be used
 * channels.c	takes and releases channels, chooses among them, retires bad ones
 * runs.c	small folios that adjoin each other make one part
 * scatter.c	so do those that do not adjoin, if the device can have it
 * copy.c	the life of a part: map, prepare, submit, complete
 * main.c	migrator, parameters, watchdog, module
 */
#ifndef _DCBM_H
#define _DCBM_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/dmaengine.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/migrate_offload.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/scatterlist.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#define DCBM_MAX_CHANNELS	256

/* So often a channel may have ended nothing before the others are looked at */
#define DCBM_MISSES	64

#define DCBM_RUN_BYTES	SZ_128K
#define DCBM_RUN_FOLIOS	DIV_ROUND_UP(DCBM_RUN_BYTES, PAGE_SIZE)

extern unsigned int dcbm_share_bytes;

/*
 * So much in a row goes to one channel: small folios share an interrupt, and a
 * descriptor if they may. With more, those that are unmapped for their copy would
 * be so for longer, and little would be saved.
 */
static inline size_t dcbm_run_bytes(const struct migrate_copy *copy)
{
	if (dcbm_share_bytes < DCBM_RUN_BYTES)
		return dcbm_share_bytes;
	return max_t(size_t, copy->stripe_bytes, DCBM_RUN_BYTES);
}

struct dcbm_chan;

/**
 * struct dcbm_scatter - the folios of a part, which do not all adjoin
 * @node: in the channel's list, if no part has it
 * @nr: how many entries; folios that adjoin each other share one
 * @listed: the device gets the lists; else they are one range to it
 * @src: to be copied
 * @dst: to be written to
 */
struct dcbm_scatter {
	struct list_head node;
	unsigned int nr;
	bool listed;
	struct scatterlist src[DCBM_RUN_FOLIOS];
	struct scatterlist dst[DCBM_RUN_FOLIOS];
};

/**
 * struct dcbm_part - what one channel copies with one descriptor
 * @node: in the channel's list of free or busy parts
 * @chan: whose it is
 * @copies: what it is a part of: the copy of one folio, or several whole ones
 * @nr_copies: how many
 * @src: the first page frame that it reads
 * @dst: the first that it writes to
 * @len: how many bytes
 * @limit: how many there may be at most, if it is of whole folios
 * @scatter: the folios, if they do not adjoin each other; else NULL
 * @tell: somebody sleeps until it ends; else it may be looked for
 * @age: when it was submitted, by the local clock
 * @since: when it was submitted or became the oldest in flight, in jiffies
 * @owner: the part whose mapping this one uses: itself, or one before it
 * @users: of an owner: parts that still use its mapping
 * @mapped: of an owner: how many bytes, from @src and @dst on
 * @src_dma: of an owner: where channels read
 * @dst_dma: of an owner: where they write
 */
struct dcbm_part {
	struct list_head node;
	struct dcbm_chan *chan;
	struct migrate_copy *copies[DCBM_RUN_FOLIOS];
	unsigned int nr_copies;
	unsigned long src;
	unsigned long dst;
	size_t len;
	size_t limit;
	struct dcbm_scatter *scatter;
	bool tell;
	u64 age;
	unsigned long since;

	struct dcbm_part *owner;
	atomic_t users;
	size_t mapped;
	dma_addr_t src_dma;
	dma_addr_t dst_dma;
};

enum dcbm_state {
	DCBM_LIVE,
	DCBM_FAILED,	/* too many errors in a row */
	DCBM_STUCK,	/* ended none in time, or took none; comes back after a while */
	DCBM_GONE,	/* released, or about to be */
};

/**
 * struct dcbm_chan - a DMA channel that copies for page migration
 * @link: in dcbm_chans
 * @leaving: in a list of those that are being left
 * @id: less than %DCBM_MAX_CHANNELS, and no other's
 * @chan: of dmaengine; NULL once it is released
 * @dev: whose DMA addresses the channel takes
 * @name: of the channel
 * @node: memory node of the device
 * @polled: its driver ends what the engine has done if it is asked for a status
 * @submit_lock: held while a descriptor is prepared and submitted. Drivers
 *	may call back with their own lock held, so callbacks never take it
 * @unissued: something was submitted since the last issue; by @submit_lock
 * @open: a part that may grow until the next issue, or NULL; by @submit_lock
 * @lock: protects all below
 * @state: only %DCBM_LIVE channels get work
 * @free: parts to be used
 * @busy: parts in flight, in order of submission
 * @scatters: tables that no part has
 * @oldest: when the first of @busy was submitted; 0 if there is none, or if it is
 *	stuck; read without @lock
 * @misses: how often nothing was found in a row as it was looked at
 * @in_flight: parts in use
 * @errors_in_row: since the last success
 * @stuck: how many times it was
 * @back_at: of a stuck channel: when it may get work again, at the earliest
 * @submitted: counts descriptors that the channel took
 * @completed: counts those that it copied
 * @errors: counts those that ended without having been copied
 * @tables: all there are; NULL if folios must adjoin
 * @parts: as many as may be in flight
 */
struct dcbm_chan {
	struct list_head link;
	struct list_head leaving;
	unsigned int id;
	struct dma_chan *chan;
	struct device *dev;
	char name[32];
	int node;
	bool polled;

	spinlock_t submit_lock;	/* descriptors are submitted one by one */
	bool unissued;
	struct dcbm_part *open;

	spinlock_t lock;	/* state, lists, counters */
	enum dcbm_state state;
	struct list_head free;
	struct list_head busy;
	struct list_head scatters;
	u64 oldest;
	unsigned int misses;
	unsigned int in_flight;
	unsigned int errors_in_row;
	unsigned int stuck;
	unsigned long back_at;
	unsigned long submitted;
	unsigned long completed;
	unsigned long errors;

	struct dcbm_scatter *tables;
	struct dcbm_part parts[];
};

/* The parameters */
extern unsigned int dcbm_max_channels;
extern unsigned int dcbm_leave;
extern unsigned int dcbm_queue_depth;
extern unsigned int dcbm_max_errors;
extern unsigned int dcbm_timeout_ms;
extern char *dcbm_allow;

extern struct workqueue_struct *dcbm_wq;
extern wait_queue_head_t dcbm_idle;

/*
 * Calls of migrate_pages() see the same channels from start() to stop(). Others
 * read the list under RCU.
 */
extern struct list_head dcbm_chans;
extern atomic_t dcbm_nr_live;

bool dcbm_trusts(const struct dma_device *device, const char *allow);
bool dcbm_may_use(struct dma_chan *chan, const char **why);

bool dcbm_hears_of_unbind(struct device *dev);

unsigned int dcbm_take_channels(void);
void dcbm_leave_channels(void);
void dcbm_wait_idle(void);
bool dcbm_is_active(void);
void dcbm_leave_device(struct device *dev);
void dcbm_reap(void);
struct dcbm_part *dcbm_get_part_of(struct dcbm_chan *c);
struct dcbm_part *dcbm_get_part(int node, unsigned long *tried);
void dcbm_put_part(struct dcbm_part *part);
void dcbm_note_oldest(struct dcbm_chan *c);
void dcbm_refused(struct dcbm_chan *c, size_t len);
void dcbm_retire(struct dcbm_chan *c, enum dcbm_state state);
void dcbm_bring_back(struct dcbm_chan *c);
void dcbm_ring_locked(struct dcbm_chan *c);
void dcbm_ring(struct dcbm_chan *c);
void dcbm_poll(struct dcbm_chan *c);
int dcbm_look(void);
void dcbm_renew(struct dcbm_chan *c);
int dcbm_channels_show(struct seq_file *m, void *unused);

bool dcbm_adjoin(unsigned long *src, unsigned long *dst, size_t len,
		 const struct migrate_copy *copy);
bool dcbm_append(struct dcbm_part *part, struct migrate_copy *copy);
int dcbm_submit_small(struct migrate_copy *copy);
void dcbm_issue(struct dcbm_chan *c);
void dcbm_forget_runs(void);

void dcbm_add_scatters(struct dcbm_chan *c);
void dcbm_remove_scatters(struct dcbm_chan *c);
struct dcbm_scatter *dcbm_get_scatter(struct dcbm_chan *c, size_t size);
void dcbm_put_scatter(struct dcbm_part *part);
int dcbm_map_scatter(struct dcbm_part *part);
void dcbm_unmap_scatter(struct dcbm_part *part);

void dcbm_fill(struct dcbm_part *part, struct migrate_copy *copy, size_t start,
	       size_t len);
void dcbm_send(struct dcbm_part *part);
int dcbm_submit(struct migrator *m, struct migrate_copy *copy);
void dcbm_check_stuck(struct dcbm_chan *c);
void dcbm_disown(struct dcbm_chan *c);
void dcbm_end_all(struct dcbm_chan *c);
void dcbm_flush_reap(void);
void dcbm_arm_watchdog(void);

/* As many parts as channels, but none of less than @stripe bytes; at least 1 */
static inline unsigned int dcbm_nr_parts(size_t size, size_t stripe,
					 unsigned int live)
{
	size_t fit = size / max_t(size_t, stripe, PAGE_SIZE);

	return max_t(size_t, min_t(size_t, fit, live), 1);
}

/* Part @i of @nr begins here; it ends where part @i + 1 begins */
static inline size_t dcbm_part_start(size_t size, unsigned int nr,
				     unsigned int i)
{
	return (size >> PAGE_SHIFT) * i / nr << PAGE_SHIFT;
}

#endif /* _DCBM_H */
