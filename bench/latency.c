// SPDX-License-Identifier: GPL-2.0
/* How long memory is inaccessible. A folio is so from its first page-table entry
 * that becomes a migration entry until the last one is real again. Where the
 * kernel has split it, each page is a folio. A call's first-folio latency is from
 * its start to the first entry that is real again.
 */
#include "migbench.h"

#include <stdlib.h>

static struct trace_log events;

/* What is known of a folio while the events are gone through. */
struct folio_state {
	uint64_t begin_ns;
	int away;		/* pages that are migration entries now */
};

/* Each folio may be a call's first; where there is no room what is tried again has
 * events, too, and compaction
 */
void latency_prepare(struct bench *b)
{
	tracefs_open((b->opt.fragmented ? 32 : 3) * b->mem.pages + 1024);
}

void latency_before(struct bench *b)
{
	(void)b;
	tracefs_start();
}

static bool is_set(const struct trace_event *e)
{
	return e->kind == TRACE_SET_PTE || e->kind == TRACE_SET_RUN ||
	       e->kind == TRACE_SET_PMD;
}

static bool in_region(const struct bench *b, const struct trace_event *e, size_t *page)
{
	return e->kind != TRACE_START && memory_find(b, e->addr, page);
}

/* One sample for each time that a folio went away and came back. */
static void pair_folios(struct bench *b)
{
	struct folio_state *state = zalloc(b->mem.pages, sizeof(*state));
	size_t per_folio = b->opt.folio_bytes / PAGE_BYTES, i;
	const struct trace_event *e;

	place_wrong_folios(b, &i);
	for (e = events.event; e < events.event + events.count; e++) {
		struct folio_state *s;
		size_t page;

		if (!in_region(b, e, &page))
			continue;
		/* That of its first page stands for a folio that is whole */
		s = &state[b->mem.wrong[page / per_folio] ? page : page - page % per_folio];
		if (is_set(e)) {
			if (!s->away)
				s->begin_ns = e->ns;
			s->away += (int)e->pages;
			continue;
		}
		s->away -= (int)e->pages;
		if (!s->away)
			samples_add(&b->inaccessible_us, (double)(e->ns - s->begin_ns) / 1000);
	}
	for (i = 0; i < b->mem.pages; i++)
		if (state[i].away)
			b->latency_void = "events do not pair up";
	free(state);
}

/* For each call: the first entry of ours that the same thread made real again. */
static void find_first_folios(struct bench *b)
{
	const struct trace_event *end = events.event + events.count, *e, *start;
	size_t page;

	for (start = events.event; start < end; start++) {
		if (start->kind != TRACE_START)
			continue;
		for (e = start + 1; e < end; e++) {
			if (e->pid != start->pid)
				continue;
			if (e->kind == TRACE_START)
				break;
			if (!in_region(b, e, &page) || is_set(e))
				continue;
			samples_add(&b->first_folio_us, (double)(e->ns - start->ns) / 1000);
			break;
		}
	}
}

void latency_after(struct bench *b)
{
	tracefs_stop(&events);
	if (events.lost) {
		b->latency_void = "the trace buffer overran; move fewer --bytes";
		return;
	}
	pair_folios(b);
	find_first_folios(b);
	if (!b->first_folio_us.count)
		b->latency_void = "no migration event was seen";
}
