// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory is charged to the right group and node after it has moved, and none
 * is lost: not by faults, not for want of memory, not by SIGKILL.
 *
 * Guards rule 2 (no page is forgotten) and the invariant that a folio is on one
 * list, with the references that it ought to have, whatever becomes of its copy.
 */
#include <limits.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../kselftest_harness.h"

#include "../migrate_common/cgroup.h"
#include "offload.h"
#include "region.h"
#include "storm.h"

#define SIZE		(16 * MIB)
#define NR_KILLS	6
/* Counters per CPU, page tables, and whatever else the kernel is up to */
#define NOISE		((long)(4 * MIB))

static void reset(void)
{
	cgroup_leave();
	if (access(OFFLOAD_DIR, F_OK))
		return;
	offload_reset();
	offload_unload();
}

/* --- charges --- */

FIXTURE(charge)
{
	int nodes[2];
	struct region region;
};

FIXTURE_VARIANT(charge)
{
	const char *engine;
	enum backing backing;
	const char *kind;	/* in memory.numa_stat */
	size_t folio;
};

#define VARIANT(_engine, _name, _backing, _kind, _folio)		\
FIXTURE_VARIANT_ADD(charge, _engine##_##_name) {			\
	.engine = #_engine, .backing = _backing, .kind = _kind,		\
	.folio = _folio,						\
}

#define VARIANTS(engine)						\
	VARIANT(engine, anon_4k, ANON, "anon", PAGE);			\
	VARIANT(engine, anon_2m, ANON, "anon", PMD);			\
	VARIANT(engine, memfd_4k, MEMFD, "shmem", PAGE)

VARIANTS(cpu);
VARIANTS(mtcopy);
VARIANTS(dcbm);

FIXTURE_SETUP(charge)
{
	const char *why = offload_use_between(self->nodes, variant->engine);

	if (!why)
		why = cgroup_enter("memory");
	if (!why)
		why = region_create(&self->region, variant->backing,
				    variant->folio, SIZE, self->nodes[0]);
	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN_PARENT(charge)
{
	reset();
}

/* Statistics of a group may be two seconds old */
static bool becomes(const char *kind, int node, long bytes)
{
	long now;

	for (int ms = 0; ms < 4000; ms += 50) {
		now = cgroup_node_bytes(kind, node);
		if (now >= bytes - NOISE && now <= bytes + NOISE)
			return true;
		usleep(50000);
	}
	return false;
}

TEST_F_TIMEOUT(charge, moves_with_the_memory, 60)
{
	long charged = cgroup_read("memory.current");
	struct region *r = &self->region;
	long guards = r->map_size - SIZE;

	EXPECT_LE((long)SIZE, charged);
	EXPECT_TRUE(becomes(variant->kind, self->nodes[0], guards + SIZE));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, region_move(r, MOVE_PAGES, self->nodes[i % 2],
					 self->nodes[!(i % 2)]));
	}
	EXPECT_TRUE(becomes(variant->kind, self->nodes[0], guards));
	EXPECT_TRUE(becomes(variant->kind, self->nodes[1], SIZE));
	EXPECT_GT(NOISE, labs(cgroup_read("memory.current") - charged));
	EXPECT_EQ(0, region_wrong_words(r));
	region_destroy(r);
	EXPECT_GT(charged - guards - (long)SIZE + NOISE,
		  cgroup_read("memory.current"));
}

/* Neighbours that two groups have paid for: they move together */
#define TURN		(8 * PAGE)

TEST(folios_of_two_groups_are_counted_apart)
{
	const char *why = cgroup_enter("memory");
	void *pages[SIZE / PAGE];
	int nodes[2];
	unsigned long mask;
	char *p;

	if (!nodes_find(nodes))
		why = "one node with memory only";
	if (why)
		SKIP(return, "%s", why);
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mask = 1UL << nodes[0];
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, madvise(p, SIZE, MADV_NOHUGEPAGE));
	ASSERT_EQ(0, syscall(SYS_mbind, p, SIZE, MPOL_BIND, &mask,
			     sizeof(mask) * 8, 0));
	for (size_t at = 0; at < SIZE; at += PAGE) {
		int error = at % TURN ? 0 : at % (2 * TURN) ? cgroup_pause() :
			    cgroup_write("cgroup.procs", "0");

		ASSERT_EQ(0, error);
		p[at] = 1;
		pages[at / PAGE] = p + at;
	}
	EXPECT_TRUE(becomes("anon", nodes[0], SIZE / 2));
	EXPECT_EQ(0, pages_send(pages, SIZE / PAGE, nodes[1], MPOL_MF_MOVE));
	EXPECT_TRUE(becomes("anon", nodes[0], 0));
	EXPECT_TRUE(becomes("anon", nodes[1], SIZE / 2));
	munmap(p, SIZE);
	cgroup_leave();
}

/* --- losses --- */

/* Huge pages that nobody uses take memory at no cost; 0 gives all back */
static void node_take(int node, long bytes)
{
	hugetlb_set(node, bytes / (long)PMD);
}

/* A test that was killed has given nothing back */
static void loss_reset(const int nodes[2])
{
	for (int i = 0; i < 2; i++)
		node_take(nodes[i], 0);
	reset();
}

static long free_bytes(void)
{
	file_write("/proc/sys/vm/drop_caches", "3");
	return free_pages() * (long)PAGE;
}

static long isolated_pages(void)
{
	return vmstat("nr_isolated_anon") +
	       vmstat("nr_isolated_file");
}

/* The kernel frees some of it in the background */
static long lost_bytes(long free_before)
{
	long lost = 0;

	for (int ms = 0; ms < 5000; ms += 100) {
		lost = free_before - free_bytes();
		if (lost < NOISE)
			break;
		usleep(100000);
	}
	return lost;
}

FIXTURE(loss)
{
	int nodes[2];
	long free;
};

FIXTURE_VARIANT(loss)
{
	const char *engine;
	size_t folio;
};

#define LOSS_VARIANTS(_engine)						\
FIXTURE_VARIANT_ADD(loss, _engine##_4k) {				\
	.engine = #_engine, .folio = PAGE,				\
};									\
FIXTURE_VARIANT_ADD(loss, _engine##_2m) {				\
	.engine = #_engine, .folio = PMD,				\
}

LOSS_VARIANTS(mtcopy);
LOSS_VARIANTS(dcbm);

FIXTURE_SETUP(loss)
{
	const char *why = "one node with memory only";

	if (nodes_find(self->nodes)) {
		loss_reset(self->nodes);
		why = strcmp(variant->engine, "dcbm") ?
		      offload_use(variant->engine) :
		      offload_use_dcbm("ring=1024",
				       "queue_depth=1024 max_errors=1000000 timeout_ms=60000");
	}
	if (why)
		SKIP(return, "%s", why);
	if (!strcmp(variant->engine, "dcbm")) {
		softdma_set("read_error_every", 3);
		softdma_set("prep_null_every", 5);
		softdma_set("swap_every", 2);
		softdma_set("late_every", 50);
		softdma_set("late_ms", 5);
	}
	self->free = free_bytes();
}

FIXTURE_TEARDOWN_PARENT(loss)
{
	loss_reset(self->nodes);
}

TEST_F_TIMEOUT(loss, none_by_migrations_and_faults, 60)
{
	struct region r;

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(NULL, region_create(&r, ANON, variant->folio, SIZE,
					      self->nodes[0]));
		for (int j = 0; j < 4; j++)
			region_move(&r, MOVE_PAGES, self->nodes[j % 2],
				    self->nodes[!(j % 2)]);
		EXPECT_EQ(0, region_wrong_words(&r));
		region_destroy(&r);
	}
	EXPECT_GT(NOISE, lost_bytes(self->free));
	EXPECT_EQ(0, isolated_pages());
}

TEST_F_TIMEOUT(loss, none_by_kill_during_migration, 60)
{
	struct storm_move move = {
		.folio = variant->folio, .size = SIZE / 2,
	};
	struct storm *s;

	memcpy(move.nodes, self->nodes, sizeof(move.nodes));
	for (int i = 0; i < NR_KILLS; i++) {
		s = storm_begin();
		storm_add(s, storm_move, &move);
		while (!s->processes[0].rounds)
			usleep(1000);
		usleep(rand() % 30000);
		kill(s->processes[0].pid, SIGKILL);
		/* One mistake: it has died */
		EXPECT_EQ(1, storm_end(s));
	}
	EXPECT_GT(NOISE, lost_bytes(self->free));
	EXPECT_EQ(0, isolated_pages());
}

/* --- want of memory --- */

/*
 * Small pages, too, as long as the node has some to spare: what is in the lists
 * of its CPUs does not count as free, so bound to the node this could be killed
 */
static void *node_take_small(int node, size_t bytes)
{
	unsigned long mask = 1UL << node;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || madvise(p, bytes, MADV_NOHUGEPAGE) ||
	    syscall(SYS_mbind, p, bytes, MPOL_PREFERRED, &mask,
		    sizeof(mask) * 8, 0))
		return NULL;
	return memset(p, 1, bytes);
}

TEST_F_TIMEOUT(loss, none_on_a_node_that_is_full, 120)
{
	struct region r;
	void *rest;
	long left;

	ASSERT_EQ(NULL, region_create(&r, ANON, variant->folio, 8 * SIZE,
				      self->nodes[0]));
	/* What can be reclaimed is no want of memory, and takes its time */
	file_write("/proc/sys/vm/drop_caches", "3");
	/* All that there is first: for it Linux empties the lists of its CPUs */
	node_take(self->nodes[1], LONG_MAX);
	node_take(self->nodes[1], hugetlb_get(self->nodes[1]) * (long)PMD - (long)SIZE);
	/* And most of what is free in pieces too small for a huge page */
	left = node_sum_after(self->nodes[1], "meminfo", "MemFree:") * (long)KIB - 3 * (long)SIZE;
	left = left > (long)PAGE ? left & -PAGE : (long)PAGE;
	rest = node_take_small(self->nodes[1], left);
	ASSERT_NE(NULL, rest);
	/* It cannot all go there; where it stays it is whole */
	region_move(&r, MOVE_PAGES, self->nodes[0], self->nodes[1]);
	EXPECT_LT(0, region_pages_off(&r, self->nodes[1]));
	EXPECT_EQ(0, region_wrong_words(&r));
	EXPECT_EQ(0, isolated_pages());
	munmap(rest, left);
	node_take(self->nodes[1], 0);
	EXPECT_EQ(0, region_move(&r, MOVE_PAGES, self->nodes[0],
				 self->nodes[1]));
	EXPECT_EQ(0, region_wrong_words(&r));
	region_destroy(&r);
	EXPECT_GT(NOISE, lost_bytes(self->free));
}

TEST_HARNESS_MAIN
