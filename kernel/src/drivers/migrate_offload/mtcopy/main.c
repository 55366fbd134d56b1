// SPDX-License-Identifier: GPL-2.0-only
/*
 * mtcopy: folios are copied by the task that migrates them and by idle CPUs.
 *
 * submit() puts a folio's copy on a queue, and workers take parts from it: the
 * caller whenever it would wait otherwise (help()), and helpers, which are woken
 * on CPUs that are idle at flush(). Who comes first copies. So
 *
 * - the caller is never idle while there is something to copy;
 * - a helper that has not started is not missed, and nobody waits for it: when
 *   it comes it finds an empty queue and goes to sleep again;
 * - on a busy machine nobody is woken and the caller copies everything, as it
 *   would without mtcopy; flush() says so, and the core unmaps no more than one
 *   chunk at a time;
 * - the caller waits at most for the part that each helper has begun. A helper
 *   is not preempted within a part, and when anything else wants its CPU it
 *   leaves after that part.
 *
 * To wake 15 CPUs in a row would keep the caller from all else for some 8,000
 * instructions, while its folios are unmapped. So flush() leaves the CPUs in the
 * queue and wakes two. Each helper wakes two more before it copies, and the caller
 * one more before each part of its own: soon all are awake, but nobody depends on
 * one that has not started. The CPUs are the task's choice (cpus.c), so they leave
 * the queue with its last copy.
 *
 * A part is copied in one go: the stripe, 128 KiB by default and some ten
 * microseconds, bounds how long a helper can delay a task on its CPU. Of small
 * folios it copies a few in one go. On PREEMPT_RT helpers stay preemptible.
 *
 * Each call of migrate_pages() has a queue of its own, and its task copies from
 * no other. So a task that is throttled, or hardly ever runs, never holds a folio
 * of another's. A helper copies only for the task that has chosen its CPU: others
 * may not run there, or have used up their time. A helper that comes late finds
 * the queue empty, or another task's: therefore queues are never freed.
 * Where helpers may run is told in cpus.c, who pays for them in charge.c.
 */
#include <kunit/static_stub.h>
#include <linux/bitmap.h>
#include <linux/highmem.h>
#include <linux/list.h>
#include <linux/migrate_offload.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/stat.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "cpus.h"

/* Large enough to hide the claim (a lock), small enough for the bound above */
#define MTCOPY_PART_BYTES	SZ_128K
/* Small folios that are claimed together: parts on the worker's stack */
#define MTCOPY_CLAIM_PARTS	16
/* The same by a helper, which is not preempted before all are copied */
#define MTCOPY_HELPER_PARTS	4
#define MTCOPY_NR_QUEUES	64
#define MTCOPY_MAX_THREADS	64
#define MTCOPY_AUTO_THREADS	16
/* So many helpers are woken by flush(), and by each helper that starts */
#define MTCOPY_FANOUT		2

/*
 * The copies of one call, which is @owner's. @parts and @bytes are what no worker
 * has claimed yet, and @cpus, the best last, those that the owner has chosen and
 * nobody has woken yet.
 */
struct mtcopy_queue {
	spinlock_t lock;	/* of all below */
	struct task_struct *owner;	/* compared, never followed; or NULL */
	struct list_head copies;
	unsigned int parts;
	size_t bytes;
	unsigned int nr_cpus;
	int cpus[MTCOPY_MAX_THREADS];
} ____cacheline_aligned_in_smp;

/* A part of a folio that one worker copies */
struct mtcopy_part {
	struct migrate_copy *copy;
	size_t from;
	size_t len;
};

struct mtcopy_helper {
	struct work_struct work;
	struct mtcopy_queue *queue;
	struct task_struct *task;	/* has chosen the CPU; as owner above */
};

static struct mtcopy_queue mtcopy_queues[MTCOPY_NR_QUEUES];
static DECLARE_BITMAP(mtcopy_taken, MTCOPY_NR_QUEUES);	/* have an owner */
static DEFINE_PER_CPU(struct mtcopy_helper, mtcopy_helpers);
static struct workqueue_struct *mtcopy_wq;
/* Helpers that are queued or run */
static atomic_t mtcopy_awake = ATOMIC_INIT(0);

static DEFINE_PER_CPU(u64, mtcopy_caller_bytes);
static DEFINE_PER_CPU(u64, mtcopy_helper_bytes);
static DEFINE_PER_CPU(u64, mtcopy_wakeups);

static unsigned int mtcopy_threads;

static int mtcopy_set_threads(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 0, MTCOPY_MAX_THREADS);
}

static const struct kernel_param_ops mtcopy_threads_ops = {
	.set = mtcopy_set_threads,
	.get = param_get_uint,
};
module_param_cb(threads, &mtcopy_threads_ops, &mtcopy_threads, 0644);
MODULE_PARM_DESC(threads,
		 "CPUs that copy at one time, the caller included: 1 to 64; 0 (default): half of those online, at least 2 and at most 16");

static int mtcopy_set_counter(const char *val, const struct kernel_param *kp)
{
	return -EPERM;
}

static int mtcopy_get_counter(char *buf, const struct kernel_param *kp)
{
	u64 __percpu *counter = (u64 __percpu __force *)kp->arg;
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(counter, cpu));
	return sysfs_emit(buf, "%llu\n", sum);
}

static const struct kernel_param_ops mtcopy_counter_ops = {
	.set = mtcopy_set_counter,
	.get = mtcopy_get_counter,
};
module_param_cb(caller_bytes, &mtcopy_counter_ops,
		(void __force *)&mtcopy_caller_bytes, 0444);
MODULE_PARM_DESC(caller_bytes, "bytes copied by tasks that migrate (read only)");
module_param_cb(helper_bytes, &mtcopy_counter_ops,
		(void __force *)&mtcopy_helper_bytes, 0444);
MODULE_PARM_DESC(helper_bytes, "bytes copied by helpers (read only)");
module_param_cb(wakeups, &mtcopy_counter_ops,
		(void __force *)&mtcopy_wakeups, 0444);
MODULE_PARM_DESC(wakeups, "how often a helper was woken (read only)");

/* How many CPUs may help at one time */
static unsigned int mtcopy_max_helpers(void)
{
	unsigned int threads = READ_ONCE(mtcopy_threads);

	if (!threads)
		threads = clamp(num_online_cpus() / 2, 2U, MTCOPY_AUTO_THREADS);
	return threads - 1;
}

/*
 * The length of the part that starts at @from: a stripe, or all that is left
 * if that would leave less than a stripe for the next.
 */
static size_t mtcopy_part_len(size_t size, size_t from, size_t stripe)
{
	size_t left = size - from;

	return left / 2 < stripe ? left : stripe;
}

/* How many parts mtcopy_part_len() makes of a folio */
static unsigned int mtcopy_nr_parts(size_t size, size_t stripe)
{
	return max_t(size_t, size / stripe, 1);
}

static void mtcopy_enqueue(struct mtcopy_queue *q, struct migrate_copy *copy)
{
	size_t size = folio_size(copy->src);
	unsigned int nr_parts = mtcopy_nr_parts(size, copy->stripe_bytes);

	migrate_copy_split(copy, nr_parts);
	spin_lock(&q->lock);
	list_add_tail(&copy->node, &q->copies);
	q->parts += nr_parts;
	q->bytes += size;
	spin_unlock(&q->lock);
}

/*
 * Take a stripe of a large folio, or up to @max small folios whole. Who copies
 * many small folios would otherwise spend its time on the lock.
 *
 * Return: the number of parts that now belong to the caller; 0: @task has none
 * in this queue.
 */
static unsigned int mtcopy_claim(struct mtcopy_queue *q,
				 const struct task_struct *task,
				 struct mtcopy_part part[], unsigned int max)
{
	struct migrate_copy *copy;
	unsigned int n = 0;
	size_t bytes = 0;

	/* May miss a copy that is added just now: its owner comes for it */
	if (list_empty(&q->copies))
		return 0;

	spin_lock(&q->lock);
	while (q->owner == task && n < max && bytes < MTCOPY_PART_BYTES) {
		size_t size, len;

		copy = list_first_entry_or_null(&q->copies, struct migrate_copy,
						node);
		if (!copy)
			break;
		size = folio_size(copy->src);
		len = mtcopy_part_len(size, copy->cursor, copy->stripe_bytes);
		if (n && len < size)
			break;
		part[n++] = (struct mtcopy_part) { copy, copy->cursor, len };
		bytes += len;
		copy->cursor += len;
		if (copy->cursor == size)
			list_del(&copy->node);
		if (len < size)
			break;
	}
	q->parts -= n;
	q->bytes -= bytes;
	/* What the owner has chosen is not for the next one */
	if (list_empty(&q->copies))
		q->nr_cpus = 0;
	spin_unlock(&q->lock);
	return n;
}

/* As folio_mc_copy(), but only a part of the folio */
static int mtcopy_copy_part(const struct mtcopy_part *part)
{
	struct folio *dst = part->copy->dst, *src = part->copy->src;
	size_t end = (part->from + part->len) >> PAGE_SHIFT;
	size_t i;

	KUNIT_STATIC_STUB_REDIRECT(mtcopy_copy_part, part);
	for (i = part->from >> PAGE_SHIFT; i < end; i++)
		if (copy_mc_highpage(folio_page(dst, i), folio_page(src, i)))
			return -EHWPOISON;
	return 0;
}

static void mtcopy_report(struct migrate_copy *copy, int error)
{
	KUNIT_STATIC_STUB_REDIRECT(mtcopy_report, copy, error);
	migrate_copy_done(copy, error);
}

/* Return: how many bytes they were */
static size_t mtcopy_copy_parts(const struct mtcopy_part part[], unsigned int n)
{
	size_t bytes = 0;
	unsigned int i;

	for (i = 0; i < n; i++) {
		int error = mtcopy_copy_part(&part[i]);

		bytes += part[i].len;
		/* part[i].copy may be gone after this */
		mtcopy_report(part[i].copy, error);
	}
	return bytes;
}

/* Return: false if there is nothing left in the calling task's queue */
static bool mtcopy_work(struct mtcopy_queue *q)
{
	struct mtcopy_part part[MTCOPY_CLAIM_PARTS];
	unsigned int n = mtcopy_claim(q, current, part, MTCOPY_CLAIM_PARTS);

	this_cpu_add(mtcopy_caller_bytes, mtcopy_copy_parts(part, n));
	return n;
}

static bool __mtcopy_helper_work(struct mtcopy_queue *q,
				 const struct task_struct *task)
{
	struct mtcopy_part part[MTCOPY_HELPER_PARTS];
	unsigned int n = mtcopy_claim(q, task, part, MTCOPY_HELPER_PARTS);
	struct cgroup *group;
	u64 start;

	if (!n)
		return false;
	group = mtcopy_group_get(part[0].copy->src);
	start = local_clock();
	this_cpu_add(mtcopy_helper_bytes, mtcopy_copy_parts(part, n));
	mtcopy_charge(group, local_clock() - start);
	return true;
}

/*
 * What a helper has claimed is waited for: see the top of the file. Return: false
 * if there is nothing of @task's.
 */
static bool mtcopy_helper_work(struct mtcopy_queue *q,
			       const struct task_struct *task)
{
	bool worked;

	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_disable();
	worked = __mtcopy_helper_work(q, task);
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_enable();
	return worked;
}

/* Return: false if enough helpers are awake. */
static bool mtcopy_wake(int cpu, struct mtcopy_queue *q,
			struct task_struct *task, unsigned int max)
{
	struct mtcopy_helper *helper = per_cpu_ptr(&mtcopy_helpers, cpu);

	KUNIT_STATIC_STUB_REDIRECT(mtcopy_wake, cpu, q, task, max);
	if (atomic_inc_return(&mtcopy_awake) > max) {
		atomic_dec(&mtcopy_awake);
		return false;
	}
	/* If another task wakes it, too, it works for one of the two, or none */
	WRITE_ONCE(helper->queue, q);
	WRITE_ONCE(helper->task, task);
	/* If @cpu goes offline just now the work runs elsewhere: no harm */
	if (queue_work_on(cpu, mtcopy_wq, &helper->work))
		this_cpu_inc(mtcopy_wakeups);
	else
		atomic_dec(&mtcopy_awake);
	return true;
}

/* For how many workers there is something in @q. Call with its lock. */
static size_t mtcopy_shares(const struct mtcopy_queue *q)
{
	return min(q->parts, q->bytes / MTCOPY_PART_BYTES);
}

/* Return: the best CPU that is left; -1 if none is, or none is needed */
static int mtcopy_take_cpu(struct mtcopy_queue *q,
			   const struct task_struct *task)
{
	int cpu = -1;

	spin_lock(&q->lock);
	/* One share is for who asks */
	if (q->owner == task && q->nr_cpus && mtcopy_shares(q) > 1)
		cpu = q->cpus[--q->nr_cpus];
	spin_unlock(&q->lock);
	return cpu;
}

/* For who is about to copy from @q: so nobody has to wake all the others */
static void mtcopy_wake_some(struct mtcopy_queue *q, struct task_struct *task,
			     unsigned int nr)
{
	unsigned int max = mtcopy_max_helpers();
	int cpu;

	while (nr-- && atomic_read(&mtcopy_awake) < max) {
		cpu = mtcopy_take_cpu(q, task);
		if (cpu < 0 || !mtcopy_wake(cpu, q, task, max))
			break;
	}
}

static void mtcopy_helper_fn(struct work_struct *work)
{
	struct mtcopy_helper *helper = container_of(work, struct mtcopy_helper,
						    work);
	struct mtcopy_queue *q = READ_ONCE(helper->queue);
	struct task_struct *task = READ_ONCE(helper->task);

	mtcopy_wake_some(q, task, MTCOPY_FANOUT);
	/* Away as soon as another task wants the CPU */
	while (single_task_running() && mtcopy_helper_work(q, task))
		cond_resched();
	atomic_dec(&mtcopy_awake);
}

/* How many helpers are worth waking for @q, and where its folios are */
static unsigned int mtcopy_wanted(struct mtcopy_queue *q, int *dst_nid,
				  int *src_nid)
{
	struct migrate_copy *copy;
	size_t shares = 0;

	spin_lock(&q->lock);
	copy = list_first_entry_or_null(&q->copies, struct migrate_copy, node);
	if (copy) {
		*dst_nid = folio_nid(copy->dst);
		*src_nid = folio_nid(copy->src);
		shares = mtcopy_shares(q);
	}
	spin_unlock(&q->lock);

	/* One share is the caller's */
	return shares ? shares - 1 : 0;
}

static void mtcopy_limits(struct migrator *m, struct migrate_offload_limits *l)
{
	size_t busy = (mtcopy_max_helpers() + 1) * MTCOPY_PART_BYTES;

	/* One huge folio is copied while another is unmapped or remapped */
	l->inflight_bytes = max_t(size_t, 2 * busy, SZ_4M);
	/* Less is copied before a helper is awake */
	l->min_bytes = SZ_1M;
	l->stripe_bytes = MTCOPY_PART_BYTES;
}

/* Return: NULL if so many tasks migrate that no CPU can be idle */
static void *mtcopy_begin_call(struct migrator *m)
{
	struct mtcopy_queue *q;
	unsigned int i;

	do {
		i = find_first_zero_bit(mtcopy_taken, MTCOPY_NR_QUEUES);
		if (i == MTCOPY_NR_QUEUES)
			return NULL;
	} while (test_and_set_bit_lock(i, mtcopy_taken));
	q = &mtcopy_queues[i];
	spin_lock(&q->lock);
	q->owner = current;
	spin_unlock(&q->lock);
	return q;
}

static void mtcopy_end_call(struct migrator *m, void *call)
{
	struct mtcopy_queue *q = call;

	spin_lock(&q->lock);
	WARN_ON_ONCE(!list_empty(&q->copies));
	q->owner = NULL;
	spin_unlock(&q->lock);
	clear_bit_unlock(q - mtcopy_queues, mtcopy_taken);
}

static int mtcopy_submit(struct migrator *m, struct migrate_copy *copy)
{
	mtcopy_enqueue(copy->call, copy);
	return 0;
}

/* Leave in @q which CPUs may help; the calling task alone knows where */
static void mtcopy_choose_helpers(struct mtcopy_queue *q)
{
	unsigned int max = mtcopy_max_helpers();
	unsigned int awake = atomic_read(&mtcopy_awake);
	int cpus[MTCOPY_MAX_THREADS];
	unsigned int i, n;
	int dst_nid, src_nid;

	if (awake >= max)
		return;
	n = min(max - awake, mtcopy_wanted(q, &dst_nid, &src_nid));
	if (!n)
		return;
	n = mtcopy_choose_cpus(cpus, n, dst_nid, src_nid);
	spin_lock(&q->lock);
	/* Helpers that were awake may have emptied it meanwhile */
	if (!list_empty(&q->copies)) {
		q->nr_cpus = n;
		for (i = 0; i < n; i++)
			q->cpus[i] = cpus[n - 1 - i];
	}
	spin_unlock(&q->lock);
}

static bool mtcopy_flush(struct migrator *m, void *call)
{
	mtcopy_choose_helpers(call);
	mtcopy_wake_some(call, current, MTCOPY_FANOUT);
	return atomic_read(&mtcopy_awake);
}

static bool mtcopy_help(struct migrator *m, void *call)
{
	bool worked;

	mtcopy_wake_some(call, current, 1);
	worked = mtcopy_work(call);
	cond_resched();
	return worked;
}

static struct migrator mtcopy = {
	.name = "mtcopy",
	.owner = THIS_MODULE,
	.copies_by_cpu = true,
	.limits = mtcopy_limits,
	.begin_call = mtcopy_begin_call,
	.end_call = mtcopy_end_call,
	.submit = mtcopy_submit,
	.flush = mtcopy_flush,
	.help = mtcopy_help,
};

static void mtcopy_init_queue(struct mtcopy_queue *q)
{
	spin_lock_init(&q->lock);
	INIT_LIST_HEAD(&q->copies);
}

static int __init mtcopy_init(void)
{
	int cpu, i, error;

	for (i = 0; i < MTCOPY_NR_QUEUES; i++)
		mtcopy_init_queue(&mtcopy_queues[i]);
	for_each_possible_cpu(cpu)
		INIT_WORK(&per_cpu(mtcopy_helpers, cpu).work, mtcopy_helper_fn);

	/* Not MEM_RECLAIM: no progress depends on a helper that has not begun */
	mtcopy_wq = alloc_workqueue("mtcopy", WQ_CPU_INTENSIVE | WQ_PERCPU, 0);
	if (!mtcopy_wq)
		return -ENOMEM;
	error = mtcopy_cpus_init();
	if (error)
		goto destroy_wq;
	error = migrate_offload_register(&mtcopy);
	if (error)
		goto exit_cpus;
	return 0;

exit_cpus:
	mtcopy_cpus_exit();
destroy_wq:
	destroy_workqueue(mtcopy_wq);
	return error;
}
module_init(mtcopy_init);

static void __exit mtcopy_exit(void)
{
	/* Nothing is in flight after this, but a helper may not have returned */
	migrate_offload_unregister(&mtcopy);
	destroy_workqueue(mtcopy_wq);
	mtcopy_cpus_exit();
}
module_exit(mtcopy_exit);

MODULE_DESCRIPTION("Idle CPUs as a copy engine for page migration");
MODULE_LICENSE("GPL");

#ifdef CONFIG_MIGRATE_OFFLOAD_MTCOPY_KUNIT_TEST
#include "main_test.c"
#endif
