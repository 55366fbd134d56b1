// SPDX-License-Identifier: GPL-2.0-only
/*
 * Folios that NUMA balancing finds on the wrong node move several at once.
 *
 * A hint fault of Linux moves the folio that was touched, alone. Here the fault
 * makes the folio accessible where it is, and notes the address for its task. The
 * task moves what is noted on its way to user space: when the notes are full, or at
 * its next tick.
 *
 * Small folios are cheaper to move together. Large ones are not: they are noted only
 * if a copy engine takes them, which several together keep busy.
 *
 * A note is an address and no reference. So nobody finds a reference that nothing
 * explains, and whatever becomes of the page meanwhile needs no word: when its
 * turn comes the address is looked up anew, and what is there is moved only if all
 * that the fault has asked still holds. NUMA balancing's statistics, which steer how
 * often it looks at memory, learn of each fault when its outcome is known.
 */
#include <linux/cpuset.h>
#include <linux/ksm.h>
#include <linux/memcontrol.h>
#include <linux/memory-tiers.h>
#include <linux/mempolicy.h>
#include <linux/migrate_promote.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched/numa_balancing.h>
#include <linux/sched/rt.h>
#include <linux/sched/sysctl.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/task_work.h>
#include <linux/vmstat.h>

#include "../internal.h"
#include "../migrate_offload/batch.h"
#include "migrate_bulk.h"

#define MIGRATE_NOTES	256
/* Of folios of which some are large */
#define MIGRATE_LARGE_NOTES	64
/* The task that moves them waits for their copy */
#define MIGRATE_NOTED_PAGES	((SZ_1M + SZ_512K) / PAGE_SIZE)
/* An engine divides a larger folio among its channels */
#define MIGRATE_NOTED_MOST	(SZ_256K / PAGE_SIZE)

/**
 * struct migrate_note - a hint fault on a page of the wrong node
 * @addr: where
 * @folio: that is on its way; a name, and no reference
 * @memcg: of it, referenced while it is on its way
 * @last_cpupid: for task_numa_fault()
 * @flags: for task_numa_fault()
 * @from: the node that it was on
 * @nr_pages: of the folio that was touched
 * @turn: the k-th note's says which one has the k-th address
 */
struct migrate_note {
	unsigned long addr;
	unsigned long turn;
	struct folio *folio;
	struct mem_cgroup *memcg;
	int last_cpupid;
	int flags;
	int from;
	unsigned int nr_pages;
};

/**
 * struct migrate_promotions - what a task has noted
 * @work: links to itself unless it is queued
 * @mm: whose addresses these are; only compared
 * @target: where all of them are to be
 * @nr: how many
 * @room: for how many; the setting of when the task noted its first one
 * @nr_pages: of all of them
 * @order: of the largest folio
 * @notes: the faults
 *
 * Only the task itself changes it, but for @work, which its ticks queue, too. They may
 * be made by another CPU: with nohz_full, once a second.
 */
struct migrate_promotions {
	struct callback_head work;
	struct mm_struct *mm;
	int target;
	unsigned int nr;
	unsigned int room;
	unsigned int nr_pages;
	unsigned int order;
	struct migrate_note notes[];
};

/* How many notes a task waits for; below 2 there are none */
unsigned int sysctl_migrate_promote_batch __read_mostly;
static const unsigned int promote_batch_max = MIGRATE_NOTES;

/* @task's */
static void promote_queue(struct task_struct *task, struct migrate_promotions *p)
{
	/* A tick may come in between: one of both queues it */
	if (cmpxchg(&p->work.next, &p->work, NULL) == &p->work &&
	    task_work_add(task, &p->work, TWA_RESUME))
		WRITE_ONCE(p->work.next, &p->work);
}

/* See migrate_promote_due() */
void __migrate_promote_due(struct task_struct *task)
{
	/* Pairs with that of promote_get() */
	struct migrate_promotions *p = smp_load_acquire(&task->promotions);

	if (READ_ONCE(p->nr) && task->mm && !(task->flags & PF_EXITING))
		promote_queue(task, p);
}

/* Does its policy, as it is now, let NUMA balancing move pages there? */
static bool promote_is_allowed(struct vm_area_struct *vma, unsigned long addr,
			       int target)
{
	struct mempolicy *pol;
	pgoff_t ilx;
	bool allowed;

	if (!vma_migratable(vma) || is_vm_hugetlb_page(vma) ||
	    !node_isset(target, cpuset_current_mems_allowed))
		return false;
	pol = get_vma_policy(vma, addr, 0, &ilx);
	allowed = pol->flags & MPOL_F_MOF;
	/* See mpol_misplaced() */
	if (pol->mode == MPOL_BIND || pol->mode == MPOL_PREFERRED_MANY)
		allowed &= node_isset(target, pol->nodes);
	mpol_cond_put(pol);
	return allowed;
}

static bool promote_fits(struct folio *folio)
{
	if (!folio_test_anon(folio) || folio_test_ksm(folio) ||
	    folio_is_zone_device(folio))
		return false;
	return !folio_test_large(folio) ||
	       (folio_nr_pages(folio) <= MIGRATE_NOTED_MOST &&
		migrate_offload_batch(MR_NUMA_MISPLACED));
}

/* The table of a note, locked, and what it says there */
struct promote_table {
	pte_t *ptes;
	spinlock_t *ptl;
	unsigned long addr;
};

static void promote_leave_table(struct promote_table *table)
{
	if (table->ptes)
		pte_unmap_unlock(table->ptes, table->ptl);
	table->ptes = NULL;
}

/* Return: the entry that is at an address now; an empty one if there is no table */
static pte_t promote_find(struct promote_table *table, struct mm_struct *mm,
			  unsigned long addr)
{
	pmd_t *pmd;

	if (!table->ptes || (table->addr ^ addr) & PMD_MASK) {
		promote_leave_table(table);
		pmd = mm_find_pmd(mm, addr);
		if (pmd)
			table->ptes = pte_offset_map_lock(mm, pmd,
							  addr & PMD_MASK,
							  &table->ptl);
		table->addr = addr;
	}
	return table->ptes ? ptep_get(table->ptes + pte_index(addr)) : __pte(0);
}

/* Claim what is at a noted address now, if it is still to be moved */
static void promote_claim(struct vm_area_struct *vma, pte_t pte,
			  struct migrate_note *note,
			  struct migrate_claims *claims, struct list_head *list)
{
	struct folio *folio;

	folio = pte_present(pte) ? vm_normal_folio(vma, note->addr, pte) : NULL;
	if (folio && promote_fits(folio) && folio_nid(folio) == note->from &&
	    folio_nr_pages(folio) == note->nr_pages &&
	    migrate_claim(claims, folio, list)) {
		note->folio = folio;
		note->memcg = get_mem_cgroup_from_folio(folio);
	}
}

/* Shell's sort: insertion would take longer than all the rest of what 256 notes cost */
static const u8 promote_gaps[] = { 121, 40, 13, 4, 1 };

/* Say in which turn the addresses rise: those of one page table are neighbours then */
static void promote_sort(struct migrate_promotions *p)
{
	struct migrate_note *notes = p->notes;
	unsigned int g, gap, i, k;
	unsigned long key;

	BUILD_BUG_ON(MIGRATE_NOTES > PAGE_SIZE);
	for (i = 0; i < p->nr; i++)
		notes[i].turn = (notes[i].addr & PAGE_MASK) | i;
	for (g = 0; g < ARRAY_SIZE(promote_gaps); g++) {
		gap = promote_gaps[g];
		for (i = gap; i < p->nr; i++) {
			key = notes[i].turn;
			for (k = i; k >= gap && notes[k - gap].turn > key; k -= gap)
				notes[k].turn = notes[k - gap].turn;
			notes[k].turn = key;
		}
	}
	for (i = 0; i < p->nr; i++)
		notes[i].turn &= ~PAGE_MASK;
}

/* Return: false if somebody changes the address space at this moment */
static bool promote_isolate(struct migrate_promotions *p,
			    struct list_head *list)
{
	struct migrate_claims claims = { };
	struct vm_area_struct *vma = NULL;
	struct promote_table table = { };
	bool allowed = false;
	unsigned int i;

	if (!mmap_read_trylock(p->mm))
		return false;
	promote_sort(p);
	for (i = 0; i < p->nr; i++) {
		struct migrate_note *note = &p->notes[p->notes[i].turn];

		if (!vma || note->addr < vma->vm_start ||
		    note->addr >= vma->vm_end) {
			promote_leave_table(&table);
			vma = vma_lookup(p->mm, note->addr);
			allowed = vma && promote_is_allowed(vma, note->addr,
							    p->target);
		}
		if (allowed)
			promote_claim(vma, promote_find(&table, p->mm, note->addr),
				      note, &claims, list);
	}
	promote_leave_table(&table);
	mmap_read_unlock(p->mm);
	migrate_isolate_claimed(&claims);
	return true;
}

static void promote_move(struct migrate_promotions *p, struct list_head *list)
{
	struct migration_target_control mtc = {
		.nid = p->target,
		.gfp_mask = (GFP_HIGHUSER_MOVABLE | __GFP_THISNODE |
			     __GFP_NOMEMALLOC | __GFP_NORETRY | __GFP_NOWARN) &
			    ~__GFP_RECLAIM,
		.reason = MR_NUMA_MISPLACED,
		.nowait = true,
	};
	struct folio *folio;
	unsigned int i;

	if (list_empty(list))
		return;
	if (migrate_misplaced_room(NODE_DATA(p->target), p->nr_pages,
				   p->order))
		migrate_pages_stocked(list, alloc_migration_target, &mtc,
				      MIGRATE_ASYNC, MR_NUMA_MISPLACED, NULL);
	/* What is left has not moved */
	list_for_each_entry(folio, list, lru)
		for (i = 0; i < p->nr; i++)
			if (p->notes[i].folio == folio)
				p->notes[i].folio = NULL;
	putback_movable_pages(list);
}

static void promote_count(struct migrate_promotions *p,
			  struct mem_cgroup *memcg, int from, unsigned int nr)
{
	if (!nr)
		return;
	count_vm_numa_events(NUMA_PAGE_MIGRATE, nr);
	count_memcg_events(memcg, NUMA_PAGE_MIGRATE, nr);
	if (sysctl_numa_balancing_mode & NUMA_BALANCING_MEMORY_TIERING &&
	    !node_is_toptier(from) && node_is_toptier(p->target))
		mod_lruvec_state(mem_cgroup_lruvec(memcg, NODE_DATA(p->target)),
				 PGPROMOTE_SUCCESS, nr);
}

/* Tell what became of each; the pages of one group and node are counted at once */
static void promote_tell(struct migrate_promotions *p)
{
	struct mem_cgroup *memcg = NULL;
	unsigned int i, nr = 0;
	int from = NUMA_NO_NODE;

	for (i = 0; i < p->nr; i++) {
		struct migrate_note *note = &p->notes[i];

		if (note->folio) {
			if (note->memcg != memcg || note->from != from) {
				promote_count(p, memcg, from, nr);
				memcg = note->memcg;
				from = note->from;
				nr = 0;
			}
			nr += note->nr_pages;
			note->flags |= TNF_MIGRATED;
		} else {
			note->flags |= TNF_MIGRATE_FAIL;
		}
		task_numa_fault(note->last_cpupid,
				note->folio ? p->target : note->from,
				note->nr_pages, note->flags);
	}
	promote_count(p, memcg, from, nr);
	for (i = 0; i < p->nr; i++)
		mem_cgroup_put(p->notes[i].memcg);
}

static void promote_work(struct callback_head *work)
{
	struct migrate_promotions *p = container_of(work, typeof(*p), work);
	LIST_HEAD(list);

	/* From here on a tick may queue it again, which does no harm */
	WRITE_ONCE(work->next, work);
	if (current->mm == p->mm && !(current->flags & PF_EXITING)) {
		if (!promote_isolate(p, &list))
			return;
		promote_move(p, &list);
		promote_tell(p);
	}
	WRITE_ONCE(p->nr, 0);
}

static bool promote_is_full(const struct migrate_promotions *p)
{
	unsigned int most = MIGRATE_LARGE_NOTES;

	/* Without large folios no engine is busy for long */
	if (p->nr_pages == p->nr)
		most = READ_ONCE(sysctl_migrate_promote_batch);
	return p->nr >= min(most, p->room) || p->nr_pages >= MIGRATE_NOTED_PAGES;
}

/* Return: with room for another note, for this task and target; or NULL */
static struct migrate_promotions *promote_get(struct mm_struct *mm, int target)
{
	struct migrate_promotions *p = current->promotions;
	unsigned int room;

	if (!p) {
		room = max(READ_ONCE(sysctl_migrate_promote_batch),
			   MIGRATE_LARGE_NOTES);
		p = kmalloc(struct_size(p, notes, room),
			    GFP_NOWAIT | __GFP_NOWARN);
		if (!p)
			return NULL;
		p->room = room;
		init_task_work(&p->work, promote_work);
		p->work.next = &p->work;
		p->mm = mm;
		p->nr = 0;
		/* Pairs with that of a tick */
		smp_store_release(&current->promotions, p);
	}
	/* It was another program's */
	if (p->mm != mm)
		WRITE_ONCE(p->nr, 0);
	if (!p->nr) {
		p->mm = mm;
		p->target = target;
		p->nr_pages = 0;
		p->order = 0;
	}
	return p->target == target && p->nr < p->room ? p : NULL;
}

/**
 * __migrate_promote_later() - note a misplaced folio instead of moving it at once
 * @vmf: a hint fault, with its page table locked
 * @folio: what was touched
 * @target: the node where it should be
 * @last_cpupid: for task_numa_fault()
 * @flags: for task_numa_fault()
 *
 * Only for what is moved best with others: anonymous folios that a task touches
 * which is on its way to user space, and has ticks; small ones, and if a copy engine
 * takes them those of up to 256 KiB.
 *
 * Context: The page table's lock is held. Allocates, but does not wait.
 * Return: true if it is noted: then the fault makes it accessible, and leaves it to
 * this file to call task_numa_fault(). Else the fault goes on as ever.
 */
bool __migrate_promote_later(struct vm_fault *vmf, struct folio *folio,
			     int target, int last_cpupid, int flags)
{
	const unsigned int never = PF_KTHREAD | PF_EXITING | PF_IO_WORKER |
				   PF_USER_WORKER;
	struct mm_struct *mm = vmf->vma->vm_mm;
	struct migrate_promotions *p;

	if (!promote_fits(folio) || mm != current->mm ||
	    current->flags & never || rt_or_dl_task_policy(current))
		return false;
	p = promote_get(mm, target);
	if (!p)
		return false;
	p->notes[p->nr] = (struct migrate_note){
		.addr = vmf->address,
		.last_cpupid = last_cpupid,
		.flags = flags,
		.from = folio_nid(folio),
		.nr_pages = folio_nr_pages(folio),
	};
	p->nr_pages += folio_nr_pages(folio);
	p->order = max(p->order, folio_order(folio));
	WRITE_ONCE(p->nr, p->nr + 1);
	if (promote_is_full(p))
		promote_queue(current, p);
	return true;
}

static struct ctl_table promote_sysctls[] = {
	{
		.procname	= "migrate_promote_batch",
		.data		= &sysctl_migrate_promote_batch,
		.maxlen		= sizeof(sysctl_migrate_promote_batch),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= (void *)&promote_batch_max,
	},
};

static int __init promote_init(void)
{
	register_sysctl_init("vm", promote_sysctls);
	return 0;
}
late_initcall(promote_init);

#ifdef CONFIG_MIGRATE_RANGES_KUNIT_TEST
#include "promote_test.c"
#endif
