// SPDX-License-Identifier: GPL-2.0-only
/*
 * How much a call may have unmapped at one moment, so that its pages are away
 * for no longer than the administrator wants.
 *
 * By Little's law what is unmapped is the time that each page is, times the
 * rate at which pages are mapped again. That rate is measured chunk by chunk.
 * It is whatever limits the call at this moment: the engine, its other users,
 * this CPU. So if several calls share an engine, each finds that it has less of
 * it, and the sum of their windows stays what the engine can do in that time.
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "internal.h"

/* With fewer in a chunk a TLB flush for each costs more than it is worth */
#define MIN_QUOTA_PAGES	16UL

/**
 * migrate_offload_quota() - learn from a chunk how much may be unmapped
 * @state: which has the target, and the bounds
 * @quota: what was right so far, in base pages
 * @nr_pages: what was unmapped when the chunk's copies were submitted
 * @ns: from when its first folio was unmapped until its last was mapped again
 *
 * One chunk that was interrupted counts no more than all before it.
 *
 * Return: how many base pages may be unmapped from now on; never more than the
 * window. One folio that is larger may still be.
 */
unsigned long migrate_offload_quota(const struct migrate_offload_state *state,
				    unsigned long quota, unsigned long nr_pages,
				    u64 ns)
{
	unsigned long least = min(MIN_QUOTA_PAGES, state->chunk_pages);
	unsigned long most = state->window_pages;
	u64 fit;

	if (!state->target_us)
		return most;
	fit = div64_u64((u64)nr_pages * state->target_us * NSEC_PER_USEC,
			max(ns, 1));
	/* So that it comes back after one that was wrong, in either direction */
	fit = min(fit, 2 * most);
	return clamp((quota + fit) / 2, least, most);
}
