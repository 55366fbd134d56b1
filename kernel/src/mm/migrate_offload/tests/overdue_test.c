// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of copies that an engine does not end in time.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>

#include "../internal.h"
#include "../pipeline.h"
#include "kunit_engine.h"

#define DEADLINE_MS	50

static void end_late_work(struct work_struct *work)
{
	migrate_kunit_engine_end_late(container_of(work, struct engine, work.work));
}

/* From another context than the one that waited */
static void end_late(struct fixture *fx)
{
	fx->engine.work.work.func = end_late_work;
	schedule_delayed_work(&fx->engine.work, 0);
	flush_delayed_work(&fx->engine.work);
}

static long nr_overdue(struct fixture *fx)
{
	return atomic_long_read(&fx->engine.m.stats->overdue);
}

/* The destinations of what the engine has, which the test keeps */
static void note_destinations(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct engine *e = &fx->engine;
	struct migrate_copy *copy;

	list_for_each_entry(copy, &e->queue, node) {
		KUNIT_EXPECT_EQ(test, folio_ref_count(copy->dst), 1);
		folio_get(copy->dst);
		e->stuck[e->nr_stuck++] = copy->dst;
	}
}

/* It ends its copies at last, and they do no harm */
static void expect_all_is_given_back(struct kunit *test)
{
	struct fixture *fx = test->priv;
	unsigned int i;

	end_late(fx);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
	migrate_offload_reap();
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), 0);
	for (i = 0; i < fx->engine.nr_stuck; i++) {
		KUNIT_EXPECT_EQ(test, folio_ref_count(fx->engine.stuck[i]), 1);
		folio_put(fx->engine.stuck[i]);
	}
}

static void engine_that_never_ends_is_abandoned(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_QUARANTINED_BYTES);
	const unsigned int window = migrate_kunit_small().window_pages;
	struct fixture *fx = test->priv;
	struct engine *e = &fx->engine;
	struct migrate_copy *copy;

	migrate_kunit_prepare(test, FAULT_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	KUNIT_EXPECT_TRUE(test, migrate_kunit_in_service(test));
	KUNIT_ASSERT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));

	KUNIT_EXPECT_EQ(test, e->nr_submitted, ENGINE_FINE + window);
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), window);
	KUNIT_EXPECT_EQ(test,
			migrate_offload_stat(STAT_QUARANTINED_BYTES) - before,
			window * PAGE_SIZE);
	/* What the engine may still read stays, Linux has moved the others */
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_moved(fx), NR_FOLIOS - window);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
	list_for_each_entry(copy, &e->queue, node) {
		/* In vain would Linux unmap it again */
		KUNIT_EXPECT_EQ(test, fx->asked[copy->src->index], 1);
		KUNIT_EXPECT_FALSE(test, folio_test_locked(copy->dst));
		KUNIT_EXPECT_FALSE(test, folio_test_locked(copy->src));
	}
	note_destinations(test);

	/* Out of service until it has ended them */
	migrate_offload_reap();
	KUNIT_EXPECT_FALSE(test, migrate_kunit_in_service(test));
	migrate_kunit_isolate(test);
	KUNIT_EXPECT_EQ(test, migrate_kunit_migrate(fx, MR_SYSCALL), NR_FOLIOS - window);
	KUNIT_EXPECT_EQ(test, e->nr_submitted, ENGINE_FINE + window);

	KUNIT_EXPECT_EQ(test, e->nr_stuck, window);
	expect_all_is_given_back(test);

	KUNIT_EXPECT_TRUE(test, migrate_kunit_in_service(test));
	e->fault = FAULT_NONE;
	migrate_kunit_isolate(test);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, e->nr_submitted,
			ENGINE_FINE + window + NR_FOLIOS);
}

/* Whoever waits for it ends copies of other calls, and those do not end */
static void engine_that_ends_only_others_is_abandoned(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct engine *e = &fx->engine;

	migrate_kunit_prepare(test, FAULT_OTHERS);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	e->others_until = jiffies + msecs_to_jiffies(20 * DEADLINE_MS);
	KUNIT_ASSERT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));
	KUNIT_EXPECT_TRUE(test, time_before(jiffies, e->others_until));
	KUNIT_EXPECT_GT(test, nr_overdue(fx), 0);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_moved(fx), NR_FOLIOS - nr_overdue(fx));
	end_late(fx);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
}

/* What it has copied is used; what it has not stays where it was */
static void engine_that_is_late_with_some_loses_those(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_FOLIOS);
	const unsigned int window = migrate_kunit_small().window_pages;
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_HALF_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	KUNIT_ASSERT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), window / 2);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FOLIOS) - before,
			ENGINE_FINE + window / 2);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_moved(fx), NR_FOLIOS - window / 2);
	end_late(fx);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
}

/* It has made all copies before the deadline, and nobody was there to see it */
static void engine_is_not_stuck_if_its_task_is_late(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_LATE);
	s.chunk_pages = NR_FOLIOS;
	s.window_pages = NR_FOLIOS;
	s.deadline_ms = DEADLINE_MS;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	fx->engine.late_ms = 2 * DEADLINE_MS;
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), 0);
	KUNIT_EXPECT_TRUE(test, migrate_kunit_in_service(test));
}

/* Before it comes to the last chunk of its queue it needs longer than a deadline */
static void engine_that_has_much_to_do_is_not_stuck(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	fx->engine.work.work.func = migrate_kunit_engine_creep;
	migrate_kunit_prepare(test, FAULT_CREEP);
	s.chunk_pages = 1;
	s.deadline_ms = CREEP_MS * s.window_pages * 3 / 4;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	KUNIT_ASSERT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), 0);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_moved(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
}

/* The other call's chunk, and after the deadline this one */
static void end_the_other_first(struct work_struct *work)
{
	struct engine *e = container_of(work, struct engine, work.work);

	if (e->nr_crept++) {
		migrate_kunit_engine_drain(e);
		return;
	}
	atomic_long_inc(&e->m.stats->nr_ended);
	schedule_delayed_work(&e->work, msecs_to_jiffies(14 * DEADLINE_MS));
}

/* It was counted first, and the engine was given another one before it had this */
static void chunk_that_was_overtaken_is_not_stuck(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_SLOW);
	s.chunk_pages = NR_FOLIOS;
	s.window_pages = NR_FOLIOS;
	s.deadline_ms = 10 * DEADLINE_MS;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	fx->engine.overtaken = true;
	fx->engine.work.work.func = end_the_other_first;
	KUNIT_ASSERT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), 0);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_moved(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
}

static void page_of_1g_has_more_time(struct kunit *test)
{
	struct migrate_offload_state state = { .deadline = HZ / 10 };
	struct migrate_pipeline p = { .state = &state };
	struct migrate_chunk chunk = { .nr_pages = SZ_1G >> PAGE_SHIFT };

	migrate_pipeline_set_deadline(&p, &chunk);
	KUNIT_EXPECT_GT(test, chunk.deadline - jiffies, 4 * HZ - HZ / 10);
	chunk.nr_pages = 128;
	migrate_pipeline_set_deadline(&p, &chunk);
	KUNIT_EXPECT_LE(test, chunk.deadline - jiffies, HZ / 10);
}

/* As if other channels went on for other calls */
static void end_others(struct work_struct *work)
{
	struct engine *e = container_of(work, struct engine, work.work);

	atomic_long_inc(&e->m.stats->nr_submitted);
	atomic_long_inc(&e->m.stats->nr_ended);
	schedule_delayed_work(&e->work, msecs_to_jiffies(DEADLINE_MS) / 5);
}

static void channel_that_is_stuck_beside_others_is_abandoned(struct kunit *test)
{
	const unsigned int window = migrate_kunit_small().window_pages;
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	fx->engine.work.work.func = end_others;
	schedule_delayed_work(&fx->engine.work, 0);
	KUNIT_EXPECT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));
	cancel_delayed_work_sync(&fx->engine.work);
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), window);
	end_late(fx);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
}

static void costs_are_known_when_windows_are_replaced(struct kunit *test)
{
	struct migrate_offload_state *before;
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	before = state_of_now();
	KUNIT_ASSERT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));
	before->costs[1][3].engine_ns = 5000;
	before->costs[1][3].cpu_ns = 1000;
	before->flush_pages = 256;
	end_late(fx);
	migrate_offload_reap();
	KUNIT_ASSERT_PTR_NE(test, state_of_now(), before);
	KUNIT_EXPECT_EQ(test, state_of_now()->costs[1][3].engine_ns, 5000);
	KUNIT_EXPECT_EQ(test, state_of_now()->costs[1][3].cpu_ns, 1000);
	KUNIT_EXPECT_EQ(test, state_of_now()->flush_pages, 256);
}

/* It may go, and end its copies before it does so */
static void unregister_does_not_wait_for_overdue_copies(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	KUNIT_ASSERT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));
	migrate_offload_unregister(&fx->engine.m);
	fx->registered = false;
	migrate_offload_reap();
	end_late(fx);
	migrate_offload_reap();
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
}

/* With the channels that are not stuck */
static void engine_serves_on_without_what_it_disowns(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_QUARANTINED_BYTES);
	struct fixture *fx = test->priv;
	struct engine *e = &fx->engine;
	unsigned int nr;

	fx->engine.disowns = true;
	migrate_kunit_prepare(test, FAULT_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	KUNIT_ASSERT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), 0);
	nr = e->nr_submitted - ENGINE_FINE;
	KUNIT_EXPECT_EQ(test,
			migrate_offload_stat(STAT_QUARANTINED_BYTES) - before,
			nr * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_moved(fx), NR_FOLIOS - nr);
	note_destinations(test);
	KUNIT_EXPECT_EQ(test, e->nr_stuck, nr);

	/* A window for that call was lost */
	migrate_offload_reap();
	KUNIT_EXPECT_TRUE(test, migrate_kunit_in_service(test));
	e->fault = FAULT_NONE;
	migrate_kunit_isolate(test);
	KUNIT_EXPECT_EQ(test, migrate_kunit_migrate(fx, MR_SYSCALL), NR_FOLIOS - nr);
	KUNIT_EXPECT_GT(test, e->nr_submitted, ENGINE_FINE + nr);

	expect_all_is_given_back(test);
}

static void engine_serves_again_once_it_has_disowned_all(struct kunit *test)
{
	const unsigned int window = migrate_kunit_small().window_pages;
	struct fixture *fx = test->priv;
	struct engine *e = &fx->engine;
	struct migrate_copy *copy;

	migrate_kunit_prepare(test, FAULT_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	KUNIT_ASSERT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), window);
	KUNIT_EXPECT_FALSE(test, migrate_kunit_in_service(test));
	list_for_each_entry(copy, &e->queue, node) {
		migrate_kunit_engine_disown(e, copy);
		/* Each part that is stuck says so */
		migrate_kunit_engine_disown(e, copy);
	}
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), 0);
	migrate_offload_reap();
	KUNIT_EXPECT_TRUE(test, migrate_kunit_in_service(test));
	note_destinations(test);
	expect_all_is_given_back(test);
}

/* It was disowned too early; another copy has its slot afterwards */
static void copy_that_ends_in_time_is_disowned_for_nothing(struct kunit *test)
{
	const unsigned int window = migrate_kunit_small().window_pages;
	struct fixture *fx = test->priv;

	fx->engine.disowns = true;
	migrate_kunit_prepare(test, FAULT_REVERSE);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_disowned, NR_FOLIOS);
	fx->engine.disowns = false;
	fx->engine.fault = FAULT_NEVER;
	migrate_kunit_isolate(test);
	KUNIT_ASSERT_TRUE(test, migrate_kunit_ended_in_time(fx, migrate_kunit_in_thread(test)));
	KUNIT_EXPECT_GT(test, nr_overdue(fx), 0);
	KUNIT_EXPECT_LE(test, nr_overdue(fx), window);
	note_destinations(test);
	expect_all_is_given_back(test);
}

static void copy_ends_with_its_last_part(struct kunit *test)
{
	struct migrator_stats stats = {};
	struct migrate_chunk chunk = {
		.stats = &stats, .pending = ATOMIC_INIT(2),
	};
	struct migrate_copy copy = { .chunk = &chunk };

	init_completion(&chunk.done);
	migrate_copy_split(&copy, 3);
	migrate_copy_done(&copy, 0);
	migrate_copy_done(&copy, -EIO);
	KUNIT_EXPECT_EQ(test, atomic_read(&chunk.pending), 2);
	migrate_copy_done(&copy, -EBUSY);
	KUNIT_EXPECT_EQ(test, copy.error, -EIO);
	KUNIT_EXPECT_EQ(test, atomic_read(&chunk.pending), 1);
	KUNIT_EXPECT_FALSE(test, completion_done(&chunk.done));
	migrate_chunk_put(&chunk, 1);
	KUNIT_EXPECT_TRUE(test, completion_done(&chunk.done));
	KUNIT_EXPECT_EQ(test, atomic_long_read(&stats.nr_ended), 1);
}

static struct kunit_case migrate_offload_overdue_cases[] = {
	KUNIT_CASE(engine_that_never_ends_is_abandoned),
	KUNIT_CASE(engine_that_ends_only_others_is_abandoned),
	KUNIT_CASE(engine_that_is_late_with_some_loses_those),
	KUNIT_CASE(engine_is_not_stuck_if_its_task_is_late),
	KUNIT_CASE(engine_that_has_much_to_do_is_not_stuck),
	KUNIT_CASE(chunk_that_was_overtaken_is_not_stuck),
	KUNIT_CASE(page_of_1g_has_more_time),
	KUNIT_CASE(channel_that_is_stuck_beside_others_is_abandoned),
	KUNIT_CASE(costs_are_known_when_windows_are_replaced),
	KUNIT_CASE(unregister_does_not_wait_for_overdue_copies),
	KUNIT_CASE(engine_serves_on_without_what_it_disowns),
	KUNIT_CASE(engine_serves_again_once_it_has_disowned_all),
	KUNIT_CASE(copy_that_ends_in_time_is_disowned_for_nothing),
	KUNIT_CASE(copy_ends_with_its_last_part),
	{}
};

static struct kunit_suite migrate_offload_overdue_suite = {
	.name = "migrate_offload_overdue",
	.init = migrate_kunit_init,
	.exit = migrate_kunit_exit,
	.test_cases = migrate_offload_overdue_cases,
};

kunit_test_suite(migrate_offload_overdue_suite);
