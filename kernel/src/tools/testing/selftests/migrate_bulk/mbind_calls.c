// SPDX-License-Identifier: GPL-2.0-only
/*
 * mbind(2) does and says what its manual says, while others fault pages in, map
 * memory anew and wait for mmap_lock. How the kernel does it matters to the
 * cases that say "in turns".
 */
#include "calls_fixture.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WIDE		(32 * 512L)	/* pages in more tables than one turn of mbind(2) */

/* The node that this memory is bound to, or -1 */
static int bound_to(const void *addr)
{
	unsigned long mask = 0;
	int mode;

	if (syscall(SYS_get_mempolicy, &mode, &mask, 64UL, addr, MPOL_F_ADDR) ||
	    mode != MPOL_BIND)
		return -1;
	return __builtin_ctzl(mask);
}

TEST_F(calls, mbind_moves_or_says_eio)
{
	struct calls *c = &self->c;
	int fd[2];

	for (int turn = 0; turn < 10; turn++) {
		renew_elsewhere(c, 30, 9);
		ASSERT_EQ(0, mbind_to(c, 0, 60, c->nodes[1]));
		ASSERT_EQ(0, astray(c, 0, 60));
		ASSERT_EQ(0, mbind_to(c, 0, 60, c->nodes[0]));
		ASSERT_EQ(c->nodes[0], page_node(c->base));
	}
	ASSERT_TRUE(page_to_pipe(c->base + 10 * PAGE, fd));
	EXPECT_EQ(-EIO, mbind_to(c, 0, c->nr, c->nodes[1]));
	EXPECT_EQ(c->nodes[1], bound_to(c->base));
	EXPECT_EQ(c->nodes[1], bound_to(c->base + (c->nr - 1) * PAGE));
	EXPECT_EQ(c->nodes[0], page_node(c->base + 10 * PAGE));
	EXPECT_EQ(0, astray(c, 11, c->nr - 11));
	EXPECT_EQ(0, words_wrong(c->base, 0, c->nr * PAGE));
}

/* Neither a hole nor, where none may move, a misplaced page changes a policy */
TEST_F(calls, mbind_refuses_before_it_changes_anything)
{
	struct calls *c = &self->c;
	unsigned long mask = 1UL << c->nodes[1];
	long hole = 1400;

	ASSERT_EQ(-1, syscall(SYS_mbind, c->base, c->nr * PAGE, MPOL_BIND,
			      &mask, 64UL, MPOL_MF_STRICT));
	ASSERT_EQ(EIO, errno);
	EXPECT_EQ(-1, bound_to(c->base));

	munmap(c->base + hole * PAGE, PAGE);
	ASSERT_EQ(-EFAULT, mbind_to(c, 0, c->nr, c->nodes[1]));
	ASSERT_EQ(-EFAULT, mbind_to(c, 0, hole + 1, c->nodes[1]));
	ASSERT_EQ(-EFAULT, mbind_to(c, hole, 1, c->nodes[1]));
	ASSERT_EQ(-EFAULT, mbind_to(c, hole, 9, c->nodes[1]));
	for (long i = 1; i < c->nr; i += 100) {
		EXPECT_EQ(-1, bound_to(c->base + i * PAGE));
		EXPECT_EQ(c->nodes[0], page_node(c->base + i * PAGE));
	}
	EXPECT_EQ(0, mbind_to(c, 0, hole, c->nodes[1]));
	EXPECT_EQ(0, astray(c, 0, hole));
}

/* More page tables than are gone through at once, and busy pages in two */
TEST_F(calls, mbind_moves_all_but_what_is_pinned)
{
	struct calls *c = &self->c;
	long every = PMD / PAGE / 4, nr = WIDE / every, pinned = 70;
	char *wide = map(WIDE * PAGE);
	int fd[2][2];

	for (long i = 0; i < nr; i++)
		touch(wide, i * every, 1, c->nodes[0]);
	ASSERT_TRUE(page_to_pipe(wide, fd[0]));
	ASSERT_TRUE(page_to_pipe(wide + pinned * every * PAGE, fd[1]));
	ASSERT_EQ(-EIO, mbind_at(wide, WIDE, c->nodes[1]));
	for (long i = 0; i < nr; i++) {
		bool stays = !i || i == pinned;

		ASSERT_EQ(c->nodes[!stays], page_node(wide + i * every * PAGE));
		ASSERT_EQ(0, words_wrong(wide, i * every * PAGE, PAGE));
	}
	EXPECT_EQ(c->nodes[1], bound_to(wide));
	EXPECT_EQ(c->nodes[1], bound_to(wide + (WIDE - 1) * PAGE));
}

static bool interleave_new_memory(const int nodes[2])
{
	unsigned long mask = 1UL << nodes[0] | 1UL << nodes[1];

	return !syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &mask, 64UL);
}

/* MPOL_DEFAULT moves by the task's policy: to where a fault puts a page */
TEST_F(calls, mbind_interleaves_as_faults_do)
{
	struct calls *c = &self->c;
	int *first = calloc(WIDE, sizeof(*first));
	char *wide = map(WIDE * PAGE);
	long others = 0;

	ASSERT_TRUE(interleave_new_memory(c->nodes));
	for (long i = 0; i < WIDE; i++) {
		*(volatile char *)(wide + i * PAGE) = 1;
		first[i] = page_node(wide + i * PAGE);
	}
	ASSERT_NE(first[0], first[1]);
	ASSERT_EQ(0, mbind_at(wide, WIDE, c->nodes[1]));
	ASSERT_EQ(c->nodes[1], page_node(wide));
	ASSERT_EQ(c->nodes[1], page_node(wide + PAGE));
	ASSERT_EQ(0, syscall(SYS_mbind, wide, WIDE * PAGE, MPOL_DEFAULT, NULL,
			     0UL, MPOL_MF_MOVE));
	EXPECT_EQ(-1, bound_to(wide));
	for (long i = 0; i < WIDE; i++)
		others += first[i] != page_node(wide + i * PAGE);
	EXPECT_EQ(0, others);
	node_alloc_on(-1);
	free(first);
}

/* Touch memory until this node has no more without reclaim */
static void fill_node(int node)
{
	unsigned long mask = 1UL << node;
	char *memory;
	long nr;

	nr = node_sum_after(node, "meminfo", "MemFree:") * KIB / PAGE;
	memory = map(nr * PAGE);
	syscall(SYS_set_mempolicy, MPOL_PREFERRED, &mask, 64UL);
	for (long i = 0; i < nr; i++) {
		memory[i * PAGE] = 1;
		if (i % 64 == 63 && page_node(memory + i * PAGE) != node)
			break;
	}
	node_alloc_on(-1);
}

static long times_reclaimed(void)
{
	static const char * const zones[] = {
		"allocstall_dma32", "allocstall_normal", "allocstall_movable",
	};
	long times = 0, found;

	for (int i = 0; i < 3; i++) {
		found = file_sum_after("/proc/vmstat", zones[i]);
		times += found > 0 ? found : 0;
	}
	return times;
}

/* To prefer a node is not to make room on it */
TEST_F_TIMEOUT(calls, mbind_reclaims_nothing_for_a_node_that_is_preferred, 120)
{
	struct calls *c = &self->c;
	unsigned long mask = 1UL << c->nodes[1];
	char *wide = map(WIDE * PAGE);
	long before;

	touch(wide, 0, WIDE, c->nodes[0]);
	fill_node(c->nodes[1]);
	before = times_reclaimed();
	ASSERT_EQ(0, syscall(SYS_mbind, wide, WIDE * PAGE, MPOL_PREFERRED,
			     &mask, 64UL, MPOL_MF_MOVE));
	/* Others may have, a few times */
	EXPECT_GT(16, times_reclaimed() - before);
	EXPECT_EQ(0, words_wrong(wide, 0, WIDE * PAGE));
}

/* What another thread does to the memory that is bound, and what it has seen */
struct meanwhile {
	struct calls *c;
	pthread_t thread;
	char *wide;
	bool stop;
	bool in_time;
	long most;
};

/* A CPU for each; false if there is but one */
static bool run_on_two(void)
{
	bool two = run_on(1);

	run_on(0);
	return two;
}

/* Have memory on the first node, and let another thread do something to it */
static bool meanwhile_begin(struct meanwhile *m, void *(*what)(void *))
{
	m->wide = map(WIDE * PAGE);
	m->stop = false;
	touch(m->wide, 0, WIDE, m->c->nodes[0]);
	return !pthread_create(&m->thread, NULL, what, m);
}

static void meanwhile_end(struct meanwhile *m)
{
	__atomic_store_n(&m->stop, true, __ATOMIC_RELAXED);
	pthread_join(m->thread, NULL);
}

static void *fault_odd_pages(void *arg)
{
	struct meanwhile *m = arg;

	run_on(1);
	for (long i = WIDE - 1; i > 0; i -= 2)
		touch(m->wide, i, 1, m->c->nodes[0]);
	return NULL;
}

/* Each is inserted before the policy is there, and moves, or follows it */
TEST_F_TIMEOUT(calls, mbind_misses_no_page_that_is_faulted_in, 120)
{
	struct calls *c = &self->c;
	struct meanwhile m = { .c = c };

	run_on(0);
	for (int turn = 0; turn < 4; turn++) {
		m.wide = map(WIDE * PAGE);
		for (long i = 0; i < WIDE; i += 2)
			touch(m.wide, i, 1, c->nodes[0]);
		ASSERT_EQ(0, pthread_create(&m.thread, NULL, fault_odd_pages, &m));
		/* Now most, now few of them are there before */
		while (page_node(m.wide + (WIDE - 1 - turn * 2000) * PAGE) < 0)
			sched_yield();
		EXPECT_EQ(0, mbind_at(m.wide, WIDE, c->nodes[1]));
		pthread_join(m.thread, NULL);
		EXPECT_EQ(0, pages_not_on(c->nodes[1], m.wide, WIDE * PAGE));
		EXPECT_EQ(0, words_wrong(m.wide, 0, WIDE * PAGE));
		munmap(m.wide, WIDE * PAGE);
	}
}

#define REBOUND		(WIDE - WIDE / 8)	/* from here to the end */
#define RENEWED		(REBOUND - WIDE / 8)	/* from here to there */
#define GONE		(RENEWED - WIDE / 8)

/* As soon as the memory is bound, and before the call has come to its end */
static void *change_its_end(void *arg)
{
	struct meanwhile *m = arg;
	char *renewed = m->wide + RENEWED * PAGE;
	int *nodes = m->c->nodes;

	run_on(1);
	while (bound_to(m->wide + (WIDE - 1) * PAGE) != nodes[1])
		if (__atomic_load_n(&m->stop, __ATOMIC_RELAXED))
			return NULL;
	mbind_at(m->wide + REBOUND * PAGE, WIDE - REBOUND, nodes[0]);
	munmap(m->wide + GONE * PAGE, (REBOUND - GONE) * PAGE);
	mmap(renewed, (REBOUND - RENEWED) * PAGE, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	madvise(renewed, (REBOUND - RENEWED) * PAGE, MADV_NOHUGEPAGE);
	touch(m->wide, RENEWED, REBOUND - RENEWED, nodes[0]);
	m->in_time = page_node(m->wide + WIDE / 2 * PAGE) == nodes[0];
	return NULL;
}

/* What was mapped anew, or given another policy, before a turn came to it */
TEST_F_TIMEOUT(calls, mbind_in_turns_leaves_alone_what_others_have_bound, 120)
{
	struct calls *c = &self->c;
	struct meanwhile m = { .c = c };

	if (!run_on_two())
		SKIP(return, "one CPU only");
	for (int turn = 0; turn < 10 && !m.in_time; turn++) {
		ASSERT_TRUE(meanwhile_begin(&m, change_its_end));
		EXPECT_EQ(0, mbind_at(m.wide, WIDE, c->nodes[1]));
		meanwhile_end(&m);
		if (m.in_time) {
			EXPECT_EQ(0, pages_not_on(c->nodes[1], m.wide, GONE * PAGE));
			EXPECT_EQ(0, pages_not_on(-EFAULT, m.wide + GONE * PAGE,
						  (RENEWED - GONE) * PAGE));
			EXPECT_EQ(0, pages_not_on(c->nodes[0], m.wide + RENEWED * PAGE,
						  (REBOUND - RENEWED) * PAGE));
			EXPECT_EQ(0, pages_not_on(c->nodes[0], m.wide + REBOUND * PAGE,
						  (WIDE - REBOUND) * PAGE));
			EXPECT_EQ(0, words_wrong(m.wide, 0, GONE * PAGE));
			EXPECT_EQ(0, words_wrong(m.wide, RENEWED * PAGE, (WIDE - RENEWED) * PAGE));
		}
		munmap(m.wide, WIDE * PAGE);
	}
	if (!m.in_time)
		SKIP(return, "the other thread was always too late");
}

/* Take mmap_lock for writing, and see what is isolated by then */
static void *watch_isolated(void *arg)
{
	struct meanwhile *m = arg;
	char *own = map(PAGE);
	int turn = 0;

	run_on(1);
	while (!__atomic_load_n(&m->stop, __ATOMIC_RELAXED)) {
		long isolated;

		mprotect(own, PAGE, turn++ % 2 ? PROT_READ : PROT_NONE);
		isolated = file_sum_after("/proc/vmstat", "nr_isolated_anon");
		if (isolated > m->most)
			m->most = isolated;
	}
	return NULL;
}

/* mmap_lock is not held until all are isolated: another can have it between */
TEST_F_TIMEOUT(calls, mbind_in_turns_lets_go_of_mmap_lock, 120)
{
	struct calls *c = &self->c;
	struct meanwhile m = { .c = c };

	if (!run_on_two())
		SKIP(return, "one CPU only");
	ASSERT_TRUE(meanwhile_begin(&m, watch_isolated));
	for (int turn = 1; turn < 11; turn++)
		EXPECT_EQ(0, mbind_at(m.wide, WIDE, c->nodes[turn % 2]));
	meanwhile_end(&m);
	TH_LOG("at most %ld of %ld pages were isolated at once", m.most, WIDE);
	EXPECT_LT(0, m.most);
	EXPECT_GT(WIDE / 2, m.most);
	EXPECT_EQ(0, words_wrong(m.wide, 0, WIDE * PAGE));
}

/* Move the pages of the parent by one call, which is long */
static void move_parents_pages(const struct calls *c, char *wide, bool all)
{
	void **pages = calloc(WIDE, sizeof(*pages));
	int *to = calloc(WIDE, sizeof(*to)), *status = calloc(WIDE, sizeof(*to));

	run_on(1);
	for (long i = 0; i < WIDE; i++) {
		pages[i] = wide + i * PAGE;
		to[i] = c->nodes[1];
	}
	if (all)
		migrate_all(getppid(), c->nodes[0], c->nodes[1]);
	else
		syscall(SYS_move_pages, getppid(), WIDE, pages, to, status,
			MPOL_MF_MOVE);
}

/* Kill who moves as soon as the first page is there. Has the last one moved? */
static bool killed_call_goes_on(struct calls *c, bool all)
{
	char *wide = map(WIDE * PAGE);
	bool moved;
	pid_t pid;

	madvise(wide, WIDE * PAGE, MADV_DONTFORK);
	touch(wide, 0, WIDE, c->nodes[0]);
	pid = fork();
	if (!pid) {
		move_parents_pages(c, wide, all);
		exit(0);
	}
	while (page_node(wide) != c->nodes[1])
		sched_yield();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	moved = page_node(wide + (WIDE - 1) * PAGE) == c->nodes[1];
	munmap(wide, WIDE * PAGE);
	return moved;
}

/* A victim of the OOM killer frees nothing while it moves what it has */
TEST_F_TIMEOUT(calls, a_killed_call_ends_in_turns, 120)
{
	struct calls *c = &self->c;

	if (!run_on_two())
		SKIP(return, "one CPU only");
	/* It may have been done before it was killed, but hardly each time */
	for (int all = 0; all < 2; all++) {
		int turn = 0;

		while (turn < 5 && killed_call_goes_on(c, all))
			turn++;
		EXPECT_GT(5, turn) {
			TH_LOG("%s goes on", all ? "migrate_pages" : "move_pages");
		}
	}
}

TEST_HARNESS_MAIN
