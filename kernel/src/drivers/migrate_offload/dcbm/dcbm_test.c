// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of dcbm: whose channels it uses, how folios are cut into parts
 *
 * Copying, faults and lost copies are not tested here: they need channels,
 * such as those of softdma, and a migration to be made.
 */
#include <kunit/test.h>
#include <linux/sizes.h>

#include "dcbm.h"

struct dcbm_cut {
	size_t size;
	size_t stripe;
	unsigned int live;
	unsigned int parts;
};

static const struct dcbm_cut dcbm_cuts[] = {
	/* one base page cannot be cut */
	{ PAGE_SIZE, PAGE_SIZE, 16, 1 },
	{ PAGE_SIZE, 0, 16, 1 },
	{ PAGE_SIZE, SZ_128K, 1, 1 },
	/* the stripe decides */
	{ SZ_128K, SZ_128K, 16, 1 },
	{ SZ_256K - PAGE_SIZE, SZ_128K, 16, 1 },
	{ SZ_256K, SZ_128K, 16, 2 },
	{ SZ_2M, SZ_1M, 16, 2 },
	{ SZ_2M, SZ_2M, 16, 1 },
	{ SZ_2M, SZ_4M, 16, 1 },
	/* the channels decide; 3 does not divide 512 pages */
	{ SZ_2M, SZ_128K, 1, 1 },
	{ SZ_2M, SZ_128K, 3, 3 },
	{ SZ_2M, SZ_128K, 16, 16 },
	{ SZ_2M, PAGE_SIZE, 256, 256 },
	/* all pages apart */
	{ SZ_2M, 0, 1024, 512 },
};

static void dcbm_cut_desc(const struct dcbm_cut *cut, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE,
		 "%zu KiB by %zu KiB, %u channels", cut->size / SZ_1K,
		 cut->stripe / SZ_1K, cut->live);
}

KUNIT_ARRAY_PARAM(dcbm_cut, dcbm_cuts, dcbm_cut_desc);

static void number_of_parts_is_bounded(struct kunit *test)
{
	const struct dcbm_cut *cut = test->param_value;

	KUNIT_EXPECT_EQ(test, cut->parts,
			dcbm_nr_parts(cut->size, cut->stripe, cut->live));
}

static void parts_cover_the_folio_once_and_exactly(struct kunit *test)
{
	const struct dcbm_cut *cut = test->param_value;
	size_t least = max_t(size_t, cut->stripe, PAGE_SIZE);
	size_t start, end = 0;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, 0, dcbm_part_start(cut->size, cut->parts, 0));
	for (i = 0; i < cut->parts; i++) {
		start = end;
		end = dcbm_part_start(cut->size, cut->parts, i + 1);
		KUNIT_EXPECT_TRUE(test, PAGE_ALIGNED(end));
		KUNIT_EXPECT_GE(test, end - start, min(least, cut->size));
	}
	KUNIT_EXPECT_EQ(test, cut->size, end);
}

static void parts_differ_by_one_page_at_most(struct kunit *test)
{
	const struct dcbm_cut *cut = test->param_value;
	size_t len, least = SIZE_MAX, most = 0;
	unsigned int i;

	for (i = 0; i < cut->parts; i++) {
		len = dcbm_part_start(cut->size, cut->parts, i + 1) -
		      dcbm_part_start(cut->size, cut->parts, i);
		least = min(least, len);
		most = max(most, len);
	}
	KUNIT_EXPECT_LE(test, most - least, PAGE_SIZE);
}

static void only_drivers_that_report_errors_are_used(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, dcbm_refuses("ptdma", NULL));
	KUNIT_EXPECT_NULL(test, dcbm_refuses("softdma", ""));
	KUNIT_EXPECT_NOT_NULL(test, dcbm_refuses("sf-pdma", NULL));
	KUNIT_EXPECT_NOT_NULL(test, dcbm_refuses("unheard-of", NULL));
	KUNIT_EXPECT_NOT_NULL(test, dcbm_refuses("", NULL));
	KUNIT_EXPECT_NOT_NULL(test, dcbm_refuses("", ","));
}

static void others_are_used_at_ones_own_risk(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, dcbm_refuses("own", "own"));
	KUNIT_EXPECT_NULL(test, dcbm_refuses("own", "other,own"));
	KUNIT_EXPECT_NULL(test, dcbm_refuses("own", "own,other"));
	KUNIT_EXPECT_NOT_NULL(test, dcbm_refuses("own", "owner,disown"));
	KUNIT_EXPECT_NOT_NULL(test, dcbm_refuses("owner", "own"));
	/* Of these it is known why not */
	KUNIT_EXPECT_NOT_NULL(test, dcbm_refuses("idxd", "idxd"));
}

static struct kunit_case dcbm_cases[] = {
	KUNIT_CASE_PARAM(number_of_parts_is_bounded, dcbm_cut_gen_params),
	KUNIT_CASE_PARAM(parts_cover_the_folio_once_and_exactly,
			 dcbm_cut_gen_params),
	KUNIT_CASE_PARAM(parts_differ_by_one_page_at_most, dcbm_cut_gen_params),
	KUNIT_CASE(only_drivers_that_report_errors_are_used),
	KUNIT_CASE(others_are_used_at_ones_own_risk),
	{ }
};

static struct kunit_suite dcbm_suite = {
	.name = "dcbm",
	.test_cases = dcbm_cases,
};

kunit_test_suite(dcbm_suite);
