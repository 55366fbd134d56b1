/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One call of migrate_pages() on its way through the ring of chunks, and what its
 * stages share.
 */
#ifndef _MM_MIGRATE_OFFLOAD_PIPELINE_H
#define _MM_MIGRATE_OFFLOAD_PIPELINE_H

#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "../internal.h"
#include "../migrate_mapped.h"
#include "hooks.h"
#include "internal.h"

/* An engine that copies fewer in a second, 256 MiB, is not worth a wait */
#define SLOWEST_PAGES	(SZ_256M >> PAGE_SHIFT)
/* Who waits for longer sleeps, and is told by an interrupt from then on */
#define LOOK_NS		(40 * NSEC_PER_USEC)
/* After so many pages a task lets others run, if there are any */
#define RESCHED_PAGES	32UL

/**
 * struct migrate_pipeline - one call of migrate_pages() on its way through the ring
 * @state: the activation that is used; constant during the call
 * @window: the ring of chunks
 * @data: the migrator's own of this call, if it has begin_call()
 * @head: number of the oldest chunk in flight
 * @next: number of the next chunk to submit; @next - @head are in flight
 * @tail: number of the next chunk to fill; @tail - @next wait for a TLB flush
 * @quota: how many pages may be unmapped
 * @flush_pages: and how many should be for one TLB flush
 * @unmapped_pages: now
 * @busy_pages: dealt with since others could run
 * @turn: who copies now
 * @start_ns: when the call began
 * @alone: so many of the next folios are unmapped one by one
 * @engine_idle: the engine copies nothing unless this task helps
 * @engine_full: the engine has refused a copy since a chunk was last finished
 * @engine_small: it has no room for several chunks at once
 * @stop: unmap no more
 * @tried_again: what could not be moved as it was mapped
 * @from: the caller's folios. Those in flight come first, and then those that
 *	a destination is stocked for
 * @next_src: the first of the latter
 * @dsts: the destinations of both, in the same order
 * @next_dst: that of @next_src; at the end of @dsts if none is stocked
 * @target: can be asked not to wait for memory; NULL if nobody knows how
 * @stock_pages: how many pages of them were wanted the last time
 * @starved: nothing is there for the next folio without a wait
 * @no_memory: for the next folios neither
 * @to_linux: folios that migrate_pages() itself shall deal with
 * @failed: folios that nobody can move now
 * @call: what the caller asked for
 * @stretch: of mapped folios
 * @mapped_pages: how many base pages of these have yet to flow
 * @nr_succeeded: base pages migrated
 * @nr_thp_succeeded: THPs migrated
 */
struct migrate_pipeline {
	struct migrate_offload_state *state;
	struct migrate_window *window;
	void *data;
	unsigned int head;
	unsigned int next;
	unsigned int tail;
	unsigned long quota;
	unsigned long flush_pages;
	unsigned long unmapped_pages;
	unsigned long busy_pages;
	struct migrate_turn turn;
	u64 start_ns;
	unsigned int alone;
	bool engine_idle;
	bool engine_full;
	bool engine_small;
	bool stop;
	bool tried_again;
	struct list_head *from;
	struct folio *next_src;
	struct list_head dsts;
	struct folio *next_dst;
	struct migration_target_control *target;
	unsigned long stock_pages;
	bool starved;
	bool no_memory;
	struct list_head to_linux;
	struct list_head failed;
	struct migrate_call call;
	struct migrate_stretch stretch;
	unsigned long mapped_pages;
	int nr_succeeded;
	int nr_thp_succeeded;
};

/* Others wait for this call to end */
static inline bool pipeline_superseded(struct migrate_pipeline *p)
{
	return rcu_access_pointer(migrate_offload_state) != p->state ||
	       READ_ONCE(migrate_offload_suspended);
}

static inline struct migrate_chunk *pipeline_chunk(struct migrate_pipeline *p,
						   unsigned int nr)
{
	return &p->window->chunks[nr % p->state->nr_chunks];
}

/* Shallow, what is mapped is copied in parts from this size on */
static inline bool pipeline_cuts(const struct migrate_pipeline *p, size_t size)
{
	return size > 2 * p->state->stripe_bytes;
}

/* How many pages may be in flight with the next folio */
static inline unsigned long pipeline_most(struct migrate_pipeline *p)
{
	struct folio *next = p->next_src;

	if (p->stretch.deep)
		return MIGRATE_DEEP_PAGES;
	if (p->call.mapped && pipeline_cuts(p, folio_size(next)))
		return min(p->quota, migrate_offload_most_cut(p->state,
							      folio_nr_pages(next)));
	return p->quota;
}

/* For one more folio, beside those of the chunk that is being filled? */
static inline bool pipeline_has_room(struct migrate_pipeline *p,
				     unsigned long chunk_pages,
				     unsigned long nr_pages)
{
	unsigned long unmapped = p->unmapped_pages + chunk_pages;

	return !unmapped || unmapped + nr_pages <= pipeline_most(p);
}

/* A small quota is for two chunks, if an engine can work on one of them alone */
static inline unsigned long pipeline_chunk_pages(struct migrate_pipeline *p)
{
	unsigned long quota = p->engine_idle ? p->quota : p->quota / 2;

	if (p->stretch.deep)
		return DIV_ROUND_UP(MIGRATE_DEEP_PAGES, p->state->nr_chunks);
	if (!p->state->target_us)
		return p->state->chunk_pages;
	return clamp(quota, 1UL, p->state->chunk_pages);
}

static inline bool pipeline_has_stock(struct migrate_pipeline *p)
{
	return !list_entry_is_head(p->next_dst, &p->dsts, lru);
}

static inline bool pipeline_is_empty(struct migrate_pipeline *p)
{
	return p->head == p->tail;
}

/* Checking for each small folio is as dear as a tenth of all that is done here */
static inline void pipeline_resched(struct migrate_pipeline *p, long nr_pages)
{
	p->busy_pages += nr_pages;
	if (p->busy_pages < RESCHED_PAGES)
		return;
	p->busy_pages = 0;
	cond_resched_tasks_rcu_qs();
}

/* A page of 1 GiB alone takes a sound engine longer than a stuck one is waited for */
static inline void migrate_pipeline_set_deadline(struct migrate_pipeline *p,
						 struct migrate_chunk *chunk)
{
	chunk->deadline = jiffies + p->state->deadline +
			  chunk->nr_pages * HZ / SLOWEST_PAGES;
}

static inline bool folio_is_thp(struct folio *folio)
{
	return folio_test_pmd_mappable(folio) && !folio_test_hugetlb(folio);
}

/* stock.c */
void migrate_pipeline_put_dst(struct migrate_pipeline *p, struct folio *dst);
void migrate_pipeline_put_stock(struct migrate_pipeline *p);
bool migrate_pipeline_stock(struct migrate_pipeline *p);
bool migrate_pipeline_can_stock(struct migrate_pipeline *p);

/* unmap.c */
bool migrate_pipeline_can_unmap(struct migrate_pipeline *p);
void migrate_pipeline_advance(struct migrate_pipeline *p);

/* turn.c */
void migrate_pipeline_end_turn(struct migrate_pipeline *p);
void migrate_pipeline_count_turn(struct migrate_pipeline *p,
				 const struct migrate_chunk *chunk);
bool migrate_pipeline_take_turn(struct migrate_pipeline *p);
void migrate_pipeline_begin_stretch(struct migrate_pipeline *p);
bool migrate_pipeline_take_stretch(struct migrate_pipeline *p);

/* remap.c */
void migrate_pipeline_move_folio(struct migrate_pipeline *p,
				 struct migrate_chunk *chunk,
				 struct migrate_slot *slot);
bool migrate_pipeline_is_done(struct migrate_pipeline *p,
			      struct migrate_chunk *chunk);
void migrate_pipeline_remap_chunk(struct migrate_pipeline *p);

#endif /* _MM_MIGRATE_OFFLOAD_PIPELINE_H */
