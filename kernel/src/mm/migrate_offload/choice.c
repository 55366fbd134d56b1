// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who copies a chunk: the engine, or the CPU where that is known to be faster.
 *
 * The copies cost a call the time for which its task does nothing else: to make
 * them, or to submit them and wait. While an engine copies as fast as a task can
 * unmap and remap they cost next to nothing; one that is slow to answer, or is
 * shared by many, may cost more than the copies by CPU would.
 *
 * Both are measured for each order of folio, and the cheaper one copies. What
 * an engine costs depends on who else uses it: so one that is not used is tried
 * again, for one chunk each second. What the CPU costs hardly changes, but may
 * have been measured badly: it is tried once a minute.
 */
#include <linux/jiffies.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "internal.h"

/* An engine leaves the CPU to others, and its caches: so it may cost more by */
#define ENGINE_BONUS	8	/* one eighth */
#define RETRY_ENGINE	HZ
#define RETRY_CPU	(60 * HZ)

/**
 * migrate_offload_choose() - who copies the next chunk
 * @state: which has the migrator
 * @cost: of folios of this order; calls may share it without a lock: what one
 *	of them loses of the others' counts once, and is measured again
 *
 * Return: the migrator, or the CPU.
 */
struct migrator *migrate_offload_choose(struct migrate_offload_state *state,
					struct migrate_cost *cost)
{
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
 * migrate_offload_learn() - take notice of what a chunk's copies have cost
 * @cost: of folios of this order
 * @m: who has copied
 * @nr_pages: how many base pages it was given; more than 0
 * @ns: for how long the task did nothing else
 *
 * The last chunk counts as much as all before it, but never as more than twice
 * what was known: a task that was not run for a while learns little from it.
 */
void migrate_offload_learn(struct migrate_cost *cost, const struct migrator *m,
			   unsigned long nr_pages, u64 ns)
{
	u32 *known = m == &migrate_cpu ? &cost->cpu_ns : &cost->engine_ns;
	u64 old = READ_ONCE(*known), new = div64_u64(ns, nr_pages);

	if (old)
		new = DIV_ROUND_UP(old + min(new, 2 * old), 2);
	WRITE_ONCE(*known, clamp(new, 1, U32_MAX));
}
