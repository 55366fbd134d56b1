// SPDX-License-Identifier: GPL-2.0-only
/*
 * A large folio is copied while it is mapped, and unmapped only then.
 *
 * Linux unmaps a folio, copies it and maps the copy: nobody can use the folio for
 * as long as the copy takes. Here the entries that map it, one PMD, PTEs of one page
 * table, or one entry of hugetlb, are made read-only and clean first. Threads go on
 * reading. Whoever writes takes a fault, which makes an entry writable and dirty; that
 * of hugetlb waits for the folio lock first. After the copy the entries are looked at
 * under their lock: if each is still neither, the copy is good, and they are replaced
 * by migration entries for as long as it takes to map the copy. Else the copy is void,
 * and the folio moves as Linux moves it.
 *
 * From the protection until the entries are replaced this has to hold: no byte of
 * the folio is written without either an entry that is dirty, or a reference that
 * is still there. It does, since
 *
 *	- the TLB is flushed after the entries were made read-only, and before the
 *	  copy;
 *	- whoever makes one writable makes it dirty: by a fault, or it is dirty
 *	  already, see migrate_needs_fault();
 *	- nobody makes it clean without the folio lock. MADV_FREE does not even
 *	  try while the folio is locked and dirty, so it is marked dirty;
 *	- GUP-fast takes its reference before it looks at the entry again: so
 *	  either it sees that it is not writable, or the reference is seen here;
 *	- secondary MMUs hear of the protection, and map what is writable only if
 *	  the entry is;
 *	- the pages are exclusive before and after. So nobody has forked meanwhile,
 *	  and no other entry maps one; only who has the folio lock can make a page
 *	  exclusive again.
 *
 * The architecture has to keep the dirty bit in the entry, and one that is
 * read-only must never become dirty by a write: x86 does so but for shadow
 * stacks, which are refused.
 */
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/huge_mm.h>
#include <linux/hugetlb.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/swap.h>
#include <linux/leafops.h>
#include <linux/sysctl.h>
#include <linux/userfaultfd_k.h>

#include "internal.h"
#include "migrate_bulk/migrate_bulk.h"
#include "migrate_mapped.h"
#include "migrate_runs.h"

#include <trace/events/migrate.h>

/* --- statistics --- */

#ifdef CONFIG_HUGETLB_PAGE
/* Of hugetlb folios, by size: those that were copied mapped, and void copies */
static atomic_long_t hugetlb_counts[HUGE_MAX_HSTATE][2];

unsigned long migrate_hugetlb_count(struct hstate *h, bool good)
{
	return atomic_long_read(&hugetlb_counts[hstate_index(h)][good]);
}

static void count_hugetlb(struct folio *folio, bool good)
{
	int nr = hstate_index(folio_hstate(folio));

	atomic_long_inc(&hugetlb_counts[nr][good]);
}
#else
static void count_hugetlb(struct folio *folio, bool good)
{
}
#endif

static void count_copy(struct folio *folio, bool good)
{
	if (folio_test_hugetlb(folio))
		count_hugetlb(folio, good);
	else
		count_mthp_stat(folio_order(folio),
				good ? MTHP_STAT_MIGRATE_MAPPED :
				       MTHP_STAT_MIGRATE_VOID);
}

/* --- what is written to too often --- */

/* If so many copies are void, and such a part of all, no more are made for so long */
#define MIN_VOID	4
#define MAX_VOID_PART	4
#define GIVE_UP		HZ
/* Then older ones count half */
#define MAX_COPIES	64

unsigned long migrate_given_up[BIT(MIGRATE_RECORD_BITS)];

/*
 * What became of the last copies. Nobody locks this: of what is lost, more comes soon.
 */
static struct {
	unsigned int copies;
	unsigned int voids;
} records[BIT(MIGRATE_RECORD_BITS)];

static void record(struct folio *folio, unsigned int good, unsigned int voids)
{
	unsigned int nr = migrate_record_of(folio);
	unsigned int copies = READ_ONCE(records[nr].copies) + good + voids;

	voids += READ_ONCE(records[nr].voids);
	if (voids >= MIN_VOID && voids * MAX_VOID_PART >= copies) {
		if (!folio_test_hugetlb(folio))
			count_mthp_stat(folio_order(folio),
					MTHP_STAT_MIGRATE_GIVEN_UP);
		WRITE_ONCE(migrate_given_up[nr], jiffies + GIVE_UP);
		copies = 0;
		voids = 0;
	}
	if (copies >= MAX_COPIES) {
		copies /= 2;
		voids /= 2;
	}
	WRITE_ONCE(records[nr].copies, copies);
	WRITE_ONCE(records[nr].voids, voids);
}

/* --- the setting --- */

DEFINE_STATIC_KEY_TRUE(migrate_mapped_key);

/* To write it forgets what was given up */
static int set_mapped(const struct ctl_table *table, int write, void *buffer,
		      size_t *lenp, loff_t *ppos)
{
	int error = proc_do_static_key(table, write, buffer, lenp, ppos);
	unsigned int i;

	for (i = 0; write && !error && i < ARRAY_SIZE(migrate_given_up); i++)
		WRITE_ONCE(migrate_given_up[i], 0);
	return error;
}

static struct ctl_table mapped_sysctls[] = {
	{
		.procname	= "migrate_copy_mapped",
		.data		= &migrate_mapped_key.key,
		.maxlen		= sizeof(migrate_mapped_key),
		.mode		= 0644,
		.proc_handler	= set_mapped,
	},
};

static int __init migrate_mapped_init(void)
{
	register_sysctl_init("vm", mapped_sysctls);
	return 0;
}
subsys_initcall(migrate_mapped_init);

/* --- by one entry: a PMD, or that of a hugetlb folio --- */

/**
 * struct mapped_walk - one step, at the entry that maps a folio
 * @step: is called with the entry's lock held
 * @event: what secondary MMUs are told
 * @done: what @step returned; false if no such entry was found
 */
struct mapped_walk {
	bool (*step)(struct page_vma_mapped_walk *pvmw, struct folio *folio);
	enum mmu_notifier_event event;
	bool done;
};

/* Return: true if the folio is to be looked for in another VMA */
static bool walk_one(struct folio *folio, struct vm_area_struct *vma,
		     unsigned long addr, void *arg)
{
	DEFINE_FOLIO_VMA_WALK(pvmw, folio, vma, addr, 0);
	unsigned long size = folio_size(folio);
	struct mmu_notifier_range range;
	struct mapped_walk *walk = arg;
	bool found;

	if (!IS_ALIGNED(addr, size) || addr + size > vma->vm_end)
		return true;
	mmu_notifier_range_init(&range, walk->event, 0, vma->vm_mm, addr,
				addr + size);
	mmu_notifier_invalidate_range_start(&range);
	found = page_vma_mapped_walk(&pvmw);
	if (found) {
		/* Mapped by PTEs if it has been split meanwhile */
		walk->done = (!pvmw.pte || folio_test_hugetlb(folio)) &&
			     walk->step(&pvmw, folio);
		page_vma_mapped_walk_done(&pvmw);
	}
	mmu_notifier_invalidate_range_end(&range);
	return !found;
}

/* See try_to_migrate() */
static bool is_temporary_stack(struct vm_area_struct *vma, void *arg)
{
	return vma_is_temporary_stack(vma);
}

static bool entry_step(struct folio *folio,
		       bool (*step)(struct page_vma_mapped_walk *pvmw,
				    struct folio *folio),
		       enum mmu_notifier_event event)
{
	struct mapped_walk walk = { .step = step, .event = event };
	struct rmap_walk_control rwc = {
		.rmap_one = walk_one,
		.anon_lock = folio_lock_anon_vma_read,
		.invalid_vma = is_temporary_stack,
		.arg = &walk,
	};

	rmap_walk(folio, &rwc);
	return walk.done;
}

/* Would a fault make the PMD writable, without anything else to be done? */
static bool pmd_may_write(struct vm_area_struct *vma, pmd_t pmd)
{
	return (vma->vm_flags & VM_WRITE) && !pmd_protnone(pmd) &&
	       !pmd_needs_soft_dirty_wp(vma, pmd) &&
	       !userfaultfd_huge_pmd_wp(vma, pmd);
}

static bool protect_pmd(struct page_vma_mapped_walk *pvmw, struct folio *folio)
{
	struct vm_area_struct *vma = pvmw->vma;
	unsigned long addr = pvmw->address;
	pmd_t pmd;

	/* What is tracked by soft-dirty bits is left to Linux's own way */
	if (!PageAnonExclusive(&folio->page) ||
	    (vma->vm_flags & VM_SHADOW_STACK) || vma_soft_dirty_enabled(vma))
		return false;
	flush_cache_range(vma, addr, addr + HPAGE_PMD_SIZE);
	/*
	 * Flushes always. It has to, also if the PMD was read-only: others may
	 * have made it so, and have yet to flush. An atomic exchange, which is
	 * what GUP-fast's second look at the PMD is paired with.
	 */
	pmd = pmdp_invalidate(vma, addr, pvmw->pmd);
	folio_mark_dirty(folio);
	set_pmd_at(vma->vm_mm, addr, pvmw->pmd,
		   pmd_mkclean(pmd_wrprotect(pmd)));
	return true;
}

/* Nobody has made it writable: so this needs no fault when it is mapped again */
static void make_entry_writable(struct page_vma_mapped_walk *pvmw)
{
	pmd_t old = *pvmw->pmd, new;
	swp_entry_t entry = softleaf_from_pmd(old);

	/* The offset has the young bit */
	entry = make_writable_migration_entry(swp_offset(entry));
	new = swp_entry_to_pmd(entry);
	if (pmd_swp_soft_dirty(old))
		new = pmd_swp_mksoft_dirty(new);
	set_pmd_at(pvmw->vma->vm_mm, pvmw->address, pvmw->pmd, new);
}

static bool unmap_clean_pmd(struct page_vma_mapped_walk *pvmw,
			    struct folio *folio)
{
	bool may_write = pmd_may_write(pvmw->vma, *pvmw->pmd);

	/*
	 * No TLB has it writable, and faults wait for the lock of the PMD: so
	 * nobody can write between this look and the replacement.
	 */
	if (pmd_write(*pvmw->pmd) || pmd_dirty(*pvmw->pmd) ||
	    !PageAnonExclusive(&folio->page))
		return false;
	if (set_pmd_migration_entry(pvmw, &folio->page))
		return false;	/* may be pinned */
	if (may_write)
		make_entry_writable(pvmw);
	return true;
}

#ifdef CONFIG_HUGETLB_PAGE
static bool huge_may_write(struct vm_area_struct *vma, pte_t pte)
{
	return (vma->vm_flags & VM_WRITE) && !huge_pte_uffd(pte);
}

static bool protect_huge(struct page_vma_mapped_walk *pvmw, struct folio *folio)
{
	unsigned long addr = pvmw->address, size = folio_size(folio);
	struct vm_area_struct *vma = pvmw->vma;
	struct mm_struct *mm = vma->vm_mm;

	if (!PageAnonExclusive(&folio->page) || vma_soft_dirty_enabled(vma))
		return false;
	flush_cache_range(vma, addr, addr + size);
	/*
	 * In two steps, so that there is always an entry: mremap() looks without
	 * its lock, and leaves behind what it does not see. After the flush no CPU
	 * makes it dirty any more.
	 */
	huge_ptep_set_wrprotect(mm, addr, pvmw->pte);
	flush_hugetlb_tlb_range(vma, addr, addr + size);
	folio_mark_dirty(folio);
	set_huge_pte_at(mm, addr, pvmw->pte,
			pte_mkclean(huge_ptep_get(mm, addr, pvmw->pte)), size);
	return true;
}

/* What maps a folio while it moves */
static pte_t huge_migration_entry(struct folio *folio, pte_t pte, bool may_write)
{
	unsigned long pfn = folio_pfn(folio);
	swp_entry_t entry = may_write ?
		make_writable_migration_entry(pfn) :
		make_readable_exclusive_migration_entry(pfn);
	pte_t swp_pte;

	if (pte_young(pte))
		entry = make_migration_entry_young(entry);
	swp_pte = swp_entry_to_pte(entry);
	if (pte_soft_dirty(pte))
		swp_pte = pte_swp_mksoft_dirty(swp_pte);
	if (huge_pte_uffd(pte))
		swp_pte = pte_swp_mkuffd(swp_pte);
	return swp_pte;
}

static bool unmap_clean_huge(struct page_vma_mapped_walk *pvmw,
			     struct folio *folio)
{
	unsigned long addr = pvmw->address, size = folio_size(folio);
	struct vm_area_struct *vma = pvmw->vma;
	struct mm_struct *mm = vma->vm_mm;
	pte_t pte = huge_ptep_get(mm, addr, pvmw->pte), swp_pte;

	/* As for a PMD */
	if (huge_pte_write(pte) || huge_pte_dirty(pte) ||
	    !PageAnonExclusive(&folio->page))
		return false;
	/* At once, as it was protected; who meets it before the end of this waits */
	swp_pte = huge_migration_entry(folio, pte, huge_may_write(vma, pte));
	set_huge_pte_at(mm, addr, pvmw->pte, swp_pte, size);
	flush_hugetlb_tlb_range(vma, addr, addr + size);
	if (hugetlb_try_share_anon_rmap(folio)) {
		/* may be pinned */
		set_huge_pte_at(mm, addr, pvmw->pte, pte, size);
		return false;
	}
	trace_set_migration_pte(addr, pte_val(swp_pte), folio_order(folio));
	hugetlb_remove_rmap(folio);
	folio_put(folio);
	return true;
}

static void release_huge(struct page_vma_mapped_walk *pvmw, struct folio *folio)
{
	struct vm_area_struct *vma = pvmw->vma;
	pte_t pte = huge_ptep_get(vma->vm_mm, pvmw->address, pvmw->pte);

	if (!pte_present(pte) || huge_pte_write(pte) ||
	    !huge_may_write(vma, pte) || !PageAnonExclusive(&folio->page))
		return;
	set_huge_pte_at(vma->vm_mm, pvmw->address, pvmw->pte,
			pte_mkwrite(pte, vma), folio_size(folio));
}
#else
static bool protect_huge(struct page_vma_mapped_walk *pvmw, struct folio *folio)
{
	return false;
}

static bool unmap_clean_huge(struct page_vma_mapped_walk *pvmw,
			     struct folio *folio)
{
	return false;
}

static void release_huge(struct page_vma_mapped_walk *pvmw, struct folio *folio)
{
}
#endif

/* --- by PTEs --- */

#ifdef CONFIG_MIGRATE_RANGES
static bool pte_may_write(struct vm_area_struct *vma, pte_t pte)
{
	return (vma->vm_flags & VM_WRITE) && !pte_protnone(pte) &&
	       !pte_needs_soft_dirty_wp(vma, pte) &&
	       !userfaultfd_pte_wp(vma, pte);
}

static bool protect_ptes(struct vm_area_struct *vma, unsigned long addr,
			 pte_t *ptep, struct folio *folio, pte_t *pte,
			 struct migrate_anon_count *count)
{
	unsigned int nr = folio_nr_pages(folio);

	/* See protect_pmd(), and migrate_protect() */
	if (!PageAnonExclusive(&folio->page) || !folio_test_swapbacked(folio) ||
	    (vma->vm_flags & VM_SHADOW_STACK) || vma_soft_dirty_enabled(vma) ||
	    !migrate_is_whole(ptep, folio))
		return false;
	/* What is to be flushed, dirty or not: here what a TLB has is not known */
	*pte = pte_mkdirty(ptep_get(ptep));
	folio_mark_dirty(folio);
	flush_cache_range(vma, addr, addr + nr * PAGE_SIZE);
	for (; nr; nr--, ptep++, addr += PAGE_SIZE) {
		/* An atomic exchange, for the dirty bit and for GUP-fast */
		pte_t old = ptep_get_and_clear(vma->vm_mm, addr, ptep);

		set_pte_at(vma->vm_mm, addr, ptep,
			   pte_mkclean(pte_wrprotect(old)));
	}
	return true;
}

static bool unmap_clean_ptes(struct vm_area_struct *vma, unsigned long addr,
			     pte_t *ptep, struct folio *folio, pte_t *pte,
			     struct migrate_anon_count *count)
{
	/* As for a PMD: nobody can write between the look and the replacement */
	return migrate_unmap_clean(vma, addr, ptep, folio,
				   pte_may_write(vma, ptep_get(ptep)), pte,
				   count);
}

static void release_pte(struct page_vma_mapped_walk *pvmw, struct folio *folio)
{
	struct vm_area_struct *vma = pvmw->vma;
	pte_t pte = ptep_get(pvmw->pte);

	if (!pte_present(pte) || pte_write(pte) || !pte_may_write(vma, pte) ||
	    !PageAnonExclusive(pfn_to_page(pte_pfn(pte))))
		return;
	set_pte_at(vma->vm_mm, pvmw->address, pvmw->pte, pte_mkwrite(pte, vma));
	update_mmu_cache(vma, pvmw->address, pvmw->pte);
}

/**
 * migrate_protect_range() - protect folios, as migrate_protect() does
 * @folios: as for migrate_range_each()
 * @nr: how many
 *
 * The flush of the TLB is noted only: it has to be done before anything is copied,
 * see try_to_unmap_flush().
 *
 * Return: how many of the first folios are protected.
 */
unsigned int migrate_protect_range(struct folio **folios, unsigned int nr)
{
	return migrate_range_each(folios, nr, protect_ptes,
				  MMU_NOTIFY_PROTECTION_PAGE, false);
}

/**
 * migrate_unmap_protected_range() - unmap folios that were copied
 * @folios: protected, and copied after migrate_protected_alone() said that they may
 *	be; all anonymous, or all of files
 * @nr: how many
 *
 * The flush is noted only, as by migrate_protect_range().
 *
 * Return: how many of the first are unmapped, and their copies good. That of the next
 * one is probably void: it is still protected, see migrate_unmap_protected().
 */
unsigned int migrate_unmap_protected_range(struct folio **folios,
					   unsigned int nr)
{
	unsigned int i;

	if (folio_test_anon(folios[0]))
		nr = migrate_range_each(folios, nr, unmap_clean_ptes,
					MMU_NOTIFY_CLEAR, false);
	else
		nr = migrate_files_unmap(folios, nr);
	for (i = 0; i < nr; i++)
		count_copy(folios[i], true);
	if (nr)
		record(folios[0], nr, 0);
	return nr;
}

/* One of them, for which there is time to wait */
static bool unmap_by_ptes(struct folio *folio)
{
	return migrate_range_each(&folio, 1, unmap_clean_ptes, MMU_NOTIFY_CLEAR,
				  true);
}
#else
static void release_pte(struct page_vma_mapped_walk *pvmw, struct folio *folio)
{
}

static bool unmap_by_ptes(struct folio *folio)
{
	return false;
}
#endif

/* --- by either --- */

static void release_pmd(struct page_vma_mapped_walk *pvmw, struct folio *folio)
{
	struct vm_area_struct *vma = pvmw->vma;
	pmd_t pmd = *pvmw->pmd;

	if (!pmd_present(pmd) || pmd_write(pmd) || !pmd_may_write(vma, pmd) ||
	    !PageAnonExclusive(&folio->page))
		return;
	set_pmd_at(vma->vm_mm, pvmw->address, pvmw->pmd, pmd_mkwrite(pmd, vma));
	update_mmu_cache_pmd(vma, pvmw->address, pvmw->pmd);
}

static bool release_one(struct folio *folio, struct vm_area_struct *vma,
			unsigned long addr, void *arg)
{
	DEFINE_FOLIO_VMA_WALK(pvmw, folio, vma, addr, 0);

	while (page_vma_mapped_walk(&pvmw)) {
		/* A TLB that has less takes a fault, and finds that it may */
		if (folio_test_hugetlb(folio))
			release_huge(&pvmw, folio);
		else if (pvmw.pte)
			release_pte(&pvmw, folio);
		else
			release_pmd(&pvmw, folio);
	}
	return true;
}

/* Nobody shall take a fault because of the protection that ends */
static void release(struct folio *folio)
{
	struct rmap_walk_control rwc = {
		.rmap_one = release_one,
		.anon_lock = folio_lock_anon_vma_read,
		.invalid_vma = is_temporary_stack,
	};

	rmap_walk(folio, &rwc);
}

/* Does one entry map it, and is it to be copied once that is protected? */
static bool is_mapped_once(struct folio *folio)
{
	/* References that are there already will hardly be gone when it is copied */
	return folio_mapcount(folio) == 1 && folio_entire_mapcount(folio) &&
	       migrate_protected_alone(folio);
}

static bool protect_hugetlb(struct folio *folio)
{
	return !folio_test_hwpoison(folio) && is_mapped_once(folio) &&
	       entry_step(folio, protect_huge, MMU_NOTIFY_PROTECTION_PAGE);
}

/* For migrate_protect() */
bool __migrate_protect(struct folio *folio)
{
	VM_WARN_ON_ONCE_FOLIO(!folio_test_locked(folio), folio);

	/* References that are there already will hardly be gone when it is copied */
	if (!folio_test_anon(folio))
		return migrate_file_is_plain(folio) && migrate_file_alone(folio);
	if (folio_test_hugetlb(folio))
		return protect_hugetlb(folio);
	if (!folio_test_pmd_mappable(folio))
		return migrate_range_is_simple(folio) &&
		       migrate_protect_range(&folio, 1);
	if (folio_test_ksm(folio) || folio_is_zone_device(folio) ||
	    folio_test_swapcache(folio) || !folio_test_swapbacked(folio) ||
	    folio_test_has_hwpoisoned(folio))
		return false;
	return is_mapped_once(folio) &&
	       entry_step(folio, protect_pmd, MMU_NOTIFY_PROTECTION_PAGE);
}

/**
 * migrate_protected_alone() - may a protected folio be copied?
 * @folio: locked, and protected by migrate_protect(). It may have been unmapped by
 *	others since, forked, or split into PTEs
 *
 * Whoever got a reference before the protection may write through it. The
 * references are compared with what they were then, that of the isolation and one
 * for each entry, not with how often the folio is mapped now: that could hide one
 * behind a fork. If the folio has been unmapped instead, the count may hide one: but
 * then migrate_unmap_protected() does not find it.
 *
 * Return: false if somebody has a reference to it who may write.
 */
bool migrate_protected_alone(struct folio *folio)
{
	int nr = folio_test_pmd_mappable(folio) ? 1 : folio_nr_pages(folio);

	if (!folio_test_anon(folio))
		return migrate_file_alone(folio);
	return folio_ref_count(folio) == 1 + nr;
}

/**
 * migrate_copy_protected() - copy a protected folio by this CPU
 * @dst: where to, locked
 * @src: as for migrate_protected_alone()
 *
 * May sleep.
 *
 * Return: 0; -EAGAIN if somebody has a reference to @src who may write; -EHWPOISON
 * if @src cannot be read.
 */
int migrate_copy_protected(struct folio *dst, struct folio *src)
{
	int error;

	if (folio_test_has_hwpoisoned(src))
		return -EHWPOISON;
	if (!migrate_protected_alone(src))
		return -EAGAIN;
	error = folio_mc_copy(dst, src);
	/* Nobody shall read it again; of hugetlb it goes no other way after this */
	if (error == -EHWPOISON && !folio_test_hugetlb(src))
		folio_set_has_hwpoisoned(src);
	return error;
}

static bool unmap_clean(struct folio *folio)
{
	if (!folio_test_anon(folio))
		return migrate_files_unmap(&folio, 1);
	if (folio_test_hugetlb(folio))
		return entry_step(folio, unmap_clean_huge, MMU_NOTIFY_CLEAR);
	if (folio_test_pmd_mappable(folio))
		return entry_step(folio, unmap_clean_pmd, MMU_NOTIFY_CLEAR);
	return unmap_by_ptes(folio);
}

/**
 * migrate_unmap_protected() - unmap a protected folio if nobody wrote to it
 * @folio: as for migrate_protected_alone(); its protection ends here
 * @copied: whether it was copied, after migrate_protected_alone() said that it may
 *
 * May sleep. What is not unmapped is as writable as it was before. If it is unmapped
 * the flush of the TLB may have been noted only.
 *
 * Return: true if @folio is unmapped as by try_to_migrate(), and its copy is good;
 * false if it is still mapped, and its copy void.
 */
bool migrate_unmap_protected(struct folio *folio, bool copied)
{
	bool good = copied && unmap_clean(folio);

	if (!good && folio_test_anon(folio))
		release(folio);
	if (!copied)
		return false;
	count_copy(folio, good);
	record(folio, good, !good);
	return good;
}

/* For migrate_copy_hugetlb() */
int __migrate_copy_hugetlb(struct folio *dst, struct folio *src)
{
	int error;

	VM_WARN_ON_ONCE_FOLIO(!folio_test_locked(src), src);

	if (!protect_hugetlb(src))
		return -EAGAIN;
	error = migrate_copy_protected(dst, src);
	if (migrate_unmap_protected(src, !error))
		return 0;
	return error == -EHWPOISON ? error : -EAGAIN;
}

#ifdef CONFIG_MIGRATE_MAPPED_KUNIT_TEST
#include "migrate_mapped_test.c"
#endif
