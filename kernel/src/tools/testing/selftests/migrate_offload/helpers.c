// SPDX-License-Identifier: GPL-2.0-only
/*
 * mtcopy: a helper does its caller's work, so it runs only where the caller may
 * run, not at all for a caller whose CPU time is limited, and its time is charged
 * to the cgroup of the memory that it copies.
 *
 * Needs two CPUs. How fast helpers are is not tested.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "../kselftest_harness.h"

#include "../migrate_common/cgroup.h"
#include "offload.h"
#include "region.h"

#define MTCOPY_DIR	"/sys/module/mtcopy/parameters"
#define SIZE		(16 * MIB)
#define MOVES		8
#define PATIENCE_S	20

FIXTURE(helpers)
{
	struct region region;
	int nodes[2];
};

FIXTURE_SETUP(helpers)
{
	const char *why;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU only");
	why = offload_use_between(self->nodes, "mtcopy");
	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN_PARENT(helpers)
{
	cgroup_leave();
	if (!access(OFFLOAD_DIR, F_OK))
		offload_reset();
}

static long copied_by_helpers(void)
{
	return file_read_long(MTCOPY_DIR "/helper_bytes");
}

/* Return: the bytes that helpers copied of @moves moves */
static long helped(struct __test_metadata *_metadata,
		   FIXTURE_DATA(helpers) *self, int moves)
{
	long before = copied_by_helpers();

	for (int i = 0; i < moves; i++)
		ASSERT_EQ(0, region_move(&self->region, MOVE_PAGES,
					 self->nodes[i % 2],
					 self->nodes[!(i % 2)]));
	return copied_by_helpers() - before;
}

/* CPUs are idle now and then: with no limit somebody helps sooner or later */
static bool helped_at_last(struct __test_metadata *_metadata,
			   FIXTURE_DATA(helpers) *self)
{
	time_t end = time(NULL) + PATIENCE_S;

	while (time(NULL) < end)
		if (helped(_metadata, self, 2))
			return true;
	return false;
}

static void make_region(struct __test_metadata *_metadata,
			FIXTURE_DATA(helpers) *self)
{
	ASSERT_EQ(NULL, region_create(&self->region, ANON, PMD, SIZE,
				      self->nodes[0]));
}

TEST_F(helpers, stay_away_from_a_caller_on_one_cpu)
{
	cpu_set_t all, one;

	make_region(_metadata, self);
	ASSERT_TRUE(helped_at_last(_metadata, self));

	ASSERT_EQ(0, sched_getaffinity(0, sizeof(all), &all));
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(one), &one));
	EXPECT_EQ(0, helped(_metadata, self, MOVES));

	ASSERT_EQ(0, sched_setaffinity(0, sizeof(all), &all));
	EXPECT_TRUE(helped_at_last(_metadata, self));
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

TEST_F(helpers, stay_away_from_a_cpuset_of_one_cpu)
{
	const char *why = cgroup_enter("cpuset");

	if (!why && cgroup_write("cpuset.cpus", "1"))
		why = "no cpuset.cpus";
	if (why)
		SKIP(return, "%s", why);
	make_region(_metadata, self);
	EXPECT_EQ(0, helped(_metadata, self, MOVES));

	ASSERT_EQ(0, cgroup_write("cpuset.cpus", "0-1"));
	EXPECT_TRUE(helped_at_last(_metadata, self));
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

TEST_F(helpers, stay_away_from_a_caller_under_cpu_max)
{
	const char *why = cgroup_enter("cpu");

	/* All the time there is, and yet a limit */
	if (!why && cgroup_write("cpu.max", "200000 100000"))
		why = "no cpu.max";
	if (why)
		SKIP(return, "%s", why);
	make_region(_metadata, self);
	EXPECT_EQ(0, helped(_metadata, self, MOVES));

	ASSERT_EQ(0, cgroup_write("cpu.max", "max"));
	EXPECT_TRUE(helped_at_last(_metadata, self));
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

/* Microseconds of CPU time that were charged to the group */
static long charged(void)
{
	return file_sum_after(CGROUP_PATH "/cpu.stat", "usage_usec");
}

/* Nobody runs in the group, but the memory that is moved is charged to it */
TEST_F(helpers, are_charged_to_the_group_of_the_memory)
{
	const char *why = cgroup_enter("memory");
	long before, after;

	if (why)
		SKIP(return, "%s", why);
	make_region(_metadata, self);
	ASSERT_EQ(0, cgroup_pause());
	before = charged();
	ASSERT_LE(0, before);
	ASSERT_TRUE(helped_at_last(_metadata, self));
	after = charged();
	EXPECT_LT(before, after);
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

static atomic_bool spin_stop;

static void *spin(void *arg)
{
	while (!spin_stop)
		;
	return arg;
}

TEST_F(helpers, leave_the_copies_to_their_caller_if_cpus_are_busy)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[64];
	long caller, helper;

	make_region(_metadata, self);
	for (int i = 0; i < cpus && i < 64; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, spin, NULL));
	usleep(100000);

	caller = file_read_long(MTCOPY_DIR "/caller_bytes");
	helper = helped(_metadata, self, MOVES);
	caller = file_read_long(MTCOPY_DIR "/caller_bytes") - caller;
	spin_stop = true;
	EXPECT_EQ(0, region_wrong_words(&self->region));
	EXPECT_LE((long)(MOVES * SIZE), caller + helper);
	/* The scheduler may have found a CPU idle for a moment */
	EXPECT_LT(helper, caller);
}

TEST_HARNESS_MAIN
