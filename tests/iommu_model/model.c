// SPDX-License-Identifier: GPL-2.0
/*
 * The freeing of empty IOMMU page tables, in user space: the driver's own files,
 * threads that map and unmap in the same tables, and what no emulator has: an
 * IOMMU that caches the entries of inner tables and forgets one only when it is
 * told to.
 *
 * usage: model SECONDS [MAPPERS]. Exit code 1 if the IOMMU found a page that was
 * unmapped, did not find one that was mapped, or walked a freed table, or if a
 * table was lost.
 *
 * Not modelled: the IOTLB of pages (it is flushed as it always was), walkers that
 * do not snoop.
 */
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../../kernel/src/drivers/iommu/intel/empty_tables.h"
#include "../../kernel/src/drivers/iommu/intel/table_stock.h"

#define NR_PAGES	32768	/* of the arena; all tables come from it */
#define NR_DEVICES	2
#define MAX_MAPPERS	12
#define NR_TABLES	4
#define NR_WINDOW	(NR_TABLES * 512)
#define NR_REGIONS	2
#define MAPPED_MAX	2
#define TOP		4
#define NR_CACHED	64

__thread int model_cpu;

static struct page pages[NR_PAGES];
static char *arena;
static struct list_head free_pages = { &free_pages, &free_pages };
static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int nr_used;

static struct dmar_domain domain;
static atomic_bool stop;
static atomic_ulong nr_errors, nr_ops, nr_checked, nr_invalidations;

void maybe_yield(void)
{
	static __thread unsigned int count;

	if (++count % 61 == 0)
		sched_yield();
}

static void error(const char *what, unsigned long pfn)
{
	if (nr_errors++ < 5)
		fprintf(stderr, "model: %s, page %#lx\n", what, pfn);
}

/* Pages. A physical address is never 0. */
struct page *pfn_to_page(unsigned long pfn) { return &pages[pfn - 1]; }
void *page_address(struct page *page) { return arena + (page - pages) * PAGE_SIZE; }
struct page *virt_to_page(const void *virt) { return &pages[((const char *)virt - arena) / PAGE_SIZE]; }
u64 page_to_phys(struct page *page) { return (u64)(page - pages + 1) << VTD_PAGE_SHIFT; }
void *phys_to_virt(u64 phys) { return arena + phys - PAGE_SIZE; }

void *iommu_alloc_page_node(int nid, gfp_t gfp)
{
	struct page *page;

	mutex_lock(&pages_lock);
	page = list_first_entry_or_null(&free_pages, struct page, lru);
	assert(page);
	list_del(&page->lru);
	page->free = false;
	mutex_unlock(&pages_lock);
	nr_used++;
	memset(page_address(page), 0, PAGE_SIZE);
	return page_address(page);
}

void __iommu_free_pages(struct page *page, int order)
{
	/* Whoever still walks it meets entries that lead nowhere. */
	memset(page_address(page), 0xff, PAGE_SIZE);
	nr_used--;
	mutex_lock(&pages_lock);
	page->free = true;
	list_add(&page->lru, &free_pages);
	mutex_unlock(&pages_lock);
}

/* RCU */
static pthread_rwlock_t rcu_lock;
static struct list_head callbacks = { &callbacks, &callbacks };
static pthread_mutex_t callbacks_lock = PTHREAD_MUTEX_INITIALIZER;
static bool callbacks_busy;

void rcu_read_lock(void) { pthread_rwlock_rdlock(&rcu_lock); }
void rcu_read_unlock(void) { pthread_rwlock_unlock(&rcu_lock); }

void call_rcu(struct rcu_head *rcu, void (*func)(struct rcu_head *rcu))
{
	rcu->func = func;
	mutex_lock(&callbacks_lock);
	list_add_tail(&rcu->node, &callbacks);
	mutex_unlock(&callbacks_lock);
}

static bool callbacks_left(void)
{
	bool left;

	mutex_lock(&callbacks_lock);
	left = callbacks_busy || !list_empty(&callbacks);
	mutex_unlock(&callbacks_lock);
	return left;
}

void rcu_barrier(void)
{
	while (callbacks_left())
		usleep(100);
}

static void *rcu_thread(void *unused)
{
	struct rcu_head *rcu, *next;
	LIST_HEAD(mine);

	for (;;) {
		mutex_lock(&callbacks_lock);
		list_splice_init(&callbacks, &mine);
		callbacks_busy = !list_empty(&mine);
		mutex_unlock(&callbacks_lock);
		pthread_rwlock_wrlock(&rcu_lock);
		pthread_rwlock_unlock(&rcu_lock);
		list_for_each_entry_safe(rcu, next, &mine, node)
			rcu->func(rcu);
		INIT_LIST_HEAD(&mine);
		usleep(200);
	}
	return NULL;
}

/* The IOMMU: a walk holds the lock shared, an invalidation exclusively. */
struct cached { u64 place, entry; };
static struct cached caches[MAX_MAPPERS + NR_DEVICES][TOP + 1][NR_CACHED];
static pthread_rwlock_t hw_lock;

static struct cached *cached_at(int device, unsigned long pfn, int level)
{
	return &caches[device][level][(pfn >> level_to_offset_bits(level)) % NR_CACHED];
}

/* The physical address of a page, 0 for a fault. */
static u64 hw_translate(int device, unsigned long pfn)
{
	struct dma_pte *base = domain.pgd;
	struct cached *cached;
	int level = TOP, at;
	u64 val = 0;

	pthread_rwlock_rdlock(&hw_lock);
	for (at = 2; at <= TOP; at++) {
		cached = cached_at(device, pfn, at);
		if (cached->place == ((pfn & level_mask(at)) | at)) {
			base = phys_to_virt(cached->entry & VTD_PAGE_MASK);
			level = at - 1;
			break;
		}
	}
	for (;; level--) {
		if (virt_to_page(base)->free)
			error("a freed table is walked", pfn);
		val = READ_ONCE(base[pfn_level_offset(pfn, level)].val);
		if (!(val & 3) || level == 1 || val & DMA_PTE_LARGE_PAGE)
			break;
		*cached_at(device, pfn, level) = (struct cached){ (pfn & level_mask(level)) | level, val };
		base = phys_to_virt(val & VTD_PAGE_MASK);
	}
	pthread_rwlock_unlock(&hw_lock);
	if (!(val & 3))
		return 0;
	return (val & VTD_PAGE_MASK & ~(u64)DMA_PTE_LARGE_PAGE) + ((pfn & ~level_mask(level)) << VTD_PAGE_SHIFT);
}

void cache_tag_flush_range(struct dmar_domain *d, unsigned long start, unsigned long end, int ih)
{
	unsigned long first = start >> VTD_PAGE_SHIFT, last = end >> VTD_PAGE_SHIFT;
	int device, level, i;

	if (ih)
		return;
	/* A slow one leaves time for what must not happen before it. */
	if (nr_invalidations++ % 2 == 0)
		usleep(300);
	pthread_rwlock_wrlock(&hw_lock);
	for (device = 0; device < MAX_MAPPERS + NR_DEVICES; device++)
		for (level = 2; level <= TOP; level++)
			for (i = 0; i < NR_CACHED; i++) {
				struct cached *cached = &caches[device][level][i];
				unsigned long pfn = cached->place & level_mask(2);

				if (pfn <= last && pfn + level_size(level) > first)
					cached->place = 0;
			}
	pthread_rwlock_unlock(&hw_lock);
}

static void tlb_sync(struct iommu_iotlb_gather *gather)
{
	cache_tag_flush_range(&domain, gather->start, gather->end, list_empty(&gather->freelist));
	empty_tables_flushed(&domain, &gather->freelist);
	gather->start = ULONG_MAX;
	gather->end = 0;
	gather->pgsize = 0;
}

void iommu_iotlb_gather_add_page(struct iommu_domain *d, struct iommu_iotlb_gather *gather,
				 unsigned long iova, size_t size)
{
	if ((gather->pgsize && gather->pgsize != size) ||
	    (gather->end && (iova + size < gather->start || iova > gather->end + 1)))
		tlb_sync(gather);
	gather->pgsize = size;
	gather->start = min(gather->start, iova);
	gather->end = max(gather->end, iova + size - 1);
}

/* What is mapped where; the sequence is odd while the owner changes it. */
struct shadow { atomic_ulong seq; _Atomic u64 phys; atomic_int first, last; };
static struct shadow window[NR_WINDOW], regions[NR_REGIONS];
static atomic_int claims[NR_REGIONS];

/* Two tables in one GiB, two in the next, so that upper tables come and go too. */
static unsigned long window_pfn(unsigned int page)
{
	unsigned int table = page / 512;

	return ((unsigned long)(1 + table / 2) << 18) + table % 2 * 512 + page % 512;
}

/* Regions lie in GiBs of their own. */
static unsigned long region_pfn(unsigned int region)
{
	return ((unsigned long)(5 + region / 2) << 18) + region % 2 * 512;
}

static unsigned int prandom(unsigned int *state)
{
	*state = *state * 1103515245 + 12345;
	return *state >> 8;
}

static void map(unsigned long pfn, int level, unsigned long nr, u64 phys)
{
	struct dma_pte *slot = empty_tables_map(&domain, pfn, level, nr, GFP_KERNEL);
	u64 val = phys | DMA_PTE_READ | DMA_PTE_WRITE | (level > 1 ? DMA_PTE_LARGE_PAGE : 0);

	for (nr /= level_size(level); nr--; slot++, val += PAGE_SIZE) {
		if (READ_ONCE(slot->val))
			error("mapped twice", pfn);
		WRITE_ONCE(slot->val, val);
	}
}

static void unmap(unsigned long pfn, unsigned long nr, bool queued)
{
	struct iommu_iotlb_gather gather = { .start = ULONG_MAX, .queued = queued };

	INIT_LIST_HEAD(&gather.freelist);
	if (empty_tables_unmap(&domain, pfn << VTD_PAGE_SHIFT, nr * PAGE_SIZE, &gather) != nr * PAGE_SIZE)
		error("unmapped another size", pfn);
	if (!queued)
		tlb_sync(&gather);
	nr_ops++;
}

static void check(int device, unsigned long pfn, struct shadow *shadow, int offset, bool region)
{
	unsigned long seq = shadow->seq;
	u64 want = shadow->phys, found;

	if (want && region)
		want = offset >= shadow->first && offset <= shadow->last ? want + offset * PAGE_SIZE : 0;
	found = hw_translate(device, pfn);
	if (seq & 1 || shadow->seq != seq)
		return;
	nr_checked++;
	if (found != want)
		error(found ? "a wrong or stale page is found" : "a mapped page is not found", pfn);
}

static void set_window(unsigned int page, u64 phys, bool queued)
{
	struct shadow *shadow = &window[page];

	shadow->seq++;
	if (phys)
		map(window_pfn(page), 1, 1, phys);
	else
		unmap(window_pfn(page), 1, queued);
	shadow->phys = phys;
	shadow->seq++;
	/* The mapper's own device uses the address as soon as it may. */
	check(model_cpu, window_pfn(page), shadow, 0, false);
}

static void use_region(unsigned int *rnd)
{
	unsigned int region = prandom(rnd) % NR_REGIONS, kind = min(prandom(rnd) % 6, 2);
	unsigned int page = kind == 2 ? prandom(rnd) % 512 : 0, nr = kind == 2 ? 1 : 512;
	struct shadow *shadow = &regions[region];
	unsigned long pfn = region_pfn(region);
	u64 phys = (u64)(1 + prandom(rnd) % 64) << 21;
	int expected = 0;

	if (!atomic_compare_exchange_strong(&claims[region], &expected, 1))
		return;
	shadow->seq++;
	map(pfn + page, kind ? 1 : 2, nr, phys + page * PAGE_SIZE);
	shadow->first = page;
	shadow->last = page + nr - 1;
	shadow->phys = phys;
	shadow->seq++;
	check(model_cpu, pfn + page, shadow, page, true);
	shadow->seq++;
	unmap(pfn + page, nr, prandom(rnd) % 2);
	shadow->phys = 0;
	shadow->seq++;
	check(model_cpu, pfn + page, shadow, page, true);
	claims[region] = 0;
}

static struct table_stats total;

static void add_stats(void)
{
	mutex_lock(&pages_lock);
	total.freed += table_stats.freed;
	total.reused += table_stats.reused;
	total.kept += table_stats.kept;
	total.released += table_stats.released;
	total.retries += table_stats.retries;
	mutex_unlock(&pages_lock);
}

static int nr_mappers = 6;

static void *mapper(void *number)
{
	unsigned int mapped[MAPPED_MAX], nr = 0, rnd = (uintptr_t)number * 7919 + 1, page;

	model_cpu = (uintptr_t)number;
	while (!stop) {
		if (prandom(&rnd) % 3 == 0) {
			use_region(&rnd);
			continue;
		}
		if (nr && (nr == MAPPED_MAX || prandom(&rnd) % 2)) {
			set_window(mapped[--nr], 0, prandom(&rnd) % 4 == 0);
			continue;
		}
		page = prandom(&rnd) % (NR_WINDOW / nr_mappers) * nr_mappers + model_cpu;
		if (window[page].phys)
			continue;
		set_window(page, (u64)(1 + prandom(&rnd) % 4096) << VTD_PAGE_SHIFT, false);
		mapped[nr++] = page;
	}
	while (nr)
		set_window(mapped[--nr], 0, false);
	add_stats();
	return NULL;
}

static void *device(void *number)
{
	unsigned int rnd = (uintptr_t)number + 77, i, page;

	while (!stop) {
		/* Mostly what is mapped, or one address in eight for its own sake. */
		page = prandom(&rnd) % NR_WINDOW;
		for (i = 0; i < 64 && !window[page].phys && rnd % 8; i++)
			page = (page + 1) % NR_WINDOW;
		check(MAX_MAPPERS + (uintptr_t)number, window_pfn(page), &window[page], 0, false);
		page = prandom(&rnd) % 512;
		i = prandom(&rnd) % NR_REGIONS;
		check(MAX_MAPPERS + (uintptr_t)number, region_pfn(i) + page, &regions[i], page, true);
		sched_yield();
	}
	return NULL;
}

static void *shrinker(void *unused)
{
	unsigned int rnd = 5;

	model_cpu = NR_MODEL_CPUS - 1;
	while (!stop) {
		table_stock_release(domain.empty_tables, prandom(&rnd) % NR_MODEL_CPUS);
		sched_yield();
	}
	add_stats();
	return NULL;
}

static int count_tables(struct dma_pte *base, int level)
{
	int i, tables = 0;

	for (i = 0; level > 1 && i < 512; i++)
		if (base[i].val)
			tables += 1 + count_tables(phys_to_virt(base[i].val & VTD_PAGE_MASK), level - 1);
	return tables;
}

static void init(void)
{
	pthread_rwlockattr_t attr;
	int i;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&rcu_lock, &attr);
	pthread_rwlock_init(&hw_lock, &attr);
	arena = aligned_alloc(PAGE_SIZE, NR_PAGES * PAGE_SIZE);
	assert(arena);
	for (i = NR_PAGES; i--;) {
		pages[i].free = true;
		list_add(&pages[i].lru, &free_pages);
	}
	domain.agaw = TOP - 2;
	domain.iommu_coherency = true;
	domain.pgd = iommu_alloc_page_node(0, 0);
	assert(!empty_tables_init(&domain));
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_MAPPERS + NR_DEVICES + 1], rcu;
	int i, nr = 0, left;

	if (argc < 2 || atoi(argv[1]) < 1)
		return 2;
	if (argc > 2)
		nr_mappers = min(atoi(argv[2]), MAX_MAPPERS);
	init();
	pthread_create(&rcu, NULL, rcu_thread, NULL);
	for (i = 0; i < nr_mappers; i++)
		pthread_create(&threads[nr++], NULL, mapper, (void *)(uintptr_t)i);
	for (i = 0; i < NR_DEVICES; i++)
		pthread_create(&threads[nr++], NULL, device, (void *)(uintptr_t)i);
	pthread_create(&threads[nr++], NULL, shrinker, NULL);
	sleep(atoi(argv[1]));
	stop = true;
	for (i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < NR_MODEL_CPUS; i++)
		table_stock_release(domain.empty_tables, i);
	left = count_tables(domain.pgd, TOP);
	for (i = 0; i < NR_UNFLUSHED; i++)
		left += atomic_read(&domain.empty_tables->unflushed[i]);
	empty_tables_exit(&domain);
	left += nr_used - 1;
	if (left)
		error("tables are lost", left);
	printf("operations=%lu translations=%lu invalidations=%lu freed=%lu reused=%lu kept=%lu "
	       "released=%lu retries=%lu errors=%lu\n", nr_ops, nr_checked, nr_invalidations, total.freed,
	       total.reused, total.kept, total.released, total.retries, nr_errors);
	return nr_errors ? 1 : 0;
}
