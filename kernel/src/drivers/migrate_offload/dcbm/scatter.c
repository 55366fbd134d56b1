// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: small folios anywhere in memory make one part, if an IOMMU is there
 *
 * Folios that adjoin each other share a descriptor (runs.c). To a device behind
 * an IOMMU any folios can be shown as one range of addresses: then they need
 * not adjoin, and are mapped, copied, unmapped and flushed from the IOTLB at
 * once. Their order is the same in both ranges, and does not matter otherwise.
 *
 * A part that has such folios holds one of its channel's few tables of them.
 * Where there is no IOMMU, there are no tables.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "dcbm.h"

/* Of a channel. In flight there is seldom more */
#define DCBM_NR_SCATTERS	16

/* Does the device see pages that do not adjoin as one range, if told to? */
static bool dcbm_merges_pages(struct device *dev)
{
	unsigned long boundary = dma_get_merge_boundary(dev);

	return boundary && !(boundary & PAGE_MASK);
}

/* Without memory for it, folios that do not adjoin are copied one by one */
void dcbm_add_scatters(struct dcbm_chan *c)
{
	unsigned int i;

	INIT_LIST_HEAD(&c->scatters);
	if (!dcbm_merges_pages(c->dev))
		return;
	c->tables = kvcalloc_node(DCBM_NR_SCATTERS, sizeof(*c->tables),
				  GFP_KERNEL, c->node);
	for (i = 0; c->tables && i < DCBM_NR_SCATTERS; i++)
		list_add_tail(&c->tables[i].node, &c->scatters);
}

void dcbm_remove_scatters(struct dcbm_chan *c)
{
	kvfree(c->tables);
}

/* Return: NULL if all are in use, or if there are none */
struct dcbm_scatter *dcbm_get_scatter(struct dcbm_chan *c)
{
	struct dcbm_scatter *s;
	unsigned long flags;

	if (list_empty(&c->scatters))
		return NULL;
	spin_lock_irqsave(&c->lock, flags);
	s = list_first_entry_or_null(&c->scatters, struct dcbm_scatter, node);
	if (s)
		list_del(&s->node);
	spin_unlock_irqrestore(&c->lock, flags);
	return s;
}

/* Called with the channel's lock held; the part no longer needs it */
void dcbm_put_scatter(struct dcbm_part *part)
{
	lockdep_assert_held(&part->chan->lock);
	list_add(&part->scatter->node, &part->chan->scatters);
	part->scatter = NULL;
}

/* Return: where the range begins; DMA_MAPPING_ERROR if it is none */
static dma_addr_t dcbm_map_range(struct device *dev, struct scatterlist *list,
				 unsigned int nr, size_t len,
				 enum dma_data_direction dir)
{
	dma_addr_t start, end;
	struct scatterlist *sg;
	int nr_mapped, i;

	nr_mapped = dma_map_sg(dev, list, nr, dir);
	if (!nr_mapped)
		return DMA_MAPPING_ERROR;
	start = sg_dma_address(list);
	end = start;
	/* It may be in several segments, for a size that nothing here minds */
	for_each_sg(list, sg, nr_mapped, i) {
		if (sg_dma_address(sg) != end)
			break;
		end += sg_dma_len(sg);
	}
	if (end == start + len)
		return start;
	dma_unmap_sg(dev, list, nr, dir);
	return DMA_MAPPING_ERROR;
}

/**
 * dcbm_map_scatter - map what a part copies, as one range in each place
 * @part: with a table, which is filled here
 *
 * Context: the channel's submit_lock is held.
 * Return: 0 or -EIO.
 */
int dcbm_map_scatter(struct dcbm_part *part)
{
	struct device *dev = part->chan->dev;
	struct dcbm_scatter *s = part->scatter;
	unsigned int i;

	s->nr = part->nr_copies;
	sg_init_table(s->src, s->nr);
	sg_init_table(s->dst, s->nr);
	for (i = 0; i < s->nr; i++) {
		struct migrate_copy *copy = part->copies[i];
		size_t size = folio_size(copy->src);

		sg_set_folio(&s->src[i], copy->src, size, 0);
		sg_set_folio(&s->dst[i], copy->dst, size, 0);
	}
	part->src_dma = dcbm_map_range(dev, s->src, s->nr, part->len,
				       DMA_TO_DEVICE);
	if (part->src_dma == DMA_MAPPING_ERROR)
		return -EIO;
	part->dst_dma = dcbm_map_range(dev, s->dst, s->nr, part->len,
				       DMA_FROM_DEVICE);
	if (part->dst_dma == DMA_MAPPING_ERROR) {
		dma_unmap_sg(dev, s->src, s->nr, DMA_TO_DEVICE);
		return -EIO;
	}
	return 0;
}

void dcbm_unmap_scatter(struct dcbm_part *part)
{
	struct device *dev = part->chan->dev;
	struct dcbm_scatter *s = part->scatter;

	dma_unmap_sg(dev, s->dst, s->nr, DMA_FROM_DEVICE);
	dma_unmap_sg(dev, s->src, s->nr, DMA_TO_DEVICE);
}

/* The part's copies may be gone: its table knows the folios */
void dcbm_scatter_get_folios(struct dcbm_scatter *s)
{
	unsigned int i;

	for (i = 0; i < s->nr; i++) {
		folio_get(page_folio(sg_page(&s->src[i])));
		folio_get(page_folio(sg_page(&s->dst[i])));
	}
}

void dcbm_scatter_put_folios(struct dcbm_scatter *s)
{
	unsigned int i;

	for (i = 0; i < s->nr; i++) {
		folio_put(page_folio(sg_page(&s->src[i])));
		folio_put(page_folio(sg_page(&s->dst[i])));
	}
}
