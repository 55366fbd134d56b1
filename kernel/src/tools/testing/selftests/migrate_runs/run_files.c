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
#include "race.h"

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

/* --- tmpfs, mapped as a program's code is: nobody can write to it by what maps it --- */

#define FOLIOS	(SIZE / FOLIO)
#define MAPPED	"/sys/kernel/mm/transparent_hugepage/hugepages-%zukB/stats/migrate_mapped"

/* Folios of all sizes that were copied while they were mapped; -1: this kernel has none */
static long copied_mapped(void)
{
	long sum = -1;
	char path[100];

	for (size_t size = 8 * KIB; size <= PMD; size *= 2) {
		snprintf(path, sizeof(path), MAPPED, size / KIB);
		if (!access(path, R_OK))
			sum = (sum < 0 ? 0 : sum) + file_read_long(path);
	}
	return sum;
}

static char *map_file(int fd, int prot, int flags)
{
	char *addr = mmap(NULL, SIZE, prot, flags, fd, 0);

	return addr == MAP_FAILED ? NULL : addr;
}

FIXTURE(read_only)
{
	struct race race;
	int fd, reader;
	char *addr;
};

FIXTURE_SETUP(read_only)
{
	const char *why = large_missing();
	char path[40], *addr;
	size_t wrong;

	if (!why && copied_mapped() < 0)
		why = "this kernel does not copy folios while they are mapped";
	if (why)
		SKIP(return, "%s", why);
	self->fd = memfd_create("read_only", 0);
	ASSERT_GE(self->fd, 0);
	ASSERT_EQ(0, ftruncate(self->fd, SIZE));
	addr = map_aligned(SIZE, PMD, 0, self->fd);
	if (!large_populate(addr, SIZE, self->fd))
		SKIP(return, "no files in folios of 64 KiB");
	ASSERT_EQ(0, munmap(addr, SIZE));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", self->fd);
	self->reader = open(path, O_RDONLY);
	ASSERT_GE(self->reader, 0);
	self->addr = map_file(self->reader, PROT_READ, MAP_SHARED);
	ASSERT_NE(NULL, self->addr);
	self->race = (struct race){ .addr = self->addr, .fd = self->fd };
	wrong = words_wrong(self->addr, 0, SIZE);
	ASSERT_EQ(0, wrong);
}

FIXTURE_TEARDOWN(read_only)
{
	close(self->reader);
	close(self->fd);
}

TEST_F(read_only, is_copied_while_mapped)
{
	char *copy = map_file(self->fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	long before = copied_mapped();
	int status, pid;

	/* Who writes to a private mapping has a page of its own; the others stay the file's */
	ASSERT_NE(NULL, copy);
	words_fill_masked(copy, 3 * PAGE, PAGE, 1);
	EXPECT_EQ(0, words_wrong(copy, 0, 3 * PAGE));
	pid = fork();
	if (!pid) {
		size_t wrong = 0;

		for (int i = 0; i < 50; i++)
			wrong += words_wrong(self->addr, 0, SIZE);
		_exit(!!wrong);
	}
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	EXPECT_EQ(0, large_move(self->addr, SIZE, 0));
	/* Now and then the child has just one page in its hands */
	EXPECT_GT(copied_mapped() - before, (long)FOLIOS);
	EXPECT_EQ(0, pages_not_in_folios(self->addr, SIZE, FOLIO));
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
	EXPECT_EQ(0, words_wrong_masked(copy, 3 * PAGE, PAGE, 1));
	EXPECT_EQ(0, words_wrong(copy, 4 * PAGE, SIZE - 4 * PAGE));
	EXPECT_FALSE(page_writable(self->addr));
}

TEST_F(read_only, locked_memory_stays_locked)
{
	long before = copied_mapped();

	ASSERT_EQ(0, mlock(self->addr, SIZE));
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	EXPECT_EQ(FOLIOS, copied_mapped() - before);
	EXPECT_EQ(SIZE / KIB, smaps_kb(self->addr, SIZE, "Locked:"));
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

/* Whoever can write needs no fault for it */
TEST_F(read_only, mapped_writable_elsewhere_moves_as_before)
{
	char *writer = map_file(self->fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	long before = copied_mapped();

	ASSERT_NE(NULL, writer);
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	EXPECT_EQ(before, copied_mapped());
	munmap(writer, SIZE);
	EXPECT_EQ(0, large_move(self->addr, SIZE, 0));
	EXPECT_EQ(FOLIOS, copied_mapped() - before);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

/* The pages that a pipe refers to could have been got to be written */
TEST_F(read_only, page_in_a_pipe_is_not_copied_early)
{
	long before = copied_mapped();
	int fds[2];

	ASSERT_TRUE(page_to_pipe(self->addr, fds));
	large_move(self->addr, SIZE, 1);
	EXPECT_EQ(FOLIOS - 1, copied_mapped() - before);
	close(fds[0]);
	close(fds[1]);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

static void write_to_file(struct race *race, unsigned int *seed)
{
	size_t offset = rand_r(seed) % (SIZE / 8) * 8;
	uint64_t value = rand_r(seed), word = word_of(offset);

	race->wrong += pwrite(race->fd, &value, 8, offset) != 8;
	usleep(rand_r(seed) % 1000);
	race->wrong += *(volatile uint64_t *)(race->addr + offset) != value;
	race->wrong += pwrite(race->fd, &word, 8, offset) != 8;
}

/* A mapping that comes while a folio is copied, and goes again */
static void map_and_write(struct race *race, unsigned int *seed)
{
	size_t offset = rand_r(seed) % PAGES * PAGE;
	volatile uint64_t *reader = (void *)(race->addr + offset), *writer;
	uint64_t value = rand_r(seed);

	writer = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, race->fd, offset);
	if (writer == MAP_FAILED)
		abort();
	/* A page that a read maps is writable afterwards */
	race->wrong += *writer != word_of(offset);
	*writer = value;
	usleep(rand_r(seed) % 200);
	race->wrong += *reader != value;
	*writer = word_of(offset);
	munmap((void *)writer, PAGE);
	usleep(rand_r(seed) % 5000);
}

/* Return: how many folios were copied while they were mapped; some, if it can be */
static long race_files(struct race *race, race_act act)
{
	long before = copied_mapped(), copied = 0;

	for (int tries = 0; tries < 10 && !copied; tries++) {
		if (race_run(race, SIZE, act) <= 0)
			return -1;
		copied = copied_mapped() - before;
	}
	return copied;
}

TEST_F(read_only, no_write_to_the_file_is_lost)
{
	EXPECT_GT(race_files(&self->race, write_to_file), 0);
	EXPECT_EQ(0, self->race.wrong);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

TEST_F(read_only, no_write_by_a_new_mapping_is_lost)
{
	EXPECT_GT(race_files(&self->race, map_and_write), 0);
	EXPECT_EQ(0, self->race.wrong);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

/* --- XFS: folios have private data, and go to disk --- */

TEST(on_disk)
{
	const char *why = large_missing();
	long before;
	char *addr;
	int fd, reader;

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
	reader = open("/mnt/fs/file", O_RDONLY);
	addr = map_file(reader, PROT_READ, MAP_SHARED);
	ASSERT_NE(NULL, addr);
	EXPECT_EQ(0, words_wrong(addr, 0, SIZE));
	if (pages_not_in_folios(addr, FOLIO, FOLIO) && kpagecount(addr) != 1)
		SKIP(return, "no large folios");

	/* Who has just written it may have it in a batch for the LRU lists for a while */
	before = copied_mapped();
	for (int i = 1; i < 10 && copied_mapped() == before; i++)
		EXPECT_EQ(0, large_move(addr, SIZE, i & 1));
	EXPECT_TRUE(before < 0 || copied_mapped() > before);
	EXPECT_EQ(0, words_wrong(addr, 0, SIZE));
	ASSERT_EQ(0, munmap(addr, SIZE));
	close(reader);

	addr = map_aligned(SIZE, PMD, 0, fd);
	EXPECT_EQ(0, words_wrong(addr, 0, SIZE));
	EXPECT_EQ(0, large_move(addr, SIZE, 0));
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
