/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of the copy offload share: settings, the state of one
 * activation, the window of folios in flight, statistics.
 */
#ifndef _MM_MIGRATE_OFFLOAD_INTERNAL_H
#define _MM_MIGRATE_OFFLOAD_INTERNAL_H

#include <linux/completion.h>
#include <linux/jump_label.h>
#include <linux/kobject.h>
#include <linux/migrate.h>
#include <linux/migrate_mode.h>
#include <linux/migrate_offload.h>
#include <linux/mm.h>
#include <linux/notifier.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>

#include "../migrate_compat.h"

#define MIGRATE_OFFLOAD_NAME_MAX	32
#define MIGRATE_OFFLOAD_MAX_WINDOW	BIT(18)	/* pages */
#define MIGRATE_OFFLOAD_MAX_TARGET_US	1000000UL
#define MIGRATE_OFFLOAD_MAX_DEADLINE_MS	60000UL
#define MIGRATE_OFFLOAD_ALL_REASONS	(BIT(MIGRATE_NR_REASONS) - 1)

/**
 * struct migrate_offload_settings - what the administrator asked for
 * @reasons: mask of enum migrate_reason that may use the engine
 * @min_bytes: smaller calls of migrate_pages() go Linux's own way; 0: auto
 * @target_us: how long a page may be inaccessible; 0: auto
 * @window_pages: pages that may be unmapped at one moment, whatever the target
 *	is; 0: as many as fit into it, and as keep the engine busy
 * @chunk_pages: pages that are unmapped, copied and remapped together; 0: auto
 * @stripe_bytes: smallest part of a folio for one channel or thread; 0: auto
 * @deadline_ms: how long an engine may end nothing; 0: auto
 * @engine_always: 1: the engine copies, be it slower than the CPU
 */
struct migrate_offload_settings {
	unsigned long reasons;
	unsigned long min_bytes;
	unsigned long target_us;
	unsigned long window_pages;
	unsigned long chunk_pages;
	unsigned long stripe_bytes;
	unsigned long deadline_ms;
	unsigned long engine_always;
};

/**
 * struct migrate_slot - one folio in a chunk
 * @copy: the pair of folios, and the engine's business
 * @submitted: the engine has taken the copy
 * @disowned: the migrator can do without the channel that has it
 * @overdue: it had not ended it at the deadline
 * @start_ns: when the unmapping began; 0 if nobody wants to know
 */
struct migrate_slot {
	struct migrate_copy copy;
	bool submitted;
	bool disowned;
	bool overdue;
	u64 start_ns;
};

/**
 * struct migrate_cost - what copies of folios of one order cost the calling task
 * @engine_ns: per base page, if the engine makes them; 0: not known
 * @cpu_ns: the same, if the CPU does
 * @tried: in jiffies; when the dearer one had a turn, or the CPU its first;
 *	0: never
 * @cpu_next: with few folios; the migrator has had such a turn, the CPU is next
 */
struct migrate_cost {
	u32 engine_ns;
	u32 cpu_ns;
	unsigned long tried;
	bool cpu_next;
};

/**
 * struct migrate_turn - some chunks in a row that the same one copies
 * @m: the migrator, or the CPU
 * @next: who has the next turn; NULL if that is not known yet
 * @few: it is a whole call, of few folios
 * @over: no more is copied in this turn
 * @order: of the first folio
 * @nr_chunks: how many are done with
 * @spent_ns: how long the task did nothing but submit their copies and wait
 * @nr_pages: base pages that @m should have copied, in chunks of @order alone; if
 *	@few in all
 * @left_pages: how many of these it has not
 * @lost_ns: part of @spent_ns for these chunks; if @few how long the call took
 */
struct migrate_turn {
	struct migrator *m;
	struct migrator *next;
	bool few;
	bool over;
	unsigned int order;
	unsigned int nr_chunks;
	u64 spent_ns;
	unsigned long nr_pages;
	unsigned long left_pages;
	u64 lost_ns;
};

/**
 * struct migrate_depth - what is known of folios that are copied while they are mapped
 * @ns: how long a page takes if little is in flight, and if much is; 0: not known
 * @tried: in jiffies; when the dearer one was last tried
 * @quota: how many base pages may be in flight, as the last call left it; 0: not known
 * @sure: much was in flight more than once
 */
struct migrate_depth {
	u32 ns[2];
	unsigned long tried;
	unsigned long quota;
	bool sure;
};

/* So many base pages of mapped folios are in flight at one moment, if many are */
#define MIGRATE_DEEP_PAGES	((unsigned long)SZ_64M >> PAGE_SHIFT)

/**
 * struct migrate_stretch - mapped folios that flow in one way
 * @deep: whole folios, many at a time
 * @order: of the first one
 * @pages_left: so many base pages may still be given to the engine in this stretch
 * @pages: so many were
 * @pages_moved: and so many of these have moved
 * @start_ns: when it began
 */
struct migrate_stretch {
	bool deep;
	unsigned int order;
	unsigned long pages_left;
	unsigned long pages;
	unsigned long pages_moved;
	u64 start_ns;
};

/**
 * struct migrate_chunk - folios that are unmapped, copied and remapped together
 * @slots: room for as many folios as a chunk can have
 * @nr_folios: how many there are
 * @nr_pages: the same in base pages
 * @unmoved: the first slot whose copy is still waited for
 * @m: who copies them: the migrator, or the CPU
 * @stats: of @m; they stay as long as its engine may have the chunk
 * @tell: whoever waits is woken by @told; else it has to look
 * @lost_ns: how long the task did nothing but submit its copies and wait
 * @unfit_pages: base pages that nobody may copy early
 * @written: the copy of a mapped folio was void
 * @disowned: a copy is, so the rest is not waited for
 * @copied_folios: how many of them @m copied and that moved
 * @copied_pages: the same in base pages
 * @window_pages: what was unmapped together with it or before
 * @start_ns: when its first folio was unmapped
 * @deadline: in jiffies; an engine that has done nothing by then has failed
 * @nr_before: how many others @m had been given when it had all of this one
 * @nr_ended: how many @m had ended when @deadline was set
 * @pending: copies that the engine has not finished, and one for the submitter
 * @told: the copy that was submitted last has ended, all but its last parts
 * @done: @pending has come to 0
 */
struct migrate_chunk {
	struct migrate_slot *slots;
	unsigned int nr_folios;
	unsigned long nr_pages;
	struct migrate_slot *unmoved;
	struct migrator *m;
	struct migrator_stats *stats;
	bool tell;
	u64 lost_ns;
	unsigned long unfit_pages;
	bool written;
	bool disowned;
	unsigned int copied_folios;
	unsigned long copied_pages;
	unsigned long window_pages;
	u64 start_ns;
	unsigned long deadline;
	long nr_before;
	long nr_ended;
	atomic_t pending;
	struct completion told;
	struct completion done;
};

/**
 * struct migrate_window - the memory that one task needs for what is in flight
 * @node: in the free list of the state, or among those that are retired
 * @slots: of all chunks
 * @stats: if retired: of the migrator that still uses it
 * @owner: if retired: the migrator's module, which must stay
 * @first: if retired: number of the oldest chunk in flight
 * @end: if retired: number of the chunk after the youngest
 * @nr_chunks: in the ring
 * @chunks: a ring
 *
 * Allocated when a migrator is made active, since a task that holds unmapped
 * folios must not allocate.
 */
struct migrate_window {
	struct list_head node;
	struct migrate_slot *slots;
	struct migrator_stats *stats;
	struct module *owner;
	unsigned int first;
	unsigned int end;
	unsigned int nr_chunks;
	struct migrate_chunk chunks[] __counted_by(nr_chunks);
};

/**
 * struct migrate_offload_state - one activation of one migrator
 * @m: the active migrator
 * @reasons: as in the settings
 * @min_bytes: effective
 * @target_us: effective; 0 if the window has been chosen
 * @window_pages: effective; what the target leaves of it is the quota
 * @chunk_pages: effective; at most @window_pages
 * @stripe_bytes: effective
 * @deadline: effective, in jiffies
 * @nr_chunks: chunks in each window
 * @may_choose: the CPU may copy where it is faster
 * @may_deepen: the engine may get whole folios, and more than fit into the target
 * @costs: of copies, by order of the folio; first in calls of many, then of few
 * @depth: of mapped folios, by order of the folio
 * @flush_pages: as the last call has learnt it: how many base pages should be
 *	unmapped for one TLB flush
 * @waited_ns: how long the task waited for the last chunk of all calls
 * @lost_window: a window was retired, since an engine still uses it
 * @lock: of @free
 * @free: windows that no task uses
 *
 * Immutable but for @lost_window, which is only ever set, @costs, @depth,
 * @flush_pages, @waited_ns, and the free list. A new setting makes a new state.
 */
struct migrate_offload_state {
	struct migrator *m;
	unsigned long reasons;
	unsigned long min_bytes;
	unsigned long target_us;
	unsigned long window_pages;
	unsigned long chunk_pages;
	unsigned long stripe_bytes;
	unsigned long deadline;
	unsigned int nr_chunks;
	bool may_choose;
	bool may_deepen;
	struct migrate_cost costs[2][NR_PAGE_ORDERS];
	struct migrate_depth depth[NR_PAGE_ORDERS];
	unsigned long flush_pages;
	u64 waited_ns;
	bool lost_window;
	spinlock_t lock;	/* of free */
	struct list_head free;
};

/* Larger folios, which hugetlb alone has, count as the largest of others do */
static inline unsigned int migrate_cost_order(const struct folio *folio)
{
	return min_t(unsigned int, folio_order(folio), NR_PAGE_ORDERS - 1);
}

/* pipeline.c */
struct migration_target_control *
migrate_offload_target_of(new_folio_t get_new_folio, unsigned long private);

/* registry.c */
extern struct migrate_offload_state __rcu *migrate_offload_state;
extern struct srcu_struct migrate_offload_srcu;

int migrate_offload_activate(const char *name);
ssize_t migrate_offload_show_active(char *buf);
ssize_t migrate_offload_show_available(char *buf);
unsigned long migrate_offload_get(size_t offset);
int migrate_offload_set(size_t offset, unsigned long value);
extern bool migrate_offload_suspended;
int migrate_offload_pm(struct notifier_block *nb, unsigned long event,
		       void *unused);
bool migrate_offload_in_service(const struct migrate_offload_state *state);
ssize_t migrate_offload_show_in_service(char *buf);
bool migrate_offload_replace_windows(void);
void migrate_window_free(struct migrate_window *window);

/* quota.c */
unsigned long
migrate_offload_first_quota(const struct migrate_offload_state *state);
unsigned long
migrate_offload_flush_pages(const struct migrate_offload_state *state,
			    unsigned long nr_pages, unsigned long wanted,
			    u64 unmap_ns, u64 flush_ns);
unsigned long migrate_offload_quota(const struct migrate_offload_state *state,
				    unsigned long quota, unsigned long nr_pages,
				    unsigned long flush_pages, bool alone,
				    u64 ns);
unsigned long
migrate_offload_most_mapped(const struct migrate_offload_state *state);
unsigned long
migrate_offload_first_mapped(const struct migrate_offload_state *state,
			     unsigned int order);
unsigned long
migrate_offload_most_cut(const struct migrate_offload_state *state,
			 unsigned long nr_pages);
unsigned long
migrate_offload_mapped_quota(const struct migrate_offload_state *state,
			     unsigned long quota, unsigned long nr_pages,
			     bool written);

/* choice.c */
struct migrator *migrate_offload_choose(struct migrate_offload_state *state,
					unsigned int order, bool few);
void migrate_turn_add(struct migrate_turn *turn,
		      const struct migrate_chunk *chunk);
bool migrate_turn_is_over(const struct migrate_turn *turn);
void migrate_offload_learn(struct migrate_offload_state *state,
			   const struct migrate_turn *turn);

/* depth.c */
void migrate_stretch_begin(struct migrate_stretch *stretch,
			   struct migrate_offload_state *state,
			   unsigned int order, unsigned long left_pages,
			   u64 now_ns);
void migrate_stretch_end(const struct migrate_stretch *stretch,
			 struct migrate_offload_state *state, u64 now_ns);

/* overdue.c */
void migrate_offload_keep(struct migrate_slot *slot);
void migrate_offload_retire_window(struct migrate_offload_state *state,
				   struct migrate_window *window,
				   unsigned int first, unsigned int end,
				   unsigned int nr_overdue);
void migrate_offload_reap(void);

/* stats.c */
enum migrate_offload_stat {
	STAT_CALLS,		/* calls of migrate_pages() that used an engine */
	STAT_FOLIOS,		/* folios that a migrator copied and that moved */
	STAT_BYTES,
	STAT_FALLBACK_KIND,	/* copied by the CPU: not known to be safe early */
	STAT_FALLBACK_REFS,	/* extra references */
	STAT_FALLBACK_BUSY,	/* engine or window pool full */
	STAT_FALLBACK_ERROR,	/* engine failed */
	STAT_LEFT,		/* folios left to Linux's own path */
	STAT_QUARANTINED_BYTES,	/* lost to an engine that is stuck */
	NR_MIGRATE_OFFLOAD_STATS
};

/**
 * struct migrator_stats - what one migrator has done since it registered
 * @kobj: its folder in sysfs
 * @folios: copied and moved
 * @bytes: the same in bytes
 * @errors: copies that failed
 * @overdue: copies that have missed their deadline and have not ended yet
 * @nr_submitted: chunks that it was given
 * @nr_ended: chunks of these that it has nothing to do with any more
 */
struct migrator_stats {
	struct kobject kobj;
	atomic_long_t folios;
	atomic_long_t bytes;
	atomic_long_t errors;
	atomic_long_t overdue;
	atomic_long_t nr_submitted;
	atomic_long_t nr_ended;
};

#define MIGRATE_OFFLOAD_NR_BUCKETS	24	/* the last one is open */

DECLARE_STATIC_KEY_FALSE(migrate_offload_time_key);

void migrate_offload_count(enum migrate_offload_stat stat, unsigned long n);
void migrate_offload_count_fallback(struct folio *src,
				    enum migrate_offload_stat stat, int error);
unsigned long migrate_offload_stat(enum migrate_offload_stat stat);
void migrate_offload_count_window(unsigned long nr_pages);
unsigned long migrate_offload_window_max(void);
void migrate_offload_count_time(u64 ns);
unsigned long migrate_offload_time_bucket(unsigned int i);

/* sysfs.c */
struct migrator_stats *migrator_stats_create(const char *name);
void migrator_stats_destroy(struct migrator_stats *stats);

/* copy.c */
extern struct migrator migrator_cpu;
void migrate_chunk_put(struct migrate_chunk *chunk, int nr);

/* Are all parts of a submitted copy done? Then its result is final. */
static inline bool migrate_copy_ended(struct migrate_copy *copy)
{
	return !atomic_read_acquire(&copy->parts);
}

#endif /* _MM_MIGRATE_OFFLOAD_INTERNAL_H */
