// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that NUMA balancing promotes in batches: vm.migrate_promote_batch.
 *
 * Needs a node that is slower than those with CPUs. Linux hides the pages of that
 * node from a task as it runs; what is touched then is noted, and moves when there
 * are enough notes, or at the next tick.
 */
#include "../kselftest_harness.h"

#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"

#define BATCH		"/proc/sys/vm/migrate_promote_batch"
#define DROP_CACHES	"/proc/sys/vm/drop_caches"
#define NOTES		16
#define MOST_NOTES	256
#define PAGES		(1L * MOST_NOTES)
#define FEW		5L
/* A tick may come between any two lines of a test */
#define ATTEMPTS	8

static void touch_again(const char *addr, long nr)
{
	for (long i = 0; i < nr; i++)
		(void)*(volatile const char *)(addr + i * PAGE);
}

static long pages_on(int node, const char *addr, long nr)
{
	return nr - pages_not_on(node, addr, nr * PAGE);
}

/* What task_numa_fault() was told has moved; -1 if the kernel does not say */
static long told_of(void)
{
	return file_sum_after("/proc/thread-self/sched", "numa_pages_migrated");
}

/* Pages of the slow node, in no CPU's LRU cache, from where nothing moves */
static char *map_slow(int slow)
{
	char *base = map(PAGES * PAGE);

	touch(base, 0, PAGES, slow);
	file_write_long(DROP_CACHES, 1);
	return base;
}

/* Run until so many pages are on the node, or none comes: a guest's tick may be late */
static long pages_that_came(int node, const char *base, long nr)
{
	double begin = seconds(CLOCK_MONOTONIC);
	long got;

	do {
		cpu_run_for(0.05);
		got = pages_on(node, base, nr);
	} while (got < nr && seconds(CLOCK_MONOTONIC) - begin < 5);
	return got;
}

FIXTURE(promote)
{
	int slow;
	int fast;
	char *base;
};

FIXTURE_SETUP(promote)
{
	const char *why;
	int nodes[2];

	if (geteuid())
		SKIP(return, "needs root");
	if (access(BATCH, F_OK))
		SKIP(return, "no vm.migrate_promote_batch");
	if (!nodes_find(nodes))
		SKIP(return, "one node with memory only");
	why = balancing_begin();
	if (why)
		SKIP(return, "%s", why);
	self->fast = nodes[0];
	self->slow = nodes[1];
	file_write_long(BALANCING, 0);
	ASSERT_EQ(0, file_write_long(BATCH, NOTES));
	self->base = map_slow(self->slow);
	if (!balancing_hide(PAGES))
		SKIP(return, "NUMA balancing hides nothing: no node is slow");
}

FIXTURE_TEARDOWN_PARENT(promote)
{
	balancing_end();
	file_write_long(BATCH, 0);
}

/* Fresh ones, hidden */
static void renew(struct __test_metadata *_metadata,
		  FIXTURE_DATA(promote) *self)
{
	file_write_long(BALANCING, 0);
	ASSERT_EQ(0, munmap(self->base, PAGES * PAGE));
	self->base = map_slow(self->slow);
	ASSERT_TRUE(balancing_hide(PAGES));
}

TEST_F(promote, what_is_touched_moves_and_is_counted)
{
	long promoted = vmstat("pgpromote_success");
	long told = told_of();

	ASSERT_EQ(PAGES, pages_on(self->slow, self->base, PAGES));
	touch_again(self->base, PAGES);
	EXPECT_EQ(PAGES, pages_that_came(self->fast, self->base, PAGES));
	EXPECT_EQ(0, words_wrong(self->base, 0, PAGES * PAGE));
	EXPECT_LE(PAGES, vmstat("pgpromote_success") - promoted);
	if (told >= 0)
		EXPECT_EQ(PAGES, told_of() - told);
}

TEST_F_TIMEOUT(promote, a_note_waits_for_others, 120)
{
	bool waits = false;

	for (int i = 0; i < ATTEMPTS && !waits; i++) {
		touch_again(self->base, FEW);
		waits = pages_on(self->slow, self->base, FEW) == FEW;
		renew(_metadata, self);
	}
	EXPECT_TRUE(waits);
	/* Off: each moves in its fault */
	file_write_long(BATCH, 0);
	touch_again(self->base, 1);
	EXPECT_EQ(1, pages_on(self->fast, self->base, 1));
}

/* Of a thread that has noted nothing before: all but one. Return: NULL if they wait */
static void *touch_most(void *arg)
{
	FIXTURE_DATA(promote) *self = arg;

	touch_again(self->base, MOST_NOTES - 1);
	return (void *)pages_not_on(self->slow, self->base,
				    (MOST_NOTES - 1) * PAGE);
}

TEST_F_TIMEOUT(promote, notes_wait_for_as_many_as_the_setting_says, 120)
{
	void *moved = self;

	EXPECT_NE(0, file_write_long(BATCH, MOST_NOTES + 1));
	ASSERT_EQ(0, file_write_long(BATCH, MOST_NOTES));
	for (int i = 0; i < ATTEMPTS && moved; i++) {
		pthread_t thread;

		ASSERT_EQ(0, pthread_create(&thread, NULL, touch_most, self));
		pthread_join(thread, &moved);
		renew(_metadata, self);
	}
	EXPECT_EQ(NULL, moved);
}

TEST_F(promote, a_tick_moves_what_is_noted)
{
	touch_again(self->base, FEW);
	EXPECT_EQ(FEW, pages_that_came(self->fast, self->base, FEW));
	EXPECT_EQ(0, words_wrong(self->base, 0, PAGES * PAGE));
}

/* Whatever the fault has found, the policy of now decides */
TEST_F_TIMEOUT(promote, policy_of_the_moment_holds, 120)
{
	const int modes[] = { MPOL_BIND, MPOL_BIND | MPOL_F_NUMA_BALANCING,
			      MPOL_PREFERRED_MANY | MPOL_F_NUMA_BALANCING };
	unsigned long mask = 1UL << self->slow;
	long stayed;

	for (size_t k = 0; k < ARRAY_SIZE(modes); k++) {
		stayed = 0;
		for (int i = 0; i < ATTEMPTS && !stayed; i++) {
			touch_again(self->base, FEW);
			ASSERT_EQ(0, syscall(SYS_mbind, self->base, PAGES * PAGE,
					     modes[k], &mask, 64UL, 0));
			stayed = pages_on(self->slow, self->base, FEW);
			cpu_run_for(0.05);
			EXPECT_EQ(stayed, pages_on(self->slow, self->base, FEW));
			renew(_metadata, self);
		}
		EXPECT_LT(0, stayed);
	}
}

/* Their ticks would not move what they note */
TEST_F(promote, realtime_threads_move_each_in_its_fault)
{
	struct sched_param param = { .sched_priority = 1 };

	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &param));
	touch_again(self->base, FEW);
	EXPECT_EQ(FEW, pages_on(self->fast, self->base, FEW));
}

TEST_F_TIMEOUT(promote, memory_may_go_while_it_is_noted, 120)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		touch_again(self->base, FEW);
		ASSERT_EQ(0, madvise(self->base, FEW * PAGE, MADV_DONTNEED));
		cpu_run_for(0.01);
		/* New, and whatever was moved, it was not into these */
		ASSERT_EQ(0, words_nonzero(self->base, FEW * PAGE));
		touch_again(self->base + FEW * PAGE, FEW);
		ASSERT_EQ(0, munmap(self->base + FEW * PAGE, FEW * PAGE));
		cpu_run_for(0.01);
		EXPECT_EQ(0, words_wrong(self->base, 2 * FEW * PAGE, (PAGES - 2 * FEW) * PAGE));
		ASSERT_EQ(self->base + FEW * PAGE,
			  mmap(self->base + FEW * PAGE, FEW * PAGE,
			       PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		renew(_metadata, self);
	}
}

TEST_F_TIMEOUT(promote, memory_may_be_shared_while_it_is_noted, 120)
{
	int status;
	pid_t pid;

	for (int i = 0; i < ATTEMPTS; i++) {
		touch_again(self->base, FEW);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(words_wrong(self->base, 0, PAGES * PAGE) != 0);
		self->base[8] = 1;
		self->base[8] = 0;
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		EXPECT_EQ(0, words_wrong(self->base, PAGE, (PAGES - 1) * PAGE));
		renew(_metadata, self);
	}
}

static void *touch_few(void *addr)
{
	touch_again(addr, FEW);
	return NULL;
}

/* A thread, and a process that becomes another program */
TEST_F_TIMEOUT(promote, task_may_end_with_notes, 120)
{
	pthread_t thread;
	int status;
	pid_t pid;

	for (int i = 0; i < ATTEMPTS; i++) {
		ASSERT_EQ(0, pthread_create(&thread, NULL, touch_few,
					    self->base));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			touch_again(self->base + FEW * PAGE, FEW);
			if (i % 2)
				execl("/bin/true", "true", NULL);
			_exit(0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		EXPECT_EQ(0, words_wrong(self->base, 0, PAGES * PAGE));
		renew(_metadata, self);
	}
}

/* Pins move nothing, and are not disturbed: no note holds a page */
TEST_F(promote, pinned_page_stays)
{
	int fd[2];

	ASSERT_TRUE(page_to_pipe(self->base, fd));
	touch_again(self->base, PAGES);
	cpu_run_for(0.05);
	EXPECT_EQ(self->slow, page_node(self->base));
	EXPECT_EQ(0, words_wrong(self->base, 0, PAGES * PAGE));
}

TEST_HARNESS_MAIN
