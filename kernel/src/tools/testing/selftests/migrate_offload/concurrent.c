// SPDX-License-Identifier: GPL-2.0-only
/*
 * No write is lost, and no old byte comes back, while memory moves under the
 * feet of those who use, copy, unmap and move it themselves.
 *
 * Guards rule 1 (an engine copies only what nobody can write to any more: a
 * copy that starts before the TLB is flushed loses writes here) and rule 5
 * (nothing in the path deadlocks with other users of the folios' locks).
 */
#include "../kselftest_harness.h"

#include <pthread.h>
#include <stdatomic.h>

#include "offload.h"
#include "region.h"

#define NR_WRITERS	2
#define ROUNDS		20
#define MAX_PAGES	(4 * MIB / PAGE)

FIXTURE(busy)
{
	int nodes[2];
	struct region region;
};

FIXTURE_VARIANT(busy)
{
	const char *engine;
	enum backing kind;
	size_t folio;
	size_t size;
	/* The window follows from the target, and the CPU copies, too */
	bool by_default;
};

#define VARIANTS(_engine)						\
FIXTURE_VARIANT_ADD(busy, _engine##_4k) {				\
	.engine = #_engine, .folio = PAGE, .size = 1 * MIB,		\
};									\
FIXTURE_VARIANT_ADD(busy, _engine##_2m) {				\
	.engine = #_engine, .folio = PMD, .size = 4 * MIB,		\
}

VARIANTS(cpu);
VARIANTS(mtcopy);
VARIANTS(dcbm);

/* Whoever isolates one has it on a list of their own */
FIXTURE_VARIANT_ADD(busy, dcbm_hugetlb) {
	.engine = "dcbm", .kind = HUGETLB, .folio = PMD, .size = 4 * MIB,
};

FIXTURE_VARIANT_ADD(busy, by_default_4k) {
	.engine = "dcbm", .folio = PAGE, .size = 1 * MIB, .by_default = true,
};

FIXTURE_VARIANT_ADD(busy, by_default_2m) {
	.engine = "dcbm", .folio = PMD, .size = 4 * MIB, .by_default = true,
};

FIXTURE_SETUP(busy)
{
	const char *why = offload_use_between(self->nodes, variant->engine);

	if (why)
		SKIP(return, "%s", why);
	if (variant->by_default) {
		offload_set("engine_always", "0");
	} else {
		offload_set("window_pages", "128");
		offload_set("chunk_pages", "32");
	}
	why = region_create(&self->region, variant->kind, variant->folio,
			    variant->size, self->nodes[0]);
	if (why) {
		offload_reset();
		SKIP(return, "%s", why);
	}
}

FIXTURE_TEARDOWN_PARENT(busy)
{
	offload_reset();
	/* Nobody holds one any more */
	if (variant->kind == HUGETLB)
		EXPECT_TRUE(hugetlb_reserve(0));
}

/* A thread that does something to a region again and again */
struct worker {
	pthread_t thread;
	struct region *region;
	unsigned int nr;
	int from, to;
	atomic_bool stop;
	atomic_long rounds;
	long wrong;
	uint64_t seen[MAX_PAGES];
};

static struct worker workers[NR_WRITERS + 2];

static void worker_start(struct __test_metadata *_metadata, struct worker *w,
			 void *(*work)(void *), struct region *region)
{
	w->region = region;
	ASSERT_EQ(0, pthread_create(&w->thread, NULL, work, w));
	/* On a busy host all could be over before it has begun */
	while (!w->rounds)
		usleep(1000);
}

static void worker_stop(struct worker *w)
{
	w->stop = true;
	pthread_join(w->thread, NULL);
}

/* --- writers and readers --- */

/* Each writer has one word in each page; it holds the pattern plus a count */
static atomic_ullong *counter(struct worker *w, unsigned int nr, size_t page)
{
	return (void *)w->region->addr + page * PAGE + 64 * nr;
}

static uint64_t counter_start(struct worker *w, unsigned int nr, size_t page)
{
	return region_word(w->region, page * PAGE + 64 * nr);
}

static void *writer(void *arg)
{
	struct worker *w = arg;
	atomic_ullong *word;

	for (; !w->stop; w->rounds++) {
		for (size_t i = 0; i < w->region->size / PAGE; i++) {
			word = counter(w, w->nr, i);
			w->wrong += *word != counter_start(w, w->nr, i) + w->rounds;
			*word = counter_start(w, w->nr, i) + w->rounds + 1;
		}
	}
	return NULL;
}

/* Counts never go backwards */
static void *reader(void *arg)
{
	struct worker *w = arg;
	uint64_t count;

	for (; !w->stop; w->rounds++) {
		for (size_t i = 0; i < w->region->size / PAGE; i++) {
			count = *counter(w, 0, i) - counter_start(w, 0, i);
			w->wrong += count < w->seen[i];
			w->seen[i] = count;
		}
	}
	return NULL;
}

/* The whole process, against the direction of the main thread now and then */
static void *mover(void *arg)
{
	struct worker *w = arg;

	for (; !w->stop; w->rounds++)
		region_move(w->region, MIGRATE_PAGES, w->from, w->to);
	return NULL;
}

/* @from: which of the two nodes */
static void mover_start(struct __test_metadata *_metadata, struct worker *w,
			FIXTURE_DATA(busy) *self, int from)
{
	w->from = self->nodes[from];
	w->to = self->nodes[!from];
	worker_start(_metadata, w, mover, &self->region);
}

static void check_counters(struct __test_metadata *_metadata, struct worker *w)
{
	EXPECT_EQ(0, w->wrong);
	EXPECT_LT(0, w->rounds);
	for (size_t i = 0; i < w->region->size / PAGE; i++) {
		ASSERT_EQ(counter_start(w, w->nr, i) + w->rounds,
			  *counter(w, w->nr, i));
		*counter(w, w->nr, i) = counter_start(w, w->nr, i);
	}
}

TEST_F_TIMEOUT(busy, no_write_is_lost_and_no_old_byte_is_read, 120)
{
	struct worker *read = &workers[NR_WRITERS];
	struct offload_stats before = offload_stats(NULL);

	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		workers[i].nr = i;
		worker_start(_metadata, &workers[i], writer, &self->region);
	}
	worker_start(_metadata, read, reader, &self->region);

	for (int i = 0; i < ROUNDS; i++)
		EXPECT_LE(0, region_move(&self->region, MOVE_PAGES,
					 self->nodes[i % 2], self->nodes[!(i % 2)]));

	for (unsigned int i = 0; i < NR_WRITERS + 1; i++)
		worker_stop(&workers[i]);
	for (unsigned int i = 0; i < NR_WRITERS; i++)
		check_counters(_metadata, &workers[i]);
	EXPECT_EQ(0, read->wrong);
	EXPECT_EQ(0, region_wrong_words(&self->region));
	/* The engine moved most of it, or what it took to see that CPUs are faster */
	EXPECT_GT(offload_stats(&before).bytes, variant->by_default ? 0 :
		  (long)(ROUNDS * variant->size / 4));
}

TEST_F_TIMEOUT(busy, three_tasks_may_move_it_in_both_directions, 120)
{
	struct worker *forth = &workers[1], *back = &workers[2];

	worker_start(_metadata, &workers[0], writer, &self->region);
	mover_start(_metadata, forth, self, 0);
	mover_start(_metadata, back, self, 1);

	for (int i = 0; i < ROUNDS; i++)
		EXPECT_LE(0, region_move(&self->region, MOVE_PAGES,
					 self->nodes[i % 2], self->nodes[!(i % 2)]));

	for (unsigned int i = 0; i < 3; i++)
		worker_stop(&workers[i]);
	check_counters(_metadata, &workers[0]);
	EXPECT_EQ(0, region_wrong_words(&self->region));
	EXPECT_LT(0, forth->rounds);
	EXPECT_LT(0, back->rounds);
	/* And it can still be moved as a whole */
	EXPECT_EQ(0, region_move(&self->region, MOVE_PAGES, self->nodes[0],
				 self->nodes[1]));
}

/* --- fork and copy on write --- */

#define CHILD_MARK	0xc0ffee0000000000ULL
#define PARENT_MARK	0xfee1dead00000000ULL

/* Every second page is one's own */
static void mark_pages(struct region *r, unsigned int first, uint64_t mark)
{
	for (size_t at = first * PAGE; at < r->size; at += 2 * PAGE)
		*(uint64_t *)(r->addr + at) = mark + at;
}

/* Own pages bear the own mark, the others no mark; marks are then removed */
static bool marks_are_right(struct region *r, unsigned int first, uint64_t mark)
{
	uint64_t *word;

	for (size_t at = first * PAGE; at < r->size; at += 2 * PAGE) {
		word = (uint64_t *)(r->addr + at);
		if (*word != mark + at)
			return false;
		*word = region_word(r, at);
	}
	return !region_wrong_words(r);
}

static int child(struct region *r, int go, int node)
{
	char byte;

	mark_pages(r, 0, CHILD_MARK);
	if (read(go, &byte, 1) != 1)
		return 1;
	pages_move(r, node, SHARED);
	return !marks_are_right(r, 0, CHILD_MARK);
}

TEST_F_TIMEOUT(busy, parent_and_child_keep_their_own_bytes, 120)
{
	struct region *r = &self->region;
	int go[2], status;
	pid_t pid;

	ASSERT_EQ(0, pipe(go));
	for (int i = 0; i < ROUNDS / 4; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(child(r, go[0], self->nodes[i % 2]));
		EXPECT_LE(0, pages_move(r, self->nodes[!(i % 2)], SHARED));
		mark_pages(r, 1, PARENT_MARK);
		ASSERT_EQ(1, write(go[1], "", 1));
		EXPECT_LE(0, pages_move(r, self->nodes[i % 2], SHARED));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		EXPECT_TRUE(marks_are_right(r, 1, PARENT_MARK));
	}
}

/* --- unmapping --- */

/* One life of a mapping, while others migrate it */
static size_t live_and_die(size_t size, int node)
{
	struct region r;
	char *moved;
	size_t wrong = 0;

	if (region_create(&r, ANON, 0, size, node))
		return 1;
	wrong += region_wrong_words(&r);

	madvise(r.addr, size / 2, MADV_DONTNEED);
	wrong += words_nonzero(r.addr, size / 2);

	moved = mremap(r.addr + size / 2, size / 2, size / 2,
		       MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (moved == MAP_FAILED)
		return wrong + 1;
	wrong += words_wrong_masked(moved - size / 2, size / 2, size / 2, r.seed);
	munmap(moved, size / 2);
	region_destroy(&r);
	return wrong;
}

TEST_F_TIMEOUT(busy, unmapping_and_remapping_lose_nothing, 120)
{
	struct worker *forth = &workers[1], *back = &workers[2];

	mover_start(_metadata, forth, self, 0);
	mover_start(_metadata, back, self, 1);
	for (int i = 0; i < ROUNDS; i++)
		EXPECT_EQ(0, live_and_die(512 * KIB, self->nodes[i % 2]));
	worker_stop(forth);
	worker_stop(back);
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

TEST_HARNESS_MAIN
