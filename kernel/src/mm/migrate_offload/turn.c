// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who copies the next folios of a call, and how many of them are in flight. Both
 * change only when nothing of the former way is in flight any more. What is known
 * of costs is in choice.c and depth.c.
 */
#include <linux/timekeeping.h>

#include "hooks.h"
#include "internal.h"
#include "pipeline.h"

void migrate_pipeline_end_turn(struct migrate_pipeline *p)
{
	if (p->turn.few)
		p->turn.lost_ns = ktime_get_ns() - p->start_ns;
	migrate_offload_learn(p->state, &p->turn);
	p->turn.over = true;
}

void migrate_pipeline_count_turn(struct migrate_pipeline *p,
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
		migrate_pipeline_end_turn(p);
}

/* Return: false if somebody else's copies have to be finished first */
bool migrate_pipeline_take_turn(struct migrate_pipeline *p)
{
	unsigned int order = migrate_cost_order(p->next_src);
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

/* With nothing in flight. Deep the engine copies, else whoever has the turn. */
void migrate_pipeline_begin_stretch(struct migrate_pipeline *p)
{
	struct folio *first = list_first_entry(p->from, struct folio, lru);
	u64 now_ns = ktime_get_ns();

	if (p->state->may_choose && !p->turn.over)
		migrate_pipeline_end_turn(p);
	migrate_stretch_end(&p->stretch, p->state, now_ns);
	migrate_stretch_begin(&p->stretch, p->state, migrate_cost_order(first),
			      p->mapped_pages, now_ns);
	p->quota = migrate_offload_first_mapped(p->state, p->stretch.order);
	if (!p->stretch.deep)
		return;
	p->turn.m = p->state->m;
	p->turn.next = NULL;
	p->engine_idle = false;
}

/* Return: false if what was given to the engine in another way has to end first */
bool migrate_pipeline_take_stretch(struct migrate_pipeline *p)
{
	if (!p->call.mapped || p->stretch.pages_left)
		return true;
	if (!pipeline_is_empty(p))
		return false;
	migrate_pipeline_begin_stretch(p);
	return true;
}
