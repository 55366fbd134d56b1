// SPDX-License-Identifier: GPL-2.0
/* An arena is moved whole between two nodes while a thread reads it: by move_pages(2),
 * or as some databases do, by a copy to new memory and a pointer that is then shifted.
 * The reader is a thread of real time that reads one word at a time: how long a read
 * takes is how long its page is inaccessible, and no share of the CPU.
 */
#define _GNU_SOURCE
#include "tierbench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAUSE_NS 50000

struct arena {
	const struct options *opt;
	size_t bytes;
	_Atomic(char *) base;
	atomic_ulong reads;
	atomic_bool stop;
	struct times stalls;
	uint64_t bad;
	void **addr;
	int *node, *status;
};

static uint64_t *word(char *base, size_t index)
{
	return (uint64_t *)base + index;
}

static void *reader(void *arg)
{
	struct arena *a = arg;
	struct sched_param first = { .sched_priority = 1 };
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	unsigned long number;

	if (sched_setscheduler(0, SCHED_FIFO, &first))
		die(EXIT_CANNOT_RUN, "the reader cannot have priority: be root");
	for (number = 0; !atomic_load(&a->stop); number++) {
		size_t index = hash(number) % (a->bytes / 8);
		uint64_t begin = clock_ns(CLOCK_MONOTONIC);
		uint64_t found = *(volatile uint64_t *)word(atomic_load(&a->base), index);

		if (a->stalls.count < a->opt->requests)
			times_add(&a->stalls, clock_ns(CLOCK_MONOTONIC) - begin);
		a->bad += found != hash(index);
		atomic_store(&a->reads, number + 1);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* Nobody reads the old memory who has read the pointer before. */
static void wait_for_reader(struct arena *a)
{
	unsigned long since = atomic_load(&a->reads);

	while (atomic_load(&a->reads) < since + 2)
		sched_yield();
}

static void by_memcpy(struct arena *a, int to)
{
	char *old = atomic_load(&a->base);
	char *new = map_on(to, a->bytes, a->opt->page);

	memcpy(new, old, a->bytes);
	atomic_store(&a->base, new);
	wait_for_reader(a);
	munmap(old, a->bytes);
}

static void by_move_pages(struct arena *a, int to)
{
	char *base = atomic_load(&a->base);
	size_t i;

	for (i = 0; i < a->opt->items; i++) {
		a->addr[i] = base + i * a->opt->page;
		a->node[i] = to;
	}
	move(a->opt->items, a->addr, a->node, a->status);
}

static void report(struct arena *a, const uint64_t *ns, uint64_t cpu_ns, size_t elsewhere)
{
	char *base = atomic_load(&a->base);
	size_t i;

	for (i = 0; i < a->bytes / 8; i++)
		a->bad += *word(base, i) != hash(i);
	printf("{");
	times_print(&a->stalls);
	printf(", \"move_ns\": %lu, \"moves\": [", cpu_ns);
	for (i = 0; i < a->opt->moves; i++)
		printf("%s{\"us\": %.3f}", i ? ", " : "", (double)ns[i] / 1e3);
	printf("], \"mismatches\": %lu, \"misplaced\": %zu, \"verified_bytes\": %zu}\n", a->bad,
	       elsewhere, a->bytes);
}

int arena_run(const struct options *opt)
{
	struct arena a = { .opt = opt, .bytes = opt->items * opt->page };
	bool copied = !strcmp(opt->by, "memcpy");
	uint64_t *ns = zalloc(opt->moves, sizeof(*ns)), cpu_ns = 0, begin, cpu;
	size_t i, elsewhere = 0;
	pthread_t thread;

	a.addr = zalloc(opt->items, sizeof(*a.addr));
	a.node = zalloc(opt->items, sizeof(*a.node));
	a.status = zalloc(opt->items, sizeof(*a.status));
	times_open(&a.stalls, opt->requests);
	a.base = map_on(NEAR, a.bytes, opt->page);
	for (i = 0; i < a.bytes / 8; i++)
		*word(a.base, i) = hash(i);
	a.stalls.begin_ns = clock_ns(CLOCK_MONOTONIC);
	if (pthread_create(&thread, NULL, reader, &a))
		die(EXIT_CANNOT_RUN, "cannot start the reader");
	for (i = 0; i < opt->moves; i++) {
		int to = i % 2 ? NEAR : FAR;

		begin = clock_ns(CLOCK_MONOTONIC);
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		(copied ? by_memcpy : by_move_pages)(&a, to);
		cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		ns[i] = clock_ns(CLOCK_MONOTONIC) - begin;
		elsewhere += pages_not_on(to, atomic_load(&a.base), a.bytes);
	}
	atomic_store(&a.stop, true);
	pthread_join(thread, NULL);
	a.stalls.end_ns = clock_ns(CLOCK_MONOTONIC);
	report(&a, ns, cpu_ns, elsewhere);
	return 0;
}
