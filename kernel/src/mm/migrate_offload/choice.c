// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who copies: the engine, or the CPU where that is known to be cheaper.
 *
 * The copies cost a call the time for which its task does nothing else: to make
 * them, or to submit them and wait. While an engine copies as fast as a task can
 * unmap and remap they cost next to nothing; one that is slow to answer, or that
 * others keep busy, may cost more than the copies by CPU would.
 *
 * Both are measured for each order of folio, and the cheaper one copies. Since
 * an engine works ahead, one chunk says nothing of it: it has a turn of several
 * in a row, and a turn begins with nothing of another's in flight.
 *
 * A call of few folios, no more than are unmapped at one moment, has nothing to
 * overlap: an engine costs it interrupts, wake-ups and flushes that a measure of
 * waiting does not see. There the whole call is measured, and if the CPU is
 * cheaper the call is left to Linux, which spares it the rest of the pipeline.
 *
 * What an engine costs depends on who else uses it: so one that is not used is
 * tried again each second. What the CPU costs is worth a look now and then.
 */
#include <linux/jiffies.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "internal.h"

/* An engine leaves the CPU to others, and its caches: so it may cost more by */
#define ENGINE_BONUS	8	/* one eighth */
/* Enough to see an engine work ahead; and when to stop sooner */
#define TURN_CHUNKS	16U
#define TURN_NS		(2 * NSEC_PER_MSEC)
#define RETRY_ENGINE	HZ
#define RETRY_CPU	(10 * HZ)

/**
 * migrate_offload_choose() - who has the next turn
 * @state: which has the migrator, and the costs; calls share these without a
 *	lock, and what one of them overwrites of another's is measured again
 * @order: of the next folio
 * @few: the turn is a whole call, of few folios
 *
 * Return: the migrator; or the CPU; or NULL if @few and Linux should do without
 * either.
 */
struct migrator *migrate_offload_choose(struct migrate_offload_state *state,
					unsigned int order, bool few)
{
	struct migrate_cost *cost = &state->costs[few][order];
	u64 engine = READ_ONCE(cost->engine_ns);
	u64 cpu = READ_ONCE(cost->cpu_ns);
	unsigned long tried = READ_ONCE(cost->tried);
	unsigned long retry;
	bool by_cpu;

	if (!state->may_choose || !engine)
		return state->m;
	by_cpu = cpu && engine > cpu + (few ? 0 : cpu / ENGINE_BONUS);
	retry = tried + (by_cpu ? RETRY_ENGINE : RETRY_CPU);
	if (!tried || time_after_eq(jiffies, retry)) {
		by_cpu = !by_cpu;
		WRITE_ONCE(cost->tried, jiffies);
		WRITE_ONCE(cost->cpu_next, few && !by_cpu);
	} else if (few && by_cpu) {
		/* What Linux needs is not seen: so compare with calls of now */
		if (!READ_ONCE(cost->cpu_next))
			return NULL;
		WRITE_ONCE(cost->cpu_next, false);
	}
	return by_cpu ? &migrator_cpu : state->m;
}

/**
 * migrate_turn_add() - a chunk of a turn is done with
 * @turn: it belongs to
 * @chunk: with nothing unmapped any more
 *
 * What folios of several sizes cost together says nothing of any. Nor do those
 * that the CPU has to copy in any case.
 */
void migrate_turn_add(struct migrate_turn *turn,
		      const struct migrate_chunk *chunk)
{
	unsigned long nr_pages = chunk->nr_pages - chunk->unfit_pages;

	turn->nr_chunks++;
	turn->spent_ns += chunk->lost_ns;
	if (!turn->few &&
	    chunk->nr_pages != (unsigned long)chunk->nr_folios << turn->order)
		return;
	turn->nr_pages += nr_pages;
	turn->left_pages += nr_pages - chunk->copied_pages;
	turn->lost_ns += chunk->lost_ns;
}

/**
 * migrate_turn_is_over() - has enough been seen?
 * @turn: of which a chunk has just been closed
 *
 * Return: true if it is time to learn from it, and to choose anew. One of few
 * folios ends with its call.
 */
bool migrate_turn_is_over(const struct migrate_turn *turn)
{
	return !turn->few &&
	       (turn->m == &migrator_cpu || turn->nr_chunks >= TURN_CHUNKS ||
		turn->spent_ns >= TURN_NS);
}

/**
 * migrate_offload_learn() - take notice of what a turn has cost
 * @state: which has the costs
 * @turn: that is over
 *
 * What the engine has left to the CPU costs as much again as the CPU needs for
 * it. A whole turn counts as much as all before it, one that its call has cut
 * short as less, and none as more than twice what was known: tasks are
 * interrupted. That makes copies by CPU dearer, and nothing makes them cheaper:
 * so a lower cost is the right one.
 */
void migrate_offload_learn(struct migrate_offload_state *state,
			   const struct migrate_turn *turn)
{
	struct migrate_cost *cost = &state->costs[turn->few][turn->order];
	bool by_cpu = turn->m == &migrator_cpu;
	u32 *ns = by_cpu ? &cost->cpu_ns : &cost->engine_ns;
	unsigned int weight = min(turn->nr_chunks, TURN_CHUNKS);
	u64 old = READ_ONCE(*ns), new = turn->lost_ns;

	if (!turn->nr_pages)
		return;
	if (by_cpu || turn->few || turn->spent_ns >= TURN_NS)
		weight = TURN_CHUNKS;
	if (!by_cpu && !turn->few)
		new += (u64)turn->left_pages * READ_ONCE(cost->cpu_ns);
	new = div64_u64(new, turn->nr_pages);
	if (old && (new > old || !by_cpu || turn->few))
		new = DIV_ROUND_UP(old * (2 * TURN_CHUNKS - weight) +
				   min(new, 2 * old) * weight,
				   2 * TURN_CHUNKS);
	WRITE_ONCE(*ns, clamp(new, 1, U32_MAX));
}
