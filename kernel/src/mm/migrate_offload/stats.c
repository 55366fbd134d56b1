// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters of the copy offload, and the histogram of inaccessible time.
 */
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/time64.h>
#include <trace/events/migrate_offload.h>

#include "internal.h"

struct migrate_offload_counters {
	unsigned long stats[NR_MIGRATE_OFFLOAD_STATS];
	unsigned long buckets[MIGRATE_OFFLOAD_NR_BUCKETS];
};

static DEFINE_PER_CPU(struct migrate_offload_counters, counters);
static atomic_long_t window_max;

DEFINE_STATIC_KEY_FALSE(migrate_offload_time_key);

void migrate_offload_count(enum migrate_offload_stat stat, unsigned long n)
{
	this_cpu_add(counters.stats[stat], n);
}

void migrate_offload_count_fallback(struct folio *src,
				    enum migrate_offload_stat stat, int error)
{
	migrate_offload_count(stat, 1);
	trace_migrate_offload_fallback(src, stat, error);
}

unsigned long migrate_offload_stat(enum migrate_offload_stat stat)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(counters.stats[stat], cpu);
	return sum;
}

void migrate_offload_count_window(unsigned long nr_pages)
{
	long max = atomic_long_read(&window_max);

	while (nr_pages > max &&
	       !atomic_long_try_cmpxchg(&window_max, &max, nr_pages))
		;
}

unsigned long migrate_offload_window_max(void)
{
	return atomic_long_read(&window_max);
}

/* Bucket 0 is below 1 us, bucket i is [2^(i-1), 2^i) us */
void migrate_offload_count_time(u64 ns)
{
	u64 us = div_u64(ns, NSEC_PER_USEC);
	unsigned int i = us ? ilog2(us) + 1 : 0;

	i = min(i, MIGRATE_OFFLOAD_NR_BUCKETS - 1);
	this_cpu_inc(counters.buckets[i]);
}

unsigned long migrate_offload_time_bucket(unsigned int i)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(counters.buckets[i], cpu);
	return sum;
}
