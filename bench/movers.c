// SPDX-License-Identifier: GPL-2.0
/* The measured part: every thread moves its share, between two clock reads. */
#define _GNU_SOURCE
#include "migbench.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct mover {
	struct bench *bench;
	pthread_barrier_t *start;
	pthread_t thread;
	size_t first, count;
	int cpu;
	int err;
	uint64_t begin_ns, end_ns, cpu_ns;
};

static int move_share(struct bench *b, size_t first, size_t count)
{
	size_t per_call = b->opt.per_call ? b->opt.per_call : count;
	size_t end = first + count;

	for (; first < end; first += per_call) {
		size_t now = end - first < per_call ? end - first : per_call;
		int err = b->call->move(b, first, now);

		if (err)
			return err;
	}
	return 0;
}

static void *mover_main(void *arg)
{
	struct mover *m = arg;
	uint64_t cpu;

	if (m->cpu >= 0)
		pin(m->cpu);
	pthread_barrier_wait(m->start);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	m->begin_ns = clock_ns(CLOCK_MONOTONIC);
	m->err = move_share(m->bench, m->first, m->count);
	m->end_ns = clock_ns(CLOCK_MONOTONIC);
	m->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	return NULL;
}

static void sum_up(struct bench *b, const struct mover *movers, struct run *run)
{
	uint64_t begin = movers[0].begin_ns, end = movers[0].end_ns;
	const struct mover *m;

	for (m = movers; m < movers + b->opt.threads; m++) {
		if (m->err)
			die(m->err == -EPERM ? EXIT_CANNOT_RUN : EXIT_CHECK_FAILED,
			    "%s failed: %s", b->call->name, strerror(-m->err));
		begin = m->begin_ns < begin ? m->begin_ns : begin;
		end = m->end_ns > end ? m->end_ns : end;
		run->cpu_ns += m->cpu_ns;
	}
	run->ns = end - begin;
}

/* The first share is moved by this very thread, the others by new ones. */
void movers_run(struct bench *b, struct run *run)
{
	size_t threads = b->opt.threads, folios = b->mem.folios, i;
	struct mover *movers = zalloc(threads, sizeof(*movers));
	pthread_barrier_t start;
	cpu_set_t home;

	if (sched_getaffinity(0, sizeof(home), &home))
		die(EXIT_CANNOT_RUN, "sched_getaffinity: %m");
	if (b->call->prepare)
		b->call->prepare(b);
	pthread_barrier_init(&start, NULL, (unsigned int)threads);
	for (i = 0; i < threads; i++) {
		struct mover *m = &movers[i];

		m->bench = b;
		m->start = &start;
		m->cpu = b->cpus ? b->cpus[i] : -1;
		m->first = folios * i / threads;
		m->count = folios * (i + 1) / threads - m->first;
		if (i && pthread_create(&m->thread, NULL, mover_main, m))
			die(EXIT_CANNOT_RUN, "cannot start thread %zu of %zu", i + 1, threads);
	}
	mover_main(&movers[0]);
	for (i = 1; i < threads; i++)
		pthread_join(movers[i].thread, NULL);
	if (b->cpus && sched_setaffinity(0, sizeof(home), &home))
		die(EXIT_CANNOT_RUN, "sched_setaffinity: %m");
	if (b->call->finish)
		b->call->finish();
	*run = (struct run){ 0 };
	sum_up(b, movers, run);
	pthread_barrier_destroy(&start);
	free(movers);
}
