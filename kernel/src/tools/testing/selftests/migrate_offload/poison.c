// SPDX-License-Identifier: GPL-2.0-only
/*
 * A poisoned page fails alone: the kernel survives, nobody is given its bytes,
 * and all other pages move and are right.
 *
 * Guards rule 4. The poison is simulated, so the CPU can still read it; softdma
 * refuses to, as hardware would.
 */
#include "../kselftest_harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "dcbm.h"
#include "offload.h"
#include "region.h"

#define SIZE		(2 * MIB)
#define NR_POISONED	8

FIXTURE(poison)
{
	int nodes[2];
	struct region region;
};

FIXTURE_VARIANT(poison)
{
	const char *engine;
	size_t folio;
};

#define VARIANTS(_engine)						\
FIXTURE_VARIANT_ADD(poison, _engine##_4k) {				\
	.engine = #_engine, .folio = PAGE,				\
};									\
FIXTURE_VARIANT_ADD(poison, _engine##_2m) {				\
	.engine = #_engine, .folio = PMD,				\
}

VARIANTS(cpu);
VARIANTS(mtcopy);
VARIANTS(dcbm);

/*
 * Linux hands out again what an earlier test poisoned if it could not take it
 * away then. Such a region stays allocated until the test ends.
 */
static const char *region_create_clean(struct region *r, size_t folio, int node)
{
	const char *why;

	for (int i = 0; i < 64; i++) {
		why = region_create(r, ANON, folio, SIZE, node);
		if (why || !region_has_poison(r))
			return why;
	}
	return "all memory is poisoned";
}

FIXTURE_SETUP(poison)
{
	const char *why = offload_use_between(self->nodes, variant->engine);

	if (!why && module_load("hwpoison_inject", "") == -ENOENT)
		why = "no module hwpoison-inject";
	if (!why)
		why = region_create_clean(&self->region, variant->folio,
					  self->nodes[0]);
	if (why)
		SKIP(return, "%s", why);
	offload_set("reasons", "syscall_or_cpuset");
}

FIXTURE_TEARDOWN_PARENT(poison)
{
	if (access(OFFLOAD_DIR, F_OK))
		return;
	offload_reset();
}

/* What a program does that can make the contents once more */
static void replace(struct region *r, size_t at)
{
	mmap(r->addr + at, PAGE, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	region_refill(r, at, PAGE);
}

struct task {
	pthread_t thread;
	struct region *region;
	int *nodes;
	int moves;		/* 0: until stop is set */
	atomic_bool stop;
};

static void *mover(void *arg)
{
	struct task *m = arg;

	for (int i = 0; m->moves ? i < m->moves : !m->stop; i++) {
		pages_move(m->region, m->nodes[!(i % 2)], OWN);
		/* Linux takes no page away that is always isolated */
		usleep(1000);
	}
	return NULL;
}

TEST_F_TIMEOUT(poison, pages_that_go_bad_in_a_storm_fail_alone, 60)
{
	struct region *r = &self->region;
	struct task m = { .region = r, .nodes = self->nodes };
	bool poisoned[NR_POISONED];
	int nr_poisoned = 0, error;
	size_t at;

	ASSERT_EQ(0, pthread_create(&m.thread, NULL, mover, &m));
	for (int i = 0; i < NR_POISONED; i++) {
		at = i * SIZE / NR_POISONED;
		usleep(50000);
		error = page_poison(r->addr + at);
		/* Linux gives up if it cannot split a huge page at this moment */
		poisoned[i] = !error;
		nr_poisoned += poisoned[i];
	}
	usleep(50000);
	m.stop = true;
	pthread_join(m.thread, NULL);

	for (int i = 0; i < NR_POISONED; i++) {
		bool can_read;

		at = i * SIZE / NR_POISONED;
		can_read = page_readable(r->addr + at);
		EXPECT_FALSE(poisoned[i] && can_read) {
			TH_LOG("page %d can be read", i);
		}
		if (!can_read)
			replace(r, at);
	}
	EXPECT_LT(0, nr_poisoned);
	EXPECT_EQ(0, region_wrong_words(r));
}

/*
 * The poison comes while the page is with the engine, which is slow. The page
 * is marked at once, and the engine refuses to read it. Linux cannot take it
 * away, as it is isolated, and may still let the CPU copy it.
 */
TEST_F_TIMEOUT(poison, page_that_goes_bad_during_its_copy_fails_alone, 60)
{
	struct region *r = &self->region;
	struct task m = { .region = r, .nodes = self->nodes, .moves = 1 };
	struct offload_stats before = offload_stats(NULL);
	uint64_t frame = page_frame(r->addr);
	long late;
	int ms;

	if (strcmp(variant->engine, "dcbm"))
		SKIP(return, "cannot be made slow");
	late = injected("late");
	softdma_set("late_ms", 2000);
	softdma_set("late_every", 1);
	offload_set("window_pages", "4");
	ASSERT_EQ(0, pthread_create(&m.thread, NULL, mover, &m));
	/* It is unmapped, and its copy has begun */
	for (ms = 0; injected("late") == late && ms < 5000; ms++)
		usleep(1000);
	EXPECT_LT(late, injected("late"));
	/* One is enough: the rest shall not be late */
	softdma_set("late_every", 0);
	hwpoison("corrupt-pfn", frame);
	pthread_join(m.thread, NULL);

	EXPECT_LT(0, offload_stats(&before).fallback_error);
	if (!page_readable(r->addr))
		replace(r, 0);
	EXPECT_EQ(0, region_wrong_words(r));
	/* The other pages are not stuck with it */
	pages_move(r, self->nodes[1], OWN);
	EXPECT_EQ(0, region_pages_off(r, self->nodes[1]));
	EXPECT_EQ(0, region_wrong_words(r));
	hwpoison("unpoison-pfn", frame);
}

TEST_HARNESS_MAIN
