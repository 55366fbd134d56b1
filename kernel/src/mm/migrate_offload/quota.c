// SPDX-License-Identifier: GPL-2.0-only
/*
 * How much a call may have unmapped at one moment, for its pages to be away for
 * about as long as the administrator wants.
 *
 * By Little's law what is unmapped is the time that each page is, times the
 * rate at which pages are mapped again. That rate is measured chunk by chunk.
 * It is whatever limits the call at this moment: the engine, its other users,
 * this CPU. So calls that share an engine each find that they have less of it.
 *
 * The quota has a floor, and so has the time: an engine that takes longer than
 * the target for whatever it is given would be given less and less for nothing.
 * The floor rises where TLB flushes are dear, since with a smaller quota there
 * are more of them: with many CPUs, or if a host does not run all of them.
 */
#include <kunit/static_stub.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "internal.h"

/* Less is not worth a TLB flush, nor the waking of an engine */
#define MIN_QUOTA_PAGES	128UL
/* So many does Linux unmap for one flush */
#define MAX_FLOOR_PAGES	512UL

static unsigned long least_quota(const struct migrate_offload_state *state)
{
	return min(MIN_QUOTA_PAGES, state->chunk_pages);
}

/**
 * migrate_offload_floor() - how few pages are not worth a TLB flush
 * @state: which has the bounds
 * @floor: what it was so far, in base pages; 0: nothing is known
 * @unmap_ns: how long it took to unmap a chunk
 * @flush_ns: and how long the flush that this took
 *
 * Return: in base pages; not so many that a chunk cannot have them.
 */
unsigned long migrate_offload_floor(const struct migrate_offload_state *state,
				    unsigned long floor, u64 unmap_ns,
				    u64 flush_ns)
{
	KUNIT_STATIC_STUB_REDIRECT(migrate_offload_floor, state, floor,
				   unmap_ns, flush_ns);

	if (flush_ns > unmap_ns)
		floor *= 2;
	else if (flush_ns < unmap_ns / 4)
		floor /= 2;
	return clamp(floor, least_quota(state),
		     min(MAX_FLOOR_PAGES, state->chunk_pages));
}

/**
 * migrate_offload_first_quota() - what a call begins with
 * @state: which has the target, and the bounds
 *
 * Nothing is known yet, so it is little.
 *
 * Return: in base pages.
 */
unsigned long
migrate_offload_first_quota(const struct migrate_offload_state *state)
{
	return state->target_us ? least_quota(state) : state->window_pages;
}

/**
 * migrate_offload_quota() - learn from a chunk how much may be unmapped
 * @state: which has the target, and the bounds
 * @quota: what was right so far, in base pages; 0: nothing is known
 * @floor: it is never less
 * @nr_pages: what was unmapped when the chunk's copies were submitted
 * @ns: from when its first folio was unmapped until its last was mapped again
 *
 * What one chunk says counts as much as all before it, since what disturbs a
 * call disturbs all chunks that are in flight.
 *
 * Return: how many base pages may be unmapped from now on; never more than the
 * window. One folio that is larger may still be.
 */
unsigned long migrate_offload_quota(const struct migrate_offload_state *state,
				    unsigned long quota, unsigned long floor,
				    unsigned long nr_pages, u64 ns)
{
	unsigned long most = state->window_pages;
	u64 fit;

	if (!state->target_us)
		return most;
	fit = div64_u64((u64)nr_pages * state->target_us * NSEC_PER_USEC,
			max(ns, 1));
	/* So that it comes back soon after a chunk that was too fast */
	fit = min(fit, 2 * most);
	if (quota)
		fit = (quota + fit) / 2;
	return clamp(fit, floor, most);
}
