// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit test of a tick that another CPU makes for a task. Included by promote.c.
 *
 * Linux makes such ticks only for CPUs of nohz_full, by a worker.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/sched/task.h>

static int wait_with_mm(void *mm)
{
	kthread_use_mm(mm);
	set_current_state(TASK_INTERRUPTIBLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_INTERRUPTIBLE);
	}
	__set_current_state(TASK_RUNNING);
	kthread_unuse_mm(mm);
	return 0;
}

static void remote_tick_is_of_the_task_that_runs(struct kunit *test)
{
	struct callback_head *own = READ_ONCE(current->task_works);
	struct migrate_promotions *p;
	struct task_struct *task;
	unsigned int ms;

	/* The test has an mm from here on */
	KUNIT_ASSERT_NE(test, 0, kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ,
					       MAP_PRIVATE | MAP_ANONYMOUS, 0));
	/* It belongs to the task, which frees it */
	p = kzalloc(struct_size(p, notes, 1), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p);
	init_task_work(&p->work, promote_work);
	p->work.next = &p->work;
	p->nr = 1;
	task = kthread_run(wait_with_mm, current->mm, "kunit_ticked");
	if (IS_ERR(task)) {
		kfree(p);
		KUNIT_FAIL_AND_ABORT(test, "no thread");
	}
	get_task_struct(task);
	for (ms = 0; !READ_ONCE(task->mm) && ms < 1000; ms++)
		usleep_range(1000, 2000);
	task->promotions = p;
	__migrate_promote_due(task);
	KUNIT_EXPECT_PTR_EQ(test, READ_ONCE(current->task_works), own);
	KUNIT_EXPECT_PTR_EQ(test, READ_ONCE(task->task_works), &p->work);
	/* Once it is queued, it is not again */
	__migrate_promote_due(task);
	KUNIT_EXPECT_NULL(test, p->work.next);
	task_work_cancel(current, &p->work);
	task_work_cancel(task, &p->work);
	kthread_stop(task);
	put_task_struct(task);
}

static struct kunit_case promote_cases[] = {
	KUNIT_CASE(remote_tick_is_of_the_task_that_runs),
	{ }
};

static struct kunit_suite promote_suite = {
	.name = "migrate_promote",
	.test_cases = promote_cases,
};

kunit_test_suite(promote_suite);
