// SPDX-License-Identifier: GPL-2.0-only
/*
 * mtcopy: tests of the choice of helpers, on a machine that does not exist.
 *
 * Node 0 has CPUs 0 to 7, node 1 has 8 to 15; four neighbours share a cache.
 * CPU 16 shares none. What is not tested: that idle_cpu(), cpus_share_cache()
 * and cfs_task_bw_constrained() are right.
 */
#include <kunit/test.h>

#define FAKE_CPUS	17
#define FAKE_OUTSIDER	16

struct fake_machine {
	unsigned long busy;
	struct cpumask allowed;
	unsigned int looks;
	struct mtcopy_ranks *ranks[2];
};

static bool fake_share_llc(int a, int b)
{
	return a / 4 == b / 4;
}

static bool fake_core_idle(int cpu)
{
	struct fake_machine *fake = kunit_get_current_test()->priv;

	fake->looks++;
	return !(fake->busy & BIT(cpu));
}

static int mtcopy_cpus_test_init(struct kunit *test)
{
	struct fake_machine *fake;
	struct mtcopy_ranks *ranks;
	int cpu, nid;

	fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, fake);
	kunit_activate_static_stub(test, mtcopy_share_llc, fake_share_llc);
	kunit_activate_static_stub(test, mtcopy_core_idle, fake_core_idle);
	for (cpu = 0; cpu < FAKE_CPUS; cpu++)
		cpumask_set_cpu(cpu, &fake->allowed);
	for (nid = 0; nid < 2; nid++) {
		ranks = kunit_kzalloc(test, struct_size(ranks, rank, 8),
				      GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, ranks);
		for (cpu = 8 * nid; cpu < 8 * nid + 8; cpu++)
			mtcopy_rank_cpu(ranks, cpu);
		fake->ranks[nid] = ranks;
	}
	test->priv = fake;
	return 0;
}

static unsigned int fake_choose(struct kunit *test, int *chosen,
				unsigned int max, int self)
{
	struct fake_machine *fake = test->priv;
	/* From node 0 to node 1 */
	const struct mtcopy_ranks *ranks[2] = { fake->ranks[1], fake->ranks[0] };

	return mtcopy_choose(chosen, max, self, &fake->allowed, ranks);
}

static void expect_chosen(struct kunit *test, int self, const int *expected,
			  unsigned int nr)
{
	int chosen[FAKE_CPUS];
	unsigned int i, n = fake_choose(test, chosen, FAKE_CPUS, self);

	KUNIT_ASSERT_EQ(test, n, nr);
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ_MSG(test, chosen[i], expected[i], "at %u", i);
}

static void each_cache_gets_one_helper_before_any_gets_two(struct kunit *test)
{
	static const int expected[] = { 8, 12, 0, 4, 9, 13, 1, 5,
					10, 14, 2, 6, 11, 15, 3, 7 };

	expect_chosen(test, FAKE_OUTSIDER, expected, ARRAY_SIZE(expected));
}

static void the_cache_of_the_caller_comes_last(struct kunit *test)
{
	static const int expected[] = { 8, 12, 4, 9, 13, 5, 10, 14, 6,
					11, 15, 7, 0, 2, 3 };
	struct fake_machine *fake = test->priv;

	fake->busy = BIT(1);
	expect_chosen(test, 1, expected, ARRAY_SIZE(expected));
}

static void one_node_serves_when_the_other_is_the_same(struct kunit *test)
{
	struct fake_machine *fake = test->priv;
	const struct mtcopy_ranks *ranks[2] = { fake->ranks[1], NULL };
	int chosen[FAKE_CPUS];

	KUNIT_EXPECT_EQ(test, mtcopy_choose(chosen, FAKE_CPUS, 0,
					    &fake->allowed, ranks), 8);
	KUNIT_EXPECT_EQ(test, chosen[0], 8);
	KUNIT_EXPECT_EQ(test, chosen[7], 15);
}

static void no_more_are_chosen_than_asked_for(struct kunit *test)
{
	static const unsigned int max[] = { 0, 1, 15, 16, 17 };
	int chosen[FAKE_CPUS + 1];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(max); i++) {
		memset(chosen, 0xff, sizeof(chosen));
		KUNIT_EXPECT_EQ(test, min(max[i], 16U),
				fake_choose(test, chosen, max[i], FAKE_OUTSIDER));
		KUNIT_EXPECT_EQ(test, chosen[max[i]], -1);
	}
}

static void a_busy_cpu_is_never_chosen(struct kunit *test)
{
	static const int expected[] = { 12, 0, 9, 13, 1, 5, 10, 14, 2, 6, 11, 15,
					3 };
	struct fake_machine *fake = test->priv;

	fake->busy = BIT(8) | BIT(4) | BIT(7);
	expect_chosen(test, FAKE_OUTSIDER, expected, ARRAY_SIZE(expected));
}

static void a_cpu_that_the_caller_may_not_use_is_never_chosen(struct kunit *test)
{
	static const int expected[] = { 12, 0, 4, 9, 13, 1, 5, 14, 2, 6, 15, 3,
					7 };
	struct fake_machine *fake = test->priv;

	cpumask_clear_cpu(8, &fake->allowed);
	cpumask_clear_cpu(10, &fake->allowed);
	cpumask_clear_cpu(11, &fake->allowed);
	expect_chosen(test, FAKE_OUTSIDER, expected, ARRAY_SIZE(expected));
}

static bool fake_under_cpu_max(void)
{
	return false;
}

static void a_caller_under_cpu_max_gets_nobody(struct kunit *test)
{
	struct fake_machine *fake = test->priv;
	int nid = numa_nearest_node(numa_node_id(), N_CPU);
	struct mtcopy_ranks *old;
	int chosen[FAKE_CPUS];

	old = unrcu_pointer(xchg(&mtcopy_ranks[nid],
				 RCU_INITIALIZER(fake->ranks[0])));
	KUNIT_EXPECT_GT(test, mtcopy_choose_cpus(chosen, FAKE_CPUS, nid, nid), 0);
	kunit_activate_static_stub(test, mtcopy_may_be_helped,
				   fake_under_cpu_max);
	KUNIT_EXPECT_EQ(test, mtcopy_choose_cpus(chosen, FAKE_CPUS, nid, nid), 0);
	RCU_INIT_POINTER(mtcopy_ranks[nid], old);
}

static void a_busy_machine_is_not_searched_for_long(struct kunit *test)
{
	struct fake_machine *fake = test->priv;

	fake->busy = ~0UL;
	expect_chosen(test, 0, NULL, 0);
	KUNIT_EXPECT_GT(test, fake->looks, 0);
	KUNIT_EXPECT_LE(test, fake->looks, MTCOPY_MAX_BUSY);
}

static void the_cpu_of_the_caller_is_not_idle(struct kunit *test)
{
	kunit_deactivate_static_stub(test, mtcopy_core_idle);
	preempt_disable();
	KUNIT_EXPECT_FALSE(test, mtcopy_core_idle(smp_processor_id()));
	preempt_enable();
}

static void an_offline_cpu_is_not_idle(struct kunit *test)
{
	int cpu;

	kunit_deactivate_static_stub(test, mtcopy_core_idle);
	for_each_possible_cpu(cpu) {
		if (cpu_online(cpu))
			continue;
		KUNIT_EXPECT_FALSE(test, mtcopy_core_idle(cpu));
		return;
	}
	kunit_skip(test, "needs a possible CPU that is offline");
}

static struct kunit_case mtcopy_cpus_cases[] = {
	KUNIT_CASE(each_cache_gets_one_helper_before_any_gets_two),
	KUNIT_CASE(the_cache_of_the_caller_comes_last),
	KUNIT_CASE(one_node_serves_when_the_other_is_the_same),
	KUNIT_CASE(no_more_are_chosen_than_asked_for),
	KUNIT_CASE(a_busy_cpu_is_never_chosen),
	KUNIT_CASE(a_cpu_that_the_caller_may_not_use_is_never_chosen),
	KUNIT_CASE(a_caller_under_cpu_max_gets_nobody),
	KUNIT_CASE(a_busy_machine_is_not_searched_for_long),
	KUNIT_CASE(the_cpu_of_the_caller_is_not_idle),
	KUNIT_CASE(an_offline_cpu_is_not_idle),
	{}
};

static struct kunit_suite mtcopy_cpus_suite = {
	.name = "mtcopy_cpus",
	.init = mtcopy_cpus_test_init,
	.test_cases = mtcopy_cpus_cases,
};

kunit_test_suite(mtcopy_cpus_suite);
