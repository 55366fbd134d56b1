// SPDX-License-Identifier: GPL-2.0-only
/*
 * The folios that others move to are allocated in bulk, and those that others
 * have moved from are freed in bulk.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/vmstat.h>

#include "../internal.h"
#include "migrate_bulk.h"

/* As many as the page allocator hands from its lists to a CPU at once */
#define STOCK_PAGES	64

/* Small folios of the target node, allocated before they are asked for */
struct target_stock {
	new_folio_t *get_new_folio;	/* for all others */
	struct migration_target_control *mtc;
	gfp_t gfp_mask;
	struct list_head pages;
	unsigned long expected;	/* how many will yet be asked for, at most */
};

static void target_stock_refill(struct target_stock *stock)
{
	unsigned long nr = min(stock->expected, STOCK_PAGES);
	gfp_t gfp = stock->gfp_mask;

	if (stock->mtc->nowait)
		gfp = (gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NOWARN |
		      __GFP_NOMEMALLOC;
	if (nr > 1)
		nr = migrate_alloc_list(gfp, stock->mtc->nid, nr, &stock->pages);
	stock->expected -= nr;
	/* The node is full: so it will be for the others */
	if (!nr && !stock->mtc->nowait)
		stock->expected = 0;
}

/* Taken from the end, which is filled first: frames rise as Linux has them */
static struct folio *target_stock_take(struct folio *src, unsigned long private)
{
	struct target_stock *stock = (struct target_stock *)private;
	struct page *page;

	if (folio_test_large(src))
		return stock->get_new_folio(src, (unsigned long)stock->mtc);
	if (list_empty(&stock->pages))
		target_stock_refill(stock);
	if (list_empty(&stock->pages))
		return stock->get_new_folio(src, (unsigned long)stock->mtc);
	page = list_last_entry(&stock->pages, struct page, lru);
	list_del(&page->lru);
	return page_folio(page);
}

/**
 * migrate_stock_target() - see migration_target_of()
 * @get_new_folio: as in migrate_pages()
 * @private: as in migrate_pages()
 *
 * Return: what the caller of migrate_pages_stocked() allocates by; NULL if it is
 * somebody else, or takes other nodes rather than wait.
 */
struct migration_target_control *
migrate_stock_target(new_folio_t get_new_folio, unsigned long private)
{
	struct target_stock *stock = (struct target_stock *)private;

	if (get_new_folio != target_stock_take ||
	    stock->get_new_folio != alloc_migration_target)
		return NULL;
	return stock->mtc;
}

static unsigned long count_small(struct list_head *folios)
{
	struct folio *folio;
	unsigned long nr = 0;

	list_for_each_entry(folio, folios, lru)
		nr += !folio_test_large(folio);
	return nr;
}

/**
 * migrate_pages_stocked() - migrate folios, and allocate small ones in bulk
 * @folios: isolated folios; those that could not be moved remain
 * @get_new_folio: alloc_migration_target(), or what begins on the node of @mtc
 * @mtc: one node, or NUMA_NO_NODE where only @get_new_folio knows which; and a
 *	mask that says whether the folios are movable
 * @mode: as in migrate_pages()
 * @reason: as in migrate_pages()
 * @nr_succeeded: as in migrate_pages()
 *
 * Return: as migrate_pages().
 */
int migrate_pages_stocked(struct list_head *folios, new_folio_t get_new_folio,
			  struct migration_target_control *mtc,
			  enum migrate_mode mode, enum migrate_reason reason,
			  unsigned int *nr_succeeded)
{
	struct target_stock stock = {
		.get_new_folio = get_new_folio,
		.mtc = mtc,
		.gfp_mask = mtc->gfp_mask | __GFP_THISNODE,
		.pages = LIST_HEAD_INIT(stock.pages),
		.expected = mtc->nid == NUMA_NO_NODE ? 0 : count_small(folios),
	};
	int err;

	err = migrate_pages(folios, target_stock_take, NULL,
			    (unsigned long)&stock, mode, reason, nr_succeeded);
	migrate_free_list(&stock.pages);
	return err;
}

static void sources_uncount(struct migrate_sources *sources)
{
	if (sources->isolated)
		mod_node_page_state(sources->pgdat, sources->item,
				    -sources->isolated);
	sources->isolated = 0;
}

/**
 * migrate_sources_free() - free what has moved
 * @sources: the folios; none is left when this returns
 */
void migrate_sources_free(struct migrate_sources *sources)
{
	struct folio_batch batch;
	struct folio *folio;

	sources_uncount(sources);
	if (!sources->nr)
		return;
	folio_batch_init(&batch);
	list_for_each_entry(folio, &sources->folios, lru)
		folio_batch_add(&batch, folio);
	INIT_LIST_HEAD(&sources->folios);
	sources->nr = 0;
	if (folio_batch_count(&batch) > 1)
		folios_put(&batch);
	else
		folio_put(batch.folios[0]);
}

/**
 * migrate_sources_add() - give up a folio that was isolated and has moved
 * @sources: where it waits for others
 * @folio: the folio: unlocked, and on no list
 */
void migrate_sources_add(struct migrate_sources *sources, struct folio *folio)
{
	enum node_stat_item item = NR_ISOLATED_ANON + folio_is_file_lru(folio);

	/* Demotion does not count what it isolates */
	if (sources->reason != MR_DEMOTION) {
		if (sources->pgdat != folio_pgdat(folio) ||
		    sources->item != item)
			sources_uncount(sources);
		sources->pgdat = folio_pgdat(folio);
		sources->item = item;
		sources->isolated += folio_nr_pages(folio);
	}
	list_add_tail(&folio->lru, &sources->folios);
	if (++sources->nr == FOLIO_BATCH_SIZE)
		migrate_sources_free(sources);
}
