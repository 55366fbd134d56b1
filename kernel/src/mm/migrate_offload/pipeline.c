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
 * if nobody has written to them. Who did makes the copy void. It is made once more
 * behind all others. If that is void, too, the folio flows with those that have to be
 * unmapped first, when nothing that is mapped is in flight any more.
 *
 * Nothing here waits for memory or for locks while folios are unmapped: the
 * locks of the reverse mapping are tried. Only for a copy that an engine has
 * begun, and to map a folio again, is there a wait; the former has a deadline.
 *
 * Here is the flow of one call. Destinations are got in stock.c, the first stage is
 * unmap.c, the last one remap.c; turn.c asks who copies.
 *
 * Only trouble-free folios are moved here. If the engine fails the CPU copies;
 * whatever else goes wrong, the folio is put back on the caller's list as it
 * was, and mm/migrate.c treats it as if this file did not exist.
 */
#include <kunit/static_stub.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/rmap.h>
#include <linux/timekeeping.h>

#include "../internal.h"
#include "../migrate_mapped.h"
#include "hooks.h"
#include "internal.h"
#include "pipeline.h"

#define CREATE_TRACE_POINTS
#include <trace/events/migrate_offload.h>

/*
 * A void copy is made again behind all others, once, while the engine works on the
 * last of them: to unmap these folios first would leave the engine idle meanwhile.
 */
static bool pipeline_try_void_again(struct migrate_pipeline *p)
{
	struct folio *folio;

	if (!p->call.mapped || p->tried_again || p->stop || p->no_memory ||
	    list_empty(p->call.failed) ||
	    !list_entry_is_head(p->next_src, p->from, lru))
		return false;
	p->tried_again = true;
	list_for_each_entry(folio, p->call.failed, lru)
		p->mapped_pages += folio_nr_pages(folio);
	p->next_src = list_first_entry(p->call.failed, struct folio, lru);
	list_splice_tail_init(p->call.failed, p->from);
	return true;
}

static void pipeline_flow(struct migrate_pipeline *p)
{
	p->next_src = list_first_entry(p->from, struct folio, lru);
	p->next_dst = list_first_entry(&p->dsts, struct folio, lru);
	for (;;) {
		/* Ask once: the answer may change at any time */
		if (migrate_pipeline_can_unmap(p))
			migrate_pipeline_advance(p);
		else if (migrate_pipeline_can_stock(p) && migrate_pipeline_stock(p))
			continue;
		else if (pipeline_try_void_again(p))
			continue;
		else if (!pipeline_is_empty(p))
			migrate_pipeline_remap_chunk(p);
		else
			break;
		/* Make accessible what is ready, or will not be without us */
		while (!pipeline_is_empty(p) &&
		       (p->engine_idle ||
			migrate_pipeline_is_done(p, pipeline_chunk(p, p->head))))
			migrate_pipeline_remap_chunk(p);
	}
	if (p->state->may_choose && !p->turn.over)
		migrate_pipeline_end_turn(p);
	migrate_pipeline_put_stock(p);
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
	p->call.mapped = true;
	p->call.failed = &later;
	migrate_pipeline_begin_stretch(p);
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
	turn->next = migrate_offload_choose(p->state, migrate_cost_order(first),
					    true);
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
