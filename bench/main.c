// SPDX-License-Identifier: GPL-2.0
/* Set up, warm up, measure, check, report. */
#include "migbench.h"

/* What is measured around a move; each has runs of its own, so that none
 * disturbs another, and the timed runs least of all.
 */
struct instrument {
	size_t enabled;		/* offset of a flag in struct options; 0: always */
	void (*prepare)(struct bench *b);
	void (*before)(struct bench *b);
	void (*after)(struct bench *b);
};

static const struct instrument timed;
static const struct instrument extras[] = {
	{ offsetof(struct options, latency), latency_prepare, latency_before, latency_after },
	{ offsetof(struct options, access), NULL, access_before, access_after },
	{ offsetof(struct options, stall), NULL, stall_before, stall_after },
	{ offsetof(struct options, faults), NULL, promote_time_faults, promote_timed_faults },
};

static void check(struct bench *b, struct run *run)
{
	size_t first = 0;

	pattern_check(b);
	if (b->opt.null)
		return;
	if (b->call->moved)
		run->moved_pages = b->call->moved(b);
	else
		run->moved_pages = place_count(b, b->opt.to);
	if (!run->moved_pages && !b->opt.allow_partial)
		fail(b, "nothing has moved (--allow-partial accepts that)");
	else if (!b->call->moved && run->moved_pages < b->mem.pages && !b->opt.allow_partial)
		fail(b, "only %zu of %zu pages arrived on node %lu (--allow-partial accepts that)",
		     run->moved_pages, b->mem.pages, b->opt.to);
	run->split_folios = place_wrong_folios(b, &first);
	if (run->split_folios && !b->opt.allow_partial && !b->call->splits)
		fail(b,
		     "the move split %zu of %zu folios of %lu KiB, the first at offset %#lx (--allow-partial accepts that)",
		     run->split_folios, b->mem.folios, b->opt.folio_bytes >> 10,
		     first * b->opt.folio_bytes);
}

static void one_run(struct bench *b, const struct instrument *with, struct run *run)
{
	struct counts before, after;

	signals_obey();
	memory_renew(b);
	if (b->opt.fragmented)
		fragment(b);
	if (with->before)
		with->before(b);
	before = counts_read();
	if (with == &timed)
		writers_start(b);
	movers_run(b, run);
	if (with == &timed)
		writers_stop(b);
	after = counts_read();
	run->counts.minor_faults = after.minor_faults - before.minor_faults;
	run->counts.shootdowns = after.shootdowns - before.shootdowns;
	if (with->after)
		with->after(b);
	check(b, run);
}

static void set_up(struct bench *b)
{
	b->call = call_find(&b->opt);
	thp_prepare(&b->opt);
	hugetlb_prepare(&b->opt);
	memory_set_up(b);
	if (b->opt.direct_from)
		direct_set_up(b);
	if (b->call->set_up)
		b->call->set_up(b);
	b->runs = zalloc(b->opt.runs, sizeof(*b->runs));
	busy_start(b->opt.busy);
}

static void warm_up(struct bench *b)
{
	struct run run;
	size_t i;

	for (i = 0; i < b->opt.warmup && !b->failed; i++)
		one_run(b, &timed, &run);
	writers_forget(b);
}

static void measure(struct bench *b)
{
	size_t count = sizeof(extras) / sizeof(extras[0]), kind, i;
	struct run run;

	while (b->runs_done < b->opt.runs && !b->failed)
		one_run(b, &timed, &b->runs[b->runs_done++]);
	for (kind = 0; kind < count; kind++) {
		const struct instrument *with = &extras[kind];

		if (!*((const bool *)&b->opt + with->enabled))
			continue;
		if (with->prepare)
			with->prepare(b);
		for (i = 0; i < b->opt.runs && !b->failed; i++)
			one_run(b, with, &run);
	}
}

int main(int argc, char **argv)
{
	static struct bench b;

	options_parse(&b.opt, argc, argv);
	host_check(&b);
	report_open(&b.opt);
	signals_hold();
	set_up(&b);
	warm_up(&b);
	measure(&b);
	report_write(&b);
	return b.failed ? EXIT_CHECK_FAILED : EXIT_PASSED;
}
