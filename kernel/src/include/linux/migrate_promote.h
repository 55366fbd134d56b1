/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NUMA balancing's misplaced pages, moved several at once; see
 * mm/migrate_bulk/promote.c.
 */
#ifndef _LINUX_MIGRATE_PROMOTE_H
#define _LINUX_MIGRATE_PROMOTE_H

#include <linux/sched.h>
#include <linux/slab.h>

struct folio;
struct vm_fault;

#if defined(CONFIG_NUMA_BALANCING) && defined(CONFIG_MIGRATE_BULK)

extern unsigned int sysctl_migrate_promote_batch;

bool __migrate_promote_later(struct vm_fault *vmf, struct folio *folio,
			     int target, int last_cpupid, int flags);
void __migrate_promote_due(struct task_struct *task);

/* See __migrate_promote_later() */
static inline bool migrate_promote_later(struct vm_fault *vmf,
					 struct folio *folio, int target,
					 int last_cpupid, int flags)
{
	return READ_ONCE(sysctl_migrate_promote_batch) > 1 &&
	       __migrate_promote_later(vmf, folio, target, last_cpupid, flags);
}

/* A tick of @task, perhaps by another CPU: what was noted has waited long enough */
static inline void migrate_promote_due(struct task_struct *task)
{
	if (unlikely(READ_ONCE(task->promotions)))
		__migrate_promote_due(task);
}

/* @task is gone, and with it its work */
static inline void migrate_promote_free(struct task_struct *task)
{
	kfree(task->promotions);
}

#else

static inline bool migrate_promote_later(struct vm_fault *vmf,
					 struct folio *folio, int target,
					 int last_cpupid, int flags)
{
	return false;
}

static inline void migrate_promote_due(struct task_struct *task)
{
}

static inline void migrate_promote_free(struct task_struct *task)
{
}

#endif

#endif /* _LINUX_MIGRATE_PROMOTE_H */
