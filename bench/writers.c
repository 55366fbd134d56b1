// SPDX-License-Identifier: GPL-2.0
/* Threads that write single words of the memory, at random and at a rate, while
 * it moves. Each adds one to a word of its own in a page; the sums are verified
 * with the pattern afterwards, so a write that is lost is a byte that differs.
 *
 * They are of SCHED_IDLE: where they share a CPU with the mover they write when it
 * waits, which may be never, and make up for what was due meanwhile. A wait is from
 * before the write to after it; that the mover takes the CPU in between is part of it.
 * Those who submit direct reads sleep until each is due and are of SCHED_FIFO, so that
 * they wait for a folio and not for a CPU.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#define WORDS (PAGE_BYTES / sizeof(uint64_t))
#define STEPS 16UL	/* buckets from one power of two to the next */
#define BUCKETS (61 * STEPS)

struct writer {
	struct bench *bench;
	struct direct *direct;	/* reads, instead of stores */
	pthread_t thread;
	size_t number;
	uint64_t random;
	uint64_t writes;
	uint64_t longest_ns;
	uint64_t count[BUCKETS];
};

static struct writer *writers;
static atomic_bool stop;
static atomic_ulong ready;

static size_t bucket_of(uint64_t ns)
{
	unsigned int power;

	if (ns < STEPS)
		return ns;
	power = 63 - (unsigned int)__builtin_clzl(ns);
	return (power - 3) * STEPS + (ns >> (power - 4)) % STEPS;
}

/* The least that does not fall into it any more */
static uint64_t bucket_end(size_t bucket)
{
	if (bucket < STEPS)
		return bucket + 1;
	return (STEPS + bucket % STEPS + 1) << (bucket / STEPS - 1);
}

/* Return: how long it took */
static uint64_t store(const struct writer *w, size_t page)
{
	struct bench *b = w->bench;
	volatile uint64_t *words = (volatile uint64_t *)memory_page(b, page);
	uint64_t ns = clock_ns(CLOCK_MONOTONIC);

	words[(page + 1 + w->number) % WORDS]++;
	ns = clock_ns(CLOCK_MONOTONIC) - ns;
	b->mem.touches[page * b->mem.touchers + 1 + w->number]++;
	return ns;
}

static void write_word(struct writer *w)
{
	struct bench *b = w->bench;
	size_t pages = b->mem.pages * b->opt.write_share / 100, page;
	uint64_t ns;

	page = random_next(&w->random) % (pages ? pages : 1);
	ns = w->direct ? direct_read(b, w->direct, page) : store(w, page);
	w->count[bucket_of(ns)]++;
	if (ns > w->longest_ns)
		w->longest_ns = ns;
	w->writes++;
}

static void sleep_until(uint64_t ns)
{
	struct timespec at = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	struct sched_param param = { .sched_priority = !!w->direct };
	const struct options *opt = &w->bench->opt;
	uint64_t begin, due;

	if (pthread_setschedparam(pthread_self(), w->direct ? SCHED_FIFO : SCHED_IDLE, &param))
		die(EXIT_CANNOT_RUN, "--writers: cannot make a thread SCHED_%s",
		    w->direct ? "FIFO" : "IDLE");
	atomic_fetch_add(&ready, 1);
	begin = clock_ns(CLOCK_MONOTONIC);
	for (uint64_t i = 1;; i++) {
		due = opt->write_rate ? begin + i * 1000000000 * opt->writers / opt->write_rate : 0;
		/* Asked after the time: what was due in a move that is over does not count */
		while (clock_ns(CLOCK_MONOTONIC) < due) {
			if (atomic_load_explicit(&stop, memory_order_relaxed))
				return NULL;
			if (w->direct)
				sleep_until(due);
		}
		if (atomic_load_explicit(&stop, memory_order_relaxed))
			return NULL;
		write_word(w);
	}
}

void writers_start(struct bench *b)
{
	size_t i;

	if (!writers)
		writers = zalloc(b->opt.writers, sizeof(*writers));
	atomic_store(&stop, false);
	atomic_store(&ready, 0);
	for (i = 0; i < b->opt.writers; i++) {
		writers[i].bench = b;
		writers[i].number = i;
		if (b->opt.direct_from && !writers[i].direct)
			writers[i].direct = direct_open();
		if (!writers[i].random)
			writers[i].random = b->opt.seed * 2 + 1 + i;
		if (pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]))
			die(EXIT_CANNOT_RUN, "cannot start writer %zu of %lu", i + 1,
			    b->opt.writers);
	}
	while (atomic_load(&ready) < b->opt.writers)
		sched_yield();
}

void writers_stop(struct bench *b)
{
	size_t i;

	atomic_store(&stop, true);
	for (i = 0; i < b->opt.writers; i++)
		pthread_join(writers[i].thread, NULL);
}

/* What was measured until now does not count */
void writers_forget(struct bench *b)
{
	size_t i, bucket;

	for (i = 0; writers && i < b->opt.writers; i++) {
		writers[i].writes = 0;
		writers[i].longest_ns = 0;
		for (bucket = 0; bucket < BUCKETS; bucket++)
			writers[i].count[bucket] = 0;
	}
}

static uint64_t percentile_ns(const struct bench *b, uint64_t total, uint64_t percent)
{
	uint64_t seen = 0;
	size_t i, bucket;

	for (bucket = 0; bucket < BUCKETS; bucket++) {
		for (i = 0; i < b->opt.writers; i++)
			seen += writers[i].count[bucket];
		if (seen * 100 >= total * percent)
			break;
	}
	return bucket_end(bucket);
}

/* Of all writers, in the timed runs */
struct spread writers_waits(const struct bench *b)
{
	struct spread waits = { 0 };
	uint64_t longest = 0;
	size_t i;

	for (i = 0; i < b->opt.writers; i++) {
		waits.count += writers[i].writes;
		if (writers[i].longest_ns > longest)
			longest = writers[i].longest_ns;
	}
	if (!waits.count)
		return waits;
	waits.longest_us = (double)longest / 1000;
	waits.p50_us = (double)percentile_ns(b, waits.count, 50) / 1000;
	waits.p99_us = (double)percentile_ns(b, waits.count, 99) / 1000;
	/* A bucket ends behind what is in it */
	if (waits.p50_us > waits.longest_us)
		waits.p50_us = waits.longest_us;
	if (waits.p99_us > waits.longest_us)
		waits.p99_us = waits.longest_us;
	return waits;
}
