/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where mm/migrate.c and the copy offload meet: one call each way.
 */
#ifndef _MM_MIGRATE_OFFLOAD_HOOKS_H
#define _MM_MIGRATE_OFFLOAD_HOOKS_H

#include <linux/jump_label.h>
#include <linux/migrate.h>

struct migrate_call;
struct migrate_sources;

/**
 * struct migrate_offload_result - what became of the folios of a call
 * @nr_succeeded: base pages migrated
 * @nr_thp_succeeded: THPs migrated
 * @nr_failed_pages: base pages that cannot be migrated
 */
struct migrate_offload_result {
	int nr_succeeded;
	int nr_thp_succeeded;
	int nr_failed_pages;
};

#ifdef CONFIG_MIGRATE_OFFLOAD
/* On while a migrator is active */
DECLARE_STATIC_KEY_FALSE(migrate_offload_key);

int __migrate_offload_pages(struct list_head *from, struct list_head *ret_folios,
			    new_folio_t get_new_folio,
			    free_folio_t put_new_folio, unsigned long private,
			    enum migrate_reason reason,
			    struct migrate_sources *sources,
			    struct migrate_offload_result *result);
#endif

/*
 * Migrate what the active migrator can copy. Folios that are done leave @from;
 * those that nobody can move now, since they are poisoned or a stuck engine has
 * them, go to @ret_folios; all others stay on it as they were. @sources is mm/migrate.c's own.
 *
 * Return: how many folios went to @ret_folios.
 */
static inline int
migrate_offload_pages(struct list_head *from, struct list_head *ret_folios,
		      new_folio_t get_new_folio, free_folio_t put_new_folio,
		      unsigned long private, enum migrate_reason reason,
		      struct migrate_sources *sources,
		      struct migrate_offload_result *result)
{
#ifdef CONFIG_MIGRATE_OFFLOAD
	if (static_branch_unlikely(&migrate_offload_key))
		return __migrate_offload_pages(from, ret_folios, get_new_folio,
					       put_new_folio, private, reason,
					       sources, result);
#endif
	return 0;
}

/*
 * mm/migrate.c: the steps of a folio's migration.
 *
 * Unmap the first of these folios, or several of the first, and wait for nothing;
 * or, if @call->mapped, protect them, see migrate_protect().
 * Return: how many are unmapped, or protected. If none is: 0 if the first one was
 * freed, or an error; its destination stays the caller's.
 */
int migrate_offload_unmap(const struct migrate_call *call, struct folio **srcs,
			  struct folio **dsts, unsigned int nr);
int migrate_offload_move(const struct migrate_call *call, struct folio *src,
			 struct folio *dst, bool copied);
void migrate_offload_undo(const struct migrate_call *call, struct folio *src,
			  struct folio *dst);

/*
 * Unmap protected folios that are copied, and that no PMD maps, together. Return: how
 * many of the first; the others are still protected.
 */
#ifdef CONFIG_MIGRATE_RANGES
unsigned int migrate_offload_unmap_copied(struct folio **srcs,
					  struct folio **dsts, unsigned int nr);
#else
static inline unsigned int
migrate_offload_unmap_copied(struct folio **srcs, struct folio **dsts,
			     unsigned int nr)
{
	return 0;
}
#endif

/*
 * A hugetlb folio that was allocated is on a list of Linux's, under a lock: take it to
 * another list of folios, or give it back.
 */
#ifdef CONFIG_MIGRATE_OFFLOAD_HUGETLB
void migrate_hugetlb_take(struct folio *dst, struct list_head *list);
void migrate_hugetlb_put(struct folio *dst);
#else
static inline void migrate_hugetlb_take(struct folio *dst,
					struct list_head *list)
{
}

static inline void migrate_hugetlb_put(struct folio *dst)
{
}
#endif

/* So many folios may be unmapped in one step */
#define MIGRATE_OFFLOAD_STEP	16

#ifdef CONFIG_MIGRATE_RANGES
/* So many are unmapped in one step at most, as things are */
unsigned int migrate_offload_step(void);
#else
static inline unsigned int migrate_offload_step(void)
{
	return 1;
}
#endif

#ifdef CONFIG_MIGRATE_BULK
/* Folios that were moved may not be accessible, nor freed, before this */
void migrate_offload_settle(const struct migrate_call *call);
#else
static inline void migrate_offload_settle(const struct migrate_call *call)
{
}
#endif

#endif /* _MM_MIGRATE_OFFLOAD_HOOKS_H */
