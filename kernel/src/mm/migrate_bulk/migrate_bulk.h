/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Page migration's work around the folios, for many of them at once.
 *
 * What is here without CONFIG_MIGRATE_BULK is what the callers did one folio
 * at a time.
 */
#ifndef _MM_MIGRATE_BULK_H
#define _MM_MIGRATE_BULK_H

#include <linux/jump_label.h>
#include <linux/migrate.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/nodemask.h>
#include <linux/folio_batch.h>
#include <linux/swap.h>

#include "../internal.h"
#include "../migrate_compat.h"
#include "../migrate_runs.h"

#define MIGRATE_CLAIMS	16
/* So many folios are unmapped together, and so many or their pages mapped again */
#define MIGRATE_RANGE		16
#define MIGRATE_RANGE_PAGES	64
/* As many page tables do system calls walk in one hold of mmap_lock */
#define MIGRATE_TABLES_PER_HOLD	8

/**
 * struct migrate_claims - folios that are about to leave their LRU lists
 * @nr: how many there are
 * @of: the folios, and the list that each will be put on
 *
 * A claimed folio is still linked to its LRU list, but nobody else can take it
 * off: it has lost PG_lru, and it is referenced.
 */
struct migrate_claims {
#ifdef CONFIG_MIGRATE_BULK
	unsigned int nr;
	struct {
		struct folio *folio;
		struct list_head *list;
	} of[MIGRATE_CLAIMS];
#endif
};

/**
 * struct lru_quiet - what a caller has done about the per-CPU LRU caches
 * @disabled: whether they are disabled until lru_quiet_end()
 * @suspected: for the caller: whether a folio may be in such a cache
 *
 * A folio in such a cache cannot be isolated, or has one reference too many.
 */
struct lru_quiet {
	bool disabled;
	bool suspected;
};

/* So many addresses can be sorted at once */
#define MIGRATE_SORT_MAX	4096

/**
 * struct migrate_sort - addresses that were brought into order
 * @keys: memory that the caller frees by kvfree(); NULL until it is needed
 * @sorted: half of it: the keys, in order
 * @other: the other half, which is free
 */
struct migrate_sort {
	u64 *keys;
	u64 *sorted;
	u64 *other;
};

/* sort.c */
bool migrate_sort(struct migrate_sort *sort, const void __user **pages,
		  unsigned int nr, unsigned int room);
void migrate_unsort(struct migrate_sort *sort, int *answers, unsigned int nr);

struct migrate_sources;

/* mm/migrate.c */
void migrate_folio_end(struct folio *src, struct folio *dst,
		       struct anon_vma *anon_vma, enum migrate_reason reason,
		       struct migrate_sources *sources);
bool migrate_misplaced_room(struct pglist_data *pgdat, int nr_pages, int order);

#ifdef CONFIG_MIGRATE_RANGES

DECLARE_STATIC_KEY_TRUE(migrate_ranges_key);

/*
 * Done to the PTEs of a folio under the lock of their table, which has all of them.
 * @pte is set to one that says whether all of them were accessible, and is dirty if
 * one was. What is mapped no more is counted in @count. Return: false if nothing was
 * done.
 */
typedef bool (*migrate_range_step)(struct vm_area_struct *vma,
				   unsigned long addr, pte_t *ptep,
				   struct folio *folio, pte_t *pte,
				   struct migrate_anon_count *count);

/* range.c */
bool migrate_range_is_simple(struct folio *folio);
bool migrate_range_fits(struct folio *first, struct folio *folio);
unsigned int migrate_range_each(struct folio **folios, unsigned int nr,
				migrate_range_step step,
				enum mmu_notifier_event event, bool wait);
unsigned int migrate_range_unmap(struct folio **folios, unsigned int nr);
void migrate_range_restore(struct folio **srcs, struct folio **dsts,
			   unsigned int nr);

/* batch.c */
void migrate_unmap_ranges(struct list_head *from, new_folio_t get_new_folio,
			  free_folio_t put_new_folio, unsigned long private,
			  struct list_head *unmapped,
			  struct list_head *destinations);
unsigned int migrate_folios_unmap(struct folio **srcs, struct folio **dsts,
				  unsigned int nr);
unsigned int migrate_folios_protect(struct folio **srcs, struct folio **dsts,
				    unsigned int nr);
unsigned int migrate_folios_unmap_copied(struct folio **srcs,
					 struct folio **dsts, unsigned int nr);
void migrate_copy_range(struct migrate_sources *sources, struct folio *src,
			struct folio *dst, struct list_head *srcs);
void migrate_settle_later(struct migrate_sources *sources, struct folio *src,
			  struct folio *dst);
void migrate_settle(struct migrate_sources *sources);

/* mm/migrate.c */
void migrate_folio_record_range(struct folio *dst, struct anon_vma *anon_vma);
void migrate_folio_record_protected(struct folio *dst, struct anon_vma *anon_vma);
void migrate_folio_record_copied(struct folio *dst, bool unmapped);

static inline bool migrate_ranges_enabled(void)
{
	return static_branch_likely(&migrate_ranges_key);
}

#else /* !CONFIG_MIGRATE_RANGES */

static inline void migrate_unmap_ranges(struct list_head *from,
					new_folio_t get_new_folio,
					free_folio_t put_new_folio,
					unsigned long private,
					struct list_head *unmapped,
					struct list_head *destinations)
{
}

static inline unsigned int migrate_folios_unmap(struct folio **srcs,
						struct folio **dsts,
						unsigned int nr)
{
	return 0;
}

static inline unsigned int migrate_folios_protect(struct folio **srcs,
						  struct folio **dsts,
						  unsigned int nr)
{
	return 0;
}

static inline unsigned int
migrate_folios_unmap_copied(struct folio **srcs, struct folio **dsts,
			    unsigned int nr)
{
	return 0;
}

static inline void migrate_copy_range(struct migrate_sources *sources,
				      struct folio *src, struct folio *dst,
				      struct list_head *srcs)
{
}

static inline bool migrate_range_is_simple(struct folio *folio)
{
	return false;
}

static inline void migrate_settle_later(struct migrate_sources *sources,
					struct folio *src, struct folio *dst)
{
}

static inline void migrate_settle(struct migrate_sources *sources)
{
}

static inline bool migrate_ranges_enabled(void)
{
	return false;
}

#endif /* CONFIG_MIGRATE_RANGES */

/* The CPU is about to copy @src: if that takes long, nobody waits for what has moved */
static inline void migrate_settle_before_copy(struct migrate_sources *sources,
					      struct folio *src)
{
	if (sources && folio_nr_pages(src) > MIGRATE_RANGE_PAGES)
		migrate_settle(sources);
}

#ifdef CONFIG_MIGRATE_BULK

bool migrate_claim(struct migrate_claims *claims, struct folio *folio,
		   struct list_head *list);
void migrate_isolate_claimed(struct migrate_claims *claims);

void lru_quiet_begin(struct lru_quiet *quiet);
bool lru_quiet_insist(struct lru_quiet *quiet);
bool lru_quiet_suspects(const struct lru_quiet *quiet, struct folio *folio);
void lru_quiet_end(struct lru_quiet *quiet);

int migrate_pages_stocked(struct list_head *folios, new_folio_t get_new_folio,
			  struct migration_target_control *mtc,
			  enum migrate_mode mode, enum migrate_reason reason,
			  unsigned int *nr_succeeded);
struct migration_target_control *
migrate_stock_target(new_folio_t get_new_folio, unsigned long private);
int do_pages_move(struct mm_struct *mm, nodemask_t task_nodes,
		  unsigned long nr_pages, const void __user * __user *pages,
		  const int __user *nodes, int __user *status, int flags);

void migrate_add_lru(struct folio **folios, unsigned int nr);

/**
 * struct migrate_sources - folios that have moved and wait to be freed
 * @reason: why they were moved
 * @nr_unmapped: how many have yet to be mapped where they are now
 * @nr_unmapped_pages: the same in base pages
 * @nr: how many wait for no more than to be freed
 * @unmapped: those to be mapped, locked, each with its destination as its private
 *	field
 * @folios: those to be freed, each with the reference of its isolation
 * @pgdat: the node that they are counted as isolated on
 * @item: the counter: anonymous or file
 * @isolated: how many pages are still counted
 */
struct migrate_sources {
	enum migrate_reason reason;
	unsigned int nr_unmapped;
	unsigned int nr_unmapped_pages;
	unsigned int nr;
	struct list_head unmapped;
	struct list_head folios;
	struct pglist_data *pgdat;
	enum node_stat_item item;
	long isolated;
};

static inline void migrate_sources_init(struct migrate_sources *sources,
					enum migrate_reason reason)
{
	sources->reason = reason;
	sources->nr_unmapped = 0;
	sources->nr_unmapped_pages = 0;
	sources->nr = 0;
	INIT_LIST_HEAD(&sources->unmapped);
	INIT_LIST_HEAD(&sources->folios);
	sources->pgdat = NULL;
	sources->item = NR_ISOLATED_ANON;
	sources->isolated = 0;
}

void migrate_sources_add(struct migrate_sources *sources, struct folio *folio);
void migrate_sources_free(struct migrate_sources *sources);

/* False if this folio must be given up alone */
static inline bool migrate_folio_done_bulk(struct migrate_sources *sources,
					   struct folio *folio)
{
	if (!sources || page_has_movable_ops(&folio->page) ||
	    sources->reason == MR_MEMORY_FAILURE)
		return false;
	migrate_sources_add(sources, folio);
	return true;
}

#else /* !CONFIG_MIGRATE_BULK */

static inline bool migrate_claim(struct migrate_claims *claims,
				 struct folio *folio, struct list_head *list)
{
	if (!folio_isolate_lru(folio))
		return false;
	list_add_tail(&folio->lru, list);
	node_stat_mod_folio(folio, NR_ISOLATED_ANON + folio_is_file_lru(folio),
			    folio_nr_pages(folio));
	return true;
}

static inline void migrate_isolate_claimed(struct migrate_claims *claims)
{
}

static inline void lru_quiet_begin(struct lru_quiet *quiet)
{
	lru_cache_disable();
	*quiet = (struct lru_quiet){ .disabled = true };
}

static inline bool lru_quiet_insist(struct lru_quiet *quiet)
{
	return false;
}

static inline bool lru_quiet_suspects(const struct lru_quiet *quiet,
				      struct folio *folio)
{
	return false;
}

static inline void lru_quiet_end(struct lru_quiet *quiet)
{
	if (quiet->disabled)
		lru_cache_enable();
}

static inline int migrate_pages_stocked(struct list_head *folios,
					new_folio_t get_new_folio,
					struct migration_target_control *mtc,
					enum migrate_mode mode,
					enum migrate_reason reason,
					unsigned int *nr_succeeded)
{
	return migrate_pages(folios, get_new_folio, NULL, (unsigned long)mtc,
			     mode, reason, nr_succeeded);
}

static inline struct migration_target_control *
migrate_stock_target(new_folio_t get_new_folio, unsigned long private)
{
	return NULL;
}

struct migrate_sources {
};

static inline void migrate_sources_init(struct migrate_sources *sources,
					enum migrate_reason reason)
{
}

static inline void migrate_sources_free(struct migrate_sources *sources)
{
}

static inline bool migrate_folio_done_bulk(struct migrate_sources *sources,
					   struct folio *folio)
{
	return false;
}

#endif /* CONFIG_MIGRATE_BULK */

/* Migrate isolated folios of a system call. Return: as migrate_pages(). */
static inline int migrate_to_node_bulk(struct list_head *folios, int node)
{
	struct migration_target_control mtc = {
		.nid = node,
		.gfp_mask = GFP_HIGHUSER_MOVABLE | __GFP_THISNODE,
		.reason = MR_SYSCALL,
	};

	return migrate_pages_stocked(folios, alloc_migration_target, &mtc,
				     MIGRATE_SYNC, MR_SYSCALL, NULL);
}

#endif /* _MM_MIGRATE_BULK_H */
