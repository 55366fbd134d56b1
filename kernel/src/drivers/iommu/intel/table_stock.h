/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where a domain's page tables come from and where they go; which of them stay
 * linked although they are empty. See table_stock.c.
 */
#ifndef _INTEL_IOMMU_TABLE_STOCK_H
#define _INTEL_IOMMU_TABLE_STOCK_H

#include <linux/atomic.h>
#include <linux/mm.h>

#include "iommu.h"

/*
 * The state of a table, in its descriptor: the number of its entries that are
 * present or about to be, and flags. Zero means empty, and about to be freed.
 */
#define TABLE_ENTRIES	0x00ffffff
#define TABLE_KEPT	0x01000000	/* stays linked when empty */
#define TABLE_UNFLUSHED	0x1e000000	/* if dead: the counter that it holds up */
#define TABLE_UNCLEARED	0x20000000	/* if dead: has entries, of no meaning */
#define TABLE_DEAD	0x40000000	/* being freed; never comes back */
#define TABLE_SPECIAL	INT_MIN		/* new or dead: a mapper looks closer */

#define TABLE_STATE_NEW		TABLE_SPECIAL
#define TABLE_STATE_DEAD	(TABLE_SPECIAL | TABLE_DEAD)

/* In the descriptor, where powerpc has the count of a table's fragments. */
static inline atomic_t *table_state(struct page *table)
{
	return &page_ptdesc(table)->pt_frag_refcount;
}

/* Places, not tables: a level and the first page that a table there covers. */
static inline u64 table_place(unsigned long pfn, int level)
{
	return (pfn & level_mask(level + 1)) | level;
}

static inline unsigned long place_pfn(u64 place)
{
	return place & VTD_STRIDE_MASK;
}

static inline int place_level(u64 place)
{
	return place & ~VTD_STRIDE_MASK;
}

/* By how a table ended, and how often mappers met one that was ending. */
struct table_stats {
	unsigned long freed;
	unsigned long reused;
	unsigned long kept;
	unsigned long released;
	unsigned long retries;
};

DECLARE_PER_CPU(struct table_stats, table_stats);

struct table_stock;

/* What a domain needs to free its empty tables. */
struct empty_tables {
	struct dmar_domain *domain;
	struct list_head node;
	struct table_stock __percpu *stock;
	/* Tables that died and are not flushed yet; the last is for all places. */
#define NR_UNFLUSHED	9
	atomic_t unflushed[NR_UNFLUSHED];
};

int table_stock_init(struct empty_tables *tables);
void table_stock_exit(struct empty_tables *tables);
struct page *table_stock_take(struct empty_tables *tables, gfp_t gfp, u64 place);
void table_stock_keep(struct empty_tables *tables, u64 place);
void table_stock_return(struct empty_tables *tables, struct page *table);
void table_stock_retire(struct empty_tables *tables, struct list_head *list);
unsigned long table_stock_release(struct empty_tables *tables, int cpu);

/* Called by the stock: let go of an empty table that was kept. */
void empty_tables_release(struct dmar_domain *domain, u64 place);

#endif /* _INTEL_IOMMU_TABLE_STOCK_H */
