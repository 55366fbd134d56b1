/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What Linux 6.12 lacks of Linux 7.3's leafops.h, for page migration. 6.12.y has
 * softleaf_t, softleaf_from_pte() and softleaf_to_pfn() already.
 */
#ifndef _LINUX_LEAFOPS_H
#define _LINUX_LEAFOPS_H

#include <linux/swapops.h>

#define softleaf_is_migration		is_migration_entry
#define softleaf_is_migration_read	is_readable_migration_entry
#define softleaf_is_migration_write	is_writable_migration_entry
#define softleaf_is_migration_young	is_migration_entry_young
#define softleaf_is_migration_dirty	is_migration_entry_dirty

#define softleaf_from_pmd		pmd_to_swp_entry

#define huge_pte_uffd		huge_pte_uffd_wp
#define pte_uffd		pte_uffd_wp
#define pte_mkuffd		pte_mkuffd_wp
#define pte_swp_uffd		pte_swp_uffd_wp
#define pte_swp_mkuffd		pte_swp_mkuffd_wp

static inline bool userfaultfd_rwp(struct vm_area_struct *vma)
{
	return false;
}

#endif /* _LINUX_LEAFOPS_H */
