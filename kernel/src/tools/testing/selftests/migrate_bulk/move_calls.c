// SPDX-License-Identifier: GPL-2.0-only
/*
 * move_pages(2) and migrate_pages(2) do and say what their manuals say, whatever
 * the addresses: in any order, on any node, not mapped, busy, twice the same.
 * Nothing here depends on how the kernel does it.
 */
#include "calls_fixture.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

TEST_F(calls, every_page_arrives_and_says_so)
{
	struct calls *c = &self->c;

	ASSERT_EQ(0, move_some(c, c->nr, MPOL_MF_MOVE));
	EXPECT_EQ(0, statuses_not(c->status, 0, c->nr, c->nodes[1]));
	EXPECT_EQ(0, astray(c, 0, c->nr));
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
	EXPECT_EQ(0, move_some(c, 0, MPOL_MF_MOVE));
}

/* One call for each page, and addresses that are not aligned */
TEST_F(calls, one_page_a_call)
{
	struct calls *c = &self->c;

	for (long i = 0; i < 100; i++) {
		void *page = c->pages[i] + i;
		int status = UNTOUCHED;

		ASSERT_EQ(0, syscall(SYS_move_pages, 0, 1UL, &page, &c->to[i],
				     &status, MPOL_MF_MOVE));
		ASSERT_EQ(c->nodes[1], status);
	}
	EXPECT_EQ(0, astray(c, 0, 100));
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
}

TEST_F(calls, addresses_in_any_order_and_nodes_in_turns)
{
	struct calls *c = &self->c;

	/* 7 has no factor in common with MANY */
	for (long i = 0; i < c->nr; i++) {
		c->pages[i] = c->base + i * 7 % c->nr * PAGE;
		c->to[i] = c->nodes[i % 3 == 0];
	}
	ASSERT_EQ(0, move_some(c, c->nr, MPOL_MF_MOVE));
	EXPECT_EQ(0, memcmp(c->to, c->status, c->nr * sizeof(*c->to)));
	EXPECT_EQ(0, astray(c, 0, c->nr));
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
}

enum kind {
	PRESENT, THERE, NEVER_TOUCHED, ZERO_PAGE, NO_VMA, SHARED, KERNEL, KINDS,
};

/* Address @i is of a kind; @gone is memory that is no longer mapped */
static void make(struct calls *c, long i, enum kind kind, char *gone)
{
	c->pages[i] = c->base + i * PAGE;
	if (kind == NO_VMA)
		c->pages[i] = gone + i % 512 * PAGE;
	if (kind == KERNEL)
		c->pages[i] = (void *)-PMD;
	if (kind == THERE)
		c->to[i] = c->nodes[0];
	if (kind == NEVER_TOUCHED || kind == ZERO_PAGE)
		madvise(c->pages[i], PAGE, MADV_DONTNEED);
	if (kind == ZERO_PAGE)
		(void)*(volatile char *)c->pages[i];
}

/* What move_pages() says of an address that is to be on the second node */
static int status_of(const struct calls *c, enum kind kind)
{
	switch (kind) {
	case PRESENT:
		return c->nodes[1];
	case THERE:
		return c->nodes[0];
	case NEVER_TOUCHED:
		return -ENOENT;
	case SHARED:
		return -EACCES;
	default:
		return -EFAULT;
	}
}

/* Each address says for itself what became of it */
TEST_F(calls, each_address_has_its_own_status)
{
	struct calls *c = &self->c;
	long each = c->nr / KINDS;
	char *gone = map(PMD);
	enum kind kind[MANY];
	int pipe_fd[2];
	char byte;
	pid_t pid;

	munmap(gone, PMD);
	c->nr = each * KINDS;
	for (long i = 0; i < c->nr; i++) {
		/* 3 and KINDS: in runs of three */
		kind[i] = i / 3 % KINDS;
		make(c, i, kind[i], gone);
	}
	/* A child has all but the shared ones for itself */
	ASSERT_EQ(0, pipe(pipe_fd));
	for (long i = 0; i < c->nr; i++)
		if (kind[i] != SHARED)
			madvise(c->pages[i], PAGE, MADV_DONTFORK);
	pid = fork();
	if (!pid) {
		close(pipe_fd[1]);
		exit(read(pipe_fd[0], &byte, 1));
	}
	ASSERT_EQ(0, move_some(c, c->nr, MPOL_MF_MOVE));
	for (long i = 0; i < c->nr; i++) {
		ASSERT_EQ(status_of(c, kind[i]), c->status[i]) {
			TH_LOG("address %ld of kind %d", i, kind[i]);
		}
		if (kind[i] == PRESENT || kind[i] == SHARED) {
			ASSERT_EQ(c->nodes[kind[i] == PRESENT],
				  page_node(c->pages[i]));
			ASSERT_EQ(0, words_wrong(c->base, i * PAGE, PAGE));
		}
	}
	/* The shared ones move as well when that is asked for */
	ASSERT_EQ(0, move_some(c, c->nr, MPOL_MF_MOVE_ALL));
	for (long i = 0; i < c->nr; i++)
		if (kind[i] == SHARED)
			ASSERT_EQ(c->nodes[1], c->status[i]);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	waitpid(pid, NULL, 0);
}

/* For one node addresses are sorted: the answers must find their way back */
TEST_F(calls, addresses_in_any_order_have_their_own_status)
{
	struct calls *c = &self->c;

	for (long i = 0; i < c->nr; i++) {
		long page = i * 7 % c->nr;

		c->pages[i] = c->base + page * PAGE + i % PAGE;
		if (page % 3 == 1)
			madvise(c->base + page * PAGE, PAGE, MADV_DONTNEED);
		if (page % 3 == 2)
			c->pages[i] = (void *)-PMD;
	}
	ASSERT_EQ(0, move_some(c, c->nr, MPOL_MF_MOVE));
	for (long i = 0; i < c->nr; i++) {
		long page = i * 7 % c->nr;

		ASSERT_EQ(page % 3 == 0 ? c->nodes[1] :
			  page % 3 == 1 ? -ENOENT : -EFAULT, c->status[i]);
		if (page % 3)
			continue;
		ASSERT_EQ(c->nodes[1], page_node(c->pages[i]));
		ASSERT_EQ(0, words_wrong(c->base, page * PAGE, PAGE));
	}
}

/*
 * What was not moved has no status, wherever it was named. The call ends in the middle
 * of a block: the second address of a page has those moved that come before.
 */
TEST_F(calls, a_pinned_page_stays_in_any_order)
{
	struct calls *c = &self->c;
	long pinned = 50, twice = c->nr / 2, left, untouched = 0;
	char *again = c->base + (twice + 10) * PAGE;
	int fd[2];

	node_alloc_on(c->nodes[0]);
	ASSERT_NE(MAP_FAILED, mmap(c->base + twice * PAGE, PAGE,
				   PROT_READ | PROT_WRITE, MAP_FIXED |
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	c->base[twice * PAGE] = 1;
	ASSERT_EQ(again, mremap(c->base + twice * PAGE, 0, PAGE,
				MREMAP_MAYMOVE | MREMAP_FIXED, again));
	ASSERT_EQ(1, *(volatile char *)again);
	for (long i = 0; i < c->nr; i++)
		c->pages[i] = c->base + i * 7 % c->nr * PAGE;
	ASSERT_TRUE(page_to_pipe(c->pages[pinned], fd));
	left = move_some(c, c->nr, MPOL_MF_MOVE_ALL);
	ASSERT_LT(c->nr / 4, left);
	for (long i = 0; i < c->nr; i++) {
		if (c->status[i] == UNTOUCHED)
			untouched++;
		else
			ASSERT_EQ(c->status[i], page_node(c->pages[i]));
	}
	EXPECT_LE(left, untouched);
	EXPECT_EQ(UNTOUCHED, c->status[pinned]);
	EXPECT_EQ(c->nodes[0], page_node(c->pages[pinned]));
	EXPECT_EQ(0, words_wrong(c->base, 0, twice * PAGE));
	close(fd[0]);
	close(fd[1]);
}

TEST_F(calls, an_address_twice)
{
	struct calls *c = &self->c;

	for (long i = 0; i < c->nr; i++)
		c->pages[i] = c->base + i % (c->nr / 2) * PAGE;
	c->pages[1] = c->pages[0];
	ASSERT_EQ(0, move_some(c, c->nr, MPOL_MF_MOVE));
	/* The second time it may be busy with the first */
	for (long i = 0; i < c->nr; i++)
		if (c->status[i] != -EBUSY)
			ASSERT_EQ(c->nodes[1], c->status[i]);
	EXPECT_EQ(0, statuses_not(c->status, 2, c->nr / 2 - 2, c->nodes[1]));
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
	EXPECT_EQ(0, astray(c, 2, c->nr - 2));
}

/* First to one node, then to the other: the last word counts */
TEST_F(calls, an_address_for_two_nodes)
{
	struct calls *c = &self->c;
	long half = c->nr / 2;

	for (long i = 0; i < half; i++) {
		c->pages[half + i] = c->pages[i];
		c->to[half + i] = c->nodes[0];
	}
	ASSERT_EQ(0, move_some(c, 2 * half, MPOL_MF_MOVE));
	EXPECT_EQ(0, statuses_not(c->status, 0, half, c->nodes[1]));
	EXPECT_EQ(0, statuses_not(c->status, half, half, c->nodes[0]));
	EXPECT_EQ(0, astray(c, half, half));
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
}

TEST_F(calls, pages_of_huge_pages)
{
	struct calls *c = &self->c;
	long pages = PMD / PAGE, nr = 2 * pages + pages / 2;
	char *huge = map(3 * PMD);

	madvise(huge, 3 * PMD, MADV_HUGEPAGE);
	touch(huge, 0, 3 * pages, c->nodes[0]);
	for (long i = 0; i < nr; i++)
		c->pages[i] = huge + i * PAGE;
	ASSERT_EQ(0, move_some(c, nr, MPOL_MF_MOVE));
	for (long i = 0; i < nr; i++)
		if (c->status[i] != -EBUSY)
			ASSERT_EQ(c->nodes[1], c->status[i]);
	EXPECT_EQ(0, astray(c, 0, nr));
	EXPECT_EQ(0, words_wrong(huge, 0, 3 * pages * PAGE));
}

/* What comes before a wrong node or address is done, nothing after it */
static void check_cut(struct __test_metadata *_metadata, struct calls *c,
		      long cut)
{
	EXPECT_EQ(0, statuses_not(c->status, 0, cut, c->nodes[1]));
	EXPECT_EQ(0, statuses_not(c->status, cut, c->nr - cut, UNTOUCHED));
	EXPECT_EQ(0, astray(c, 0, cut));
	EXPECT_EQ(c->nodes[0], page_node(c->base + cut * PAGE));
	EXPECT_EQ(c->nodes[0], page_node(c->base + (c->nr - 1) * PAGE));
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
}

TEST_F(calls, a_node_that_is_none)
{
	struct calls *c = &self->c;
	static const int bad[] = { -1, 63, 1 << 20, INT32_MIN };

	for (int i = 0; i < 4; i++) {
		calls_reset(c);
		c->to[i * 300] = bad[i];
		ASSERT_EQ(-ENODEV, move_some(c, c->nr, MPOL_MF_MOVE));
		check_cut(_metadata, c, i * 300);
	}
}

TEST_F(calls, arrays_that_end_early)
{
	struct calls *c = &self->c;
	char *tail = map(PMD);
	long fits = PAGE / sizeof(void *);
	void **pages = (void **)tail;
	int *to = (int *)(tail + 2 * PAGE);

	/* One page of addresses; its neighbour cannot be read */
	mprotect(tail + PAGE, PAGE, PROT_NONE);
	memcpy(pages, c->pages, PAGE);
	ASSERT_EQ(-1, syscall(SYS_move_pages, 0, c->nr, pages, c->to, c->status,
			      MPOL_MF_MOVE));
	ASSERT_EQ(EFAULT, errno);
	check_cut(_metadata, c, fits);

	calls_reset(c);
	for (long i = 0; i < c->nr; i++)
		c->to[i] = c->nodes[1];
	mprotect(tail + 3 * PAGE, PAGE, PROT_NONE);
	memcpy(to, c->to, PAGE);
	ASSERT_EQ(-1, syscall(SYS_move_pages, 0, c->nr, c->pages, to, c->status,
			      MPOL_MF_MOVE));
	ASSERT_EQ(EFAULT, errno);
	check_cut(_metadata, c, PAGE / sizeof(int));
}

TEST_F(calls, a_status_that_cannot_be_written)
{
	struct calls *c = &self->c;

	c->status = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	ASSERT_EQ(-EFAULT, move_some(c, c->nr, MPOL_MF_MOVE));
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
}

TEST_F(calls, a_pinned_page_stays)
{
	struct calls *c = &self->c;
	long nr = 100, pinned = 50;
	int fd[2];

	ASSERT_TRUE(page_to_pipe(c->pages[pinned], fd));
	ASSERT_EQ(1, move_some(c, nr, MPOL_MF_MOVE));
	/* A status that is there is true */
	for (long i = 0; i < nr; i++)
		if (c->status[i] != UNTOUCHED)
			ASSERT_EQ(c->status[i], page_node(c->pages[i]));
	EXPECT_EQ(c->nodes[0], page_node(c->pages[pinned]));
	EXPECT_EQ(UNTOUCHED, c->status[pinned]);
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));

	/* And moves as soon as it is free */
	close(fd[0]);
	close(fd[1]);
	ASSERT_EQ(0, move_some(c, nr, MPOL_MF_MOVE));
	EXPECT_EQ(0, statuses_not(c->status, 0, nr, c->nodes[1]));
}

/* What has no status afterwards is counted as not moved, or was not tried */
TEST_F(calls, a_pinned_page_among_two_nodes)
{
	struct calls *c = &self->c;
	long nr = 400, pinned = 101, moved = 0, left;
	int fd[2];

	for (long i = 0; i < nr; i += 2)
		c->to[i] = c->nodes[0];
	ASSERT_TRUE(page_to_pipe(c->pages[pinned], fd));
	left = move_some(c, nr, MPOL_MF_MOVE);
	ASSERT_LE(1, left);
	ASSERT_GE(nr, left);
	for (long i = 0; i < nr; i++) {
		if (c->status[i] == UNTOUCHED)
			continue;
		ASSERT_EQ(c->to[i], c->status[i]);
		ASSERT_EQ(c->to[i], page_node(c->pages[i]));
		moved++;
	}
	EXPECT_LE(moved, nr - left);
	EXPECT_EQ(UNTOUCHED, c->status[pinned]);
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
}

TEST_F(calls, pages_in_another_cpus_cache_move)
{
	struct calls *c = &self->c;

	for (int turn = 0; turn < 10; turn++) {
		calls_reset(c);
		if (!renew_elsewhere(c, 20, 7))
			SKIP(return, "one CPU only");
		ASSERT_EQ(0, move_some(c, 40, MPOL_MF_MOVE));
		ASSERT_EQ(0, statuses_not(c->status, 0, 40, c->nodes[1]));
		ASSERT_EQ(0, astray(c, 0, 40));
		for (long i = 0; i < 40; i++)
			c->to[i] = c->nodes[0];
		ASSERT_EQ(0, move_some(c, 40, MPOL_MF_MOVE));
		ASSERT_EQ(0, astray(c, 0, 40));
	}
}

/* More page tables than are gone through at once, with holes between */
TEST_F(calls, migrate_pages_moves_all_that_there_is)
{
	struct calls *c = &self->c;
	long every = PMD / PAGE / 4, tables = 40, nr = tables * 4;
	char *wide = map(tables * PMD);

	for (long i = 0; i < nr; i++)
		touch(wide, i * every, 1, c->nodes[0]);
	renew_elsewhere(c, 5, 5);
	ASSERT_LE(0, migrate_all(0, c->nodes[0], c->nodes[1]));
	for (long i = 0; i < nr; i++) {
		ASSERT_EQ(c->nodes[1], page_node(wide + i * every * PAGE));
		ASSERT_EQ(0, words_wrong(wide, i * every * PAGE, PAGE));
	}
	EXPECT_EQ(0, astray(c, 0, c->nr));
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
}

TEST_F(calls, migrate_pages_counts_a_pinned_page)
{
	struct calls *c = &self->c;
	int fd[2];

	ASSERT_TRUE(page_to_pipe(c->base + 700 * PAGE, fd));
	EXPECT_LE(1, migrate_all(0, c->nodes[0], c->nodes[1]));
	EXPECT_EQ(c->nodes[0], page_node(c->base + 700 * PAGE));
	EXPECT_EQ(0, astray(c, 0, 700));
	EXPECT_EQ(0, astray(c, 701, c->nr - 701));
}

/* Forth and back, busy pages among them: counters are as before */
TEST_F(calls, nothing_stays_isolated_or_allocated)
{
	struct calls *c = &self->c;
	long isolated = vmstat("nr_isolated_anon"), free = 0, lost;
	int fd[2];

	ASSERT_TRUE(page_to_pipe(c->base + 600 * PAGE, fd));
	c->pages[700] = c->pages[699];
	for (int turn = 0; turn < 24; turn++) {
		if (turn == 4)
			free = free_pages();
		for (long i = 0; i < c->nr; i++)
			c->to[i] = c->nodes[!(turn % 2)];
		ASSERT_LE(0, move_some(c, c->nr, MPOL_MF_MOVE));
	}
	lost = free - free_pages();
	EXPECT_EQ(isolated, vmstat("nr_isolated_anon"));
	EXPECT_GT(2 * MANY, lost);
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
	/* None has a reference left over: all can be isolated again */
	close(fd[0]);
	close(fd[1]);
	ASSERT_EQ(0, move_some(c, c->nr, MPOL_MF_MOVE));
	EXPECT_EQ(0, statuses_not(c->status, 0, 699, c->to[0]));
	ASSERT_EQ(0, munmap(c->base, c->nr * PAGE));
}

TEST_F(calls, locked_memory_stays_locked)
{
	struct calls *c = &self->c;
	long locked = vmstat("nr_mlock");

	ASSERT_EQ(0, mlock(c->base, 200 * PAGE));
	ASSERT_EQ(locked + 200, vmstat("nr_mlock"));
	for (int turn = 0; turn < 4; turn++) {
		for (long i = 0; i < c->nr; i++)
			c->to[i] = c->nodes[!(turn % 2)];
		ASSERT_EQ(0, move_some(c, c->nr, MPOL_MF_MOVE));
		ASSERT_EQ(0, statuses_not(c->status, 0, c->nr, c->to[0]));
		ASSERT_EQ(locked + 200, vmstat("nr_mlock"));
	}
	ASSERT_EQ(0, munlock(c->base, 200 * PAGE));
	EXPECT_EQ(locked, vmstat("nr_mlock"));
}

struct zapper {
	struct calls *c;
	bool stop;
};

/* Take pages away while they move, and the VMAs they are in */
static void *zap(void *arg)
{
	struct zapper *z = arg;
	struct calls *c = z->c;
	unsigned int turn = 0;

	run_on(1);
	while (!__atomic_load_n(&z->stop, __ATOMIC_RELAXED)) {
		char *at = c->base + (turn++ * 37 % 1400 + 50) * PAGE;

		madvise(at, 13 * PAGE, MADV_DONTNEED);
		mprotect(at, 5 * PAGE, PROT_READ);
		mprotect(at, 5 * PAGE, PROT_READ | PROT_WRITE);
		for (int i = 0; i < 13; i++)
			*(volatile char *)(at + i * PAGE) = 1;
	}
	return NULL;
}

TEST_F_TIMEOUT(calls, memory_that_goes_away_meanwhile, 120)
{
	struct calls *c = &self->c;
	struct zapper z = { .c = c };
	long isolated = vmstat("nr_isolated_anon"), free = 0, lost;
	pthread_t thread;

	run_on(0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, zap, &z));
	for (int turn = 0; turn < 60; turn++) {
		if (turn == 20)
			free = free_pages();
		for (long i = 0; i < c->nr; i++)
			c->to[i] = c->nodes[!(turn % 2)];
		ASSERT_LE(0, move_some(c, c->nr, MPOL_MF_MOVE));
		ASSERT_EQ(0, words_wrong(c->base, 0, 50 * PAGE));
	}
	__atomic_store_n(&z.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	lost = free - free_pages();
	EXPECT_GT(2 * MANY, lost);
	EXPECT_EQ(isolated, vmstat("nr_isolated_anon"));
}

TEST_HARNESS_MAIN
