// SPDX-License-Identifier: GPL-2.0
/*
 * Maps that run out of memory halfway, over the end of a table: nothing of them may
 * stay mapped. /sys/kernel/debug/fail_page_alloc says how often they do, for tasks
 * that ask for it.
 */
#include "iommu_bench.h"

#define PAGES	16

static void make_it_fail(bool yes)
{
#ifdef CONFIG_FAULT_INJECTION
	current->make_it_fail = yes;
#endif
}

static void free_tables(struct iommu_domain *domain, u64 iova, size_t size)
{
#ifdef HAVE_FREE_EMPTY_TABLES
	struct iommu_iotlb_gather gather;

	iommu_iotlb_gather_init(&gather);
	iommu_free_empty_tables(domain, iova, iova + size - 1, 0, ULONG_MAX, &gather);
	if (!list_empty(&gather.freelist))
		iommu_iotlb_sync(domain, &gather);
#endif
}

int fail_run(struct bench *bench, const char *name, unsigned int threads,
	     u64 rounds, struct result *result)
{
	u64 iova = SZ_8G + SZ_2M - PAGES / 2 * SZ_4K, begin = ktime_get_ns(), round;
	phys_addr_t physical = bench->target_phys + SZ_4K;
	size_t size = PAGES * SZ_4K, at;

	for (round = 0; round < rounds; round++) {
		int ret;

		make_it_fail(true);
		ret = iommu_map(bench->domain, iova, physical, size, PROT, GFP_KERNEL);
		make_it_fail(false);
		if (ret)
			result->faults++;
		else
			result->errors += iommu_unmap(bench->domain, iova, size) != size;
		for (at = 0; at < size; at += SZ_4K)
			result->errors += iommu_iova_to_phys(bench->domain, iova + at) != 0;
		free_tables(bench->domain, iova, size);
	}
	result->pairs = rounds;
	result->ns = ktime_get_ns() - begin;
	return 0;
}
