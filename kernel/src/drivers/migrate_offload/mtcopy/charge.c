// SPDX-License-Identifier: GPL-2.0-only
/*
 * mtcopy: a helper's time is charged to the cgroup that its caller's folios are
 * charged to, as cpu.stat shows it. Part of the kernel image also where mtcopy is
 * a module: modules may not charge time.
 *
 * Only with cgroup v2, where memory and CPU time have the same groups. The root's
 * time is that of all CPUs, so it has the helper's already.
 */
#include <linux/cgroup.h>
#include <linux/export.h>
#include <linux/kernel_stat.h>
#include <linux/memcontrol.h>
#include <linux/rcupdate.h>

#include "cpus.h"

/**
 * mtcopy_group_get() - whom a helper is to work for
 * @folio: locked, so that its memory cgroup stays
 *
 * Return: the cgroup that is to be charged, with a reference; NULL: none.
 */
struct cgroup *mtcopy_group_get(struct folio *folio)
{
	struct cgroup *group = NULL;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg;

	if (!cgroup_subsys_on_dfl(memory_cgrp_subsys))
		return NULL;
	rcu_read_lock();
	memcg = folio_memcg(folio);
	if (memcg && cgroup_parent(memcg->css.cgroup)) {
		group = memcg->css.cgroup;
		cgroup_get(group);
	}
	rcu_read_unlock();
#endif
	return group;
}
EXPORT_SYMBOL_GPL(mtcopy_group_get);

/**
 * mtcopy_charge() - charge a helper's time
 * @group: of mtcopy_group_get(), whose reference goes
 * @ns: for so many nanoseconds the helper has worked
 *
 * Any context.
 */
void mtcopy_charge(struct cgroup *group, u64 ns)
{
#ifdef CONFIG_MEMCG
	if (!group)
		return;
	__cgroup_account_cputime(group, ns);
	__cgroup_account_cputime_field(group, CPUTIME_SYSTEM, ns);
	cgroup_put(group);
#endif
}
EXPORT_SYMBOL_GPL(mtcopy_charge);
