// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of batches: which folios are unmapped together, and when those
 * that have moved can be used again. Included by batch.c.
 *
 * Their memory is mapped, by a mm of the test's own.
 */
#include <kunit/test.h>
#include <linux/mman.h>
#include <linux/rmap.h>
#include <linux/uaccess.h>

#include "../migrate_offload/hooks.h"

#define NR_FOLIOS	8

struct batch_test {
	struct list_head from;		/* isolated */
	struct list_head unmapped;
	struct list_head destinations;
	struct folio *srcs[NR_FOLIOS];
	struct folio *dsts[NR_FOLIOS];
	unsigned int wanted;		/* destinations that were asked for */
};

static unsigned long word(unsigned int i)
{
	return 0x5eed0000UL + i;
}

static void isolate_at(struct kunit *test, struct batch_test *t,
		       unsigned int i, unsigned long addr)
{
	struct migrate_claims claims = {};
	struct page *page;

	KUNIT_ASSERT_EQ(test, 0, put_user(word(i), (unsigned long __user *)addr));
	KUNIT_ASSERT_EQ(test, 1, get_user_pages_fast(addr, 1, 0, &page));
	t->srcs[i] = page_folio(page);
	lru_add_drain();
	KUNIT_ASSERT_TRUE(test, migrate_claim(&claims, t->srcs[i], &t->from));
	migrate_isolate_claimed(&claims);
	folio_put(t->srcs[i]);
}

/* Memory of its own: no VMA beside it may share its anon_vma */
static unsigned long map_pages(struct kunit *test, unsigned int nr)
{
	unsigned long len = (nr + 2) * PAGE_SIZE;
	unsigned long addr = kunit_vm_mmap(test, NULL, 0, len, PROT_NONE,
					   MAP_PRIVATE | MAP_ANONYMOUS, 0);

	KUNIT_ASSERT_NE(test, 0, addr);
	addr = kunit_vm_mmap(test, NULL, addr + PAGE_SIZE, nr * PAGE_SIZE,
			     PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 0);
	KUNIT_ASSERT_NE(test, 0, addr);
	return addr;
}

static struct batch_test *batch_test(struct kunit *test)
{
	struct batch_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	INIT_LIST_HEAD(&t->from);
	INIT_LIST_HEAD(&t->unmapped);
	INIT_LIST_HEAD(&t->destinations);
	return t;
}

static struct folio *new_folio(struct folio *src, unsigned long private)
{
	struct batch_test *t = (struct batch_test *)private;

	t->wanted++;
	return folio_alloc(GFP_HIGHUSER_MOVABLE, folio_order(src));
}

/* As migrate_pages_batch() begins with. Return: how many are unmapped. */
static unsigned int unmap_some(struct batch_test *t)
{
	unsigned int nr;

	migrate_unmap_ranges(&t->from, new_folio, NULL, (unsigned long)t,
			     &t->unmapped, &t->destinations);
	nr = list_count_nodes(&t->unmapped);
	try_to_unmap_flush();
	return nr;
}

/* Nothing has moved: put all back */
static void put_back(struct batch_test *t)
{
	struct folio *src, *dst, *next;

	dst = list_first_entry(&t->destinations, struct folio, lru);
	list_for_each_entry(src, &t->unmapped, lru) {
		next = list_next_entry(dst, lru);
		remove_migration_ptes(src, src, 0);
		put_anon_vma(folio_anon_vma(src));
		folio_unlock(src);
		dst->private = NULL;
		list_del(&dst->lru);
		folio_unlock(dst);
		folio_put(dst);
		dst = next;
	}
	list_splice_init(&t->unmapped, &t->from);
	putback_movable_pages(&t->from);
}

static void one_folio_is_left_to_the_walk(struct kunit *test)
{
	struct batch_test *t = batch_test(test);

	isolate_at(test, t, 0, map_pages(test, 1));
	KUNIT_EXPECT_EQ(test, 0, unmap_some(t));
	KUNIT_EXPECT_EQ(test, 0, t->wanted);
	put_back(t);
}

static void two_neighbours_are_unmapped_together(struct kunit *test)
{
	struct batch_test *t = batch_test(test);
	unsigned long addr = map_pages(test, 2);

	isolate_at(test, t, 0, addr + PAGE_SIZE);
	isolate_at(test, t, 1, addr);
	KUNIT_EXPECT_EQ(test, 2, unmap_some(t));
	KUNIT_EXPECT_EQ(test, 2, t->wanted);
	put_back(t);
}

/* Whose neighbour on the list is another's is as alone as a single one */
static void folios_of_two_vmas_in_turns_are_left_to_the_walk(struct kunit *test)
{
	struct batch_test *t = batch_test(test);
	unsigned long a = map_pages(test, NR_FOLIOS / 2);
	unsigned long b = map_pages(test, NR_FOLIOS / 2);
	unsigned int i;

	for (i = 0; i < NR_FOLIOS; i++)
		isolate_at(test, t, i, (i % 2 ? b : a) + i / 2 * PAGE_SIZE);
	KUNIT_ASSERT_PTR_NE(test, folio_anon_vma(t->srcs[0]),
			    folio_anon_vma(t->srcs[1]));
	KUNIT_EXPECT_EQ(test, 0, unmap_some(t));
	KUNIT_EXPECT_EQ(test, 0, t->wanted);
	put_back(t);
}

/* Five in a row, of which the third is busy. Return: the third */
static struct folio *isolate_five(struct kunit *test, struct batch_test *t)
{
	unsigned long addr = map_pages(test, 5);
	unsigned int i;

	for (i = 0; i < 5; i++)
		isolate_at(test, t, i, addr + i * PAGE_SIZE);
	return t->srcs[2];
}

/* A reference that nobody explains: it could not move, nor do others wait */
static void pinned_folio_is_left_to_the_walk(struct kunit *test)
{
	struct batch_test *t = batch_test(test);
	struct folio *pinned = isolate_five(test, t);

	folio_get(pinned);
	KUNIT_EXPECT_EQ(test, 4, unmap_some(t));
	KUNIT_EXPECT_EQ(test, 4, t->wanted);
	folio_put(pinned);
	put_back(t);
}

static void locked_folio_is_left_to_the_walk(struct kunit *test)
{
	struct batch_test *t = batch_test(test);
	struct folio *locked = isolate_five(test, t);

	folio_lock(locked);
	KUNIT_EXPECT_EQ(test, 4, unmap_some(t));
	KUNIT_EXPECT_EQ(test, 4, t->wanted);
	folio_unlock(locked);
	put_back(t);
}

static void one_folio_that_can_be_locked_is_no_range(struct kunit *test)
{
	struct batch_test *t = batch_test(test);
	unsigned long addr = map_pages(test, 2);
	unsigned int i;

	for (i = 0; i < 2; i++) {
		isolate_at(test, t, i, addr + i * PAGE_SIZE);
		t->dsts[i] = new_folio(t->srcs[i], (unsigned long)t);
		KUNIT_ASSERT_NOT_NULL(test, t->dsts[i]);
	}
	folio_lock(t->srcs[1]);
	KUNIT_EXPECT_EQ(test, 0, migrate_folios_unmap(t->srcs, t->dsts, 2));
	KUNIT_EXPECT_FALSE(test, folio_test_locked(t->srcs[0]));
	KUNIT_EXPECT_FALSE(test, folio_test_locked(t->dsts[0]));
	KUNIT_EXPECT_TRUE(test, folio_mapped(t->srcs[0]));
	folio_unlock(t->srcs[1]);
	for (i = 0; i < 2; i++)
		folio_put(t->dsts[i]);
	put_back(t);
}

#ifdef CONFIG_X86
/* A CPU that is offline: no thread runs there that has its own use for an mm's bit */
static unsigned int offline_cpu(struct kunit *test)
{
	unsigned int cpu;

	for_each_cpu_andnot(cpu, cpu_possible_mask, cpu_online_mask)
		return cpu;
	kunit_skip(test, "no CPU is offline");
}

/*
 * Unmap as many folios as there are addresses from @addr on, so far apart. Return: how
 * many flushes are noted by then.
 */
static u64 notes_of(struct kunit *test, unsigned long addr, unsigned long apart)
{
	struct batch_test *t = batch_test(test);
	struct mm_struct *mm = current->mm;
	unsigned int other = offline_cpu(test);
	unsigned int i;
	u64 before;

	for (i = 0; i < NR_FOLIOS; i++)
		isolate_at(test, t, i, addr + i * apart);
	/* As if this CPU ran a thread of it */
	cpumask_set_cpu(other, mm_cpumask(mm));
	before = atomic64_read(&mm->context.tlb_gen);
	KUNIT_EXPECT_EQ(test, NR_FOLIOS, unmap_some(t));
	before = atomic64_read(&mm->context.tlb_gen) - before;
	cpumask_clear_cpu(other, mm_cpumask(mm));
	put_back(t);
	return before;
}

/*
 * One flush of all of the mm is noted for what is deferred; and where it is page
 * by page, which is here if the option is taken away, one for each page that was
 * unmapped, and not for those in between.
 */
static void flush_is_noted_of_what_was_unmapped(struct kunit *test)
{
	unsigned long notes = IS_ENABLED(CONFIG_ARCH_BATCHED_UNMAP_FLUSHES_MM) ?
			      1 : NR_FOLIOS;

	KUNIT_EXPECT_EQ(test, notes,
			notes_of(test, map_pages(test, 4 * NR_FOLIOS),
				 4 * PAGE_SIZE));
}

/* Whoever locks a table next must find the note: it may unmap what it finds there */
static void flush_is_noted_before_a_table_is_unlocked(struct kunit *test)
{
	unsigned long pages = (NR_FOLIOS + 1) * PTRS_PER_PTE;

	KUNIT_EXPECT_EQ(test, NR_FOLIOS,
			notes_of(test, ALIGN(map_pages(test, pages), PMD_SIZE),
				 PMD_SIZE));
}
#endif

/* One structure serves all folios of a call */
static void each_folio_is_allocated_by_the_same_rules(struct kunit *test)
{
	nodemask_t allowed = node_states[N_MEMORY];
	struct migration_target_control mtc = {
		.nid = numa_mem_id(),
		.nmask = &allowed,
		.gfp_mask = GFP_HIGHUSER_MOVABLE,
	};
	struct folio *src = folio_alloc(GFP_HIGHUSER_MOVABLE, 0), *dst;

	KUNIT_ASSERT_NOT_NULL(test, src);
	dst = alloc_demote_folio(src, (unsigned long)&mtc);
	KUNIT_EXPECT_NOT_NULL(test, dst);
	KUNIT_EXPECT_PTR_EQ(test, &allowed, mtc.nmask);
	KUNIT_EXPECT_TRUE(test, mtc.gfp_mask == GFP_HIGHUSER_MOVABLE);
	if (dst)
		folio_put(dst);
	folio_put(src);
}

#ifdef CONFIG_MIGRATE_OFFLOAD
static struct migrate_call call_of(struct batch_test *t,
				   struct migrate_sources *sources,
				   struct list_head *failed)
{
	migrate_sources_init(sources, MR_SYSCALL);
	return (struct migrate_call) {
		.get_new_folio = new_folio,
		.private = (unsigned long)t,
		.reason = MR_SYSCALL,
		.sources = sources,
		.failed = failed,
	};
}

/* Whoever finds a folio that is mapped can isolate it, memory failure not least */
static void folios_are_on_their_lists_once_they_are_mapped(struct kunit *test)
{
	struct batch_test *t = batch_test(test);
	struct migrate_sources sources;
	LIST_HEAD(failed);
	LIST_HEAD(moving);
	const struct migrate_call call = call_of(t, &sources, &failed);
	unsigned long addr = map_pages(test, NR_FOLIOS), found;
	unsigned int i;

	for (i = 0; i < NR_FOLIOS; i++) {
		isolate_at(test, t, i, addr + i * PAGE_SIZE);
		t->dsts[i] = new_folio(t->srcs[i], (unsigned long)t);
		KUNIT_ASSERT_NOT_NULL(test, t->dsts[i]);
		list_add_tail(&t->dsts[i]->lru, &moving);
	}
	KUNIT_ASSERT_EQ(test, NR_FOLIOS,
			migrate_offload_unmap(&call, t->srcs, t->dsts,
					      NR_FOLIOS));
	try_to_unmap_flush();
	for (i = 0; i < NR_FOLIOS; i++) {
		KUNIT_ASSERT_EQ(test, 0,
				migrate_offload_move(&call, t->srcs[i],
						     t->dsts[i], false));
		KUNIT_EXPECT_FALSE(test, folio_mapped(t->dsts[i]));
	}
	migrate_settle(&sources);
	for (i = 0; i < NR_FOLIOS; i++) {
		KUNIT_EXPECT_TRUE(test, folio_mapped(t->dsts[i]));
		KUNIT_EXPECT_FALSE(test, folio_test_locked(t->dsts[i]));
		if (!lru_gen_enabled())
			KUNIT_EXPECT_TRUE(test, folio_test_lru(t->dsts[i]));
		KUNIT_EXPECT_EQ(test, 0,
				get_user(found, (unsigned long __user *)
					 (addr + i * PAGE_SIZE)));
		KUNIT_EXPECT_EQ(test, word(i), found);
	}
	migrate_sources_free(&sources);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->from));
	KUNIT_EXPECT_TRUE(test, list_empty(&moving));
}

#define LONG_ORDER	7
#define NR_SHORT	2

/* Those that have moved are mapped before the CPU copies one that takes long */
static void folios_do_not_wait_for_a_long_copy(struct kunit *test)
{
	unsigned long always = READ_ONCE(huge_anon_orders_always);
	unsigned long addr = map_pages(test, NR_SHORT);
	struct batch_test *t = batch_test(test);
	struct migrate_sources sources;
	LIST_HEAD(failed);
	LIST_HEAD(moving);
	const struct migrate_call call = call_of(t, &sources, &failed);
	unsigned int i;

	for (i = 0; i < NR_SHORT; i++)
		isolate_at(test, t, i, addr + i * PAGE_SIZE);
	WRITE_ONCE(huge_anon_orders_always, BIT(LONG_ORDER));
	isolate_at(test, t, NR_SHORT, ALIGN(map_pages(test, 2 << LONG_ORDER),
					    PAGE_SIZE << LONG_ORDER));
	WRITE_ONCE(huge_anon_orders_always, always);
	KUNIT_ASSERT_EQ(test, LONG_ORDER, folio_order(t->srcs[NR_SHORT]));
	for (i = 0; i <= NR_SHORT; i++) {
		t->dsts[i] = new_folio(t->srcs[i], (unsigned long)t);
		KUNIT_ASSERT_NOT_NULL(test, t->dsts[i]);
		list_add_tail(&t->dsts[i]->lru, &moving);
	}
	KUNIT_ASSERT_EQ(test, NR_SHORT,
			migrate_offload_unmap(&call, t->srcs, t->dsts, NR_SHORT));
	KUNIT_ASSERT_EQ(test, 1,
			migrate_offload_unmap(&call, t->srcs + NR_SHORT,
					      t->dsts + NR_SHORT, 1));
	try_to_unmap_flush();
	for (i = 0; i <= NR_SHORT; i++) {
		KUNIT_EXPECT_FALSE(test, folio_mapped(t->dsts[0]));
		KUNIT_ASSERT_EQ(test, 0,
				migrate_offload_move(&call, t->srcs[i],
						     t->dsts[i], false));
	}
	for (i = 0; i <= NR_SHORT; i++)
		KUNIT_EXPECT_TRUE(test, folio_mapped(t->dsts[i]));
	migrate_settle(&sources);
	migrate_sources_free(&sources);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->from));
}
#endif

#ifdef CONFIG_MIGRATE_MAPPED
#define LARGE_ORDER	4
#define NR_VMAS		4

/* What ends a range is not written to, nor copied twice */
static void folios_of_several_vmas_are_copied_once(struct kunit *test)
{
	unsigned long always = READ_ONCE(huge_anon_orders_always);
	unsigned long pages = 2 << LARGE_ORDER;
	struct batch_test *t = batch_test(test);
	struct migrate_sources sources = {};
	unsigned int i;

	WRITE_ONCE(huge_anon_orders_always, BIT(LARGE_ORDER));
	for (i = 0; i < NR_VMAS; i++)
		isolate_at(test, t, i, ALIGN(map_pages(test, pages),
					     PAGE_SIZE << LARGE_ORDER));
	WRITE_ONCE(huge_anon_orders_always, always);
	for (i = 0; i < NR_VMAS; i++) {
		t->dsts[i] = new_folio(t->srcs[i], (unsigned long)t);
		KUNIT_ASSERT_NOT_NULL(test, t->dsts[i]);
		KUNIT_ASSERT_EQ(test, 1, migrate_folios_protect(t->srcs + i,
								t->dsts + i, 1));
		list_move_tail(&t->srcs[i]->lru, &t->unmapped);
		list_add_tail(&t->dsts[i]->lru, &t->destinations);
	}
	try_to_unmap_flush();
	migrate_copy_range(&sources, t->srcs[0], t->dsts[0], &t->unmapped);
	for (i = 0; i < NR_VMAS; i++) {
		KUNIT_EXPECT_FALSE(test, folio_mapped(t->srcs[i]));
		KUNIT_EXPECT_FALSE(test, migrate_folio_needs_copy(t->dsts[i]));
	}
	put_back(t);
}

#define SMALL_ORDER	2
#define NR_SMALL	(3 * MIGRATE_MAPPED_PAGES >> SMALL_ORDER)

struct locked_test {
	struct folio *dsts[NR_SMALL];
	unsigned int nr;
	unsigned int most_pages;	/* locked at one moment */
};

/* A destination is locked as long as its source is */
static struct folio *new_folio_of_many(struct folio *src, unsigned long private)
{
	struct locked_test *l = (struct locked_test *)private;
	unsigned int i, pages = 0;

	for (i = 0; i < l->nr; i++)
		if (folio_test_locked(l->dsts[i]))
			pages += folio_nr_pages(l->dsts[i]);
	l->most_pages = max(l->most_pages, pages);
	l->dsts[l->nr] = folio_alloc(GFP_HIGHUSER_MOVABLE, folio_order(src));
	return l->dsts[l->nr++];
}

/* Whoever needs the lock of one waits until all that are locked with it are copied */
static void few_pages_are_locked_while_they_are_copied(struct kunit *test)
{
	unsigned long always = READ_ONCE(huge_anon_orders_always);
	struct batch_test *t = batch_test(test);
	struct locked_test *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	unsigned long size = PAGE_SIZE << SMALL_ORDER, addr;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, l);
	addr = map_pages(test, (NR_SMALL + 1) << SMALL_ORDER);
	WRITE_ONCE(huge_anon_orders_always, BIT(SMALL_ORDER));
	for (i = 0; i < NR_SMALL; i++)
		isolate_at(test, t, 0, ALIGN(addr, size) + i * size);
	WRITE_ONCE(huge_anon_orders_always, always);
	KUNIT_EXPECT_EQ(test, 0,
			migrate_pages(&t->from, new_folio_of_many, NULL,
				      (unsigned long)l, MIGRATE_ASYNC, MR_SYSCALL,
				      NULL));
	KUNIT_EXPECT_EQ(test, NR_SMALL, l->nr);
	KUNIT_EXPECT_GT(test, l->most_pages, 0);
	KUNIT_EXPECT_LT(test, l->most_pages, MIGRATE_MAPPED_PAGES);
	putback_movable_pages(&t->from);
}
#endif

static struct kunit_case batch_cases[] = {
	KUNIT_CASE(one_folio_is_left_to_the_walk),
	KUNIT_CASE(two_neighbours_are_unmapped_together),
	KUNIT_CASE(folios_of_two_vmas_in_turns_are_left_to_the_walk),
	KUNIT_CASE(pinned_folio_is_left_to_the_walk),
	KUNIT_CASE(locked_folio_is_left_to_the_walk),
	KUNIT_CASE(one_folio_that_can_be_locked_is_no_range),
#ifdef CONFIG_X86
	KUNIT_CASE(flush_is_noted_of_what_was_unmapped),
	KUNIT_CASE(flush_is_noted_before_a_table_is_unlocked),
#endif
#ifdef CONFIG_MIGRATE_MAPPED
	KUNIT_CASE(folios_of_several_vmas_are_copied_once),
	KUNIT_CASE(few_pages_are_locked_while_they_are_copied),
#endif
	KUNIT_CASE(each_folio_is_allocated_by_the_same_rules),
#ifdef CONFIG_MIGRATE_OFFLOAD
	KUNIT_CASE(folios_are_on_their_lists_once_they_are_mapped),
	KUNIT_CASE(folios_do_not_wait_for_a_long_copy),
#endif
	{ }
};

static struct kunit_suite batch_suite = {
	.name = "migrate_batches",
	.test_cases = batch_cases,
};

kunit_test_suite(batch_suite);
