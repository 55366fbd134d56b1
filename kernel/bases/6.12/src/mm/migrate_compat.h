/* SPDX-License-Identifier: GPL-2.0-only */
/* What Linux 6.12 calls otherwise than Linux 7.3, for page migration */
#ifndef _MM_MIGRATE_COMPAT_H
#define _MM_MIGRATE_COMPAT_H

#include <linux/gfp.h>
#include <linux/hugetlb.h>
#include <linux/memcontrol.h>
#include <linux/rmap.h>

#define folio_isolate_hugetlb		isolate_hugetlb
#define folio_putback_hugetlb		folio_putback_active_hugetlb
#define migrate_put_moved_hugetlb	folio_putback_active_hugetlb
#define folio_maybe_mapped_shared	folio_likely_mapped_shared
#define lruvec_unlock_irq		unlock_page_lruvec_irq
#define anon_rmap_tree_iter_next	anon_vma_interval_tree_iter_next
#define EMPTY_VMA_FLAGS			0
#define alloc_demote_folio		alloc_migrate_folio
#define migrate_free_list		put_pages_list

/* Why memory is migrated */
#define MIGRATE_NR_REASONS	MR_TYPES

/* Allocate up to @nr pages of order 0, and list them, the last first */
#define migrate_alloc_list(gfp, nid, nr, list) \
	__alloc_pages_bulk(gfp, nid, NULL, nr, list, NULL)

static inline bool page_has_movable_ops(const struct page *page)
{
	return __PageMovable(page);
}

static inline pgoff_t vma_start_anon_pgoff(const struct vm_area_struct *vma)
{
	return vma->vm_pgoff;
}

static inline void vma_set_anon_pgoff(struct vm_area_struct *vma, pgoff_t pgoff)
{
	vma->vm_pgoff = pgoff;
}

static inline struct anon_vma_chain *
anon_rmap_tree_iter_first(struct anon_vma *anon_vma, pgoff_t first, pgoff_t last)
{
	return anon_vma_interval_tree_iter_first(&anon_vma->rb_root, first, last);
}

static inline void anon_rmap_tree_insert(struct anon_vma_chain *avc,
					 struct anon_vma *anon_vma)
{
	anon_vma_interval_tree_insert(avc, &anon_vma->rb_root);
}

#endif /* _MM_MIGRATE_COMPAT_H */
