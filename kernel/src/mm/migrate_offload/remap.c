// SPDX-License-Identifier: GPL-2.0-only
/*
 * The last stage of a chunk: wait for its copies, and move each folio to its
 * destination. What the engine has not copied the CPU does; a folio that cannot be
 * moved is put back as it was. If the engine misses its deadline, all that it still
 * copies is left to it (overdue.c).
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/timekeeping.h>
#include <trace/events/migrate_offload.h>

#include "../internal.h"
#include "../migrate_mapped.h"
#include "hooks.h"
#include "internal.h"
#include "pipeline.h"

/* So many pages that are copied are unmapped together */
#define STEP_PAGES	64UL
/* The longest wait for another worker's part without sleeping */
#define SPIN_NS		(100 * NSEC_PER_USEC)
/* How many parts of other calls this one ends before it does something else */
#define MOST_LOOKS	64
/* So often a sleeper sees whether a copy was disowned */
#define STEP_JIFFIES	(HZ / 10L)
/* The longest without sleeping for copies that are not told of */
#define MOST_LOOK_NS	(2 * NSEC_PER_MSEC)
/* After that it is slept for 1/128 to 1/64 of the wait so far */
#define SLEEP_SHIFT	7

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
 * The engine has not copied the folio, or does not say so.
 *
 * Return: true if the CPU may copy it.
 */
static bool pipeline_handle_error(struct migrate_pipeline *p,
				  struct migrate_copy *copy, int error)
{
	/* It had no room for a part of it */
	if (error == -EBUSY) {
		migrate_offload_count_fallback(copy->src, STAT_FALLBACK_BUSY, error);
		return true;
	}
	atomic_long_inc(&copy->chunk->stats->errors);
	migrate_offload_count_fallback(copy->src, STAT_FALLBACK_ERROR, error);
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
	    (error || folio_mapped(slot->copy.src)))
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
	struct folio *first = slot->copy.src;
	unsigned long pages = 0;
	u64 start_ns = 0;

	if (static_branch_unlikely(&migrate_offload_time_key))
		start_ns = ktime_get_ns();
	for (; slot < end && nr < max && pages < STEP_PAGES; slot++) {
		if (!slot->submitted || READ_ONCE(slot->copy.error) ||
		    !migrate_goes_with(slot->copy.src, first) ||
		    !migrate_folio_needs_copy(slot->copy.dst))
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
	bool thp = folio_is_thp(src);
	int error = slot->submitted ? READ_ONCE(slot->copy.error) : -EBUSY;
	bool by_engine = !error;
	int rc;

	if (unlikely(error) && slot->submitted &&
	    !pipeline_handle_error(p, &slot->copy, error))
		return;

	/* The CPU's copy takes long: nobody shall wait meanwhile for what has moved */
	if (unlikely(error) && nr_pages > STEP_PAGES)
		migrate_offload_settle(&p->call);
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

void migrate_pipeline_move_folio(struct migrate_pipeline *p,
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
		migrate_pipeline_move_folio(p, chunk, slot);
	}
	migrate_offload_settle(&p->call);
}

/* Account for a chunk that has nothing unmapped any more */
static void pipeline_close_chunk(struct migrate_pipeline *p,
				 struct migrate_chunk *chunk)
{
	bool alone = chunk->window_pages == chunk->nr_pages && !p->engine_idle;
	unsigned long bytes = chunk->copied_pages << PAGE_SHIFT;
	struct migrator_stats *stats = chunk->stats;

	migrate_offload_settle(&p->call);
	migrate_pipeline_count_turn(p, chunk);
	if (p->call.mapped) {
		p->quota = migrate_offload_mapped_quota(p->state, p->quota,
							chunk->nr_pages,
							chunk->written);
		WRITE_ONCE(p->state->depth[p->stretch.order].quota, p->quota);
	} else {
		p->quota = migrate_offload_quota(p->state, p->head ? p->quota : 0,
						 chunk->window_pages,
						 p->flush_pages, alone,
						 ktime_get_ns() - chunk->start_ns);
	}
	migrate_offload_count(STAT_FOLIOS, chunk->copied_folios);
	migrate_offload_count(STAT_BYTES, bytes);
	atomic_long_add(chunk->copied_folios, &stats->folios);
	atomic_long_add(bytes, &stats->bytes);
	p->unmapped_pages -= chunk->nr_pages;
	p->engine_full = false;
	p->head++;
}

/*
 * Its source goes on as if nothing had been, but both folios stay the engine's until
 * it lets go. Whoever tried the source again would make it inaccessible once more, and
 * find the engine's reference.
 */
static void pipeline_abandon_folio(struct migrate_pipeline *p,
				   struct migrate_slot *slot)
{
	struct migrate_copy *copy = &slot->copy;

	atomic_long_inc(&copy->chunk->stats->errors);
	migrate_offload_count_fallback(copy->src, STAT_FALLBACK_ERROR, -ETIME);
	migrate_offload_count(STAT_QUARANTINED_BYTES, folio_size(copy->dst));
	migrate_offload_keep(slot);
	pipeline_undo_folio(p, copy);
	pipeline_fail(p, copy->src);
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
			migrate_pipeline_move_folio(p, chunk, slot);
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
 * The engine need not say so: it is looked at, unless that is no use now. What it ends
 * may be of other calls, without an end: so this does not look for ever.
 */
bool migrate_pipeline_is_done(struct migrate_pipeline *p,
			      struct migrate_chunk *chunk)
{
	struct migrator *m = chunk->m;
	unsigned int looks = MOST_LOOKS;

	while (!completion_done(&chunk->done) && looks--)
		if (!m->look || m->look(m, p->data) <= 0)
			break;
	return completion_done(&chunk->done);
}

/*
 * Nothing has ended by now. A chunk that tells is slept for, once: then the rest of it
 * has ended or will soon. Others are spun for, but for those that take long, be it that
 * the engine is slow or that the folio is huge. There the task sleeps each time for a
 * small part of the wait so far, and is late by that at most.
 */
static void pipeline_rest(struct migrate_chunk *chunk, u64 start,
			  u64 *spin_until)
{
	u64 now = local_clock();

	if (chunk->tell) {
		/* An interrupt may get lost */
		wait_for_completion_timeout(&chunk->told, 2);
		chunk->tell = false;
		*spin_until = local_clock() + MOST_LOOK_NS;
	} else if (now < *spin_until) {
		cpu_relax();
		cond_resched();
	} else {
		u64 us = div_u64((now - start) >> SLEEP_SHIFT, NSEC_PER_USEC);

		usleep_range(us, 2 * us);
	}
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
	migrate_pipeline_set_deadline(p, chunk);
	return true;
}

/* Has the engine ended nothing for too long, or does the migrator say so of a copy? */
static bool pipeline_is_stuck(struct migrate_pipeline *p,
			      struct migrate_chunk *chunk)
{
	if (READ_ONCE(chunk->disowned))
		return true;
	return time_after_eq(jiffies, chunk->deadline) &&
	       !pipeline_move_deadline(p, chunk);
}

/*
 * Look at the engine until it is done with the chunk, or stuck, or tells of what is
 * left. Return: how long this task mapped folios meanwhile.
 */
static u64 pipeline_look_chunk(struct migrate_pipeline *p,
			       struct migrate_chunk *chunk)
{
	u64 start = local_clock(), spin_until = start + MOST_LOOK_NS;
	u64 busy_ns = 0, start_ns;
	int found;

	while (!completion_done(&chunk->done)) {
		found = chunk->m->look(chunk->m, p->data);
		/* Also if something was found: it may be of other calls */
		if (found < 0 || pipeline_is_stuck(p, chunk))
			break;
		if (!found) {
			pipeline_rest(chunk, start, &spin_until);
			continue;
		}
		start_ns = ktime_get_ns();
		pipeline_remap_ended(p, chunk);
		busy_ns += ktime_get_ns() - start_ns;
		cond_resched();
	}
	return busy_ns;
}

/* Return: false if the engine is stuck before it is done with the chunk */
static bool pipeline_wait_chunk(struct migrate_pipeline *p,
				struct migrate_chunk *chunk)
{
	u64 start_ns, waited_ns;
	long left;

	if (chunk->m->help)
		pipeline_help_chunk(p, chunk);
	if (!completion_done(&chunk->done))
		pipeline_remap_ended(p, chunk);
	start_ns = ktime_get_ns();
	if (chunk->m->look)
		start_ns += pipeline_look_chunk(p, chunk);
	do {
		left = chunk->deadline - jiffies;
		left = clamp(left, 1L, STEP_JIFFIES);
		left = wait_for_completion_timeout(&chunk->done, left);
	} while (!left && !pipeline_is_stuck(p, chunk));
	waited_ns = ktime_get_ns() - start_ns;
	/* The next one is likely to take as long, be it of another call */
	WRITE_ONCE(p->state->waited_ns, waited_ns);
	chunk->lost_ns += waited_ns;
	/* The task may have been late, and not the engine */
	return left || migrate_pipeline_is_done(p, chunk);
}

/* Finish the oldest chunk */
void migrate_pipeline_remap_chunk(struct migrate_pipeline *p)
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
