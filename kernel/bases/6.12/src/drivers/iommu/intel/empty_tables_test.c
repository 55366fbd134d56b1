// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of what happens to the page tables in a hole, included by iommu.c.
 *
 * The domains have no devices. What the hardware is told is seen in the gather:
 * the range of the flush, and that there are tables on the list, which makes the
 * flush reach the paging-structure caches too.
 */
#include <kunit/test.h>

/* A place with room on both sides, at the beginning of tables of all levels but the highest. */
#define PLACE	(3UL * 512 * SZ_1G)
#define FRAME	0x12345000ULL

/* One row per kind of page table. */
struct format {
	const char *name;
	bool first_level;
	bool coherent;
	int agaw;
};

static const struct format formats[] = {
	{ "second level, coherent, 4 levels", false, true, 2 },
	{ "second level, not coherent, 5 levels", false, false, 3 },
	{ "first level, coherent, 4 levels", true, true, 2 },
	{ "first level, not coherent, 5 levels", true, false, 3 },
};

static void format_name(const struct format *format, char *name)
{
	strscpy(name, format->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(format, formats, format_name);

static struct dmar_domain *make_domain(struct kunit *test, int agaw)
{
	const struct format *format = test->param_value ?: &formats[0];
	struct dmar_domain *domain;

	domain = kunit_kzalloc(test, sizeof(*domain), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, domain);
	INIT_LIST_HEAD(&domain->cache_tags);
	spin_lock_init(&domain->cache_lock);
	domain->nid = NUMA_NO_NODE;
	domain->agaw = agaw ?: format->agaw;
	domain->gaw = agaw_to_width(domain->agaw);
	domain->max_addr = __DOMAIN_MAX_ADDR(domain->gaw);
	domain->use_first_level = format->first_level;
	domain->iommu_coherency = format->coherent;
	domain->iommu_superpage = 2;
	domain->domain.type = IOMMU_DOMAIN_UNMANAGED;
	domain->domain.ops = intel_iommu_ops.default_domain_ops;
	domain->domain.pgsize_bitmap = SZ_4K | SZ_2M | SZ_1G;
	domain->pgd = iommu_alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, domain->pgd);
	return domain;
}

static int count_tables(struct dma_pte *table, int level)
{
	int i, tables = 0;

	for (i = 0; level > 1 && i < 512; i++)
		if (dma_pte_present(&table[i]) && !dma_pte_superpage(&table[i]))
			tables += 1 + count_tables(phys_to_virt(dma_pte_addr(&table[i])),
						   level - 1);
	return tables;
}

/* Without the root. */
static int nr_tables(struct dmar_domain *domain)
{
	return count_tables(domain->pgd, agaw_to_level(domain->agaw));
}

/* On the way to one page. */
static int depth(struct dmar_domain *domain)
{
	return agaw_to_level(domain->agaw) - 1;
}

/* The table that has the entry of this address on the lowest level. */
static struct page *leaf_table(struct dmar_domain *domain, u64 iova)
{
	int level = 2;

	return pfn_to_page(dma_pte_addr(pfn_to_dma_pte(domain, iova >> VTD_PAGE_SHIFT,
						       &level, GFP_KERNEL)) >> PAGE_SHIFT);
}

/* The table above that. */
static struct page *upper_table(struct dmar_domain *domain, u64 iova)
{
	int level = 2;

	return virt_to_page(pfn_to_dma_pte(domain, iova >> VTD_PAGE_SHIFT, &level,
					   GFP_KERNEL));
}

static void free_spare_tables(struct dmar_domain *domain)
{
	void *table;

	while ((table = take_spare_table(domain)))
		iommu_free_page(table);
}

static void free_domain(struct kunit *test, struct dmar_domain *domain)
{
	LIST_HEAD(tables);

	domain_unmap(domain, 0, DOMAIN_MAX_PFN(domain->gaw), &tables);
	iommu_put_pages_list(&tables);
	free_spare_tables(domain);
}

static void map(struct kunit *test, struct dmar_domain *domain, u64 iova, size_t size)
{
	KUNIT_ASSERT_EQ(test, 0, iommu_map(&domain->domain, iova, FRAME, size,
					   IOMMU_READ | IOMMU_WRITE, GFP_KERNEL));
}

static void unmap(struct kunit *test, struct dmar_domain *domain, u64 iova, size_t size)
{
	KUNIT_ASSERT_EQ(test, iommu_unmap(&domain->domain, iova, size), size);
}

static void free_tables(struct dmar_domain *domain, u64 iova, size_t size,
			u64 floor, u64 ceiling)
{
	struct iommu_iotlb_gather gather;

	iommu_iotlb_gather_init(&gather);
	iommu_free_empty_tables(&domain->domain, iova, iova + size - 1, floor,
				ceiling, &gather);
	if (!list_empty(&gather.freelist))
		iommu_iotlb_sync(&domain->domain, &gather);
}

/* The tables that are left after a page was unmapped in a hole. */
static int left(struct kunit *test, struct dmar_domain *domain, u64 iova, u64 floor,
		u64 ceiling)
{
	map(test, domain, iova, SZ_4K);
	unmap(test, domain, iova, SZ_4K);
	free_tables(domain, iova, SZ_4K, floor, ceiling);
	return nr_tables(domain);
}

static void hole_of_everything(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);

	KUNIT_EXPECT_EQ(test, left(test, domain, PLACE, 0, ULONG_MAX), 0);
	free_domain(test, domain);
}

static void vanilla_leaves_all(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);

	map(test, domain, PLACE, SZ_4K);
	unmap(test, domain, PLACE, SZ_4K);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), depth(domain));
	free_domain(test, domain);
}

static void hole_inside_a_table(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);

	map(test, domain, PLACE + SZ_8K, SZ_4K);
	KUNIT_EXPECT_EQ(test, left(test, domain, PLACE, 0, PLACE + SZ_8K - 1),
			depth(domain));
	KUNIT_EXPECT_EQ(test, iommu_iova_to_phys(&domain->domain, PLACE + SZ_8K), FRAME);
	free_domain(test, domain);
}

/* A page more or less at either end decides, on every level. */
static void hole_at_the_edges_of_tables(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	int i, lowest = depth(domain);
	/* At the beginning of tables of all levels but the highest. */
	u64 place = 3 * level_size(lowest + 1) << VTD_PAGE_SHIFT;
	u64 iova = place + SZ_8K;

	for (i = 0; i < lowest; i++) {
		u64 end = place + (level_size(i + 2) << VTD_PAGE_SHIFT) - 1;

		KUNIT_EXPECT_EQ(test, left(test, domain, iova, place + SZ_4K, end), lowest);
		KUNIT_EXPECT_EQ(test, left(test, domain, iova, place, end - SZ_4K), lowest - i);
		KUNIT_EXPECT_EQ(test, left(test, domain, iova, place, end), lowest - i - 1);
		KUNIT_EXPECT_EQ(test, left(test, domain, iova, place - SZ_4K, end + SZ_4K),
				lowest - i - 1);
		/* Bytes that are no whole page do not count. */
		KUNIT_EXPECT_EQ(test, left(test, domain, iova, place + 1, end), lowest);
	}
	free_domain(test, domain);
}

/* It has no page, so no table either. */
static void hole_smaller_than_a_page(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);

	map(test, domain, SZ_64K, SZ_4K);
	free_tables(domain, 0, 1, 0, 100);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), depth(domain));
	KUNIT_EXPECT_EQ(test, iommu_iova_to_phys(&domain->domain, SZ_64K), FRAME);
	free_domain(test, domain);
}

static void hole_at_zero_and_at_the_top(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	u64 last = __DOMAIN_MAX_ADDR(domain->gaw), top = last + 1 - SZ_4K;

	KUNIT_EXPECT_EQ(test, left(test, domain, 0, 0, SZ_2M - 1), depth(domain) - 1);
	KUNIT_EXPECT_EQ(test, left(test, domain, 0, 0, ULONG_MAX), 0);
	KUNIT_EXPECT_EQ(test, left(test, domain, top, top + SZ_4K - SZ_2M, last),
			depth(domain) - 1);
	KUNIT_EXPECT_EQ(test, left(test, domain, top, 0, ULONG_MAX), 0);
	KUNIT_EXPECT_EQ(test, left(test, domain, top, 0, last), 0);
	KUNIT_EXPECT_NOT_NULL(test, domain->pgd);
	free_domain(test, domain);
}

/* Three levels: the root's entries span 1 GiB. */
static void three_levels(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 1);

	KUNIT_EXPECT_EQ(test, left(test, domain, SZ_4G, SZ_4G, SZ_4G + SZ_2M - 1), 1);
	KUNIT_EXPECT_EQ(test, left(test, domain, SZ_4G, 0, ULONG_MAX), 0);
	free_domain(test, domain);
}

/* The end of one table, all of the next, the beginning of a third that is in use. */
static void range_over_several_tables(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	u64 iova = PLACE + SZ_2M - SZ_4K, neighbour = PLACE + SZ_4M + SZ_64K;
	size_t size = SZ_2M + SZ_8K, at;

	map(test, domain, neighbour, SZ_4K);
	for (at = 0; at < size; at += SZ_4K)
		map(test, domain, iova + at, SZ_4K);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), depth(domain) + 2);
	for (at = 0; at < size; at += SZ_4K)
		unmap(test, domain, iova + at, SZ_4K);
	free_tables(domain, iova, size, 0, neighbour - 1);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), depth(domain));
	KUNIT_EXPECT_EQ(test, iommu_iova_to_phys(&domain->domain, neighbour), FRAME);
	free_domain(test, domain);
}

/* Wherever the entry is in a table that goes, the table that it points to goes too. */
static void tables_at_every_index(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	struct iommu_iotlb_gather gather;
	int i;

	for (i = 0; i < 512; i++) {
		u64 iova = PLACE + (u64)i * SZ_2M, other = PLACE + (u64)(i ^ 0x1a5) * SZ_2M;

		map(test, domain, iova, SZ_4K);
		map(test, domain, other, SZ_4K);
		unmap(test, domain, iova, SZ_4K);
		unmap(test, domain, other, SZ_4K);
		iommu_iotlb_gather_init(&gather);
		iommu_free_empty_tables(&domain->domain, iova, iova + SZ_4K - 1, PLACE,
					PLACE + SZ_1G - 1, &gather);
		KUNIT_EXPECT_EQ(test, list_count_nodes(&gather.freelist), 3);
		iommu_iotlb_sync(&domain->domain, &gather);
		KUNIT_EXPECT_EQ(test, nr_tables(domain), depth(domain) - 2);
	}
	free_domain(test, domain);
}

/* Tables elsewhere in the hole stay, unless the table above them goes. */
static void tables_off_the_way(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);

	map(test, domain, PLACE, SZ_4K);
	map(test, domain, PLACE + SZ_2M, SZ_4K);
	unmap(test, domain, PLACE, SZ_4K);
	unmap(test, domain, PLACE + SZ_2M, SZ_4K);
	free_tables(domain, PLACE, SZ_4K, PLACE, PLACE + SZ_4M - 1);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), depth(domain));
	KUNIT_EXPECT_EQ(test, left(test, domain, PLACE, PLACE, PLACE + SZ_1G - 1),
			depth(domain) - 2);
	free_domain(test, domain);
}

/* What the hardware is told last, and whether a table of which it knows was free by then. */
struct flushes {
	struct page *table;
	unsigned long start;
	unsigned long end;
	unsigned long earlier_start;
	unsigned long earlier_end;
	int nr;
	bool keeps_tables;
	bool too_late;
};

static void note_flush(struct dmar_domain *domain, unsigned long start,
		       unsigned long end, int ih)
{
	struct flushes *flushes = kunit_get_current_test()->priv;

	flushes->nr++;
	flushes->earlier_start = flushes->start;
	flushes->earlier_end = flushes->end;
	flushes->start = start;
	flushes->end = end;
	flushes->keeps_tables = ih;
	flushes->too_late |= !page_count(flushes->table);
	flushes->too_late |= page_address(flushes->table) == domain->spare_tables[0];
}

static void note_both_flushes(struct dmar_domain *domain, unsigned long start,
			      unsigned long end, int ih, unsigned long tables_start,
			      unsigned long tables_end)
{
	note_flush(domain, start, end, ih);
	note_flush(domain, tables_start, tables_end, 0);
}

static void note_flushes(struct kunit *test, struct flushes *flushes)
{
	test->priv = flushes;
	kunit_activate_static_stub(test, cache_tag_flush_range, note_flush);
	kunit_activate_static_stub(test, cache_tag_flush_range_and_tables,
				   note_both_flushes);
}

static void note_no_flushes(struct kunit *test)
{
	kunit_deactivate_static_stub(test, cache_tag_flush_range);
	kunit_deactivate_static_stub(test, cache_tag_flush_range_and_tables);
}

static void flush_spans_the_tables(struct kunit *test)
{
	struct flushes flushes = {};
	struct dmar_domain *domain = make_domain(test, 0);
	struct iommu_iotlb_gather gather;
	u64 iova = PLACE + SZ_64K;

	map(test, domain, iova, SZ_4K);
	flushes.table = leaf_table(domain, iova);
	iommu_iotlb_gather_init(&gather);
	iommu_unmap_fast(&domain->domain, iova, SZ_4K, &gather);
	KUNIT_EXPECT_TRUE(test, list_empty(&gather.freelist));
	iommu_free_empty_tables(&domain->domain, iova, iova + SZ_4K - 1, PLACE,
				PLACE + SZ_2M - 1, &gather);
	KUNIT_EXPECT_EQ(test, gather.start, PLACE);
	KUNIT_EXPECT_EQ(test, gather.end, PLACE + SZ_2M - 1);
	KUNIT_EXPECT_FALSE(test, list_empty(&gather.freelist));

	note_flushes(test, &flushes);
	iommu_iotlb_sync(&domain->domain, &gather);
	note_no_flushes(test);
	KUNIT_EXPECT_EQ(test, flushes.nr, 1);
	KUNIT_EXPECT_EQ(test, flushes.start, PLACE);
	KUNIT_EXPECT_EQ(test, flushes.end, PLACE + SZ_2M - 1);
	KUNIT_EXPECT_FALSE(test, flushes.keeps_tables);
	KUNIT_EXPECT_FALSE(test, flushes.too_late);
	free_domain(test, domain);
}

/* A large unmap frees a table; what was gathered before it is flushed first. */
static void flush_of_an_earlier_range(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	struct iommu_iotlb_gather gather;
	u64 at;

	for (at = PLACE - SZ_4K; at < PLACE + SZ_2M; at += SZ_4K)
		map(test, domain, at, SZ_4K);
	iommu_iotlb_gather_init(&gather);
	iommu_unmap_fast(&domain->domain, PLACE - SZ_4K, SZ_4K, &gather);
	iommu_unmap_fast(&domain->domain, PLACE, SZ_2M, &gather);
	KUNIT_EXPECT_TRUE(test, list_is_singular(&gather.freelist));
	KUNIT_EXPECT_EQ(test, gather.start, PLACE);
	KUNIT_EXPECT_EQ(test, gather.end, PLACE + SZ_2M - 1);
	iommu_iotlb_sync(&domain->domain, &gather);
	free_domain(test, domain);
}

/* What is far away is flushed apart, but with the tables, and before they are free. */
static void far_apart_is_flushed_apart(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	const u64 far[] = { PLACE + SZ_8G, PLACE - SZ_4M };
	struct iommu_iotlb_gather gather;
	struct flushes flushes = {};
	int i;

	/* The second is near, but not in the same aligned block. */
	for (i = 0; i < ARRAY_SIZE(far); i++) {
		map(test, domain, PLACE, SZ_4K);
		map(test, domain, far[i], SZ_4K);
		unmap(test, domain, PLACE, SZ_4K);
		free_spare_tables(domain);
		flushes.table = leaf_table(domain, PLACE);
		flushes.nr = 0;
		iommu_iotlb_gather_init(&gather);
		iommu_unmap_fast(&domain->domain, far[i], SZ_4K, &gather);
		note_flushes(test, &flushes);
		iommu_free_empty_tables(&domain->domain, PLACE, PLACE + SZ_4K - 1,
					PLACE, PLACE + SZ_2M - 1, &gather);
		KUNIT_EXPECT_EQ(test, flushes.nr, 2);
		KUNIT_EXPECT_EQ(test, flushes.earlier_start, far[i]);
		KUNIT_EXPECT_EQ(test, flushes.earlier_end, far[i] + SZ_4K - 1);
		KUNIT_EXPECT_EQ(test, flushes.start, PLACE);
		KUNIT_EXPECT_EQ(test, flushes.end, PLACE + SZ_2M - 1);
		KUNIT_EXPECT_FALSE(test, flushes.keeps_tables);
		KUNIT_EXPECT_FALSE(test, flushes.too_late);
		KUNIT_EXPECT_PTR_EQ(test, domain->spare_tables[0],
				    page_address(flushes.table));
		/* There is nothing left to be flushed. */
		KUNIT_EXPECT_TRUE(test, list_empty(&gather.freelist));
		iommu_iotlb_sync(&domain->domain, &gather);
		KUNIT_EXPECT_EQ(test, flushes.nr, 2);
		note_no_flushes(test);
	}

	/* What is in the block is not. */
	map(test, domain, PLACE, SZ_4K);
	map(test, domain, PLACE + SZ_4M, SZ_4K);
	unmap(test, domain, PLACE, SZ_4K);
	iommu_unmap_fast(&domain->domain, PLACE + SZ_4M, SZ_4K, &gather);
	iommu_free_empty_tables(&domain->domain, PLACE, PLACE + SZ_4K - 1, PLACE,
				PLACE + SZ_2M - 1, &gather);
	KUNIT_EXPECT_EQ(test, gather.start, PLACE);
	KUNIT_EXPECT_EQ(test, gather.end, PLACE + SZ_4M + SZ_4K - 1);
	KUNIT_EXPECT_TRUE(test, list_is_singular(&gather.freelist));
	iommu_iotlb_sync(&domain->domain, &gather);
	free_domain(test, domain);
}

/* The lowest table and the one above it, which had an entry. */
static void spare_tables_are_used_after_the_flush(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	struct iommu_iotlb_gather gather;
	int i;

	map(test, domain, PLACE, SZ_4K);
	unmap(test, domain, PLACE, SZ_4K);
	iommu_iotlb_gather_init(&gather);
	iommu_free_empty_tables(&domain->domain, PLACE, PLACE + SZ_4K - 1, PLACE,
				PLACE + SZ_1G - 1, &gather);
	KUNIT_EXPECT_NULL(test, domain->spare_tables[0]);
	iommu_iotlb_sync(&domain->domain, &gather);
	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_NOT_NULL(test, domain->spare_tables[i]);
		KUNIT_EXPECT_NULL(test, memchr_inv(domain->spare_tables[i], 0,
						   VTD_PAGE_SIZE));
	}
	KUNIT_EXPECT_PTR_NE(test, domain->spare_tables[0], domain->spare_tables[1]);

	map(test, domain, PLACE, SZ_4K);
	KUNIT_EXPECT_NULL(test, domain->spare_tables[0]);
	KUNIT_EXPECT_NULL(test, domain->spare_tables[1]);
	KUNIT_EXPECT_EQ(test, iommu_iova_to_phys(&domain->domain, PLACE), FRAME);
	free_domain(test, domain);
}

/* Tables that a large unmap frees are not empty, even if they were spare before. */
static void only_empty_tables_are_spare(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	int i;
	u64 at;

	for (i = 0; i < 2; i++) {
		for (at = 0; at < SZ_2M; at += SZ_4K)
			map(test, domain, PLACE + at, SZ_4K);
		KUNIT_EXPECT_EQ(test, page_private(leaf_table(domain, PLACE)),
				i ? TABLE_NOTED : TABLE_UNKNOWN);
		unmap(test, domain, PLACE, SZ_2M);
		KUNIT_EXPECT_EQ(test, nr_tables(domain), depth(domain) - 1);
		KUNIT_EXPECT_NULL(test, domain->spare_tables[0]);

		left(test, domain, PLACE, PLACE, PLACE + SZ_2M - 1);
		KUNIT_EXPECT_NOT_NULL(test, domain->spare_tables[0]);
	}
	free_domain(test, domain);
}

/* In a table that was spare before, only what is noted is looked at: so all must be. */
static void tables_are_noted(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	struct page *upper;
	int i;

	/* The table that maps PLACE in 2 MiB pages, unless there are tables below. */
	left(test, domain, PLACE, PLACE, PLACE + SZ_1G - 1);
	map(test, domain, PLACE, SZ_4K);
	upper = upper_table(domain, PLACE);
	KUNIT_EXPECT_EQ(test, page_private(upper), TABLE_NOTED);
	KUNIT_EXPECT_EQ(test, upper->index, 1);
	map(test, domain, PLACE + SZ_1G - SZ_4K, SZ_4K);
	KUNIT_EXPECT_EQ(test, upper->index, 1 | BIT(BITS_PER_LONG - 1));
	/* What was noted stays so until the table is empty, and is forgotten then. */
	KUNIT_EXPECT_EQ(test, left(test, domain, PLACE + SZ_2M, PLACE + SZ_4K,
				   PLACE + SZ_4M - 1), depth(domain) + 1);
	KUNIT_EXPECT_EQ(test, upper->index, 1 | BIT(BITS_PER_LONG - 1));
	unmap(test, domain, PLACE, SZ_4K);
	unmap(test, domain, PLACE + SZ_1G - SZ_4K, SZ_4K);
	free_tables(domain, PLACE, SZ_4K, PLACE, PLACE + SZ_1G - 1);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), depth(domain) - 2);
	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_NOT_NULL(test, domain->spare_tables[i]);
		KUNIT_EXPECT_EQ(test, virt_to_page(domain->spare_tables[i])->index, 0);
	}
	free_domain(test, domain);
}

static void large_page_where_tables_were(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	u64 frame = SZ_4G, size;

	for (size = SZ_2M; size <= SZ_1G; size *= 512) {
		left(test, domain, PLACE + SZ_64K, PLACE, PLACE + size - 1);
		KUNIT_ASSERT_EQ(test, 0, iommu_map(&domain->domain, PLACE, frame, size,
						   IOMMU_READ, GFP_KERNEL));
		KUNIT_EXPECT_EQ(test, nr_tables(domain),
				depth(domain) - (size == SZ_2M ? 1 : 2));
		KUNIT_EXPECT_EQ(test, iommu_iova_to_phys(&domain->domain, PLACE + SZ_8K),
				frame + SZ_8K);
		unmap(test, domain, PLACE, size);
	}
	free_domain(test, domain);
}

/* Its table is unlinked and may not be free before the hardware has forgotten it. */
static void large_page_over_a_kept_table(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	struct flushes flushes = {};

	map(test, domain, PLACE + SZ_64K, SZ_4K);
	unmap(test, domain, PLACE + SZ_64K, SZ_4K);
	flushes.table = leaf_table(domain, PLACE);
	note_flushes(test, &flushes);
	KUNIT_EXPECT_EQ(test, 0, iommu_map(&domain->domain, PLACE, SZ_4G, SZ_2M,
					   IOMMU_READ, GFP_KERNEL));
	note_no_flushes(test);
	KUNIT_EXPECT_EQ(test, flushes.nr, 1);
	KUNIT_EXPECT_EQ(test, flushes.start, PLACE);
	KUNIT_EXPECT_FALSE(test, flushes.keeps_tables);
	KUNIT_EXPECT_FALSE(test, flushes.too_late);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), depth(domain) - 1);
	KUNIT_EXPECT_EQ(test, iommu_iova_to_phys(&domain->domain, PLACE + SZ_8K),
			SZ_4G + SZ_8K);
	unmap(test, domain, PLACE, SZ_2M);
	free_domain(test, domain);
}

/* Gives as many tables as the test has left. */
static void *new_few_tables(struct dmar_domain *domain, gfp_t gfp)
{
	int *few = kunit_get_current_test()->priv;

	return (*few)-- > 0 ? iommu_alloc_page(gfp) : NULL;
}

/* Whichever table cannot be had: nothing stays mapped, and no table in the hole. */
static void map_that_fails(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	u64 iova = PLACE - SZ_8K, size = SZ_4M + SZ_16K, at;
	int nr, few, mapped, ret;

	test->priv = &few;
	kunit_activate_static_stub(test, new_table, new_few_tables);
	for (nr = 0; ; nr++) {
		few = nr;
		free_spare_tables(domain);
		ret = iommu_map(&domain->domain, iova, FRAME, size,
				IOMMU_READ | IOMMU_WRITE, GFP_KERNEL);
		if (!ret)
			break;
		KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
		for (at = mapped = 0; at < size; at += SZ_4K)
			mapped += iommu_iova_to_phys(&domain->domain, iova + at) != 0;
		KUNIT_EXPECT_EQ(test, mapped, 0);
		free_tables(domain, iova, size, 0, ULONG_MAX);
		KUNIT_EXPECT_EQ(test, nr_tables(domain), 0);
	}
	kunit_deactivate_static_stub(test, new_table);
	/* Leaves, and what is above them on both sides of PLACE. */
	KUNIT_EXPECT_EQ(test, nr, nr_tables(domain));
	KUNIT_EXPECT_GT(test, nr, depth(domain) + 2);
	unmap(test, domain, iova, size);
	free_domain(test, domain);
}

/* The entry that leads to the lowest table of an address. */
static struct dma_pte *entry_above(struct dmar_domain *domain, u64 iova)
{
	int level = 2;

	return pfn_to_dma_pte(domain, iova >> VTD_PAGE_SHIFT, &level, GFP_KERNEL);
}

/*
 * Who has linked a table was interrupted before the entry was in memory: who maps
 * beside him sees to it, or the hardware would not find what that one has mapped.
 */
static void entry_that_another_has_linked(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	struct dma_pte *entry;

	map(test, domain, PLACE, SZ_4K);
	entry = entry_above(domain, PLACE);
	KUNIT_EXPECT_TRUE(test, entry->val & DMA_PTE_FLUSHED);
	entry->val &= ~DMA_PTE_FLUSHED;
	map(test, domain, PLACE + SZ_4K, SZ_4K);
	KUNIT_EXPECT_TRUE(test, entry->val & DMA_PTE_FLUSHED);
	KUNIT_EXPECT_EQ(test, iommu_iova_to_phys(&domain->domain, PLACE), FRAME);
	unmap(test, domain, PLACE, SZ_8K);
	free_tables(domain, PLACE, SZ_8K, 0, ULONG_MAX);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), 0);
	free_domain(test, domain);
}

/* Whoever only looks must not write to it: it may be unmapped at the same time. */
static void look_at_a_page_leaves_its_entry(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test, 0);
	struct dma_pte *entry;
	int level = 1;
	u64 val;

	map(test, domain, PLACE, SZ_4K);
	entry = pfn_to_dma_pte(domain, PLACE >> VTD_PAGE_SHIFT, &level, GFP_KERNEL);
	val = entry->val;
	KUNIT_EXPECT_TRUE(test, dma_pte_present(entry));
	KUNIT_EXPECT_EQ(test, iommu_iova_to_phys(&domain->domain, PLACE), FRAME);
	KUNIT_EXPECT_EQ(test, entry->val, val);
	free_domain(test, domain);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(vanilla_leaves_all, format_gen_params),
	KUNIT_CASE_PARAM(hole_of_everything, format_gen_params),
	KUNIT_CASE_PARAM(hole_inside_a_table, format_gen_params),
	KUNIT_CASE_PARAM(hole_at_the_edges_of_tables, format_gen_params),
	KUNIT_CASE_PARAM(hole_smaller_than_a_page, format_gen_params),
	KUNIT_CASE_PARAM(hole_at_zero_and_at_the_top, format_gen_params),
	KUNIT_CASE(three_levels),
	KUNIT_CASE_PARAM(range_over_several_tables, format_gen_params),
	KUNIT_CASE_PARAM(tables_at_every_index, format_gen_params),
	KUNIT_CASE_PARAM(tables_off_the_way, format_gen_params),
	KUNIT_CASE_PARAM(flush_spans_the_tables, format_gen_params),
	KUNIT_CASE_PARAM(flush_of_an_earlier_range, format_gen_params),
	KUNIT_CASE_PARAM(far_apart_is_flushed_apart, format_gen_params),
	KUNIT_CASE_PARAM(spare_tables_are_used_after_the_flush, format_gen_params),
	KUNIT_CASE_PARAM(only_empty_tables_are_spare, format_gen_params),
	KUNIT_CASE_PARAM(tables_are_noted, format_gen_params),
	KUNIT_CASE_PARAM(large_page_where_tables_were, format_gen_params),
	KUNIT_CASE_PARAM(large_page_over_a_kept_table, format_gen_params),
	KUNIT_CASE_PARAM(map_that_fails, format_gen_params),
	KUNIT_CASE_PARAM(entry_that_another_has_linked, format_gen_params),
	KUNIT_CASE_PARAM(look_at_a_page_leaves_its_entry, format_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "intel_iommu_empty_tables",
	.test_cases = cases,
};

kunit_test_suite(suite);
