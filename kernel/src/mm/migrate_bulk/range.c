// SPDX-License-Identifier: GPL-2.0-only
/*
 * Folios that one VMA maps are unmapped together, and so mapped again.
 *
 * Linux walks the reverse mapping for each folio, twice: a lock, a tree of VMAs,
 * four levels of page tables, another lock. For small folios this is more than
 * is done at their PTEs. Here a range of folios, in any order, has that once.
 *
 * Only what is simple: anonymous folios of one anon_vma, each mapped once and
 * in whole, where only one VMA can map any of them. All else is left to the
 * walk, folio by folio, and so is what turns out not to be simple once the
 * locks are held.
 *
 * Why one VMA is all there is: the lock of the anon_vma keeps its tree as it is,
 * and where the VMAs in it begin and end. Whoever copies or moves entries puts
 * the VMA where they go into the tree first: so fork and mremap are seen here as
 * a second VMA, for as long as entries may be in either, and only the walk looks
 * at them in the order that mremap counts on. What happens to the entries of the
 * one VMA, the lock of their table decides. Only one table is locked at a time.
 */
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/sysctl.h>

#include "../internal.h"
#include "../migrate_runs.h"
#include "migrate_bulk.h"

/* So many times what a range maps it spans at most, where others hear of its span */
#define SPARSE	4

DEFINE_STATIC_KEY_TRUE(migrate_ranges_key);

static struct ctl_table range_sysctls[] = {
	{
		.procname	= "migrate_ranges",
		.data		= &migrate_ranges_key.key,
		.maxlen		= sizeof(migrate_ranges_key),
		.mode		= 0644,
		.proc_handler	= proc_do_static_key,
	},
};

static int __init migrate_range_init(void)
{
	register_sysctl_init("vm", range_sysctls);
	return 0;
}
subsys_initcall(migrate_range_init);

/* Where the folios of a range are: in one VMA */
struct folio_range {
	struct vm_area_struct *vma;
	unsigned long low;
	unsigned long high;
};

static unsigned long address_in(struct vm_area_struct *vma, struct folio *folio)
{
	return vma->vm_start +
	       ((folio->index - vma_start_anon_pgoff(vma)) << PAGE_SHIFT);
}

/* A VMA that may map what is there, if no other may; NULL: none or several */
static struct vm_area_struct *only_vma(struct anon_vma *anon_vma, pgoff_t first,
				       pgoff_t last)
{
	struct anon_vma_chain *avc;

	avc = anon_rmap_tree_iter_first(anon_vma, first, last);
	if (!avc || anon_rmap_tree_iter_next(avc, first, last))
		return NULL;
	return avc->vma;
}

static pgoff_t pgoff_in(struct vm_area_struct *vma, unsigned long addr)
{
	return vma_start_anon_pgoff(vma) + ((addr - vma->vm_start) >> PAGE_SHIFT);
}

/*
 * As many of the first folios as are between @start and @end, each in one table. If
 * there are others who are told of a range, there is little between its folios: they
 * drop all of it. Who registers from now on waits for the lock of the anon_vma first.
 */
static unsigned int range_within(struct folio_range *r, struct folio **folios,
				 unsigned int nr, unsigned long start,
				 unsigned long end)
{
	bool dense = mm_has_notifiers(r->vma->vm_mm);
	unsigned long addr, size, low, high, bytes = 0;
	unsigned int i;

	r->low = ULONG_MAX;
	r->high = 0;
	for (i = 0; i < nr; i++) {
		if (folios[i]->index < vma_start_anon_pgoff(r->vma))
			break;
		addr = address_in(r->vma, folios[i]);
		size = folio_size(folios[i]);
		if (addr < start || addr >= end || addr + size > end ||
		    (addr ^ (addr + size - 1)) & PMD_MASK)
			break;
		bytes += size;
		low = min(r->low, addr);
		high = max(r->high, addr + size);
		if (dense && high - low > SPARSE * bytes)
			break;
		r->low = low;
		r->high = high;
	}
	return i;
}

static bool range_is_of_one_vma(const struct folio_range *r,
				struct anon_vma *anon_vma)
{
	return only_vma(anon_vma, pgoff_in(r->vma, r->low),
			pgoff_in(r->vma, r->high - PAGE_SIZE));
}

/*
 * Find where the first folios are, as many as one VMA maps. Return: how many; none
 * if this is not simple.
 */
static unsigned int range_find(struct folio_range *r,
			       struct anon_vma *anon_vma, struct folio **folios,
			       unsigned int nr)
{
	struct folio *folio = folios[0];
	struct vm_area_struct *vma;
	unsigned long addr;
	unsigned int found;

	vma = only_vma(anon_vma, folio->index,
		       folio->index + folio_nr_pages(folio) - 1);
	/* See try_to_migrate() for temporary stacks; and mlock wants a walk */
	if (!vma || vma_is_temporary_stack(vma) || (vma->vm_flags & VM_LOCKED) ||
	    folio->index < vma_start_anon_pgoff(vma))
		return 0;

	r->vma = vma;
	found = range_within(r, folios, nr, vma->vm_start, vma->vm_end);
	if (found < 2 || range_is_of_one_vma(r, anon_vma))
		return found;
	/* Other VMAs lie between the folios: not between those of one table, perhaps */
	addr = address_in(vma, folio);
	found = range_within(r, folios, nr, max(addr & PMD_MASK, vma->vm_start),
			     pmd_addr_end(addr, vma->vm_end));
	return found < 2 || range_is_of_one_vma(r, anon_vma) ? found : 0;
}

/**
 * struct table_flush - what has to be flushed of a page table
 * @low: the first address that a TLB may have
 * @high: behind the last one; 0 if there is none
 * @dirty: whether one of them may be written to by a TLB
 */
struct table_flush {
	unsigned long low;
	unsigned long high;
	bool dirty;
};

#define NO_TABLE_FLUSH	((struct table_flush){ .low = ULONG_MAX })

/*
 * Add a folio whose entries, of which @pte speaks, were cleared. One that is
 * inaccessible for NUMA balancing or by mprotect() is in a TLB only while
 * somebody has yet to flush it, which may end at any moment: so this is asked
 * once, of each folio, and none decides for others.
 */
static void table_flush_add(struct table_flush *flush, struct mm_struct *mm,
			    unsigned long addr, unsigned long size, pte_t pte)
{
	if (!pte_accessible(mm, pte))
		return;
	flush->low = min(flush->low, addr);
	flush->high = max(flush->high, addr + size);
	flush->dirty |= pte_dirty(pte);
}

/* Flush, or note that it is to be done, before the table is unlocked */
static void table_flush_run(struct table_flush *flush,
			    struct vm_area_struct *vma)
{
	if (flush->high)
		migrate_flush_run(vma, flush->low, flush->high, flush->dirty,
				  TTU_BATCH_FLUSH);
	*flush = NO_TABLE_FLUSH;
}

static bool same_table(unsigned long a, unsigned long b)
{
	return !((a ^ b) & PMD_MASK);
}

/*
 * Do the step with those folios from *@i on that are in the table of the first of
 * them. Return: whether it was done with all of these; *@i is where to go on.
 */
static __always_inline bool
table_step(const struct folio_range *r, struct folio **folios, unsigned int nr,
	   unsigned int *i, migrate_range_step step,
	   struct migrate_anon_count *count)
{
	unsigned long first = address_in(r->vma, folios[*i]), addr;
	struct table_flush flush = NO_TABLE_FLUSH;
	struct mm_struct *mm = r->vma->vm_mm;
	pmd_t *pmd = mm_find_pmd(mm, first);
	bool done = true;
	spinlock_t *ptl;
	pte_t *ptes, pte;

	ptes = pmd ? pte_offset_map_lock(mm, pmd, first & PMD_MASK, &ptl) : NULL;
	if (!ptes)
		return false;
	for (; *i < nr; ++*i) {
		struct folio *folio = folios[*i];

		addr = address_in(r->vma, folio);
		if (!same_table(addr, first))
			break;
		/* Nobody can map it a second time but from here */
		done = folio_mapcount(folio) == folio_nr_pages(folio) &&
		       step(r->vma, addr, ptes + pte_index(addr), folio, &pte,
			    count);
		if (!done)
			break;
		table_flush_add(&flush, mm, addr, folio_size(folio), pte);
		/* Page by page: not those that lie between the folios */
		if (!IS_ENABLED(CONFIG_ARCH_BATCHED_UNMAP_FLUSHES_MM))
			table_flush_run(&flush, r->vma);
	}
	/* mprotect() and munmap() rely on it that this comes before the unlock */
	table_flush_run(&flush, r->vma);
	pte_unmap_unlock(ptes, ptl);
	return done;
}

/* Return: with how many of the first folios the step was done */
static __always_inline unsigned int
range_step(const struct folio_range *r, struct folio **folios, unsigned int nr,
	   migrate_range_step step)
{
	struct migrate_anon_count count = {};
	unsigned int i = 0;

	while (i < nr && table_step(r, folios, nr, &i, step, &count))
		;
	migrate_count_anon(&count);
	return i;
}

static __always_inline unsigned int
range_each(struct folio **folios, unsigned int nr, migrate_range_step step,
	   enum mmu_notifier_event event, bool wait)
{
	struct rmap_walk_control rwc = { .try_lock = !wait };
	struct mmu_notifier_range range;
	struct anon_vma *anon_vma;
	unsigned int i;
	struct folio_range r;

	anon_vma = folio_lock_anon_vma_read(folios[0], &rwc);
	if (!anon_vma)
		return 0;
	/* Their mappings were looked at before they were locked */
	for (i = 1; i < nr; i++)
		if (folio_anon_vma(folios[i]) != anon_vma)
			break;
	nr = range_find(&r, anon_vma, folios, i);
	if (nr) {
		mmu_notifier_range_init(&range, event, 0, r.vma->vm_mm, r.low,
					r.high);
		mmu_notifier_invalidate_range_start(&range);
		nr = range_step(&r, folios, nr, step);
		mmu_notifier_invalidate_range_end(&range);
	}
	anon_vma_unlock_read(anon_vma);
	return nr;
}

/**
 * migrate_range_each() - do something with the PTEs of folios
 * @folios: locked folios, for each of which migrate_range_fits() of the first
 * @nr: how many
 * @step: what to do
 * @event: what secondary MMUs are told
 * @wait: for the lock of the reverse mapping; else it is tried
 *
 * Return: with how many of the first folios it was done, up to the first one for
 * which @step returns false: none if they are not as simple as they looked. Of these
 * the flush is noted, see try_to_unmap_flush().
 */
unsigned int migrate_range_each(struct folio **folios, unsigned int nr,
				migrate_range_step step,
				enum mmu_notifier_event event, bool wait)
{
	return range_each(folios, nr, step, event, wait);
}

static bool unmap_ptes(struct vm_area_struct *vma, unsigned long addr,
		       pte_t *ptep, struct folio *folio, pte_t *pte,
		       struct migrate_anon_count *count)
{
	if (!migrate_unmap_whole(vma, addr, ptep, folio, pte, count))
		return false;
	get_anon_vma(folio_anon_vma(folio));
	return true;
}

/**
 * migrate_range_unmap() - put migration entries where folios are mapped
 * @folios: as for migrate_range_each()
 * @nr: how many
 *
 * Does not wait for the lock of the reverse mapping.
 *
 * Return: how many of the first folios were unmapped. Each of them has a reference
 * to its anon_vma.
 */
unsigned int migrate_range_unmap(struct folio **folios, unsigned int nr)
{
	/* Inlined: a step that is called costs small folios too much */
	return range_each(folios, nr, unmap_ptes, MMU_NOTIFY_CLEAR, false);
}

/* As table_step(): map folios again */
static bool table_restore(const struct folio_range *r, struct folio **srcs,
			  struct folio **dsts, unsigned int nr, unsigned int *i,
			  struct migrate_anon_count *count)
{
	unsigned long first = address_in(r->vma, dsts[*i]), addr;
	struct mm_struct *mm = r->vma->vm_mm;
	pmd_t *pmd = mm_find_pmd(mm, first);
	bool done = true;
	spinlock_t *ptl;
	pte_t *ptes;

	ptes = pmd ? pte_offset_map_lock(mm, pmd, first & PMD_MASK, &ptl) : NULL;
	if (!ptes)
		return false;
	for (; *i < nr; ++*i) {
		addr = address_in(r->vma, dsts[*i]);
		if (!same_table(addr, first))
			break;
		done = migrate_restore_whole(r->vma, addr,
					     ptes + pte_index(addr), srcs[*i],
					     dsts[*i], count);
		if (!done)
			break;
	}
	pte_unmap_unlock(ptes, ptl);
	return done;
}

/* Return: how many of the first folios are mapped again */
static unsigned int range_restore(const struct folio_range *r,
				  struct folio **srcs, struct folio **dsts,
				  unsigned int nr)
{
	struct migrate_anon_count count = {};
	unsigned int i = 0;

	while (i < nr && table_restore(r, srcs, dsts, nr, &i, &count))
		;
	migrate_count_anon(&count);
	return i;
}

/* As many as possible of the first ones. Return: how many, at least one */
static unsigned int restore_some(struct folio **srcs, struct folio **dsts,
				 unsigned int nr)
{
	struct anon_vma *anon_vma = folio_anon_vma(dsts[0]);
	unsigned int i, done;
	struct folio_range r;

	for (i = 1; i < nr; i++)
		if (dsts[i]->mapping != dsts[0]->mapping)
			break;
	anon_vma_lock_read(anon_vma);
	done = range_find(&r, anon_vma, dsts, i);
	if (done)
		done = range_restore(&r, srcs, dsts, done);
	anon_vma_unlock_read(anon_vma);
	if (done)
		return done;
	remove_migration_ptes(srcs[0], dsts[0], 0);
	return 1;
}

/**
 * migrate_range_restore() - map folios where their sources were mapped
 * @srcs: the sources
 * @dsts: the destinations: anonymous folios, locked, their anon_vma referenced
 * @nr: how many
 */
void migrate_range_restore(struct folio **srcs, struct folio **dsts,
			   unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; )
		i += restore_some(srcs + i, dsts + i, nr - i);
}

static __always_inline bool is_simple(struct folio *folio)
{
	if (!folio_test_anon(folio) || folio_test_ksm(folio) ||
	    folio_is_zone_device(folio) || folio_test_swapcache(folio) ||
	    folio_test_mlocked(folio))
		return false;
	/* Each test reads the flags anew: small folios, which are many, have few */
	if (!folio_test_large(folio))
		return folio_mapcount(folio) == 1 && folio_ref_count(folio) == 2;
	if (folio_test_hugetlb(folio) || folio_entire_mapcount(folio) ||
	    folio_order(folio) < 2 ||
	    folio_mapcount(folio) != folio_nr_pages(folio) ||
	    folio_ref_count(folio) != folio_nr_pages(folio) + 1)
		return false;
	/* It may be queued to be split at any moment, and is so later if not now */
	return data_race(list_empty(&folio->_deferred_list));
}

/**
 * migrate_range_is_simple() - does a folio look as if a range can have it?
 * @folio: isolated by the caller
 *
 * Its map count and entries are looked at again under the locks. That it is in swap
 * cache, or mlocked, can only become true by those who isolate it, or map it a
 * second time. One that has a reference too many, as a pin, would keep the others
 * from being a range.
 *
 * Return: true if it looks so.
 */
bool migrate_range_is_simple(struct folio *folio)
{
	return is_simple(folio);
}

/**
 * migrate_range_fits() - can this folio be in a range with another?
 * @first: the other, or the folio itself
 * @folio: the folio, isolated
 *
 * Said before any lock is taken. What is locked now is none that could be waited
 * for.
 *
 * Return: true if it looks so.
 */
bool migrate_range_fits(struct folio *first, struct folio *folio)
{
	return READ_ONCE(folio->mapping) == READ_ONCE(first->mapping) &&
	       !folio_test_locked(folio) && is_simple(folio);
}

#ifdef CONFIG_MIGRATE_RANGES_KUNIT_TEST
#include "range_test.c"
#endif
