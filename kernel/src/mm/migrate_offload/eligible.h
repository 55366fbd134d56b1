/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a migrator may do with a folio: the one place that decides.
 *
 * Only what is positively known is copied early. All else is copied by the CPU
 * at the moment when Linux does it, or left to Linux altogether.
 */
#ifndef _MM_MIGRATE_OFFLOAD_ELIGIBLE_H
#define _MM_MIGRATE_OFFLOAD_ELIGIBLE_H

#include <linux/migrate_offload.h>
#include <linux/mm.h>
#include <linux/page-flags.h>

#include "../migrate_compat.h"
#include "../migrate_mapped.h"

/* eligible.c */
bool migrate_offload_may_unmap_large(struct folio *src);
bool migrate_offload_thp_supported(void);
bool migrate_offload_plain_bytes(struct folio *src);

/*
 * Is the folio worth being unmapped for an engine? An early look, perhaps without
 * its lock. Not what is no memory of LRU, and not KSM's, which is found by locks
 * that must be waited for. If not, it is left to Linux.
 */
static inline bool migrate_offload_may_unmap(struct folio *src)
{
	if (page_has_movable_ops(&src->page) || folio_test_ksm(src))
		return false;
	if (folio_is_zone_device(src))
		return false;
	return !folio_test_large(src) || migrate_offload_may_unmap_large(src);
}

/*
 * May engine @m copy the folio before it moves? It is locked, and unmapped or
 * protected. If not, the CPU copies it.
 *
 * Memory that is known to be poisoned is not shown to an engine: what the CPU
 * survives may take the engine down.
 */
static inline bool migrate_offload_may_copy(const struct migrator *m,
					    struct folio *src)
{
	VM_WARN_ON_ONCE_FOLIO(!folio_test_locked(src), src);

	/* The swap cache has migrate_folio(), too */
	if (!folio_test_anon(src) && !migrate_file_is_plain(src))
		return false;
	if (folio_test_hwpoison(src) ||
	    (folio_test_large(src) && folio_test_has_hwpoisoned(src)))
		return false;
	return m->copies_by_cpu || migrate_offload_plain_bytes(src);
}

#endif /* _MM_MIGRATE_OFFLOAD_ELIGIBLE_H */
