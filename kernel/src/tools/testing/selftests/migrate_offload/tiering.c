// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim hands over what it demotes in batches that keep an engine busy, and without
 * one it isolates as few folios at once as ever.
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

TEST_HARNESS_MAIN
