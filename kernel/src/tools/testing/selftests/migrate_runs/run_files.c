// SPDX-License-Identifier: GPL-2.0-only
/*
 * Large folios of files, and those that are on their way to swap, move with all
 * that is in them and known of them.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "../migrate_common/cgroup.h"
#include "../migrate_common/scratch.h"
#include "large.h"

#define SIZE	(8 * FOLIO)
#define PAGES	(SIZE / PAGE)

/* --- tmpfs --- */

FIXTURE(shared)
{
	int fd;
	char *addr, *again;
};

FIXTURE_SETUP(shared)
{
	const char *why = large_missing();

	if (why)
		SKIP(return, "%s", why);
	self->fd = memfd_create("shared", 0);
	ASSERT_GE(self->fd, 0);
	ASSERT_EQ(0, ftruncate(self->fd, SIZE));
	self->addr = map_aligned(SIZE, PMD, 0, self->fd);
	self->again = map_aligned(SIZE, PMD, 0, self->fd);
	if (!large_populate(self->addr, SIZE, self->fd))
		SKIP(return, "no files in folios of 64 KiB");
}

FIXTURE_TEARDOWN(shared)
{
	close(self->fd);
}

/* Each mapping and each process has another part of each folio */
TEST_F(shared, mapped_in_parts)
{
	long kb = smaps_kb(self->addr, SIZE, "Rss:"), kb_again;
	int status, pid;

	for (size_t at = 0; at < SIZE; at += FOLIO)
		EXPECT_EQ(0, words_wrong(self->again, at + 6 * PAGE, 7 * PAGE));
	kb_again = smaps_kb(self->again, SIZE, "Rss:");
	pid = fork();
	if (!pid) {
		size_t wrong = 0;

		for (int i = 0; i < 100; i++)
			wrong += words_wrong(self->addr, 0, SIZE);
		_exit(!!wrong);
	}
	for (int i = 1; i < 12; i++) {
		EXPECT_EQ(0, large_move(self->addr, SIZE, i & 1));
		EXPECT_EQ(kb, smaps_kb(self->addr, SIZE, "Rss:"));
		EXPECT_EQ(kb_again, smaps_kb(self->again, SIZE, "Rss:"));
		EXPECT_EQ(0, pages_not_in_folios(self->addr, SIZE, FOLIO));
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, words_wrong(self->again, 0, SIZE));
	/* Both still see the same */
	self->addr[9 * PAGE] ^= 5;
	EXPECT_EQ(self->addr[9 * PAGE], self->again[9 * PAGE]);
}

TEST_F(shared, read_only_in_parts)
{
	ASSERT_EQ(0, mprotect(self->addr + 5 * PAGE, 21 * PAGE, PROT_READ));
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	for (size_t i = 0; i < PAGES; i++)
		EXPECT_EQ(i < 5 || i >= 26, page_writable(self->addr + i * PAGE + 8));
}

TEST_F(shared, statistics)
{
	long before[2];

	for (int i = 0; i < 2; i++) {
		file_write("/proc/sys/vm/stat_refresh", "1");
		before[i] = file_sum_after("/proc/meminfo", "Mapped:");
		if (!i)
			for (int node = 1; node < 20; node++)
				EXPECT_EQ(0, large_move(self->addr, SIZE, node & 1));
	}
	EXPECT_LT(labs(before[1] - before[0]), 200);
}

/* --- XFS: folios have private data, and go to disk --- */

TEST(on_disk)
{
	const char *why = large_missing();
	char *addr;
	int fd;

	if (!why)
		scratch_mount("xfs", "-b size=1024", &why);
	if (why)
		SKIP(return, "%s", why);
	fd = open("/mnt/fs/file", O_RDWR | O_CREAT, 0600);
	ASSERT_GE(fd, 0);
	addr = malloc(SIZE);
	words_fill(addr, 0, SIZE);
	ASSERT_EQ(SIZE, write(fd, addr, SIZE));
	free(addr);
	addr = map_aligned(SIZE, PMD, 0, fd);
	EXPECT_EQ(0, words_wrong(addr, 0, SIZE));
	if (pages_not_in_folios(addr, FOLIO, FOLIO) && kpagecount(addr) != 1)
		SKIP(return, "no large folios");

	EXPECT_EQ(0, large_move(addr, SIZE, 1));
	EXPECT_EQ(0, words_wrong(addr, 0, SIZE));
	ASSERT_EQ(0, msync(addr, SIZE, MS_SYNC));
	/* One page of 16 is written, and only the page tables know */
	for (size_t at = 0; at < SIZE; at += FOLIO)
		addr[at + at / FOLIO * PAGE] ^= 0x55;
	EXPECT_EQ(0, large_move(addr, SIZE, 0));
	ASSERT_EQ(0, munmap(addr, SIZE));
	ASSERT_EQ(0, fsync(fd));
	ASSERT_EQ(0, posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	ASSERT_EQ(0, file_write("/proc/sys/vm/drop_caches", "1"));
	addr = map_aligned(SIZE, PMD, 0, fd);
	for (size_t at = 0; at < SIZE; at += FOLIO)
		addr[at + at / FOLIO * PAGE] ^= 0x55;
	EXPECT_EQ(0, words_wrong(addr, 0, SIZE));
	munmap(addr, SIZE);
	close(fd);
	umount("/mnt/fs");
}

/* --- swap --- */

TEST(swap_cache)
{
	const char *why = large_missing();
	char *addr;
	int in_swap = 0;

	if (!why)
		scratch_mount("tmpfs", "", &why);
	if (!why && run("set -e; truncate -s 320M /mnt/image; "
			"d=$(losetup -f --show /mnt/image); mkswap $d; swapon $d"))
		why = "no swap to be had";
	if (why)
		SKIP(return, "%s", why);
	for (int round = 0; round < 8; round++) {
		addr = large_alloc(SIZE, PMD);
		ASSERT_NE(NULL, addr);
		ASSERT_EQ(0, madvise(addr, SIZE, MADV_PAGEOUT));
		for (size_t i = 0; i < PAGES; i++)
			in_swap += !!(pagemap(addr + i * PAGE) & PM_SWAP);
		/* Some pages come back, others stay where they are */
		for (size_t at = round * PAGE; at < SIZE; at += 3 * FOLIO)
			EXPECT_EQ(0, words_wrong(addr, at, 3 * PAGE));
		large_move(addr, SIZE, 1);
		EXPECT_EQ(0, words_wrong(addr, 0, SIZE));
		large_move(addr, SIZE, 0);
		EXPECT_EQ(0, words_wrong(addr, 0, SIZE));
		munmap(addr, SIZE);
	}
	EXPECT_GT(in_swap, 0);
	run("swapoff -a; losetup -D");
}

/* --- memory cgroup --- */

#define STAT	CGROUP_PATH "/memory.stat"

TEST(cgroup)
{
	const char *why = large_missing();
	const size_t size = 16 * MIB;
	long anon;
	char *addr;

	if (!why)
		why = cgroup_enter("memory");
	if (why)
		SKIP(return, "%s", why);
	addr = large_alloc(size, PMD);
	ASSERT_NE(NULL, addr);
	anon = file_sum_after(STAT, "anon");
	EXPECT_GE(anon, (long)size);
	for (int node = 1; node < 10; node++)
		EXPECT_EQ(0, large_move(addr, size, node & 1));
	EXPECT_LT(labs(anon - file_sum_after(STAT, "anon")), MIB);
	munmap(addr, size);
	EXPECT_LT(file_sum_after(STAT, "anon"), anon - size + MIB);
	cgroup_leave();
}

TEST_HARNESS_MAIN
