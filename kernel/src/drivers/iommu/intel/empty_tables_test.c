// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the freeing of empty page tables, included by empty_tables.c.
 *
 * The domains have no devices, so nothing is flushed; that the hardware forgets
 * a table is not tested here.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/kthread.h>

#include "../iommu-pages.h"

/* 1 GiB, so that no table here has a neighbour. */
#define PFN	(SZ_1G >> VTD_PAGE_SHIFT)
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
	{ "second level, not coherent, 3 levels", false, false, 1 },
	{ "first level, coherent, 4 levels", true, true, 2 },
	{ "first level, not coherent, 5 levels", true, false, 3 },
};

static void format_name(const struct format *format, char *name)
{
	strscpy(name, format->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(format, formats, format_name);

static struct dmar_domain *make_domain(struct kunit *test)
{
	const struct format *format = test->param_value ?: &formats[0];
	struct dmar_domain *domain;

	domain = kunit_kzalloc(test, sizeof(*domain), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, domain);
	INIT_LIST_HEAD(&domain->cache_tags);
	spin_lock_init(&domain->cache_lock);
	domain->nid = NUMA_NO_NODE;
	domain->agaw = format->agaw;
	domain->gaw = agaw_to_width(format->agaw);
	domain->use_first_level = format->first_level;
	domain->iommu_coherency = format->coherent;
	domain->pgd = iommu_alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, domain->pgd);
	KUNIT_ASSERT_EQ(test, empty_tables_init(domain), 0);
	return domain;
}

/* Tables below a slot, and what is present in them. */
static void count_below(struct dma_pte *base, int level, int *tables, int *pages)
{
	int i;

	for (i = 0; i < 512; i++) {
		if (!dma_pte_present(&base[i]))
			continue;
		if (level == 1 || dma_pte_superpage(&base[i])) {
			++*pages;
			continue;
		}
		++*tables;
		count_below(entry_slots(&base[i]), level - 1, tables, pages);
	}
}

static int nr_tables(struct dmar_domain *domain)
{
	int tables = 0, pages = 0;

	count_below(domain->pgd, agaw_to_level(domain->agaw), &tables, &pages);
	return tables;
}

static int nr_unflushed(struct dmar_domain *domain)
{
	int i, sum = 0;

	for (i = 0; i < NR_UNFLUSHED; i++)
		sum += atomic_read(&domain->empty_tables->unflushed[i]);
	return sum;
}

/* A test unmaps what it maps; no table but those that are kept may be left. */
static void free_domain(struct kunit *test, struct dmar_domain *domain)
{
	int cpu;

	for_each_possible_cpu(cpu)
		table_stock_release(domain->empty_tables, cpu);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), 0);
	KUNIT_EXPECT_EQ(test, nr_unflushed(domain), 0);
	empty_tables_exit(domain);
	iommu_free_page(domain->pgd);
}

/* As __domain_mapping() does it, for pages of one table. */
static int map(struct dmar_domain *domain, unsigned long pfn, int level, int nr)
{
	struct dma_pte *slot = empty_tables_map(domain, pfn, level,
						nr * level_size(level),
						GFP_KERNEL);
	u64 val = FRAME | DMA_PTE_READ | DMA_PTE_WRITE;

	if (!slot)
		return -ENOMEM;
	if (level > 1)
		val = (FRAME & ~(SZ_2M - 1ULL)) | DMA_PTE_READ | DMA_PTE_LARGE_PAGE;
	while (nr--) {
		if (dma_pte_present(slot))
			return -EEXIST;
		WRITE_ONCE(slot++->val, val);
	}
	return 0;
}

static size_t unmap(struct dmar_domain *domain, unsigned long pfn, size_t pages)
{
	struct iommu_iotlb_gather gather;
	size_t size;

	iommu_iotlb_gather_init(&gather);
	size = empty_tables_unmap(domain, pfn << VTD_PAGE_SHIFT,
				  pages << VTD_PAGE_SHIFT, &gather);
	empty_tables_flushed(domain, &gather.freelist);
	return size >> VTD_PAGE_SHIFT;
}

static struct page *table_of(struct dmar_domain *domain, unsigned long pfn,
			     int level)
{
	struct dma_pte *slot;
	int at;

	slot = empty_tables_find(domain, pfn, &at);
	return at == level ? virt_to_page(slot) : NULL;
}

static void last_unmap_frees_all_tables(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	int below_root = agaw_to_level(domain->agaw) - 1;

	KUNIT_ASSERT_EQ(test, map(domain, PFN, 1, 1), 0);
	KUNIT_ASSERT_EQ(test, map(domain, PFN + 7, 1, 2), 0);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), below_root);
	KUNIT_EXPECT_EQ(test, atomic_read(table_state(table_of(domain, PFN, 1))), 3);
	KUNIT_EXPECT_EQ(test, unmap(domain, PFN + 7, 2), 2);
	KUNIT_EXPECT_EQ(test, atomic_read(table_state(table_of(domain, PFN, 1))), 1);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), below_root);
	KUNIT_EXPECT_EQ(test, unmap(domain, PFN, 1), 1);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), 0);
	free_domain(test, domain);
}

static void neighbours_keep_upper_tables(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	int below_root = agaw_to_level(domain->agaw) - 1;

	KUNIT_ASSERT_EQ(test, map(domain, PFN, 1, 1), 0);
	KUNIT_ASSERT_EQ(test, map(domain, PFN + 512, 1, 1), 0);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), below_root + 1);
	unmap(domain, PFN, 1);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), below_root);
	KUNIT_EXPECT_NOT_NULL(test, table_of(domain, PFN + 512, 1));
	unmap(domain, PFN + 512, 1);
	free_domain(test, domain);
}

static void range_spans_tables(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);

	/* The end of one table, all of the next, the beginning of a third. */
	KUNIT_ASSERT_EQ(test, map(domain, PFN + 500, 1, 12), 0);
	KUNIT_ASSERT_EQ(test, map(domain, PFN + 512, 1, 512), 0);
	KUNIT_ASSERT_EQ(test, map(domain, PFN + 1024, 1, 12), 0);
	KUNIT_ASSERT_EQ(test, map(domain, PFN + 1040, 1, 1), 0);
	KUNIT_EXPECT_EQ(test, unmap(domain, PFN + 500, 536), 536);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), agaw_to_level(domain->agaw) - 1);
	KUNIT_EXPECT_EQ(test, atomic_read(table_state(table_of(domain, PFN + 1040, 1))), 1);
	unmap(domain, PFN + 1040, 1);
	free_domain(test, domain);
}

static void unmapping_a_hole_reaches_no_neighbour(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	int level;

	KUNIT_ASSERT_EQ(test, map(domain, PFN + 1024, 1, 1), 0);
	KUNIT_EXPECT_EQ(test, unmap(domain, PFN, 1), 1);
	KUNIT_EXPECT_EQ(test, unmap(domain, PFN + 1025, 1), 1);
	KUNIT_EXPECT_TRUE(test, dma_pte_present(empty_tables_find(domain, PFN + 1024, &level)));
	unmap(domain, PFN + 1024, 1);
	free_domain(test, domain);
}

static void large_page_takes_the_place_of_tables(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	int i, below_root = agaw_to_level(domain->agaw) - 1;

	/* Often enough that the table is kept. */
	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, map(domain, PFN, 1, 1), 0);
		unmap(domain, PFN, 1);
	}
	KUNIT_EXPECT_EQ(test, nr_tables(domain), below_root);
	KUNIT_ASSERT_EQ(test, map(domain, PFN, 2, 1), 0);
	KUNIT_EXPECT_EQ(test, nr_tables(domain), below_root - 1);
	/* All of it goes, although less was asked for. */
	KUNIT_EXPECT_EQ(test, unmap(domain, PFN, 1), 512);
	free_domain(test, domain);
}

static void huge_page_takes_the_place_of_a_tree(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	int i, level;

	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, map(domain, PFN, 1, 1), 0);
		KUNIT_ASSERT_EQ(test, map(domain, PFN + 1024, 2, 1), 0);
		unmap(domain, PFN, 1);
		unmap(domain, PFN + 1024, 512);
	}
	KUNIT_ASSERT_EQ(test, map(domain, PFN, 3, 1), 0);
	empty_tables_find(domain, PFN, &level);
	KUNIT_EXPECT_EQ(test, level, 3);
	unmap(domain, PFN, SZ_1G >> VTD_PAGE_SHIFT);
	free_domain(test, domain);
}

static void table_emptied_again_and_again_is_kept(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	struct page *table;
	int i;

	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, map(domain, PFN, 1, 1), 0);
		unmap(domain, PFN, 1);
	}
	table = table_of(domain, PFN, 1);
	KUNIT_ASSERT_NOT_NULL(test, table);
	KUNIT_EXPECT_EQ(test, atomic_read(table_state(table)), TABLE_KEPT);
	KUNIT_ASSERT_EQ(test, map(domain, PFN, 1, 1), 0);
	KUNIT_EXPECT_PTR_EQ(test, table_of(domain, PFN, 1), table);
	/* Let go of while it is in use: it dies when it is empty. */
	empty_tables_release(domain, table_place(PFN, 1));
	KUNIT_EXPECT_PTR_EQ(test, table_of(domain, PFN, 1), table);
	unmap(domain, PFN, 1);
	KUNIT_EXPECT_NULL(test, table_of(domain, PFN, 1));
	free_domain(test, domain);
}

static void pass_keeps_no_table(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	unsigned long i;

	for (i = 0; i < 100; i++) {
		KUNIT_ASSERT_EQ(test, map(domain, PFN + i * 512, 1, 1), 0);
		unmap(domain, PFN + i * 512, 1);
	}
	/* But for the one that all of them have above them, and its parent. */
	KUNIT_EXPECT_LE(test, nr_tables(domain), agaw_to_level(domain->agaw) - 2);
	free_domain(test, domain);
}

static void kept_tables_are_bounded(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	unsigned long i, round;
	int bound;

	for (round = 0; round < 50; round++) {
		for (i = 0; i < 7; i++) {
			KUNIT_ASSERT_EQ(test, map(domain, PFN + i * 512, 1, 1), 0);
			unmap(domain, PFN + i * 512, 1);
		}
	}
	bound = num_online_cpus() * 6 + agaw_to_level(domain->agaw) - 2;
	KUNIT_EXPECT_LE(test, nr_tables(domain), bound);
	KUNIT_EXPECT_GT(test, nr_tables(domain), 1);
	free_domain(test, domain);
}

static void late_promise_meets_a_dead_table(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	struct page *table;
	struct dma_pte *slot;

	KUNIT_ASSERT_EQ(test, map(domain, PFN, 1, 1), 0);
	table = table_of(domain, PFN, 1);
	slot = empty_tables_find(domain, PFN, &(int){ 0 });
	/* As if the unmapper had been interrupted after it killed the table. */
	WRITE_ONCE(slot->val, 0);
	KUNIT_ASSERT_TRUE(test, drop(table, 1));
	KUNIT_ASSERT_TRUE(test, kill(domain, table, PFN, 1, false));
	KUNIT_EXPECT_FALSE(test, kill(domain, table, PFN, 1, false));

	KUNIT_ASSERT_EQ(test, map(domain, PFN + 1, 1, 1), 0);
	KUNIT_EXPECT_PTR_NE(test, table_of(domain, PFN, 1), table);
	KUNIT_EXPECT_TRUE(test, is_dead(table));
	unmap(domain, PFN + 1, 1);

	atomic_dec(&domain->empty_tables->unflushed[unflushed_index(PFN, 1)]);
	__iommu_free_pages(table, 0);
	free_domain(test, domain);
}

static void promise_revives_an_empty_table(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	struct burial burial;
	struct page *table;

	start_burial(&burial);
	KUNIT_ASSERT_EQ(test, map(domain, PFN, 1, 1), 0);
	table = table_of(domain, PFN, 1);
	/* The unmapper cleared and dropped; a mapper comes before it reaps. */
	WRITE_ONCE(empty_tables_find(domain, PFN, &(int){ 0 })->val, 0);
	KUNIT_ASSERT_TRUE(test, drop(table, 1));
	KUNIT_ASSERT_EQ(test, map(domain, PFN + 1, 1, 1), 0);
	rcu_read_lock();
	reap(domain, PFN, &burial);
	rcu_read_unlock();
	KUNIT_EXPECT_TRUE(test, list_empty(&burial.tables));
	KUNIT_EXPECT_PTR_EQ(test, table_of(domain, PFN + 1, 1), table);
	unmap(domain, PFN + 1, 1);
	free_domain(test, domain);
}

static void reused_tables_are_zero(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	unsigned long i;
	int round;

	for (round = 0; round < 20; round++) {
		for (i = 0; i < 16; i++) {
			KUNIT_ASSERT_EQ(test, map(domain, PFN + i * 512, 1, 512), 0);
			KUNIT_ASSERT_EQ(test, unmap(domain, PFN + i * 512, 512), 512);
		}
		synchronize_rcu();
	}
	/* map() has seen that every entry was clear. */
	free_domain(test, domain);
}

/* Threads on interleaved pages of one table; each checks its own entries. */
#define NR_THREADS	4
#define NR_ROUNDS	3000

struct racer {
	struct dmar_domain *domain;
	int number;
	int errors;
	struct completion done;
};

static int race(void *data)
{
	struct racer *racer = data;
	struct dma_pte *slot;
	int i, level;

	for (i = 0; i < NR_ROUNDS; i++) {
		unsigned long pfn = PFN + racer->number + i % 3 * NR_THREADS;

		racer->errors += map(racer->domain, pfn, 1, 1) != 0;
		rcu_read_lock();
		slot = empty_tables_find(racer->domain, pfn, &level);
		racer->errors += level != 1 || !dma_pte_present(slot);
		rcu_read_unlock();
		racer->errors += unmap(racer->domain, pfn, 1) != 1;
		if (!(i % 16))
			empty_tables_release(racer->domain, table_place(PFN, 1));
		cond_resched();
	}
	complete(&racer->done);
	return 0;
}

static void threads_share_a_table(struct kunit *test)
{
	struct dmar_domain *domain = make_domain(test);
	struct racer racers[NR_THREADS];
	int i;

	for (i = 0; i < NR_THREADS; i++) {
		racers[i] = (struct racer){ .domain = domain, .number = i };
		init_completion(&racers[i].done);
		KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(race, &racers[i], "racer/%d", i)));
	}
	for (i = 0; i < NR_THREADS; i++) {
		wait_for_completion(&racers[i].done);
		KUNIT_EXPECT_EQ(test, racers[i].errors, 0);
	}
	free_domain(test, domain);
}

static struct kunit_case empty_tables_cases[] = {
	KUNIT_CASE_PARAM(last_unmap_frees_all_tables, format_gen_params),
	KUNIT_CASE_PARAM(neighbours_keep_upper_tables, format_gen_params),
	KUNIT_CASE_PARAM(range_spans_tables, format_gen_params),
	KUNIT_CASE_PARAM(unmapping_a_hole_reaches_no_neighbour, format_gen_params),
	KUNIT_CASE_PARAM(large_page_takes_the_place_of_tables, format_gen_params),
	KUNIT_CASE_PARAM(huge_page_takes_the_place_of_a_tree, format_gen_params),
	KUNIT_CASE(table_emptied_again_and_again_is_kept),
	KUNIT_CASE(pass_keeps_no_table),
	KUNIT_CASE(kept_tables_are_bounded),
	KUNIT_CASE(late_promise_meets_a_dead_table),
	KUNIT_CASE(promise_revives_an_empty_table),
	KUNIT_CASE(reused_tables_are_zero),
	KUNIT_CASE_PARAM(threads_share_a_table, format_gen_params),
	{}
};

static struct kunit_suite empty_tables_suite = {
	.name = "intel_iommu_empty_tables",
	.test_cases = empty_tables_cases,
};

kunit_test_suite(empty_tables_suite);
