/* SPDX-License-Identifier: GPL-2.0-only */
/* What page migration needs of Linux 7.3 that other versions have otherwise */
#ifndef _MM_MIGRATE_COMPAT_H
#define _MM_MIGRATE_COMPAT_H

#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm.h>

/* move_hugetlb_state() has put it on its list: others may have isolated it again */
#define migrate_put_moved_hugetlb	folio_put

/* Why memory is migrated: not MR_NEVER, which is of what was not */
#define MIGRATE_NR_REASONS	MR_NEVER

/* What a stack has room for, also below reclaim */
#define MIGRATE_ALLOC_LIST	16

/*
 * Allocate up to @nr pages of order 0, and list them, the last first. Only for the
 * first ones memory is reclaimed, as by one call for all.
 */
static inline unsigned long migrate_alloc_list(gfp_t gfp, int nid,
					       unsigned long nr,
					       struct list_head *list)
{
	struct page *pages[MIGRATE_ALLOC_LIST];
	unsigned long wanted, got, i, done = 0;

	do {
		wanted = min_t(unsigned long, nr - done, MIGRATE_ALLOC_LIST);
		for (i = 0; i < wanted; i++)
			pages[i] = NULL;
		got = alloc_pages_bulk_node(gfp, nid, wanted, pages);
		for (i = 0; i < got; i++)
			list_add(&pages[i]->lru, list);
		done += got;
		gfp = (gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NOWARN;
	} while (got == wanted && done < nr);
	return done;
}

/* Free what migrate_alloc_list() has listed */
static inline void migrate_free_list(struct list_head *list)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, list, lru)
		__free_page(page);
	INIT_LIST_HEAD(list);
}

#endif /* _MM_MIGRATE_COMPAT_H */
