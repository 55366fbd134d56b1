// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page migration with the copies made by a migrator, while this CPU goes on.
 *
 * Linux unmaps up to 512 pages, flushes the TLB, then copies and remaps them
 * one folio after the other. Here the folios of one call flow through a ring of
 * chunks, and each chunk is in one of three stages:
 *
 *	unmap	lock and unmap its folios, flush the TLB once, submit the copies
 *		of those that may be copied early, and move the others at once.
 *		Where flushes are dear, several chunks share one;
 *	copy	the migrator works, this task does not wait;
 *	remap	move each folio whose copy has ended to its destination, as Linux
 *		does, less the copy.
 *
 * The window is what is unmapped at one moment: at most window_pages, of which
 * the quota is what can be copied and remapped in time (quota.c), or one folio
 * if that is larger. A chunk closes at chunk_pages. For example 2 MiB folios
 * with chunk_pages = 128 and a quota of 1024: a chunk is one folio and two are
 * in flight, so folio n + 1 is unmapped while n is copied; n is then remapped
 * before n + 2 is unmapped.
 *
 * Folios that can be copied while they are mapped (mm/migrate_mapped.c) flow
 * first: they are protected instead of unmapped, and unmapped in the last stage,
 * if nobody has written to them. Who did makes the copy void. The folio then flows
 * with those that have to be unmapped first, when nothing that is mapped is in
 * flight any more.
 *
 * Nothing here waits for memory or for locks while folios are unmapped. The
 * caller's get_new_folio() may reclaim and compact. If it can be asked not to,
 * the next chunk's destinations are got while the engine works; what it then
 * has not, and all from whoever cannot be asked, is got when the window is
 * empty. The locks of the reverse mapping are tried. Only for a copy that an
 * engine has begun, and to map a folio again, is there a wait; the former has a
 * deadline.
 *
 * Only trouble-free folios are moved here. If the engine fails the CPU copies;
 * whatever else goes wrong, the folio is put back on the caller's list as it
 * was, and mm/migrate.c treats it as if this file did not exist.
 */
#include <kunit/static_stub.h>
#include <linux/jiffies.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/rmap.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/timekeeping.h>

#include "../internal.h"
#include "../migrate_mapped.h"
#include "eligible.h"
#include "hooks.h"
#include "internal.h"

#define CREATE_TRACE_POINTS
#include <trace/events/migrate_offload.h>

/* After so many pages a task lets others run, if there are any */
#define RESCHED_PAGES	32UL
/* So many pages that are copied are unmapped together */
#define STEP_PAGES	64UL
/* The longest wait for another worker's part without sleeping */
#define SPIN_NS		(100 * NSEC_PER_USEC)
/* A stock that needs the window empty grows so fast, up to so much */
#define STOCK_GROWTH	4
#define STOCK_MAX_PAGES	(SZ_32M >> PAGE_SHIFT)
/* So many folios of a stock find no memory: then the next won't either */
#define MAX_NOMEM	8

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
static bool pipeline_superseded(struct migrate_pipeline *p)
{
	return rcu_access_pointer(migrate_offload_state) != p->state ||
	       READ_ONCE(migrate_offload_suspended);
}

static struct migrate_chunk *pipeline_chunk(struct migrate_pipeline *p,
					    unsigned int nr)
{
	return &p->window->chunks[nr % p->state->nr_chunks];
}

/* For one more folio, beside those of the chunk that is being filled? */
static bool pipeline_has_room(struct migrate_pipeline *p,
			      unsigned long chunk_pages, unsigned long nr_pages)
{
	unsigned long unmapped = p->unmapped_pages + chunk_pages;
	unsigned long most = p->stretch.deep ? MIGRATE_DEEP_PAGES : p->quota;

	return !unmapped || unmapped + nr_pages <= most;
}

/* A small quota is for two chunks, if an engine can work on one of them alone */
static unsigned long pipeline_chunk_pages(struct migrate_pipeline *p)
{
	unsigned long quota = p->engine_idle ? p->quota : p->quota / 2;

	if (p->stretch.deep)
		return DIV_ROUND_UP(MIGRATE_DEEP_PAGES, p->state->nr_chunks);
	if (!p->state->target_us)
		return p->state->chunk_pages;
	return clamp(quota, 1UL, p->state->chunk_pages);
}

/* Checking for each small folio is as dear as a tenth of all that is done here */
static void pipeline_resched(struct migrate_pipeline *p, long nr_pages)
{
	p->busy_pages += nr_pages;
	if (p->busy_pages < RESCHED_PAGES)
		return;
	p->busy_pages = 0;
	cond_resched_tasks_rcu_qs();
}

/* --- destinations --- */

static void pipeline_add_dst(struct migrate_pipeline *p, struct folio *dst)
{
	if (unlikely(folio_test_hugetlb(dst)))
		migrate_hugetlb_take(dst, &p->dsts);
	else
		list_add_tail(&dst->lru, &p->dsts);
}

static void pipeline_put_dst(struct migrate_pipeline *p, struct folio *dst)
{
	if (unlikely(folio_test_hugetlb(dst))) {
		migrate_hugetlb_put(dst);
		return;
	}
	list_del(&dst->lru);
	if (p->call.put_new_folio)
		p->call.put_new_folio(dst, p->call.private);
	else
		folio_put(dst);
}

/* To migrate_pages() itself */
static void pipeline_leave(struct migrate_pipeline *p, struct folio *src)
{
	list_move_tail(&src->lru, &p->to_linux);
}

static void pipeline_put_stock(struct migrate_pipeline *p)
{
	struct folio *dst, *next;

	list_for_each_entry_safe(dst, next, &p->dsts, lru)
		pipeline_put_dst(p, dst);
}

static bool pipeline_has_stock(struct migrate_pipeline *p)
{
	return !list_entry_is_head(p->next_dst, &p->dsts, lru);
}

static bool pipeline_is_empty(struct migrate_pipeline *p)
{
	return p->head == p->tail;
}

/*
 * To empty the window costs an engine that works on its own some time: so the
 * stock grows. The first one is small, for the sake of the first folio.
 */
static unsigned long pipeline_stock_limit(struct migrate_pipeline *p)
{
	unsigned long most = max(STOCK_MAX_PAGES, p->state->window_pages);

	if (p->engine_idle || p->target || p->call.mapped || !p->stock_pages)
		return max(pipeline_chunk_pages(p), p->flush_pages);
	return min(p->stock_pages * STOCK_GROWTH, most);
}

/* Is nothing unmapped? Then there may be a wait for memory. */
static bool pipeline_may_wait(struct migrate_pipeline *p)
{
	return pipeline_is_empty(p) || p->call.mapped;
}

/* With folios unmapped this does not wait, and may return NULL for that */
static struct folio *pipeline_get_dst(struct migrate_pipeline *p,
				      struct folio *src)
{
	struct folio *dst;

	if (pipeline_may_wait(p))
		return p->call.get_new_folio(src, p->call.private);
	p->target->nowait = true;
	dst = p->call.get_new_folio(src, p->call.private);
	p->target->nowait = false;
	p->starved = !dst;
	return dst;
}

/*
 * Get destinations for the next folios; none is left from before. Return: false
 * if there is nothing more to do, or not as long as folios are unmapped.
 */
static bool pipeline_stock(struct migrate_pipeline *p)
{
	struct folio *src = p->next_src, *next, *dst;
	unsigned int nr_nomem = 0;
	unsigned long pages = 0;
	long pause;

	p->starved = false;
	p->stock_pages = pipeline_stock_limit(p);
	pause = min(p->stock_pages, RESCHED_PAGES);
	list_for_each_entry_safe_from(src, next, p->from, lru) {
		if (pause <= 0) {
			if (pages >= p->stock_pages || pipeline_superseded(p))
				break;
			cond_resched_tasks_rcu_qs();
			pause = min(p->stock_pages - pages, RESCHED_PAGES);
		}
		/* Given up meanwhile: what is written to is unmapped first */
		if (p->call.mapped && !migrate_mapped_fits(src)) {
			list_move_tail(&src->lru, p->call.failed);
			continue;
		}
		dst = NULL;
		/* A hugetlb folio flows only while it is mapped */
		if (migrate_offload_may_unmap(src) ||
		    (p->call.mapped && folio_test_hugetlb(src))) {
			dst = pipeline_get_dst(p, src);
			if (p->starved)
				break;
			nr_nomem += !dst;
		}
		if (likely(dst)) {
			if (!pages) {
				p->next_src = src;
				p->next_dst = dst;
			}
			pipeline_add_dst(p, dst);
			pages += folio_nr_pages(src);
			pause -= folio_nr_pages(src);
			continue;
		}
		/* Linux splits it, or knows that it cannot be moved */
		pipeline_leave(p, src);
		/* That it has no memory took long, or there are many like it */
		pause = 0;
		p->no_memory = nr_nomem == MAX_NOMEM;
		if (p->no_memory)
			break;
	}
	/* More than was wanted, if the folios are large: so does the next grow */
	p->stock_pages = pages;
	if (!pages)
		p->next_src = p->starved ? src :
			      list_entry(p->from, struct folio, lru);
	return pages;
}

/* --- unmap --- */

static bool is_thp(struct folio *folio)
{
	return folio_test_pmd_mappable(folio) && !folio_test_hugetlb(folio);
}

/* Is there room for the next folio in a chunk that has so many pages? */
static bool pipeline_may_grow(struct migrate_pipeline *p, unsigned long pages)
{
	return pipeline_has_stock(p) && pages < pipeline_chunk_pages(p) &&
	       pipeline_has_room(p, pages, folio_nr_pages(p->next_src));
}

/*
 * Unmap the next folio, or several in one step, for a chunk that has @pages
 * already; or protect it. Return: how many are now in the @room slots from @slot on;
 * none if the next one cannot be unmapped.
 */
static unsigned int pipeline_unmap_step(struct migrate_pipeline *p,
					struct migrate_slot *slot,
					unsigned int room, unsigned long pages)
{
	struct folio *srcs[MIGRATE_OFFLOAD_STEP], *dsts[MIGRATE_OFFLOAD_STEP];
	unsigned int nr = 0, max = min(migrate_offload_step(), room), i;
	long nr_pages = folio_nr_pages(p->next_src);
	bool thp = is_thp(p->next_src);
	u64 start_ns = 0;
	int done;

	if (p->alone || folio_test_pmd_mappable(p->next_src))
		max = 1;
	do {
		/* Our reference keeps it from being split since it got its dst */
		VM_WARN_ON_ONCE_FOLIO(folio_order(p->next_src) !=
				      folio_order(p->next_dst), p->next_src);
		srcs[nr] = p->next_src;
		dsts[nr++] = p->next_dst;
		pages += folio_nr_pages(p->next_src);
		p->next_src = list_next_entry(p->next_src, lru);
		p->next_dst = list_next_entry(p->next_dst, lru);
	} while (nr < max && pipeline_may_grow(p, pages));

	if (static_branch_unlikely(&migrate_offload_time_key))
		start_ns = ktime_get_ns();
	done = migrate_offload_unmap(&p->call, srcs, dsts, nr);
	for (i = 0; done > 0 && i < done; i++, slot++) {
		slot->start_ns = start_ns;
		slot->copy.src = srcs[i];
		slot->copy.dst = dsts[i];
	}
	/* What does not fit with others is not tried with them again */
	if (p->alone)
		p->alone--;
	else if (done <= 1)
		p->alone = nr - 1;
	i = max(done, 1);
	if (i < nr) {
		p->next_src = srcs[i];
		p->next_dst = dsts[i];
	}
	if (done > 0)
		return done;

	pipeline_put_dst(p, dsts[0]);
	if (!done) {
		/* Its last user had gone; it is freed */
		p->nr_succeeded += nr_pages;
		p->nr_thp_succeeded += thp;
	} else {
		list_move_tail(&srcs[0]->lru, p->call.failed);
	}
	return 0;
}

/* Fill the next chunk. Return: how many pages came to be unmapped. */
static unsigned long pipeline_unmap_chunk(struct migrate_pipeline *p)
{
	struct migrate_chunk *chunk = pipeline_chunk(p, p->tail);
	struct migrate_slot *slot = chunk->slots, *end;
	struct migrate_slot *last = slot + p->state->chunk_pages;
	unsigned long pages = 0, before;

	/* Many small folios may come to fewer pages than are wanted */
	while (slot < last && pipeline_may_grow(p, pages)) {
		if (!pages)
			chunk->start_ns = ktime_get_ns();
		before = pages;
		end = slot + pipeline_unmap_step(p, slot, last - slot, pages);
		for (; slot < end; slot++)
			pages += folio_nr_pages(slot->copy.src);
		pipeline_resched(p, max(pages - before, 1UL));
	}
	p->unmapped_pages += pages;
	p->mapped_pages -= min(pages, p->mapped_pages);
	p->stretch.pages += pages;
	p->stretch.pages_left -= min(pages, p->stretch.pages_left);
	chunk->nr_pages = pages;
	chunk->written = false;
	chunk->copied_folios = 0;
	chunk->copied_pages = 0;
	chunk->nr_folios = slot - chunk->slots;
	chunk->unmoved = chunk->slots;
	chunk->window_pages = p->unmapped_pages;
	p->tail += !!pages;
	return pages;
}

/* --- remap --- */

static void count_fallback(struct folio *src, enum migrate_offload_stat stat,
			   int error)
{
	migrate_offload_count(stat, 1);
	trace_migrate_offload_fallback(src, stat, error);
}

static void pipeline_count_moved(struct migrate_pipeline *p,
				 struct migrate_chunk *chunk,
				 struct migrate_slot *slot, long nr_pages,
				 bool thp, bool copied)
{
	p->nr_succeeded += nr_pages;
	p->nr_thp_succeeded += thp;
	p->stretch.pages_moved += nr_pages;
	if (static_branch_unlikely(&migrate_offload_time_key) && slot->start_ns) {
		migrate_offload_settle(&p->call);
		migrate_offload_count_time(ktime_get_ns() - slot->start_ns);
	}
	if (copied) {
		chunk->copied_folios++;
		chunk->copied_pages += nr_pages;
	}
}

/*
 * Put a folio back to where it was. It is unmapped no longer than this, and
 * whoever retries copies afresh.
 */
static void pipeline_undo_folio(struct migrate_pipeline *p,
				struct migrate_copy *copy)
{
	migrate_offload_undo(&p->call, copy->src, copy->dst);
}

/* Linux does not try it again */
static void pipeline_fail(struct migrate_pipeline *p, struct folio *src)
{
	list_move_tail(&src->lru, &p->failed);
}

/*
 * Both folios stay the engine's until it lets go. Whoever tried the source again
 * would make it inaccessible once more, and find the engine's reference.
 */
static void pipeline_give_up(struct migrate_pipeline *p,
			     struct migrate_copy *copy)
{
	migrate_offload_count(STAT_QUARANTINED_BYTES, folio_size(copy->dst));
	pipeline_undo_folio(p, copy);
	pipeline_fail(p, copy->src);
}

/*
 * The engine has not copied the folio, or does not say so.
 *
 * Return: true if the CPU may copy it.
 */
static bool pipeline_handle_error(struct migrate_pipeline *p,
				  struct migrate_copy *copy, int error)
{
	/* It had no room for a part of it */
	if (error == -EBUSY) {
		count_fallback(copy->src, STAT_FALLBACK_BUSY, error);
		return true;
	}
	atomic_long_inc(&copy->chunk->stats->errors);
	count_fallback(copy->src, STAT_FALLBACK_ERROR, error);
	/* The migrator's references keep both from being reused */
	if (error == -ETIMEDOUT) {
		pipeline_give_up(p, copy);
		return false;
	}
	/* Whoever reads it once more risks another machine check */
	if (error == -EHWPOISON) {
		pipeline_undo_folio(p, copy);
		pipeline_fail(p, copy->src);
		return false;
	}
	return true;
}

/*
 * The CPU copies what the engine has not, before the folio is unmapped. Return: 0 if
 * it is copied.
 */
static int pipeline_copy_mapped(struct migrate_slot *slot, int error)
{
	if (error)
		error = migrate_copy_protected(slot->copy.dst, slot->copy.src);
	if (static_branch_unlikely(&migrate_offload_time_key) &&
	    (error || folio_test_pmd_mappable(slot->copy.src)))
		slot->start_ns = ktime_get_ns();
	return error;
}

/*
 * Unmap some folios together that the engine has copied, from @slot on. Return: the first
 * slot that this has not tried, before @end.
 */
static struct migrate_slot *pipeline_unmap_copied(struct migrate_slot *slot,
						  struct migrate_slot *end)
{
	struct folio *srcs[MIGRATE_OFFLOAD_STEP], *dsts[MIGRATE_OFFLOAD_STEP];
	unsigned int nr = 0, max = migrate_offload_step();
	unsigned long pages = 0;
	u64 start_ns = 0;

	if (folio_test_pmd_mappable(slot->copy.src))
		return slot + 1;
	if (static_branch_unlikely(&migrate_offload_time_key))
		start_ns = ktime_get_ns();
	for (; slot < end && nr < max && pages < STEP_PAGES; slot++) {
		if (!slot->submitted || READ_ONCE(slot->copy.error))
			break;
		slot->start_ns = start_ns;
		srcs[nr] = slot->copy.src;
		dsts[nr++] = slot->copy.dst;
		pages += folio_nr_pages(slot->copy.src);
	}
	if (!nr)
		return slot + 1;
	/* The next copy is probably void, or it is not known why this was not done */
	return slot - nr + min(migrate_offload_unmap_copied(srcs, dsts, nr) + 1,
			       nr);
}

/* Move a folio to its destination. What the engine has not copied the CPU does. */
static __always_inline void __pipeline_move_folio(struct migrate_pipeline *p,
						  struct migrate_chunk *chunk,
						  struct migrate_slot *slot)
{
	struct folio *src = slot->copy.src;
	long nr_pages = folio_nr_pages(src);
	bool thp = is_thp(src);
	int error = slot->submitted ? READ_ONCE(slot->copy.error) : -EBUSY;
	bool by_engine = !error;
	int rc;

	if (unlikely(error) && slot->submitted &&
	    !pipeline_handle_error(p, &slot->copy, error))
		return;

	if (p->call.mapped)
		error = pipeline_copy_mapped(slot, error);
	rc = error == -EHWPOISON ? -EAGAIN :
	     migrate_offload_move(&p->call, src, slot->copy.dst, !error);
	if (rc == -EAGAIN)
		pipeline_undo_folio(p, &slot->copy);
	if (!rc)
		pipeline_count_moved(p, chunk, slot, nr_pages, thp, by_engine);
	else if (rc == -EHWPOISON || error == -EHWPOISON)
		pipeline_fail(p, src);
	else
		chunk->written |= p->call.mapped;
	pipeline_resched(p, nr_pages);
}

static void pipeline_move_folio(struct migrate_pipeline *p,
				struct migrate_chunk *chunk,
				struct migrate_slot *slot)
{
	__pipeline_move_folio(p, chunk, slot);
}

/* Make accessible what is ready, while the engine works on the others */
static void pipeline_remap_ended(struct migrate_pipeline *p,
				 struct migrate_chunk *chunk)
{
	struct migrate_slot *end = chunk->slots + chunk->nr_folios;

	/* What is mapped is in no hurry, and is better unmapped with others */
	if (p->call.mapped)
		return;
	for (; chunk->unmoved < end; chunk->unmoved++) {
		struct migrate_slot *slot = chunk->unmoved;

		if (!slot->submitted)
			continue;
		if (!migrate_copy_ended(&slot->copy))
			break;
		pipeline_move_folio(p, chunk, slot);
	}
	migrate_offload_settle(&p->call);
}

/* --- whose turn it is --- */

static void pipeline_end_turn(struct migrate_pipeline *p)
{
	if (p->turn.few)
		p->turn.lost_ns = ktime_get_ns() - p->start_ns;
	migrate_offload_learn(p->state, &p->turn);
	p->turn.over = true;
}

static void pipeline_count_turn(struct migrate_pipeline *p,
				const struct migrate_chunk *chunk)
{
	struct migrate_turn *turn = &p->turn;

	/* Nothing else is in flight then, and of the engine it says nothing */
	if (turn->m == &migrator_cpu) {
		p->stretch.start_ns += ktime_get_ns() - chunk->start_ns;
		p->stretch.pages -= min(chunk->nr_pages, p->stretch.pages);
		p->stretch.pages_moved -= min(chunk->copied_pages,
					      p->stretch.pages_moved);
	}

	if (!p->state->may_choose || turn->over)
		return;
	migrate_turn_add(turn, chunk);
	if (migrate_turn_is_over(turn))
		pipeline_end_turn(p);
}

/* Return: false if somebody else's copies have to be finished first */
static bool pipeline_take_turn(struct migrate_pipeline *p)
{
	unsigned int order = folio_order(p->next_src);
	struct migrate_turn *turn = &p->turn;

	if (!turn->over || p->stretch.deep)
		return true;
	if (!turn->next)
		turn->next = migrate_offload_choose(p->state, order, false);
	if (turn->next != turn->m) {
		if (!pipeline_is_empty(p))
			return false;
		p->engine_idle = turn->next->copies_by_cpu;
		/* What is right for the one may be far too much for the other */
		if (!p->call.mapped)
			p->quota = max(migrate_offload_first_quota(p->state),
				       p->flush_pages);
	}
	*turn = (struct migrate_turn) {
		.m = turn->next, .few = turn->few, .order = order,
	};
	return true;
}

/* Account for a chunk that has nothing unmapped any more */
static void pipeline_close_chunk(struct migrate_pipeline *p,
				 struct migrate_chunk *chunk)
{
	bool alone = chunk->window_pages == chunk->nr_pages && !p->engine_idle;
	unsigned long bytes = chunk->copied_pages << PAGE_SHIFT;
	struct migrator_stats *stats = chunk->stats;

	migrate_offload_settle(&p->call);
	pipeline_count_turn(p, chunk);
	if (p->call.mapped)
		p->quota = migrate_offload_mapped_quota(p->state, p->quota,
							chunk->nr_pages,
							chunk->written);
	else
		p->quota = migrate_offload_quota(p->state, p->head ? p->quota : 0,
						 chunk->window_pages,
						 p->flush_pages, alone,
						 ktime_get_ns() - chunk->start_ns);
	migrate_offload_count(STAT_FOLIOS, chunk->copied_folios);
	migrate_offload_count(STAT_BYTES, bytes);
	atomic_long_add(chunk->copied_folios, &stats->folios);
	atomic_long_add(bytes, &stats->bytes);
	p->unmapped_pages -= chunk->nr_pages;
	p->engine_full = false;
	p->head++;
}

/* --- a deadline that was missed --- */

/* Its source goes on as if nothing had been, but no page of it is freed */
static void pipeline_abandon_folio(struct migrate_pipeline *p,
				   struct migrate_slot *slot)
{
	atomic_long_inc(&p->state->m->stats->errors);
	count_fallback(slot->copy.src, STAT_FALLBACK_ERROR, -ETIME);
	slot->overdue = true;
	folio_get(slot->copy.src);
	folio_get(slot->copy.dst);
	pipeline_give_up(p, &slot->copy);
}

/* Return: how many folios' copies had not ended */
static unsigned int pipeline_abandon_chunk(struct migrate_pipeline *p,
					   struct migrate_chunk *chunk)
{
	struct migrate_slot *slot, *end = chunk->slots + chunk->nr_folios;
	unsigned int nr = 0;

	for (slot = chunk->unmoved; slot < end; slot++) {
		if (!slot->submitted)
			continue;
		if (migrate_copy_ended(&slot->copy)) {
			pipeline_move_folio(p, chunk, slot);
		} else {
			pipeline_abandon_folio(p, slot);
			nr++;
		}
	}
	return nr;
}

/* No longer wait for the engine: it keeps the window and what that speaks of */
static void pipeline_abandon(struct migrate_pipeline *p)
{
	unsigned int first = p->head, nr = 0;

	/* An engine that is lost is not slow */
	p->turn.over = true;
	while (p->head != p->tail) {
		struct migrate_chunk *chunk = pipeline_chunk(p, p->head);

		nr += pipeline_abandon_chunk(p, chunk);
		pipeline_close_chunk(p, chunk);
	}
	p->stop = true;
	/* Nor does it say how long a page takes */
	p->stretch.pages = 0;
	migrate_offload_retire_window(p->state, p->window, first, p->tail, nr);
	p->window = NULL;
}

/* --- copy --- */

/*
 * Help until others hold all that is left. They hold one part each, which takes
 * less time than to fall asleep and to be woken.
 */
static void pipeline_help_chunk(struct migrate_pipeline *p,
				struct migrate_chunk *chunk)
{
	struct migrator *m = chunk->m;
	u64 end;

	while (!completion_done(&chunk->done) && m->help(m, p->data))
		pipeline_remap_ended(p, chunk);
	end = local_clock() + SPIN_NS;
	while (!completion_done(&chunk->done) && !need_resched() &&
	       local_clock() < end)
		cpu_relax();
}

/*
 * An engine that many calls use has much to do before it comes to a chunk. It is
 * not stuck as long as it ends something that it was given before that chunk; what
 * it ends of what it was given later, on other channels, shows nothing.
 *
 * Return: false if it has ended nothing since the deadline was set.
 */
static bool pipeline_move_deadline(struct migrate_pipeline *p,
				   struct migrate_chunk *chunk)
{
	long ended = atomic_long_read(&chunk->stats->nr_ended);

	if (ended == chunk->nr_ended || chunk->nr_ended - chunk->nr_before >= 0)
		return false;
	chunk->nr_ended = ended;
	chunk->deadline = jiffies + p->state->deadline;
	return true;
}

/* Return: false if the engine is stuck before it is done with the chunk */
static bool pipeline_wait_chunk(struct migrate_pipeline *p,
				struct migrate_chunk *chunk)
{
	u64 start_ns;
	long left;

	if (chunk->m->help)
		pipeline_help_chunk(p, chunk);
	if (!completion_done(&chunk->done))
		pipeline_remap_ended(p, chunk);
	start_ns = ktime_get_ns();
	do {
		left = chunk->deadline - jiffies;
		left = wait_for_completion_timeout(&chunk->done, max(left, 1L));
	} while (!left && pipeline_move_deadline(p, chunk));
	chunk->lost_ns += ktime_get_ns() - start_ns;
	return left;
}

/* Finish the oldest chunk */
static void pipeline_remap_chunk(struct migrate_pipeline *p)
{
	struct migrate_chunk *chunk = pipeline_chunk(p, p->head);
	struct migrate_slot *slot, *end = chunk->slots + chunk->nr_folios;
	struct migrate_slot *untried = chunk->slots;

	if (!pipeline_wait_chunk(p, chunk)) {
		pipeline_abandon(p);
		return;
	}
	trace_migrate_offload_remap(chunk->m->name, p->head, chunk->nr_folios,
				    chunk->nr_pages, p->unmapped_pages,
				    p->quota);
	for (slot = chunk->unmoved; slot < end; slot++) {
		if (!slot->submitted)
			continue;
		if (p->call.mapped && slot >= untried)
			untried = pipeline_unmap_copied(slot, end);
		__pipeline_move_folio(p, chunk, slot);
	}
	pipeline_close_chunk(p, chunk);
}

/* Nobody waits for the copy of what is mapped: so small folios share larger parts */
static size_t pipeline_stripe(const struct migrate_pipeline *p, size_t size)
{
	size_t stripe = p->state->stripe_bytes;

	if (p->stretch.deep)
		return max_t(size_t, size, SZ_2M);
	if (!p->call.mapped || p->state->m->copies_by_cpu || size > 2 * stripe)
		return stripe;
	return 2 * stripe;
}

/* Return: true if the migrator has taken the copy */
static bool pipeline_submit_folio(struct migrate_pipeline *p,
				  struct migrator *m, struct migrate_copy *copy)
{
	int error;

	if (!migrate_offload_may_copy(m, copy->src)) {
		count_fallback(copy->src, STAT_FALLBACK_KIND, 0);
		copy->chunk->unfit_pages += folio_nr_pages(copy->src);
		return false;
	}
	/*
	 * Whoever holds an extra reference, such as direct I/O in flight, may
	 * write to the folio. No new one can be made to write unnoticed: it is
	 * unmapped, or protected.
	 */
	if (p->call.mapped ? !migrate_protected_alone(copy->src) :
			     folio_ref_count(copy->src) !=
			     folio_expected_ref_count(copy->src) + 1) {
		count_fallback(copy->src, STAT_FALLBACK_REFS, 0);
		copy->chunk->unfit_pages += folio_nr_pages(copy->src);
		return false;
	}

	copy->call = p->data;
	copy->stripe_bytes = pipeline_stripe(p, folio_size(copy->src));
	copy->cursor = 0;
	copy->error = 0;
	atomic_set(&copy->parts, 1);
	error = m->submit(m, copy);
	if (error) {
		count_fallback(copy->src, STAT_FALLBACK_BUSY, error);
		p->engine_full = true;
		/* Out of service: all others would be unmapped for nothing */
		p->stop |= error == -ENODEV;
	}
	/* It had no room for a part of it */
	p->engine_full |= READ_ONCE(copy->error) == -EBUSY;
	return !error;
}

/* The CPU copies what the engine does not take, beside the engine */
static void pipeline_move_refused(struct migrate_pipeline *p,
				  struct migrate_chunk *chunk)
{
	struct migrate_slot *slot, *end = chunk->slots + chunk->nr_folios;

	for (slot = chunk->slots; slot < end; slot++)
		if (!slot->submitted)
			pipeline_move_folio(p, chunk, slot);
	migrate_offload_settle(&p->call);
}

/* Return: how many folios of the next chunk the migrator does not take */
static int pipeline_submit_chunk(struct migrate_pipeline *p, u64 start_ns)
{
	struct migrate_chunk *chunk = pipeline_chunk(p, p->next);
	struct migrate_slot *slot, *end = chunk->slots + chunk->nr_folios;
	struct migrator *m = p->turn.m;
	int nr_refused = 0;

	chunk->m = m;
	chunk->stats = m->stats;
	chunk->nr_ended = atomic_long_read(&m->stats->nr_ended);
	chunk->nr_before = atomic_long_fetch_inc(&m->stats->nr_submitted);
	chunk->unfit_pages = 0;
	atomic_set(&chunk->pending, chunk->nr_folios + 1);
	reinit_completion(&chunk->done);
	for (slot = chunk->slots; slot < end; slot++) {
		slot->submitted = pipeline_submit_folio(p, m, &slot->copy);
		nr_refused += !slot->submitted;
	}
	p->engine_idle = !m->flush(m, p->data);
	chunk->lost_ns = ktime_get_ns() - start_ns;
	chunk->deadline = jiffies + p->state->deadline;
	trace_migrate_offload_submit(m->name, p->next, chunk->nr_folios,
				     chunk->nr_pages, p->unmapped_pages,
				     p->quota);
	migrate_chunk_put(chunk, nr_refused + 1);
	p->next++;
	migrate_offload_count_window(p->unmapped_pages);
	return nr_refused;
}

/* A flush is as dear to the next call */
static void pipeline_set_flush_pages(struct migrate_pipeline *p,
				     unsigned long pages)
{
	p->flush_pages = pages;
	WRITE_ONCE(p->state->flush_pages, pages);
}

/*
 * Until now other CPUs could write to @pages through stale TLB entries. Return:
 * what time it is.
 */
static u64 pipeline_flush(struct migrate_pipeline *p, unsigned long pages)
{
	u64 unmap_ns = pipeline_chunk(p, p->next)->start_ns;
	u64 flush_ns = ktime_get_ns(), end_ns;

	try_to_unmap_flush();
	end_ns = ktime_get_ns();
	/* What is protected is not unmapped for it, so there is nothing to weigh */
	if (p->engine_small || p->call.mapped)
		return end_ns;
	pages = migrate_offload_flush_pages(p->state, pages, p->flush_pages,
					    flush_ns - unmap_ns,
					    end_ns - flush_ns);
	pipeline_set_flush_pages(p, pages);
	return end_ns;
}

/* --- the flow --- */

/* With nothing in flight. Deep the engine copies, else whoever has the turn. */
static void pipeline_begin_stretch(struct migrate_pipeline *p)
{
	struct folio *first = list_first_entry(p->from, struct folio, lru);
	u64 now_ns = ktime_get_ns();

	if (p->state->may_choose && !p->turn.over)
		pipeline_end_turn(p);
	migrate_stretch_end(&p->stretch, p->state, now_ns);
	migrate_stretch_begin(&p->stretch, p->state, folio_order(first),
			      p->mapped_pages, now_ns);
	if (!p->stretch.deep)
		return;
	p->turn.m = p->state->m;
	p->turn.next = NULL;
	p->engine_idle = false;
}

/* Return: false if what was given to the engine in another way has to end first */
static bool pipeline_take_stretch(struct migrate_pipeline *p)
{
	if (!p->call.mapped || p->stretch.pages_left)
		return true;
	if (!pipeline_is_empty(p))
		return false;
	pipeline_begin_stretch(p);
	return true;
}

static bool pipeline_can_unmap(struct migrate_pipeline *p)
{
	unsigned long least = 0;

	/* Who unregisters the migrator waits for this window only */
	p->stop |= pipeline_superseded(p) ||
		   atomic_long_read(&p->state->m->stats->overdue);
	if (p->stop || !pipeline_has_stock(p))
		return false;
	/* What the engine has no room for would be inaccessible for nothing */
	if (p->engine_full || p->tail - p->head == p->state->nr_chunks)
		return false;
	if (!pipeline_take_stretch(p))
		return false;
	/* Nor is it worth a flush to fill every gap of the window */
	if (p->next == p->tail)
		least = max(pipeline_chunk_pages(p), p->flush_pages) / 2;
	return pipeline_has_room(p, 0, max(folio_nr_pages(p->next_src), least)) &&
	       pipeline_take_turn(p);
}

/* Unmap, flush the TLB, submit: a chunk, or as many as should share a flush */
static void pipeline_advance(struct migrate_pipeline *p)
{
	unsigned int first = p->next;
	unsigned long pages = 0, more;
	int nr_refused;

	do {
		more = pipeline_unmap_chunk(p);
		pages += more;
	} while (more && pages < p->flush_pages && pipeline_can_unmap(p));
	if (!pages)
		return;
	nr_refused = pipeline_submit_chunk(p, pipeline_flush(p, pages));
	while (p->next != p->tail)
		nr_refused += pipeline_submit_chunk(p, ktime_get_ns());
	if (p->engine_full && p->next - first > 1) {
		p->engine_small = true;
		pipeline_set_flush_pages(p, 0);
	}
	for (; nr_refused && first != p->next; first++)
		pipeline_move_refused(p, pipeline_chunk(p, first));
}

/* With folios unmapped only from those who can be asked not to wait, once */
static bool pipeline_can_stock(struct migrate_pipeline *p)
{
	if (p->stop || p->no_memory || pipeline_has_stock(p))
		return false;
	return pipeline_may_wait(p) || (p->target && !p->starved);
}

static void pipeline_flow(struct migrate_pipeline *p)
{
	p->next_src = list_first_entry(p->from, struct folio, lru);
	p->next_dst = list_first_entry(&p->dsts, struct folio, lru);
	for (;;) {
		/* Ask once: the answer may change at any time */
		if (pipeline_can_unmap(p))
			pipeline_advance(p);
		else if (pipeline_can_stock(p) && pipeline_stock(p))
			continue;
		else if (!pipeline_is_empty(p))
			pipeline_remap_chunk(p);
		else
			break;
		/* Make accessible what is ready, or will not be without us */
		while (!pipeline_is_empty(p) &&
		       (p->engine_idle ||
			completion_done(&pipeline_chunk(p, p->head)->done)))
			pipeline_remap_chunk(p);
	}
	if (p->state->may_choose && !p->turn.over)
		pipeline_end_turn(p);
	pipeline_put_stock(p);
	/* Folios that could not be unmapped may have others' flushes pending */
	try_to_unmap_flush();
}

/* Return: false if nothing is left to flow, or the engine has kept the window */
static bool pipeline_flow_mapped(struct migrate_pipeline *p)
{
	struct list_head *all = p->from;
	struct folio *folio, *next;
	LIST_HEAD(mapped);
	LIST_HEAD(later);

	list_for_each_entry_safe(folio, next, all, lru) {
		if (!migrate_mapped_fits(folio))
			continue;
		list_move_tail(&folio->lru, &mapped);
		p->mapped_pages += folio_nr_pages(folio);
	}
	if (list_empty(&mapped))
		return true;

	p->from = &mapped;
	p->quota = migrate_offload_most_mapped(p->state);
	p->call.mapped = true;
	p->call.failed = &later;
	pipeline_begin_stretch(p);
	pipeline_flow(p);
	migrate_stretch_end(&p->stretch, p->state, ktime_get_ns());
	p->stretch.deep = false;
	/* It flows once more with what it could not move */
	list_splice_init(&mapped, all);
	list_splice_init(&later, all);
	p->from = all;
	p->call.mapped = false;
	p->call.failed = &p->to_linux;
	p->stop = false;
	p->starved = false;
	p->no_memory = false;
	p->start_ns = ktime_get_ns();
	p->quota = max(migrate_offload_first_quota(p->state), p->flush_pages);
	return p->window && !list_empty(all);
}

/* --- the call --- */

/* As migration_target_of(), for tests */
struct migration_target_control *
migrate_offload_target_of(new_folio_t get_new_folio, unsigned long private)
{
	KUNIT_STATIC_STUB_REDIRECT(migrate_offload_target_of, get_new_folio,
				   private);
	return migration_target_of(get_new_folio, private);
}

/* Is the call large enough? Finds out also whether its folios are few. */
static bool pipeline_is_large(struct migrate_pipeline *p)
{
	unsigned long most = p->state->may_choose ? p->quota << PAGE_SHIFT : 0;
	unsigned long bytes = 0;
	struct folio *folio;

	list_for_each_entry(folio, p->from, lru) {
		/* One folio is few, however large it is */
		p->turn.few = p->state->may_choose &&
			      (!bytes || bytes + folio_size(folio) <= most);
		bytes += folio_size(folio);
		if (bytes >= p->state->min_bytes && !p->turn.few)
			return true;
	}
	return bytes >= p->state->min_bytes;
}

/* Is the engine there, the call large enough, and is it worth it? */
static bool pipeline_is_wanted(struct migrate_pipeline *p)
{
	struct migrate_turn *turn = &p->turn;
	struct folio *first;

	if (!(p->state->reasons & BIT(p->call.reason)) ||
	    !migrate_offload_in_service(p->state) || !pipeline_is_large(p))
		return false;
	if (!turn->few)
		return true;
	first = list_first_entry(p->from, struct folio, lru);
	turn->next = migrate_offload_choose(p->state, folio_order(first), true);
	return turn->next;
}

static struct migrate_window *state_get_window(struct migrate_offload_state *state)
{
	struct migrate_window *window;

	spin_lock(&state->lock);
	window = list_first_entry_or_null(&state->free, struct migrate_window,
					  node);
	if (window)
		list_del(&window->node);
	spin_unlock(&state->lock);
	return window;
}

static void state_put_window(struct migrate_offload_state *state,
			     struct migrate_window *window)
{
	spin_lock(&state->lock);
	list_add(&window->node, &state->free);
	spin_unlock(&state->lock);
}

/* Return: false if there are too many calls at one time */
static bool pipeline_begin(struct migrate_pipeline *p)
{
	struct migrator *m = p->state->m;

	p->window = state_get_window(p->state);
	if (p->window && m->begin_call)
		p->data = m->begin_call(m);
	if (p->window && (p->data || !m->begin_call))
		return true;
	if (p->window)
		state_put_window(p->state, p->window);
	migrate_offload_count(STAT_FALLBACK_BUSY, 1);
	return false;
}

static void pipeline_end(struct migrate_pipeline *p)
{
	if (p->data)
		p->state->m->end_call(p->state->m, p->data);
	/* Not if an engine still uses it */
	if (p->window)
		state_put_window(p->state, p->window);
}

static void pipeline_run(struct migrate_pipeline *p)
{
	trace_migrate_offload_begin(p->state->m->name, p->call.reason);
	p->start_ns = ktime_get_ns();
	if (pipeline_flow_mapped(p))
		pipeline_flow(p);
	migrate_offload_count(STAT_CALLS, 1);
	migrate_offload_count(STAT_LEFT, list_count_nodes(&p->to_linux));
	list_splice(&p->to_linux, p->from);
	trace_migrate_offload_end(p->state->m->name, p->call.reason,
				  p->nr_succeeded);
}

/* Return: how many folios will not be migrated; they are on @ret_folios now */
static int pipeline_result(struct migrate_pipeline *p,
			   struct list_head *ret_folios,
			   struct migrate_offload_result *result)
{
	struct folio *folio;
	int nr_failed = 0;

	list_for_each_entry(folio, &p->failed, lru) {
		result->nr_failed_pages += folio_nr_pages(folio);
		nr_failed++;
	}
	list_splice_tail(&p->failed, ret_folios);
	result->nr_succeeded = p->nr_succeeded;
	result->nr_thp_succeeded = p->nr_thp_succeeded;
	return nr_failed;
}

int __migrate_offload_pages(struct list_head *from, struct list_head *ret_folios,
			    new_folio_t get_new_folio,
			    free_folio_t put_new_folio, unsigned long private,
			    enum migrate_reason reason,
			    struct migrate_sources *sources,
			    struct migrate_offload_result *result)
{
	struct migrate_pipeline p = {
		.from = from,
		.dsts = LIST_HEAD_INIT(p.dsts),
		.to_linux = LIST_HEAD_INIT(p.to_linux),
		.failed = LIST_HEAD_INIT(p.failed),
		.target = migrate_offload_target_of(get_new_folio, private),
		.call = {
			.get_new_folio = get_new_folio,
			.put_new_folio = put_new_folio,
			.private = private,
			.reason = reason,
			.sources = sources,
			.failed = &p.to_linux,
		},
	};
	struct migrate_offload_state *state;
	int idx;

	idx = srcu_read_lock(&migrate_offload_srcu);
	state = srcu_dereference(migrate_offload_state, &migrate_offload_srcu);
	if (!state)
		goto unlock;
	p.state = state;
	p.flush_pages = READ_ONCE(state->flush_pages);
	p.quota = max(migrate_offload_first_quota(state), p.flush_pages);
	p.engine_idle = state->m->copies_by_cpu;
	p.turn = (struct migrate_turn) { .m = state->m, .over = state->may_choose };
	if (!pipeline_is_wanted(&p) || !pipeline_begin(&p))
		goto unlock;
	pipeline_run(&p);
	pipeline_end(&p);
unlock:
	srcu_read_unlock(&migrate_offload_srcu, idx);
	return pipeline_result(&p, ret_folios, result);
}
