// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of folios that are copied while they are mapped: each way to write to
 * one, or to keep hold of it, is tried at the moment when it would do harm. Included
 * by migrate_mapped.c.
 *
 * The memory is mapped by the task that runs a case. Stale TLB entries need a second
 * CPU: the kselftests of migrate_runs have that.
 */
#include <kunit/test.h>
#include <linux/highmem.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <linux/uaccess.h>
#include <asm/tlb.h>

#include "migrate_compat.h"

#define PTE_ORDER	4
#define OLD_BYTE	1
#define NEW_BYTE	2

struct mapped_test {
	unsigned long always;	/* what the orders were before */
	unsigned long addr;
	struct folio *folio;	/* isolated and locked */
#ifdef CONFIG_MMU_NOTIFIER
	struct mmu_notifier notifier;
	unsigned int nr_events[MMU_NOTIFY_EXCLUSIVE + 1];
#endif
};

static char __user *byte_at(struct mapped_test *t, size_t offset)
{
	return (char __user *)t->addr + offset;
}

/* Have the folio isolated and locked, as migrate_folio_unmap() has it */
static void mapped_take(struct kunit *test, struct mapped_test *t)
{
	unsigned int order = *(const unsigned int *)test->param_value;
	struct page *page;

	KUNIT_ASSERT_EQ(test, 0, put_user(OLD_BYTE, byte_at(t, 0)));
	KUNIT_ASSERT_EQ(test, 1, get_user_pages_fast(t->addr, 1, 0, &page));
	t->folio = page_folio(page);
	if (folio_order(t->folio) != order) {
		put_page(page);
		t->folio = NULL;
		kunit_skip(test, "no folio of order %u to be had", order);
	}
	lru_add_drain_all();
	if (!folio_isolate_lru(t->folio)) {
		put_page(page);
		t->folio = NULL;
		KUNIT_FAIL_AND_ABORT(test, "cannot be isolated");
	}
	put_page(page);
	folio_lock(t->folio);
}

static int mapped_test_init(struct kunit *test)
{
	struct mapped_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	test->priv = t;
	t->always = READ_ONCE(huge_anon_orders_always);
	return 0;
}

/* By the task that runs the case: whose memory it is */
static struct mapped_test *mapped_begin(struct kunit *test)
{
	unsigned int order = *(const unsigned int *)test->param_value;
	struct mapped_test *t = test->priv;

	t->addr = kunit_vm_mmap(test, NULL, 0, 2 * PMD_SIZE,
				PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(t->addr) || !t->addr);
	t->addr = ALIGN(t->addr, PMD_SIZE);
	WRITE_ONCE(huge_anon_orders_always, BIT(order));
	mapped_take(test, t);
	return t;
}

static void mapped_test_exit(struct kunit *test)
{
	struct mapped_test *t = test->priv;

	WRITE_ONCE(huge_anon_orders_always, t->always);
	if (!t->folio)
		return;
	WRITE_ONCE(migrate_given_up[migrate_record_of(t->folio)], 0);
	folio_unlock(t->folio);
	folio_putback_lru(t->folio);
}

static void protect_folio(struct kunit *test, struct mapped_test *t)
{
	KUNIT_ASSERT_TRUE(test, migrate_protect(t->folio));
	try_to_unmap_flush();
}

/* May it be written to without a fault? */
static bool is_writable(struct mapped_test *t, size_t offset)
{
	struct page *page;

	if (get_user_pages_fast_only(t->addr + offset, 1, FOLL_WRITE, &page) != 1)
		return false;
	put_page(page);
	return true;
}

static size_t last_page(struct mapped_test *t)
{
	return folio_size(t->folio) - PAGE_SIZE;
}

/* The copy is good: map the folio again, as if it had moved, and nobody pays */
static void expect_good(struct kunit *test, struct mapped_test *t)
{
	KUNIT_EXPECT_TRUE(test, migrate_protected_alone(t->folio));
	KUNIT_EXPECT_TRUE(test, migrate_unmap_protected(t->folio, true));
	try_to_unmap_flush();
	KUNIT_EXPECT_FALSE(test, folio_mapped(t->folio));
	remove_migration_ptes(t->folio, t->folio, 0);
	KUNIT_EXPECT_TRUE(test, is_writable(t, 0));
	KUNIT_EXPECT_TRUE(test, is_writable(t, last_page(t)));
}

static void expect_void(struct kunit *test, struct mapped_test *t)
{
	KUNIT_EXPECT_FALSE(test, migrate_unmap_protected(t->folio, true));
	KUNIT_EXPECT_TRUE(test, folio_mapped(t->folio));
}

static void set_writable(struct kunit *test, struct mapped_test *t,
			 bool writable)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma, *prev;
	struct vma_iterator vmi;
	struct mmu_gather tlb;
	unsigned long flags;
	int error = -ENOENT;

	vma_iter_init(&vmi, mm, t->addr);
	mmap_write_lock(mm);
	vma = vma_find(&vmi, t->addr + 1);
	if (vma) {
		/* It has to stand at the VMA that is changed */
		prev = vma_prev(&vmi);
		vma_find(&vmi, vma->vm_end);
		flags = vma->vm_flags & ~VM_WRITE;
		if (writable)
			flags |= VM_WRITE;
		tlb_gather_mmu(&tlb, mm);
		error = mprotect_fixup(&vmi, &tlb, vma, &prev, vma->vm_start,
				       vma->vm_end, flags);
		tlb_finish_mmu(&tlb);
	}
	mmap_write_unlock(mm);
	KUNIT_ASSERT_EQ(test, 0, error);
}

/* As a device does that writes by a short pin, and does not say that it has */
static void write_by_pin(struct kunit *test, struct mapped_test *t,
			 unsigned int flags)
{
	struct page *page;
	long nr;

	mmap_read_lock(current->mm);
	nr = pin_user_pages(t->addr, 1, FOLL_WRITE | flags, &page);
	mmap_read_unlock(current->mm);
	KUNIT_ASSERT_EQ(test, 1, nr);
	memset_page(page, 0, NEW_BYTE, 1);
	unpin_user_page(page);
}

static void untouched_folio_is_unmapped(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	protect_folio(test, t);
	KUNIT_EXPECT_FALSE(test, is_writable(t, 0));
	KUNIT_EXPECT_FALSE(test, is_writable(t, last_page(t)));
	expect_good(test, t);
}

static void reading_does_not_matter(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);
	char byte = 0;

	protect_folio(test, t);
	KUNIT_EXPECT_EQ(test, 0, get_user(byte, byte_at(t, 0)));
	KUNIT_EXPECT_EQ(test, OLD_BYTE, byte);
	expect_good(test, t);
}

static void writing_makes_the_copy_void(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	protect_folio(test, t);
	KUNIT_EXPECT_EQ(test, 0, put_user(NEW_BYTE, byte_at(t, last_page(t))));
	expect_void(test, t);
	/* And whoever did not write does not pay */
	KUNIT_EXPECT_TRUE(test, is_writable(t, 0));
}

static void what_was_not_copied_is_as_it_was(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	protect_folio(test, t);
	KUNIT_EXPECT_FALSE(test, migrate_unmap_protected(t->folio, false));
	KUNIT_EXPECT_TRUE(test, folio_mapped(t->folio));
	KUNIT_EXPECT_TRUE(test, is_writable(t, 0));
	KUNIT_EXPECT_TRUE(test, is_writable(t, last_page(t)));
}

static void writing_by_pin_is_noticed(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	protect_folio(test, t);
	write_by_pin(test, t, 0);
	expect_void(test, t);
}

/* mprotect() must not make writable what is clean: the next one hides it again */
static void writing_between_two_mprotects_is_noticed(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	set_writable(test, t, false);
	protect_folio(test, t);
	set_writable(test, t, true);
	write_by_pin(test, t, 0);
	set_writable(test, t, false);
	expect_void(test, t);
}

/* As ptrace() writes to what its owner may only read */
static void writing_by_force_is_noticed(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	set_writable(test, t, false);
	protect_folio(test, t);
	write_by_pin(test, t, FOLL_FORCE);
	expect_void(test, t);
}

/* A dirty bit must not go meanwhile */
static void writing_before_madv_free_is_noticed(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	/* As if it had come from swap: then only the protection says that it is dirty */
	folio_clear_dirty(t->folio);
	protect_folio(test, t);
	KUNIT_EXPECT_EQ(test, 0, put_user(NEW_BYTE, byte_at(t, 0)));
	KUNIT_EXPECT_EQ(test, 0, do_madvise(current->mm, t->addr,
					    folio_size(t->folio), MADV_FREE));
	set_writable(test, t, false);
	expect_void(test, t);
}

static void lazily_freed_folio_is_not_protected(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	folio_clear_swapbacked(t->folio);
	KUNIT_EXPECT_FALSE(test, migrate_protect(t->folio));
	folio_set_swapbacked(t->folio);
}

static void folio_in_use_is_not_protected(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	folio_get(t->folio);
	KUNIT_EXPECT_FALSE(test, migrate_protect(t->folio));
	folio_put(t->folio);
}

static void folio_in_use_is_not_copied(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);
	struct folio *dst = folio_alloc(GFP_KERNEL | __GFP_COMP,
					folio_order(t->folio));

	KUNIT_ASSERT_NOT_NULL(test, dst);
	protect_folio(test, t);
	folio_get(t->folio);
	KUNIT_EXPECT_FALSE(test, migrate_protected_alone(t->folio));
	KUNIT_EXPECT_EQ(test, -EAGAIN, migrate_copy_protected(dst, t->folio));
	folio_put(t->folio);
	KUNIT_EXPECT_EQ(test, 0, migrate_copy_protected(dst, t->folio));
	folio_put(dst);
	expect_good(test, t);
}

static void poisoned_folio_is_not_read(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);
	struct folio *dst = folio_alloc(GFP_KERNEL | __GFP_COMP,
					folio_order(t->folio));

	KUNIT_ASSERT_NOT_NULL(test, dst);
	protect_folio(test, t);
	folio_set_has_hwpoisoned(t->folio);
	KUNIT_EXPECT_EQ(test, -EHWPOISON, migrate_copy_protected(dst, t->folio));
	folio_clear_has_hwpoisoned(t->folio);
	folio_put(dst);
	KUNIT_EXPECT_FALSE(test, migrate_unmap_protected(t->folio, false));
}

/* As fork does: from then on another process may have the page */
static void shared_page_is_noticed(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);
	struct page *page = &t->folio->page;

	/* One that a PMD maps has a single flag */
	if (!folio_test_pmd_mappable(t->folio))
		page = folio_page(t->folio, folio_nr_pages(t->folio) - 1);
	protect_folio(test, t);
	ClearPageAnonExclusive(page);
	expect_void(test, t);
	KUNIT_EXPECT_FALSE(test, is_writable(t, last_page(t)));
	SetPageAnonExclusive(page);
}

static void shared_folio_is_not_protected(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	ClearPageAnonExclusive(&t->folio->page);
	KUNIT_EXPECT_FALSE(test, migrate_protect(t->folio));
	SetPageAnonExclusive(&t->folio->page);
}

static void page_that_has_gone_is_noticed(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	protect_folio(test, t);
	KUNIT_EXPECT_EQ(test, 0, do_madvise(current->mm, t->addr + last_page(t),
					    PAGE_SIZE, MADV_DONTNEED));
	expect_void(test, t);
}

static void memory_that_is_tracked_is_not_protected(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);
	struct vm_area_struct *vma;

	if (!IS_ENABLED(CONFIG_MEM_SOFT_DIRTY))
		kunit_skip(test, "no soft-dirty bits");
	mmap_write_lock(current->mm);
	vma = find_vma(current->mm, t->addr);
	vm_flags_clear(vma, VM_SOFTDIRTY);
	mmap_write_unlock(current->mm);
	KUNIT_EXPECT_FALSE(test, migrate_protect(t->folio));
}

#ifdef CONFIG_MMU_NOTIFIER
static int note_event(struct mmu_notifier *notifier,
		      const struct mmu_notifier_range *range)
{
	struct mapped_test *t =
		container_of(notifier, struct mapped_test, notifier);

	if (range->start <= t->addr &&
	    range->end >= t->addr + folio_size(t->folio))
		t->nr_events[range->event]++;
	return 0;
}

static const struct mmu_notifier_ops note_ops = {
	.invalidate_range_start = note_event,
};

/* A virtual machine's page table may map what is writable there */
static void secondary_mmus_hear_of_it(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);

	t->notifier.ops = &note_ops;
	KUNIT_ASSERT_EQ(test, 0,
			mmu_notifier_register(&t->notifier, current->mm));
	protect_folio(test, t);
	KUNIT_EXPECT_EQ(test, 1, t->nr_events[MMU_NOTIFY_PROTECTION_PAGE]);
	KUNIT_EXPECT_EQ(test, 0, t->nr_events[MMU_NOTIFY_CLEAR]);
	expect_good(test, t);
	KUNIT_EXPECT_EQ(test, 1, t->nr_events[MMU_NOTIFY_CLEAR]);
	mmu_notifier_unregister(&t->notifier, current->mm);
}

#else
static void secondary_mmus_hear_of_it(struct kunit *test)
{
	kunit_skip(test, "no notifiers");
}
#endif

static void mapping_is_given_up_for_a_while(struct kunit *test)
{
	struct mapped_test *t = mapped_begin(test);
	unsigned int nr = migrate_record_of(t->folio), i;

	/* What other cases have left, whose folios had the same record */
	records[nr].copies = 0;
	records[nr].voids = 0;
	/* One in eight is not too often */
	for (i = 0; i < 2 * MAX_COPIES; i++) {
		record(t->folio, 7, 1);
		KUNIT_EXPECT_TRUE(test, migrate_mapped_fits(t->folio));
	}
	/* Nor is one alone, if nothing else is known */
	records[nr].copies = 0;
	records[nr].voids = 0;
	record(t->folio, 0, MIN_VOID - 1);
	KUNIT_EXPECT_TRUE(test, migrate_mapped_fits(t->folio));
	record(t->folio, 0, 1);
	KUNIT_EXPECT_FALSE(test, migrate_mapped_fits(t->folio));
	KUNIT_EXPECT_FALSE(test, migrate_protect(t->folio));
	WRITE_ONCE(migrate_given_up[nr], jiffies - 1);
	KUNIT_EXPECT_TRUE(test, migrate_mapped_fits(t->folio));
	protect_folio(test, t);
	expect_good(test, t);
}

static const unsigned int mapped_orders[] = { PTE_ORDER, HPAGE_PMD_ORDER };

static void order_to_desc(const unsigned int *order, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "order %u", *order);
}

KUNIT_ARRAY_PARAM(mapped_order, mapped_orders, order_to_desc);

/* --- files --- */

/* As munmap() does in other processes: the entry goes before the folio knows of it */
static void swap_entry(struct kunit *test, unsigned long addr, pte_t *entry)
{
	spinlock_t *ptl;	/* of the page table */
	pte_t *ptep = get_locked_pte(current->mm, addr, &ptl);
	pte_t old;

	KUNIT_ASSERT_NOT_NULL(test, ptep);
	old = ptep_get_and_clear(current->mm, addr, ptep);
	if (!pte_none(*entry))
		set_pte_at(current->mm, addr, ptep, *entry);
	*entry = old;
	pte_unmap_unlock(ptep, ptl);
}

static struct file *one_page_file(struct kunit *test)
{
	struct file *file = shmem_file_setup("kunit_mapped", PAGE_SIZE,
					     EMPTY_VMA_FLAGS);

	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	return file;
}

static unsigned long map_file_page(struct kunit *test, struct file *file)
{
	unsigned long addr = kunit_vm_mmap(test, file, 0, PAGE_SIZE, PROT_READ,
					   MAP_SHARED, 0);
	char byte;

	KUNIT_ASSERT_NE(test, 0, addr);
	KUNIT_ASSERT_EQ(test, 0, get_user(byte, (char __user *)addr));
	return addr;
}

static struct folio *locked_folio_at(struct kunit *test, unsigned long addr)
{
	struct page *page;

	KUNIT_ASSERT_EQ(test, 1, get_user_pages_fast(addr, 1, 0, &page));
	folio_lock(page_folio(page));
	return page_folio(page);
}

/* One is unmapped while the lock of its file's mappings is held, and that of no other */
static void two_files_are_no_range(struct kunit *test)
{
	struct folio *folios[2];
	struct file *files[2];
	unsigned int i;

	for (i = 0; i < 2; i++) {
		files[i] = one_page_file(test);
		folios[i] = locked_folio_at(test, map_file_page(test, files[i]));
	}
	KUNIT_EXPECT_FALSE(test, migrate_goes_with(folios[1], folios[0]));
	KUNIT_EXPECT_EQ(test, 1, migrate_files_unmap(folios, 2));
	try_to_unmap_flush();
	KUNIT_EXPECT_FALSE(test, folio_mapped(folios[0]));
	KUNIT_EXPECT_TRUE(test, folio_mapped(folios[1]));
	for (i = 0; i < 2; i++) {
		/* Or whoever unmaps it does not come to an end */
		remove_migration_ptes(folios[i], folios[i], 0);
		folio_unlock(folios[i]);
		folio_put(folios[i]);
		fput(files[i]);
	}
}

static void entries_are_back_if_one_was_not_seen(struct kunit *test)
{
	struct file *file = one_page_file(test);
	pte_t entry = __pte(0);
	unsigned long addr[2];
	struct page *page;
	struct folio *folio;
	unsigned int i;
	int got;

	for (i = 0; i < ARRAY_SIZE(addr); i++)
		addr[i] = map_file_page(test, file);
	folio = locked_folio_at(test, addr[0]);
	KUNIT_EXPECT_EQ(test, 2, folio_mapcount(folio));
	swap_entry(test, addr[1], &entry);
	KUNIT_EXPECT_EQ(test, 0, migrate_files_unmap(&folio, 1));
	try_to_unmap_flush();
	swap_entry(test, addr[1], &entry);
	KUNIT_EXPECT_EQ(test, 2, folio_mapcount(folio));
	for (i = 0; i < ARRAY_SIZE(addr); i++) {
		got = get_user_pages_fast_only(addr[i], 1, 0, &page);
		KUNIT_EXPECT_EQ(test, 1, got);
		if (got == 1)
			put_page(page);
	}
	/* Or whoever unmaps it does not come to an end */
	remove_migration_ptes(folio, folio, 0);
	folio_unlock(folio);
	folio_put(folio);
	fput(file);
}

#define BY_ORDER(name)	KUNIT_CASE_PARAM(name, mapped_order_gen_params)

static struct kunit_case mapped_cases[] = {
	BY_ORDER(untouched_folio_is_unmapped),
	BY_ORDER(reading_does_not_matter),
	BY_ORDER(writing_makes_the_copy_void),
	BY_ORDER(what_was_not_copied_is_as_it_was),
	BY_ORDER(writing_by_pin_is_noticed),
	BY_ORDER(writing_between_two_mprotects_is_noticed),
	BY_ORDER(writing_by_force_is_noticed),
	BY_ORDER(writing_before_madv_free_is_noticed),
	BY_ORDER(lazily_freed_folio_is_not_protected),
	BY_ORDER(folio_in_use_is_not_protected),
	BY_ORDER(folio_in_use_is_not_copied),
	BY_ORDER(poisoned_folio_is_not_read),
	BY_ORDER(shared_page_is_noticed),
	BY_ORDER(shared_folio_is_not_protected),
	BY_ORDER(page_that_has_gone_is_noticed),
	BY_ORDER(memory_that_is_tracked_is_not_protected),
	BY_ORDER(secondary_mmus_hear_of_it),
	BY_ORDER(mapping_is_given_up_for_a_while),
	KUNIT_CASE(two_files_are_no_range),
	KUNIT_CASE(entries_are_back_if_one_was_not_seen),
	{}
};

static struct kunit_suite mapped_suite = {
	.name = "migrate_mapped",
	.init = mapped_test_init,
	.exit = mapped_test_exit,
	.test_cases = mapped_cases,
};

kunit_test_suite(mapped_suite);
