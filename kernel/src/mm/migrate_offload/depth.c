// SPDX-License-Identifier: GPL-2.0-only
/*
 * How deep: how much of what is copied while it is mapped the engine is given at
 * one moment, and in what parts.
 *
 * Nobody waits for the copy of such a folio but who needs its lock. Yet the longer
 * a copy takes the likelier somebody writes to the folio meanwhile, and it is void.
 * So each folio is cut into parts for all channels, and as many are in flight as
 * the target allows: "shallow". Where each part is dear, since a register, an
 * interrupt or the IOMMU is, or since the engine is slow with small copies, that
 * costs much of the throughput. There whole folios are given to the engine, many
 * at a time: "deep".
 *
 * Both are measured, in stretches that begin and end with nothing in flight, by how
 * long a page takes. Void copies have not moved a page: so what is written to
 * often is moved shallow.
 */
#include <linux/jiffies.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/pgtable.h>

#include "internal.h"

/* With less left in a call the engine has nothing to work ahead on */
#define LEAST_PAGES	(SZ_32M >> PAGE_SHIFT)
/* Shallow is better for whoever writes or waits for a lock: so it may cost more by */
#define SHALLOW_BONUS	8	/* one eighth */
#define RETRY_OTHER	(10 * HZ)

/**
 * migrate_stretch_begin() - choose for the next stretch
 * @stretch: is set
 * @state: which has what was measured; calls share it without a lock, and what one
 *	of them overwrites of another's is measured again
 * @order: of the folios
 * @left_pages: how many base pages the call has yet to move
 * @now_ns: what time it is
 *
 * Deep the CPU has no turns, so it must not be cheaper either. What is not known is
 * tried, and what has lost again after ten seconds, for as many pages as tell
 * something; deep only if no copies were void of late, since most would be then. Deep
 * that was cheaper, but not by enough, is tried once more in the next call: the first
 * time it was the short end of a call, where little that disturbs it costs much.
 */
void migrate_stretch_begin(struct migrate_stretch *stretch,
			   struct migrate_offload_state *state,
			   unsigned int order, unsigned long left_pages,
			   u64 now_ns)
{
	struct migrate_depth *depth = &state->depth[order];
	u64 shallow = READ_ONCE(depth->ns[false]);
	u64 deep = READ_ONCE(depth->ns[true]);
	struct migrate_cost *cost = &state->costs[false][order];
	u64 cpu = READ_ONCE(cost->cpu_ns);
	u64 other = min(shallow, cpu ?: shallow);
	bool due = time_after_eq(jiffies, READ_ONCE(depth->tried) + RETRY_OTHER);
	bool written = migrate_offload_first_mapped(state, order) <
		       migrate_offload_most_mapped(state);

	*stretch = (struct migrate_stretch) {
		.order = order, .pages_left = ULONG_MAX, .start_ns = now_ns,
	};
	/* One of more than a PMD has enough parts for all channels */
	if (!state->may_deepen || left_pages < LEAST_PAGES ||
	    order > PMD_ORDER)
		return;
	/* All copies of a slow engine may end at one time: well before the deadline */
	if (shallow * MIGRATE_DEEP_PAGES > jiffies_to_nsecs(state->deadline) / 4)
		return;
	stretch->deep = deep && deep + deep / SHALLOW_BONUS < other;
	due |= !stretch->deep && deep < other && !READ_ONCE(depth->sure);
	if (shallow && deep && !due)
		return;
	if (shallow && written && !stretch->deep)
		return;
	stretch->pages_left = stretch->deep || !shallow ? LEAST_PAGES :
							  MIGRATE_DEEP_PAGES;
	if (!shallow)
		return;
	/* What the CPU takes comes first: its turn is next, and of one chunk */
	if (state->may_choose && !READ_ONCE(cost->tried)) {
		stretch->pages_left = 1;
		return;
	}
	stretch->deep = !stretch->deep;
	WRITE_ONCE(depth->tried, jiffies);
}

/**
 * migrate_stretch_end() - learn from a stretch
 * @stretch: with nothing in flight any more
 * @state: which has what was measured
 * @now_ns: what time it is
 *
 * One that its call has cut short tells too little. What the CPU copied in its turns is
 * in neither figure. The second of deep takes the place of the first.
 */
void migrate_stretch_end(const struct migrate_stretch *stretch,
			 struct migrate_offload_state *state, u64 now_ns)
{
	struct migrate_depth *depth = &state->depth[stretch->order];
	u32 *ns = &depth->ns[stretch->deep];
	u64 old = READ_ONCE(*ns), new;

	if (stretch->pages < LEAST_PAGES)
		return;
	new = div64_u64(now_ns - stretch->start_ns,
			max(stretch->pages_moved, 1));
	if (old && (!stretch->deep || READ_ONCE(depth->sure)))
		new = DIV_ROUND_UP(old + min(new, 2 * old), 2);
	WRITE_ONCE(*ns, clamp(new, 1, U32_MAX));
	if (old && stretch->deep)
		WRITE_ONCE(depth->sure, true);
}
