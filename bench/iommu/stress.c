// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that map and unmap pages of the same tables at random. Each page of the
 * window has an owner; the shadow says what the owner mapped there, and every
 * translation is compared with it. Few pages are mapped at a time, so tables
 * become empty all the time.
 *
 * Beyond the window lie regions of 2 MiB, which threads claim as a whole and map
 * as one large page, as single pages, or as a range of small pages.
 *
 * After an unmap the tables in the hole around it are freed, as VFIO and iommufd
 * do it: the shadow says where the hole ends, and nobody maps meanwhile.
 */
#include <linux/prandom.h>
#include <linux/rwsem.h>
#include <linux/vmalloc.h>

#include "iommu_bench.h"

#define REGIONS		8
#define REGION_IOVA	(STRESS_IOVA + STRESS_PAGES * SZ_4K)
/* One claim in so many operations. */
#define CLAIM_EVERY	8
/* A thread that has this many pages mapped unmaps one. */
#define MAPPED_MAX	2

struct shadow {
	struct rw_semaphore lock;	/* for writing: what is a hole stays one */
	u64 freed;			/* how often there were tables in a hole */
	atomic_t claims[REGIONS];
	phys_addr_t pages[STRESS_PAGES];
};

/*
 * VT-d reads the last entry twice, and takes it for a page if somebody links a
 * table for a neighbour's page in between: so a surprise is looked at once more.
 */
static u64 expect(struct iommu_domain *domain, u64 iova, phys_addr_t want)
{
	phys_addr_t found = iommu_iova_to_phys(domain, iova);

	if (found != want)
		found = iommu_iova_to_phys(domain, iova);
	if (found == want)
		return 0;
	pr_err_ratelimited("iommu_bench: %#llx is %pa, expected %pa\n",
			   iova, &found, &want);
	return 1;
}

#ifdef HAVE_FREE_EMPTY_TABLES
/* Where the mapping next below @iova ends; 0 if there is none. */
static u64 floor_of(struct shadow *shadow, u64 iova)
{
	int page = STRESS_PAGES, region = 0;

	if (iova >= REGION_IOVA)
		region = (iova - REGION_IOVA) / SZ_2M;
	else
		page = (iova - STRESS_IOVA) / SZ_4K;
	while (region--)
		if (atomic_read(&shadow->claims[region]))
			return REGION_IOVA + (region + 1ULL) * SZ_2M;
	while (page--)
		if (shadow->pages[page])
			return STRESS_IOVA + (page + 1ULL) * SZ_4K;
	return 0;
}

/* Where the hole from @iova on ends: before the next mapping, or nowhere. */
static u64 ceiling_of(struct shadow *shadow, u64 iova)
{
	unsigned int page = STRESS_PAGES, region = 0;

	if (iova >= REGION_IOVA)
		region = (iova - REGION_IOVA) / SZ_2M;
	else
		page = (iova - STRESS_IOVA) / SZ_4K;
	for (; page < STRESS_PAGES; page++)
		if (shadow->pages[page])
			return STRESS_IOVA + (u64)page * SZ_4K - 1;
	for (; region < REGIONS; region++)
		if (atomic_read(&shadow->claims[region]))
			return REGION_IOVA + (u64)region * SZ_2M - 1;
	return ULONG_MAX;
}

static void free_tables(struct crew *crew, u64 iova, size_t size)
{
	struct iommu_domain *domain = crew->bench->domain;
	struct shadow *shadow = crew->shadow;
	struct iommu_iotlb_gather gather;

	iommu_iotlb_gather_init(&gather);
	down_write(&shadow->lock);
	iommu_free_empty_tables(domain, iova, iova + size - 1,
				floor_of(shadow, iova),
				ceiling_of(shadow, iova + size), &gather);
	if (gather.end) {
		shadow->freed++;
		iommu_iotlb_sync(domain, &gather);
	}
	up_write(&shadow->lock);
}
#else
static void free_tables(struct crew *crew, u64 iova, size_t size)
{
}
#endif

u64 stress_map(struct crew *crew, unsigned int page, phys_addr_t physical)
{
	struct shadow *shadow = crew->shadow;
	struct iommu_domain *domain = crew->bench->domain;
	u64 iova = STRESS_IOVA + (u64)page * SZ_4K, errors;

	down_read(&shadow->lock);
	errors = expect(domain, iova, 0);
	if (iommu_map(domain, iova, physical, SZ_4K, PROT, GFP_KERNEL)) {
		errors++;
	} else {
		shadow->pages[page] = physical;
		errors += expect(domain, iova, physical);
	}
	up_read(&shadow->lock);
	return errors;
}

u64 stress_unmap(struct crew *crew, unsigned int page)
{
	struct shadow *shadow = crew->shadow;
	struct iommu_domain *domain = crew->bench->domain;
	u64 iova = STRESS_IOVA + (u64)page * SZ_4K, errors;

	down_read(&shadow->lock);
	errors = expect(domain, iova, shadow->pages[page]);
	errors += iommu_unmap(domain, iova, SZ_4K) != SZ_4K;
	shadow->pages[page] = 0;
	errors += expect(domain, iova, 0);
	up_read(&shadow->lock);
	free_tables(crew, iova, SZ_4K);
	return errors;
}

static u64 use_region(struct crew *crew, struct rnd_state *rnd)
{
	struct shadow *shadow = crew->shadow;
	struct iommu_domain *domain = crew->bench->domain;
	unsigned int region = prandom_u32_state(rnd) % REGIONS;
	u64 iova = REGION_IOVA + (u64)region * SZ_2M, errors = 0;
	phys_addr_t physical = crew->bench->target_phys;
	size_t size = SZ_2M, offset = 0;

	if (atomic_cmpxchg(&shadow->claims[region], 0, 1))
		return 0;
	switch (prandom_u32_state(rnd) % 4) {
	case 0:	/* one large page */
		break;
	case 1:	/* small pages, a whole table */
		physical += SZ_4K;
		break;
	case 2:	/* some of a table */
		offset = SZ_4K * (1 + prandom_u32_state(rnd) % 256);
		size = SZ_4K * (1 + prandom_u32_state(rnd) % 255);
		break;
	default: /* one page */
		offset = SZ_4K * (prandom_u32_state(rnd) % 512);
		size = SZ_4K;
	}
	down_read(&shadow->lock);
	if (iommu_map(domain, iova + offset, physical + offset, size, PROT,
		      GFP_KERNEL)) {
		errors++;
	} else {
		errors += expect(domain, iova + offset, physical + offset);
		errors += expect(domain, iova + offset + size - SZ_4K,
				 physical + offset + size - SZ_4K);
		errors += iommu_unmap(domain, iova + offset, size) != size;
	}
	errors += expect(domain, iova + offset, 0);
	up_read(&shadow->lock);
	free_tables(crew, iova, SZ_2M);
	atomic_set_release(&shadow->claims[region], 0);
	return errors;
}

static u64 stress_fn(struct crew *crew, unsigned int number)
{
	unsigned int mapped[MAPPED_MAX], nr_mapped = 0, owners = crew->nr + 1;
	struct shadow *shadow = crew->shadow;
	struct rnd_state rnd;
	u64 i, errors = 0;

	prandom_seed_state(&rnd, number + 1);
	for (i = 0; i < crew->pairs && !READ_ONCE(crew->stop); i++) {
		unsigned int page = prandom_u32_state(&rnd) % STRESS_PAGES;
		phys_addr_t physical = crew->bench->target_phys +
			prandom_u32_state(&rnd) % 1024 * SZ_4K;

		if (!(i % 64))
			cond_resched();
		if (!(i % CLAIM_EVERY)) {
			errors += use_region(crew, &rnd);
			continue;
		}
		if (nr_mapped && (nr_mapped == MAPPED_MAX || page & 1)) {
			errors += stress_unmap(crew, mapped[--nr_mapped]);
			continue;
		}
		/* The page of that group of owners which is this thread's. */
		page = page / owners * owners + number;
		if (page >= STRESS_PAGES || shadow->pages[page])
			continue;
		errors += stress_map(crew, page, physical);
		mapped[nr_mapped++] = page;
	}
	while (nr_mapped)
		errors += stress_unmap(crew, mapped[--nr_mapped]);
	return errors;
}

int stress_start(struct crew *crew)
{
	struct shadow *shadow = vzalloc(sizeof(*shadow));

	if (!shadow)
		return -ENOMEM;
	init_rwsem(&shadow->lock);
	crew->shadow = shadow;
	crew->fn = stress_fn;
	return crew_start(crew);
}

void stress_finish(struct crew *crew, struct result *result)
{
	struct shadow *shadow = crew->shadow;

	crew_finish(crew, result);
	result->freed = shadow->freed;
	vfree(crew->shadow);
}

int stress_run(struct bench *bench, const char *name, unsigned int threads,
	       u64 pairs, struct result *result)
{
	struct crew crew = { .bench = bench, .nr = threads, .pairs = pairs };
	u64 begin = ktime_get_ns();
	int ret = stress_start(&crew);

	if (ret)
		return ret;
	stress_finish(&crew, result);
	result->ns = ktime_get_ns() - begin;
	return 0;
}
