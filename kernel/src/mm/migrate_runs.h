/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Folios that are one run, for those who hold the lock of the page table. The
 * hooks for those who walk the reverse mapping are in internal.h.
 */
#ifndef _MM_MIGRATE_RUNS_H
#define _MM_MIGRATE_RUNS_H

#include <linux/mm_types.h>

bool migrate_is_whole(pte_t *ptep, struct folio *folio);
bool migrate_unmap_whole(struct vm_area_struct *vma, unsigned long addr,
			 pte_t *ptep, struct folio *folio, pte_t *pte);
bool migrate_unmap_clean(struct vm_area_struct *vma, unsigned long addr,
			 pte_t *ptep, struct folio *folio, bool writable,
			 pte_t *pte);
bool migrate_restore_whole(struct vm_area_struct *vma, unsigned long addr,
			   pte_t *ptep, struct folio *src, struct folio *dst);

#endif /* _MM_MIGRATE_RUNS_H */
