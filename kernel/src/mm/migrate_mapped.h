/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Folios that are copied while they are mapped, for those who move them:
 * protect, copy, unmap.
 */
#ifndef _MM_MIGRATE_MAPPED_H
#define _MM_MIGRATE_MAPPED_H

#include <linux/errno.h>
#include <linux/mm_types.h>

#ifdef CONFIG_MIGRATE_MAPPED
bool migrate_mapped_fits(struct folio *folio);
bool migrate_protect(struct folio *folio);
bool migrate_protected_alone(struct folio *folio);
int migrate_copy_protected(struct folio *dst, struct folio *src);
bool migrate_unmap_protected(struct folio *folio, bool copied);
#else
static inline bool migrate_mapped_fits(struct folio *folio)
{
	return false;
}

static inline bool migrate_protect(struct folio *folio)
{
	return false;
}

static inline bool migrate_protected_alone(struct folio *folio)
{
	return false;
}

static inline int migrate_copy_protected(struct folio *dst, struct folio *src)
{
	return -EAGAIN;
}

static inline bool migrate_unmap_protected(struct folio *folio, bool copied)
{
	return false;
}
#endif /* CONFIG_MIGRATE_MAPPED */

#endif /* _MM_MIGRATE_MAPPED_H */
