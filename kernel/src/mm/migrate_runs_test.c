// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of runs: where they end. Included by migrate_runs.c.
 *
 * The entries are made up, and go on behind the end of their table as if it had
 * no end, as memory that lies there by chance hardly does. What becomes of page
 * tables is tested by the kselftests of migrate_runs.
 */
#include <kunit/test.h>

#define RUN_ORDER	4
#define RUN_PAGES	BIT(RUN_ORDER)
/* A table that begins here, and what lies behind it */
#define TABLE_START	(16 * PMD_SIZE)
#define NR_ENTRIES	(2 * PTRS_PER_PTE)

struct run_test {
	struct folio *folio;
	struct vm_area_struct vma;
	struct page_vma_mapped_walk walk;
	pte_t *ptes;
};

static void put_run_folio(void *folio)
{
	folio_put(folio);
}

static struct run_test *run_test(struct kunit *test)
{
	struct run_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->ptes = kunit_kcalloc(test, NR_ENTRIES, sizeof(*t->ptes), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->ptes);
	t->folio = folio_alloc(GFP_KERNEL, RUN_ORDER);
	KUNIT_ASSERT_NOT_NULL(test, t->folio);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, put_run_folio,
							   t->folio));
	t->vma.vm_start = TABLE_START - PMD_SIZE;
	t->vma.vm_end = TABLE_START + 4 * PMD_SIZE;
	t->vma.vm_pgoff = 1000;
	return t;
}

static pte_t present(unsigned long pfn)
{
	return pfn_pte(pfn, PAGE_READONLY);
}

static pte_t migrating(unsigned long pfn)
{
	return swp_entry_to_pte(make_readable_migration_entry(pfn));
}

/*
 * Map the folio from entry @first of the table on, and more pages behind it. The
 * walk is at page @idx of the folio.
 */
static void map_at(struct run_test *t, unsigned int first, unsigned int idx,
		   pte_t (*entry)(unsigned long pfn))
{
	unsigned long pfn = folio_pfn(t->folio);
	unsigned int i;

	for (i = first; i < NR_ENTRIES; i++)
		t->ptes[i] = entry(pfn + i - first);
	t->walk = (struct page_vma_mapped_walk) {
		.pfn = pfn,
		.nr_pages = RUN_PAGES,
		.vma = &t->vma,
		.address = TABLE_START + (first + idx) * PAGE_SIZE,
		.pte = t->ptes + first + idx,
	};
	t->walk.pgoff = t->vma.vm_pgoff +
			((TABLE_START + first * PAGE_SIZE - t->vma.vm_start) >>
			 PAGE_SHIFT);
}

static unsigned int ptes_at(struct run_test *t, unsigned int first,
			    unsigned int idx)
{
	map_at(t, first, idx, present);
	return run_of_ptes(&t->walk, t->folio, idx);
}

static unsigned int entries_at(struct run_test *t, unsigned int first,
			       unsigned int idx)
{
	bool same;

	map_at(t, first, idx, migrating);
	return run_of_entries(&t->walk, &same);
}

static void run_ends_with_its_folio(struct kunit *test)
{
	struct run_test *t = run_test(test);

	KUNIT_EXPECT_EQ(test, RUN_PAGES, ptes_at(t, 0, 0));
	KUNIT_EXPECT_EQ(test, RUN_PAGES - 5, ptes_at(t, 7, 5));
	KUNIT_EXPECT_EQ(test, RUN_PAGES, entries_at(t, 0, 0));
	KUNIT_EXPECT_EQ(test, RUN_PAGES - 5, entries_at(t, 7, 5));
}

static void run_ends_with_its_table(struct kunit *test)
{
	struct run_test *t = run_test(test);
	unsigned int first;

	for (first = PTRS_PER_PTE - RUN_PAGES; first < PTRS_PER_PTE; first++) {
		KUNIT_EXPECT_EQ(test, PTRS_PER_PTE - first, ptes_at(t, first, 0));
		KUNIT_EXPECT_EQ(test, PTRS_PER_PTE - first,
				entries_at(t, first, 0));
	}
	/* From the middle of the folio on, too */
	KUNIT_EXPECT_EQ(test, 2, ptes_at(t, PTRS_PER_PTE - 5, 3));
	KUNIT_EXPECT_EQ(test, 2, entries_at(t, PTRS_PER_PTE - 5, 3));
}

static void run_ends_with_its_vma(struct kunit *test)
{
	struct run_test *t = run_test(test);

	t->vma.vm_end = TABLE_START + 20 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, 3, ptes_at(t, 17, 0));
	KUNIT_EXPECT_EQ(test, 3, entries_at(t, 17, 0));
	KUNIT_EXPECT_EQ(test, 1, ptes_at(t, 17, 2));
}

static void run_ends_where_entries_differ(struct kunit *test)
{
	struct run_test *t = run_test(test);
	bool same;

	map_at(t, 0, 0, present);
	/* Young and dirty do not matter, be they as they may */
	t->ptes[3] = pte_clear_soft_dirty(pte_mkdirty(t->ptes[3]));
	t->ptes[4] = pte_mkold(t->ptes[4]);
	t->ptes[9] = present(folio_pfn(t->folio));
	KUNIT_EXPECT_EQ(test, 9, run_of_ptes(&t->walk, t->folio, 0));
	t->ptes[6] = __pte(0);
	KUNIT_EXPECT_EQ(test, 6, run_of_ptes(&t->walk, t->folio, 0));

	map_at(t, 0, 0, migrating);
	t->ptes[9] = migrating(folio_pfn(t->folio));
	KUNIT_EXPECT_EQ(test, 9, run_of_entries(&t->walk, &same));
	KUNIT_EXPECT_TRUE(test, same);
	t->ptes[6] = __pte(0);
	KUNIT_EXPECT_EQ(test, 6, run_of_entries(&t->walk, &same));
}

static struct kunit_case run_cases[] = {
	KUNIT_CASE(run_ends_with_its_folio),
	KUNIT_CASE(run_ends_with_its_table),
	KUNIT_CASE(run_ends_with_its_vma),
	KUNIT_CASE(run_ends_where_entries_differ),
	{ }
};

static struct kunit_suite run_suite = {
	.name = "migrate_runs",
	.test_cases = run_cases,
};

kunit_test_suite(run_suite);
