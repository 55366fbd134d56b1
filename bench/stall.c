// SPDX-License-Identifier: GPL-2.0
/* What an application feels: a thread reads and writes the memory all through
 * the move, and keeps its worst touch. Its increments are verified with the
 * pattern afterwards: one that is lost is a byte that differs.
 */
#include "migbench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#define WORDS (PAGE_BYTES / sizeof(uint64_t))

static struct probe {
	pthread_t thread;
	atomic_bool stop;
	atomic_ulong touches;
	uint64_t worst_ns;
} probe;

static void touch(struct bench *b, size_t page)
{
	volatile uint64_t *words = (volatile uint64_t *)memory_page(b, page);
	uint64_t begin = clock_ns(CLOCK_MONOTONIC), ns;

	words[page % WORDS]++;
	ns = clock_ns(CLOCK_MONOTONIC) - begin;
	b->mem.touches[page * b->mem.touchers]++;
	if (ns > probe.worst_ns)
		probe.worst_ns = ns;
}

static void *probe_main(void *arg)
{
	struct bench *b = arg;
	uint64_t x = b->opt.seed * 2 + 1;

	while (!atomic_load_explicit(&probe.stop, memory_order_relaxed)) {
		touch(b, random_next(&x) % b->mem.pages);
		atomic_fetch_add_explicit(&probe.touches, 1, memory_order_relaxed);
	}
	return NULL;
}

void stall_before(struct bench *b)
{
	probe.worst_ns = 0;
	atomic_store(&probe.stop, false);
	atomic_store(&probe.touches, 0);
	if (pthread_create(&probe.thread, NULL, probe_main, b))
		die(EXIT_CANNOT_RUN, "--stall: cannot start a thread");
	while (!atomic_load(&probe.touches))
		sched_yield();
}

void stall_after(struct bench *b)
{
	atomic_store(&probe.stop, true);
	pthread_join(probe.thread, NULL);
	samples_add(&b->stall_us, (double)probe.worst_ns / 1000);
	b->stall_touches += atomic_load(&probe.touches);
}
