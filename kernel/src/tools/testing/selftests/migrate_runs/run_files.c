// SPDX-License-Identifier: GPL-2.0-only
/*
 * Large folios of files, and those that are on their way to swap, move with all
 * that is in them and known of them.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "large.h"

#define SIZE	(8 * FOLIO)
#define PAGES	(SIZE / PAGE)

/* A mapping at an address that fits offsets in large folios */
static char *map_file(int fd, size_t size, int flags)
{
	char *hole = mmap(NULL, size + PMD, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *addr = (char *)(((uintptr_t)hole + PMD) & -PMD);

	if (hole == MAP_FAILED)
		return NULL;
	addr = mmap(addr, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
	return addr == MAP_FAILED ? NULL : addr;
}

/* A tmpfs of our own, and a file system or swap in an image on it */
static const char *scratch(const char *set_up)
{
	static char why[128];

	if (unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("scratch", "/mnt", "tmpfs", 0, "huge=never") ||
	    mkdir("/mnt/fs", 0700))
		return "no tmpfs on /mnt";
	if (run("set -e; truncate -s 320M /mnt/image; d=$(losetup -f --show /mnt/image); %s",
		set_up)) {
		snprintf(why, sizeof(why), "fails: %s", set_up);
		return why;
	}
	return NULL;
}

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
	self->addr = map_file(self->fd, SIZE, MAP_SHARED);
	self->again = map_file(self->fd, SIZE, MAP_SHARED);
	ASSERT_NE(NULL, self->addr);
	ASSERT_NE(NULL, self->again);
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
		EXPECT_EQ(0, large_wrong(self->again, at + 6 * PAGE, 7 * PAGE));
	kb_again = smaps_kb(self->again, SIZE, "Rss:");
	pid = fork();
	if (!pid) {
		size_t wrong = 0;

		for (int i = 0; i < 100; i++)
			wrong += large_wrong(self->addr, 0, SIZE);
		_exit(!!wrong);
	}
	for (int i = 1; i < 12; i++) {
		EXPECT_EQ(0, large_move(self->addr, SIZE, i & 1));
		EXPECT_EQ(kb, smaps_kb(self->addr, SIZE, "Rss:"));
		EXPECT_EQ(kb_again, smaps_kb(self->again, SIZE, "Rss:"));
		EXPECT_EQ(0, large_pages_not_whole(self->addr, SIZE));
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, large_wrong(self->again, 0, SIZE));
	/* Both still see the same */
	self->addr[9 * PAGE] ^= 5;
	EXPECT_EQ(self->addr[9 * PAGE], self->again[9 * PAGE]);
}

TEST_F(shared, read_only_in_parts)
{
	ASSERT_EQ(0, mprotect(self->addr + 5 * PAGE, 21 * PAGE, PROT_READ));
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	for (size_t i = 0; i < PAGES; i++) {
		int fd = open("/dev/zero", O_RDONLY);

		EXPECT_EQ(i >= 5 && i < 26 ? -1 : 1,
			  read(fd, self->addr + i * PAGE + 8, 1));
		close(fd);
	}
}

TEST_F(shared, statistics)
{
	long before[2];

	for (int i = 0; i < 2; i++) {
		file_write("/proc/sys/vm/stat_refresh", "1");
		before[i] = stat_of("/proc/meminfo", "Mapped:");
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
		why = scratch("modprobe -q xfs; mkfs.xfs -q -b size=1024 $d; mount -t xfs $d /mnt/fs");
	if (why)
		SKIP(return, "%s", why);
	fd = open("/mnt/fs/file", O_RDWR | O_CREAT, 0600);
	ASSERT_GE(fd, 0);
	addr = malloc(SIZE);
	large_fill(addr, 0, SIZE);
	ASSERT_EQ(SIZE, write(fd, addr, SIZE));
	free(addr);
	addr = map_file(fd, SIZE, MAP_SHARED);
	ASSERT_NE(NULL, addr);
	EXPECT_EQ(0, large_wrong(addr, 0, SIZE));
	if (large_pages_not_whole(addr, FOLIO) && kpagecount(addr) != 1)
		SKIP(return, "no large folios");

	EXPECT_EQ(0, large_move(addr, SIZE, 1));
	EXPECT_EQ(0, large_wrong(addr, 0, SIZE));
	ASSERT_EQ(0, msync(addr, SIZE, MS_SYNC));
	/* One page of 16 is written, and only the page tables know */
	for (size_t at = 0; at < SIZE; at += FOLIO)
		addr[at + at / FOLIO * PAGE] ^= 0x55;
	EXPECT_EQ(0, large_move(addr, SIZE, 0));
	ASSERT_EQ(0, munmap(addr, SIZE));
	ASSERT_EQ(0, fsync(fd));
	ASSERT_EQ(0, posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	ASSERT_EQ(0, file_write("/proc/sys/vm/drop_caches", "1"));
	addr = map_file(fd, SIZE, MAP_SHARED);
	for (size_t at = 0; at < SIZE; at += FOLIO)
		addr[at + at / FOLIO * PAGE] ^= 0x55;
	EXPECT_EQ(0, large_wrong(addr, 0, SIZE));
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
		why = scratch("mkswap $d; swapon $d");
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
			EXPECT_EQ(0, large_wrong(addr, at, 3 * PAGE));
		large_move(addr, SIZE, 1);
		EXPECT_EQ(0, large_wrong(addr, 0, SIZE));
		large_move(addr, SIZE, 0);
		EXPECT_EQ(0, large_wrong(addr, 0, SIZE));
		munmap(addr, SIZE);
	}
	EXPECT_GT(in_swap, 0);
	run("swapoff -a; losetup -D");
}

/* --- memory cgroup --- */

#define STAT	"/sys/fs/cgroup/runs/memory.stat"

TEST(cgroup)
{
	const char *why = large_missing();
	const size_t size = 16 * MIB;
	long anon;
	char *addr;

	if (!why && run("mkdir -p /sys/fs/cgroup; mountpoint -q /sys/fs/cgroup || "
			"mount -t cgroup2 none /sys/fs/cgroup; "
			"echo +memory >/sys/fs/cgroup/cgroup.subtree_control; "
			"mkdir -p /sys/fs/cgroup/runs; test -e /sys/fs/cgroup/runs/memory.stat"))
		why = "no memory cgroup";
	if (why)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, file_write("/sys/fs/cgroup/runs/cgroup.procs", "0"));
	addr = large_alloc(size, PMD);
	ASSERT_NE(NULL, addr);
	anon = stat_of(STAT, "anon");
	EXPECT_GE(anon, (long)size);
	for (int node = 1; node < 10; node++)
		EXPECT_EQ(0, large_move(addr, size, node & 1));
	EXPECT_LT(labs(anon - stat_of(STAT, "anon")), MIB);
	munmap(addr, size);
	EXPECT_LT(stat_of(STAT, "anon"), anon - size + MIB);
	file_write("/sys/fs/cgroup/cgroup.procs", "0");
	rmdir("/sys/fs/cgroup/runs");
}

TEST_HARNESS_MAIN
