// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of ranges: which folios are found to be in one VMA, and what the
 * flush of several is told. Included by range.c.
 *
 * The VMAs and folios are made up: nothing is mapped. What becomes of page tables
 * is tested by the kselftests of migrate_runs.
 */
#include <kunit/test.h>

/* The first VMA: a page table and a half, from the middle of a table on */
#define VMA_START	(16 * PMD_SIZE + PMD_SIZE / 2)
#define VMA_END		(18 * PMD_SIZE)
#define VMA_PGOFF	1000UL
#define NR_FOLIOS	4

struct range_test {
	struct mm_struct *mm;
	struct anon_vma anon_vma;
	struct vm_area_struct vmas[2];
	struct anon_vma_chain chains[2];
	struct folio *folios[NR_FOLIOS];
	struct folio_range range;
};

static void add_vma(struct range_test *t, unsigned int i, unsigned long start,
		    unsigned long end, pgoff_t pgoff)
{
	t->vmas[i].vm_mm = t->mm;
	t->vmas[i].vm_start = start;
	t->vmas[i].vm_end = end;
	t->vmas[i].vm_pgoff = pgoff;
	vma_set_anon_pgoff(&t->vmas[i], pgoff);
	t->chains[i].vma = &t->vmas[i];
	anon_rmap_tree_insert(&t->chains[i], &t->anon_vma);
}

static void free_folios(void *data)
{
	struct range_test *t = data;
	unsigned int i;

	for (i = 0; i < NR_FOLIOS; i++)
		if (t->folios[i])
			folio_put(t->folios[i]);
}

static struct range_test *range_test(struct kunit *test, unsigned int order)
{
	struct range_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, free_folios, t));
	t->mm = kunit_kzalloc(test, sizeof(*t->mm), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->mm);
	t->anon_vma.rb_root = RB_ROOT_CACHED;
	add_vma(t, 0, VMA_START, VMA_END, VMA_PGOFF);
	for (i = 0; i < NR_FOLIOS; i++) {
		t->folios[i] = folio_alloc(GFP_KERNEL, order);
		KUNIT_ASSERT_NOT_NULL(test, t->folios[i]);
	}
	return t;
}

/* Put the folios at these addresses, and ask for all of them */
static unsigned int find_at(struct range_test *t, const unsigned long *addrs)
{
	unsigned int i;

	for (i = 0; i < NR_FOLIOS; i++)
		t->folios[i]->index = VMA_PGOFF +
				      ((addrs[i] - VMA_START) >> PAGE_SHIFT);
	return range_find(&t->range, &t->anon_vma, t->folios, NR_FOLIOS);
}

#define FIND(t, ...) \
	find_at(t, (const unsigned long[NR_FOLIOS]) { __VA_ARGS__ })

static void expect_span(struct kunit *test, const struct range_test *t,
			unsigned long low, unsigned long high)
{
	KUNIT_EXPECT_PTR_EQ(test, &t->vmas[0], t->range.vma);
	KUNIT_EXPECT_EQ(test, low, t->range.low);
	KUNIT_EXPECT_EQ(test, high, t->range.high);
}

static void folios_are_found_in_any_order(struct kunit *test)
{
	struct range_test *t = range_test(test, 0);
	unsigned long a = 17 * PMD_SIZE;

	KUNIT_EXPECT_EQ(test, 4, FIND(t, a, a + PAGE_SIZE, a + 2 * PAGE_SIZE,
				      a + 3 * PAGE_SIZE));
	expect_span(test, t, a, a + 4 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, 4, FIND(t, a + 5 * PAGE_SIZE, a + 2 * PAGE_SIZE,
				      a + 4 * PAGE_SIZE, a + 3 * PAGE_SIZE));
	expect_span(test, t, a + 2 * PAGE_SIZE, a + 6 * PAGE_SIZE);
}

static void range_may_span_tables(struct kunit *test)
{
	struct range_test *t = range_test(test, 0);
	unsigned long a = 17 * PMD_SIZE - 2 * PAGE_SIZE;

	KUNIT_EXPECT_EQ(test, 4, FIND(t, a, a + PAGE_SIZE, a + 2 * PAGE_SIZE,
				      a + 3 * PAGE_SIZE));
	expect_span(test, t, a, a + 4 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, 4, FIND(t, VMA_END - PAGE_SIZE, a, VMA_START,
				      a + 3 * PAGE_SIZE));
	expect_span(test, t, VMA_START, VMA_END);
}

static void folio_in_two_tables_is_in_no_range(struct kunit *test)
{
	struct range_test *t = range_test(test, 2);
	unsigned long a = 17 * PMD_SIZE - 2 * PAGE_SIZE;

	KUNIT_EXPECT_EQ(test, 0, FIND(t, a, a - 8 * PAGE_SIZE, a, a));
	KUNIT_EXPECT_EQ(test, 1, FIND(t, a - 8 * PAGE_SIZE, a, a, a));
}

static void range_ends_with_its_vma(struct kunit *test)
{
	struct range_test *t = range_test(test, 0);
	unsigned long a = VMA_START;

	KUNIT_EXPECT_EQ(test, 1, FIND(t, a, a - PAGE_SIZE, a + PAGE_SIZE,
				      a + 2 * PAGE_SIZE));
	t->vmas[0].vm_end = VMA_START + 3 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, 3, FIND(t, a, a + PAGE_SIZE, a + 2 * PAGE_SIZE,
				      a + 3 * PAGE_SIZE));
	expect_span(test, t, a, a + 3 * PAGE_SIZE);
}

static void large_folio_that_leaves_the_vma_is_not_in_it(struct kunit *test)
{
	struct range_test *t = range_test(test, 2);
	unsigned long a = VMA_END - 6 * PAGE_SIZE;

	KUNIT_EXPECT_EQ(test, 1, FIND(t, a, a + 4 * PAGE_SIZE, a, a));
	expect_span(test, t, a, a + 4 * PAGE_SIZE);
	/* And if it is the first, there is no range */
	KUNIT_EXPECT_EQ(test, 0, FIND(t, a + 4 * PAGE_SIZE, a, a, a));
	KUNIT_EXPECT_EQ(test, 0, FIND(t, VMA_START - PAGE_SIZE, a, a, a));
}

#ifdef CONFIG_MMU_NOTIFIER
static void folios_far_apart_are_no_range_if_others_hear_of_it(struct kunit *test)
{
	struct range_test *t = range_test(test, 0);
	unsigned long a = 17 * PMD_SIZE;

	KUNIT_EXPECT_EQ(test, 4, FIND(t, a, a + PMD_SIZE - PAGE_SIZE,
				      a + PMD_SIZE / 2, a + PAGE_SIZE));
	expect_span(test, t, a, a + PMD_SIZE);
	/* Nobody looks into it here */
	t->mm->notifier_subscriptions = (void *)t;
	/* Two pages may span so many, and one more is too much */
	KUNIT_EXPECT_EQ(test, 2, FIND(t, a, a + (2 * SPARSE - 1) * PAGE_SIZE,
				      a + PMD_SIZE / 2, a));
	KUNIT_EXPECT_EQ(test, 1, FIND(t, a, a + 2 * SPARSE * PAGE_SIZE, a, a));
}
#endif

static void second_vma_is_left_to_the_walk(struct kunit *test)
{
	struct range_test *t = range_test(test, 0);
	unsigned long a = 17 * PMD_SIZE;
	pgoff_t pgoff = VMA_PGOFF + ((a - VMA_START) >> PAGE_SHIFT);

	/* It may map what lies between the folios, though none of them */
	add_vma(t, 1, 64 * PMD_SIZE, 64 * PMD_SIZE + PAGE_SIZE, pgoff + 1);
	KUNIT_EXPECT_EQ(test, 0, FIND(t, a, a + 2 * PAGE_SIZE,
				      a + 3 * PAGE_SIZE, a + 4 * PAGE_SIZE));
	KUNIT_EXPECT_EQ(test, 0, FIND(t, a + PAGE_SIZE, a + 2 * PAGE_SIZE,
				      a + 3 * PAGE_SIZE, a + 4 * PAGE_SIZE));
	/* What it cannot map is as if it were not there */
	KUNIT_EXPECT_EQ(test, 4, FIND(t, a + 2 * PAGE_SIZE, a + 3 * PAGE_SIZE,
				      a + 4 * PAGE_SIZE, a + 5 * PAGE_SIZE));
	expect_span(test, t, a + 2 * PAGE_SIZE, a + 6 * PAGE_SIZE);
}

/* mprotect() makes such VMAs: one of them must not end ranges everywhere else */
static void second_vma_in_another_table_ends_the_range(struct kunit *test)
{
	struct range_test *t = range_test(test, 0);
	unsigned long a = 17 * PMD_SIZE;
	pgoff_t pgoff = VMA_PGOFF + ((a - VMA_START) >> PAGE_SHIFT);

	add_vma(t, 1, 64 * PMD_SIZE, 64 * PMD_SIZE + PAGE_SIZE, pgoff - 1);
	KUNIT_EXPECT_EQ(test, 3, FIND(t, a + 2 * PAGE_SIZE, a, a + PAGE_SIZE,
				      a - 2 * PAGE_SIZE));
	expect_span(test, t, a, a + 3 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, 1, FIND(t, a - 2 * PAGE_SIZE, a, a + PAGE_SIZE,
				      a + 2 * PAGE_SIZE));
}

static void special_vmas_are_left_to_the_walk(struct kunit *test)
{
	struct range_test *t = range_test(test, 0);
	unsigned long a = 17 * PMD_SIZE;

	vm_flags_init(&t->vmas[0], VM_LOCKED);
	KUNIT_EXPECT_EQ(test, 0, FIND(t, a, a, a, a));
	/* A stack that exec() is about to move */
	vm_flags_init(&t->vmas[0], VM_GROWSDOWN | VM_STACK_INCOMPLETE_SETUP);
	KUNIT_EXPECT_EQ(test, 0, FIND(t, a, a, a, a));
	vm_flags_init(&t->vmas[0], 0);
	KUNIT_EXPECT_NE(test, 0, FIND(t, a, a, a, a));
}

static struct mm_struct *flush_mm(struct kunit *test)
{
	struct mm_struct *mm = kunit_kzalloc(test, sizeof(*mm), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mm);
	return mm;
}

static pte_t clean_pte(void)
{
	return pfn_pte(1, PAGE_READONLY);
}

static pte_t dirty_pte(void)
{
	return pte_mkdirty(clean_pte());
}

/* Inaccessible, by NUMA balancing or mprotect() */
static pte_t hidden_pte(void)
{
	return pte_modify(dirty_pte(), PAGE_NONE);
}

/* What is to be flushed of two pages in a row, the first of them at one page */
static struct table_flush flush_of(struct mm_struct *mm, pte_t first,
				   pte_t second)
{
	struct table_flush flush = NO_TABLE_FLUSH;

	table_flush_add(&flush, mm, PAGE_SIZE, PAGE_SIZE, first);
	table_flush_add(&flush, mm, 2 * PAGE_SIZE, PAGE_SIZE, second);
	return flush;
}

static void expect_flush(struct kunit *test, struct table_flush flush,
			 unsigned long first, unsigned long nr, bool dirty)
{
	KUNIT_EXPECT_EQ(test, first * PAGE_SIZE, flush.low);
	KUNIT_EXPECT_EQ(test, (first + nr) * PAGE_SIZE, flush.high);
	KUNIT_EXPECT_EQ(test, dirty, flush.dirty);
}

/* The flush must hear of each entry that a TLB may have, and of each dirty one */
static void flush_is_of_what_a_tlb_may_have(struct kunit *test)
{
	pte_t clean = clean_pte(), dirty = dirty_pte(), hidden = hidden_pte();
	struct mm_struct *mm = flush_mm(test);

	KUNIT_ASSERT_FALSE(test, pte_accessible(mm, hidden));
	expect_flush(test, flush_of(mm, clean, clean), 1, 2, false);
	expect_flush(test, flush_of(mm, clean, dirty), 1, 2, true);
	expect_flush(test, flush_of(mm, dirty, clean), 1, 2, true);
	/* Whichever comes first, and with no dirt from what no TLB has */
	expect_flush(test, flush_of(mm, hidden, clean), 2, 1, false);
	expect_flush(test, flush_of(mm, clean, hidden), 1, 1, false);
	expect_flush(test, flush_of(mm, hidden, dirty), 2, 1, true);
	KUNIT_EXPECT_EQ(test, 0, flush_of(mm, hidden, hidden).high);
}

/* Another thread's munmap() may end between the question and the flush */
static void flush_is_not_forgotten_when_another_ends(struct kunit *test)
{
	struct mm_struct *mm = flush_mm(test);
	struct table_flush flush;

	atomic_set(&mm->tlb_flush_pending, 1);
	flush = flush_of(mm, dirty_pte(), hidden_pte());
	atomic_set(&mm->tlb_flush_pending, 0);
	expect_flush(test, flush, 1, 2, true);

	atomic_set(&mm->tlb_flush_pending, 1);
	flush = flush_of(mm, hidden_pte(), dirty_pte());
	atomic_set(&mm->tlb_flush_pending, 0);
	expect_flush(test, flush, 1, 2, true);
}

static struct kunit_case range_cases[] = {
	KUNIT_CASE(folios_are_found_in_any_order),
	KUNIT_CASE(range_may_span_tables),
	KUNIT_CASE(folio_in_two_tables_is_in_no_range),
	KUNIT_CASE(range_ends_with_its_vma),
	KUNIT_CASE(large_folio_that_leaves_the_vma_is_not_in_it),
#ifdef CONFIG_MMU_NOTIFIER
	KUNIT_CASE(folios_far_apart_are_no_range_if_others_hear_of_it),
#endif
	KUNIT_CASE(second_vma_is_left_to_the_walk),
	KUNIT_CASE(second_vma_in_another_table_ends_the_range),
	KUNIT_CASE(special_vmas_are_left_to_the_walk),
	KUNIT_CASE(flush_is_of_what_a_tlb_may_have),
	KUNIT_CASE(flush_is_not_forgotten_when_another_ends),
	{ }
};

static struct kunit_suite range_suite = {
	.name = "migrate_ranges",
	.test_cases = range_cases,
};

kunit_test_suite(range_suite);
