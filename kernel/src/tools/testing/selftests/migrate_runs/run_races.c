// SPDX-License-Identifier: GPL-2.0-only
/*
 * Large and small folios move again and again while others zap, write, protect,
 * move, copy and unmap them: whatever is in flight then, no byte is lost or
 * comes back, and no page is left over.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "large.h"
#include "race.h"

#define SIZE	(4 * MIB)
#define PAGES	(SIZE / PAGE)
#define SECONDS	3

static long check(struct race *race, size_t page)
{
	return *(volatile uint64_t *)(race->addr + page * PAGE) != word_of(page * PAGE);
}

/* Zapped pages are zero, then written anew */
static void zap(struct race *race, unsigned int *seed)
{
	size_t page = rand_r(seed) % (PAGES - 8), nr = 1 + rand_r(seed) % 8;
	char *at = race->addr + page * PAGE;

	madvise(at, nr * PAGE, MADV_DONTNEED);
	for (size_t i = 0; i < nr; i++)
		race->wrong += *(volatile uint64_t *)(at + i * PAGE) != 0;
	words_fill(race->addr, page * PAGE, nr * PAGE);
}

static void write_again(struct race *race, unsigned int *seed)
{
	volatile uint64_t *word =
		(void *)race->addr + rand_r(seed) % PAGES * PAGE + 64;
	uint64_t value = rand_r(seed);

	*word = value;
	for (int i = 0; i < 1000; i++)
		race->wrong += *word != value;
	*word = word_of((char *)word - race->addr);
}

static void protect(struct race *race, unsigned int *seed)
{
	size_t page = rand_r(seed) % (PAGES - 8);
	char *at = race->addr + page * PAGE;

	mprotect(at, 5 * PAGE, PROT_READ);
	race->wrong += check(race, page);
	mprotect(at, 5 * PAGE, PROT_READ | PROT_WRITE);
	words_fill(race->addr, page * PAGE, 5 * PAGE);
}

static void fork_and_write(struct race *race, unsigned int *seed)
{
	size_t first = rand_r(seed) % PAGES;
	int status, pid = fork();

	if (!pid) {
		usleep(rand_r(seed) % 2000);
		for (size_t i = 0; i < PAGES; i++)
			race->wrong += check(race, i);
		_exit(!!race->wrong);
	}
	/* The child sees none of this */
	for (size_t i = first; i < first + 20 && i < PAGES; i++)
		*(volatile uint64_t *)(race->addr + i * PAGE) = 1;
	waitpid(pid, &status, 0);
	race->wrong += !WIFEXITED(status) || WEXITSTATUS(status);
	for (size_t i = first; i < first + 20 && i < PAGES; i++)
		*(volatile uint64_t *)(race->addr + i * PAGE) = word_of(i * PAGE);
}

/* To another place in the page tables and back */
static void remap(struct race *race, unsigned int *seed)
{
	size_t page = rand_r(seed) % (PAGES - 20);
	char *at = race->addr + page * PAGE, *to;

	to = mremap(at, 20 * PAGE, 20 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (to == MAP_FAILED)
		return;
	race->wrong += *(volatile uint64_t *)to != word_of(page * PAGE);
	race->wrong += mremap(to, 20 * PAGE, 20 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			      at) != at;
	race->wrong += check(race, page + 19);
}

static void unmap(struct race *race, unsigned int *seed)
{
	size_t page = rand_r(seed) % (PAGES - 20);
	char *at = race->addr + page * PAGE;

	munmap(at, 20 * PAGE);
	if (mmap(at, 20 * PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
		abort();
	race->wrong += *(volatile uint64_t *)(at + 7 * PAGE) != 0;
	words_fill(race->addr, page * PAGE, 20 * PAGE);
}

FIXTURE(race)
{
	struct race race;
};

FIXTURE_VARIANT(race)
{
	race_act act;
	bool small;
};

FIXTURE_VARIANT_ADD(race, zap) { .act = zap };
FIXTURE_VARIANT_ADD(race, write) { .act = write_again };
FIXTURE_VARIANT_ADD(race, protect) { .act = protect };
FIXTURE_VARIANT_ADD(race, fork) { .act = fork_and_write };
FIXTURE_VARIANT_ADD(race, remap) { .act = remap };
FIXTURE_VARIANT_ADD(race, unmap) { .act = unmap };
FIXTURE_VARIANT_ADD(race, zap_small) { .act = zap, .small = true };
FIXTURE_VARIANT_ADD(race, write_small) { .act = write_again, .small = true };
FIXTURE_VARIANT_ADD(race, protect_small) { .act = protect, .small = true };
FIXTURE_VARIANT_ADD(race, fork_small) { .act = fork_and_write, .small = true };
FIXTURE_VARIANT_ADD(race, remap_small) { .act = remap, .small = true };
FIXTURE_VARIANT_ADD(race, unmap_small) { .act = unmap, .small = true };

FIXTURE_SETUP(race)
{
	const char *why = large_missing();

	if (why)
		SKIP(return, "%s", why);
	self->race.addr = variant->small ? small_alloc(SIZE, PMD) :
					   large_alloc(SIZE, PMD);
	if (!self->race.addr)
		SKIP(return, "no folios of 64 KiB to be had");
}

FIXTURE_TEARDOWN(race)
{
}

TEST_F(race, no_byte_is_lost)
{
	EXPECT_GT(race_run(&self->race, SIZE, variant->act), 0);
	EXPECT_GT(self->race.rounds, 0);
	EXPECT_EQ(0, self->race.wrong);
	EXPECT_EQ(0, words_wrong(self->race.addr, 0, SIZE));
	munmap(self->race.addr, SIZE);
}

/* What was written must be there the next time, whatever a TLB says */
static void *count_up(void *arg)
{
	struct race *race = arg;
	volatile uint64_t *word = (void *)race->addr;

	for (uint64_t i = *word; !__atomic_load_n(&race->stop, __ATOMIC_RELAXED); i++) {
		race->wrong += *word != i;
		*word = i + 1;
		race->rounds++;
	}
	return NULL;
}

/* While it unmaps memory that it has used, the kernel believes no TLB's flush is done */
static void *flush_again_and_again(void *arg)
{
	struct race *race = arg;

	while (!__atomic_load_n(&race->stop, __ATOMIC_RELAXED)) {
		volatile char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		*page = 1;
		munmap((void *)page, PAGE);
	}
	return NULL;
}

FIXTURE(beside)
{
};

FIXTURE_VARIANT(beside)
{
	int nr_flushers;
};

FIXTURE_VARIANT_ADD(beside, alone) { };
FIXTURE_VARIANT_ADD(beside, while_others_unmap) { .nr_flushers = 2 };

FIXTURE_SETUP(beside)
{
}

FIXTURE_TEARDOWN(beside)
{
}

/* Of pages that move together, one is in a TLB; of the others Linux knows better */
TEST_F(beside, used_beside_inaccessible)
{
	const char *why = large_missing();
	struct race race = {};
	time_t end = time(NULL) + SECONDS;
	long updates;
	pthread_t thread, flushers[2];

	if (!why)
		why = balancing_begin();
	if (why)
		SKIP(return, "%s", why);
	updates = vmstat("numa_pte_updates");
	race.addr = small_alloc(SIZE, PMD);
	ASSERT_EQ(0, pthread_create(&thread, NULL, count_up, &race));
	for (int i = 0; i < variant->nr_flushers; i++)
		ASSERT_EQ(0, pthread_create(&flushers[i], NULL,
					    flush_again_and_again, &race));
	for (int node = 1; time(NULL) < end; node = !node)
		large_move(race.addr, 2 * PAGE, node);
	race.stop = 1;
	pthread_join(thread, NULL);
	for (int i = 0; i < variant->nr_flushers; i++)
		pthread_join(flushers[i], NULL);
	balancing_end();
	EXPECT_GT(race.rounds, 0);
	EXPECT_EQ(0, race.wrong);
	EXPECT_GT(vmstat("numa_pte_updates"), updates);
	munmap(race.addr, SIZE);
}

TEST_HARNESS_MAIN
