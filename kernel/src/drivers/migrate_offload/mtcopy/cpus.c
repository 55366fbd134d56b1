// SPDX-License-Identifier: GPL-2.0-only
/*
 * mtcopy: which CPUs help. Part of the kernel image also where mtcopy is a
 * module: what the scheduler knows of idle CPUs is not for modules.
 *
 * A helper does a caller's work, so it may run only where the caller may: on
 * the CPUs of its cpuset and its affinity, and on none at all if cpu.max limits
 * its time: what charge.c charges is shown, and counts for no limit. CPUs
 * that are isolated, or kept free of kernel work, do not help either.
 *
 * What limits a copy is the path between a last-level cache (LLC) and memory:
 * on a Zen 3 server eight threads copy 37 GB/s when they are spread over LLCs
 * and 11 GB/s, hardly more than one thread, when they share one. So each LLC
 * gets one helper before any gets a second, and that of the caller, who copies
 * as well, comes last.
 *
 * Only the source's and the destination's node are asked, since to CPUs of a
 * third node both ends are remote. Between these two it is even: the one reads
 * across the link, the other writes. The destination goes first, as what its
 * cache keeps is near those who will use it. A node without CPUs (CXL memory)
 * stands for the nearest one that has some.
 *
 * Within a node the CPUs are ranked beforehand: "round" counts the CPUs of the
 * same LLC that are ranked before. With two LLCs of two cores each, {0, 1} and
 * {2, 3}, the ranks are 0 and 2 in round 0, then 1 and 3 in round 1.
 */
#include <kunit/static_stub.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/nodemask.h>
#include <linux/numa.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/sched/stat.h>
#include <linux/sched/topology.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include "cpus.h"

/*
 * Where so many good CPUs are busy the machine is: looking further would cost
 * more than it finds. Each look reads another CPU's runqueue.
 */
#define MTCOPY_MAX_BUSY		16

struct mtcopy_rank {
	int cpu;
	unsigned int round;
};

struct mtcopy_ranks {
	struct rcu_head rcu;
	unsigned int nr;
	struct mtcopy_rank rank[] __counted_by(nr);
};

static struct mtcopy_ranks __rcu *mtcopy_ranks[MAX_NUMNODES];
static int mtcopy_cpuhp_state;

static bool mtcopy_share_llc(int a, int b)
{
	KUNIT_STATIC_STUB_REDIRECT(mtcopy_share_llc, a, b);
	return cpus_share_cache(a, b);
}

/*
 * Is the whole core idle, and if it is virtual, does its host run it? A busy
 * sibling would pay for half of the helper.
 */
static bool mtcopy_core_idle(int cpu)
{
	int sibling;

	KUNIT_STATIC_STUB_REDIRECT(mtcopy_core_idle, cpu);
	if (!cpu_online(cpu) || cpu_is_isolated(cpu) ||
	    !housekeeping_test_cpu(cpu, HK_TYPE_WQ))
		return false;
	for_each_cpu(sibling, topology_sibling_cpumask(cpu))
		if (!idle_cpu(sibling) || vcpu_is_preempted(sibling))
			return false;
	return true;
}

/* @ranks has room for @cpu, which is higher than those ranked before */
static void mtcopy_rank_cpu(struct mtcopy_ranks *ranks, int cpu)
{
	unsigned int i, round = 0;

	for (i = 0; i < ranks->nr; i++)
		round += mtcopy_share_llc(cpu, ranks->rank[i].cpu);
	for (i = ranks->nr++; i && ranks->rank[i - 1].round > round; i--)
		ranks->rank[i] = ranks->rank[i - 1];
	ranks->rank[i] = (struct mtcopy_rank) { cpu, round };
}

/* One CPU stands for its core. Return: NULL if there is no memory. */
static struct mtcopy_ranks *mtcopy_rank_cpus(const struct cpumask *mask)
{
	struct mtcopy_ranks *ranks;
	int cpu;

	ranks = kzalloc(struct_size(ranks, rank, cpumask_weight(mask)),
			GFP_KERNEL);
	if (!ranks)
		return NULL;
	for_each_cpu(cpu, mask)
		if (cpumask_first(topology_sibling_cpumask(cpu)) == cpu)
			mtcopy_rank_cpu(ranks, cpu);
	return ranks;
}

static void mtcopy_set_ranks(int nid, struct mtcopy_ranks *new)
{
	struct mtcopy_ranks *old;

	old = unrcu_pointer(xchg(&mtcopy_ranks[nid], RCU_INITIALIZER(new)));
	kfree_rcu(old, rcu);
}

static int mtcopy_rank_nodes(void)
{
	struct mtcopy_ranks *ranks;
	int nid;

	for_each_node_state(nid, N_CPU) {
		ranks = mtcopy_rank_cpus(cpumask_of_node(nid));
		if (!ranks)
			return -ENOMEM;
		mtcopy_set_ranks(nid, ranks);
	}
	return 0;
}

/*
 * Old ranks remain if there is no memory: an offline CPU is never chosen, and
 * a new one not yet.
 */
static void mtcopy_rerank(struct work_struct *work)
{
	cpus_read_lock();
	mtcopy_rank_nodes();
	cpus_read_unlock();
}

static DECLARE_WORK(mtcopy_rerank_work, mtcopy_rerank);

/* LLCs are known only when the hotplug is over: see cpus_read_lock() above */
static int mtcopy_cpu_changed(unsigned int cpu)
{
	schedule_work(&mtcopy_rerank_work);
	return 0;
}

/*
 * The next CPU in the order of both nodes: lower round first, then the first
 * node. Return: -1 at the end.
 */
static int mtcopy_next_cpu(const struct mtcopy_ranks *ranks[2],
			   unsigned int pos[2])
{
	const struct mtcopy_rank *rank[2] = {};
	int i;

	for (i = 0; i < 2; i++)
		if (ranks[i] && pos[i] < ranks[i]->nr)
			rank[i] = &ranks[i]->rank[pos[i]];
	if (!rank[0] && !rank[1])
		return -1;
	i = !rank[0] || (rank[1] && rank[1]->round < rank[0]->round);
	pos[i]++;
	return rank[i]->cpu;
}

static unsigned int mtcopy_choose(int *chosen, unsigned int max, int self,
				  const struct cpumask *allowed,
				  const struct mtcopy_ranks *ranks[2])
{
	unsigned int n = 0, busy = 0;
	int own, cpu;

	for (own = 0; own < 2; own++) {
		unsigned int pos[2] = {};

		while (n < max && busy < MTCOPY_MAX_BUSY) {
			cpu = mtcopy_next_cpu(ranks, pos);
			if (cpu < 0)
				break;
			if (mtcopy_share_llc(cpu, self) != own ||
			    !cpumask_test_cpu(cpu, allowed))
				continue;
			if (mtcopy_core_idle(cpu))
				chosen[n++] = cpu;
			else
				busy++;
		}
	}
	return n;
}

/*
 * May other CPUs copy for this task? Not if cpu.max limits it. Call in an RCU
 * section.
 */
static bool mtcopy_may_be_helped(void)
{
	bool limited;

	KUNIT_STATIC_STUB_REDIRECT(mtcopy_may_be_helped);
	preempt_disable();
	limited = cfs_task_bw_constrained(current);
	preempt_enable();
	return !limited;
}

/**
 * mtcopy_choose_cpus() - find idle CPUs that may help the calling task
 * @chosen: room for @max CPUs; the best comes first
 * @max: how many are wanted
 * @dst_nid: node that the data go to
 * @src_nid: node that they come from
 *
 * May be called from any context in which the task may be preempted. The answer
 * may be outdated at once.
 *
 * Return: how many CPUs were found; 0 for a task under cpu.max.
 */
unsigned int mtcopy_choose_cpus(int *chosen, unsigned int max, int dst_nid,
				int src_nid)
{
	const struct mtcopy_ranks *ranks[2] = {};
	unsigned int n = 0;

	KUNIT_STATIC_STUB_REDIRECT(mtcopy_choose_cpus, chosen, max, dst_nid,
				   src_nid);
	dst_nid = numa_nearest_node(dst_nid, N_CPU);
	src_nid = numa_nearest_node(src_nid, N_CPU);

	rcu_read_lock();
	ranks[0] = rcu_dereference(mtcopy_ranks[dst_nid]);
	if (src_nid != dst_nid)
		ranks[1] = rcu_dereference(mtcopy_ranks[src_nid]);
	if (mtcopy_may_be_helped())
		n = mtcopy_choose(chosen, max, raw_smp_processor_id(),
				  current->cpus_ptr, ranks);
	rcu_read_unlock();
	return n;
}
EXPORT_SYMBOL_GPL(mtcopy_choose_cpus);

static void mtcopy_free_ranks(void)
{
	int nid;

	for_each_node(nid)
		mtcopy_set_ranks(nid, NULL);
}

/**
 * mtcopy_cpus_init() - rank the CPUs, and keep up with their coming and going
 *
 * Return: 0, or a negative errno and nothing to undo. May sleep.
 */
int mtcopy_cpus_init(void)
{
	int error;

	cpus_read_lock();
	error = mtcopy_rank_nodes();
	cpus_read_unlock();
	if (error)
		goto free_ranks;

	error = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN,
					  "mm/mtcopy:online",
					  mtcopy_cpu_changed,
					  mtcopy_cpu_changed);
	if (error < 0)
		goto free_ranks;
	mtcopy_cpuhp_state = error;
	return 0;

free_ranks:
	mtcopy_free_ranks();
	return error;
}
EXPORT_SYMBOL_GPL(mtcopy_cpus_init);

/**
 * mtcopy_cpus_exit() - undo mtcopy_cpus_init(); nobody chooses CPUs any more
 */
void mtcopy_cpus_exit(void)
{
	cpuhp_remove_state_nocalls(mtcopy_cpuhp_state);
	cancel_work_sync(&mtcopy_rerank_work);
	mtcopy_free_ranks();
}
EXPORT_SYMBOL_GPL(mtcopy_cpus_exit);

#ifdef CONFIG_MIGRATE_OFFLOAD_MTCOPY_KUNIT_TEST
#include "cpus_test.c"
#endif
