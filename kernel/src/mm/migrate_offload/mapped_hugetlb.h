/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hugetlb folios in the copy offload: what mm/migrate.c does with others is done here.
 */
#ifndef _MM_MIGRATE_OFFLOAD_MAPPED_HUGETLB_H
#define _MM_MIGRATE_OFFLOAD_MAPPED_HUGETLB_H

#include <linux/migrate.h>

struct migrate_call;

/* mm/migrate.c; if @copied, @dst has the contents of @src */
int move_to_new_folio(struct folio *dst, struct folio *src,
		      enum migrate_mode mode, bool copied);

/* As migrate_offload_unmap() for a protected folio, move() and undo() */
#ifdef CONFIG_MIGRATE_OFFLOAD_HUGETLB
int migrate_hugetlb_protect(struct folio *src, struct folio *dst);
int migrate_hugetlb_move(const struct migrate_call *call, struct folio *src,
			 struct folio *dst, bool copied);
void migrate_hugetlb_undo(const struct migrate_call *call, struct folio *src,
			  struct folio *dst);
#else
static inline int migrate_hugetlb_protect(struct folio *src, struct folio *dst)
{
	return -EAGAIN;
}

static inline int migrate_hugetlb_move(const struct migrate_call *call,
				       struct folio *src, struct folio *dst,
				       bool copied)
{
	return -EAGAIN;
}

static inline void migrate_hugetlb_undo(const struct migrate_call *call,
					struct folio *src, struct folio *dst)
{
}
#endif

#endif /* _MM_MIGRATE_OFFLOAD_MAPPED_HUGETLB_H */
