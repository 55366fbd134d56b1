/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How softdma copies a descriptor, or fails to; part of softdma.c
 */
#ifndef _SOFTDMA_COPY_H
#define _SOFTDMA_COPY_H

/* Return: where the device would find @addr; NULL if its IOMMU does not map it */
static void *softdma_va(struct softdma_chan *c, dma_addr_t addr)
{
	struct device *dev = c->vc.chan.device->dev;
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);
	phys_addr_t phys;

	phys = domain ? iommu_iova_to_phys(domain, addr) :
			dma_to_phys(dev, addr);
	return phys ? phys_to_virt(phys) : NULL;
}

/* Bytes that were never in the source, as of an engine that failed half way */
static void softdma_scribble(struct softdma_chan *c, dma_addr_t dst, size_t len)
{
	while (len) {
		void *to = softdma_va(c, dst);
		size_t n = min(len, PAGE_SIZE - offset_in_page(dst));

		if (to)
			memset(to, 0xdb, n);
		dst += n;
		len -= n;
	}
}

/* Go on behind @n bytes; of a list, with the next entry if there is one */
static void softdma_advance(struct softdma_desc *d, size_t n)
{
	WRITE_ONCE(d->done, d->done + n);
	d->src += n;
	d->dst += n;
	d->left -= n;
	if (d->left || d->done == d->len)
		return;
	d->src_sg = sg_next(d->src_sg);
	d->dst_sg = sg_next(d->dst_sg);
	d->src = sg_dma_address(d->src_sg);
	d->dst = sg_dma_address(d->dst_sg);
	d->left = sg_dma_len(d->src_sg);
}

static enum dmaengine_tx_result softdma_copy(struct softdma_chan *c,
					     struct softdma_desc *d)
{
	bool fail_write = test_bit(SOFTDMA_WRITE_ERROR, &d->faults);
	bool deny = test_bit(SOFTDMA_RESIDUE, &d->faults);
	bool fail = fail_write || deny ||
		    test_bit(SOFTDMA_READ_ERROR, &d->faults);
	size_t end = fail ? d->len / 2 : d->len;

	while (d->done < end) {
		void *from = softdma_va(c, d->src);
		void *to = softdma_va(c, d->dst);
		size_t n = min3(min(end - d->done, d->left),
				PAGE_SIZE - offset_in_page(from),
				PAGE_SIZE - offset_in_page(to));
		size_t left = n;

		if (!to)
			return DMA_TRANS_WRITE_FAILED;
		if (from && !PageHWPoison(virt_to_page(from)))
			left = copy_mc_to_kernel(to, from, n);
		softdma_advance(d, n - left);
		if (left)
			return DMA_TRANS_READ_FAILED;
		cond_resched();
		if (softdma_gone(c))
			return DMA_TRANS_ABORTED;
	}
	if (!fail)
		return DMA_TRANS_NOERROR;
	softdma_scribble(c, d->dst, min(d->left, DIV_ROUND_UP(d->len - end, 2)));
	if (deny)
		return DMA_TRANS_NOERROR;
	return fail_write ? DMA_TRANS_WRITE_FAILED : DMA_TRANS_READ_FAILED;
}

#endif /* _SOFTDMA_COPY_H */
