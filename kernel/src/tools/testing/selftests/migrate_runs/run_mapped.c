// SPDX-License-Identifier: GPL-2.0-only
/*
 * Large folios, by a PMD, by PTEs, and of hugetlb, are copied while they are mapped:
 * nobody who writes to one meanwhile, in whatever way, loses what was written, and
 * nobody pays for it afterwards.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "large.h"
#include "race.h"

#define SIZE	(8 * MIB)

#define SYSCTL	"/proc/sys/vm/migrate_copy_mapped"

/* What maps them */
enum kind { BY_PTES, BY_PMD, HUGETLB };

/* Of the test that runs */
static enum kind kind;
static size_t folio_size, nr_folios;

/* What Linux counts of folios of this size */
static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), kind == HUGETLB ?
		 "/sys/kernel/mm/hugepages/hugepages-%zukB/%s" :
		 "/sys/kernel/mm/transparent_hugepage/hugepages-%zukB/stats/%s",
		 folio_size / KIB, name);
	return path;
}

static long count_of(const char *name)
{
	return file_read_long(path_of(name));
}

static long mapped(void)
{
	return count_of("migrate_mapped");
}

static long voided(void)
{
	return count_of("migrate_void");
}

static long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static char *alloc(void)
{
	switch (kind) {
	case BY_PTES:
		return large_alloc(SIZE, PMD);
	case BY_PMD:
		return huge_alloc(SIZE);
	default:
		return hugetlb_alloc(SIZE);
	}
}

static void give_back(char *addr)
{
	if (addr)
		munmap(addr, SIZE);
	if (kind == HUGETLB)
		hugetlb_reserve(0);
}

static const char *missing(enum kind wanted)
{
	kind = wanted;
	folio_size = kind == BY_PTES ? FOLIO : PMD;
	nr_folios = SIZE / folio_size;
	if (access(path_of("migrate_mapped"), R_OK))
		return "this kernel does not copy folios while they are mapped";
	return large_missing();
}

/* Are they mapped as they were allocated? */
static bool is_whole(const char *addr)
{
	if (kind == BY_PTES)
		return !pages_not_in_folios(addr, SIZE, FOLIO);
	return smaps_kb(addr, SIZE, kind == BY_PMD ? "AnonHugePages:" :
						     "Private_Hugetlb:") == SIZE / KIB;
}

/* --- one thing at a time --- */

static bool end_of_writes;

FIXTURE(alone)
{
	char *addr;
};

FIXTURE_VARIANT(alone)
{
	enum kind kind;
};

FIXTURE_VARIANT_ADD(alone, 64k) { .kind = BY_PTES };
FIXTURE_VARIANT_ADD(alone, 2m) { .kind = BY_PMD };
FIXTURE_VARIANT_ADD(alone, hugetlb) { .kind = HUGETLB };

FIXTURE_SETUP(alone)
{
	const char *why = missing(variant->kind);

	if (why)
		SKIP(return, "%s", why);
	self->addr = alloc();
	if (!self->addr)
		SKIP(return, "no such folios to be had");
}

FIXTURE_TEARDOWN(alone)
{
	file_write(SYSCTL, "1");
	give_back(self->addr);
}

TEST_F(alone, nobody_pays_afterwards)
{
	long before = mapped(), old_void = voided(), faults;

	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	EXPECT_EQ(nr_folios, mapped() - before);
	EXPECT_EQ(old_void, voided());
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
	EXPECT_TRUE(is_whole(self->addr));
	faults = minor_faults();
	for (size_t i = 0; i < SIZE; i += folio_size)
		*(volatile uint64_t *)(self->addr + i) = word_of(i);
	EXPECT_EQ(faults, minor_faults());
}

TEST_F(alone, setting_is_obeyed)
{
	long before = mapped();

	ASSERT_EQ(0, file_write(SYSCTL, "0"));
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	EXPECT_EQ(before, mapped());
	ASSERT_EQ(0, file_write(SYSCTL, "1"));
	EXPECT_EQ(0, large_move(self->addr, SIZE, 0));
	EXPECT_EQ(nr_folios, mapped() - before);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

TEST_F(alone, read_only_stays_read_only)
{
	long before = mapped();

	ASSERT_EQ(0, mprotect(self->addr, SIZE, PROT_READ));
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	EXPECT_EQ(nr_folios, mapped() - before);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
	EXPECT_FALSE(page_writable(self->addr));
	ASSERT_EQ(0, mprotect(self->addr, SIZE, PROT_READ | PROT_WRITE));
	words_fill(self->addr, 0, SIZE);
}

TEST_F(alone, locked_memory_stays_locked)
{
	long before = mapped();

	if (kind == HUGETLB)
		SKIP(return, "it is locked always");
	ASSERT_EQ(0, mlock(self->addr, SIZE));
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	/* What PTEs map is left to the walk of the reverse mapping */
	EXPECT_EQ(kind == BY_PMD ? nr_folios : 0, mapped() - before);
	EXPECT_EQ(SIZE / KIB, smaps_kb(self->addr, SIZE, "Locked:"));
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

static void *write_all(void *arg)
{
	volatile char *addr = arg;

	while (!__atomic_load_n(&end_of_writes, __ATOMIC_RELAXED))
		for (size_t i = 0; i < SIZE; i += folio_size)
			addr[i] = addr[i];
	return NULL;
}

static long given_up(void)
{
	return count_of("migrate_given_up");
}

TEST_F(alone, what_is_often_written_to_is_unmapped_first)
{
	long before, old_mapped, old_void;
	time_t end = time(NULL) + 10;
	pthread_t thread;
	int node = 0;

	if (kind == HUGETLB)
		SKIP(return, "who writes waits for the folio, and voids no copy");
	before = given_up();
	/* What other tests wrote to is forgotten */
	ASSERT_EQ(0, file_write(SYSCTL, "1"));
	ASSERT_EQ(0, pthread_create(&thread, NULL, write_all, self->addr));
	while (given_up() == before && time(NULL) < end) {
		node = !node;
		large_move(self->addr, SIZE, node);
	}
	__atomic_store_n(&end_of_writes, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	/* The KUnit suite of mm/migrate_mapped.c does not depend on that */
	if (given_up() == before)
		SKIP(return, "a busy machine lets the writer write too seldom");
	old_mapped = mapped();
	old_void = voided();
	EXPECT_EQ(0, large_move(self->addr, SIZE, !node));
	EXPECT_EQ(old_mapped, mapped());
	EXPECT_EQ(old_void, voided());
	/* After a second it is tried again */
	usleep(1500000);
	EXPECT_EQ(0, large_move(self->addr, SIZE, node));
	EXPECT_EQ(nr_folios, mapped() - old_mapped);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

/* What a pipe refers to is read, and may be written by whoever gave it */
TEST_F(alone, page_in_a_pipe_is_not_copied_early)
{
	long before = mapped();
	int fds[2];

	ASSERT_TRUE(page_to_pipe(self->addr, fds));
	large_move(self->addr, SIZE, 1);
	EXPECT_EQ(nr_folios - 1, mapped() - before);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
	close(fds[0]);
	close(fds[1]);
}

TEST_F(alone, shared_after_a_fork_moves_as_before)
{
	long before = mapped();
	int fds[2], pid;
	char byte;

	ASSERT_EQ(0, pipe(fds));
	pid = fork();
	if (!pid) {
		close(fds[1]);
		_exit(read(fds[0], &byte, 1) < 0);
	}
	large_move(self->addr, SIZE, 1);
	EXPECT_EQ(before, mapped());
	close(fds[0]);
	close(fds[1]);
	waitpid(pid, NULL, 0);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

TEST_F(alone, soft_dirty_tells_what_was_written)
{
	if (kind == HUGETLB || !softdirty_supported())
		SKIP(return, "no soft-dirty bits");
	clear_softdirty();
	*(volatile uint64_t *)self->addr = word_of(0);
	large_move(self->addr, SIZE, 1);
	/* Linux says it of some that were not written to as well, when they move */
	EXPECT_TRUE(pagemap(self->addr) & PM_SOFT_DIRTY);
	clear_softdirty();
	*(volatile uint64_t *)(self->addr + folio_size) = word_of(folio_size);
	EXPECT_TRUE(pagemap(self->addr + folio_size) & PM_SOFT_DIRTY);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

TEST_F(alone, write_protection_of_userfaultfd_stays)
{
	long before = mapped();
	int uffd = uffd_open(self->addr, SIZE, UFFDIO_REGISTER_MODE_WP);

	if (uffd < 0 || uffd_wp(uffd, self->addr, SIZE, true))
		SKIP(return, "no write protection by userfaultfd");
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	EXPECT_EQ(nr_folios, mapped() - before);
	for (size_t i = 0; i < SIZE; i += folio_size)
		EXPECT_TRUE(pagemap(self->addr + i) & PM_UFFD_WP);
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
	close(uffd);
}

/* --- beside those who write --- */

static volatile uint64_t *word_at(struct race *race, size_t offset)
{
	return (void *)race->addr + offset;
}

static size_t any_folio(unsigned int *seed)
{
	return rand_r(seed) % nr_folios * folio_size;
}

/* Of the folio at @at */
static size_t any_page(size_t at, unsigned int *seed)
{
	return at + rand_r(seed) % (folio_size / PAGE) * PAGE;
}

static void expect(struct race *race, size_t offset, uint64_t value)
{
	race->wrong += *word_at(race, offset) != value;
}

/* Stays on one word, never entering the kernel: what a TLB has is used for long */
static void stay(struct race *race, unsigned int *seed)
{
	size_t offset = any_folio(seed);
	uint64_t value = *word_at(race, offset);

	for (int i = 0; i < 200000; i++) {
		expect(race, offset, value);
		*word_at(race, offset) = ++value;
	}
	*word_at(race, offset) = word_of(offset);
}

/* One write now and then: most copies are good, and some are not */
static void write_rarely(struct race *race, unsigned int *seed)
{
	size_t offset = rand_r(seed) % (SIZE / 64) * 64;
	uint64_t value = rand_r(seed);

	*word_at(race, offset) = value;
	usleep(rand_r(seed) % 3000);
	expect(race, offset, value);
	*word_at(race, offset) = word_of(offset);
}

/*
 * Nothing is read in between, so the page table alone tells. With a pause, or all
 * folios are written to during each copy
 */
static void add(struct race *race, unsigned int *seed)
{
	size_t offset = rand_r(seed) % (SIZE / PAGE) * PAGE;

	for (int i = 0; i < 10000; i++)
		__atomic_fetch_add((uint64_t *)word_at(race, offset), 1, __ATOMIC_SEQ_CST);
	usleep(rand_r(seed) % 10000);
	expect(race, offset, word_of(offset) + 10000);
	__atomic_fetch_sub((uint64_t *)word_at(race, offset), 10000, __ATOMIC_SEQ_CST);
}

static void protect(struct race *race, unsigned int *seed)
{
	size_t at = any_folio(seed), offset = any_page(at, seed);
	uint64_t value = rand_r(seed);

	mprotect(race->addr + at, folio_size, PROT_READ);
	expect(race, offset, word_of(offset));
	mprotect(race->addr + at, folio_size, PROT_READ | PROT_WRITE);
	*word_at(race, offset) = value;
	mprotect(race->addr + at, folio_size, PROT_READ);
	expect(race, offset, value);
	mprotect(race->addr + at, folio_size, PROT_READ | PROT_WRITE);
	*word_at(race, offset) = word_of(offset);
}

/* By the kernel, into memory that its owner may only read */
static void force(struct race *race, unsigned int *seed)
{
	size_t at = any_folio(seed), offset = any_page(at, seed);
	uint64_t value = rand_r(seed), old = word_of(offset);
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	mprotect(race->addr + at, folio_size, PROT_READ);
	if (pwrite(fd, &value, 8, (uintptr_t)race->addr + offset) != 8)
		race->wrong++;
	expect(race, offset, value);
	usleep(rand_r(seed) % 2000);
	expect(race, offset, value);
	if (pwrite(fd, &old, 8, (uintptr_t)race->addr + offset) != 8)
		race->wrong++;
	mprotect(race->addr + at, folio_size, PROT_READ | PROT_WRITE);
	close(fd);
}

static void write_remotely(struct race *race, unsigned int *seed)
{
	size_t offset = rand_r(seed) % (SIZE / PAGE) * PAGE;
	uint64_t value = rand_r(seed);
	struct iovec from = { &value, 8 }, to = { race->addr + offset, 8 };

	if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != 8)
		race->wrong++;
	usleep(rand_r(seed) % 2000);
	expect(race, offset, value);
	value = word_of(offset);
	if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != 8)
		race->wrong++;
}

static int map_flags(void)
{
	return MAP_PRIVATE | MAP_ANONYMOUS | (kind == HUGETLB ? MAP_HUGETLB : 0);
}

/* Huge folios again, also where a page table of small ones was left */
static void renew(struct race *race, size_t offset, size_t size)
{
	char *addr = race->addr + offset;

	if (mmap(addr, size, PROT_READ | PROT_WRITE, map_flags() | MAP_FIXED, -1, 0) != addr)
		abort();
	madvise(addr, size, MADV_HUGEPAGE);
	words_fill(race->addr, offset, size);
}

static void zap(struct race *race, unsigned int *seed)
{
	size_t at = any_folio(seed);

	madvise(race->addr + at, folio_size, MADV_DONTNEED);
	expect(race, at + 5 * PAGE, 0);
	renew(race, at, folio_size);
	usleep(rand_r(seed) % 20000);
}

/* Free until it is written to: each word is either as it was, or zero */
static void free_lazily(struct race *race, unsigned int *seed)
{
	size_t at = any_folio(seed), offset = at + 7 * PAGE;
	uint64_t value = rand_r(seed) | 1;

	madvise(race->addr + at, folio_size, MADV_FREE);
	*word_at(race, offset) = value;
	usleep(rand_r(seed) % 2000);
	expect(race, offset, value);
	renew(race, at, folio_size);
	usleep(rand_r(seed) % 20000);
}

static void remap(struct race *race, unsigned int *seed)
{
	size_t at = any_folio(seed), offset = any_page(at, seed);
	uint64_t value = rand_r(seed);
	char *room = mmap(NULL, 2 * folio_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *to = (char *)(((uintptr_t)room + folio_size - 1) & -folio_size);

	if (mremap(race->addr + at, folio_size, folio_size, MREMAP_MAYMOVE | MREMAP_FIXED,
		   to) != to)
		abort();
	*(volatile uint64_t *)(to + offset - at) = value;
	if (mremap(to, folio_size, folio_size, MREMAP_MAYMOVE | MREMAP_FIXED,
		   race->addr + at) != race->addr + at)
		abort();
	expect(race, offset, value);
	*word_at(race, offset) = word_of(offset);
	munmap(room, 2 * folio_size);
	usleep(rand_r(seed) % 2000);
}

static void fork_and_write(struct race *race, unsigned int *seed)
{
	size_t offset = rand_r(seed) % (SIZE / PAGE) * PAGE;
	uint64_t value = rand_r(seed);
	int status, pid = fork();

	if (!pid) {
		usleep(rand_r(seed) % 2000);
		_exit(*word_at(race, offset) != word_of(offset));
	}
	*word_at(race, offset) = value;
	waitpid(pid, &status, 0);
	race->wrong += !WIFEXITED(status) || WEXITSTATUS(status);
	expect(race, offset, value);
	/* The fork has broken one folio up, and no other is exclusive */
	renew(race, 0, SIZE);
	usleep(rand_r(seed) % 20000);
}

/* Write protection by userfaultfd goes while the folio is copied: no fault tells */
static void watch(struct race *race, unsigned int *seed)
{
	size_t at = any_folio(seed), offset = any_page(at, seed);
	uint64_t value = rand_r(seed);
	char *addr = race->addr + at;

	if (!race->fd)
		race->fd = uffd_open(race->addr, SIZE, UFFDIO_REGISTER_MODE_WP);
	race->wrong += uffd_wp(race->fd, addr, folio_size, true) != 0;
	usleep(rand_r(seed) % 1000);
	race->wrong += uffd_wp(race->fd, addr, folio_size, false) != 0;
	*word_at(race, offset) = value;
	race->wrong += uffd_wp(race->fd, addr, folio_size, true) != 0;
	expect(race, offset, value);
	race->wrong += uffd_wp(race->fd, addr, folio_size, false) != 0;
	*word_at(race, offset) = word_of(offset);
}

/* NUMA balancing makes entries inaccessible, and writable again without a fault */
static void be_hinted(struct race *race, unsigned int *seed)
{
	if (!race->rounds)
		race->wrong += !!balancing_begin();
	write_rarely(race, seed);
}

FIXTURE(race)
{
	struct race race;
	bool took_thp;
};

FIXTURE_VARIANT(race)
{
	race_act act;
	enum kind kind;
};

#define RACE_OF_THP(name, _act) \
FIXTURE_VARIANT_ADD(race, name##_64k) { .act = _act, .kind = BY_PTES }; \
FIXTURE_VARIANT_ADD(race, name##_2m) { .act = _act, .kind = BY_PMD }

#define RACE(name, _act) \
RACE_OF_THP(name, _act); \
FIXTURE_VARIANT_ADD(race, name##_hugetlb) { .act = _act, .kind = HUGETLB }

RACE(stay, stay);
RACE(write_rarely, write_rarely);
RACE(add, add);
RACE(protect, protect);
RACE_OF_THP(force, force);
RACE(write_remotely, write_remotely);
RACE(zap, zap);
RACE_OF_THP(free_lazily, free_lazily);
RACE(remap, remap);
RACE(fork, fork_and_write);
RACE(watch, watch);
RACE_OF_THP(be_hinted, be_hinted);

static bool race_begin(struct race *race)
{
	race->addr = alloc();
	if (!race->addr)
		return false;
	/* So are those that are faulted in anew */
	madvise(race->addr, SIZE, MADV_HUGEPAGE);
	return true;
}

/*
 * Where the other node has no free block for such a folio the first move splits all of
 * them, and none is copied while mapped any more.
 */
static bool race_begin_again(struct race *race)
{
	/* Clean pages of files may stand in the way of all blocks */
	file_write("/proc/sys/vm/drop_caches", "1");
	file_write("/proc/sys/vm/compact_memory", "1");
	if (race->fd)
		close(race->fd);
	race->fd = 0;
	give_back(race->addr);
	return race_begin(race);
}

FIXTURE_SETUP(race)
{
	const char *why = missing(variant->kind);

	if (why)
		SKIP(return, "%s", why);
	if (!race_begin(&self->race))
		SKIP(return, "no such folios to be had");
	if (kind == BY_PTES)
		self->took_thp = thp_take(FOLIO, false);
}

FIXTURE_TEARDOWN(race)
{
	if (self->took_thp)
		thp_give_back();
	if (variant->act == be_hinted)
		balancing_end();
	give_back(self->race.addr);
}

TEST_F_TIMEOUT(race, no_write_is_lost, 120)
{
	long before = mapped(), old_void = voided();
	time_t until = time(NULL) + 80;

	/* A slow machine may not come to copy one that nobody writes to */
	EXPECT_GT(race_run(&self->race, SIZE, variant->act), 0);
	while (mapped() == before && time(NULL) < until) {
		ASSERT_TRUE(race_begin_again(&self->race));
		EXPECT_GT(race_run(&self->race, SIZE, variant->act), 0);
	}
	TH_LOG("%ld rounds, %ld folios copied while mapped, %ld copies void",
	       self->race.rounds, mapped() - before, voided() - old_void);
	EXPECT_GT(self->race.rounds, 0);
	EXPECT_GT(mapped() - before, 0);
	EXPECT_EQ(0, self->race.wrong);
	EXPECT_EQ(0, words_wrong(self->race.addr, 0, SIZE));
}

/* Or the races that follow would have no folio that a PMD maps */
TEST(settings_survive_an_allocation)
{
	char *addr = map_aligned(SIZE, PMD, 0, -1), *large;
	const char *why = missing(BY_PMD);

	if (why)
		SKIP(return, "%s", why);
	if (!thp_take(FOLIO, false))
		SKIP(return, "no such folios to be had");
	large = large_alloc(SIZE, PMD);
	thp_give_back();
	renew(&(struct race){ .addr = addr }, 0, SIZE);
	EXPECT_TRUE(is_whole(addr));
	munmap(large, SIZE);
	munmap(addr, SIZE);
}

TEST_HARNESS_MAIN
