// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: small folios anywhere in memory make one part
 *
 * Folios that adjoin each other share a descriptor (runs.c). Others can do so in
 * two ways. To a device behind an IOMMU any folios can be shown as one range of
 * addresses: they are mapped, copied, unmapped and flushed from the IOTLB at
 * once. Their order is the same in both ranges, and does not matter otherwise.
 * Without that, a driver that takes lists is given one of old and one of new
 * places. If one entry is not copied, the CPU copies all folios of the part.
 *
 * A part that has such folios holds one of its channel's few tables of them.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "dcbm.h"

/* A descriptor costs less than such a folio would wait for the others of a list */
#define DCBM_ALONE_BYTES	SZ_64K

/* Of a channel. In flight there is seldom more */
#define DCBM_NR_SCATTERS	16

/* Does the device see pages that do not adjoin as one range, if told to? */
static bool dcbm_merges_pages(struct device *dev)
{
	unsigned long boundary = dma_get_merge_boundary(dev);

	return boundary && !(boundary & PAGE_MASK);
}

/* Lists that hold as many folios as a part may have */
static bool dcbm_takes_lists(struct dcbm_chan *c)
{
	struct dma_device *device = c->chan->device;

	return dma_has_cap(DMA_MEMCPY_SG, device->cap_mask) &&
	       (!device->max_sg_burst ||
		device->max_sg_burst >= DCBM_RUN_FOLIOS);
}

/* Without memory for it, folios that do not adjoin are copied one by one */
void dcbm_add_scatters(struct dcbm_chan *c)
{
	unsigned int i;

	INIT_LIST_HEAD(&c->scatters);
	if (!dcbm_merges_pages(c->dev) && !dcbm_takes_lists(c))
		return;
	c->tables = kvcalloc_node(DCBM_NR_SCATTERS, sizeof(*c->tables),
				  GFP_KERNEL, c->node);
	for (i = 0; c->tables && i < DCBM_NR_SCATTERS; i++) {
		sg_init_table(c->tables[i].src, DCBM_RUN_FOLIOS);
		sg_init_table(c->tables[i].dst, DCBM_RUN_FOLIOS);
		list_add_tail(&c->tables[i].node, &c->scatters);
	}
}

void dcbm_remove_scatters(struct dcbm_chan *c)
{
	kvfree(c->tables);
}

/*
 * For a folio of @size bytes. Return: NULL if all are in use, if there are none, or
 * if it is better alone: all of a list is told of at once, which is late for folios
 * whose copies take long.
 */
struct dcbm_scatter *dcbm_get_scatter(struct dcbm_chan *c, size_t size)
{
	struct dcbm_scatter *s;
	unsigned long flags;

	if (list_empty(&c->scatters))
		return NULL;
	if (size >= DCBM_ALONE_BYTES && !dcbm_merges_pages(c->dev))
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

static void dcbm_add_entry(struct dcbm_scatter *s, unsigned long src,
			   unsigned long dst, size_t len)
{
	sg_set_page(&s->src[s->nr], pfn_to_page(src), len, 0);
	sg_set_page(&s->dst[s->nr], pfn_to_page(dst), len, 0);
	s->nr++;
}

static void dcbm_fill_scatter(struct dcbm_part *part)
{
	size_t most = dma_get_max_seg_size(part->chan->dev), len = 0;
	struct dcbm_scatter *s = part->scatter;
	unsigned long src = 0, dst = 0;
	unsigned int i;

	s->nr = 0;
	for (i = 0; i < part->nr_copies; i++) {
		struct migrate_copy *copy = part->copies[i];
		size_t size = folio_size(copy->src);

		if (!len || len + size > most ||
		    !dcbm_adjoin(&src, &dst, len, copy)) {
			if (len)
				dcbm_add_entry(s, src, dst, len);
			src = folio_pfn(copy->src);
			dst = folio_pfn(copy->dst);
			len = 0;
		}
		len += size;
	}
	dcbm_add_entry(s, src, dst, len);
}

/* Return: where the range begins; DMA_MAPPING_ERROR if it is none */
static dma_addr_t dcbm_range(struct scatterlist *list, int nr_mapped,
			     size_t len)
{
	dma_addr_t start = sg_dma_address(list), end = start;
	struct scatterlist *sg;
	int i;

	/* It may be in several segments, for a size that nothing here minds */
	for_each_sg(list, sg, nr_mapped, i) {
		if (sg_dma_address(sg) != end)
			break;
		end += sg_dma_len(sg);
	}
	return end == start + len ? start : DMA_MAPPING_ERROR;
}

/**
 * dcbm_map_scatter - map what a part copies, as one range in each place or as
 *	two lists
 * @part: with a table, which is filled here
 *
 * Context: the channel's submit_lock is held.
 * Return: 0 or -EIO.
 */
int dcbm_map_scatter(struct dcbm_part *part)
{
	struct device *dev = part->chan->dev;
	struct dcbm_scatter *s = part->scatter;
	int nr_src, nr_dst;

	dcbm_fill_scatter(part);
	nr_src = dma_map_sg(dev, s->src, s->nr, DMA_TO_DEVICE);
	if (!nr_src)
		return -EIO;
	nr_dst = dma_map_sg(dev, s->dst, s->nr, DMA_FROM_DEVICE);
	if (!nr_dst)
		goto unmap;
	part->src_dma = dcbm_range(s->src, nr_src, part->len);
	part->dst_dma = dcbm_range(s->dst, nr_dst, part->len);
	s->listed = part->src_dma == DMA_MAPPING_ERROR ||
		    part->dst_dma == DMA_MAPPING_ERROR;
	/* Entries of which some are merged are no longer the same in both */
	if (!s->listed || (dcbm_takes_lists(part->chan) && nr_src == s->nr &&
			   nr_dst == s->nr))
		return 0;
	dma_unmap_sg(dev, s->dst, s->nr, DMA_FROM_DEVICE);
unmap:
	dma_unmap_sg(dev, s->src, s->nr, DMA_TO_DEVICE);
	return -EIO;
}

void dcbm_unmap_scatter(struct dcbm_part *part)
{
	struct device *dev = part->chan->dev;
	struct dcbm_scatter *s = part->scatter;

	dma_unmap_sg(dev, s->dst, s->nr, DMA_FROM_DEVICE);
	dma_unmap_sg(dev, s->src, s->nr, DMA_TO_DEVICE);
}
