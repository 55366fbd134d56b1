// SPDX-License-Identifier: GPL-2.0-only
/*
 * How much a call may have unmapped at one moment, for its pages to be
 * inaccessible for about as long as the administrator wants.
 *
 * By Little's law what is unmapped is the time that each page is, times the
 * rate at which pages are mapped again. That rate is measured chunk by chunk.
 * It is whatever limits the call at this moment: the engine, its other users,
 * this CPU. So calls that share an engine each find that they have less of it.
 *
 * The quota has a floor, and so has the time: an engine that takes longer than
 * the target for whatever it is given would be given less and less for nothing.
 * The floor rises where TLB flushes are dear, since with a smaller quota there
 * are more of them: with many CPUs, or if a host does not run all of them. Then
 * several chunks share one.
 *
 * What is copied while it is mapped nobody waits for. But the less is in flight the
 * sooner is it copied, and the less is written to meanwhile: so void copies decide.
 */
#include <kunit/static_stub.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "internal.h"

/* Less is not worth a TLB flush, nor the waking of an engine */
#define MIN_QUOTA_PAGES	128UL
/* So many does Linux unmap for one flush */
#define MAX_FLUSH_PAGES	512UL
/* A flush is dear from this part of the target on */
#define DEAR_FLUSH	16
/* Below so many percent of the target a second chunk is tried */
#define TRY_SECOND	75
/* With each chunk that nobody wrote to the quota of mapped folios grows by this part */
#define MAPPED_GROWTH	64

static unsigned long least_quota(const struct migrate_offload_state *state)
{
	return min(MIN_QUOTA_PAGES, state->chunk_pages);
}

/**
 * migrate_offload_flush_pages() - how many should be unmapped for one TLB flush
 * @state: which has the bounds
 * @nr_pages: how many were, in base pages
 * @wanted: how many should have been
 * @unmap_ns: how long it took to unmap them
 * @flush_ns: and how long the flush took
 *
 * Return: in base pages; 0: as few as there are.
 */
unsigned long
migrate_offload_flush_pages(const struct migrate_offload_state *state,
			    unsigned long nr_pages, unsigned long wanted,
			    u64 unmap_ns, u64 flush_ns)
{
	u64 least_ns = state->target_us * NSEC_PER_USEC / DEAR_FLUSH;

	KUNIT_STATIC_STUB_REDIRECT(migrate_offload_flush_pages, state, nr_pages,
				   wanted, unmap_ns, flush_ns);

	/* An administrator who has set the window gets that window */
	if (!state->target_us)
		return 0;
	if (flush_ns > unmap_ns && flush_ns > least_ns)
		return min3(max(2 * nr_pages, wanted), MAX_FLUSH_PAGES,
			    state->window_pages);
	if (flush_ns < unmap_ns / 4)
		return wanted > least_quota(state) ? wanted / 2 : 0;
	return wanted;
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
 * @nr_pages: what was unmapped together with the chunk or before
 * @flush_pages: how many should be unmapped for one TLB flush
 * @alone: the chunk was alone, though the engine can work on others meanwhile
 * @ns: from when its first folio was unmapped until its last was mapped again
 *
 * What one chunk says counts as much as all before it, since what disturbs a
 * call disturbs all chunks that are in flight.
 *
 * A chunk that is alone tells too low a rate, since the task and the engine wait
 * for each other. By that rate a second one may never fit, if the folios are so
 * large that it fits in whole or not at all: so it is tried.
 *
 * Return: how many base pages may be unmapped from now on; never more than the
 * window. One folio that is larger may still be.
 */
unsigned long migrate_offload_quota(const struct migrate_offload_state *state,
				    unsigned long quota, unsigned long nr_pages,
				    unsigned long flush_pages, bool alone,
				    u64 ns)
{
	u64 target_ns = state->target_us * NSEC_PER_USEC;
	unsigned long most = state->window_pages;
	u64 fit;

	KUNIT_STATIC_STUB_REDIRECT(migrate_offload_quota, state, quota,
				   nr_pages, flush_pages, alone, ns);

	if (!target_ns)
		return most;
	fit = div64_u64(nr_pages * target_ns, max(ns, 1));
	/* So that it comes back soon after a chunk that was too fast */
	fit = min(fit, 2 * most);
	if (quota)
		fit = (quota + fit) / 2;
	if (alone && ns < target_ns * TRY_SECOND / 100)
		fit = max(fit, 2 * nr_pages);
	return clamp(fit, max(least_quota(state), flush_pages), most);
}

/**
 * migrate_offload_most_mapped() - how much may be in flight that is mapped
 * @state: which has the bounds
 *
 * Return: in base pages: what the ring has room for, or the window that was chosen.
 */
unsigned long
migrate_offload_most_mapped(const struct migrate_offload_state *state)
{
	return state->target_us ? state->nr_chunks * state->chunk_pages :
				  state->window_pages;
}

/**
 * migrate_offload_first_mapped() - how much of what is mapped a call begins with
 * @state: which has the bounds, and what former calls have learnt
 * @order: of its folios
 *
 * What was written to while the last call moved it is likely to be so again.
 *
 * Return: in base pages.
 */
unsigned long
migrate_offload_first_mapped(const struct migrate_offload_state *state,
			     unsigned int order)
{
	unsigned long most = migrate_offload_most_mapped(state);
	unsigned long quota = READ_ONCE(state->depth[order].quota);

	return quota ? min(quota, most) : most;
}

/**
 * migrate_offload_most_cut() - how much may be in flight of folios that are cut
 * @state: which has the bounds
 * @nr_pages: of the next folio, in base pages
 *
 * Each folio that is copied in parts has one for every channel, so two of 2 MiB
 * keep the engine busy. A third does so while this CPU does something else, as it
 * did for 100 us in a move of 6 ms. No more: who needs the lock of a folio waits for
 * all that is in flight before it.
 *
 * Return: in base pages: half as much again as the window, but at least three folios.
 */
unsigned long
migrate_offload_most_cut(const struct migrate_offload_state *state,
			 unsigned long nr_pages)
{
	return max(state->window_pages * 3 / 2, 3 * nr_pages);
}

/**
 * migrate_offload_mapped_quota() - learn from a chunk of mapped folios
 * @state: which has the bounds
 * @quota: what was right so far, in base pages
 * @nr_pages: of the chunk
 * @written: a copy of it was void
 *
 * Return: how many base pages may be in flight from now on. Two whole chunks keep the
 * engine busy: not less, however much is written to.
 */
unsigned long
migrate_offload_mapped_quota(const struct migrate_offload_state *state,
			     unsigned long quota, unsigned long nr_pages,
			     bool written)
{
	unsigned long most = migrate_offload_most_mapped(state);
	unsigned long least = min(2 * max(nr_pages, state->chunk_pages), most);

	if (written)
		return max(quota / 2, min(quota, least));
	return min(quota + DIV_ROUND_UP(quota, MAPPED_GROWTH), most);
}
