// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hugetlb folios on their way through the pipeline, which protects them, has them
 * copied, and unmaps them then; see mm/migrate_mapped.c. They are unlike others in that
 *
 *	- they are on a list of their hstate's instead of an LRU list, under a lock;
 *	- folio->private has flags of theirs, so nothing is noted there from step to step.
 *
 * What does not work out is left to Linux, which unmaps such a folio first.
 */
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/rmap.h>

#include "../internal.h"
#include "../migrate_compat.h"
#include "../migrate_mapped.h"
#include "hooks.h"
#include "mapped_hugetlb.h"

void migrate_hugetlb_take(struct folio *dst, struct list_head *list)
{
	spin_lock_irq(&hugetlb_lock);
	list_move_tail(&dst->lru, list);
	spin_unlock_irq(&hugetlb_lock);
}

void migrate_hugetlb_put(struct folio *dst)
{
	folio_putback_hugetlb(dst);
}

int migrate_hugetlb_protect(struct folio *src, struct folio *dst)
{
	if (folio_ref_count(src) == 1) {
		/* Its last user has gone */
		folio_putback_hugetlb(src);
		return 0;
	}
	if (!folio_trylock(src))
		return -EAGAIN;
	if (!folio_trylock(dst))
		goto unlock_src;
	/* Without a mapping, one of a subpool may be about to be freed: Linux decides */
	if (!hugetlb_folio_subpool(src) && folio_mapped(src) &&
	    migrate_protect(src))
		return 1;
	folio_unlock(dst);
unlock_src:
	folio_unlock(src);
	return -EAGAIN;
}

int migrate_hugetlb_move(const struct migrate_call *call, struct folio *src,
			 struct folio *dst, bool copied)
{
	/* It stays when nothing is mapped any more; NULL if that is so already */
	struct anon_vma *anon_vma = folio_get_anon_vma(src);
	int rc;

	if (!anon_vma)
		return -EAGAIN;
	if (!migrate_unmap_protected(src, copied)) {
		put_anon_vma(anon_vma);
		return -EAGAIN;
	}
	rc = move_to_new_folio(dst, src, MIGRATE_ASYNC, true);
	remove_migration_ptes(src, rc ? src : dst, 0);
	put_anon_vma(anon_vma);
	if (rc)
		return -EAGAIN;
	move_hugetlb_state(src, dst, call->reason);
	folio_unlock(dst);
	folio_unlock(src);
	folio_putback_hugetlb(src);
	migrate_put_moved_hugetlb(dst);
	return 0;
}

void migrate_hugetlb_undo(const struct migrate_call *call, struct folio *src,
			  struct folio *dst)
{
	/* It may be writable again already */
	migrate_unmap_protected(src, false);
	folio_unlock(dst);
	folio_unlock(src);
	list_move_tail(&src->lru, call->failed);
	migrate_hugetlb_put(dst);
}
