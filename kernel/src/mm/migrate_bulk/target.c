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

/* Small folios of one node that are allocated before they are asked for */
struct stock {
	struct migration_target_control mtc;	/* first, see migrate_stock_is() */
	struct list_head pages;
	unsigned long expected;	/* how many will yet be asked for, at most */
};

static void stock_refill(struct stock *stock)
{
	unsigned long nr = min(stock->expected, STOCK_PAGES);
	gfp_t gfp = stock->mtc.gfp_mask;

	if (stock->mtc.nowait)
		gfp = (gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NOWARN |
		      __GFP_NOMEMALLOC;
	if (nr > 1)
		nr = __alloc_pages_bulk(gfp, stock->mtc.nid,
					stock->mtc.nmask, nr, &stock->pages,
					NULL);
	stock->expected -= nr;
}

/* Taken from the end, which is filled first: frames rise as Linux has them */
static struct folio *stock_take(struct folio *src, unsigned long private)
{
	struct stock *stock = (struct stock *)private;
	struct page *page;

	if (folio_test_large(src))
		return alloc_migration_target(src, (unsigned long)&stock->mtc);
	if (list_empty(&stock->pages))
		stock_refill(stock);
	if (list_empty(&stock->pages))
		return alloc_migration_target(src, (unsigned long)&stock->mtc);
	page = list_last_entry(&stock->pages, struct page, lru);
	list_del(&page->lru);
	return page_folio(page);
}

/**
 * migrate_stock_is() - see migration_target_of()
 * @get_new_folio: as in migrate_pages()
 *
 * Return: true if it takes from a stock, which begins with a struct
 * migration_target_control.
 */
bool migrate_stock_is(new_folio_t get_new_folio)
{
	return get_new_folio == stock_take;
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
 * migrate_to_node_bulk() - migrate folios of a system call to one node
 * @folios: isolated folios; those that could not be moved remain
 * @node: where to
 *
 * Return: as migrate_pages().
 */
int migrate_to_node_bulk(struct list_head *folios, int node)
{
	struct stock stock = {
		.mtc = {
			.nid = node,
			.gfp_mask = GFP_HIGHUSER_MOVABLE | __GFP_THISNODE,
			.reason = MR_SYSCALL,
		},
		.pages = LIST_HEAD_INIT(stock.pages),
		.expected = count_small(folios),
	};
	int err;

	err = migrate_pages(folios, stock_take, NULL, (unsigned long)&stock,
			    MIGRATE_SYNC, MR_SYSCALL, NULL);
	put_pages_list(&stock.pages);
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
	migrate_add_lru(&sources->successors);
	sources_uncount(sources);
	if (folio_batch_count(&sources->folios))
		folios_put(&sources->folios);
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
	if (!folio_batch_add(&sources->folios, folio))
		migrate_sources_free(sources);
}
