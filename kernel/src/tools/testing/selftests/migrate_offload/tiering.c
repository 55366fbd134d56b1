// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim hands over what it demotes in batches that keep an engine busy, and so does
 * NUMA balancing with large folios that it promotes. Without an engine reclaim
 * isolates as few folios at once as ever, and each large folio is promoted alone.
 */
#include "../kselftest_harness.h"

#include <sys/mman.h>

#include "../migrate_common/cgroup.h"
#include "../migrate_common/events.h"
#include "offload.h"
#include "region.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define LRU_GEN		"/sys/kernel/mm/lru_gen/enabled"
/* What Linux isolates at once: MIN_LRU_BATCH, or SWAP_CLUSTER_MAX, which is less */
#define FEW		64
/* Less than the 16th part of a node's inactive pages, 1024 with those of the region */
#define SIZE		(64 * MIB)
#define MANY		128

FIXTURE(demotion)
{
	int nodes[2];
	struct region region;
};

FIXTURE_VARIANT(demotion)
{
	const char *lru_gen;
};

FIXTURE_VARIANT_ADD(demotion, of_active_and_inactive_lists) {
	.lru_gen = "n",
};

FIXTURE_VARIANT_ADD(demotion, of_generations) {
	.lru_gen = "y",
};

FIXTURE_SETUP(demotion)
{
	const char *why = NULL;

	if (!nodes_find(self->nodes))
		SKIP(return, "one node with memory only");
	if (!nodes_have_tiers())
		SKIP(return, "all nodes are equally fast");
	if (file_write(LRU_GEN, variant->lru_gen) && *variant->lru_gen == 'y')
		SKIP(return, "no multi-gen LRU");
	why = cgroup_enter("memory") ?: offload_use("dcbm");
	if (!why)
		why = region_create(&self->region, ANON, PAGE, SIZE,
				    self->nodes[0]);
	if (why)
		SKIP(return, "%s", why);
	EXPECT_EQ(0, madvise(self->region.addr, SIZE, MADV_COLD));
	ASSERT_EQ(0, file_write(DEMOTION, "1"));
	ASSERT_TRUE(events_start("migrate/mm_migrate_pages", false));
}

FIXTURE_TEARDOWN_PARENT(demotion)
{
	events_stop();
	file_write(DEMOTION, "0");
	file_write(LRU_GEN, "n");
	cgroup_leave();
	if (!access(OFFLOAD_DIR, F_OK))
		offload_reset();
}

/* Demote so much: the most pages that one call of migrate_pages() has moved */
static long demote(struct __test_metadata *_metadata,
		   FIXTURE_DATA(demotion) *self, const char *amount)
{
	/* -EAGAIN if it comes to less */
	cgroup_write("memory.reclaim", amount);
	EXPECT_LT(0, region_pages_off(&self->region, self->nodes[0]));
	EXPECT_EQ(0, region_wrong_words(&self->region));
	return events_max("reason=demotion", "nr_succeeded=");
}

TEST_F(demotion, hands_many_pages_to_an_engine)
{
	struct offload_stats before = offload_stats(NULL), grew;

	EXPECT_LE(MANY, demote(_metadata, self, "48M"));
	grew = offload_stats(&before);
	EXPECT_LT(0, grew.calls);
}

TEST_F(demotion, hands_over_few_pages_without_an_engine)
{
	offload_set("active", "none");
	EXPECT_GE(FEW, demote(_metadata, self, "48M"));
}

TEST_F(demotion, hands_over_few_pages_if_the_cpu_copies)
{
	offload_set("active", "cpu");
	EXPECT_GE(FEW, demote(_metadata, self, "48M"));
}

TEST_F(demotion, hands_over_few_pages_if_the_engine_does_not_demote)
{
	offload_set("reasons", "mempolicy_mbind");
	EXPECT_GE(FEW, demote(_metadata, self, "48M"));
}

TEST_F(demotion, hands_over_few_pages_if_few_are_wanted)
{
	EXPECT_GE(FEW, demote(_metadata, self, "256K"));
}

#define PROMOTE_BATCH	"/proc/sys/vm/migrate_promote_batch"
#define FOLIO		(16 * PAGE)

FIXTURE(promotion)
{
	int nodes[2];
	struct region region;
};

FIXTURE_SETUP(promotion)
{
	const char *why;

	if (!nodes_find(self->nodes))
		SKIP(return, "one node with memory only");
	if (!nodes_have_tiers())
		SKIP(return, "all nodes are equally fast");
	if (access(PROMOTE_BATCH, F_OK))
		SKIP(return, "no vm.migrate_promote_batch");
	why = balancing_begin() ?: offload_use("dcbm");
	if (why)
		SKIP(return, "%s", why);
	file_write(BALANCING, "0");
	ASSERT_EQ(0, file_write(PROMOTE_BATCH, "16"));
	why = region_create(&self->region, ANON, FOLIO, 8 * MIB,
			    self->nodes[1]);
	if (why)
		SKIP(return, "%s", why);
	ASSERT_TRUE(events_start("migrate/mm_migrate_pages", true));
}

FIXTURE_TEARDOWN_PARENT(promotion)
{
	events_stop();
	balancing_end();
	file_write(PROMOTE_BATCH, "0");
	if (!access(OFFLOAD_DIR, F_OK))
		offload_reset();
}

/* Promote all folios: the most pages that one call of migrate_pages() has moved */
static long promote(struct __test_metadata *_metadata,
		    FIXTURE_DATA(promotion) *self)
{
	long promoted = vmstat("pgpromote_success");
	struct region *r = &self->region;
	double begin;

	if (!balancing_hide(r->size / PAGE))
		SKIP(return -1, "NUMA balancing hides nothing");
	for (size_t at = 0; at < r->size; at += FOLIO)
		(void)*(volatile char *)(r->addr + at);
	/* The last ones wait for a tick */
	begin = seconds(CLOCK_MONOTONIC);
	while (region_pages_off(r, self->nodes[0]) &&
	       seconds(CLOCK_MONOTONIC) - begin < 5)
		cpu_run_for(0.02);
	EXPECT_EQ(0, region_pages_off(r, self->nodes[0]));
	EXPECT_EQ(0, region_wrong_words(r));
	EXPECT_EQ(0, pages_not_in_folios(r->addr, r->size, FOLIO));
	EXPECT_LE(r->size / PAGE, vmstat("pgpromote_success") - promoted);
	return events_max("reason=numa_misplaced", "nr_succeeded=");
}

TEST_F(promotion, hands_large_folios_together_to_an_engine)
{
	struct offload_stats before = offload_stats(NULL), grew;

	EXPECT_LT(FOLIO / PAGE, promote(_metadata, self));
	grew = offload_stats(&before);
	EXPECT_LT(0, grew.bytes);
	EXPECT_EQ(0, grew.left);
}

TEST_F(promotion, moves_each_large_folio_alone_without_an_engine)
{
	offload_set("active", "none");
	EXPECT_EQ(FOLIO / PAGE, promote(_metadata, self));
}

TEST_F(promotion, moves_each_large_folio_alone_if_the_engine_does_not_promote)
{
	offload_set("reasons", "demotion");
	EXPECT_EQ(FOLIO / PAGE, promote(_metadata, self));
}

TEST_HARNESS_MAIN
