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
/* Enough to see an engine work ahead; and so much may a bad one cost at most */
#define TURN_CHUNKS	16
#define TURN_NS		(2 * NSEC_PER_MSEC)
#define RETRY_ENGINE	HZ
#define RETRY_CPU	(10 * HZ)

/**
 * migrate_offload_choose() - who has the next turn
 * @state: which has the migrator, and the costs; calls share these without a
 *	lock, and what one of them overwrites of another's is measured again
 * @order: of the next folio
 *
 * Return: the migrator, or the CPU.
 */
struct migrator *migrate_offload_choose(struct migrate_offload_state *state,
					unsigned int order)
{
	struct migrate_cost *cost = &state->costs[order];
	u64 engine = READ_ONCE(cost->engine_ns);
	u64 cpu = READ_ONCE(cost->cpu_ns);
	unsigned long retry = READ_ONCE(cost->tried);
	bool by_cpu;

	if (!state->may_choose || !engine)
		return state->m;
	by_cpu = cpu && engine > cpu + cpu / ENGINE_BONUS;
	retry += by_cpu ? RETRY_ENGINE : RETRY_CPU;
	if (!cpu || time_after_eq(jiffies, retry)) {
		by_cpu = !by_cpu;
		WRITE_ONCE(cost->tried, jiffies);
	}
	return by_cpu ? &migrate_cpu : state->m;
}

/**
 * migrate_turn_is_over() - has enough been seen?
 * @turn: of which a chunk has just been closed
 *
 * Return: true if it is time to learn from it, and to choose anew.
 */
bool migrate_turn_is_over(const struct migrate_turn *turn)
{
	return turn->m == &migrate_cpu || turn->nr_chunks >= TURN_CHUNKS ||
	       turn->lost_ns >= TURN_NS;
}

/**
 * migrate_offload_learn() - take notice of what a turn has cost
 * @state: which has the costs
 * @turn: that is over; with at least one page
 *
 * What the engine has left to the CPU costs as much again as the CPU needs for
 * it. A turn counts as much as all before it, but never as more than twice what
 * was known: tasks are interrupted. That makes copies by CPU dearer, and nothing
 * makes them cheaper: so a lower cost is the right one.
 */
void migrate_offload_learn(struct migrate_offload_state *state,
			   const struct migrate_turn *turn)
{
	struct migrate_cost *cost = &state->costs[turn->order];
	bool by_cpu = turn->m == &migrate_cpu;
	u32 *known = by_cpu ? &cost->cpu_ns : &cost->engine_ns;
	u64 old = READ_ONCE(*known), new = turn->lost_ns;

	if (!by_cpu)
		new += (u64)turn->left_pages * READ_ONCE(cost->cpu_ns);
	new = div64_u64(new, turn->nr_pages);
	if (old && (new > old || !by_cpu))
		new = DIV_ROUND_UP(old + min(new, 2 * old), 2);
	WRITE_ONCE(*known, clamp(new, 1, U32_MAX));
}
