// SPDX-License-Identifier: GPL-2.0
/*
 * What drivers do: dma_map_page() and dma_unmap_page(), at addresses that the DMA
 * API's allocator chooses. That is in the device's own domain, not in the bench's.
 */
#include <linux/dma-mapping.h>
#include <linux/prandom.h>
#include <linux/vmalloc.h>

#include "iommu_bench.h"

struct load {
	const char *name;
	unsigned int slots;	/* a thread has at most so many buffers mapped */
	unsigned int pages_max;	/* of a buffer; each has 1 to so many */
	bool in_order;		/* the oldest is unmapped first */
};

static const struct load loads[] = {
	/* What dma_map_benchmark does. */
	{ "api_page", 1, 1, true },
	/* A NIC's ring of packets. */
	{ "api_ring", 1024, 1, true },
	/* Buffers of any size that live for any time. */
	{ "api_mix", 256, 256, false },
};

struct slot {
	dma_addr_t address;
	size_t size;		/* 0: free */
};

static void unmap_slot(struct device *dev, struct slot *slot)
{
	if (slot->size)
		dma_unmap_page(dev, slot->address, slot->size, DMA_BIDIRECTIONAL);
	slot->size = 0;
}

static u64 load_fn(struct crew *crew, unsigned int number)
{
	const struct load *load = crew->work;
	struct device *dev = &crew->bench->pdev->dev;
	struct slot *slots = vcalloc(load->slots, sizeof(*slots)), *slot;
	struct rnd_state rnd;
	u64 i, errors = 0;

	if (!slots)
		return 1;
	prandom_seed_state(&rnd, number + 1);
	for (i = 0; i < crew->pairs; i++) {
		u32 next = load->in_order ? i : prandom_u32_state(&rnd);
		size_t size = (1 + prandom_u32_state(&rnd) % load->pages_max) * PAGE_SIZE;

		slot = &slots[next % load->slots];
		unmap_slot(dev, slot);
		slot->address = dma_map_page(dev, crew->bench->target, 0, size,
					     DMA_BIDIRECTIONAL);
		if (dma_mapping_error(dev, slot->address))
			errors++;
		else
			slot->size = size;
		if (!(i % 64))
			cond_resched();
	}
	for (i = 0; i < load->slots; i++)
		unmap_slot(dev, &slots[i]);
	vfree(slots);
	return errors;
}

int api_run(struct bench *bench, const char *name, unsigned int threads, u64 pairs,
	    struct result *result)
{
	struct crew crew = {
		.bench = bench, .nr = threads, .pairs = pairs, .fn = load_fn,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		if (strcmp(loads[i].name, name))
			continue;
		crew.work = &loads[i];
		return crew_run(&crew, result);
	}
	return -EINVAL;
}
