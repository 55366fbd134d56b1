// SPDX-License-Identifier: GPL-2.0
/*
 * Page tables that become empty are freed, without a lock between mappers.
 *
 * Each table but the root has a state in its descriptor: how many of its entries
 * are present, or promised to a mapper. Words:
 *
 *   own      a range of addresses is owned by one mapper or unmapper at a time,
 *            as ever; tables are shared by the owners of the ranges below them
 *   promise  to count entries before they are written
 *   drop     to take entries off the count after they were cleared
 *   dead     the state of a table that is being freed; it never leaves it
 *   linked   an entry of the parent points to the table
 *   retire   to hand a table to the stock, which frees it after a grace period
 *
 * A table goes through: new -> in use <-> empty -> dead -> unlinked -> flushed ->
 * retired. The rules:
 *
 * 1. Entries are promised before they are written, and dropped after they were
 *    cleared, so a table with a present entry is not empty.
 * 2. Only an empty table dies, by compare-and-exchange from 0. A promise is added
 *    blindly; the mapper sees by the sign whether it came too late, and then
 *    starts again from the root. (A leaf table that lies in an unmapped range as
 *    a whole dies at once: nobody else owns anything in it.)
 * 3. Who makes the state 0 tries to kill the table, or puts it to use.
 * 4. Whoever meets a dead table that is linked unlinks it. Who succeeds drops the
 *    parent's entry. Who killed it frees it. So nobody ever waits for anybody.
 * 5. Between unlinking and retiring, the hardware is made to forget the way to
 *    the table: an invalidation of its range with the hint that inner entries
 *    changed. Until that is done, the table is counted as unflushed.
 * 6. The hardware may remember the dead table's entry after another table, or a
 *    large page, took its place. Who puts something in the place of a table
 *    looks at the count of unflushed tables after that, and invalidates by
 *    itself if it is not 0. Until it has done so the new table is marked as new,
 *    and all who promise entries in it do the same.
 * 7. Software walks under RCU, and reads each entry once.
 *
 * A mapper allocates outside of RCU. It has promised an entry in the parent
 * before, which keeps the parent alive.
 */

#include <linux/hash.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "empty_tables.h"
#include "table_stock.h"

#define CREATE_TRACE_POINTS
#include "empty_tables_trace.h"

#define MAX_LEVELS	5

/* Tables that the caller killed, and the range that they cover together. */
struct burial {
	struct list_head tables;
	unsigned long first;
	unsigned long last;
};

static inline void start_burial(struct burial *burial)
{
	INIT_LIST_HEAD(&burial->tables);
	burial->first = ULONG_MAX;
	burial->last = 0;
}

static inline struct dma_pte read_entry(const struct dma_pte *slot)
{
	return (struct dma_pte){ READ_ONCE(slot->val) };
}

static inline bool is_table(struct dma_pte *entry)
{
	return dma_pte_present(entry) && !dma_pte_superpage(entry);
}

static inline struct page *entry_table(struct dma_pte *entry)
{
	return pfn_to_page(dma_pte_addr(entry) >> VTD_PAGE_SHIFT);
}

static inline struct dma_pte *entry_slots(struct dma_pte *entry)
{
	return phys_to_virt(dma_pte_addr(entry));
}

static inline bool is_dead(struct page *table)
{
	return atomic_read(table_state(table)) & TABLE_DEAD;
}

/* For a walker that does not snoop the caches. */
static inline void write_back(struct dmar_domain *domain, void *addr, int size)
{
	if (!domain->iommu_coherency)
		clflush_cache_range(addr, size);
}

/*
 * Which counter a dead table holds up until it is flushed. A table of 1 GiB or
 * less lies in one GiB, by which the counters are chosen.
 */
static unsigned int unflushed_index(unsigned long pfn, int level)
{
	const unsigned int shift = 2 * LEVEL_STRIDE;

	if (level > 2)
		return NR_UNFLUSHED - 1;
	return hash_64(pfn >> shift, ilog2(NR_UNFLUSHED - 1));
}

/* Whether the hardware may remember a table that was on the way to an address. */
static bool any_unflushed(struct dmar_domain *domain, unsigned long pfn)
{
	struct empty_tables *tables = domain->empty_tables;

	return atomic_read(&tables->unflushed[unflushed_index(pfn, 1)]) ||
	       atomic_read(&tables->unflushed[NR_UNFLUSHED - 1]);
}

static void invalidate(struct dmar_domain *domain, unsigned long first,
		       unsigned long last)
{
	cache_tag_flush_range(domain, first << VTD_PAGE_SHIFT,
			      ((last + 1) << VTD_PAGE_SHIFT) - 1, 0);
}

/* Rule 6, for what a slot at @level points to now. */
static void settle(struct dmar_domain *domain, struct dma_pte *slot,
		   unsigned long pfn, int level)
{
	unsigned long first = pfn & level_mask(level);

	write_back(domain, slot, sizeof(*slot));
	if (any_unflushed(domain, pfn))
		invalidate(domain, first, first + level_size(level) - 1);
}

static void bury(struct burial *burial, struct page *table, unsigned long pfn,
		 int level)
{
	unsigned long first = pfn & level_mask(level + 1);

	list_add_tail(&table->lru, &burial->tables);
	burial->first = min(burial->first, first);
	burial->last = max(burial->last, first + level_size(level + 1) - 1);
}

/*
 * Rule 2: kill a table if it is empty; with @whole, no matter what is in it.
 * False if it is in use, or somebody else killed it.
 */
static bool kill(struct dmar_domain *domain, struct page *table,
		 unsigned long pfn, int level, bool whole)
{
	unsigned int index = unflushed_index(pfn, level);
	atomic_t *unflushed = &domain->empty_tables->unflushed[index];
	int dead = TABLE_STATE_DEAD | FIELD_PREP(TABLE_UNFLUSHED, index);
	int state = 0;
	bool killed;

	/* Before anybody can find the slot empty; see any_unflushed(). */
	atomic_inc(unflushed);
	if (whole) {
		dead |= TABLE_UNCLEARED;
		state = atomic_xchg(table_state(table), dead);
		killed = !(state & TABLE_DEAD);
	} else {
		killed = atomic_try_cmpxchg(table_state(table), &state, dead);
	}
	if (!killed) {
		atomic_dec(unflushed);
		return false;
	}
	trace_table_dies(domain, pfn & level_mask(level + 1), level);
	return true;
}

/*
 * Rule 4: make a slot that points to a dead table point to nothing. False if
 * somebody else did. The hardware may set the accessed bit meanwhile.
 */
static bool unlink_table(struct dmar_domain *domain, struct dma_pte *slot,
			 struct page *table)
{
	struct dma_pte entry = read_entry(slot);

	do {
		if (!is_table(&entry) || entry_table(&entry) != table)
			return false;
	} while (!try_cmpxchg64(&slot->val, &entry.val, 0));
	write_back(domain, slot, sizeof(*slot));
	return true;
}

/* Take entries that were cleared off the count; true if none are left. */
static inline bool drop(struct page *table, int nr)
{
	return atomic_sub_and_test(nr, table_state(table));
}

/*
 * Rules 3 and 4, along the way to an address: kill the lowest table if it is
 * empty, unlink it if it is dead, and so on upwards. Under RCU.
 */
static noinline void reap(struct dmar_domain *domain, unsigned long pfn,
			  struct burial *burial)
{
	const int top = agaw_to_level(domain->agaw);
	struct dma_pte *slots[MAX_LEVELS + 1], *base = domain->pgd;
	struct page *tables[MAX_LEVELS + 1];
	struct dma_pte entry;
	int level = top;

	while (level > 1) {
		slots[level] = &base[pfn_level_offset(pfn, level)];
		entry = read_entry(slots[level]);
		if (!is_table(&entry))
			break;
		level--;
		tables[level] = entry_table(&entry);
		base = entry_slots(&entry);
	}
	for (; level < top; level++) {
		if (!is_dead(tables[level])) {
			if (!kill(domain, tables[level], pfn, level, false))
				break;
			bury(burial, tables[level], pfn, level);
		}
		if (!unlink_table(domain, slots[level + 1], tables[level]))
			break;
		if (level + 1 == top || !drop(tables[level + 1], 1))
			break;
	}
}

/* Rule 5, where there is no gather that would do it later. Retires the tables. */
static void flush_burial(struct dmar_domain *domain, struct burial *burial)
{
	if (list_empty(&burial->tables))
		return;
	invalidate(domain, burial->first, burial->last);
	empty_tables_flushed(domain, &burial->tables);
}

void empty_tables_flushed(struct dmar_domain *domain, struct list_head *list)
{
	struct empty_tables *tables = domain->empty_tables;
	struct page *table;
	unsigned long nr = 0;

	if (list_empty(list))
		return;
	list_for_each_entry(table, list, lru) {
		int state = atomic_read(table_state(table));

		atomic_dec(&tables->unflushed[FIELD_GET(TABLE_UNFLUSHED, state)]);
		nr++;
	}
	this_cpu_add(table_stats.freed, nr);
	table_stock_retire(tables, list);
}

/* After something went wrong on the way to an address: leave no trace there. */
static noinline void reap_now(struct dmar_domain *domain, unsigned long pfn)
{
	struct burial burial;

	start_burial(&burial);
	rcu_read_lock();
	reap(domain, pfn, &burial);
	rcu_read_unlock();
	flush_burial(domain, &burial);
}

/*
 * Promise entries of a table; false if it is dead. @slot points to the table, and
 * @pfn is an address below it.
 */
static inline bool promise(struct dmar_domain *domain, struct page *table,
			   struct dma_pte *slot, unsigned long pfn, int level,
			   int nr)
{
	if (likely(!atomic_add_negative(nr, table_state(table))))
		return true;
	if (is_dead(table))
		return false;
	/* New: whoever linked it may not have come to this yet. */
	settle(domain, slot, pfn, level + 1);
	return true;
}

struct dma_pte *empty_tables_find(struct dmar_domain *domain, unsigned long pfn,
				  int *level)
{
	struct dma_pte *base = domain->pgd, *slot, entry;
	int at = agaw_to_level(domain->agaw);

	for (;; at--) {
		slot = &base[pfn_level_offset(pfn, at)];
		if (at == 1)
			break;
		entry = read_entry(slot);
		if (!is_table(&entry))
			break;
		base = entry_slots(&entry);
	}
	*level = at;
	return slot;
}

/*
 * Link a new table to an empty slot of @parent at @level, unless somebody else
 * is faster. Called under RCU, returns outside of it. False if there is no memory.
 */
static noinline bool add_table(struct dmar_domain *domain, struct page *parent,
			       struct dma_pte *parent_slot, struct dma_pte *slot,
			       unsigned long pfn, int level, int target, gfp_t gfp)
	__releases(RCU)
{
	struct empty_tables *tables = domain->empty_tables;
	struct page *table;
	u64 place, old = 0, val;

	if (parent && !promise(domain, parent, parent_slot, pfn, level, 1)) {
		rcu_read_unlock();
		reap_now(domain, pfn);
		this_cpu_inc(table_stats.retries);
		return true;
	}
	rcu_read_unlock();

	/*
	 * Worth keeping may be a table that holds pages, which keeps its parents,
	 * and one of 1 GiB, in case that its tables are unmapped as a whole.
	 */
	place = level - 1 == target || level == 3 ? table_place(pfn, level - 1) : 0;
	table = table_stock_take(tables, gfp, place);
	if (!table)
		goto undo;
	write_back(domain, page_address(table), VTD_PAGE_SIZE);
	val = page_to_phys(table) | DMA_PTE_READ | DMA_PTE_WRITE;
	if (domain->use_first_level)
		val |= DMA_FL_PTE_US | DMA_FL_PTE_ACCESS;
	if (!try_cmpxchg64(&slot->val, &old, val)) {
		table_stock_return(tables, table);
		goto undo;
	}
	settle(domain, slot, pfn, level);
	if (atomic_fetch_andnot(TABLE_SPECIAL, table_state(table)) & TABLE_KEPT)
		table_stock_keep(tables, place);
	return true;

undo:
	if (parent && drop(parent, 1))
		reap_now(domain, pfn);
	return table;
}

/*
 * Unmap all of the leaf table that @up points to; false if somebody else has
 * killed it: then it was empty.
 */
static noinline void clear_whole(struct dmar_domain *domain, struct page *table,
				 struct dma_pte *up, unsigned long pfn,
				 struct burial *burial)
{
	if (kill(domain, table, pfn, 1, true))
		bury(burial, table, pfn, 1);
	if (unlink_table(domain, up, table) &&
	    virt_to_page(up) != virt_to_page(domain->pgd) &&
	    drop(virt_to_page(up), 1))
		reap(domain, pfn, burial);
}

/*
 * Unmap what lies in the table that holds the page at @pfn, at most up to @last.
 * Returns where to go on, and in @level what size of page was found or missed.
 * Under RCU.
 */
static inline unsigned long clear_table(struct dmar_domain *domain,
					unsigned long pfn, unsigned long last,
					int *level, bool *present,
					struct burial *burial)
{
	struct dma_pte *base = domain->pgd, *slot, *first, *up = NULL;
	struct dma_pte entry, to_table = {};
	int at = agaw_to_level(domain->agaw), nr = 0;
	unsigned long start = pfn, step;

	for (;; at--) {
		slot = &base[pfn_level_offset(pfn, at)];
		entry = read_entry(slot);
		if (at == 1 || !is_table(&entry))
			break;
		up = slot;
		to_table = entry;
		base = entry_slots(&entry);
	}
	*level = at;
	*present = dma_pte_present(&entry);
	if (at == 1 && last - pfn >= level_size(2) - 1 && first_pte_in_page(slot)) {
		clear_whole(domain, entry_table(&to_table), up, pfn, burial);
		return pfn + level_size(2);
	}

	step = level_size(at);
	pfn &= level_mask(at);
	for (first = slot;;) {
		if (dma_pte_present(&entry)) {
			WRITE_ONCE(slot->val, 0);
			nr++;
		}
		slot++;
		pfn += step;
		if (pfn > last || first_pte_in_page(slot))
			break;
		entry = read_entry(slot);
		if (at > 1 && is_table(&entry))
			break;
	}
	if (!nr)
		return pfn;
	write_back(domain, first, (void *)slot - (void *)first);
	if (to_table.val && drop(entry_table(&to_table), nr))
		reap(domain, start, burial);
	return pfn;
}

static void clear_range(struct dmar_domain *domain, unsigned long pfn,
			unsigned long last, struct burial *burial)
{
	bool present;
	int level;

	/* A huge range does not hold up grace periods. */
	while (pfn <= last) {
		rcu_read_lock();
		pfn = clear_table(domain, pfn, last, &level, &present, burial);
		rcu_read_unlock();
	}
}

size_t empty_tables_unmap(struct dmar_domain *domain, unsigned long iova,
			  size_t size, struct iommu_iotlb_gather *gather)
{
	unsigned long pfn = iova >> VTD_PAGE_SHIFT;
	unsigned long last = (iova + size - 1) >> VTD_PAGE_SHIFT;
	struct burial burial;
	bool present;
	int level;

	start_burial(&burial);
	rcu_read_lock();
	pfn = clear_table(domain, pfn, last, &level, &present, &burial);
	rcu_read_unlock();
	/* A page is unmapped as a whole; a hole is as large as was asked. */
	if (unlikely(level > 1) && present)
		size = max(size, VTD_PAGE_SIZE << level_to_offset_bits(level));
	if (pfn <= last)
		clear_range(domain, pfn, last, &burial);

	if (READ_ONCE(domain->max_addr) == iova + size)
		WRITE_ONCE(domain->max_addr, iova);
	/* May flush and free what was gathered before, so it comes first. */
	if (!iommu_iotlb_gather_queued(gather))
		iommu_iotlb_gather_add_page(&domain->domain, gather, iova, size);
	if (likely(list_empty(&burial.tables)))
		return size;

	if (iommu_iotlb_gather_queued(gather)) {
		/* A queue would flush much later, and not tell. */
		flush_burial(domain, &burial);
		return size;
	}
	list_splice_tail(&burial.tables, &gather->freelist);
	gather->start = min(gather->start, burial.first << VTD_PAGE_SHIFT);
	gather->end = max(gather->end,
			  ((burial.last + 1) << VTD_PAGE_SHIFT) - 1);
	return size;
}

/* Remove what is left in the place of a large page: tables, kept or ending. */
static noinline void make_room(struct dmar_domain *domain, struct dma_pte *slot,
			       unsigned long pfn, int level)
{
	struct dma_pte entry;
	struct burial burial;

	start_burial(&burial);
	clear_range(domain, pfn, pfn + level_size(level) - 1, &burial);
	rcu_read_lock();
	entry = read_entry(slot);
	if (is_table(&entry)) {
		atomic_andnot(TABLE_KEPT, table_state(entry_table(&entry)));
		reap(domain, pfn, &burial);
	}
	rcu_read_unlock();
	flush_burial(domain, &burial);
}

/* For large pages, which may follow tables: see rule 6. */
static void prepare_places(struct dmar_domain *domain, struct dma_pte *slot,
			   unsigned long pfn, int level, unsigned long nr)
{
	unsigned long end = pfn + nr * level_size(level), at;
	struct dma_pte entry;

	for (at = pfn; at < end; at += level_size(level), slot++) {
		entry = read_entry(slot);
		if (unlikely(is_table(&entry)))
			make_room(domain, slot, at, level);
	}
	/* Orders the reading of empty slots before that of the counters; see kill(). */
	smp_rmb();
	/* One GiB at a time, like the counters. */
	for (at = pfn; at < end; at += level_size(3))
		if (any_unflushed(domain, at))
			invalidate(domain, at, min(end, at + level_size(3)) - 1);
}

struct dma_pte *empty_tables_map(struct dmar_domain *domain, unsigned long pfn,
				 int level, unsigned long nr_pages,
				 gfp_t gfp)
{
	unsigned long nr = nr_pages >> level_to_offset_bits(level);
	const int top = agaw_to_level(domain->agaw);
	struct dma_pte *base, *slot, *up;
	struct dma_pte entry, to_table;
	struct page *table;
	int at;

again:
	base = domain->pgd;
	to_table.val = 0;
	up = NULL;
	rcu_read_lock();
	for (at = top; at > level; at--) {
		slot = &base[pfn_level_offset(pfn, at)];
		entry = read_entry(slot);
		if (unlikely(!is_table(&entry)))
			break;
		up = slot;
		to_table = entry;
		base = entry_slots(&entry);
	}
	table = to_table.val ? entry_table(&to_table) : NULL;

	if (unlikely(at > level)) {
		if (WARN_ON_ONCE(dma_pte_present(&entry))) {
			rcu_read_unlock();
			return NULL;
		}
		if (!add_table(domain, table, up, slot, pfn, at, level, gfp))
			return NULL;
		goto again;
	}

	slot = &base[pfn_level_offset(pfn, level)];
	nr = min_t(unsigned long, nr, nr_pte_to_next_page(slot));
	if (unlikely(table && !promise(domain, table, up, pfn, level, nr))) {
		rcu_read_unlock();
		reap_now(domain, pfn);
		this_cpu_inc(table_stats.retries);
		goto again;
	}
	rcu_read_unlock();
	if (level > 1)
		prepare_places(domain, slot, pfn, level, nr);
	return slot;
}

void empty_tables_take_back(struct dmar_domain *domain, struct dma_pte *slot)
{
	struct page *table = virt_to_page(slot);

	if (table != virt_to_page(domain->pgd))
		drop(table, 1);
}

void empty_tables_release(struct dmar_domain *domain, u64 place)
{
	struct dma_pte *base = domain->pgd, entry = {};
	unsigned long pfn = place_pfn(place);
	int at, level = place_level(place);
	struct burial burial;
	int state;

	start_burial(&burial);
	rcu_read_lock();
	for (at = agaw_to_level(domain->agaw); at > level; at--) {
		entry = read_entry(&base[pfn_level_offset(pfn, at)]);
		if (!is_table(&entry))
			goto out;
		base = entry_slots(&entry);
	}
	if (!entry.val)
		goto out;
	state = atomic_fetch_andnot(TABLE_KEPT, table_state(entry_table(&entry)));
	if (state < 0 || !(state & TABLE_KEPT))
		goto out;
	this_cpu_inc(table_stats.released);
	if (state == TABLE_KEPT)
		reap(domain, pfn, &burial);
out:
	rcu_read_unlock();
	flush_burial(domain, &burial);
}

int empty_tables_init(struct dmar_domain *domain)
{
	struct empty_tables *tables = kzalloc(sizeof(*tables), GFP_KERNEL);

	if (!tables)
		return -ENOMEM;
	tables->domain = domain;
	if (table_stock_init(tables)) {
		kfree(tables);
		return -ENOMEM;
	}
	domain->empty_tables = tables;
	return 0;
}

void empty_tables_exit(struct dmar_domain *domain)
{
	if (!domain->empty_tables)
		return;
	table_stock_exit(domain->empty_tables);
	kfree(domain->empty_tables);
	domain->empty_tables = NULL;
}

#ifdef CONFIG_INTEL_IOMMU_FREE_EMPTY_TABLES_KUNIT_TEST
#include "empty_tables_test.c"
#endif
