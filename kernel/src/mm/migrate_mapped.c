// SPDX-License-Identifier: GPL-2.0-only
/*
 * A huge folio is copied while it is mapped, and unmapped only then.
 *
 * Linux unmaps a folio, copies it and maps the copy: nobody can use the folio for
 * as long as the copy takes. Here the PMD that maps it is made read-only and
 * clean first. Threads go on reading. Whoever writes takes a fault, which makes
 * the PMD writable and dirty. After the copy the PMD is looked at under its lock:
 * if it is still neither, the copy is good, and the PMD is replaced by a migration
 * entry for as long as it takes to map the copy. Else the copy is void, and the
 * folio moves as Linux moves it.
 *
 * From the protection until the PMD is replaced this has to hold: no byte of the
 * folio is written without either a PMD that is dirty, or a reference that is still
 * there. It does, since
 *
 *	- the TLB is flushed after the PMD was made read-only, and before the copy;
 *	- whoever makes it writable makes it dirty: by a fault, or it is dirty
 *	  already, see migrate_needs_fault();
 *	- nobody makes it clean without the folio lock. MADV_FREE does not even
 *	  try while it is locked and dirty, so it is marked dirty;
 *	- GUP-fast takes its reference before it looks at the PMD again: so either
 *	  it sees that the PMD is not writable, or the reference is seen here;
 *	- secondary MMUs hear of the protection, and map what is writable only if
 *	  the PMD is;
 *	- the page is exclusive before and after. So nobody has forked meanwhile,
 *	  and no other entry maps it; only who has the folio lock can make a page
 *	  exclusive again.
 *
 * The architecture has to keep the dirty bit in the PMD, and a PMD that is
 * read-only must never become dirty by a write: x86 does so but for shadow
 * stacks, which are refused.
 */
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/huge_mm.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/swap.h>
#include <linux/swapops.h>
#include <linux/sysctl.h>
#include <linux/userfaultfd_k.h>
#include <linux/vmstat.h>

#include "internal.h"
#include "migrate_mapped.h"

/* What a folio has that its caller isolated, and that one PMD maps */
#define EXPECTED_REFS	2

static DEFINE_STATIC_KEY_TRUE(migrate_mapped_key);

static struct ctl_table mapped_sysctls[] = {
	{
		.procname	= "migrate_copy_mapped",
		.data		= &migrate_mapped_key.key,
		.maxlen		= sizeof(migrate_mapped_key),
		.mode		= 0644,
		.proc_handler	= proc_do_static_key,
	},
};

static int __init migrate_mapped_init(void)
{
	register_sysctl_init("vm", mapped_sysctls);
	return 0;
}
subsys_initcall(migrate_mapped_init);

/**
 * struct mapped_walk - one step, at the PMD that maps a folio
 * @step: is called with the PMD's lock held
 * @event: what secondary MMUs are told
 * @done: what @step returned; false if no PMD was found
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
	struct mmu_notifier_range range;
	struct mapped_walk *walk = arg;
	bool found;

	if (addr & ~HPAGE_PMD_MASK || addr + HPAGE_PMD_SIZE > vma->vm_end)
		return true;
	mmu_notifier_range_init(&range, walk->event, 0, vma->vm_mm, addr,
				addr + HPAGE_PMD_SIZE);
	mmu_notifier_invalidate_range_start(&range);
	found = page_vma_mapped_walk(&pvmw);
	if (found) {
		/* Mapped by PTEs if it has been split meanwhile */
		walk->done = !pvmw.pte && walk->step(&pvmw, folio);
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

static bool mapped_step(struct folio *folio,
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
	swp_entry_t entry = pmd_to_swp_entry(old);

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

static bool release_pmd(struct page_vma_mapped_walk *pvmw, struct folio *folio)
{
	struct vm_area_struct *vma = pvmw->vma;
	pmd_t pmd = *pvmw->pmd;

	if (pmd_write(pmd) || !pmd_may_write(vma, pmd) ||
	    !PageAnonExclusive(&folio->page))
		return false;
	/* A TLB that has less takes a fault, and finds that it may */
	set_pmd_at(vma->vm_mm, pvmw->address, pvmw->pmd, pmd_mkwrite(pmd, vma));
	update_mmu_cache_pmd(vma, pvmw->address, pvmw->pmd);
	return true;
}

/**
 * migrate_mapped_fits() - is a folio worth a look by migrate_protect()?
 * @folio: isolated by the caller, perhaps not locked
 *
 * Return: false if it is of a kind that is never copied while it is mapped.
 */
bool migrate_mapped_fits(struct folio *folio)
{
	return static_branch_likely(&migrate_mapped_key) &&
	       folio_test_pmd_mappable(folio) && folio_test_anon(folio) &&
	       !folio_test_hugetlb(folio);
}

/**
 * migrate_protect() - let nobody write to a huge folio unnoticed
 * @folio: locked, and isolated by the caller
 *
 * May sleep. Until migrate_unmap_protected() returns the folio stays locked.
 *
 * Return: true if it can be copied while it is mapped; else nothing was done.
 */
bool migrate_protect(struct folio *folio)
{
	VM_WARN_ON_ONCE_FOLIO(!folio_test_locked(folio), folio);

	if (!migrate_mapped_fits(folio))
		return false;
	if (folio_test_ksm(folio) || folio_is_zone_device(folio) ||
	    folio_test_swapcache(folio) || !folio_test_swapbacked(folio) ||
	    folio_test_has_hwpoisoned(folio))
		return false;
	/* References that are there already will hardly be gone when it is copied */
	if (folio_mapcount(folio) != 1 || !folio_entire_mapcount(folio) ||
	    !migrate_protected_alone(folio))
		return false;
	return mapped_step(folio, protect_pmd, MMU_NOTIFY_PROTECTION_PAGE);
}

/**
 * migrate_protected_alone() - may a protected folio be copied?
 * @folio: locked, and protected by migrate_protect(). It may have been unmapped by
 *	others since, forked, or split into PTEs
 *
 * Whoever got a reference before the protection may write through it. The
 * references are compared with what they were then, not with how often the folio
 * is mapped now: that could hide one behind a fork. If the folio has been unmapped
 * instead, the count may hide one: but then migrate_unmap_protected() does not
 * find it.
 *
 * Return: false if somebody has a reference to it who may write.
 */
bool migrate_protected_alone(struct folio *folio)
{
	return folio_ref_count(folio) == EXPECTED_REFS;
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
	return migrate_protected_alone(src) ? folio_mc_copy(dst, src) : -EAGAIN;
}

/**
 * migrate_unmap_protected() - unmap a protected folio if nobody wrote to it
 * @folio: as for migrate_protected_alone(); its protection ends here
 * @copied: whether it was copied, after migrate_protected_alone() said that it may
 *
 * May sleep. What is not unmapped is as writable as it was before.
 *
 * Return: true if @folio is unmapped as by try_to_migrate(), and its copy is good;
 * false if it is still mapped, and its copy void.
 */
bool migrate_unmap_protected(struct folio *folio, bool copied)
{
	if (copied && mapped_step(folio, unmap_clean_pmd, MMU_NOTIFY_CLEAR)) {
		count_vm_event(PGMIGRATE_MAPPED);
		return true;
	}
	mapped_step(folio, release_pmd, MMU_NOTIFY_PROTECTION_PAGE);
	if (copied)
		count_vm_event(PGMIGRATE_VOID);
	return false;
}
