// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that is moved by several tasks at once, or unmapped at one place while it
 * is mapped at another.
 */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "offload.h"
#include "region.h"
#include "torture.h"

#define FILE_SIZE	(512 * KIB)
#define HUGE_SIZE	(2 * PMD)
#define ROUNDS		16		/* in one strike */
#define MOST_PAGES	16UL		/* that go at once */

static uint64_t next_seed(void)
{
	static uint64_t seed;

	return ++seed * 0x9e3779b97f4a7c15ULL;
}

/* --- a file, mapped twice --- */

/* Nobody can write by such a mapping, so the folios are copied while they have it */
static char *map_to_read(const struct region *r, void *at)
{
	char *map = mmap(at, r->map_size, PROT_READ,
			 MAP_PRIVATE | (at ? MAP_FIXED : 0), r->fd, 0);

	if (map == MAP_FAILED)
		err(1, "mmap");
	return map + (r->addr - r->map);
}

/* Of the second mapping some pages go and come again, as their folios move */
static long unmaps(void)
{
	struct region r;
	char *second;
	long wrong = 0;

	torture_create(&r, MEMFD, 64 * KIB, FILE_SIZE, torture_nodes[rand() % 2]);
	region_fill(&r, next_seed());
	map_to_read(&r, r.map);
	second = map_to_read(&r, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		size_t size = (1 + rand() % MOST_PAGES) * PAGE;
		size_t at = rand() % ((r.size - size) / PAGE + 1) * PAGE;

		wrong += words_wrong_masked(second, at, size, r.seed);
		munmap(second + at, size);
		if (mmap(second + at, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, r.fd,
			 r.addr + at - r.map) == MAP_FAILED)
			err(1, "mmap");
	}
	wrong += words_wrong_masked(second, 0, r.size, r.seed);
	munmap(second - (r.addr - r.map), r.map_size);
	return torture_unmake(&r, "a file, unmapped", wrong);
}

/* --- huge pages, on the lists of several tasks --- */

/* The pools are filled, too */
static const char *have_huge_pages(void)
{
	struct region r;
	const char *why = region_create(&r, HUGETLB, PMD, HUGE_SIZE,
					torture_nodes[0]);

	if (!why)
		region_destroy(&r);
	return why;
}

static void drop_huge_pages(void)
{
	hugetlb_reserve(0);
}

struct sender {
	const struct region *region;
	pthread_t thread;
	atomic_bool over;
};

static void *keep_sending(void *arg)
{
	struct sender *s = arg;

	for (int i = 0; !s->over; i = !i)
		pages_move(s->region, torture_nodes[i], SHARED);
	return NULL;
}

/* Each page is written to, and has what was there before */
static long write_to_pages(struct region *r)
{
	long wrong = 0;

	for (size_t at = 0; at < r->size; at += PAGE) {
		atomic_ullong *word = (void *)r->addr + at;

		wrong += atomic_exchange(word, ~region_word(r, at)) != region_word(r, at);
		wrong += atomic_exchange(word, region_word(r, at)) != ~region_word(r, at);
	}
	return wrong;
}

/* Two threads send the same pages, and the whole process moves besides */
static long sends(void)
{
	struct sender senders[2] = {};
	struct region r;
	long wrong = 0;

	torture_create(&r, HUGETLB, PMD, HUGE_SIZE, torture_nodes[rand() % 2]);
	region_fill(&r, next_seed());
	for (int i = 0; i < 2; i++) {
		senders[i].region = &r;
		if (pthread_create(&senders[i].thread, NULL, keep_sending, &senders[i]))
			err(1, "pthread_create");
	}
	for (int i = 0; i < ROUNDS; i++)
		wrong += write_to_pages(&r);
	for (int i = 0; i < 2; i++) {
		senders[i].over = true;
		pthread_join(senders[i].thread, NULL);
	}
	return torture_unmake(&r, "huge pages", wrong);
}

const struct torture_class torture_shared[] = {
	{ .name = "file_unmapped", .strike = unmaps, .moved = true },
	{ .name = "huge_pages", .begin = have_huge_pages, .strike = sends,
	  .end = drop_huge_pages, .moved = true },
	{}
};
