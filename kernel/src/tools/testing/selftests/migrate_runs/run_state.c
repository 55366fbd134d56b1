// SPDX-License-Identifier: GPL-2.0-only
/*
 * Large folios keep all that page tables say of their pages when they move:
 * what is written, shared, protected, watched or young, page by page. And small
 * folios do, which may be moved together.
 *
 * None of this depends on how the kernel does it. But Linux 6.12 without runs
 * fails there_and_back: a folio that was once moved is believed to be partly
 * mapped, and is split when it moves again.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "large.h"

#define SIZE	(8 * FOLIO)
#define PAGES	(SIZE / PAGE)

FIXTURE(folios)
{
	char *addr;
};

FIXTURE_VARIANT(folios)
{
	bool small;
};

FIXTURE_VARIANT_ADD(folios, large) { .small = false };
FIXTURE_VARIANT_ADD(folios, small) { .small = true };

FIXTURE_SETUP(folios)
{
	const char *why = large_missing();

	if (why)
		SKIP(return, "%s", why);
	self->addr = variant->small ? small_alloc(SIZE, PMD) :
				      large_alloc(SIZE, PMD);
	if (!self->addr)
		SKIP(return, "no folios of 64 KiB to be had");
}

FIXTURE_TEARDOWN(folios)
{
	if (self->addr)
		munmap(self->addr, SIZE);
}

#define EXPECT_MOVES(_node)						\
	EXPECT_EQ(0, large_move(self->addr, SIZE, _node))
#define EXPECT_CONTENTS()						\
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE))

TEST_F(folios, there_and_back)
{
	for (int node = 1; node >= 0; node--) {
		EXPECT_MOVES(node);
		EXPECT_CONTENTS();
		if (!variant->small)
			EXPECT_EQ(0, pages_not_in_folios(self->addr, SIZE, FOLIO));
		for (size_t i = 0; i < PAGES; i++)
			ASSERT_EQ(1, kpagecount(self->addr + i * PAGE));
	}
}

TEST_F(folios, writable_or_not)
{
	/* 5 of 16 pages; then they are writable again, but for the PTE */
	for (size_t at = 3 * PAGE; at < SIZE; at += FOLIO)
		ASSERT_EQ(0, mprotect(self->addr + at, 5 * PAGE, PROT_READ));
	ASSERT_EQ(0, mprotect(self->addr, FOLIO, PROT_READ | PROT_WRITE));
	EXPECT_MOVES(1);
	EXPECT_CONTENTS();
	for (size_t i = 0; i < PAGES; i++)
		EXPECT_EQ(i < NR || i % NR < 3 || i % NR >= 8,
			  page_writable(self->addr + i * PAGE));
}

/* Half of each folio is shared with a child, all in one VMA */
static int fork_half(char *addr, int *to_child, int *from_child)
{
	int ask[2], answer[2];
	char c;
	int pid;

	if (pipe(ask) || pipe(answer))
		return -1;
	for (size_t at = 0; at < SIZE; at += FOLIO)
		madvise(addr + at, FOLIO / 2, MADV_DONTFORK);
	pid = fork();
	if (!pid) {
		size_t wrong = 0;

		close(ask[1]);
		if (read(ask[0], &c, 1) == 1)
			for (size_t at = 0; at < SIZE; at += FOLIO)
				wrong += words_wrong(addr, at + FOLIO / 2, FOLIO / 2);
		c = wrong ? 'w' : 'r';
		if (write(answer[1], &c, 1) != 1)
			c = 'e';
		_exit(0);
	}
	for (size_t at = 0; at < SIZE; at += FOLIO)
		madvise(addr + at, FOLIO / 2, MADV_DOFORK);
	*to_child = ask[1];
	*from_child = answer[0];
	close(answer[1]);
	return pid;
}

static void check_exclusive(struct __test_metadata *_metadata,
			    FIXTURE_DATA(folios) *self, int prot)
{
	uint64_t frames[PAGES];
	int to_child, from_child, pid;
	char c = 0;

	pid = fork_half(self->addr, &to_child, &from_child);
	ASSERT_GT(pid, 0);
	ASSERT_EQ(0, mprotect(self->addr, SIZE, prot));
	EXPECT_MOVES(1);
	EXPECT_CONTENTS();
	ASSERT_EQ(0, mprotect(self->addr, SIZE, PROT_READ | PROT_WRITE));
	for (size_t i = 0; i < PAGES; i++) {
		frames[i] = page_frame(self->addr + i * PAGE);
		EXPECT_EQ(i % NR < NR / 2 ? 1 : 2, kpagecount(self->addr + i * PAGE));
	}
	/* Own pages are written in place, shared ones are copied */
	for (size_t i = 0; i < PAGES; i++) {
		self->addr[i * PAGE] ^= 1;
		EXPECT_EQ(i % NR < NR / 2,
			  frames[i] == page_frame(self->addr + i * PAGE));
	}
	ASSERT_EQ(1, write(to_child, "", 1));
	ASSERT_EQ(1, read(from_child, &c, 1));
	EXPECT_EQ('r', c);
	waitpid(pid, NULL, 0);
}

TEST_F(folios, exclusive_or_not)
{
	check_exclusive(_metadata, self, PROT_READ | PROT_WRITE);
}

/* Now the PTEs of both kinds are alike */
TEST_F(folios, exclusive_or_not_and_read_only)
{
	check_exclusive(_metadata, self, PROT_READ);
}

TEST_F(folios, young)
{
	size_t kb = 0;

	/* Linux asks there how many bits a migration entry has */
	if (access("/proc/swaps", F_OK))
		SKIP(return, "without swap Linux forgets which pages are young");
	ASSERT_EQ(0, file_write("/proc/self/clear_refs", "1"));
	/* For the flush: else the CPU needs not look at the PTEs again */
	ASSERT_EQ(0, mprotect(self->addr, SIZE, PROT_READ));
	ASSERT_EQ(0, mprotect(self->addr, SIZE, PROT_READ | PROT_WRITE));
	for (size_t i = 0; i < PAGES; i += 1 + i % 3, kb += 4)
		*(volatile char *)(self->addr + i * PAGE);
	if (smaps_kb(self->addr, SIZE, "Referenced:") != kb)
		SKIP(return, "the kernel does not say which pages are young");
	EXPECT_MOVES(1);
	EXPECT_EQ(kb, smaps_kb(self->addr, SIZE, "Referenced:"));
}

/* One page of each folio is written after the program has said it needs none */
TEST_F(folios, dirty)
{
	ASSERT_EQ(0, madvise(self->addr, SIZE, MADV_FREE));
	for (size_t at = 0; at < SIZE; at += FOLIO)
		words_fill(self->addr, at + at / FOLIO * PAGE, PAGE);
	EXPECT_MOVES(1);
	madvise(self->addr, SIZE, MADV_PAGEOUT);
	for (size_t at = 0; at < SIZE; at += FOLIO)
		EXPECT_EQ(0, words_wrong(self->addr, at + at / FOLIO * PAGE, PAGE));
}

TEST_F(folios, soft_dirty)
{
	if (!softdirty_supported())
		SKIP(return, "no soft-dirty");
	clear_softdirty();
	ASSERT_FALSE(pagemap(self->addr) & PM_SOFT_DIRTY);
	for (size_t i = 0; i < PAGES; i += 1 + i % 4)
		*(volatile char *)(self->addr + i * PAGE) ^= 0;
	ASSERT_TRUE(pagemap(self->addr) & PM_SOFT_DIRTY);
	EXPECT_MOVES(1);
	for (size_t i = 0, next = 0; i < PAGES; i++) {
		EXPECT_EQ(i == next, !!(pagemap(self->addr + i * PAGE) & PM_SOFT_DIRTY));
		if (i == next)
			next += 1 + i % 4;
	}
	EXPECT_CONTENTS();
}

TEST_F(folios, uffd_wp)
{
	int fd = uffd_open(self->addr, SIZE, UFFDIO_REGISTER_MODE_WP);

	if (fd < 0)
		SKIP(return, "no write protection by userfaultfd");
	for (size_t at = 5 * PAGE; at < SIZE; at += FOLIO)
		ASSERT_EQ(0, uffd_wp(fd, self->addr + at, 4 * PAGE, true));
	for (int node = 1; node >= 0; node--) {
		EXPECT_MOVES(node);
		EXPECT_CONTENTS();
		for (size_t i = 0; i < PAGES; i++)
			EXPECT_EQ(i % NR >= 5 && i % NR < 9,
				  !!(pagemap(self->addr + i * PAGE) & PM_UFFD_WP));
	}
	ASSERT_EQ(0, uffd_wp(fd, self->addr, SIZE, false));
	for (size_t i = 0; i < PAGES; i++)
		EXPECT_TRUE(page_writable(self->addr + i * PAGE));
	close(fd);
}

/* The child executes what it may not. Linux logs the end of who has no handler. */
static void end_child(int signal)
{
	(void)signal;
	_exit(1);
}

/* The instruction that returns */
static const unsigned char ret[] = {
#if defined(__x86_64__)
	0xc3
#elif defined(__aarch64__)
	0xc0, 0x03, 0x5f, 0xd6
#endif
};

/* The second part of a folio is in a VMA of its own, and can be executed */
TEST_F(folios, end_of_vma)
{
	size_t from = 5 * PAGE;
	int status, pid;

	if (!sizeof(ret))
		SKIP(return, "not known how to return on this architecture");
	for (size_t i = 0; i < PAGES; i++) {
		char *at = self->addr + i * PAGE;

		memcpy(at, ret, sizeof(ret));
		__builtin___clear_cache(at, at + sizeof(ret));
	}
	ASSERT_EQ(0, mprotect(self->addr + from, SIZE - from,
			      PROT_READ | PROT_WRITE | PROT_EXEC));
	EXPECT_MOVES(1);
	for (size_t i = 0; i < PAGES; i++) {
		pid = fork();
		if (!pid) {
			signal(SIGSEGV, end_child);
			((void (*)(void))(self->addr + i * PAGE))();
			_exit(0);
		}
		waitpid(pid, &status, 0);
		ASSERT_TRUE(WIFEXITED(status));
		EXPECT_EQ(i >= from / PAGE, !WEXITSTATUS(status));
	}
}

/* Folios that lie across the end of a page table, and of a VMA */
TEST_F(folios, end_of_table)
{
	char *hole = mmap(NULL, 4 * PMD, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *to = (char *)(((uintptr_t)hole + PMD) & -PMD) + PMD - 3 * FOLIO - 5 * PAGE;

	ASSERT_NE(MAP_FAILED, hole);
	ASSERT_EQ(to, mremap(self->addr, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	self->addr = to;
	for (int node = 1; node >= 0; node--) {
		EXPECT_MOVES(node);
		EXPECT_CONTENTS();
	}
	ASSERT_EQ(0, munmap(to + SIZE - 7 * PAGE, 7 * PAGE));
	EXPECT_EQ(0, large_move(to, SIZE - 7 * PAGE, 1));
	EXPECT_EQ(0, words_wrong(to, 0, SIZE - 7 * PAGE));
}

TEST_F(folios, partly_mapped)
{
	for (size_t at = 0; at < SIZE; at += FOLIO) {
		ASSERT_EQ(0, madvise(self->addr + at + 3 * PAGE, 2 * PAGE,
				     MADV_DONTNEED));
		ASSERT_EQ(0, madvise(self->addr + at + 15 * PAGE, PAGE,
				     MADV_DONTNEED));
		/* Not of this folio */
		words_fill(self->addr, at + 4 * PAGE, PAGE);
	}
	EXPECT_MOVES(1);
	for (size_t i = 0; i < PAGES; i++) {
		bool gone = i % NR == 3 || i % NR == 15;

		EXPECT_EQ(!gone, !!(pagemap(self->addr + i * PAGE) & PM_PRESENT));
		EXPECT_EQ(gone ? 0 : word_of(i * PAGE),
			  *(uint64_t *)(self->addr + i * PAGE));
	}
}

/* Pages of one folio in places that have nothing to do with their order */
TEST_F(folios, shuffled)
{
	char *to = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, to);
	for (size_t i = 0; i < PAGES; i++)
		ASSERT_NE(MAP_FAILED,
			  mremap(self->addr + i * PAGE, PAGE, PAGE,
				 MREMAP_MAYMOVE | MREMAP_FIXED,
				 to + (i ^ 3) * PAGE));
	EXPECT_EQ(0, large_move(to, SIZE, 1));
	for (size_t i = 0; i < PAGES; i++)
		EXPECT_EQ(word_of(i * PAGE), *(uint64_t *)(to + (i ^ 3) * PAGE));
	munmap(to, SIZE);
}

/* Each CPU puts off to unlock pages, and to add its part of a statistic */
static void settle(void)
{
	file_write("/proc/sys/vm/drop_caches", "1");
	file_write("/proc/sys/vm/stat_refresh", "1");
}

static long locked_kb(void)
{
	settle();
	return file_sum_after("/proc/meminfo", "Mlocked:");
}

TEST_F(folios, locked)
{
	long before = locked_kb();

	ASSERT_EQ(0, mlock(self->addr, SIZE));
	for (int node = 1; node >= 0; node--) {
		EXPECT_MOVES(node);
		EXPECT_CONTENTS();
		EXPECT_EQ(SIZE / KIB, smaps_kb(self->addr, SIZE, "Rss:"));
		EXPECT_EQ(SIZE / KIB, smaps_kb(self->addr, SIZE, "Locked:"));
	}
	munmap(self->addr, SIZE);
	self->addr = NULL;
	EXPECT_EQ(before, locked_kb());
}

/* Whom the kernel has pinned for I/O stays, and nothing of it is lost */
TEST_F(folios, pinned)
{
	struct io_uring_params params = {};
	struct iovec buffer = { self->addr + 2 * PAGE, PAGE };
	uint64_t before[NR];
	int fd = syscall(SYS_io_uring_setup, 1, &params);

	if (fd < 0 || syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS,
			      &buffer, 1))
		SKIP(return, "no buffers of io_uring");
	for (size_t i = 0; i < NR; i++)
		before[i] = pagemap(self->addr + i * PAGE);
	large_move(self->addr, SIZE, 1);
	for (size_t i = 0; i < NR; i++) {
		if (variant->small && i != 2)
			continue;
		EXPECT_EQ(before[i], pagemap(self->addr + i * PAGE));
		EXPECT_TRUE(page_writable(self->addr + i * PAGE));
		EXPECT_EQ(PAGEMAP_PFN(before[i]), page_frame(self->addr + i * PAGE));
	}
	words_fill(self->addr, 0, FOLIO);
	EXPECT_CONTENTS();
	close(fd);
	for (int i = 0; i < 50 && large_move(self->addr, SIZE, 1); i++)
		usleep(100000);
	EXPECT_MOVES(1);
	EXPECT_CONTENTS();
}

TEST_F(folios, merged)
{
	size_t half = SIZE / 2;
	int i;

	memset(self->addr + half, 7, half);
	if (file_write("/sys/kernel/mm/ksm/pages_to_scan", "10000") ||
	    file_write("/sys/kernel/mm/ksm/sleep_millisecs", "1") ||
	    madvise(self->addr, SIZE, MADV_MERGEABLE) ||
	    file_write("/sys/kernel/mm/ksm/run", "1"))
		SKIP(return, "no KSM");
	for (i = 0; i < 100 && kpagecount(self->addr + half) < 2; i++)
		usleep(50000);
	file_write("/sys/kernel/mm/ksm/run", "0");
	EXPECT_GT(kpagecount(self->addr + half), 1);
	for (int node = 1; node >= 0; node--) {
		large_move(self->addr, SIZE, node);
		EXPECT_EQ(0, words_wrong(self->addr, 0, half));
		for (size_t at = half; at < SIZE; at++)
			ASSERT_EQ(7, self->addr[at]);
	}
	file_write("/sys/kernel/mm/ksm/run", "2");
}

/* 64 MiB, so that what others do meanwhile is little beside it */
FIXTURE(nodes)
{
};

FIXTURE_SETUP(nodes)
{
}

FIXTURE_TEARDOWN(nodes)
{
}

TEST_F_TIMEOUT(nodes, statistics, 120)
{
	const char *why = large_missing();
	const size_t size = 64 * MIB, pages = size / PAGE;
	long at_first[2], there[2];
	char *addr;

	if (why)
		SKIP(return, "%s", why);
	addr = large_alloc(size, PMD);
	if (!addr)
		SKIP(return, "no folios of 64 KiB to be had");
	settle();
	for (int node = 0; node < 2; node++)
		at_first[node] = node_sum_after(node, "vmstat", "nr_anon_pages");
	EXPECT_EQ(0, large_move(addr, size, 1));
	settle();
	for (int node = 0; node < 2; node++)
		there[node] = node_sum_after(node, "vmstat", "nr_anon_pages");
	EXPECT_LT(labs(at_first[0] - there[0] - (long)pages), 200);
	EXPECT_LT(labs(there[1] - at_first[1] - (long)pages), 200);
	munmap(addr, size);
	settle();
	EXPECT_LT(labs(there[1] - node_sum_after(1, "vmstat", "nr_anon_pages") - (long)pages), 200);
}

TEST_HARNESS_MAIN
