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

/**
 * struct migrate_call - what one call of migrate_pages() asked for
 * @get_new_folio: as in migrate_pages()
 * @put_new_folio: as in migrate_pages()
 * @private: as in migrate_pages()
 * @reason: as in migrate_pages()
 * @left: where folios go that could not be migrated
 */
struct migrate_call {
	new_folio_t *get_new_folio;
	free_folio_t *put_new_folio;
	unsigned long private;
	enum migrate_reason reason;
	struct list_head *left;
};

/* mm/migrate.c: the steps of one folio's migration */
int migrate_offload_unmap(const struct migrate_call *call, struct folio *src,
			  struct folio **dstp);
int migrate_offload_move(const struct migrate_call *call, struct folio *src,
			 struct folio *dst, bool copied);
void migrate_offload_undo(const struct migrate_call *call, struct folio *src,
			  struct folio *dst);

#endif /* _MM_MIGRATE_OFFLOAD_HOOKS_H */
