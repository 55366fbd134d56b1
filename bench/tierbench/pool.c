// SPDX-License-Identifier: GPL-2.0
/* A buffer pool that tiers itself, as vmcache does: a database knows which buffers
 * are hot. What is asked for twice on the far node is wanted on the near one. When
 * a batch of them is wanted, as many that a clock finds cold go down by one call of
 * move_pages(2), and the wanted ones come up by another. The request that fills the
 * batch waits for both. Without batches all of that is left to the kernel.
 */
#define _GNU_SOURCE
#include "tierbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RECORD_WORDS 128
#define WRITE_EVERY 10

enum { TOUCHED = 1, WANTED = 2 };

struct buffer {
	uint8_t node, marks;
	uint32_t writes;	/* that its first word must have counted */
};

struct pool {
	const struct options *opt;
	char *base;
	struct buffer *buffer;
	uint32_t *wanted, *cold;
	size_t wants, hand;
	void **addr;
	int *node, *status;
	uint64_t promoted, demoted, left, calls, move_ns, far_requests, sum;
	struct counters before, after;	/* what is measured */
};

static uint64_t *words(const struct pool *p, size_t i)
{
	return (uint64_t *)(p->base + i * p->opt->page);
}

static uint64_t word_at(const struct pool *p, size_t i, size_t word)
{
	return word ? hash(i * (p->opt->page / 8) + word) : 0;
}

static void fill(struct pool *p)
{
	size_t i, word;

	p->base = map_on(NEAR, p->opt->items * p->opt->page, p->opt->page);
	for (i = 0; i < p->opt->items; i++) {
		uint64_t *to = words(p, i);

		for (word = 0; word < p->opt->page / 8; word++)
			to[word] = word_at(p, i, word);
	}
}

/* All whose number is in the list, to a node, by one call. */
static uint64_t move_all(struct pool *p, const uint32_t *list, size_t count, uint8_t to)
{
	uint64_t begin, moved = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		p->addr[i] = words(p, list[i]);
		p->node[i] = to;
		p->status[i] = -1;
	}
	begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	move(count, p->addr, p->node, p->status);
	p->move_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	p->calls++;
	for (i = 0; i < count; i++) {
		struct buffer *b = &p->buffer[list[i]];

		b->marks = 0;
		if (p->status[i] != to)
			continue;
		b->node = to;
		moved++;
	}
	p->left += count - moved;
	return moved;
}

static size_t find_cold(struct pool *p, size_t count)
{
	size_t found = 0, steps = 3 * p->opt->items;

	for (; found < count && steps; steps--) {
		struct buffer *b = &p->buffer[p->hand];

		if (b->node == NEAR && !b->marks) {
			b->marks = WANTED;	/* not twice */
			p->cold[found++] = (uint32_t)p->hand;
		} else if (b->node == NEAR && b->marks == TOUCHED) {
			b->marks = 0;
		}
		p->hand = (p->hand + 1) % p->opt->items;
	}
	return found;
}

static void exchange(struct pool *p)
{
	size_t cold = find_cold(p, p->wants);

	p->demoted += move_all(p, p->cold, cold, FAR);
	p->promoted += move_all(p, p->wanted, p->wants, NEAR);
	p->wants = 0;
}

static void request(struct pool *p, size_t i, size_t number)
{
	struct buffer *b = &p->buffer[i];
	uint64_t *from = words(p, i);
	size_t first = hash(number) % (p->opt->page / 8 / RECORD_WORDS) * RECORD_WORDS, word;

	for (word = first; word < first + RECORD_WORDS; word++)
		p->sum += from[word];
	if (number % WRITE_EVERY == 0) {
		from[0]++;
		b->writes++;
	}
	p->far_requests += b->node == FAR;
	if (b->node == FAR && b->marks == TOUCHED && p->opt->batch) {
		b->marks |= WANTED;
		p->wanted[p->wants++] = (uint32_t)i;
		if (p->wants == p->opt->batch)
			exchange(p);
		return;
	}
	b->marks |= TOUCHED;
}

static uint64_t mismatches(const struct pool *p, uint64_t *misplaced)
{
	uint64_t bad = 0;
	size_t i, word;

	for (i = 0; i < p->opt->items; i++) {
		const uint64_t *is = words(p, i);

		for (word = 0; word < p->opt->page / 8; word++)
			bad += is[word] != word_at(p, i, word) + (word ? 0 : p->buffer[i].writes);
		if (p->opt->batch)
			*misplaced += pages_not_on(p->buffer[i].node, words(p, i), p->opt->page);
	}
	return bad;
}

static void forget(struct pool *p)
{
	p->promoted = p->demoted = p->left = p->calls = p->move_ns = p->far_requests = 0;
}

/* Where the kernel has the buffers at the end, and how many of the requests would be far ones there. */
static void look(struct pool *p, const uint32_t *measured)
{
	size_t i;

	for (i = 0; i < p->opt->items; i++)
		p->buffer[i].node = pages_not_on(NEAR, words(p, i), PAGE_BYTES) ? FAR : NEAR;
	p->far_requests = 0;
	for (i = 0; i < p->opt->requests; i++)
		p->far_requests += p->buffer[measured[i]].node == FAR;
}

static void serve(struct pool *p, struct times *t)
{
	size_t warmup = p->opt->warmup, count = warmup + p->opt->requests, i;
	uint32_t *sequence = skew_sequence(p->opt->items, count, p->opt->seed);
	uint64_t before, now;

	times_open(t, p->opt->requests);
	for (i = 0; i < warmup; i++)
		request(p, sequence[i], i);
	forget(p);
	p->before = counters_read();
	t->begin_ns = before = clock_ns(CLOCK_MONOTONIC);
	for (; i < count; i++) {
		request(p, sequence[i], i);
		now = clock_ns(CLOCK_MONOTONIC);
		times_add(t, now - before);
		before = now;
	}
	t->end_ns = before;
	p->after = counters_read();
	if (!p->opt->batch)
		look(p, sequence + warmup);
	free(sequence);
}

static void report(struct pool *p, struct times *t)
{
	uint64_t misplaced = 0, bad = mismatches(p, &misplaced);

	printf("{");
	times_print(t);
	printf(", \"far_requests\": %lu", p->far_requests);
	if (p->opt->batch)
		printf(", \"promoted\": %lu, \"demoted\": %lu, \"left\": %lu, \"calls\": %lu, \"move_ns\": %lu",
		       p->promoted, p->demoted, p->left, p->calls, p->move_ns);
	else
		counters_print(&p->before, &p->after);
	printf(", \"mismatches\": %lu, \"misplaced\": %lu, \"verified_bytes\": %lu}\n", bad,
	       misplaced, p->opt->items * p->opt->page);
}

/* The buffers beyond the near node's share go down before anything is asked for. */
static void place(struct pool *p)
{
	size_t i, first, count, most = p->opt->batch;
	uint32_t *list = zalloc(most, sizeof(*list));

	for (first = p->opt->near; first < p->opt->items; first += count) {
		count = p->opt->items - first < most ? p->opt->items - first : most;
		for (i = 0; i < count; i++)
			list[i] = (uint32_t)(first + i);
		if (move_all(p, list, count, FAR) != count)
			die(EXIT_CANNOT_RUN, "the far node has no room for %zu buffers", p->opt->items - p->opt->near);
	}
	free(list);
}

int pool_run(const struct options *opt)
{
	size_t most = opt->batch ? opt->batch : 1;
	struct pool p = {
		.opt = opt,
		.buffer = zalloc(opt->items, sizeof(struct buffer)),
		.wanted = zalloc(most, sizeof(uint32_t)),
		.cold = zalloc(most, sizeof(uint32_t)),
		.addr = zalloc(most, sizeof(void *)),
		.node = zalloc(most, sizeof(int)),
		.status = zalloc(most, sizeof(int)),
	};
	struct times t = { 0 };

	if (opt->near >= opt->items || opt->batch > opt->near / 2)
		die(EXIT_BAD_USAGE, "--near must be less than --items, and --batch at most half of it");
	fill(&p);
	if (opt->batch)
		place(&p);
	serve(&p, &t);
	report(&p, &t);
	return 0;
}
