// SPDX-License-Identifier: GPL-2.0
/* The caller that is no system call: DAMON, told that the memory is cold. Only
 * the frames of the memory are shown to it, so it moves little else: what they are
 * used for next.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <numaif.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#define DAMON "/sys/kernel/mm/damon/admin/kdamonds/"
#define CONTEXT "0/contexts/0/"
#define TARGET CONTEXT "targets/0/regions/"
#define SCHEME CONTEXT "schemes/0/"
#define MAX_RUNS 1000		/* of frames; DAMON's own limit for what it looks at */
#define NAP_NS 200000
#define GIVE_UP_NS 1000000000UL	/* nothing has moved for so long */
#define ASK_BYTES 65536UL	/* of so much, the last folio */

/* Is it this program that uses it? Then it is put back at exit */
static bool in_use;

static void put_back(void)
{
	if (!in_use)
		return;
	write_text(DAMON "0/state", "off");
	write_text(DAMON "nr_kdamonds", "0");
}

__attribute__((format(printf, 2, 3)))
static void set(const char *name, const char *fmt, ...)
{
	char path[256], value[32];
	va_list args;

	snprintf(path, sizeof(path), DAMON "%s", name);
	va_start(args, fmt);
	vsnprintf(value, sizeof(value), fmt, args);
	va_end(args);
	if (write_text(path, value))
		die(EXIT_CANNOT_RUN, "--call damon: '%s' > %s: %m; needs Linux 6.11, DAMON_PADDR, DAMON_SYSFS and root",
		    value, path);
}

static void set_region(size_t run, uint64_t first, uint64_t end)
{
	char name[64];

	snprintf(name, sizeof(name), TARGET "%zu/start", run);
	set(name, "%lu", first * PAGE_BYTES);
	snprintf(name, sizeof(name), TARGET "%zu/end", run);
	set(name, "%lu", end * PAGE_BYTES);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* One region for each run of frames; or only count them. Return: how many. */
static size_t each_run(const struct bench *b, const uint64_t *frame, bool tell)
{
	uint64_t pages = b->opt.folio_bytes / PAGE_BYTES;
	size_t i, first = 0, runs = 0;

	for (i = 1; i <= b->mem.folios; i++) {
		if (i < b->mem.folios && frame[i] == frame[i - 1] + pages)
			continue;
		if (tell)
			set_region(runs, frame[first], frame[i - 1] + pages);
		first = i;
		runs++;
	}
	return runs;
}

static void show_memory(struct bench *b)
{
	uint64_t *frame = zalloc(b->mem.folios, sizeof(*frame));
	size_t runs;

	place_frames(b, frame);
	qsort(frame, b->mem.folios, sizeof(*frame), by_number);
	runs = each_run(b, frame, false);
	if (runs > MAX_RUNS)
		die(EXIT_CANNOT_RUN, "--call damon: the memory is in %zu pieces, DAMON takes %d; choose less --bytes or a larger --folio",
		    runs, MAX_RUNS);
	set(TARGET "nr_regions", "%zu", runs);
	each_run(b, frame, true);
	free(frame);
}

void damon_prepare(struct bench *b)
{
	static bool registered;
	char text[32];

	lru_drain();
	if (!in_use) {
		if (!read_text(DAMON "nr_kdamonds", text, sizeof(text)) && *text != '0')
			die(EXIT_CANNOT_RUN, "--call damon: DAMON is in use; as root, if nobody needs it: echo 0 > "
			    DAMON "nr_kdamonds");
		if (!registered)
			atexit(put_back);
		registered = true;
	}
	set("nr_kdamonds", "1");
	in_use = true;
	set("0/contexts/nr_contexts", "1");
	set(CONTEXT "operations", "paddr");
	/* As soon as it can be: a millisecond later */
	set(CONTEXT "monitoring_attrs/intervals/sample_us", "1000");
	set(CONTEXT "monitoring_attrs/intervals/aggr_us", "1000");
	set(CONTEXT "targets/nr_targets", "1");
	show_memory(b);
	set(CONTEXT "schemes/nr_schemes", "1");
	set(SCHEME "action", "migrate_cold");
	set(SCHEME "target_nid", "%lu", b->opt.to);
	set(SCHEME "access_pattern/sz/max", "%lu", 1UL << 46);
	set(SCHEME "access_pattern/nr_accesses/max", "1000");
	set(SCHEME "access_pattern/age/max", "1000");
}

void damon_finish(void)
{
	set("0/state", "off");
	set("nr_kdamonds", "0");
	in_use = false;
}

/* Of the folios at @addr: how many in a row are where they should be */
static size_t arrived(struct bench *b, void **addr, size_t count)
{
	size_t i = 0;

	if (move_pages(0, count, addr, NULL, b->mem.status, 0))
		return 0;
	while (i < count && b->mem.status[i] == (int)b->opt.to)
		i++;
	return i;
}

/*
 * DAMON works in a thread of its own, and does not say when it is done. To ask
 * must cost little, as both may be on one CPU: so only some folios are asked for.
 */
int damon_move(struct bench *b, size_t first, size_t count)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	size_t step = b->opt.folio_bytes < ASK_BYTES ? ASK_BYTES / b->opt.folio_bytes : 1;
	size_t left = 0, ask = 1, there = 0, now, i;
	void **asked = zalloc(count, sizeof(*asked)), **next = asked;
	uint64_t since;

	for (i = 0; i < count; i += step)
		asked[left++] = b->mem.addr[first + (count - i < step ? count : i + step) - 1];
	since = clock_ns(CLOCK_MONOTONIC);
	set("0/state", "on");
	while (left) {
		if (clock_ns(CLOCK_MONOTONIC) - since >= GIVE_UP_NS) {
			now = place_count(b, b->opt.to);
			if (now == there)
				break;
			there = now;
			since = clock_ns(CLOCK_MONOTONIC);
		}
		now = arrived(b, next, ask);
		next += now;
		left -= now;
		if (now)
			since = clock_ns(CLOCK_MONOTONIC);
		else
			nanosleep(&nap, NULL);
		ask = now < ask ? 1 : 2 * ask;
		ask = ask < left ? ask : left;
	}
	free(asked);
	return 0;
}
