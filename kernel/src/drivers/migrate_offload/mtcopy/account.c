// SPDX-License-Identifier: GPL-2.0-only
/*
 * mtcopy: whom helpers work for, and how long.
 *
 * Linux charges CPU time to the cgroup of the task that runs, and a helper is a
 * kernel thread: nothing lets one charge its time to another group. So it is
 * shown instead, by the memory cgroup of the folios, for the administrator to
 * judge: /sys/kernel/debug/mtcopy/helper_time has a line "ID NANOSECONDS" for
 * each group, where ID is the inode of its folder in cgroupfs.
 *
 * There is room for many groups, and none is ever forgotten: what does not fit,
 * and what belongs to no group, is counted as ID 0.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/hash.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "account.h"

#define MTCOPY_GROUPS		1024	/* a power of two */
#define MTCOPY_GROUP_TRIES	16

struct mtcopy_group_time {
	atomic64_t id;		/* 0: free, but for the first, which is all others */
	atomic64_t ns;
};

static struct mtcopy_group_time *mtcopy_times;
static struct dentry *mtcopy_dir;

/**
 * mtcopy_group_of() - the memory cgroup of a folio
 * @folio: locked and charged, so that its group stays
 *
 * Return: the inode of the group's folder; 0 if it has none.
 */
u64 mtcopy_group_of(struct folio *folio)
{
	u64 id = 0;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg;

	rcu_read_lock();
	memcg = folio_memcg(folio);
	if (memcg)
		id = cgroup_id(memcg->css.cgroup);
	rcu_read_unlock();
#endif
	return id;
}

/* The entry of a group, which gets one if it has none. No lock: none is freed. */
static struct mtcopy_group_time *mtcopy_find(u64 id)
{
	unsigned int first = hash_64(id, ilog2(MTCOPY_GROUPS)), i;

	for (i = 0; id && i < MTCOPY_GROUP_TRIES; i++) {
		unsigned int at = (first + i) % MTCOPY_GROUPS;
		struct mtcopy_group_time *t = &mtcopy_times[at];
		u64 old;

		if (!at)
			continue;
		old = atomic64_read(&t->id);
		if (!old)
			old = atomic64_cmpxchg(&t->id, 0, id);
		if (!old || old == id)
			return t;
	}
	return &mtcopy_times[0];
}

/**
 * mtcopy_account() - say that a helper has worked
 * @group: of mtcopy_group_of()
 * @ns: for so many nanoseconds
 *
 * Any context.
 */
void mtcopy_account(u64 group, u64 ns)
{
	atomic64_add(ns, &mtcopy_find(group)->ns);
}

static int helper_time_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	for (i = 0; i < MTCOPY_GROUPS; i++) {
		s64 ns = atomic64_read(&mtcopy_times[i].ns);

		if (ns)
			seq_printf(m, "%lld %lld\n",
				   (s64)atomic64_read(&mtcopy_times[i].id), ns);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(helper_time);

int mtcopy_account_init(void)
{
	mtcopy_times = kvcalloc(MTCOPY_GROUPS, sizeof(*mtcopy_times),
				GFP_KERNEL);
	if (!mtcopy_times)
		return -ENOMEM;
	mtcopy_dir = debugfs_create_dir("mtcopy", NULL);
	debugfs_create_file("helper_time", 0444, mtcopy_dir, NULL,
			    &helper_time_fops);
	return 0;
}

void mtcopy_account_exit(void)
{
	debugfs_remove(mtcopy_dir);
	kvfree(mtcopy_times);
}
