/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page tables that become empty are freed at once: what the rest of the driver
 * sees of it. See empty_tables.c for how and why.
 */
#ifndef _INTEL_IOMMU_EMPTY_TABLES_H
#define _INTEL_IOMMU_EMPTY_TABLES_H

#include "iommu.h"

#ifdef CONFIG_INTEL_IOMMU_FREE_EMPTY_TABLES

/**
 * empty_tables_init() - prepare a domain, before its first mapping
 * @domain: a paging domain of this driver
 *
 * May sleep.
 *
 * Return: 0 or -ENOMEM.
 */
int empty_tables_init(struct dmar_domain *domain);

/**
 * empty_tables_exit() - undo empty_tables_init(), before the last tables go
 * @domain: a domain that nobody maps, unmaps or looks into any more
 *
 * May sleep. What is still linked is left to the caller.
 */
void empty_tables_exit(struct dmar_domain *domain);

/**
 * empty_tables_find() - look an address up
 * @domain: the domain
 * @pfn: the address, in pages
 * @level: set to the level at which the way down ended
 *
 * The caller is in an RCU read-side section for as long as it uses the result.
 * Return: the entry: a page, or not present. It may change at any time unless
 * the caller owns the address.
 */
struct dma_pte *empty_tables_find(struct dmar_domain *domain, unsigned long pfn,
				  int *level);

/**
 * empty_tables_map() - make the way to entries that are about to be written
 * @domain: the domain
 * @pfn: the first address, in pages; the caller owns all of it
 * @level: 1 for 4 KiB pages, 2 for 2 MiB pages, ...
 * @nr_pages: how much the caller has to map, in pages of 4 KiB
 * @gfp: how to allocate the tables that are missing
 *
 * Counts as many entries as that takes, up to the end of their table, so that
 * the table stays until they are unmapped. The caller must write all of them.
 * Larger pages find their place cleared of tables and of smaller pages.
 *
 * Return: the first entry, NULL if there is no memory.
 */
struct dma_pte *empty_tables_map(struct dmar_domain *domain, unsigned long pfn,
				 int level, unsigned long nr_pages, gfp_t gfp);

/**
 * empty_tables_take_back() - take one promised entry back
 * @domain: the domain
 * @slot: an entry from empty_tables_map() that turned out to be in use
 */
void empty_tables_take_back(struct dmar_domain *domain, struct dma_pte *slot);

/**
 * empty_tables_unmap() - unmap a range, and free the tables that become empty
 * @domain: the domain
 * @iova: the first address
 * @size: how much, in bytes; the caller owns all of it
 * @gather: what to flush, and what to free when that is done
 *
 * Return: @size, or the size of the page at @iova if that is larger.
 */
size_t empty_tables_unmap(struct dmar_domain *domain, unsigned long iova,
			  size_t size, struct iommu_iotlb_gather *gather);

/**
 * empty_tables_flushed() - the tables of a gather are forgotten by the hardware
 * @domain: the domain
 * @tables: where empty_tables_unmap() left them; empty on return
 */
void empty_tables_flushed(struct dmar_domain *domain, struct list_head *tables);

#else /* !CONFIG_INTEL_IOMMU_FREE_EMPTY_TABLES */

static inline int empty_tables_init(struct dmar_domain *domain)
{
	return 0;
}

static inline void empty_tables_exit(struct dmar_domain *domain)
{
}

static inline struct dma_pte *empty_tables_find(struct dmar_domain *domain,
						unsigned long pfn, int *level)
{
	return NULL;
}

static inline struct dma_pte *empty_tables_map(struct dmar_domain *domain,
					       unsigned long pfn, int level,
					       unsigned long nr_pages,
					       gfp_t gfp)
{
	return NULL;
}

static inline void empty_tables_take_back(struct dmar_domain *domain,
					 struct dma_pte *slot)
{
}

static inline size_t empty_tables_unmap(struct dmar_domain *domain,
					unsigned long iova, size_t size,
					struct iommu_iotlb_gather *gather)
{
	return 0;
}

static inline void empty_tables_flushed(struct dmar_domain *domain,
					struct list_head *tables)
{
}

#endif /* CONFIG_INTEL_IOMMU_FREE_EMPTY_TABLES */
#endif /* _INTEL_IOMMU_EMPTY_TABLES_H */
