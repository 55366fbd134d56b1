// SPDX-License-Identifier: GPL-2.0-only
/*
 * The front end of move_pages(2).
 *
 * Addresses come in blocks, each of which is sorted if it is for one node. The
 * folios of a block are looked up and isolated in runs, each under one hold of
 * mmap_lock and, as far as neighbours in the array are neighbours in memory, of
 * the page table's lock. They gather in a list for each destination, and move
 * when the block has been gone through.
 *
 * A folio that cannot be isolated may be queued here already, or wait in a
 * per-CPU LRU cache. So what is queued is moved, then caches are drained, those
 * of this CPU first; only then is it said to be busy.
 */
#include <linux/compat.h>
#include <linux/hugetlb.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/pagewalk.h>
#include <linux/rmap.h>
#include <linux/uaccess.h>

#include "../internal.h"
#include "migrate_bulk.h"

#define BLOCK_SMALL	16	/* addresses that need no allocation */
#define BLOCK_LARGE	MIGRATE_SORT_MAX	/* gone through before folios move */
#define ADDRS_PER_HOLD	256	/* addresses looked up in one hold of mmap_lock */
#define MAX_TARGETS	4	/* nodes that folios are queued for at once */

/* Instead of a node or an error */
enum {
	QUEUED = INT_MIN,	/* in a status: will be on its node, if all goes well */
	STUCK = INT_MIN + 1,	/* not to be isolated now; worth another attempt */
};

/* What user space asks for, and the answers */
struct move_block {
	const void __user **pages;
	int *nodes;
	int *status;
	unsigned int room;
	unsigned int nr;
};

/* What is queued for one node */
struct move_target {
	int node;
	bool moved;
	struct list_head folios;
};

struct move_call {
	struct mm_struct *mm;
	bool move_all;
	bool stuck;			/* at the address at hand */
	unsigned int attempts;		/* in vain, for that address */
	unsigned int queued_from;	/* of the block: what is before has moved */
	unsigned int nr_targets;
	struct folio *last;		/* queued, for the node of last_target */
	struct move_target *last_target;
	struct lru_quiet quiet;
	struct migrate_sort sort;
	struct move_block block;
	struct move_target targets[MAX_TARGETS];
	struct migrate_claims claims;
};

static struct move_target *target_find(struct move_call *call, int node)
{
	unsigned int i;

	for (i = 0; i < call->nr_targets; i++)
		if (call->targets[i].node == node)
			return &call->targets[i];
	return NULL;
}

/* NULL if there are as many targets as there may be */
static struct move_target *target_get(struct move_call *call, int node)
{
	struct move_target *target = target_find(call, node);

	if (target || call->nr_targets == MAX_TARGETS)
		return target;
	target = &call->targets[call->nr_targets++];
	target->node = node;
	target->moved = false;
	INIT_LIST_HEAD(&target->folios);
	return target;
}

static bool isolate(struct move_call *call, struct folio *folio,
		    struct move_target *target)
{
	if (folio_test_hugetlb(folio))
		return folio_isolate_hugetlb(folio, &target->folios);
	return migrate_claim(&call->claims, folio, &target->folios);
}

/* By us, or isolated by somebody else. No hugetlb page is on an LRU list. */
static bool may_be_queued(struct folio *folio)
{
	return folio_test_hugetlb(folio) ?
	       !folio_test_hugetlb_migratable(folio) : !folio_test_lru(folio);
}

/* A node: the folio is there. QUEUED, STUCK, or an error. */
static int queue_folio(struct move_call *call, struct folio *folio, int node)
{
	struct move_target *target;

	if (is_zero_folio(folio) || is_huge_zero_folio(folio))
		return -EFAULT;
	if (folio_is_zone_device(folio))
		return -ENOENT;
	/*
	 * Still there may mean: queued for another node. Not after the first
	 * attempt, which has moved all that was queued.
	 */
	if (folio_nid(folio) == node)
		return call->nr_targets && !call->attempts &&
		       may_be_queued(folio) ? STUCK : node;
	if (folio_maybe_mapped_shared(folio) && !call->move_all)
		return -EACCES;

	target = call->last_target;
	if (!target || target->node != node)
		target = target_get(call, node);
	if (!target)
		return STUCK;
	/* Another page of the same folio */
	if (folio == call->last && target == call->last_target)
		return QUEUED;
	if (!folio_test_hugetlb(folio) &&
	    lru_quiet_suspects(&call->quiet, folio))
		return STUCK;
	if (!isolate(call, folio, target))
		return call->attempts && call->quiet.disabled ? -EBUSY : STUCK;
	call->last = folio;
	call->last_target = target;
	return QUEUED;
}

static int queue_pte(struct move_call *call, struct vm_area_struct *vma,
		     unsigned long addr, pte_t pte, int node)
{
	struct page *page;

	if (!pte_present(pte))
		return -ENOENT;
	page = vm_normal_page(vma, addr, pte);
	if (!page && is_zero_pfn(pte_pfn(pte)))
		return -EFAULT;
	if (!page)
		return -ENOENT;
	return queue_folio(call, page_folio(page), node);
}

static unsigned long address(struct move_call *call, unsigned int i)
{
	return untagged_addr_remote(call->mm,
				    (unsigned long)call->block.pages[i]);
}

/*
 * Queue the folios of as many addresses as are in the same page table, in
 * whatever order. Returns the address that it stopped at, which may be the
 * first one: then no table is there, or the status is STUCK.
 */
static unsigned int queue_table(struct move_call *call,
				struct vm_area_struct *vma, unsigned int first,
				unsigned int limit)
{
	unsigned long addr = address(call, first);
	unsigned long end = pmd_addr_end(addr, vma->vm_end);
	unsigned long start = max(addr & PMD_MASK, vma->vm_start);
	struct move_block *block = &call->block;
	pmd_t *pmd = mm_find_pmd(call->mm, addr);
	unsigned int i = first;
	spinlock_t *ptl;
	pte_t *table;

	table = pmd ? pte_offset_map_lock(call->mm, pmd, start, &ptl) : NULL;
	if (!table)
		return first;
	do {
		pte_t *pte = table + ((addr - start) >> PAGE_SHIFT);

		block->status[i] = queue_pte(call, vma, addr, ptep_get(pte),
					     block->nodes[i]);
		if (block->status[i] == STUCK)
			break;
		call->attempts = 0;
		if (++i == limit)
			break;
		addr = address(call, i);
	} while (addr >= start && addr < end);
	pte_unmap_unlock(table, ptl);
	return i;
}

/* Whatever maps this address: a huge folio, or nothing */
static void queue_one(struct move_call *call, struct vm_area_struct *vma,
		      unsigned int i)
{
	struct move_block *block = &call->block;
	struct folio_walk fw;
	struct folio *folio;

	folio = folio_walk_start(&fw, vma, address(call, i), FW_ZEROPAGE);
	if (!folio) {
		block->status[i] = -ENOENT;
		return;
	}
	block->status[i] = queue_folio(call, folio, block->nodes[i]);
	folio_walk_end(&fw, vma);
}

/* Queue the folios of one address or more; returns the next, or @i: STUCK. */
static unsigned int queue_run(struct move_call *call, unsigned int i,
			      unsigned int limit)
{
	struct vm_area_struct *vma = vma_lookup(call->mm, address(call, i));
	int *status = &call->block.status[i];
	unsigned int next;

	*status = QUEUED;
	if (!vma || !vma_migratable(vma)) {
		*status = -EFAULT;
	} else {
		/* No other VMA that is migratable has anything above a PMD */
		if (!is_vm_hugetlb_page(vma)) {
			next = queue_table(call, vma, i, limit);
			if (next > i || *status == STUCK)
				return next;
		}
		queue_one(call, vma, i);
		if (*status == STUCK)
			return i;
	}
	call->attempts = 0;
	return i + 1;
}

/* Queue the folios of a bounded number of addresses; returns the next */
static unsigned int queue_some(struct move_call *call, unsigned int i)
{
	unsigned int limit = min(call->block.nr, i + ADDRS_PER_HOLD);
	unsigned int first;

	mmap_read_lock(call->mm);
	do {
		first = i;
		i = queue_run(call, i, limit);
		call->stuck = i == first;
	} while (i < limit && !call->stuck && !need_resched() &&
		 !mmap_lock_is_contended(call->mm));
	mmap_read_unlock(call->mm);
	migrate_isolate_claimed(&call->claims);
	return i;
}

static int target_move(struct move_call *call, struct move_target *target)
{
	int err;

	do {
		err = migrate_to_node_bulk(&target->folios, target->node);
	} while (err > 0 && lru_quiet_insist(&call->quiet));
	if (err)
		putback_movable_pages(&target->folios);
	target->moved = !err;
	return err;
}

/*
 * Move what is queued, up to address @end. As soon as a target's folios cannot
 * all be moved, those of the others are put back; all are if there is an error
 * @err already. Returns 0, an error, or how many were not moved.
 */
static int move_queued(struct move_call *call, unsigned int end, int err)
{
	struct move_block *block = &call->block;
	int tried = call->nr_targets;
	unsigned int i;

	for (i = 0; i < call->nr_targets; i++) {
		struct move_target *target = &call->targets[i];

		if (err) {
			putback_movable_pages(&target->folios);
			continue;
		}
		err = target_move(call, target);
		if (err)
			tried = i + 1;
	}
	for (i = call->queued_from; i < end; i++) {
		struct move_target *target;

		if (block->status[i] != QUEUED)
			continue;
		target = target_find(call, block->nodes[i]);
		if (target->moved)
			block->status[i] = target->node;
		else if (err > 0 && target - call->targets >= tried)
			err++;
	}
	call->nr_targets = 0;
	call->last = NULL;
	call->last_target = NULL;
	call->queued_from = end;
	return err;
}

/* Make another attempt for the address that got stuck worth while */
static int unstick(struct move_call *call, unsigned int i)
{
	int err = 0;

	if (call->attempts++) {
		lru_quiet_insist(&call->quiet);
	} else {
		/* It may be our own: then it will be where it should be */
		err = move_queued(call, i, 0);
		lru_add_drain();
	}
	return err;
}

/*
 * Is it worth while to sort a block, and right? What is named for two nodes in turn
 * goes to one after the other.
 */
static bool block_wants_order(const struct move_block *block)
{
	bool in_order = true;
	unsigned int i;

	if (block->room == BLOCK_SMALL)
		return false;
	for (i = 1; i < block->nr; i++) {
		if (block->nodes[i] != block->nodes[0])
			return false;
		in_order &= block->pages[i] >= block->pages[i - 1];
	}
	return !in_order;
}

/* Look up and move a block. *@reached: where it ended, early if it failed. */
static int move_block(struct move_call *call, unsigned int *reached)
{
	struct move_block *block = &call->block;
	bool sorted = block_wants_order(block) &&
		      migrate_sort(&call->sort, block->pages, block->nr,
				   block->room);
	unsigned int i = 0;
	int err = 0;

	call->queued_from = 0;
	while (i < block->nr && !err) {
		i = queue_some(call, i);
		if (call->stuck)
			err = unstick(call, i);
		cond_resched();
		if (!err && fatal_signal_pending(current))
			err = -EINTR;
	}
	err = move_queued(call, i, err);
	*reached = i;
	for (; i < block->nr; i++)
		block->status[i] = QUEUED;
	if (sorted)
		migrate_unsort(&call->sort, block->status, block->nr);
	return err;
}

static int get_address(const void __user **address,
		       const void __user * __user *pages, unsigned long i)
{
	const compat_uptr_t __user *compat_pages = (const void __user *)pages;
	compat_uptr_t compat;

	if (!in_compat_syscall())
		return get_user(*address, pages + i);
	if (get_user(compat, compat_pages + i))
		return -EFAULT;
	*address = compat_ptr(compat);
	return 0;
}

static int check_node(int node, const nodemask_t *allowed)
{
	if (node < 0 || node >= MAX_NUMNODES || !node_state(node, N_MEMORY))
		return -ENODEV;
	return node_isset(node, *allowed) ? 0 : -EACCES;
}

static bool get_arrays(struct move_block *block, unsigned long first,
		       unsigned int nr, const void __user * __user *pages,
		       const int __user *nodes)
{
	return !in_compat_syscall() &&
	       !copy_from_user(block->pages, pages + first,
			       nr * sizeof(*block->pages)) &&
	       !copy_from_user(block->nodes, nodes + first,
			       nr * sizeof(*block->nodes));
}

/*
 * Read @nr addresses and nodes, or as many as come before one that is wrong:
 * then returns what is wrong with it.
 */
static int block_fetch(struct move_block *block, unsigned long first,
		       unsigned int nr, const void __user * __user *pages,
		       const int __user *nodes, const nodemask_t *allowed)
{
	bool all = get_arrays(block, first, nr, pages, nodes);
	int err = 0;

	for (block->nr = 0; block->nr < nr; block->nr++) {
		unsigned int i = block->nr;

		if (!all && (get_address(&block->pages[i], pages, first + i) ||
			     get_user(block->nodes[i], nodes + first + i)))
			return -EFAULT;
		err = check_node(block->nodes[i], allowed);
		if (err)
			break;
	}
	return err;
}

/* Nothing is stored for what was queued and not moved */
static int block_store(const struct move_block *block, int __user *status,
		       bool all)
{
	unsigned int i, nr = block->nr;

	if (all && copy_to_user(status, block->status, nr * sizeof(*status)))
		return -EFAULT;
	for (i = 0; i < nr && !all; i++)
		if (block->status[i] != QUEUED &&
		    put_user(block->status[i], status + i))
			return -EFAULT;
	return 0;
}

/* Make room for a large block, if one is wanted and there is memory */
static void *block_grow(struct move_block *block, unsigned long nr_pages)
{
	unsigned int nr = min(nr_pages, BLOCK_LARGE);
	void *room;

	if (nr <= block->room)
		return NULL;
	room = kvmalloc_array(nr, sizeof(*block->pages) +
			      sizeof(*block->nodes) + sizeof(*block->status),
			      GFP_KERNEL | __GFP_NOWARN);
	if (!room)
		return NULL;
	block->room = nr;
	block->pages = room;
	block->nodes = (int *)(block->pages + nr);
	block->status = block->nodes + nr;
	return room;
}

/**
 * do_pages_move() - move pages as move_pages(2) asks for
 * @mm: whose pages
 * @task_nodes: the nodes that they may be moved to
 * @nr_pages: the length of the arrays
 * @pages: the addresses
 * @nodes: where each is to be
 * @status: where each is, or why it is not there
 * @flags: of the system call
 *
 * Return: 0, an error, or how many folios and addresses were not moved; nothing
 * is stored in the status of these.
 */
int do_pages_move(struct mm_struct *mm, nodemask_t task_nodes,
		  unsigned long nr_pages, const void __user * __user *pages,
		  const int __user *nodes, int __user *status, int flags)
{
	const void __user *small_pages[BLOCK_SMALL];
	int small_nodes[BLOCK_SMALL], small_status[BLOCK_SMALL];
	struct move_call call = {
		.mm = mm,
		.move_all = flags & MPOL_MF_MOVE_ALL,
		.block.pages = small_pages,
		.block.nodes = small_nodes,
		.block.status = small_status,
		.block.room = BLOCK_SMALL,
	};
	void *room = block_grow(&call.block, nr_pages);
	int err = 0, wrong = 0, fault;
	unsigned long done;
	unsigned int nr;

	lru_quiet_begin(&call.quiet);
	for (done = 0; done < nr_pages && !err && !wrong; done += nr) {
		nr = min(nr_pages - done, call.block.room);
		wrong = block_fetch(&call.block, done, nr, pages, nodes,
				    &task_nodes);
		err = move_block(&call, &nr);
		fault = block_store(&call.block, status + done, !err);
		if (err > 0)
			err += nr_pages - done - nr;
		if (fault && !err)
			err = fault;
	}
	lru_quiet_end(&call.quiet);
	kvfree(call.sort.keys);
	kvfree(room);
	/* A wrong address or node is said first if it is what ended the call */
	return wrong && nr == call.block.nr ? wrong : err;
}
