// SPDX-License-Identifier: GPL-2.0
/*
 * The stock of page tables of a domain.
 *
 * A table that died comes here once the IOMMU has forgotten it. Software may
 * still be walking it, so it waits for a grace period:
 *
 *	retired -> waiting -> clean -> taken again, or freed
 *
 * One RCU callback per CPU moves all of them one step, so a table costs no
 * callback of its own, and a table that is taken again needs no zeroing: it died
 * because it was empty. What nobody took during a whole grace period is freed,
 * so the stock is as large as the demand and empties itself when that ends.
 *
 * The stock also knows which tables are worth keeping. Each CPU remembers the
 * places of the last few tables it made. Is one made again at the same place,
 * then it was freed too early: the new one is marked as kept, and stays linked
 * when it is empty. A driver that maps and unmaps one place all day pays for two
 * tables; a pass over fresh addresses keeps none. How many are kept is bounded,
 * and under memory pressure all are let go of.
 */

#include <linux/debugfs.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/shrinker.h>

#include "../iommu-pages.h"
#include "table_stock.h"

/* Places that a CPU remembers, and how many of them may have a kept table. */
#define NR_PLACES	12
#define NR_KEPT		6
/* If all may and are: how many more it takes for one to make room. */
#define KEPT_PATIENCE	16
/* The most that one callback frees; the rest waits for the next. */
#define FREE_BATCH	1024

struct table_stock {
	spinlock_t lock;		/* protects all of this */
	struct list_head retired;	/* forgotten by the IOMMU */
	struct list_head waiting;	/* for the grace period that runs */
	struct list_head clean;		/* forgotten by all */
	struct rcu_head rcu;
	bool running;			/* rcu is in use */
	bool closing;			/* the domain goes */

	u64 places[NR_PLACES];
	unsigned long kept;		/* bits: places whose table is kept */
	unsigned int next;		/* the place that was forgotten last */
	unsigned int victim;		/* the kept table that was let go of last */
	unsigned int refused;
};

DEFINE_PER_CPU(struct table_stats, table_stats);

/* All domains, for the shrinker. */
static LIST_HEAD(all_tables);
static DEFINE_MUTEX(all_tables_lock);
static atomic_long_t nr_kept;

static void free_tables(struct list_head *list)
{
	struct page *table, *next;

	list_for_each_entry_safe(table, next, list, lru)
		__iommu_free_pages(table, 0);
}

/* Move up to @max of @from; the rest of a long list stays. */
static void cut(struct list_head *from, struct list_head *to, unsigned int max)
{
	struct list_head *pos = from;

	while (max-- && pos->next != from)
		pos = pos->next;
	list_cut_position(to, from, pos);
}

static void grace_period_over(struct rcu_head *rcu)
{
	struct table_stock *stock = container_of(rcu, struct table_stock, rcu);
	LIST_HEAD(surplus);
	unsigned long flags;

	spin_lock_irqsave(&stock->lock, flags);
	cut(&stock->clean, &surplus, FREE_BATCH);
	list_splice_tail_init(&stock->waiting, &stock->clean);
	list_splice_init(&stock->retired, &stock->waiting);
	stock->running = !stock->closing && (!list_empty(&stock->waiting) ||
					     !list_empty(&stock->clean));
	if (stock->running)
		call_rcu(rcu, grace_period_over);
	spin_unlock_irqrestore(&stock->lock, flags);
	free_tables(&surplus);
}

/* Tables that were unlinked, and flushed after that. */
void table_stock_retire(struct empty_tables *tables, struct list_head *list)
{
	struct table_stock *stock;
	unsigned long flags;

	stock = raw_cpu_ptr(tables->stock);
	spin_lock_irqsave(&stock->lock, flags);
	if (stock->running) {
		list_splice_init(list, &stock->retired);
	} else {
		list_splice_init(list, &stock->waiting);
		stock->running = true;
		call_rcu(&stock->rcu, grace_period_over);
	}
	spin_unlock_irqrestore(&stock->lock, flags);
}

/* A table that was taken and never linked. */
void table_stock_return(struct empty_tables *tables, struct page *table)
{
	LIST_HEAD(list);

	/* Not TABLE_UNCLEARED: it is still as it was taken. */
	atomic_set(table_state(table), TABLE_STATE_DEAD);
	list_add(&table->lru, &list);
	table_stock_retire(tables, &list);
}

/* The place to be forgotten in favour of another; never one whose table is kept. */
static unsigned int oldest_place(struct table_stock *stock)
{
	do {
		stock->next = (stock->next + 1) % NR_PLACES;
	} while (stock->kept & BIT(stock->next));
	return stock->next;
}

/* Round and round, so that none that is in use goes twice in a row. */
static void next_victim(struct table_stock *stock)
{
	do {
		stock->victim = (stock->victim + 1) % NR_PLACES;
	} while (!(stock->kept & BIT(stock->victim)));
}

static int find_place(struct table_stock *stock, u64 place)
{
	int i;

	for (i = 0; i < NR_PLACES; i++)
		if (stock->places[i] == place)
			return i;
	return -1;
}

/* Whether the table that is about to be made at @place is worth keeping. */
static bool worth_keeping(struct table_stock *stock, u64 place)
{
	int i = find_place(stock, place);

	if (i < 0) {
		stock->places[oldest_place(stock)] = place;
		return false;
	}
	return stock->kept & BIT(i) || hweight_long(stock->kept) < NR_KEPT ||
	       !(++stock->refused % KEPT_PATIENCE);
}

/**
 * table_stock_take() - a table that is about to be linked
 * @tables: of the domain
 * @gfp: how to allocate if there is none in stock
 * @place: where it will be, 0 for a table that is never to be kept
 *
 * Return: a zeroed table in the state NEW, NULL if there is no memory. If it is
 * KEPT as well, table_stock_keep() must be called after it was linked.
 */
struct page *table_stock_take(struct empty_tables *tables, gfp_t gfp, u64 place)
{
	struct table_stock *stock = raw_cpu_ptr(tables->stock);
	int state = TABLE_STATE_NEW;
	struct page *table;
	unsigned long flags;
	void *virt;

	spin_lock_irqsave(&stock->lock, flags);
	table = list_first_entry_or_null(&stock->clean, struct page, lru);
	if (table)
		list_del(&table->lru);
	if (place && worth_keeping(stock, place))
		state |= TABLE_KEPT;
	spin_unlock_irqrestore(&stock->lock, flags);

	if (table) {
		if (atomic_read(table_state(table)) & TABLE_UNCLEARED)
			clear_page(page_address(table));
		VM_WARN_ON_ONCE(memchr_inv(page_address(table), 0, PAGE_SIZE));
		this_cpu_inc(table_stats.reused);
	} else {
		virt = iommu_alloc_page_node(tables->domain->nid, gfp);
		if (!virt)
			return NULL;
		table = virt_to_page(virt);
	}
	atomic_set(table_state(table), state);
	return table;
}

/**
 * table_stock_keep() - remember that a linked table is kept, to let go of it later
 * @tables: of the domain
 * @place: where it is
 *
 * Not before it is linked: who lets go of a place must find its table there.
 */
void table_stock_keep(struct empty_tables *tables, u64 place)
{
	struct table_stock *stock = raw_cpu_ptr(tables->stock);
	u64 released = 0;
	unsigned long flags;
	int i;

	spin_lock_irqsave(&stock->lock, flags);
	i = find_place(stock, place);
	if (i < 0) {
		/* Forgotten meanwhile, or this is another CPU. */
		released = place;
	} else if (!(stock->kept & BIT(i))) {
		if (hweight_long(stock->kept) == NR_KEPT) {
			next_victim(stock);
			stock->kept &= ~BIT(stock->victim);
			released = stock->places[stock->victim];
		} else {
			atomic_long_inc(&nr_kept);
		}
		stock->kept |= BIT(i);
	}
	spin_unlock_irqrestore(&stock->lock, flags);

	this_cpu_inc(table_stats.kept);
	if (released)
		empty_tables_release(tables->domain, released);
}

/* Let go of all kept tables of a CPU of a domain; returns how many. */
unsigned long table_stock_release(struct empty_tables *tables, int cpu)
{
	struct table_stock *stock = per_cpu_ptr(tables->stock, cpu);
	u64 places[NR_KEPT];
	unsigned long flags;
	unsigned int i, n = 0;

	spin_lock_irqsave(&stock->lock, flags);
	for_each_set_bit(i, &stock->kept, NR_PLACES)
		places[n++] = stock->places[i];
	stock->kept = 0;
	spin_unlock_irqrestore(&stock->lock, flags);

	atomic_long_sub(n, &nr_kept);
	for (i = 0; i < n; i++)
		empty_tables_release(tables->domain, places[i]);
	return n;
}

static unsigned long shrink_count(struct shrinker *shrinker,
				  struct shrink_control *sc)
{
	return atomic_long_read(&nr_kept) ?: SHRINK_EMPTY;
}

static unsigned long shrink_scan(struct shrinker *shrinker,
				 struct shrink_control *sc)
{
	struct empty_tables *tables;
	unsigned long freed = 0;
	int cpu;

	/* Reclaim may come from a domain that is being made. */
	if (!mutex_trylock(&all_tables_lock))
		return SHRINK_STOP;
	list_for_each_entry(tables, &all_tables, node)
		for_each_possible_cpu(cpu)
			freed += table_stock_release(tables, cpu);
	mutex_unlock(&all_tables_lock);
	return freed;
}

int table_stock_init(struct empty_tables *tables)
{
	struct table_stock *stock;
	int cpu;

	tables->stock = alloc_percpu(struct table_stock);
	if (!tables->stock)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		stock = per_cpu_ptr(tables->stock, cpu);
		spin_lock_init(&stock->lock);
		INIT_LIST_HEAD(&stock->retired);
		INIT_LIST_HEAD(&stock->waiting);
		INIT_LIST_HEAD(&stock->clean);
	}
	mutex_lock(&all_tables_lock);
	list_add(&tables->node, &all_tables);
	mutex_unlock(&all_tables_lock);
	return 0;
}

void table_stock_exit(struct empty_tables *tables)
{
	struct table_stock *stock;
	bool running = false;
	int cpu;

	mutex_lock(&all_tables_lock);
	list_del(&tables->node);
	mutex_unlock(&all_tables_lock);

	for_each_possible_cpu(cpu) {
		stock = per_cpu_ptr(tables->stock, cpu);
		spin_lock_irq(&stock->lock);
		stock->closing = true;
		running |= stock->running;
		spin_unlock_irq(&stock->lock);
	}
	if (running)
		rcu_barrier();
	for_each_possible_cpu(cpu) {
		stock = per_cpu_ptr(tables->stock, cpu);
		free_tables(&stock->clean);
		free_tables(&stock->waiting);
		free_tables(&stock->retired);
		atomic_long_sub(hweight_long(stock->kept), &nr_kept);
	}
	free_percpu(tables->stock);
}

static int empty_tables_show(struct seq_file *m, void *unused)
{
	struct table_stats sum = {};
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct table_stats *one = per_cpu_ptr(&table_stats, cpu);

		sum.freed += READ_ONCE(one->freed);
		sum.reused += READ_ONCE(one->reused);
		sum.kept += READ_ONCE(one->kept);
		sum.released += READ_ONCE(one->released);
		sum.retries += READ_ONCE(one->retries);
	}
	seq_printf(m, "freed %lu\n", sum.freed);
	seq_printf(m, "reused %lu\n", sum.reused);
	seq_printf(m, "kept %lu\n", sum.kept);
	seq_printf(m, "released %lu\n", sum.released);
	seq_printf(m, "retries %lu\n", sum.retries);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(empty_tables);

static int __init table_stock_setup(void)
{
	struct shrinker *shrinker;

	debugfs_create_file("intel_iommu_empty_tables", 0444, NULL, NULL,
			    &empty_tables_fops);
	shrinker = shrinker_alloc(0, "intel-iommu-kept-tables");
	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = shrink_count;
	shrinker->scan_objects = shrink_scan;
	shrinker_register(shrinker);
	return 0;
}
late_initcall(table_stock_setup);
