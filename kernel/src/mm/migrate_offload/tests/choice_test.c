// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of who copies: the engine, or the CPU where that is cheaper.
 */
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/migrate.h>
#include <linux/pgtable.h>

#include "../internal.h"
#include "kunit_engine.h"

/* Costs of folios of order 0: what @m has charged for a page in its turn */
static void learn(struct migrate_offload_state *state, struct migrator *m,
		  u64 ns)
{
	struct migrate_turn turn = {
		.m = m, .nr_chunks = 16, .nr_pages = 64, .lost_ns = 64 * ns,
	};

	migrate_offload_learn(state, &turn);
}

#define expect_choice(test, state, order, m) \
	KUNIT_EXPECT_PTR_EQ(test, migrate_offload_choose(state, order, false), m)
#define expect_few(test, state, m) \
	KUNIT_EXPECT_PTR_EQ(test, migrate_offload_choose(state, 0, true), m)

/* Costs have no place for an order that the buddy allocator does not have */
static void page_of_1g_counts_as_the_largest_order(struct kunit *test)
{
	struct folio *folio = kunit_kzalloc(test, sizeof(*folio), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	__folio_set_head(folio);
	folio_set_order(folio, PUD_SHIFT - PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, migrate_cost_order(folio), NR_PAGE_ORDERS - 1);
	folio_set_order(folio, PMD_ORDER);
	KUNIT_EXPECT_EQ(test, migrate_cost_order(folio), PMD_ORDER);
}

static void dearer_engine_leaves_copies_to_the_cpu(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = {
		.m = &fx->engine.m, .may_choose = true,
	};
	struct migrate_cost *cost = &state.costs[0][0];

	/* The engine comes first; then the CPU must show what it can, once */
	expect_choice(test, &state, 0, state.m);
	learn(&state, state.m, 1000);
	expect_choice(test, &state, 0, &migrator_cpu);
	learn(&state, &migrator_cpu, 1000);
	expect_choice(test, &state, 0, state.m);
	/* An eighth is forgiven, no more */
	cost->engine_ns = 1125;
	expect_choice(test, &state, 0, state.m);
	cost->engine_ns = 1126;
	expect_choice(test, &state, 0, &migrator_cpu);
	/* Folios of another size have costs of their own */
	expect_choice(test, &state, 1, state.m);
	/* An administrator who wants the engine gets it */
	state.may_choose = false;
	expect_choice(test, &state, 0, state.m);
}

static void dearer_one_is_tried_again(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = {
		.m = &fx->engine.m, .may_choose = true,
	};
	struct migrate_cost *cost = &state.costs[0][0];

	/* The engine after a second, for one turn */
	*cost = (struct migrate_cost) { 5000, 1000, jiffies - HZ };
	expect_choice(test, &state, 0, state.m);
	expect_choice(test, &state, 0, &migrator_cpu);
	/* The CPU after ten */
	*cost = (struct migrate_cost) { 100, 1000, jiffies - 8 * HZ };
	expect_choice(test, &state, 0, state.m);
	*cost = (struct migrate_cost) { 100, 1000, jiffies - 10 * HZ };
	expect_choice(test, &state, 0, &migrator_cpu);
	expect_choice(test, &state, 0, state.m);
}

/* All that it takes is measured, and if the engine is dearer Linux does it */
static void dearer_engine_leaves_small_calls_to_linux(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = {
		.m = &fx->engine.m, .may_choose = true,
	};
	struct migrate_turn turn = {
		.m = state.m, .few = true, .nr_chunks = 2, .nr_pages = 128,
		.left_pages = 64, .lost_ns = 128 * 5000,
	};
	struct migrate_cost *cost = &state.costs[1][0];

	expect_few(test, &state, state.m);
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, cost->engine_ns, 5000);
	expect_few(test, &state, &migrator_cpu);
	turn.m = &migrator_cpu;
	turn.lost_ns = 128 * 4999;
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 4999);
	expect_few(test, &state, NULL);
	/* Calls of many folios have costs of their own */
	expect_choice(test, &state, 0, state.m);
	/* It is tried again after a second, once */
	cost->tried = jiffies - HZ;
	expect_few(test, &state, state.m);
	expect_few(test, &state, &migrator_cpu);
	expect_few(test, &state, NULL);
	/* A turn of few ends with its call, and all orders count */
	KUNIT_EXPECT_FALSE(test, migrate_turn_is_over(&turn));
	turn.nr_pages = 0;
	migrate_turn_add(&turn, &(struct migrate_chunk) {
			.nr_folios = 2, .nr_pages = 17,
		});
	KUNIT_EXPECT_EQ(test, turn.nr_pages, 17);
}

static void one_bad_turn_says_little(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = { .m = &fx->engine.m };
	struct migrate_cost *cost = &state.costs[0][0];

	/* What is known first counts in whole */
	learn(&state, state.m, 1000);
	KUNIT_EXPECT_EQ(test, cost->engine_ns, 1000);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 0);
	/* Interrupted for a second */
	learn(&state, state.m, NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, cost->engine_ns, 1500);
	learn(&state, state.m, 500);
	KUNIT_EXPECT_EQ(test, cost->engine_ns, 1000);
	/* A copy by CPU is never faster than it can be */
	learn(&state, &migrator_cpu, NSEC_PER_SEC);
	learn(&state, &migrator_cpu, 1000);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 1000);
	learn(&state, &migrator_cpu, NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 1500);
	/* No time at all is known, too, and not the end of learning */
	learn(&state, &migrator_cpu, 0);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 1);
	learn(&state, &migrator_cpu, 1000);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 2);
	/* More than there is room for */
	cost->cpu_ns = U32_MAX;
	learn(&state, &migrator_cpu, U32_MAX + 1ULL);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, U32_MAX);
}

/* It costs nothing, and copies only a half */
static void what_the_engine_leaves_is_no_bargain(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = { .m = &fx->engine.m };
	struct migrate_turn turn = {
		.m = state.m, .nr_pages = 64, .left_pages = 32,
	};

	learn(&state, &migrator_cpu, 1000);
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, state.costs[0][0].engine_ns, 500);
}

/* Cut short by the end of its call: all of it is latency */
static void short_turn_counts_little(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = { .m = &fx->engine.m };
	struct migrate_turn turn = {
		.m = state.m, .nr_chunks = 2, .nr_pages = 64,
		.lost_ns = 64 * 1800,
	};

	learn(&state, state.m, 1000);
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, state.costs[0][0].engine_ns, 1050);
	/* But not if it is short since it has cost so much */
	turn.spent_ns = NSEC_PER_SEC;
	turn.lost_ns = 64 * 2050;
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, state.costs[0][0].engine_ns, 1550);
}

static void turn_adds_up_what_can_be_compared(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = { .m = &fx->engine.m };
	struct migrate_turn turn = { .m = state.m, .order = 2 };
	struct migrate_chunk chunk = {
		.nr_folios = 8, .nr_pages = 32, .copied_pages = 16,
		.unfit_pages = 4, .lost_ns = 100,
	};

	migrate_turn_add(&turn, &chunk);
	KUNIT_EXPECT_EQ(test, turn.nr_pages, 28);
	KUNIT_EXPECT_EQ(test, turn.left_pages, 12);
	/* A chunk with folios of other sizes takes time, and teaches nothing */
	chunk.nr_folios = 9;
	migrate_turn_add(&turn, &chunk);
	KUNIT_EXPECT_EQ(test, turn.nr_chunks, 2);
	KUNIT_EXPECT_EQ(test, turn.nr_pages, 28);
	KUNIT_EXPECT_EQ(test, turn.lost_ns, 100);
	KUNIT_EXPECT_EQ(test, turn.spent_ns, 200);
	/* Nor does a turn in which nothing was to be copied */
	turn = (struct migrate_turn) { .m = state.m, .nr_chunks = 1 };
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, state.costs[0][0].engine_ns, 0);
}

static void bad_engine_has_a_short_turn(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_turn turn = { .m = &fx->engine.m, .nr_chunks = 2 };

	KUNIT_EXPECT_FALSE(test, migrate_turn_is_over(&turn));
	turn.spent_ns = 50 * NSEC_PER_MSEC;
	KUNIT_EXPECT_TRUE(test, migrate_turn_is_over(&turn));
	turn.spent_ns = 0;
	turn.nr_chunks = 100;
	KUNIT_EXPECT_TRUE(test, migrate_turn_is_over(&turn));
	/* One copy by CPU is like the other */
	turn.m = &migrator_cpu;
	turn.nr_chunks = 1;
	KUNIT_EXPECT_TRUE(test, migrate_turn_is_over(&turn));
}

/* How many of 64 folios the engine is given, which takes 50 ms for a chunk */
static unsigned int given_to_slow_engine(struct kunit *test, bool always)
{
	long before = atomic_long_read(&migrator_cpu.stats->folios);
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_SLOW);
	s.window_pages = 0;
	s.engine_always = always;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	migrate_kunit_expect_all_moved(test);
	/* Each is counted as whose it was */
	KUNIT_EXPECT_EQ(test, atomic_long_read(&migrator_cpu.stats->folios) -
			before, NR_FOLIOS - fx->engine.nr_submitted);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&fx->engine.m.stats->folios),
			fx->engine.nr_submitted);
	return fx->engine.nr_submitted;
}

/* What was on its way when its turn was over, and a turn each second */
static void slow_engine_gets_little(struct kunit *test)
{
	unsigned int given = given_to_slow_engine(test, false);

	KUNIT_EXPECT_GE(test, given, 1);
	KUNIT_EXPECT_LE(test, given, NR_FOLIOS / 2);
}

/* Who comes next has nothing unmapped while copies of the other go on */
static void turn_begins_with_an_empty_window(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, migrate_kunit_target_of);
	fx->engine.work.work.func = migrate_kunit_engine_creep;
	migrate_kunit_prepare(test, FAULT_CREEP);
	s.window_pages = 0;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	migrate_kunit_expect_all_moved(test);
	/* Two chunks were on their way */
	KUNIT_EXPECT_EQ(test, fx->engine.nr_crept, 2 * CREEP_CHUNK);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_beside, 0);
}

/* How many of the folios of a call with @nr of them the engine was given */
static unsigned int given_of_few(struct kunit *test, unsigned int nr)
{
	struct fixture *fx = test->priv;
	unsigned int before = fx->engine.nr_submitted;
	LIST_HEAD(rest);
	unsigned int i;

	migrate_kunit_isolate(test);
	for (i = nr; i < NR_FOLIOS; i++)
		list_move(&fx->before[i]->lru, &rest);
	KUNIT_EXPECT_EQ(test, migrate_kunit_migrate(fx, MR_SYSCALL), nr);
	putback_movable_pages(&rest);
	return fx->engine.nr_submitted - before;
}

/* What is unmapped at one moment is few: here a chunk of four */
static void small_call_goes_to_linux_if_that_is_cheaper(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;
	struct migrate_cost *cost;

	fx->engine.fault = FAULT_NONE;
	KUNIT_ASSERT_EQ(test, 0, migrate_offload_activate(ENGINE_NAME));
	s.window_pages = 0;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	KUNIT_EXPECT_EQ(test, given_of_few(test, 4), 4);
	cost = &state_of_now()->costs[1][0];
	KUNIT_EXPECT_NE(test, cost->engine_ns, 0);
	KUNIT_EXPECT_EQ(test, given_of_few(test, 4), 0);
	KUNIT_EXPECT_NE(test, cost->cpu_ns, 0);
	cost->engine_ns = cost->cpu_ns + 1;
	cost->tried = jiffies + HZ;
	fx->nr_new = 0;
	KUNIT_EXPECT_EQ(test, given_of_few(test, 4), 0);
	/* One more is not few, and what that costs is not known */
	KUNIT_EXPECT_EQ(test, given_of_few(test, 5), 5);
}

static void slow_engine_gets_all_if_told_to(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, given_to_slow_engine(test, true), NR_FOLIOS);
}

static struct kunit_case migrate_offload_choice_cases[] = {
	KUNIT_CASE(page_of_1g_counts_as_the_largest_order),
	KUNIT_CASE(dearer_engine_leaves_copies_to_the_cpu),
	KUNIT_CASE(dearer_one_is_tried_again),
	KUNIT_CASE(dearer_engine_leaves_small_calls_to_linux),
	KUNIT_CASE(small_call_goes_to_linux_if_that_is_cheaper),
	KUNIT_CASE(one_bad_turn_says_little),
	KUNIT_CASE(what_the_engine_leaves_is_no_bargain),
	KUNIT_CASE(short_turn_counts_little),
	KUNIT_CASE(turn_adds_up_what_can_be_compared),
	KUNIT_CASE(bad_engine_has_a_short_turn),
	KUNIT_CASE(slow_engine_gets_little),
	KUNIT_CASE(turn_begins_with_an_empty_window),
	KUNIT_CASE(slow_engine_gets_all_if_told_to),
	{}
};

static struct kunit_suite migrate_offload_choice_suite = {
	.name = "migrate_offload_choice",
	.init = migrate_kunit_init,
	.exit = migrate_kunit_exit,
	.test_cases = migrate_offload_choice_cases,
};

kunit_test_suite(migrate_offload_choice_suite);
