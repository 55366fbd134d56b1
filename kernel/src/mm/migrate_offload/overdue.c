// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies of an engine that has ended nothing for so long that it is stuck.
 *
 * The task that waited for them is gone: it has put the sources back and retired
 * the window that the copies are described in. What the engine may still write
 * to or read is kept here: the window, and a reference to each folio. So a
 * source cannot be moved or unplugged meanwhile. Once a second it is seen what
 * has ended. While something of an engine is overdue it is out of service; then
 * it is given another chance. A migrator with several channels disowns the copies of
 * the one that is stuck: they are kept like the others, but the rest of the engine
 * serves on.
 */
#define pr_fmt(fmt) "migrate_offload: " fmt

#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include "internal.h"

/* Of the list, and of a slot's overdue and disowned */
static DEFINE_SPINLOCK(retired_lock);
static LIST_HEAD(retired_windows);

static void reap_work_fn(struct work_struct *work);
static DECLARE_DELAYED_WORK(reap_work, reap_work_fn);

/* One copy less is waited for until the engine serves */
static void count_less(struct migrator_stats *stats)
{
	if (atomic_long_dec_and_test(&stats->overdue))
		pr_info("%s is in service again\n", kobject_name(&stats->kobj));
}

/**
 * migrate_offload_keep() - leave a folio's copy to the engine, which did not end it
 * @slot: the folio, which is unmapped or protected
 *
 * Its window must be retired afterwards.
 */
void migrate_offload_keep(struct migrate_slot *slot)
{
	folio_get(slot->copy.src);
	folio_get(slot->copy.dst);
	spin_lock_irq(&retired_lock);
	slot->overdue = true;
	if (!slot->disowned)
		atomic_long_inc(&slot->copy.chunk->stats->overdue);
	spin_unlock_irq(&retired_lock);
}

/**
 * migrate_copy_disown() - say that a copy will not end soon, if ever
 * @copy: a copy that submit() has taken, of which a part has not ended
 *
 * For a migrator that can do without what is stuck, such as one of its channels: the
 * copy is overdue from now on, and does not keep the migrator out of service. Both
 * folios are kept until it ends, and the migrator still owes migrate_copy_done() for
 * each part.
 *
 * Context: any, but no part may end meanwhile that makes @copy invalid.
 */
void migrate_copy_disown(struct migrate_copy *copy)
{
	struct migrate_slot *slot = container_of(copy, struct migrate_slot, copy);
	unsigned long flags;

	spin_lock_irqsave(&retired_lock, flags);
	if (slot->overdue && !slot->disowned)
		count_less(copy->chunk->stats);
	slot->disowned = true;
	WRITE_ONCE(copy->chunk->disowned, true);
	spin_unlock_irqrestore(&retired_lock, flags);
}
EXPORT_SYMBOL_GPL(migrate_copy_disown);

/**
 * migrate_offload_retire_window() - keep what an engine did not end in time
 * @state: the activation that the window was taken from
 * @window: not to be used by the caller any more
 * @first: number of the oldest chunk that was in flight
 * @end: number of the chunk after the youngest
 * @nr_overdue: how many slots migrate_offload_keep() was called for
 */
void migrate_offload_retire_window(struct migrate_offload_state *state,
				   struct migrate_window *window,
				   unsigned int first, unsigned int end,
				   unsigned int nr_overdue)
{
	window->stats = state->m->stats;
	/* What the engine has left to say is said by code of the migrator */
	window->owner = state->m->owner;
	__module_get(window->owner);
	window->first = first;
	window->end = end;
	kobject_get(&window->stats->kobj);
	/* Not if others have said so, or if the migrator can do without the channel */
	if (nr_overdue && atomic_long_read(&window->stats->overdue) == nr_overdue)
		pr_warn("%s is out of service: %u copies not done after %u ms\n",
			state->m->name, nr_overdue,
			jiffies_to_msecs(state->deadline));
	WRITE_ONCE(state->lost_window, true);

	spin_lock_irq(&retired_lock);
	list_add(&window->node, &retired_windows);
	spin_unlock_irq(&retired_lock);
	queue_delayed_work(system_dfl_wq, &reap_work, HZ);
}

/* complete() is the last that an engine does to a chunk */
static bool window_ended(struct migrate_window *window)
{
	unsigned int nr;

	for (nr = window->first; nr != window->end; nr++)
		if (!completion_done(&window->chunks[nr % window->nr_chunks].done))
			return false;
	return true;
}

static void chunk_put_folios(struct migrate_chunk *chunk)
{
	struct migrate_slot *slot, *end = chunk->slots + chunk->nr_folios;

	for (slot = chunk->slots; slot < end; slot++) {
		if (!slot->overdue)
			continue;
		if (!slot->disowned)
			count_less(chunk->stats);
		folio_put(slot->copy.src);
		folio_put(slot->copy.dst);
	}
}

static void window_reap(struct migrate_window *window)
{
	unsigned int nr;

	for (nr = window->first; nr != window->end; nr++)
		chunk_put_folios(&window->chunks[nr % window->nr_chunks]);
	kobject_put(&window->stats->kobj);
	module_put(window->owner);
	migrate_window_free(window);
}

/* Give back what engines have let go of. Return: false if nothing is left. */
static bool reap_windows(void)
{
	struct migrate_window *window, *next;
	LIST_HEAD(ended);
	bool left;

	spin_lock_irq(&retired_lock);
	list_for_each_entry_safe(window, next, &retired_windows, node)
		if (window_ended(window))
			list_move(&window->node, &ended);
	left = !list_empty(&retired_windows);
	spin_unlock_irq(&retired_lock);

	list_for_each_entry_safe(window, next, &ended, node)
		window_reap(window);
	return left;
}

static void reap_work_fn(struct work_struct *work)
{
	bool left = reap_windows();

	if (!migrate_offload_replace_windows() || left)
		queue_delayed_work(system_dfl_wq, &reap_work, HZ);
}

#ifdef CONFIG_MIGRATE_OFFLOAD_KUNIT_TEST
/* What would be seen within a second is seen now */
void migrate_offload_reap(void)
{
	mod_delayed_work(system_dfl_wq, &reap_work, 0);
	flush_delayed_work(&reap_work);
}
#endif
