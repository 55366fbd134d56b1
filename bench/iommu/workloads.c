// SPDX-License-Identifier: GPL-2.0
/* What is measured: pairs of one map and one unmap. */
#include <linux/kthread.h>
#include <linux/ktime.h>

#include "iommu_bench.h"

/* Threads that share nothing are this far apart. */
#define FAR	(64ULL * SZ_1G)

struct workload {
	const char *name;
	size_t size;		/* of a map */
	size_t total;		/* of an unmap, if it is of several maps */
	size_t physical;	/* where in the target: an odd page prevents large pages */
	u64 step;		/* from pair to pair */
	u64 apart;		/* from thread to thread */
};

static const struct workload workloads[] = {
	/* One place, again and again: a table that is emptied all day. */
	{ "same_4k", SZ_4K, 0, 0, 0, FAR },
	{ "same_2m", SZ_2M, 0, 0, 0, FAR },
	/* Ranges of small pages, whole tables at a time. */
	{ "range_4k", SZ_2M, 0, SZ_4K, 0, FAR },
	{ "range_1g", SZ_2M, SZ_1G, SZ_4K, 0, FAR },
	/* Fresh addresses, each in a table of its own: what leaves empty tables. */
	{ "pass_4k", SZ_4K, 0, 0, SZ_2M, FAR },
	/* All threads in one table. */
	{ "shared_4k", SZ_4K, 0, 0, 0, SZ_4K },
};

static int crew_thread(void *data)
{
	struct crew *crew = data;
	unsigned int number = atomic_dec_return(&crew->left);
	u64 errors;

	wait_for_completion(&crew->start);
	errors = crew->fn(crew, number);
	atomic64_add(errors, &crew->errors);
	if (atomic_inc_return(&crew->left) == crew->nr)
		complete(&crew->done);
	return 0;
}

int crew_start(struct crew *crew)
{
	unsigned int i;

	init_completion(&crew->start);
	init_completion(&crew->done);
	atomic_set(&crew->left, crew->nr);
	atomic64_set(&crew->errors, 0);
	for (i = 0; i < crew->nr; i++) {
		struct task_struct *task;

		task = kthread_create(crew_thread, crew, "iommu_bench/%u", i);
		/* The threads that are there wait for each other, so all or none. */
		if (WARN_ON(IS_ERR(task)))
			return PTR_ERR(task);
		kthread_bind(task, cpumask_nth(i % num_online_cpus(), cpu_online_mask));
		wake_up_process(task);
	}
	while (atomic_read(&crew->left))
		schedule_timeout_uninterruptible(1);
	complete_all(&crew->start);
	return 0;
}

void crew_finish(struct crew *crew, struct result *result)
{
	/* Not TASK_UNINTERRUPTIBLE: a long run is no hung task. */
	wait_for_completion_state(&crew->done, TASK_IDLE);
	result->pairs = crew->nr * crew->pairs;
	result->errors += atomic64_read(&crew->errors);
}

int crew_run(struct crew *crew, struct result *result)
{
	u64 begin;
	int ret;

	ret = crew_start(crew);
	if (ret)
		return ret;
	begin = ktime_get_ns();
	crew_finish(crew, result);
	result->ns = ktime_get_ns() - begin;
	return 0;
}

static u64 pairs_fn(struct crew *crew, unsigned int number)
{
	const struct workload *work = crew->work;
	struct iommu_domain *domain = crew->bench->domain;
	phys_addr_t physical = crew->bench->target_phys + work->physical;
	size_t total = work->total ?: work->size, at;
	u64 iova = SZ_8G + number * work->apart;
	u64 i, errors = 0;

	for (i = 0; i < crew->pairs; i++, iova += work->step) {
		for (at = 0; at < total; at += work->size)
			errors += iommu_map(domain, iova + at, physical, work->size,
					    PROT, GFP_KERNEL) != 0;
		errors += iommu_unmap(domain, iova, total) != total;
		if (!(i % 256))
			cond_resched();
	}
	return errors;
}

int workload_run(struct bench *bench, const char *name, unsigned int threads,
		 u64 pairs, struct result *result)
{
	struct crew crew = {
		.bench = bench, .nr = threads, .pairs = pairs, .fn = pairs_fn,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(workloads); i++) {
		if (strcmp(workloads[i].name, name))
			continue;
		crew.work = &workloads[i];
		return crew_run(&crew, result);
	}
	return -EINVAL;
}
