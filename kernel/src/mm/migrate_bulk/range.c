// SPDX-License-Identifier: GPL-2.0-only
/*
 * Folios that one page table maps are unmapped together, and so mapped again.
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
 * one VMA, the lock of their table decides.
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

/* Where the folios of a range are: in one page table */
struct range_table {
	struct vm_area_struct *vma;
	unsigned long start;	/* of what the VMA has of the table */
	unsigned long low;	/* of the folios */
	unsigned long high;
};

static unsigned long address_in(struct vm_area_struct *vma, struct folio *folio)
{
	return vma->vm_start +
	       ((folio->index - vma->vm_pgoff) << PAGE_SHIFT);
}

/* A VMA that may map what is there, if no other may; NULL: none or several */
static struct vm_area_struct *only_vma(struct anon_vma *anon_vma, pgoff_t first,
				       pgoff_t last)
{
	struct anon_vma_chain *avc;

	avc = anon_vma_interval_tree_iter_first(&anon_vma->rb_root, first, last);
	if (!avc || anon_vma_interval_tree_iter_next(avc, first, last))
		return NULL;
	return avc->vma;
}

static pgoff_t pgoff_in(struct vm_area_struct *vma, unsigned long addr)
{
	return vma->vm_pgoff + ((addr - vma->vm_start) >> PAGE_SHIFT);
}

/*
 * Is there little between the folios? Who is told of a range drops all of it.
 * Whoever is to be told from now on waits for the lock of the anon_vma first.
 */
static bool is_dense(struct mm_struct *mm, unsigned long low,
		     unsigned long high, unsigned long bytes)
{
	return !mm_has_notifiers(mm) || high - low <= SPARSE * bytes;
}

/*
 * Find where the first folios are, as many as one table maps. Return: how many;
 * none if this is not simple.
 */
static unsigned int table_find(struct range_table *t, struct anon_vma *anon_vma,
			       struct folio **folios, unsigned int nr)
{
	struct folio *folio = folios[0];
	unsigned long addr, low, high, limit, bytes = 0;
	struct vm_area_struct *vma;
	unsigned int i;

	vma = only_vma(anon_vma, folio->index,
		       folio->index + folio_nr_pages(folio) - 1);
	/* See try_to_migrate() for temporary stacks; and mlock wants a walk */
	if (!vma || vma_is_temporary_stack(vma) || (vma->vm_flags & VM_LOCKED) ||
	    folio->index < vma->vm_pgoff)
		return 0;

	addr = address_in(vma, folio);
	t->vma = vma;
	t->start = max(addr & PMD_MASK, vma->vm_start);
	t->low = addr;
	t->high = addr;
	limit = pmd_addr_end(addr, vma->vm_end);
	for (i = 0; i < nr; i++) {
		if (folios[i]->index < vma->vm_pgoff)
			break;
		addr = address_in(vma, folios[i]);
		bytes += folio_size(folios[i]);
		low = min(t->low, addr);
		high = max(t->high, addr + folio_size(folios[i]));
		if (low < t->start || high > limit ||
		    !is_dense(vma->vm_mm, low, high, bytes))
			break;
		t->low = low;
		t->high = high;
	}
	if (i && !only_vma(anon_vma, pgoff_in(vma, t->low),
			   pgoff_in(vma, t->high - PAGE_SIZE)))
		return 0;
	return i;
}

static pte_t *table_pte(const struct range_table *t, pte_t *ptes,
			unsigned long addr)
{
	return ptes + ((addr - t->start) >> PAGE_SHIFT);
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

/* Return: with how many of the first folios the step was done */
static __always_inline unsigned int
table_step(const struct range_table *t, struct folio **folios, unsigned int nr,
	   migrate_range_step step)
{
	struct table_flush flush = NO_TABLE_FLUSH;
	struct mm_struct *mm = t->vma->vm_mm;
	pmd_t *pmd = mm_find_pmd(mm, t->low);
	unsigned long addr;
	pte_t *ptes, pte;
	spinlock_t *ptl;
	unsigned int i;

	ptes = pmd ? pte_offset_map_lock(mm, pmd, t->start, &ptl) : NULL;
	if (!ptes)
		return 0;
	for (i = 0; i < nr; i++) {
		/* Nobody can map it a second time but from here */
		if (folio_mapcount(folios[i]) != folio_nr_pages(folios[i]))
			break;
		addr = address_in(t->vma, folios[i]);
		if (!step(t->vma, addr, table_pte(t, ptes, addr), folios[i],
			  &pte))
			break;
		table_flush_add(&flush, mm, addr, folio_size(folios[i]), pte);
		/* Page by page: not those that lie between the folios */
		if (!IS_ENABLED(CONFIG_ARCH_BATCHED_UNMAP_FLUSHES_MM))
			table_flush_run(&flush, t->vma);
	}
	table_flush_run(&flush, t->vma);
	pte_unmap_unlock(ptes, ptl);
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
	struct range_table t;

	anon_vma = folio_lock_anon_vma_read(folios[0], &rwc);
	if (!anon_vma)
		return 0;
	/* Their mappings were looked at before they were locked */
	for (i = 1; i < nr; i++)
		if (folio_anon_vma(folios[i]) != anon_vma)
			break;
	nr = table_find(&t, anon_vma, folios, i);
	if (nr) {
		mmu_notifier_range_init(&range, event, 0, t.vma->vm_mm, t.low,
					t.high);
		mmu_notifier_invalidate_range_start(&range);
		nr = table_step(&t, folios, nr, step);
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
		       pte_t *ptep, struct folio *folio, pte_t *pte)
{
	if (!migrate_unmap_whole(vma, addr, ptep, folio, pte))
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

/* Return: how many of the first folios are mapped again */
static unsigned int table_restore(const struct range_table *t,
				  struct folio **srcs, struct folio **dsts,
				  unsigned int nr)
{
	struct mm_struct *mm = t->vma->vm_mm;
	pmd_t *pmd = mm_find_pmd(mm, t->low);
	spinlock_t *ptl;
	unsigned int i;
	pte_t *ptes;

	ptes = pmd ? pte_offset_map_lock(mm, pmd, t->start, &ptl) : NULL;
	if (!ptes)
		return 0;
	for (i = 0; i < nr; i++) {
		unsigned long addr = address_in(t->vma, dsts[i]);

		if (!migrate_restore_whole(t->vma, addr,
					   table_pte(t, ptes, addr), srcs[i],
					   dsts[i]))
			break;
	}
	pte_unmap_unlock(ptes, ptl);
	return i;
}

/* As many as possible of the first ones. Return: how many, at least one */
static unsigned int restore_some(struct folio **srcs, struct folio **dsts,
				 unsigned int nr)
{
	struct anon_vma *anon_vma = folio_anon_vma(dsts[0]);
	unsigned int i, done;
	struct range_table t;

	for (i = 1; i < nr; i++)
		if (dsts[i]->mapping != dsts[0]->mapping)
			break;
	anon_vma_lock_read(anon_vma);
	done = table_find(&t, anon_vma, dsts, i);
	if (done)
		done = table_restore(&t, srcs, dsts, done);
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
	    folio_test_hugetlb(folio) || folio_is_zone_device(folio) ||
	    folio_test_swapcache(folio) || folio_test_mlocked(folio))
		return false;
	if (folio_mapcount(folio) != folio_nr_pages(folio) ||
	    folio_ref_count(folio) != folio_nr_pages(folio) + 1)
		return false;
	if (!folio_test_large(folio))
		return true;
	if (folio_entire_mapcount(folio) || folio_order(folio) < 2)
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
	/* In random order most are told apart by this */
	if (READ_ONCE(folio->mapping) != READ_ONCE(first->mapping) ||
	    folio->index / PTRS_PER_PTE != first->index / PTRS_PER_PTE)
		return false;
	return !folio_test_locked(folio) && is_simple(folio);
}

#ifdef CONFIG_MIGRATE_RANGES_KUNIT_TEST
#include "range_test.c"
#endif
