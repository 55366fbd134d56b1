// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages of hugetlb move by mbind(2) and move_pages(2), many of them or one that
 * two tasks move. One case counts how often the kernel begins.
 */
#include "calls_fixture.h"

#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../migrate_common/events.h"

/* More of them than are gone through at once */
TEST_F(calls, mbind_moves_hugetlb_pages)
{
	struct calls *c = &self->c;
	long pages = PMD / PAGE, nr = 20;
	char *huge;

	if (!hugetlb_reserve(nr))
		SKIP(return, "no huge pages");
	node_alloc_on(c->nodes[0]);
	huge = mmap(NULL, nr * PMD, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)huge);
	touch(huge, 0, nr * pages, c->nodes[0]);
	ASSERT_EQ(0, mbind_at(huge, nr * pages, c->nodes[1]));
	for (long i = 0; i < nr; i++)
		EXPECT_EQ(c->nodes[1], page_node(huge + i * PMD));
	EXPECT_EQ(0, words_wrong(huge, 0, nr * pages * PAGE));
	munmap(huge, nr * PMD);
	EXPECT_TRUE(hugetlb_reserve(0));
}

/* Those that are there already are no reason to move the others one by one */
TEST_F_TIMEOUT(calls, every_other_hugetlb_page_is_there, 120)
{
	struct calls *c = &self->c;
	long pages = PMD / PAGE, nr = 16;
	char *huge;

	if (!hugetlb_reserve(nr))
		SKIP(return, "no huge pages");
	huge = mmap(NULL, nr * PMD, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)huge);
	for (long i = 0; i < nr; i++) {
		touch(huge, i * pages, pages, c->nodes[i % 2]);
		c->pages[i] = huge + i * PMD;
	}
	if (!events_start("migrate/mm_migrate_pages_start", true))
		SKIP(return, "no tracing");
	ASSERT_EQ(0, move_some(c, nr, MPOL_MF_MOVE));
	/* How often the kernel was to migrate a list */
	EXPECT_EQ(1, events_count("mm_migrate_pages_start"));
	events_stop();
	EXPECT_EQ(0, statuses_not(c->status, 0, nr, c->nodes[1]));
	EXPECT_EQ(0, astray(c, 0, nr));
	EXPECT_EQ(0, words_wrong(huge, 0, nr * pages * PAGE));
	munmap(huge, nr * PMD);
	EXPECT_TRUE(hugetlb_reserve(0));
}

struct rival {
	const int *nodes;
	char *huge;
	pthread_barrier_t *start;
	int cpu;
};

#define RIVAL_ROUNDS	300

static void *send_huge(void *arg)
{
	struct rival *r = arg;
	void *page = r->huge;
	int status;

	run_on(r->cpu);
	for (int i = 0; i < RIVAL_ROUNDS; i++) {
		pthread_barrier_wait(r->start);
		syscall(SYS_move_pages, 0, 1UL, &page, &r->nodes[!(i % 2)],
			&status, MPOL_MF_MOVE);
	}
	return NULL;
}

/* One has it isolated while the other comes; then it is where both want it */
TEST_F_TIMEOUT(calls, a_hugetlb_page_that_two_move, 120)
{
	struct calls *c = &self->c;
	pthread_barrier_t start;
	struct rival rival = { .nodes = c->nodes, .start = &start, .cpu = 1 };
	pthread_t thread;

	if (!hugetlb_reserve(2))
		SKIP(return, "no huge pages");
	node_alloc_on(c->nodes[0]);
	rival.huge = mmap(NULL, PMD, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)rival.huge);
	touch(rival.huge, 0, PMD / PAGE, c->nodes[0]);
	/* The first of many: it is isolated for as long as these are looked up */
	c->pages[0] = rival.huge;

	run_on(0);
	pthread_barrier_init(&start, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, send_huge, &rival));
	for (int i = 0; i < RIVAL_ROUNDS; i++) {
		for (long at = 0; at < c->nr; at++)
			c->to[at] = c->nodes[!(i % 2)];
		pthread_barrier_wait(&start);
		ASSERT_LE(0, move_some(c, c->nr, MPOL_MF_MOVE));
	}
	pthread_join(thread, NULL);
	EXPECT_EQ(0, words_wrong(rival.huge, 0, PMD));
	EXPECT_EQ(0, words_wrong(c->base, PAGE, (c->nr - 1) * PAGE));
	munmap(rival.huge, PMD);
	EXPECT_TRUE(hugetlb_reserve(0));
}

TEST_HARNESS_MAIN
