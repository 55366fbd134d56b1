// SPDX-License-Identifier: GPL-2.0-only
/*
 * my_migrator: a template of a copy engine for page migration.
 *
 * It is complete, and it copies: its engine is one kernel thread, which takes
 * folios from a queue as hardware would from its ring. To make a driver of it,
 * replace what "engine" is written above; all else is what any migrator has to
 * do. include/linux/migrate_offload.h says what each callback may and must do,
 * Documentation/mm/migrate_offload.rst why.
 *
 * Of Ferry it needs what is exported to modules: migrate_offload_register(),
 * migrate_offload_unregister() and migrate_copy_done(); with several channels
 * also migrate_copy_split().
 */
#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/migrate_offload.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

/* Slots of the ring. There is no memory to be had in my_submit(). */
#define MY_DEPTH	256
/* So many errors in a row, and it is the engine that is broken */
#define MY_MAX_ERRORS	8

static unsigned int fail_every;
module_param(fail_every, uint, 0644);
MODULE_PARM_DESC(fail_every,
		 "Fail one copy in so many, to see what becomes of it (default 0: none)");

/*
 * An interrupt that completes copies would have to be kept out as well, with
 * spin_lock_irqsave(). Here all is process context.
 */
static DEFINE_SPINLOCK(my_lock);
static LIST_HEAD(my_ring);
static unsigned int my_ring_used;

static atomic_t my_errors = ATOMIC_INIT(0);	/* in a row */
static struct workqueue_struct *my_wq;

/* --- the engine --- */

static struct migrate_copy *my_next(void)
{
	struct migrate_copy *copy;

	spin_lock(&my_lock);
	copy = list_first_entry_or_null(&my_ring, struct migrate_copy, node);
	if (copy) {
		list_del(&copy->node);
		my_ring_used--;
	}
	spin_unlock(&my_lock);
	return copy;
}

/*
 * The engine: hardware would be given dma_map_page() of both folios, of the
 * device that does it, and be asked afterwards whether this copy has gone well.
 * That others have, or that an interrupt came, is no answer.
 *
 * Return: 0, -EHWPOISON if the source is poisoned, or -EIO.
 */
static int my_copy(struct folio *dst, struct folio *src)
{
	static unsigned int nr;		/* only the one thread comes here */
	unsigned int every = READ_ONCE(fail_every);

	if (every && ++nr % every == 0)
		return -EIO;
	return folio_mc_copy(dst, src);
}

/* The engine: what hardware's interrupt would do */
static void my_work_fn(struct work_struct *work)
{
	struct migrate_copy *copy;

	while ((copy = my_next())) {
		int error = my_copy(copy->dst, copy->src);

		/* A poisoned source is not the engine's fault */
		if (error && error != -EHWPOISON)
			atomic_inc(&my_errors);
		else
			atomic_set(&my_errors, 0);
		/*
		 * One call for each part, and this has one; @copy is not ours
		 * after it. After -EIO the CPU copies the folio, so that must
		 * not be said while the engine may still write: say nothing
		 * then, until it cannot. Nobody waits for longer than
		 * deadline_ms, and nothing more comes meanwhile.
		 */
		migrate_copy_done(copy, error);
		cond_resched();
	}
}

static DECLARE_WORK(my_work, my_work_fn);

/* --- the migrator --- */

/* It was chosen: take channels, wake the device. An error is the user's answer. */
static int my_start(struct migrator *m)
{
	atomic_set(&my_errors, 0);
	return 0;
}

/* Another was chosen. Give back, but do not wait for what is stuck. */
static void my_stop(struct migrator *m)
{
}

static void my_limits(struct migrator *m, struct migrate_offload_limits *l)
{
	/* In flight, to be busy: one huge folio, while others are remapped */
	l->inflight_bytes = SZ_4M;
	/* A call with less is over before the thread has woken */
	l->min_bytes = SZ_1M;
	/* One channel: a folio is not worth cutting. See migrate_copy_split() */
	l->stripe_bytes = SZ_2M;
}

/*
 * Pages are inaccessible now: nothing here may wait, nor allocate memory that
 * has to be reclaimed. A full ring is no mishap, the CPU copies that folio.
 */
static int my_submit(struct migrator *m, struct migrate_copy *copy)
{
	int error = 0;

	spin_lock(&my_lock);
	if (my_ring_used == MY_DEPTH) {
		error = -EBUSY;
	} else {
		list_add_tail(&copy->node, &my_ring);
		my_ring_used++;
	}
	spin_unlock(&my_lock);
	return error;
}

/* The engine: ring the doorbell */
static bool my_flush(struct migrator *m, void *call)
{
	queue_work(my_wq, &my_work);
	/* The task may do other things meanwhile */
	return true;
}

/* While it says no, Linux migrates as if there were no migrator */
static bool my_in_service(struct migrator *m)
{
	return atomic_read(&my_errors) < MY_MAX_ERRORS;
}

static struct migrator my_migrator = {
	.name = "my_migrator",
	.owner = THIS_MODULE,
	/*
	 * True of CPUs only, which survive a poisoned source and know memory
	 * tags. With it the core does not compare the engine with the CPU.
	 */
	.copies_by_cpu = true,
	.start = my_start,
	.stop = my_stop,
	.limits = my_limits,
	.submit = my_submit,
	.flush = my_flush,
	.in_service = my_in_service,
};

static int __init my_init(void)
{
	int error;

	/*
	 * WQ_MEM_RECLAIM: memory may be reclaimed by migrating it, and then
	 * this must not wait for memory.
	 */
	my_wq = alloc_workqueue("my_migrator", WQ_UNBOUND | WQ_MEM_RECLAIM, 1);
	if (!my_wq)
		return -ENOMEM;
	error = migrate_offload_register(&my_migrator);
	if (error)
		destroy_workqueue(my_wq);
	return error;
}
module_init(my_init);

static void __exit my_exit(void)
{
	/* Nothing is submitted any more after this */
	migrate_offload_unregister(&my_migrator);
	/* What was overdue has to end first: it is waited for here */
	destroy_workqueue(my_wq);
}
module_exit(my_exit);

MODULE_DESCRIPTION("Template of a copy engine for page migration");
MODULE_LICENSE("GPL");
