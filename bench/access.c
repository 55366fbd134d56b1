// SPDX-License-Identifier: GPL-2.0
/* What a read of one page costs: from memory, from the cache, and right after
 * the page was moved. An engine that bypasses the cache shows here, if anywhere.
 */
#include "migbench.h"

#define LINE 64

#ifdef __x86_64__
#include <x86intrin.h>

static uint64_t cycles(void)
{
	uint64_t now;

	_mm_lfence();
	now = __rdtsc();
	_mm_lfence();
	return now;
}

static void flush(const char *line)
{
	_mm_clflush(line);
}
#else
static uint64_t cycles(void)
{
	die(EXIT_CANNOT_RUN, "--access: needs an x86-64 processor");
}

static void flush(const char *line)
{
	(void)line;
}
#endif

static double read_cost(const struct bench *b)
{
	const char *p = b->mem.base, *end = p + b->opt.bytes;
	uint64_t begin = cycles();

	for (; p < end; p += LINE)
		(void)*(const volatile uint64_t *)p;
	return (double)(cycles() - begin) / (double)b->mem.pages;
}

void access_before(struct bench *b)
{
	const char *p = b->mem.base, *end = p + b->opt.bytes;

	for (; p < end; p += LINE)
		flush(p);
	samples_add(&b->uncached_cycles, read_cost(b));
	samples_add(&b->cached_cycles, read_cost(b));
}

void access_after(struct bench *b)
{
	samples_add(&b->post_move_cycles, read_cost(b));
}
