/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Folios that are one run, for those who hold the lock of the page table. The
 * hooks for those who walk the reverse mapping are in internal.h.
 */
#ifndef _MM_MIGRATE_RUNS_H
#define _MM_MIGRATE_RUNS_H

#include <linux/mm_types.h>

/**
 * struct migrate_anon_count - small folios that are to be counted in NR_ANON_MAPPED
 * @folio: one of them: all are of its node and cgroup. Nobody may free it until
 *	   migrate_count_anon()
 * @nr: how many more are mapped now; less than 0 if fewer are
 *
 * To count is dearer than to map a small folio.
 */
struct migrate_anon_count {
	struct folio *folio;
	int nr;
};

void migrate_count_anon(struct migrate_anon_count *count);
bool migrate_is_whole(pte_t *ptep, struct folio *folio);
bool migrate_unmap_whole(struct vm_area_struct *vma, unsigned long addr,
			 pte_t *ptep, struct folio *folio, pte_t *pte,
			 struct migrate_anon_count *count);
bool migrate_unmap_clean(struct vm_area_struct *vma, unsigned long addr,
			 pte_t *ptep, struct folio *folio, bool writable,
			 pte_t *pte, struct migrate_anon_count *count);
bool migrate_restore_whole(struct vm_area_struct *vma, unsigned long addr,
			   pte_t *ptep, struct folio *src, struct folio *dst,
			   struct migrate_anon_count *count);

#endif /* _MM_MIGRATE_RUNS_H */
