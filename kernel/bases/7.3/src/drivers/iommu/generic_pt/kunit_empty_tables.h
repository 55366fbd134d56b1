/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * KUnit tests of how the empty page tables in a hole are freed, included by
 * kunit_iommu_pt.h for each format.
 *
 * The domains have no devices. What the hardware would be told is seen in the
 * gather when it is synced: the range of the flush, and the tables on the list.
 */
#ifndef __GENERIC_PT_KUNIT_EMPTY_TABLES_H
#define __GENERIC_PT_KUNIT_EMPTY_TABLES_H

#define MAX_TABLES	64
#define MAX_FLUSHES	4

/* A table that was linked, and the addresses that it spans */
struct linked_table {
	void *table;
	pt_vaddr_t start;
	pt_vaddr_t last;
};

struct linked_tables {
	struct linked_table each[MAX_TABLES];
	unsigned int nr;
};

struct seen_flush {
	unsigned long start;
	unsigned long last;
	unsigned int nr_tables;
};

struct empty_priv {
	struct kunit_iommu_priv priv;
	/* As of the last call of note_tables() */
	struct linked_tables tables;
	struct seen_flush flushes[MAX_FLUSHES];
	unsigned int nr_flushes;
	unsigned int nr_freed;
	bool freed_early;
};

static struct empty_priv *empty_of(struct kunit *test)
{
	return container_of(test->priv, struct empty_priv, priv);
}

static int __note_tables(struct pt_range *range, void *arg, unsigned int level,
			 struct pt_table_p *table)
{
	struct pt_state pts = pt_init(range, level, table);
	struct linked_tables *tables = arg;

	for_each_pt_level_entry(&pts) {
		unsigned int isz_lg2 = pt_table_item_lg2sz(&pts);

		if (pts.type != PT_ENTRY_TABLE)
			continue;
		if (tables->nr == MAX_TABLES)
			return -ENOSPC;
		tables->each[tables->nr++] = (struct linked_table){
			.table = pts.table_lower,
			.start = log2_set_mod(range->va, 0, isz_lg2),
			.last = log2_set_mod_max(range->va, isz_lg2),
		};
		if (pt_descend(&pts, arg, __note_tables))
			return -ENOSPC;
	}
	return 0;
}

/* Note which tables are linked below the top. Returns how many they are. */
static unsigned int note_tables(struct kunit *test)
{
	struct empty_priv *empty = empty_of(test);
	struct pt_range lower = pt_top_range(empty->priv.common);
	struct pt_range upper = pt_upper_range(empty->priv.common);

	empty->tables.nr = 0;
	KUNIT_ASSERT_NO_ERRNO(test, pt_walk_range(&lower, __note_tables,
						  &empty->tables));
	if (pt_feature(empty->priv.common, PT_FEAT_SIGN_EXTEND))
		KUNIT_ASSERT_NO_ERRNO(test, pt_walk_range(&upper, __note_tables,
							  &empty->tables));
	return empty->tables.nr;
}

static const struct linked_table *find_table(const struct linked_tables *tables,
					     const void *table)
{
	unsigned int i;

	for (i = 0; i != tables->nr; i++)
		if (tables->each[i].table == table)
			return &tables->each[i];
	return NULL;
}

/* All of what each table spans is flushed before the table is freed. */
static void note_flush(struct iommu_domain *domain,
		       struct iommu_iotlb_gather *gather)
{
	struct empty_priv *empty =
		container_of(domain, struct empty_priv, priv.domain);
	struct seen_flush flush = {
		.start = gather->start,
		.last = gather->end,
	};
	struct ioptdesc *iopt;

	list_for_each_entry(iopt, &gather->freelist.pages, iopt_freelist_elm) {
		const struct linked_table *table =
			find_table(&empty->tables,
				   folio_address(ioptdesc_folio(iopt)));

		flush.nr_tables++;
		if (!table || table->start < flush.start ||
		    table->last > flush.last)
			empty->freed_early = true;
	}
	empty->flushes[min(empty->nr_flushes, MAX_FLUSHES - 1)] = flush;
	empty->nr_flushes++;
	empty->nr_freed += flush.nr_tables;
	iommu_put_or_spare_pages_list(&gather->freelist,
				      empty->priv.iommu->spare_tables,
				      ARRAY_SIZE(empty->priv.iommu->spare_tables));
}

static const struct iommu_domain_ops empty_ops = {
	IOMMU_PT_DOMAIN_OPS1(PTPFX_RAW),
	.iotlb_sync = &note_flush,
};

/* Free the tables of what was unmapped. Returns how many are linked then. */
static unsigned int free_tables(struct kunit *test, pt_vaddr_t va,
				pt_vaddr_t len, pt_vaddr_t floor,
				pt_vaddr_t ceiling,
				struct iommu_iotlb_gather *gather)
{
	struct empty_priv *empty = empty_of(test);
	unsigned int before = note_tables(test), after;

	empty->nr_flushes = 0;
	empty->nr_freed = 0;
	empty->freed_early = false;

	iommu_free_empty_tables(&empty->priv.domain, va, va + len - 1, floor,
				ceiling, gather);
	iommu_iotlb_sync(&empty->priv.domain, gather);

	/* Each table that was unlinked was on the list of one flush */
	after = note_tables(test);
	KUNIT_EXPECT_EQ(test, empty->nr_freed, before - after);
	KUNIT_EXPECT_FALSE(test, empty->freed_early);
	KUNIT_EXPECT_LE(test, empty->nr_flushes, MAX_FLUSHES);
	return after;
}

/* The tables that are left after a page was mapped and unmapped in a hole */
static unsigned int left(struct kunit *test, pt_vaddr_t va, pt_vaddr_t floor,
			 pt_vaddr_t ceiling)
{
	struct kunit_iommu_priv *priv = test->priv;
	struct iommu_iotlb_gather gather;

	do_map(test, va, 0, priv->smallest_pgsz);
	do_unmap(test, va, priv->smallest_pgsz);
	iommu_iotlb_gather_init(&gather);
	return free_tables(test, va, priv->smallest_pgsz, floor, ceiling,
			   &gather);
}

/* What one table of a level spans; the pages of a table of level 0 are leaves */
static unsigned int table_lg2sz(struct kunit *test, unsigned int level)
{
	struct kunit_iommu_priv *priv = test->priv;
	struct pt_range range = pt_top_range(priv->common);
	struct pt_state pts = pt_init(&range, level + 1, NULL);

	return pt_table_item_lg2sz(&pts);
}

static pt_vaddr_t table_sz(struct kunit *test, unsigned int level)
{
	return log2_to_int_t(pt_vaddr_t, table_lg2sz(test, level));
}

/* Tables on the way to a page, without the top */
static unsigned int depth(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;

	return pt_top_range(priv->common).top_level;
}

/* At the start of tables of all levels, with room on both sides */
static pt_vaddr_t place(struct kunit *test)
{
	return table_sz(test, depth(test) - 1);
}

static void test_hole_of_everything(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	struct pt_range range = pt_top_range(priv->common);
	pt_vaddr_t top = range.last_va - priv->smallest_pgsz + 1;

	KUNIT_EXPECT_EQ(test, left(test, place(test), 0, ULONG_MAX), 0);
	KUNIT_EXPECT_EQ(test, left(test, 0, 0, ULONG_MAX), 0);
	KUNIT_EXPECT_EQ(test, left(test, top, 0, range.last_va), 0);
	KUNIT_EXPECT_EQ(test, left(test, top, 0, ULONG_MAX), 0);
	if (pt_feature(priv->common, PT_FEAT_SIGN_EXTEND)) {
		range = pt_upper_range(priv->common);
		KUNIT_EXPECT_EQ(test, left(test, range.va, range.va, ULONG_MAX),
				0);
	}
}

/* Without the call tables stay, as they always did */
static void test_unmap_leaves_tables(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;

	do_map(test, place(test), 0, priv->smallest_pgsz);
	do_unmap(test, place(test), priv->smallest_pgsz);
	KUNIT_EXPECT_EQ(test, note_tables(test), depth(test));
}

/* A page more or less at either end decides, on every level */
static void test_hole_at_edges(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	pt_vaddr_t page = priv->smallest_pgsz, start = place(test);
	unsigned int level, all = depth(test);
	pt_vaddr_t va = start + 2 * page;

	for (level = 0; level != all; level++) {
		pt_vaddr_t last = start + table_sz(test, level) - 1;

		KUNIT_EXPECT_EQ(test, left(test, va, start + page, last), all);
		KUNIT_EXPECT_EQ(test, left(test, va, start, last - page),
				all - level);
		KUNIT_EXPECT_EQ(test, left(test, va, start, last),
				all - level - 1);
		KUNIT_EXPECT_EQ(test, left(test, va, start - page, last + page),
				all - level - 1);
		KUNIT_EXPECT_EQ(test, left(test, va, start + 1, last), all);
	}
}

/* Nothing is flushed in vain, and the neighbour is where it was */
static void test_hole_in_table(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	struct empty_priv *empty = empty_of(test);
	pt_vaddr_t page = priv->smallest_pgsz, start = place(test);

	do_map(test, start + 2 * page, page, page);
	KUNIT_EXPECT_EQ(test, left(test, start, 0, start + 2 * page - 1),
			depth(test));
	KUNIT_EXPECT_EQ(test, empty->nr_flushes, 0);
	check_iova(test, start + 2 * page, page, page);
}

/* A table stays as long as another one is linked in it */
static void test_linked_tables(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	pt_vaddr_t page = priv->smallest_pgsz, start = place(test);
	pt_vaddr_t other = start + 3 * table_sz(test, 0);

	do_map(test, other, 0, page);
	do_unmap(test, other, page);
	KUNIT_EXPECT_EQ(test, left(test, start, 0, ULONG_MAX), depth(test));
	KUNIT_EXPECT_EQ(test, left(test, other, 0, ULONG_MAX), 0);
}

/* The end of one table, all of the next, the start of one that is in use */
static void test_range_of_tables(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	pt_vaddr_t page = priv->smallest_pgsz, span = table_sz(test, 0);
	pt_vaddr_t start = place(test) + span - page;
	pt_vaddr_t used = place(test) + 2 * span + 16 * page;
	struct iommu_iotlb_gather gather;
	pt_vaddr_t at, len = span + 2 * page;

	do_map(test, used, page, page);
	for (at = 0; at != len; at += page)
		do_map(test, start + at, 0, page);
	KUNIT_EXPECT_EQ(test, note_tables(test), depth(test) + 2);
	for (at = 0; at != len; at += page)
		do_unmap(test, start + at, page);
	iommu_iotlb_gather_init(&gather);
	KUNIT_EXPECT_EQ(test, free_tables(test, start, len, 0, used - 1, &gather),
			depth(test));
	KUNIT_EXPECT_EQ(test, empty_of(test)->nr_freed, 2);
	check_iova(test, used, page, page);
}

/* Unmap a page into a gather, which then gets the tables of @start as well */
static void free_beside(struct kunit *test, pt_vaddr_t start, pt_vaddr_t beside)
{
	struct kunit_iommu_priv *priv = test->priv;
	pt_vaddr_t page = priv->smallest_pgsz;
	struct iommu_iotlb_gather gather;

	do_map(test, start, 0, page);
	do_map(test, beside, 0, page);
	do_unmap(test, start, page);
	iommu_iotlb_gather_init(&gather);
	KUNIT_ASSERT_EQ(test, iommu_unmap_fast(&priv->domain, beside, page,
					       &gather), page);
	free_tables(test, start, page, start, start + table_sz(test, 0) - 1,
		    &gather);
	KUNIT_EXPECT_EQ(test, empty_of(test)->nr_freed, 1);
}

static void test_near_is_flushed_together(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	const struct seen_flush *flush = empty_of(test)->flushes;
	pt_vaddr_t start = place(test), span = table_sz(test, 0);
	pt_vaddr_t beside = start + span + SZ_64K;

	/* Hardware that does not like gaps has two flushes all the same */
	if (pt_feature(priv->common, PT_FEAT_FLUSH_RANGE_NO_GAPS)) {
		free_beside(test, start, beside);
		KUNIT_EXPECT_EQ(test, empty_of(test)->nr_flushes, 2);
		priv->common->features &= ~BIT(PT_FEAT_FLUSH_RANGE_NO_GAPS);
	}
	free_beside(test, start, beside);
	KUNIT_EXPECT_EQ(test, empty_of(test)->nr_flushes, 1);
	KUNIT_EXPECT_EQ(test, flush[0].start, start);
	KUNIT_EXPECT_EQ(test, flush[0].last, beside + priv->smallest_pgsz - 1);
}

/* First what was gathered, by a flush that has no table of the other place */
static void test_far_is_flushed_apart(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	const struct seen_flush *flush = empty_of(test)->flushes;
	pt_vaddr_t start = place(test), beside = start + SZ_64M;

	free_beside(test, start, beside);
	KUNIT_EXPECT_EQ(test, empty_of(test)->nr_flushes, 2);
	KUNIT_EXPECT_EQ(test, flush[0].start, beside);
	KUNIT_EXPECT_EQ(test, flush[0].last, beside + priv->smallest_pgsz - 1);
	KUNIT_EXPECT_EQ(test, flush[0].nr_tables, 0);
	KUNIT_EXPECT_EQ(test, flush[1].start, start);
	KUNIT_EXPECT_EQ(test, flush[1].last, start + table_sz(test, 0) - 1);
	KUNIT_EXPECT_EQ(test, flush[1].nr_tables, 1);
}

/* The counts are right after a map or an unmap has unlinked tables itself */
static void test_tables_unlinked_otherwise(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	pt_vaddr_t page = priv->smallest_pgsz, start = place(test);
	pt_vaddr_t span = table_sz(test, 0), at;

	if (!(priv->safe_pgsize_bitmap & span))
		kunit_skip(test, "No page is as large as a table");

	/* A large page in the place of a table */
	do_map(test, start, 0, page);
	do_unmap(test, start, page);
	do_map(test, start, 0, span);
	KUNIT_EXPECT_EQ(test, note_tables(test), depth(test) - 1);
	do_unmap(test, start, span);
	KUNIT_EXPECT_EQ(test, left(test, start, 0, ULONG_MAX), 0);

	/* An unmap of all that a table spans */
	for (at = 0; at != span; at += page)
		do_map(test, start + at, 0, page);
	do_unmap(test, start, span);
	KUNIT_EXPECT_EQ(test, note_tables(test), depth(test) - 1);
	KUNIT_EXPECT_EQ(test, left(test, start, 0, ULONG_MAX), 0);
}

/* The old top becomes a table like others, also for a range beyond it */
static void test_top_that_grew(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	struct pt_range range = pt_top_range(priv->common);
	pt_vaddr_t page = priv->smallest_pgsz;
	struct iommu_iotlb_gather gather;

	if (!pt_feature(priv->common, PT_FEAT_DYNAMIC_TOP) ||
	    priv->common->max_vasz_lg2 <= range.max_vasz_lg2)
		kunit_skip(test, "The top cannot grow");

	/* A map that failed before it came to where the top would have grown */
	do_map(test, range.last_va - page + 1, 0, page);
	do_unmap(test, range.last_va - page + 1, page);
	iommu_iotlb_gather_init(&gather);
	KUNIT_EXPECT_EQ(test, free_tables(test, range.last_va - page + 1,
					  2 * page, 0, ULONG_MAX, &gather), 0);

	do_map(test, page, 0, page);
	do_map(test, range.last_va + 1, 0, page);
	do_unmap(test, range.last_va + 1, page);
	KUNIT_EXPECT_EQ(test, left(test, range.last_va + 1, 2 * page, ULONG_MAX),
			depth(test));
	do_unmap(test, page, page);
	KUNIT_EXPECT_EQ(test, left(test, page, 0, ULONG_MAX), 0);
}

/* They are empty, the next map uses them, and none is there before its flush */
static void test_spare_tables(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	void **spare = priv->iommu->spare_tables;
	pt_vaddr_t page = priv->smallest_pgsz, start = place(test);
	struct iommu_iotlb_gather gather;
	void *first, *second;

	KUNIT_EXPECT_EQ(test, left(test, start, 0, ULONG_MAX), 0);
	first = spare[0];
	second = spare[1];
	KUNIT_ASSERT_NOT_NULL(test, first);
	KUNIT_ASSERT_NOT_NULL(test, second);
	KUNIT_EXPECT_NULL(test, memchr_inv(first, 0, PAGE_SIZE));
	KUNIT_EXPECT_NULL(test, memchr_inv(second, 0, PAGE_SIZE));

	do_map(test, start + page, page, page);
	KUNIT_EXPECT_NULL(test, spare[0]);
	KUNIT_EXPECT_NULL(test, spare[1]);
	check_iova(test, start + page, page, page);
	note_tables(test);
	KUNIT_EXPECT_NOT_NULL(test, find_table(&empty_of(test)->tables, first));
	KUNIT_EXPECT_NOT_NULL(test, find_table(&empty_of(test)->tables, second));

	do_unmap(test, start + page, page);
	iommu_iotlb_gather_init(&gather);
	iommu_free_empty_tables(&priv->domain, start + page, start + 2 * page - 1,
				0, ULONG_MAX, &gather);
	KUNIT_EXPECT_NULL(test, spare[0]);
	iommu_iotlb_sync(&priv->domain, &gather);
	KUNIT_EXPECT_NOT_NULL(test, spare[0]);
	KUNIT_EXPECT_NOT_NULL(test, spare[1]);
}

#define MANY	40

/* Pages far apart, some of which share tables; those that are left stay */
static void test_any_order(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;
	pt_vaddr_t page = priv->smallest_pgsz;
	pt_vaddr_t step = table_sz(test, 0) / 8 * 5;
	struct pt_range range = pt_top_range(priv->common);
	bool mapped[MANY] = {};
	unsigned int i, k, left_nr;

	for (i = 0; i != MANY; i++) {
		do_map(test, place(test) + i * step, i * page, page);
		mapped[i] = true;
	}
	for (left_nr = MANY; left_nr; left_nr--) {
		pt_vaddr_t floor = range.va, ceiling = range.last_va;
		struct iommu_iotlb_gather gather;

		do
			k = get_random_u32_below(MANY);
		while (!mapped[k]);
		mapped[k] = false;
		for (i = 0; i != k; i++)
			if (mapped[i])
				floor = place(test) + i * step + page;
		for (i = MANY - 1; i != k; i--)
			if (mapped[i])
				ceiling = place(test) + i * step - 1;
		do_unmap(test, place(test) + k * step, page);
		iommu_iotlb_gather_init(&gather);
		free_tables(test, place(test) + k * step, page, floor, ceiling,
			    &gather);
		for (i = 0; i != MANY; i++)
			if (mapped[i])
				check_iova(test, place(test) + i * step,
					   i * page, page);
	}
	KUNIT_EXPECT_EQ(test, note_tables(test), 0);
}

static struct kunit_case empty_tables_cases[] = {
	KUNIT_CASE_FMT(test_hole_of_everything),
	KUNIT_CASE_FMT(test_unmap_leaves_tables),
	KUNIT_CASE_FMT(test_hole_at_edges),
	KUNIT_CASE_FMT(test_hole_in_table),
	KUNIT_CASE_FMT(test_linked_tables),
	KUNIT_CASE_FMT(test_range_of_tables),
	KUNIT_CASE_FMT(test_near_is_flushed_together),
	KUNIT_CASE_FMT(test_far_is_flushed_apart),
	KUNIT_CASE_FMT(test_tables_unlinked_otherwise),
	KUNIT_CASE_FMT(test_top_that_grew),
	KUNIT_CASE_FMT(test_spare_tables),
	KUNIT_CASE_FMT(test_any_order),
	{},
};

static int empty_tables_init(struct kunit *test)
{
	struct empty_priv *empty;
	int ret;

	if (IS_32BIT)
		kunit_skip(test, "Unable to test on 32bit");

	empty = kunit_kzalloc(test, sizeof(*empty), GFP_KERNEL);
	if (!empty)
		return -ENOMEM;
	empty->priv.orig_nr_secondary_pagetable = kunit_nr_table_pages();
	ret = pt_kunit_priv_init(test, &empty->priv);
	if (ret)
		return ret;
	empty->priv.domain.ops = &empty_ops;
	test->priv = &empty->priv;
	return 0;
}

static void empty_tables_exit(struct kunit *test)
{
	struct kunit_iommu_priv *priv = test->priv;

	if (!priv)
		return;
	pt_iommu_deinit(priv->iommu);
	KUNIT_ASSERT_EQ(test, priv->orig_nr_secondary_pagetable,
			kunit_nr_table_pages());
}

static struct kunit_suite NS(empty_tables_suite) = {
	.name = __stringify(NS(empty_tables)),
	.init = empty_tables_init,
	.exit = empty_tables_exit,
	.test_cases = empty_tables_cases,
};

#endif
