// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of how much is in flight: the quota, what shares a flush, and how deep.
 */
#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/sizes.h>

#include "../internal.h"
#include "kunit_engine.h"

static void dear_flushes_are_for_many_pages(struct kunit *test)
{
	struct migrate_offload_state state = {
		.target_us = 500, .chunk_pages = 128, .window_pages = 1024,
	};

#define expect_flush_pages(_nr, _wanted, _unmap_us, _flush_us, _pages)	\
	KUNIT_EXPECT_EQ(test, migrate_offload_flush_pages(&state, _nr,	\
			_wanted, 1000 * (_unmap_us),			\
			1000 * (_flush_us)), _pages)

	expect_flush_pages(64, 0, 80, 80, 0);
	/* It takes longer than all that it is for */
	expect_flush_pages(64, 0, 80, 90, 128);
	expect_flush_pages(128, 128, 80, 90, 256);
	expect_flush_pages(512, 512, 80, 90, 512);
	/* There were no more, or it does not matter for the target */
	expect_flush_pages(5, 512, 80, 90, 512);
	expect_flush_pages(64, 0, 8, 30, 0);
	/* Neither dear nor cheap */
	expect_flush_pages(512, 512, 80, 80, 512);
	expect_flush_pages(512, 512, 80, 20, 512);
	expect_flush_pages(512, 512, 80, 10, 256);
	expect_flush_pages(128, 128, 80, 10, 0);
	state.window_pages = 200;
	expect_flush_pages(128, 128, 80, 90, 200);
	state.target_us = 0;
	expect_flush_pages(128, 128, 80, 90, 0);
}

/* 96 MiB, and what probes take of it */
#define DEPTH_CALL	((SZ_64M + SZ_32M) >> PAGE_SHIFT)
#define DEPTH_SHALLOW	(SZ_32M >> PAGE_SHIFT)

/* A stretch of which each page that has moved took so long. Return: was it deep? */
static bool depth_stretch(struct migrate_offload_state *state,
			  unsigned long pages, unsigned long moved, u64 ns)
{
	struct migrate_stretch stretch;

	migrate_stretch_begin(&stretch, state, 0, pages, 1000);
	stretch.pages = min(pages, stretch.pages_left);
	stretch.pages_moved = min(moved, stretch.pages);
	migrate_stretch_end(&stretch, state, 1000 + ns * stretch.pages);
	return stretch.deep;
}

static void deep_where_it_pays(struct kunit *test)
{
	struct migrate_offload_state state = { .may_deepen = true, .deadline = HZ };
	unsigned long all = DEPTH_CALL;

	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 70));
	/* By more than an eighth */
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 70));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 73));
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	/* Nor where the CPU is cheaper */
	state.depth[0].ns[true] = 40;
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 40));
	state.costs[false][0].cpu_ns = 40;
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	/* Nor where all might miss the deadline */
	state.costs[false][0].cpu_ns = 0;
	state.depth[0].ns[true] = 20;
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 20));
	state.deadline = 1;
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	/* Whoever has chosen the parts has them */
	state.deadline = HZ;
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 20));
	state.may_deepen = false;
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
}

static void shallow_where_copies_are_void(struct kunit *test)
{
	struct migrate_offload_state state = { .may_deepen = true, .deadline = HZ };
	unsigned long all = DEPTH_CALL;

	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 40));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 40));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all / 4, 40));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all / 4, 40));
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
}

static void deep_is_nothing_for_a_small_call(struct kunit *test)
{
	struct migrate_offload_state state = { .may_deepen = true, .deadline = HZ };
	struct migrate_stretch stretch;
	unsigned long all = DEPTH_CALL;

	depth_stretch(&state, all, all, 80);
	depth_stretch(&state, all, all, 40);
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, DEPTH_SHALLOW, all, 40));
	migrate_stretch_begin(&stretch, &state, 0, DEPTH_SHALLOW - 1, 0);
	KUNIT_EXPECT_FALSE(test, stretch.deep);
	KUNIT_EXPECT_EQ(test, stretch.pages_left, ULONG_MAX);
	/* And teaches nothing */
	stretch.pages = DEPTH_SHALLOW - 1;
	stretch.pages_moved = stretch.pages;
	migrate_stretch_end(&stretch, &state, stretch.pages);
	KUNIT_EXPECT_EQ(test, state.depth[0].ns[false], 80);
	/* Nor is it for what all channels copy together */
	migrate_stretch_begin(&stretch, &state, NR_PAGE_ORDERS - 1, all, 0);
	KUNIT_EXPECT_FALSE(test, stretch.deep);
	KUNIT_EXPECT_EQ(test, stretch.pages_left, ULONG_MAX);
}

/* The first may have been disturbed */
static void deep_loses_by_little_only_twice(struct kunit *test)
{
	struct migrate_offload_state state = { .may_deepen = true, .deadline = HZ };
	unsigned long all = DEPTH_CALL;

	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 79));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 60));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 90));
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
}

static void deep_that_is_dearer_loses_at_once(struct kunit *test)
{
	struct migrate_offload_state state = { .may_deepen = true, .deadline = HZ };
	unsigned long all = DEPTH_CALL;

	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 80));
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
}

static void other_depth_is_tried_again(struct kunit *test)
{
	struct migrate_offload_state state = { .may_deepen = true, .deadline = HZ };
	unsigned long all = DEPTH_CALL;
	struct migrate_stretch stretch;

	depth_stretch(&state, all, all, 80);
	depth_stretch(&state, all, all, 90);
	state.depth[0].tried = jiffies - 10 * HZ;
	migrate_stretch_begin(&stretch, &state, 0, all, 0);
	KUNIT_EXPECT_TRUE(test, stretch.deep);
	KUNIT_EXPECT_EQ(test, stretch.pages_left, MIGRATE_DEEP_PAGES);
	migrate_stretch_begin(&stretch, &state, 0, all, 0);
	KUNIT_EXPECT_FALSE(test, stretch.deep);
	KUNIT_EXPECT_EQ(test, stretch.pages_left, ULONG_MAX);
}

static void deep_is_not_tried_while_written_to(struct kunit *test)
{
	struct migrate_offload_state state = {
		.may_deepen = true, .deadline = HZ, .window_pages = 2048,
	};
	unsigned long all = DEPTH_CALL;

	depth_stretch(&state, all, all, 80);
	state.depth[0].quota = 1024;
	KUNIT_EXPECT_EQ(test, migrate_offload_first_mapped(&state, 0), 1024);
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	state.depth[0].quota = 2048;
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 40));
	depth_stretch(&state, all, all, 40);
	/* Where it has won, void copies make it slower, and that decides */
	state.depth[0].quota = 1024;
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 40));
}

/* Settled, if each chunk takes as long as what is unmapped takes the engine */
static unsigned long settled_quota(const struct migrate_offload_state *state,
				   unsigned long quota, u64 ns_per_page)
{
	unsigned int i;

	for (i = 0; i < 40; i++)
		quota = migrate_offload_quota(state, quota, quota, 0, false,
					      quota * ns_per_page);
	return quota;
}

static void quota_is_what_the_engine_does_in_time(struct kunit *test)
{
	struct migrate_offload_state state = {
		.target_us = 500,
		.window_pages = 1024,
		.chunk_pages = 128,
	};

	/* 500 us are 250 pages of 2 us, whatever it began with */
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 128, 2000), 249);
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 1024, 2000), 250);
	/* A fast engine gets all, a slow one no less than is worth a flush */
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 128, 200), 1024);
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 1024, 100000), 128);
	KUNIT_EXPECT_EQ(test, migrate_offload_first_quota(&state), 128);
	/* What is known first counts in whole */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 0, 128, 0,
						    false, 128000), 500);
	/* And never less than should share a flush */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 0, 128, 512,
						    false, 128000), 512);
	state.chunk_pages = 4;
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 1024, 100000), 5);
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 1024, 1000000), 4);
	/* Once interrupted for a second it loses a half */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 250, 250, 0,
						    false, NSEC_PER_SEC), 125);
	/* No time at all, or a clock that went back */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 250, 250, 0,
						    false, 0), 1024);
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 250, 250, 0,
						    false, -1ULL), 125);
	/* A window that was chosen is what it is */
	state.target_us = 0;
	KUNIT_EXPECT_EQ(test, migrate_offload_first_quota(&state), 1024);
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 16, 100000), 1024);
}

static void void_copies_leave_less_in_flight(struct kunit *test)
{
	struct migrate_offload_state state = {
		.target_us = 500,
		.window_pages = 1024,
		.chunk_pages = 128,
		.nr_chunks = 16,
	};
	unsigned long quota = migrate_offload_most_mapped(&state);
	unsigned int i;

	KUNIT_EXPECT_EQ(test, quota, 2048);
	quota = migrate_offload_mapped_quota(&state, quota, 128, true);
	KUNIT_EXPECT_EQ(test, quota, 1024);
	/* Down to two chunks, whatever one has */
	KUNIT_EXPECT_EQ(test, 1024, migrate_offload_mapped_quota(&state, quota,
								 512, true));
	for (i = 0; i < 10; i++)
		quota = migrate_offload_mapped_quota(&state, quota, 128, true);
	KUNIT_EXPECT_EQ(test, quota, 256);
	/* Nor is it less after few pages, or more after many */
	KUNIT_EXPECT_EQ(test, 256, migrate_offload_mapped_quota(&state, quota,
								16, true));
	KUNIT_EXPECT_EQ(test, 256, migrate_offload_mapped_quota(&state, quota,
								1024, true));
	/* It comes back slowly, and no further */
	KUNIT_EXPECT_EQ(test, 260, migrate_offload_mapped_quota(&state, quota,
								128, false));
	for (i = 0; i < 200; i++)
		quota = migrate_offload_mapped_quota(&state, quota, 128, false);
	KUNIT_EXPECT_EQ(test, quota, 2048);
	/* A window that was chosen bounds it, and so does one of a single chunk */
	state.target_us = 0;
	KUNIT_EXPECT_EQ(test, migrate_offload_most_mapped(&state), 1024);
	KUNIT_EXPECT_EQ(test, 1024, migrate_offload_mapped_quota(&state, quota,
								 1024, true));
}

static void three_cut_folios_are_in_flight(struct kunit *test)
{
	struct migrate_offload_state state = { .window_pages = 1024 };

	KUNIT_EXPECT_EQ(test, migrate_offload_most_cut(&state, 128), 1536);
	KUNIT_EXPECT_EQ(test, migrate_offload_most_cut(&state, 512), 1536);
	state.window_pages = 128;
	KUNIT_EXPECT_EQ(test, migrate_offload_most_cut(&state, 512), 1536);
}

/* 2 MiB in 267 us are 958 pages in 500 us: not two of them, by the rate of one */
static void second_large_folio_is_tried(struct kunit *test)
{
	struct migrate_offload_state state = {
		.target_us = 500,
		.window_pages = 2048,
		.chunk_pages = 128,
	};

	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 958, 512, 0, false,
						    267000), 958);
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 958, 512, 0, true,
						    267000), 1024);
	/* Whether the two were too slow is seen then, and not forgotten */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 1024, 1024, 0, false,
						    530000), 995);
	/* Where two would be far too slow there is no need to try */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 680, 512, 0, true,
						    376000), 680);
	state.window_pages = 1000;
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 958, 512, 0, true,
						    267000), 1000);
}

static struct kunit_case migrate_offload_quota_cases[] = {
	KUNIT_CASE(deep_where_it_pays),
	KUNIT_CASE(shallow_where_copies_are_void),
	KUNIT_CASE(deep_is_nothing_for_a_small_call),
	KUNIT_CASE(deep_loses_by_little_only_twice),
	KUNIT_CASE(deep_that_is_dearer_loses_at_once),
	KUNIT_CASE(other_depth_is_tried_again),
	KUNIT_CASE(deep_is_not_tried_while_written_to),
	KUNIT_CASE(quota_is_what_the_engine_does_in_time),
	KUNIT_CASE(void_copies_leave_less_in_flight),
	KUNIT_CASE(three_cut_folios_are_in_flight),
	KUNIT_CASE(second_large_folio_is_tried),
	KUNIT_CASE(dear_flushes_are_for_many_pages),
	{}
};

static struct kunit_suite migrate_offload_quota_suite = {
	.name = "migrate_offload_quota",
	.test_cases = migrate_offload_quota_cases,
};

kunit_test_suite(migrate_offload_quota_suite);
