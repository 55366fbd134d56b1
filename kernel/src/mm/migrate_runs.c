// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page table entries of one large folio, unmapped and restored in runs.
 *
 * A run is a row of entries in one page table and one VMA that map consecutive
 * pages of one folio and are alike: they differ in nothing but in being young
 * or dirty. What does not depend on the single page is done once for each run:
 * the TLB flush or the note that one is due, the notification of secondary
 * TLBs, the check for pins, statistics, reference counts, the mlock drain.
 *
 * Young and dirty stay what they are of each single page, as far as migration
 * entries have room for them.
 *
 * What is rare is left to the callers, one entry at a time: poison, device
 * memory, hugetlb, runs of one entry, folios that may be pinned.
 *
 * Several entries are cleared before any of them is flushed. That needs what
 * ARCH_WANT_BATCHED_UNMAP_TLB_FLUSH promises, see try_to_migrate_one(). None of
 * the architectures that have it has pte_unused() or arch_unmap_one().
 */
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/rmap.h>
#include <linux/userfaultfd_k.h>
#include <linux/leafops.h>
#include <linux/vmstat.h>
#include <trace/events/migrate.h>

#include "internal.h"
#include "migrate_runs.h"

/* How many entries the walk may look at in one go: not past table, VMA, folio */
static unsigned int entries_left(struct page_vma_mapped_walk *pvmw)
{
	unsigned long end = pmd_addr_end(pvmw->address, vma_address_end(pvmw));

	return (end - pvmw->address) >> PAGE_SHIFT;
}

/* Let the walk go on behind a run */
static void skip_run(struct page_vma_mapped_walk *pvmw, unsigned int nr)
{
	pvmw->pte += nr - 1;
	pvmw->address += (nr - 1) * PAGE_SIZE;
}

static unsigned long flags_of(const struct folio *folio, unsigned int idx)
{
	return READ_ONCE(*const_folio_flags(folio, idx));
}

/* The pages from @idx on that can be in one run, 0 if that one is poisoned */
static unsigned int alike_pages(const struct folio *folio, unsigned int idx,
				unsigned int max, bool anon)
{
	/* None is of hugetlb: the flag is where PageAnonExclusive() reads it */
	unsigned long exclusive = anon ? BIT(PG_anon_exclusive) : 0;
	unsigned long mask = exclusive | __PG_HWPOISON;
	unsigned long flags = flags_of(folio, idx) & exclusive;
	unsigned int nr;

	for (nr = 0; nr < max; nr++)
		if ((flags_of(folio, idx + nr) & mask) != flags)
			break;
	return nr;
}

static bool pte_alike(pte_t a, pte_t b)
{
	return pte_write(a) == pte_write(b) &&
	       pte_same(pte_mkclean(pte_mkold(a)), pte_mkclean(pte_mkold(b)));
}

/* The PTEs from @ptep on, which is present, that can be in one run */
static unsigned int alike_ptes(pte_t *ptep, unsigned int max)
{
	pte_t pte = ptep_get(ptep), expected;
	unsigned int nr, hint = pte_batch_hint(ptep, pte);

	for (nr = hint; nr < max; nr += hint) {
		expected = pte_advance_pfn(pte, hint);
		pte = ptep_get(ptep + nr);
		if (!pte_same(pte, expected) && !pte_alike(pte, expected))
			break;
		hint = pte_batch_hint(ptep + nr, pte);
	}
	return min(nr, max);
}

/* PTEs in one run from where the walk is: at page @idx of the folio. */
static unsigned int run_of_ptes(struct page_vma_mapped_walk *pvmw,
				struct folio *folio, unsigned long idx)
{
	unsigned int nr = min(entries_left(pvmw), folio_nr_pages(folio) - idx);

	nr = alike_pages(folio, idx, nr, folio_test_anon(folio));
	return nr > 1 ? alike_ptes(pvmw->pte, nr) : nr;
}

/**
 * struct run_kind - what is the same for all entries of a run
 * @same: they differ in nothing but the page: see replace_same()
 * @exclusive: nobody else maps the pages
 * @writable: a fault would do no more than make the PTE writable
 */
struct run_kind {
	bool same;
	bool exclusive;
	bool writable;
};

/* The migration entry for @page, which @pte maps */
static swp_entry_t migration_entry(struct page *page, pte_t pte,
				   struct run_kind kind)
{
	unsigned long pfn = page_to_pfn(page);
	swp_entry_t entry;

	if (pte_write(pte) || kind.writable)
		entry = make_writable_migration_entry(pfn);
	else if (kind.exclusive)
		entry = make_readable_exclusive_migration_entry(pfn);
	else
		entry = make_readable_migration_entry(pfn);
	if (pte_young(pte))
		entry = make_migration_entry_young(entry);
	if (pte_dirty(pte))
		entry = make_migration_entry_dirty(entry);
	return entry;
}

static pte_t migration_pte(swp_entry_t entry, bool soft_dirty, bool uffd)
{
	pte_t pte = swp_entry_to_pte(entry);

	if (soft_dirty)
		pte = pte_swp_mksoft_dirty(pte);
	if (uffd)
		pte = pte_swp_mkuffd(pte);
	return pte;
}

/* The same entry for the next page: its offset has the PFN in the lowest bits */
static swp_entry_t next_entry(swp_entry_t entry)
{
	entry.val++;
	return entry;
}

/*
 * A PTE holds the offset of an entry, or its complement, in a field of its own. So
 * within a folio the PTEs of next entries differ by the same number: to add it is
 * much cheaper than to encode each.
 */
static u64 entry_step(swp_entry_t entry)
{
	return pte_val(swp_entry_to_pte(next_entry(entry))) -
	       pte_val(swp_entry_to_pte(entry));
}

static pte_t pte_add(pte_t pte, u64 step)
{
	return __pte(pte_val(pte) + step);
}

/*
 * Put migration entries where the PTEs of a run are. Returns the first of these
 * PTEs, young if any of them was young and dirty if any was dirty.
 */
static pte_t replace_run(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
			 struct page *page, unsigned int nr,
			 struct run_kind kind)
{
	unsigned int hint, i;
	pte_t first = ptep_get(ptep), pte = first, old, swp_pte;
	bool soft_dirty = pte_soft_dirty(first), uffd = pte_uffd(first);
	swp_entry_t entry = migration_entry(page, pte, kind);
	bool young = false, dirty = false;

	for (; nr; nr -= hint) {
		/* The hardware keeps one young and dirty bit for all of a hint */
		hint = min(pte_batch_hint(ptep, ptep_get(ptep)), nr);
		old = get_and_clear_full_ptes(mm, addr, ptep, hint, 0);
		if (!pte_same(old, pte))
			entry = migration_entry(page, old, kind);
		young |= pte_young(old);
		dirty |= pte_dirty(old);
		pte = pte_advance_pfn(old, hint);
		page += hint;
		for (i = 0; i < hint; i++, ptep++, addr += PAGE_SIZE) {
			swp_pte = migration_pte(entry, soft_dirty, uffd);
			set_pte_at(mm, addr, ptep, swp_pte);
			entry = next_entry(entry);
		}
	}

	pte = first;
	if (young)
		pte = pte_mkyoung(pte);
	/* Not if it was: that would change the PTE of a shadow stack */
	if (dirty && !pte_dirty(pte))
		pte = pte_mkdirty(pte);
	/* Where there is soft-dirty, pte_mkdirty() means to say: written now */
	return pte_soft_dirty(first) ? pte : pte_clear_soft_dirty(pte);
}

/*
 * As replace_run(), for PTEs that differ in nothing, and that the hardware does not
 * change but for making them young: so none has to be cleared first.
 */
static pte_t replace_same(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
			  struct page *page, unsigned int nr,
			  struct run_kind kind)
{
	pte_t first = ptep_get(ptep), swp_pte;
	swp_entry_t entry = migration_entry(page, first, kind);
	u64 step = entry_step(entry);

	swp_pte = migration_pte(entry, pte_soft_dirty(first),
				pte_uffd(first));
	for (; nr; nr--, ptep++, addr += PAGE_SIZE) {
		set_pte_at(mm, addr, ptep, swp_pte);
		swp_pte = pte_add(swp_pte, step);
	}
	return first;
}

/**
 * migrate_count_anon - count what was mapped or unmapped
 * @count: is empty afterwards
 */
void migrate_count_anon(struct migrate_anon_count *count)
{
	if (count->nr)
		lruvec_stat_mod_folio(count->folio, NR_ANON_MAPPED, count->nr);
	count->nr = 0;
}

static void count_later(struct migrate_anon_count *count, struct folio *folio,
			int nr)
{
	if (count->nr && (folio_nid(folio) != folio_nid(count->folio) ||
			  folio_memcg(folio) != folio_memcg(count->folio)))
		migrate_count_anon(count);
	count->folio = folio;
	count->nr += nr;
}

/* @count: NULL if Linux is to count the folio at once, as it does large ones */
static __always_inline void
remove_rmap(struct folio *folio, struct page *page, unsigned int nr,
	    struct vm_area_struct *vma, struct migrate_anon_count *count)
{
	if (!count || folio_test_large(folio)) {
		folio_remove_rmap_ptes(folio, page, nr, vma);
		return;
	}
	if (atomic_add_negative(-1, &folio->_mapcount))
		count_later(count, folio, -1);
	munlock_vma_folio(folio, vma);
}

/* The same for an anonymous folio that is mapped again */
static void add_rmap(struct folio *folio, struct page *page, unsigned int nr,
		     struct vm_area_struct *vma, unsigned long addr,
		     rmap_t flags, struct migrate_anon_count *count)
{
	if (!count || folio_test_large(folio)) {
		folio_add_anon_rmap_ptes(folio, page, nr, vma, addr, flags);
		return;
	}
	if (atomic_inc_and_test(&folio->_mapcount))
		count_later(count, folio, 1);
	if (flags & RMAP_EXCLUSIVE)
		SetPageAnonExclusive(page);
	mlock_vma_folio(folio, vma);
}

/*
 * Unmap a run. Return: false if it is mapped as it was, else *@pte says of all
 * whether they are accessible, and dirty if one was. Inlined, since small folios are
 * runs, too.
 */
static __always_inline bool
unmap_run(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep,
	  struct folio *folio, struct page *page, unsigned int nr,
	  struct run_kind kind, pte_t *pte, struct migrate_anon_count *count)
{
	bool anon = folio_test_anon(folio);

	kind.exclusive = anon && PageAnonExclusive(page);
	VM_WARN_ON_FOLIO(pte_write(ptep_get(ptep)) && anon && !kind.exclusive,
			 folio);

	/*
	 * A migration entry stops GUP-fast as an empty PTE does, and all others
	 * who look at it wait for the page table lock. So the entries can be
	 * there before the pages stop being exclusive, and before the flush.
	 */
	flush_cache_range(vma, addr, addr + nr * PAGE_SIZE);
	trace_set_migration_run(addr, nr, folio_order(folio));
	*pte = kind.same ?
	       replace_same(vma->vm_mm, addr, ptep, page, nr, kind) :
	       replace_run(vma->vm_mm, addr, ptep, page, nr, kind);

	/* See folio_try_share_anon_rmap_ptes(): clear the PTEs first */
	if (kind.exclusive && folio_try_share_anon_rmap_ptes(folio, page, nr)) {
		/* What is in a TLB must go before what is not quite the same */
		if (pte_accessible(vma->vm_mm, *pte))
			flush_tlb_range(vma, addr, addr + nr * PAGE_SIZE);
		/* Says young and dirty of too many, but loses neither */
		set_ptes(vma->vm_mm, addr, ptep, *pte, nr);
		trace_remove_migration_run(addr, nr, folio_order(folio));
		return false;
	}

	if (pte_dirty(*pte))
		folio_mark_dirty(folio);
	remove_rmap(folio, page, nr, vma, count);
	if (vma->vm_flags & VM_LOCKED)
		mlock_drain_local();
	folio_put_refs(folio, nr);
	return true;
}

/**
 * migrate_unmap_run - replace the PTEs of a run by migration entries
 * @pvmw: the walk, at a PTE of @folio that is not a PMD; is moved to the last
 *	  PTE of the run
 * @folio: a large folio
 * @flags: what try_to_migrate() was called with
 *
 * Return: false if nothing was changed: the caller does one entry itself.
 */
bool migrate_unmap_run(struct page_vma_mapped_walk *pvmw, struct folio *folio,
		       enum ttu_flags flags)
{
	unsigned long start = pvmw->address, idx;
	pte_t pte = ptep_get(pvmw->pte);
	struct page *page;
	unsigned int nr;

	if (folio_test_hugetlb(folio) || !pte_present(pte) ||
	    folio_is_zone_device(folio))
		return false;

	idx = pte_pfn(pte) - folio_pfn(folio);
	page = folio_page(folio, idx);
	nr = run_of_ptes(pvmw, folio, idx);
	if (nr < 2)
		return false;

	if (!unmap_run(pvmw->vma, start, pvmw->pte, folio, page, nr,
		       (struct run_kind) { }, &pte, NULL))
		return false;
	if (pte_accessible(pvmw->vma->vm_mm, pte))
		migrate_flush_run(pvmw->vma, start, start + nr * PAGE_SIZE,
				  pte_dirty(pte), flags);
	skip_run(pvmw, nr);
	return true;
}

/**
 * migrate_is_whole - is a folio one run?
 * @ptep: the PTE for its first page; their table is locked and has all
 * @folio: an anonymous folio; may be small
 *
 * Return: true if so.
 */
bool migrate_is_whole(pte_t *ptep, struct folio *folio)
{
	unsigned int nr = folio_nr_pages(folio);
	pte_t first = ptep_get(ptep);

	return pte_present(first) && pte_pfn(first) == folio_pfn(folio) &&
	       alike_pages(folio, 0, nr, true) == nr &&
	       alike_ptes(ptep, nr) == nr;
}

/**
 * migrate_unmap_whole - replace the PTEs of a folio that is one run
 * @vma: where all PTEs are that map the folio
 * @addr: of its first page
 * @ptep: as for migrate_is_whole()
 * @folio: as for migrate_is_whole()
 * @pte: set to an entry that says whether all of them are accessible, and is dirty
 *	 if one was
 * @count: where a small folio is counted
 *
 * Return: false if nothing was changed, and nothing is to be flushed.
 */
bool migrate_unmap_whole(struct vm_area_struct *vma, unsigned long addr,
			 pte_t *ptep, struct folio *folio, pte_t *pte,
			 struct migrate_anon_count *count)
{
	return migrate_is_whole(ptep, folio) &&
	       unmap_run(vma, addr, ptep, folio, &folio->page,
			 folio_nr_pages(folio), (struct run_kind) { }, pte,
			 count);
}

/*
 * Are the PTEs of a folio alike, and neither writable nor dirty? @same: they are also
 * equally young.
 */
static bool are_clean(pte_t *ptep, struct folio *folio, bool *same)
{
	pte_t expected = ptep_get(ptep), pte;
	unsigned int nr = folio_nr_pages(folio);

	if (!pte_present(expected) || pte_pfn(expected) != folio_pfn(folio) ||
	    pte_write(expected) || pte_dirty(expected))
		return false;
	*same = true;
	while (--nr) {
		expected = pte_next_pfn(expected);
		pte = ptep_get(++ptep);
		if (pte_same(pte, expected))
			continue;
		if (!pte_same(pte_mkold(pte), pte_mkold(expected)))
			return false;
		*same = false;
	}
	return true;
}

/**
 * migrate_unmap_clean - replace the PTEs of a folio that nobody has written to
 * @vma: as for migrate_unmap_whole()
 * @addr: as for migrate_unmap_whole()
 * @ptep: as for migrate_unmap_whole()
 * @folio: as for migrate_unmap_whole(), and each page was exclusive
 * @writable: the PTEs shall be writable when they are restored
 * @pte: as for migrate_unmap_whole()
 * @count: as for migrate_unmap_whole()
 *
 * Return: false if nothing was changed: a PTE is writable or dirty, or a page is
 * exclusive no more.
 */
bool migrate_unmap_clean(struct vm_area_struct *vma, unsigned long addr,
			 pte_t *ptep, struct folio *folio, bool writable,
			 pte_t *pte, struct migrate_anon_count *count)
{
	unsigned int nr = folio_nr_pages(folio);
	struct run_kind kind = { .writable = writable };

	return are_clean(ptep, folio, &kind.same) &&
	       PageAnonExclusive(&folio->page) &&
	       alike_pages(folio, 0, nr, true) == nr &&
	       unmap_run(vma, addr, ptep, folio, &folio->page, nr, kind, pte,
			 count);
}

/*
 * The migration entries from @ptep on that can be in one run. @same: they are
 * also equally young and dirty.
 */
static unsigned int alike_entries(pte_t *ptep, unsigned int max, bool *same)
{
	pte_t expected = ptep_get(ptep), pte;
	swp_entry_t entry, found;
	bool soft_dirty, uffd;
	unsigned int nr;
	u64 step;

	*same = true;
	if (max == 1)
		return 1;
	soft_dirty = pte_swp_soft_dirty(expected);
	uffd = pte_swp_uffd(expected);
	step = entry_step(softleaf_from_pte(expected));
	for (nr = 1; nr < max; nr++) {
		expected = pte_add(expected, step);
		pte = ptep_get(ptep + nr);
		if (pte_same(pte, expected))
			continue;
		if (pte_none(pte) || pte_present(pte))
			break;
		entry = softleaf_from_pte(expected);
		found = softleaf_from_pte(pte);
		if (swp_type(found) != swp_type(entry) ||
		    softleaf_to_pfn(found) != softleaf_to_pfn(entry) ||
		    pte_swp_soft_dirty(pte) != soft_dirty ||
		    pte_swp_uffd(pte) != uffd)
			break;
		expected = pte;
		*same = false;
	}
	return nr;
}

/* The same, from where the walk is */
static unsigned int run_of_entries(struct page_vma_mapped_walk *pvmw,
				   bool *same)
{
	return alike_entries(pvmw->pte, entries_left(pvmw), same);
}

/* What maps @page as it was mapped before @swp_pte came in between */
static pte_t restored_pte(struct vm_area_struct *vma, struct folio *folio,
			  struct page *page, pte_t swp_pte)
{
	pte_t pte = mk_pte(page, READ_ONCE(vma->vm_page_prot));
	swp_entry_t entry = softleaf_from_pte(swp_pte);

	if (!softleaf_is_migration_young(entry))
		pte = pte_mkold(pte);
	if (folio_test_dirty(folio) && softleaf_is_migration_dirty(entry))
		pte = pte_mkdirty(pte);
	if (pte_swp_soft_dirty(swp_pte))
		pte = pte_mksoft_dirty(pte);
	else
		pte = pte_clear_soft_dirty(pte);
	if (softleaf_is_migration_write(entry))
		pte = pte_mkwrite(pte, vma);
	else if (pte_swp_uffd(swp_pte))
		pte = pte_mkuffd(pte);
	/* See remove_migration_pte(): PAGE_NONE is what says that reads trap */
	if (pte_swp_uffd(swp_pte) && userfaultfd_rwp(vma))
		pte = pte_modify(pte, PAGE_NONE);
	return pte;
}

/* Put PTEs where the migration entries of a run are */
static void restore_ptes(struct vm_area_struct *vma, unsigned long addr,
			 pte_t *ptep, struct folio *folio, struct page *page,
			 unsigned int nr)
{
	pte_t pte = restored_pte(vma, folio, page, ptep_get(ptep));

	set_ptes(vma->vm_mm, addr, ptep, pte, nr);
}

static void restore_run(struct vm_area_struct *vma, unsigned long addr,
			pte_t *ptep, struct folio *folio, struct page *page,
			unsigned int nr, bool same,
			struct migrate_anon_count *count)
{
	swp_entry_t entry = softleaf_from_pte(ptep_get(ptep));
	rmap_t rmap_flags = RMAP_NONE;
	unsigned int i;

	/* Counted first: whoever sees the PTEs may count on it */
	folio_ref_add(folio, nr);
	if (!folio_test_anon(folio)) {
		folio_add_file_rmap_ptes(folio, page, nr, vma);
	} else {
		if (!softleaf_is_migration_read(entry))
			rmap_flags |= RMAP_EXCLUSIVE;
		add_rmap(folio, page, nr, vma, addr, rmap_flags, count);
	}

	if (same) {
		restore_ptes(vma, addr, ptep, folio, page, nr);
	} else {
		for (i = 0; i < nr; i++)
			restore_ptes(vma, addr + i * PAGE_SIZE, ptep + i, folio,
				     page + i, 1);
	}
	trace_remove_migration_run(addr, nr, folio_order(folio));
	if (vma->vm_flags & VM_LOCKED)
		mlock_drain_local();

	/* No need to invalidate - they were not present before */
	update_mmu_cache_range(NULL, vma, addr, ptep, nr);
}

/**
 * migrate_restore_run - replace the migration entries of a run by PTEs
 * @pvmw: the walk, at an entry of the source that is not a PMD; is moved to the
 *	  last entry of the run
 * @folio: the destination, a large folio
 * @page: what to map where the walk is
 *
 * Return: false if nothing was changed: the caller does one entry itself.
 */
bool migrate_restore_run(struct page_vma_mapped_walk *pvmw,
			 struct folio *folio, struct page *page)
{
	unsigned int nr;
	bool same;

	if (folio_test_hugetlb(folio) || folio_is_zone_device(folio) ||
	    !softleaf_is_migration(softleaf_from_pte(ptep_get(pvmw->pte))))
		return false;
	nr = run_of_entries(pvmw, &same);
	if (nr < 2)
		return false;
	restore_run(pvmw->vma, pvmw->address, pvmw->pte, folio, page, nr, same,
		    NULL);
	skip_run(pvmw, nr);
	return true;
}

/**
 * migrate_restore_whole - replace the migration entries of a folio that is one run
 * @vma: where all entries are that there may be of the folio
 * @addr: of its first page
 * @ptep: the first entry; their table is locked and has all
 * @src: what the entries speak of
 * @dst: what is to be mapped; anonymous, may be small
 * @count: as for migrate_unmap_whole()
 *
 * Return: false if nothing was changed.
 */
bool migrate_restore_whole(struct vm_area_struct *vma, unsigned long addr,
			   pte_t *ptep, struct folio *src, struct folio *dst,
			   struct migrate_anon_count *count)
{
	unsigned int nr = folio_nr_pages(dst);
	pte_t first = ptep_get(ptep);
	bool same;

	if (pte_none(first) || pte_present(first) ||
	    !softleaf_is_migration(softleaf_from_pte(first)) ||
	    softleaf_to_pfn(softleaf_from_pte(first)) != folio_pfn(src) ||
	    alike_entries(ptep, nr, &same) < nr)
		return false;
	restore_run(vma, addr, ptep, dst, &dst->page, nr, same, count);
	return true;
}

#ifdef CONFIG_MIGRATE_PTE_RUNS_KUNIT_TEST
#include "migrate_runs_test.c"
#endif
