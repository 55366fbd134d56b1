/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where mm/migrate.c and the copy offload meet: one call each way.
 */
#ifndef _MM_MIGRATE_OFFLOAD_HOOKS_H
#define _MM_MIGRATE_OFFLOAD_HOOKS_H

#include <linux/jump_label.h>
#include <linux/migrate.h>

#ifdef CONFIG_MIGRATE_OFFLOAD
/* On while a migrator is active */
DECLARE_STATIC_KEY_FALSE(migrate_offload_key);

void __migrate_offload_pages(struct list_head *from,
			     new_folio_t get_new_folio,
			     free_folio_t put_new_folio, unsigned long private,
			     enum migrate_reason reason, int *nr_succeeded,
			     int *nr_thp_succeeded);
#endif

/*
 * Migrate what the active migrator can copy. Folios that are done leave @from
 * and are counted in base pages and in THPs; all others stay on it as they were.
 */
static inline void
migrate_offload_pages(struct list_head *from, new_folio_t get_new_folio,
		      free_folio_t put_new_folio, unsigned long private,
		      enum migrate_reason reason, int *nr_succeeded,
		      int *nr_thp_succeeded)
{
#ifdef CONFIG_MIGRATE_OFFLOAD
	if (static_branch_unlikely(&migrate_offload_key))
		__migrate_offload_pages(from, get_new_folio, put_new_folio,
					private, reason, nr_succeeded,
					nr_thp_succeeded);
#endif
}

/* mm/migrate.c: the steps of one folio's migration */
int migrate_folio_unmap(new_folio_t get_new_folio, free_folio_t put_new_folio,
			unsigned long private, struct folio *src,
			struct folio **dstp, enum migrate_mode mode,
			enum migrate_reason reason, struct list_head *ret);
int migrate_folio_move(free_folio_t put_new_folio, unsigned long private,
		       struct folio *src, struct folio *dst,
		       enum migrate_mode mode, enum migrate_reason reason,
		       bool copied, struct list_head *ret);
void migrate_folio_undo(free_folio_t put_new_folio, unsigned long private,
			struct folio *src, struct folio *dst,
			struct list_head *ret);

#endif /* _MM_MIGRATE_OFFLOAD_HOOKS_H */
