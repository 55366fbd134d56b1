// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies of an engine that has ended nothing for so long that it is stuck.
 *
 * The task that waited for them is gone: it has put the sources back and retired
 * the window that the copies are described in. What the engine may still write
 * to or read is kept here: the window, and a reference to each folio. So a
 * source cannot be moved or unplugged meanwhile. Once a second it is seen what
 * has ended. While something of an engine is overdue it is out of service; then
 * it is given another chance.
 */
#define pr_fmt(fmt) "migrate_offload: " fmt

#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include "internal.h"

static DEFINE_SPINLOCK(retired_lock);
static LIST_HEAD(retired_windows);

static void reap_work_fn(struct work_struct *work);
static DECLARE_DELAYED_WORK(reap_work, reap_work_fn);

/**
 * migrate_offload_retire_window() - keep what an engine did not end in time
 * @state: the activation that the window was taken from
 * @window: not to be used by the caller any more
 * @first: number of the oldest chunk that was in flight
 * @end: number of the chunk after the youngest
 * @nr_overdue: slots that are overdue, whose folios have a reference more
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
	window->nr_overdue = nr_overdue;
	kobject_get(&window->stats->kobj);
	if (nr_overdue && atomic_long_add_return(nr_overdue,
						 &window->stats->overdue) ==
			  nr_overdue)
		pr_warn("%s is out of service: %u copies not done after %u ms\n",
			state->m->name, nr_overdue,
			jiffies_to_msecs(state->deadline));
	WRITE_ONCE(state->lost_window, true);

	spin_lock(&retired_lock);
	list_add(&window->node, &retired_windows);
	spin_unlock(&retired_lock);
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
		folio_put(slot->copy.src);
		folio_put(slot->copy.dst);
	}
}

static void window_reap(struct migrate_window *window)
{
	unsigned int nr;

	for (nr = window->first; nr != window->end; nr++)
		chunk_put_folios(&window->chunks[nr % window->nr_chunks]);
	if (window->nr_overdue &&
	    !atomic_long_sub_return(window->nr_overdue, &window->stats->overdue))
		pr_info("%s is in service again\n",
			kobject_name(&window->stats->kobj));
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

	spin_lock(&retired_lock);
	list_for_each_entry_safe(window, next, &retired_windows, node)
		if (window_ended(window))
			list_move(&window->node, &ended);
	left = !list_empty(&retired_windows);
	spin_unlock(&retired_lock);

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
