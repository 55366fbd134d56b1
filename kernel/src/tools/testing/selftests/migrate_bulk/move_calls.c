// SPDX-License-Identifier: GPL-2.0-only
/*
 * move_pages(2), mbind(2) and migrate_pages(2) do and say what their manuals
 * say, whatever the addresses: in any order, on any node, not mapped, busy,
 * twice the same. Nothing here depends on how the kernel does it, but for the
 * three cases that say "in turns", and one that counts how often it begins.
 */
#include "../kselftest_harness.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE		4096UL
#define PMD		(512 * PAGE)
#define UNTOUCHED	12345	/* in a status: nothing was stored */
#define MANY		1500	/* more than any piece that is handled at once */
#define WIDE		(32 * 512L)	/* pages in more tables than one turn of mbind(2) */

struct calls {
	int nodes[2];
	long nr;
	char *base;		/* pages on nodes[0] */
	void **pages;
	int *to;
	int *status;
};

static long read_long(const char *path, const char *key)
{
	char text[1 << 16];
	int fd = open(path, O_RDONLY);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *at = text;

	if (fd >= 0)
		close(fd);
	if (len <= 0)
		return -1;
	text[len] = 0;
	if (key)
		at = strstr(text, key);
	return at ? atol(at + (key ? strlen(key) : 0)) : -1;
}

static bool nodes_find(int nodes[2])
{
	char path[64];
	int nr = 0;

	for (int node = 0; node < 64 && nr < 2; node++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/meminfo", node);
		if (read_long(path, "MemTotal:") > 0)
			nodes[nr++] = node;
	}
	return nr == 2;
}

static void bind_new_memory(int node)
{
	unsigned long mask = node < 0 ? 0 : 1UL << node;

	syscall(SYS_set_mempolicy, node < 0 ? MPOL_DEFAULT : MPOL_BIND,
		node < 0 ? NULL : &mask, node < 0 ? 0 : 64);
}

static uint64_t word(long page)
{
	return (page + 1) * 0x9e3779b97f4a7c15ULL;
}

static void touch(char *addr, long first, long nr, int node)
{
	bind_new_memory(node);
	for (long i = first; i < first + nr; i++)
		for (size_t at = 0; at < PAGE; at += 8)
			*(uint64_t *)(addr + i * PAGE + at) = word(i);
	bind_new_memory(-1);
}

static long wrong_pages(const char *addr, long first, long nr)
{
	long wrong = 0;

	for (long i = first; i < first + nr; i++)
		for (size_t at = 0; at < PAGE; at += 8)
			if (*(uint64_t *)(addr + i * PAGE + at) != word(i)) {
				wrong++;
				break;
			}
	return wrong;
}

static char *map(size_t size)
{
	char *hole = mmap(NULL, size + PMD, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *addr = (char *)(((uintptr_t)hole + PMD - 1) & -PMD);

	if (hole == MAP_FAILED)
		ksft_exit_fail_msg("mmap: %s\n", strerror(errno));
	madvise(addr, size, MADV_NOHUGEPAGE);
	return addr;
}

static int node_of(const void *addr)
{
	int node = -EINVAL;

	if (syscall(SYS_move_pages, 0, 1UL, &addr, NULL, &node, 0))
		return -errno;
	return node;
}

/* How many pages of the first @nr addresses are not where they were sent */
static long astray(const struct calls *c, long first, long nr)
{
	long count = 0;

	for (long i = first; i < first + nr; i++)
		count += node_of(c->pages[i]) != c->to[i];
	return count;
}

/* How many of these pages are not on this node, or do not say this error */
static long pages_not_on(int node, const char *addr, long first, long nr)
{
	long count = 0;

	for (long i = first; i < first + nr; i++)
		count += node_of(addr + i * PAGE) != node;
	return count;
}

static long move_some(struct calls *c, long nr, int flags)
{
	long err = syscall(SYS_move_pages, 0, nr, c->pages, c->to, c->status,
			   flags);

	return err < 0 ? -errno : err;
}

/* All pages of the memory to the other node, in order */
static void calls_reset(struct calls *c)
{
	for (long i = 0; i < c->nr; i++) {
		c->pages[i] = c->base + i * PAGE;
		c->to[i] = c->nodes[1];
		c->status[i] = UNTOUCHED;
	}
}

FIXTURE(calls)
{
	struct calls c;
};

FIXTURE_SETUP(calls)
{
	struct calls *c = &self->c;

	if (geteuid())
		SKIP(return, "needs root");
	if (!nodes_find(c->nodes))
		SKIP(return, "one node with memory only");
	c->nr = MANY;
	c->base = map(c->nr * PAGE);
	c->pages = calloc(c->nr, sizeof(*c->pages));
	c->to = calloc(c->nr, sizeof(*c->to));
	c->status = calloc(c->nr, sizeof(*c->status));
	touch(c->base, 0, c->nr, c->nodes[0]);
	calls_reset(c);
}

FIXTURE_TEARDOWN(calls)
{
}

static long statuses_not(const int *status, long first, long nr, int wanted)
{
	long count = 0;

	for (long i = first; i < first + nr; i++)
		count += status[i] != wanted;
	return count;
}

TEST_F(calls, every_page_arrives_and_says_so)
{
	struct calls *c = &self->c;

	ASSERT_EQ(0, move_some(c, c->nr, MPOL_MF_MOVE));
	EXPECT_EQ(0, statuses_not(c->status, 0, c->nr, c->nodes[1]));
	EXPECT_EQ(0, astray(c, 0, c->nr));
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
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
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
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
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
}

enum kind {
	PRESENT, THERE, NEVER_TOUCHED, ZERO_PAGE, NO_VMA, SHARED, KERNEL, KINDS,
};

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
		c->pages[i] = c->base + i * PAGE;
		if (kind[i] == NO_VMA)
			c->pages[i] = gone + i % 512 * PAGE;
		if (kind[i] == KERNEL)
			c->pages[i] = (void *)-PMD;
		if (kind[i] == THERE)
			c->to[i] = c->nodes[0];
		if (kind[i] == NEVER_TOUCHED)
			madvise(c->pages[i], PAGE, MADV_DONTNEED);
		if (kind[i] == ZERO_PAGE) {
			madvise(c->pages[i], PAGE, MADV_DONTNEED);
			(void)*(volatile char *)c->pages[i];
		}
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
		int wanted = kind[i] == PRESENT ? c->nodes[1] :
			     kind[i] == THERE ? c->nodes[0] :
			     kind[i] == NEVER_TOUCHED ? -ENOENT :
			     kind[i] == SHARED ? -EACCES : -EFAULT;

		ASSERT_EQ(wanted, c->status[i]) {
			TH_LOG("address %ld of kind %d", i, kind[i]);
		}
		if (kind[i] == PRESENT || kind[i] == SHARED) {
			ASSERT_EQ(c->nodes[kind[i] == PRESENT],
				  node_of(c->pages[i]));
			ASSERT_EQ(0, wrong_pages(c->base, i, 1));
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
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
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
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
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
	EXPECT_EQ(0, wrong_pages(huge, 0, 3 * pages));
}

/* What comes before a wrong node or address is done, nothing after it */
static void check_cut(struct __test_metadata *_metadata, struct calls *c,
		      long cut)
{
	EXPECT_EQ(0, statuses_not(c->status, 0, cut, c->nodes[1]));
	EXPECT_EQ(0, statuses_not(c->status, cut, c->nr - cut, UNTOUCHED));
	EXPECT_EQ(0, astray(c, 0, cut));
	EXPECT_EQ(c->nodes[0], node_of(c->base + cut * PAGE));
	EXPECT_EQ(c->nodes[0], node_of(c->base + (c->nr - 1) * PAGE));
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
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
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
}

/* A page that is in a pipe has a reference that nothing can explain */
static void pin(struct __test_metadata *_metadata, char *addr, int pipe_fd[2])
{
	struct iovec iov = { .iov_base = addr, .iov_len = PAGE };

	ASSERT_EQ(0, pipe(pipe_fd));
	ASSERT_EQ(PAGE, vmsplice(pipe_fd[1], &iov, 1, 0));
}

TEST_F(calls, a_pinned_page_stays)
{
	struct calls *c = &self->c;
	long nr = 100, pinned = 50;
	int fd[2];

	pin(_metadata, c->pages[pinned], fd);
	ASSERT_EQ(1, move_some(c, nr, MPOL_MF_MOVE));
	/* A status that is there is true */
	for (long i = 0; i < nr; i++)
		if (c->status[i] != UNTOUCHED)
			ASSERT_EQ(c->status[i], node_of(c->pages[i]));
	EXPECT_EQ(c->nodes[0], node_of(c->pages[pinned]));
	EXPECT_EQ(UNTOUCHED, c->status[pinned]);
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));

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
	pin(_metadata, c->pages[pinned], fd);
	left = move_some(c, nr, MPOL_MF_MOVE);
	ASSERT_LE(1, left);
	ASSERT_GE(nr, left);
	for (long i = 0; i < nr; i++) {
		if (c->status[i] == UNTOUCHED)
			continue;
		ASSERT_EQ(c->to[i], c->status[i]);
		ASSERT_EQ(c->to[i], node_of(c->pages[i]));
		moved++;
	}
	EXPECT_LE(moved, nr - left);
	EXPECT_EQ(UNTOUCHED, c->status[pinned]);
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
}

static bool run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

struct toucher {
	struct calls *c;
	long first, nr;
	bool ran;
};

static void *touch_elsewhere(void *arg)
{
	struct toucher *t = arg;

	t->ran = run_on(1);
	if (t->ran)
		touch(t->c->base, t->first, t->nr, t->c->nodes[0]);
	return NULL;
}

/* Another CPU has just made some pages: they are in its LRU cache */
static bool renew_elsewhere(struct calls *c, long first, long nr)
{
	struct toucher t = { .c = c, .first = first, .nr = nr };
	pthread_t thread;

	run_on(0);
	madvise(c->base + first * PAGE, nr * PAGE, MADV_DONTNEED);
	pthread_create(&thread, NULL, touch_elsewhere, &t);
	pthread_join(thread, NULL);
	return t.ran;
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

static long mbind_at(char *addr, long nr, int node)
{
	unsigned long mask = 1UL << node;

	return syscall(SYS_mbind, addr, nr * PAGE, MPOL_BIND, &mask, 64UL,
		       MPOL_MF_MOVE | MPOL_MF_STRICT) ? -errno : 0;
}

static long mbind_to(struct calls *c, long first, long nr, int node)
{
	return mbind_at(c->base + first * PAGE, nr, node);
}

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
		ASSERT_EQ(c->nodes[0], node_of(c->base));
	}
	pin(_metadata, c->base + 10 * PAGE, fd);
	EXPECT_EQ(-EIO, mbind_to(c, 0, c->nr, c->nodes[1]));
	EXPECT_EQ(c->nodes[1], bound_to(c->base));
	EXPECT_EQ(c->nodes[1], bound_to(c->base + (c->nr - 1) * PAGE));
	EXPECT_EQ(c->nodes[0], node_of(c->base + 10 * PAGE));
	EXPECT_EQ(0, astray(c, 11, c->nr - 11));
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
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
		EXPECT_EQ(c->nodes[0], node_of(c->base + i * PAGE));
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
	pin(_metadata, wide, fd[0]);
	pin(_metadata, wide + pinned * every * PAGE, fd[1]);
	ASSERT_EQ(-EIO, mbind_at(wide, WIDE, c->nodes[1]));
	for (long i = 0; i < nr; i++) {
		bool stays = !i || i == pinned;

		ASSERT_EQ(c->nodes[!stays], node_of(wide + i * every * PAGE));
		ASSERT_EQ(0, wrong_pages(wide, i * every, 1));
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
		first[i] = node_of(wide + i * PAGE);
	}
	ASSERT_NE(first[0], first[1]);
	ASSERT_EQ(0, mbind_at(wide, WIDE, c->nodes[1]));
	ASSERT_EQ(c->nodes[1], node_of(wide));
	ASSERT_EQ(c->nodes[1], node_of(wide + PAGE));
	ASSERT_EQ(0, syscall(SYS_mbind, wide, WIDE * PAGE, MPOL_DEFAULT, NULL,
			     0UL, MPOL_MF_MOVE));
	EXPECT_EQ(-1, bound_to(wide));
	for (long i = 0; i < WIDE; i++)
		others += first[i] != node_of(wide + i * PAGE);
	EXPECT_EQ(0, others);
	bind_new_memory(-1);
	free(first);
}

/* Touch memory until this node has no more without reclaim */
static void fill_node(int node)
{
	unsigned long mask = 1UL << node;
	char path[64], *memory;
	long nr;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo",
		 node);
	nr = read_long(path, "MemFree:") * 1024 / PAGE;
	memory = map(nr * PAGE);
	syscall(SYS_set_mempolicy, MPOL_PREFERRED, &mask, 64UL);
	for (long i = 0; i < nr; i++) {
		memory[i * PAGE] = 1;
		if (i % 64 == 63 && node_of(memory + i * PAGE) != node)
			break;
	}
	bind_new_memory(-1);
}

static long times_reclaimed(void)
{
	static const char * const zones[] = {
		"allocstall_dma32 ", "allocstall_normal ", "allocstall_movable ",
	};
	long times = 0, found;

	for (int i = 0; i < 3; i++) {
		found = read_long("/proc/vmstat", zones[i]);
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
	EXPECT_EQ(0, wrong_pages(wide, 0, WIDE));
}

/* What another thread does to the memory that is bound, and what it has seen */
struct meanwhile {
	struct calls *c;
	char *wide;
	bool stop;
	bool in_time;
	long most;
};

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
	pthread_t thread;

	run_on(0);
	for (int turn = 0; turn < 4; turn++) {
		m.wide = map(WIDE * PAGE);
		for (long i = 0; i < WIDE; i += 2)
			touch(m.wide, i, 1, c->nodes[0]);
		ASSERT_EQ(0, pthread_create(&thread, NULL, fault_odd_pages, &m));
		/* Now most, now few of them are there before */
		while (node_of(m.wide + (WIDE - 1 - turn * 2000) * PAGE) < 0)
			sched_yield();
		EXPECT_EQ(0, mbind_at(m.wide, WIDE, c->nodes[1]));
		pthread_join(thread, NULL);
		EXPECT_EQ(0, pages_not_on(c->nodes[1], m.wide, 0, WIDE));
		EXPECT_EQ(0, wrong_pages(m.wide, 0, WIDE));
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
	m->in_time = node_of(m->wide + WIDE / 2 * PAGE) == nodes[0];
	return NULL;
}

/* What was mapped anew, or given another policy, before a turn came to it */
TEST_F_TIMEOUT(calls, mbind_in_turns_leaves_alone_what_others_have_bound, 120)
{
	struct calls *c = &self->c;
	struct meanwhile m = { .c = c };
	pthread_t thread;

	if (!run_on(1))
		SKIP(return, "one CPU only");
	run_on(0);
	for (int turn = 0; turn < 10 && !m.in_time; turn++) {
		m.wide = map(WIDE * PAGE);
		m.stop = false;
		touch(m.wide, 0, WIDE, c->nodes[0]);
		ASSERT_EQ(0, pthread_create(&thread, NULL, change_its_end, &m));
		EXPECT_EQ(0, mbind_at(m.wide, WIDE, c->nodes[1]));
		__atomic_store_n(&m.stop, true, __ATOMIC_RELAXED);
		pthread_join(thread, NULL);
		if (m.in_time) {
			EXPECT_EQ(0, pages_not_on(c->nodes[1], m.wide, 0,
						  GONE));
			EXPECT_EQ(0, pages_not_on(-EFAULT, m.wide, GONE,
						  RENEWED - GONE));
			EXPECT_EQ(0, pages_not_on(c->nodes[0], m.wide, RENEWED,
						  REBOUND - RENEWED));
			EXPECT_EQ(0, pages_not_on(c->nodes[0], m.wide, REBOUND,
						  WIDE - REBOUND));
			EXPECT_EQ(0, wrong_pages(m.wide, 0, GONE));
			EXPECT_EQ(0, wrong_pages(m.wide, RENEWED,
						 WIDE - RENEWED));
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
		isolated = read_long("/proc/vmstat", "nr_isolated_anon ");
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
	pthread_t thread;

	if (!run_on(1))
		SKIP(return, "one CPU only");
	run_on(0);
	m.wide = map(WIDE * PAGE);
	touch(m.wide, 0, WIDE, c->nodes[0]);
	ASSERT_EQ(0, pthread_create(&thread, NULL, watch_isolated, &m));
	for (int turn = 1; turn < 11; turn++)
		EXPECT_EQ(0, mbind_at(m.wide, WIDE, c->nodes[turn % 2]));
	__atomic_store_n(&m.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	TH_LOG("at most %ld of %ld pages were isolated at once", m.most, WIDE);
	EXPECT_LT(0, m.most);
	EXPECT_GT(WIDE / 2, m.most);
	EXPECT_EQ(0, wrong_pages(m.wide, 0, WIDE));
}

static long migrate_all(pid_t pid, int from, int to)
{
	unsigned long old = 1UL << from, new = 1UL << to;
	long left = syscall(SYS_migrate_pages, pid, 64UL, &old, &new);

	return left < 0 ? -errno : left;
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
		ASSERT_EQ(c->nodes[1], node_of(wide + i * every * PAGE));
		ASSERT_EQ(0, wrong_pages(wide, i * every, 1));
	}
	EXPECT_EQ(0, astray(c, 0, c->nr));
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
}

TEST_F(calls, migrate_pages_counts_a_pinned_page)
{
	struct calls *c = &self->c;
	int fd[2];

	pin(_metadata, c->base + 700 * PAGE, fd);
	EXPECT_LE(1, migrate_all(0, c->nodes[0], c->nodes[1]));
	EXPECT_EQ(c->nodes[0], node_of(c->base + 700 * PAGE));
	EXPECT_EQ(0, astray(c, 0, 700));
	EXPECT_EQ(0, astray(c, 701, c->nr - 701));
}

static long counter(const char *key)
{
	int fd = open("/proc/sys/vm/stat_refresh", O_WRONLY);

	if (fd >= 0) {
		(void)!write(fd, "1", 1);
		close(fd);
	}
	return read_long("/proc/vmstat", key);
}

/* Pages that are free, in the CPUs' own lists or elsewhere */
static long free_pages(void)
{
	long sum = counter("nr_free_pages "), count;
	FILE *file = fopen("/proc/zoneinfo", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " count: %ld", &count) == 1)
			sum += count;
	if (file)
		fclose(file);
	return sum;
}

/* Forth and back, busy pages among them: counters are as before */
TEST_F(calls, nothing_stays_isolated_or_allocated)
{
	struct calls *c = &self->c;
	long isolated = counter("nr_isolated_anon "), free = 0, lost;
	int fd[2];

	pin(_metadata, c->base + 600 * PAGE, fd);
	c->pages[700] = c->pages[699];
	for (int turn = 0; turn < 24; turn++) {
		if (turn == 4)
			free = free_pages();
		for (long i = 0; i < c->nr; i++)
			c->to[i] = c->nodes[!(turn % 2)];
		ASSERT_LE(0, move_some(c, c->nr, MPOL_MF_MOVE));
	}
	lost = free - free_pages();
	EXPECT_EQ(isolated, counter("nr_isolated_anon "));
	EXPECT_GT(2 * MANY, lost);
	EXPECT_EQ(0, wrong_pages(c->base, 0, c->nr));
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
	long locked = counter("nr_mlock ");

	ASSERT_EQ(0, mlock(c->base, 200 * PAGE));
	ASSERT_EQ(locked + 200, counter("nr_mlock "));
	for (int turn = 0; turn < 4; turn++) {
		for (long i = 0; i < c->nr; i++)
			c->to[i] = c->nodes[!(turn % 2)];
		ASSERT_EQ(0, move_some(c, c->nr, MPOL_MF_MOVE));
		ASSERT_EQ(0, statuses_not(c->status, 0, c->nr, c->to[0]));
		ASSERT_EQ(locked + 200, counter("nr_mlock "));
	}
	ASSERT_EQ(0, munlock(c->base, 200 * PAGE));
	EXPECT_EQ(locked, counter("nr_mlock "));
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
	long isolated = counter("nr_isolated_anon "), free = 0, lost;
	pthread_t thread;

	run_on(0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, zap, &z));
	for (int turn = 0; turn < 60; turn++) {
		if (turn == 20)
			free = free_pages();
		for (long i = 0; i < c->nr; i++)
			c->to[i] = c->nodes[!(turn % 2)];
		ASSERT_LE(0, move_some(c, c->nr, MPOL_MF_MOVE));
		ASSERT_EQ(0, wrong_pages(c->base, 0, 50));
	}
	__atomic_store_n(&z.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	lost = free - free_pages();
	EXPECT_GT(2 * MANY, lost);
	EXPECT_EQ(isolated, counter("nr_isolated_anon "));
}

static bool write_long(const char *path, long value)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%ld", value);
	int fd = open(path, O_WRONLY);
	bool written = fd >= 0 && write(fd, text, len) == len;

	if (fd >= 0)
		close(fd);
	return written;
}

static bool huge_pages_reserve(const int nodes[2], long nr)
{
	char path[96];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages",
			 nodes[i]);
		if (!write_long(path, nr) || read_long(path, NULL) != nr)
			return false;
	}
	return true;
}

/* More of them than are gone through at once */
TEST_F(calls, mbind_moves_hugetlb_pages)
{
	struct calls *c = &self->c;
	long pages = PMD / PAGE, nr = 20;
	char *huge;

	if (!huge_pages_reserve(c->nodes, nr))
		SKIP(return, "no huge pages");
	bind_new_memory(c->nodes[0]);
	huge = mmap(NULL, nr * PMD, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)huge);
	touch(huge, 0, nr * pages, c->nodes[0]);
	ASSERT_EQ(0, mbind_at(huge, nr * pages, c->nodes[1]));
	for (long i = 0; i < nr; i++)
		EXPECT_EQ(c->nodes[1], node_of(huge + i * PMD));
	EXPECT_EQ(0, wrong_pages(huge, 0, nr * pages));
	munmap(huge, nr * PMD);
	EXPECT_TRUE(huge_pages_reserve(c->nodes, 0));
}

#define TRACING		"/sys/kernel/tracing/"
#define CALL_BEGINS	"mm_migrate_pages_start"

/* How often the kernel is to migrate a list from here on */
static bool calls_begin_to_count(void)
{
	mount("tracefs", TRACING, "tracefs", 0, NULL);
	return write_long(TRACING "set_event_pid", getpid()) &&
	       write_long(TRACING "events/migrate/" CALL_BEGINS "/enable", 1);
}

/* How often it was */
static long calls_counted(void)
{
	FILE *trace = fopen(TRACING "trace", "re");
	char line[512];
	long nr = 0;

	write_long(TRACING "events/migrate/" CALL_BEGINS "/enable", 0);
	while (trace && fgets(line, sizeof(line), trace))
		nr += !!strstr(line, CALL_BEGINS);
	if (trace)
		fclose(trace);
	/* To open it for writing empties it */
	trace = fopen(TRACING "trace", "we");
	if (trace)
		fclose(trace);
	return nr;
}

/* Those that are there already are no reason to move the others one by one */
TEST_F_TIMEOUT(calls, every_other_hugetlb_page_is_there, 120)
{
	struct calls *c = &self->c;
	long pages = PMD / PAGE, nr = 16;
	char *huge;

	if (!huge_pages_reserve(c->nodes, nr))
		SKIP(return, "no huge pages");
	huge = mmap(NULL, nr * PMD, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)huge);
	for (long i = 0; i < nr; i++) {
		touch(huge, i * pages, pages, c->nodes[i % 2]);
		c->pages[i] = huge + i * PMD;
	}
	if (!calls_begin_to_count())
		SKIP(return, "no tracing");
	ASSERT_EQ(0, move_some(c, nr, MPOL_MF_MOVE));
	EXPECT_EQ(1, calls_counted());
	EXPECT_EQ(0, statuses_not(c->status, 0, nr, c->nodes[1]));
	EXPECT_EQ(0, astray(c, 0, nr));
	EXPECT_EQ(0, wrong_pages(huge, 0, nr * pages));
	munmap(huge, nr * PMD);
	EXPECT_TRUE(huge_pages_reserve(c->nodes, 0));
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
	while (node_of(wide) != c->nodes[1])
		sched_yield();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	moved = node_of(wide + (WIDE - 1) * PAGE) == c->nodes[1];
	munmap(wide, WIDE * PAGE);
	return moved;
}

/* A victim of the OOM killer frees nothing while it moves what it has */
TEST_F_TIMEOUT(calls, a_killed_call_ends_in_turns, 120)
{
	struct calls *c = &self->c;

	if (!run_on(1))
		SKIP(return, "one CPU only");
	run_on(0);
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

	if (!huge_pages_reserve(c->nodes, 2))
		SKIP(return, "no huge pages");
	bind_new_memory(c->nodes[0]);
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
	EXPECT_EQ(0, wrong_pages(rival.huge, 0, PMD / PAGE));
	EXPECT_EQ(0, wrong_pages(c->base, 1, c->nr - 1));
	munmap(rival.huge, PMD);
	EXPECT_TRUE(huge_pages_reserve(c->nodes, 0));
}

TEST_HARNESS_MAIN
