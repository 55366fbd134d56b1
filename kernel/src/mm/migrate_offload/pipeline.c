// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page migration with the copies made by a migrator, while this CPU goes on.
 *
 * Linux unmaps up to 512 pages, flushes the TLB, then copies and remaps them
 * one folio after the other. Here the folios of one call flow through a ring of
 * chunks, and each chunk is in one of three stages:
 *
 *	unmap	lock and unmap its folios, flush the TLB once, and submit the
 *		copies of those that may be copied early;
 *	copy	the migrator works, this task does not wait;
 *	remap	all copies of the chunk are done: move each folio to its
 *		destination as Linux does, less the copy.
 *
 * The window is what is unmapped at one moment: at most window_pages, or one
 * folio if that is larger. A chunk closes at chunk_pages. For example 2 MiB
 * folios with chunk_pages = 128 and window_pages = 1024: a chunk is one folio
 * and two are in flight, so folio n + 1 is unmapped while n is copied; n is
 * then remapped before n + 2 is unmapped.
 *
 * Only trouble-free folios are moved here. If the engine fails the CPU copies;
 * whatever else goes wrong, the folio is put back on the caller's list as it
 * was, and mm/migrate.c treats it as if this file did not exist.
 */
#include <linux/hugetlb.h>
#include <linux/memremap.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/timekeeping.h>

#include "../internal.h"
#include "hooks.h"
#include "internal.h"

#define CREATE_TRACE_POINTS
#include <trace/events/migrate_offload.h>

/* After so many pages a task lets others run, if there are any */
#define RESCHED_PAGES	32
/* The longest wait for another worker's part without sleeping */
#define SPIN_NS		(100 * NSEC_PER_USEC)

/**
 * struct migrate_run - one call of migrate_pages() on its way through the ring
 * @state: the activation that is used; constant during the run
 * @window: the ring of chunks
 * @head: number of the oldest chunk in flight
 * @tail: number of the next chunk to fill; @tail - @head are in flight
 * @nr_pages: unmapped now
 * @busy_pages: dealt with since others could run
 * @alone: the engine copies nothing unless this task helps
 * @full: the engine has refused a copy since a chunk was last finished
 * @stop: unmap no more
 * @from: folios to do
 * @left: folios that Linux shall deal with
 * @call: what the caller asked for
 * @nr_succeeded: base pages migrated
 * @nr_thp_succeeded: THPs migrated
 */
struct migrate_run {
	const struct migrate_offload_state *state;
	struct migrate_window *window;
	unsigned int head;
	unsigned int tail;
	unsigned long nr_pages;
	unsigned long busy_pages;
	bool alone;
	bool full;
	bool stop;
	struct list_head *from;
	struct list_head left;
	struct migrate_call call;
	int nr_succeeded;
	int nr_thp_succeeded;
};

static struct migrate_chunk *run_chunk(struct migrate_run *run, unsigned int nr)
{
	return &run->window->chunks[nr % run->state->nr_chunks];
}

/*
 * May the contents be copied before migrate_folio() is called? Only where it
 * is known that nobody can write to a folio that is locked, unmapped and has no
 * extra references. Not so with buffer heads: a journal writes to b_data under
 * the buffer's lock.
 */
static bool migrate_offload_eligible(struct folio *src)
{
	struct address_space *mapping;

	VM_WARN_ON_ONCE_FOLIO(!folio_test_locked(src), src);

	if (folio_test_anon(src))
		return true;	/* the swap cache has migrate_folio(), too */
	mapping = folio_mapping(src);
	if (!mapping || mapping_inaccessible(mapping))
		return false;
	return mapping->a_ops->migrate_folio == migrate_folio ||
	       mapping->a_ops->migrate_folio == filemap_migrate_folio;
}

/* An early look, without the folio's lock: is it worth unmapping here? */
static bool migrate_offload_candidate(struct folio *src)
{
	if (folio_test_hugetlb(src) || __folio_test_movable(src) ||
	    folio_is_zone_device(src))
		return false;
	/* Linux splits these first */
	if (folio_order(src) > 1 && !data_race(list_empty(&src->_deferred_list)) &&
	    folio_test_partially_mapped(src))
		return false;
	return true;
}

static bool run_has_room(struct migrate_run *run, unsigned long nr_pages)
{
	return !run->nr_pages ||
	       run->nr_pages + nr_pages <= run->state->window_pages;
}

/* Checking for each small folio is as dear as a tenth of all that is done here */
static void run_resched(struct migrate_run *run, long nr_pages)
{
	run->busy_pages += nr_pages;
	if (run->busy_pages < RESCHED_PAGES)
		return;
	run->busy_pages = 0;
	cond_resched_tasks_rcu_qs();
}

/* Return: true if @src now belongs to @chunk, in @slot */
static bool run_unmap_folio(struct migrate_run *run,
			    struct migrate_chunk *chunk,
			    struct migrate_slot *slot, struct folio *src,
			    long nr_pages)
{
	struct folio *dst = NULL;
	int rc;

	slot->start_ns = 0;
	if (static_branch_unlikely(&migrate_offload_time_key))
		slot->start_ns = ktime_get_ns();

	rc = migrate_offload_unmap(&run->call, src, &dst);
	if (rc == MIGRATEPAGE_UNMAP) {
		slot->copy.src = src;
		slot->copy.dst = dst;
		list_move_tail(&src->lru, &chunk->srcs);
		list_add_tail(&dst->lru, &chunk->dsts);
		chunk->nr_pages += nr_pages;
		run->nr_pages += nr_pages;
		return true;
	}
	if (rc == MIGRATEPAGE_SUCCESS) {
		/* Its last user had gone; it is freed */
		run->nr_succeeded += nr_pages;
	} else {
		list_move_tail(&src->lru, &run->left);
		run->stop |= rc == -ENOMEM;
	}
	return false;
}

/* Fill the next chunk. Return: false if nothing came to be unmapped. */
static bool run_unmap_chunk(struct migrate_run *run)
{
	struct migrate_chunk *chunk = run_chunk(run, run->tail);
	struct migrate_slot *slot = chunk->slots;
	struct folio *src;
	long nr_pages;

	chunk->nr_pages = 0;
	chunk->copied_folios = 0;
	chunk->copied_pages = 0;
	INIT_LIST_HEAD(&chunk->srcs);
	INIT_LIST_HEAD(&chunk->dsts);

	while (!list_empty(run->from) &&
	       chunk->nr_pages < run->state->chunk_pages) {
		src = list_first_entry(run->from, struct folio, lru);
		if (!migrate_offload_candidate(src)) {
			list_move_tail(&src->lru, &run->left);
			continue;
		}
		nr_pages = folio_nr_pages(src);
		if (!run_has_room(run, nr_pages))
			break;
		if (run_unmap_folio(run, chunk, slot, src, nr_pages))
			slot++;
		else if (run->stop)
			break;
		run_resched(run, nr_pages);
	}
	chunk->nr_folios = slot - chunk->slots;
	return chunk->nr_folios;
}

static void count_fallback(struct folio *src, enum migrate_offload_stat stat,
			   int error)
{
	migrate_offload_count(stat, 1);
	trace_migrate_offload_fallback(src, stat, error);
}

/* Return: true if the migrator has taken the copy */
static bool run_submit_folio(struct migrate_run *run, struct migrator *m,
			     struct migrate_copy *copy)
{
	int error;

	if (!migrate_offload_eligible(copy->src)) {
		count_fallback(copy->src, STAT_FALLBACK_KIND, 0);
		return false;
	}
	/*
	 * Whoever holds an extra reference, such as direct I/O in flight, may
	 * write to the folio. No new one can be made to write: it is unmapped.
	 */
	if (folio_ref_count(copy->src) !=
	    folio_expected_ref_count(copy->src) + 1) {
		count_fallback(copy->src, STAT_FALLBACK_REFS, 0);
		return false;
	}

	copy->cursor = 0;
	copy->error = 0;
	atomic_set(&copy->parts, 1);
	error = m->submit(m, copy);
	if (error) {
		count_fallback(copy->src, STAT_FALLBACK_BUSY, error);
		run->full = true;
	}
	return !error;
}

static void run_submit_chunk(struct migrate_run *run)
{
	struct migrate_chunk *chunk = run_chunk(run, run->tail);
	struct migrate_slot *end = chunk->slots + chunk->nr_folios;
	struct migrator *m = run->state->m;
	struct migrate_slot *slot;

	/* Until now other CPUs could write through stale TLB entries */
	try_to_unmap_flush();

	atomic_set(&chunk->pending, chunk->nr_folios + 1);
	reinit_completion(&chunk->done);
	for (slot = chunk->slots; slot < end; slot++) {
		slot->submitted = run_submit_folio(run, m, &slot->copy);
		if (!slot->submitted)
			atomic_dec(&chunk->pending);
	}
	run->alone = !m->flush(m);
	trace_migrate_offload_submit(run->tail, chunk->nr_folios,
				     chunk->nr_pages, run->nr_pages);
	migrate_chunk_put(chunk);
	run->tail++;
	migrate_offload_count_window(run->nr_pages);
}

static void run_count_moved(struct migrate_run *run,
			    struct migrate_chunk *chunk,
			    struct migrate_slot *slot, long nr_pages, bool thp,
			    bool copied)
{
	run->nr_succeeded += nr_pages;
	run->nr_thp_succeeded += thp;
	if (static_branch_unlikely(&migrate_offload_time_key) && slot->start_ns)
		migrate_offload_count_time(ktime_get_ns() - slot->start_ns);
	if (copied) {
		chunk->copied_folios++;
		chunk->copied_pages += nr_pages;
	}
}

/*
 * Put a folio back to where it was. It is unmapped no longer than this, and
 * whoever retries copies afresh.
 */
static void run_leave_folio(struct migrate_run *run, struct migrate_copy *copy)
{
	migrate_offload_undo(&run->call, copy->src, copy->dst);
}

static void run_remap_folio(struct migrate_run *run,
			    struct migrate_chunk *chunk,
			    struct migrate_slot *slot)
{
	struct migrate_copy *copy = &slot->copy;
	struct folio *src = copy->src;
	long nr_pages = folio_nr_pages(src);
	bool thp = folio_test_large(src) && folio_test_pmd_mappable(src);
	int error = slot->submitted ? READ_ONCE(copy->error) : 0;
	bool copied = slot->submitted && !error;
	int rc;

	if (error) {
		atomic_long_inc(&run->state->m->stats->errors);
		count_fallback(src, STAT_FALLBACK_ERROR, error);
	}
	if (error == -ETIMEDOUT) {
		/* The migrator's reference keeps dst from being reused */
		migrate_offload_count(STAT_QUARANTINED_BYTES,
				      nr_pages << PAGE_SHIFT);
		run_leave_folio(run, copy);
		return;
	}
	if (error == -EHWPOISON) {
		/* The CPU need not trip over it here as well */
		run_leave_folio(run, copy);
		return;
	}

	rc = migrate_offload_move(&run->call, src, copy->dst, copied);
	if (rc == MIGRATEPAGE_SUCCESS)
		run_count_moved(run, chunk, slot, nr_pages, thp, copied);
	else if (rc == -EAGAIN)
		run_leave_folio(run, copy);
	run_resched(run, nr_pages);
}

/*
 * Help until others hold all that is left. They hold one part each, which takes
 * less time than to fall asleep and to be woken.
 */
static void run_help_chunk(struct migrator *m, struct migrate_chunk *chunk)
{
	u64 end;

	while (!completion_done(&chunk->done) && m->help(m))
		;
	end = local_clock() + SPIN_NS;
	while (!completion_done(&chunk->done) && !need_resched() &&
	       local_clock() < end)
		cpu_relax();
}

static void run_wait_chunk(struct migrate_run *run, struct migrate_chunk *chunk)
{
	struct migrator *m = run->state->m;

	if (m->help)
		run_help_chunk(m, chunk);
	wait_for_completion(&chunk->done);
}

static void run_count_chunk(struct migrate_run *run, struct migrate_chunk *chunk)
{
	unsigned long bytes = chunk->copied_pages << PAGE_SHIFT;
	struct migrator_stats *stats = run->state->m->stats;

	migrate_offload_count(STAT_FOLIOS, chunk->copied_folios);
	migrate_offload_count(STAT_BYTES, bytes);
	atomic_long_add(chunk->copied_folios, &stats->folios);
	atomic_long_add(bytes, &stats->bytes);
}

/* Finish the oldest chunk */
static void run_remap_chunk(struct migrate_run *run)
{
	struct migrate_chunk *chunk = run_chunk(run, run->head);
	struct migrate_slot *end = chunk->slots + chunk->nr_folios;
	struct migrate_slot *slot;

	run_wait_chunk(run, chunk);
	trace_migrate_offload_remap(run->head, chunk->nr_folios,
				    chunk->nr_pages, run->nr_pages);
	for (slot = chunk->slots; slot < end; slot++)
		run_remap_folio(run, chunk, slot);
	run_count_chunk(run, chunk);
	run->nr_pages -= chunk->nr_pages;
	run->full = false;
	run->head++;
}

static bool run_superseded(struct migrate_run *run)
{
	return rcu_access_pointer(migrate_offload_state) != run->state;
}

static bool run_can_unmap(struct migrate_run *run)
{
	struct folio *src;

	/* Who unregisters the migrator waits for this window only */
	run->stop |= run_superseded(run);
	if (run->stop || list_empty(run->from))
		return false;
	/* What the engine has no room for would be inaccessible for nothing */
	if (run->full || run->tail - run->head == run->state->nr_chunks)
		return false;
	src = list_first_entry(run->from, struct folio, lru);
	return run_has_room(run, folio_nr_pages(src));
}

static void run_pipeline(struct migrate_run *run)
{
	for (;;) {
		/* Ask once: the answer may change at any time */
		if (run_can_unmap(run)) {
			if (run_unmap_chunk(run))
				run_submit_chunk(run);
		} else if (run->head != run->tail) {
			run_remap_chunk(run);
		} else {
			break;
		}
		/* Make accessible what is ready, or will not be without us */
		while (run->head != run->tail &&
		       (run->alone ||
			completion_done(&run_chunk(run, run->head)->done)))
			run_remap_chunk(run);
	}
	/* Folios that could not be unmapped may have others' flushes pending */
	try_to_unmap_flush();
}

/* Is the call large enough, and allowed to use the engine? */
static bool state_wants(const struct migrate_offload_state *state,
			struct list_head *from, enum migrate_reason reason)
{
	unsigned long bytes = 0;
	struct folio *folio;

	if (!(state->reasons & BIT(reason)))
		return false;
	list_for_each_entry(folio, from, lru) {
		bytes += folio_size(folio);
		if (bytes >= state->min_bytes)
			return true;
	}
	return false;
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

static void run_call(struct migrate_run *run)
{
	trace_migrate_offload_begin(run->state->m->name, run->call.reason);
	run_pipeline(run);
	migrate_offload_count(STAT_CALLS, 1);
	migrate_offload_count(STAT_LEFT, list_count_nodes(&run->left));
	trace_migrate_offload_end(run->state->m->name, run->call.reason,
				  run->nr_succeeded);
	list_splice(&run->left, run->from);
}

void __migrate_offload_pages(struct list_head *from,
			     new_folio_t get_new_folio,
			     free_folio_t put_new_folio, unsigned long private,
			     enum migrate_reason reason, int *nr_succeeded,
			     int *nr_thp_succeeded)
{
	struct migrate_run run = {
		.from = from,
		.left = LIST_HEAD_INIT(run.left),
		.call = {
			.get_new_folio = get_new_folio,
			.put_new_folio = put_new_folio,
			.private = private,
			.reason = reason,
			.left = &run.left,
		},
	};
	struct migrate_offload_state *state;
	int idx;

	idx = srcu_read_lock(&migrate_offload_srcu);
	state = srcu_dereference(migrate_offload_state, &migrate_offload_srcu);
	if (!state || !state_wants(state, from, reason))
		goto unlock;
	run.window = state_get_window(state);
	if (!run.window) {
		migrate_offload_count(STAT_FALLBACK_BUSY, 1);
		goto unlock;
	}
	run.state = state;
	run_call(&run);
	state_put_window(state, run.window);
	*nr_succeeded += run.nr_succeeded;
	*nr_thp_succeeded += run.nr_thp_succeeded;
unlock:
	srcu_read_unlock(&migrate_offload_srcu, idx);
}
