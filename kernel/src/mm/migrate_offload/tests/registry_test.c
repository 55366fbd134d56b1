// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of settings, of engines that come and go, and of who waits for that.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/migrate.h>
#include <linux/suspend.h>
#include <linux/workqueue.h>

#include "../hooks.h"
#include "../internal.h"
#include "kunit_engine.h"

static void small_call_takes_linux_path(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_NONE);
	s.min_bytes = (NR_FOLIOS + 1) * PAGE_SIZE;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
}

static void masked_reason_takes_linux_path(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_NONE);
	s.reasons &= ~BIT(MR_SYSCALL);
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
}

/* Who sleeps until the engine has copied keeps one */
static void each_cpu_has_two_windows(struct kunit *test)
{
	migrate_kunit_prepare(test, FAULT_NONE);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&state_of_now()->free),
			2 * num_online_cpus());
}

static void engine_works_from_its_choice_to_the_next(struct kunit *test)
{
	struct engine *e = &((struct fixture *)test->priv)->engine;

	KUNIT_EXPECT_EQ(test, e->nr_started, 0);
	migrate_kunit_prepare(test, FAULT_SLOW);
	KUNIT_EXPECT_EQ(test, e->nr_started, 1);
	/* Another setting is not another engine */
	KUNIT_EXPECT_EQ(test, set(stripe_bytes, 2 * PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, migrate_offload_activate(ENGINE_NAME), 0);
	KUNIT_EXPECT_EQ(test, e->nr_started, 1);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, migrate_offload_activate("cpu"), 0);
	KUNIT_EXPECT_EQ(test, e->nr_started, 0);
}

static void engine_that_cannot_start_changes_nothing(struct kunit *test)
{
	struct engine *e = &((struct fixture *)test->priv)->engine;

	e->start_error = -ENODEV;
	KUNIT_EXPECT_EQ(test, migrate_offload_activate(ENGINE_NAME), -ENODEV);
	KUNIT_EXPECT_FALSE(test, static_key_enabled(&migrate_offload_key));
	e->start_error = 0;
	KUNIT_EXPECT_EQ(test, migrate_offload_activate(ENGINE_NAME), 0);
	KUNIT_EXPECT_EQ(test, e->nr_started, 1);
}

static void no_active_migrator_costs_one_branch(struct kunit *test)
{
	struct fixture *fx = test->priv;

	KUNIT_EXPECT_FALSE(test, static_key_enabled(&migrate_offload_key));
	migrate_kunit_prepare(test, FAULT_NONE);
	KUNIT_EXPECT_TRUE(test, static_key_enabled(&migrate_offload_key));
	KUNIT_ASSERT_EQ(test, 0, migrate_offload_activate("none"));
	KUNIT_EXPECT_FALSE(test, static_key_enabled(&migrate_offload_key));
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
}

static unsigned long nr_timed(void)
{
	unsigned long n = 0;
	unsigned int i;

	for (i = 0; i < MIGRATE_OFFLOAD_NR_BUCKETS; i++)
		n += migrate_offload_time_bucket(i);
	return n;
}

static void histogram_counts_only_when_enabled(struct kunit *test)
{
	unsigned long before = nr_timed();

	migrate_kunit_prepare(test, FAULT_NONE);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, nr_timed(), before);
}

static void histogram_counts_each_folio(struct kunit *test)
{
	unsigned long before = nr_timed();

	migrate_kunit_prepare(test, FAULT_NONE);
	static_branch_enable(&migrate_offload_time_key);
	migrate_kunit_expect_all_moved(test);
	static_branch_disable(&migrate_offload_time_key);
	KUNIT_EXPECT_EQ(test, nr_timed() - before, NR_FOLIOS);
}

struct job {
	struct work_struct work;
	struct completion done;
	const char *name;
	char *page;
};

static void choose_work(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, work);

	migrate_offload_activate(job->name);
	complete(&job->done);
}

static void look_work(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, work);

	migrate_offload_show_active(job->page);
	migrate_offload_show_available(job->page);
	migrate_offload_show_in_service(job->page);
	migrate_offload_get(0);
	complete(&job->done);
}

static void start_job(struct job *job, work_func_t fn)
{
	init_completion(&job->done);
	INIT_WORK_ONSTACK(&job->work, fn);
	queue_work(system_dfl_wq, &job->work);
}

/* A call waits for memory; somebody who chooses another migrator for the call */
static void nobody_waits_long_for_a_call_without_memory(struct kunit *test)
{
	struct job choose = { .name = "cpu" }, look = {};
	struct migrate_offload_state *before;
	struct fixture *fx = test->priv;
	struct task_struct *task;

	look.page = (char *)__get_free_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, look.page);
	migrate_kunit_prepare(test, FAULT_NONE);
	before = state_of_now();
	fx->memory_blocks = true;
	task = migrate_kunit_in_thread(test);
	wait_for_completion(&fx->blocked);
	start_job(&choose, choose_work);
	while (state_of_now() == before)
		msleep(20);
	/* Who only looks waits for neither */
	start_job(&look, look_work);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&look.done, 2 * HZ));
	/* It does not go on to look for memory for the next folio */
	KUNIT_EXPECT_FALSE(test, completion_done(&choose.done));
	complete(&fx->unblock);
	KUNIT_EXPECT_TRUE(test,
			  wait_for_completion_timeout(&choose.done, 2 * HZ));
	complete_all(&fx->unblock);
	KUNIT_EXPECT_TRUE(test, migrate_kunit_ended_in_time(fx, task));
	flush_work(&look.work);
	flush_work(&choose.work);
	destroy_work_on_stack(&look.work);
	destroy_work_on_stack(&choose.work);
	free_page((unsigned long)look.page);
}

static void unregister_waits_for_what_is_in_flight(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct task_struct *task;
	unsigned int nr;

	migrate_kunit_prepare(test, FAULT_SLOW);
	task = kthread_run(migrate_kunit_thread, fx, "migrate_kunit");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	while (!atomic_read(&fx->engine.nr_inflight))
		cond_resched();

	migrate_offload_unregister(&fx->engine.m);
	fx->registered = false;
	KUNIT_EXPECT_EQ(test, atomic_read(&fx->engine.nr_inflight), 0);
	KUNIT_EXPECT_FALSE(test, static_key_enabled(&migrate_offload_key));
	nr = fx->engine.nr_submitted;
	kthread_stop(task);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, nr);
	KUNIT_EXPECT_LT(test, nr, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_moved(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
}

static void nothing_is_in_flight_when_the_machine_suspends(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct task_struct *task;
	unsigned int nr;

	migrate_kunit_prepare(test, FAULT_SLOW);
	task = migrate_kunit_in_thread(test);
	while (!atomic_read(&fx->engine.nr_inflight))
		cond_resched();
	migrate_offload_pm(NULL, PM_SUSPEND_PREPARE, NULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&fx->engine.nr_inflight), 0);
	KUNIT_EXPECT_FALSE(test, migrate_kunit_in_service(test));
	nr = fx->engine.nr_submitted;
	KUNIT_EXPECT_TRUE(test, migrate_kunit_ended_in_time(fx, task));
	migrate_kunit_isolate(test);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, nr);
	KUNIT_EXPECT_LT(test, nr, NR_FOLIOS);
	migrate_offload_pm(NULL, PM_POST_SUSPEND, NULL);
	KUNIT_EXPECT_TRUE(test, migrate_kunit_in_service(test));
	migrate_kunit_isolate(test);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, nr + NR_FOLIOS);
}

static void register_refuses_bad_migrators(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrator m = fx->engine.m;

	KUNIT_EXPECT_EQ(test, migrate_offload_register(&m), -EBUSY);
	m.name = "none";
	KUNIT_EXPECT_EQ(test, migrate_offload_register(&m), -EINVAL);
	m.name = "a name";
	KUNIT_EXPECT_EQ(test, migrate_offload_register(&m), -EINVAL);
	m.name = "abcdefghijklmnopqrstuvwxyz012345";
	KUNIT_EXPECT_EQ(test, migrate_offload_register(&m), -EINVAL);
	m.name = "incomplete";
	m.flush = NULL;
	KUNIT_EXPECT_EQ(test, migrate_offload_register(&m), -EINVAL);
}

static void unknown_migrator_changes_nothing(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_NONE);
	KUNIT_EXPECT_EQ(test, migrate_offload_activate("nobody"), -ENOENT);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
}

static void contradictory_settings_are_refused(struct kunit *test)
{
	const unsigned long max = MIGRATE_OFFLOAD_MAX_WINDOW;

	KUNIT_ASSERT_EQ(test, migrate_kunit_apply(migrate_kunit_small()), 0);
	KUNIT_EXPECT_EQ(test, set(chunk_pages, migrate_kunit_small().window_pages), 0);
	KUNIT_EXPECT_EQ(test, set(chunk_pages, migrate_kunit_small().window_pages + 1),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, set(window_pages, migrate_kunit_small().window_pages - 1),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, set(window_pages, max), 0);
	KUNIT_EXPECT_EQ(test, set(window_pages, max + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, set(stripe_bytes, PAGE_SIZE + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, set(reasons, BIT(MIGRATE_NR_REASONS)), -EINVAL);
	KUNIT_EXPECT_EQ(test,
			set(deadline_ms, MIGRATE_OFFLOAD_MAX_DEADLINE_MS + 1),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, set(engine_always, 2), -EINVAL);
	KUNIT_EXPECT_EQ(test, set(target_us, MIGRATE_OFFLOAD_MAX_TARGET_US + 1),
			-EINVAL);

	KUNIT_EXPECT_EQ(test, get(window_pages), max);
	KUNIT_EXPECT_EQ(test, get(chunk_pages), migrate_kunit_small().window_pages);
	KUNIT_EXPECT_EQ(test, get(stripe_bytes), 0);
	KUNIT_EXPECT_EQ(test, get(reasons), MIGRATE_OFFLOAD_ALL_REASONS);
}

static struct kunit_case migrate_offload_registry_cases[] = {
	KUNIT_CASE(nobody_waits_long_for_a_call_without_memory),
	KUNIT_CASE(small_call_takes_linux_path),
	KUNIT_CASE(masked_reason_takes_linux_path),
	KUNIT_CASE(each_cpu_has_two_windows),
	KUNIT_CASE(engine_works_from_its_choice_to_the_next),
	KUNIT_CASE(engine_that_cannot_start_changes_nothing),
	KUNIT_CASE(no_active_migrator_costs_one_branch),
	KUNIT_CASE(histogram_counts_only_when_enabled),
	KUNIT_CASE(histogram_counts_each_folio),
	KUNIT_CASE(unregister_waits_for_what_is_in_flight),
	KUNIT_CASE(nothing_is_in_flight_when_the_machine_suspends),
	KUNIT_CASE(register_refuses_bad_migrators),
	KUNIT_CASE(unknown_migrator_changes_nothing),
	KUNIT_CASE(contradictory_settings_are_refused),
	{}
};

static struct kunit_suite migrate_offload_registry_suite = {
	.name = "migrate_offload_registry",
	.init = migrate_kunit_init,
	.exit = migrate_kunit_exit,
	.test_cases = migrate_offload_registry_cases,
};

kunit_test_suite(migrate_offload_registry_suite);
