// SPDX-License-Identifier: GPL-2.0-only
/*
 * DMA channels come, go and come back: dcbm has them only while it is active,
 * their driver may leave at any time, and one that was only slow is used again.
 *
 * Guards rule 2: no page that an engine may still write to is reused, and
 * nothing that was submitted is forgotten, whoever leaves.
 */
#include "../kselftest_harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "dcbm.h"
#include "offload.h"
#include "region.h"

#define SIZE		(4 * MIB)
#define NR_CHANNELS	4
#define ROUNDS		6
#define NEW_SEED	0x0102030405060708ULL
#define DRIVER		"/sys/bus/platform/drivers/softdma"
#define DEVICE		"softdma.0"

FIXTURE(dcbm)
{
	int nodes[2];
	struct region region;
	atomic_bool stop;
	atomic_long moves;
	long wrong;
};

FIXTURE_SETUP(dcbm)
{
	const char *why = NULL;

	if (!nodes_find(self->nodes))
		SKIP(return, "one node with memory only");
	why = offload_use_dcbm("channels=4 ring=64",
			       "timeout_ms=500 queue_depth=32");
	if (!why) {
		offload_set("reasons", "syscall_or_cpuset");
		why = region_create(&self->region, ANON, PMD, SIZE,
				    self->nodes[0]);
	}
	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN_PARENT(dcbm)
{
	if (access(OFFLOAD_DIR, F_OK))
		return;
	if (module_loaded("softdma"))
		file_write(DRIVER "/bind", DEVICE);
	offload_reset();
	offload_unload();
}

static void move(struct __test_metadata *_metadata, FIXTURE_DATA(dcbm) *self,
		 int to)
{
	EXPECT_EQ(0, region_move(&self->region, MOVE_PAGES, self->nodes[!to],
				 self->nodes[to]));
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

/* Those that a stuck channel has stay where they are */
static void move_others(struct __test_metadata *_metadata,
			FIXTURE_DATA(dcbm) *self, int to)
{
	pages_move(&self->region, self->nodes[to], OWN);
	EXPECT_LT(0, region_pages_off(&self->region, self->nodes[to]));
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

/* Once a second the core gives back the folios of copies that have ended */
static void move_at_last(struct __test_metadata *_metadata,
			 FIXTURE_DATA(dcbm) *self, int to)
{
	for (int ms = 0; ms < 15000; ms += 100) {
		if (!pages_move(&self->region, self->nodes[to], OWN))
			break;
		usleep(100000);
	}
	EXPECT_EQ(0, region_pages_off(&self->region, self->nodes[to]));
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

static void *keep_moving(void *param)
{
	FIXTURE_DATA(dcbm) *self = param;

	for (int to = 1; !self->stop; to = !to) {
		region_move(&self->region, MOVE_PAGES, self->nodes[!to],
			    self->nodes[to]);
		self->wrong += region_wrong_words(&self->region);
		self->moves++;
	}
	return NULL;
}

static void *move_once(void *param)
{
	FIXTURE_DATA(dcbm) *self = param;

	region_move(&self->region, MOVE_PAGES, self->nodes[0], self->nodes[1]);
	self->wrong += region_wrong_words(&self->region);
	return NULL;
}

/* How many modules and channels use softdma */
static long softdma_users(void)
{
	return file_read_long("/sys/module/softdma/refcnt");
}

static bool comes_true(bool (*condition)(void))
{
	for (int ms = 0; ms < 15000; ms += 20) {
		if (condition())
			return true;
		usleep(20000);
	}
	return false;
}

static bool all_live(void)
{
	return channels().live == NR_CHANNELS;
}

static bool none_in_flight(void)
{
	return !channels().in_flight;
}

static bool some_in_flight(void)
{
	return channels().in_flight;
}

/* A folio of 2 MiB has a part for each */
static bool all_in_flight(void)
{
	return channels().in_flight >= 16;
}

static bool some_stuck(void)
{
	return channels().stuck;
}

static bool one_stuck(void)
{
	return channels().stuck == 1;
}

/* --- taken and given back --- */

TEST_F(dcbm, has_channels_only_while_it_is_active)
{
	EXPECT_EQ(NR_CHANNELS, softdma_users());
	offload_set("active", "cpu");
	EXPECT_EQ(0, softdma_users());
	EXPECT_EQ(0, channels().live);
	offload_set("active", "dcbm");
	EXPECT_EQ(NR_CHANNELS, softdma_users());
	move(_metadata, self, 1);
	offload_set("active", "none");
	/* Its driver can go, and dcbm cannot be chosen without one */
	EXPECT_EQ(0, module_unload("softdma", 0));
	EXPECT_EQ(-ENODEV, offload_try("active", "dcbm"));
}

/* Of each node, whose devices are others' as well */
TEST_F(dcbm, leaves_as_many_as_it_is_told)
{
	offload_unload();
	ASSERT_EQ(0, module_load("softdma", "channels=4 per_node=1"));
	ASSERT_EQ(0, module_load("dcbm", "leave=3"));
	EXPECT_EQ(0, offload_try("active", "dcbm"));
	/* The nodes of the fixture, if no other has memory */
	EXPECT_EQ(2, softdma_users());
	EXPECT_EQ(2, channels().live);
	move(_metadata, self, 1);
	offload_set("active", "none");

	ASSERT_EQ(0, module_unload("dcbm", 1000));
	ASSERT_EQ(0, module_load("dcbm", "leave=4"));
	EXPECT_EQ(-ENODEV, offload_try("active", "dcbm"));
}

/* --- whose --- */

/* What is known of a driver of that name, or was, is no promise of this one */
TEST_F(dcbm, uses_those_who_promise_to_report_errors)
{
	offload_unload();
	ASSERT_EQ(0, module_load("softdma", "reports_errors=0"));
	ASSERT_EQ(0, module_load("dcbm", ""));
	EXPECT_EQ(-ENODEV, offload_try("active", "dcbm"));
	EXPECT_EQ(0, softdma_users());

	ASSERT_EQ(0, module_unload("dcbm", 1000));
	ASSERT_EQ(0, module_load("dcbm", "allow=ptdma,softdma"));
	EXPECT_EQ(0, offload_try("active", "dcbm"));
	EXPECT_EQ(NR_CHANNELS, softdma_users());
	move(_metadata, self, 1);
}

/* --- drivers that leave --- */

TEST_F(dcbm, survives_that_its_driver_leaves_while_it_is_idle)
{
	struct offload_stats before;

	ASSERT_EQ(0, file_write(DRIVER "/unbind", DEVICE));
	EXPECT_EQ(NR_CHANNELS, channels().gone);
	before = offload_stats(NULL);
	move(_metadata, self, 1);
	/* Nothing was unmapped for an engine that is not there */
	EXPECT_EQ(0, offload_stats(&before).calls);

	ASSERT_EQ(0, file_write(DRIVER "/bind", DEVICE));
	offload_set("active", "none");
	offload_set("active", "dcbm");
	EXPECT_EQ(NR_CHANNELS, channels().live);
	EXPECT_EQ(0, channels().gone);
	move(_metadata, self, 0);
	EXPECT_LT(0, offload_stats(&before).folios);
}

TEST_F_TIMEOUT(dcbm, survives_that_its_driver_leaves_while_it_copies, 120)
{
	struct offload_stats before = offload_stats(NULL);
	pthread_t thread;

	softdma_set("latency_ns", 2000000);
	ASSERT_EQ(0, pthread_create(&thread, NULL, keep_moving, self));
	for (int i = 0; i < ROUNDS; i++) {
		long moves = self->moves;

		EXPECT_TRUE(comes_true(some_in_flight));
		EXPECT_EQ(0, file_write(DRIVER "/unbind", DEVICE));
		EXPECT_EQ(0, channels().live);
		EXPECT_EQ(0, channels().in_flight);
		/* Others go on */
		while (self->moves < moves + 2)
			usleep(1000);
		EXPECT_EQ(0, file_write(DRIVER "/bind", DEVICE));
		offload_set("active", i % 2 ? "cpu" : "none");
		offload_set("active", "dcbm");
		EXPECT_EQ(NR_CHANNELS, channels().live);
	}
	self->stop = true;
	pthread_join(thread, NULL);
	EXPECT_EQ(0, self->wrong);
	EXPECT_LT(0, offload_stats(&before).folios);
	EXPECT_EQ(0, offload_stats(&before).quarantined_bytes);
}

TEST_F_TIMEOUT(dcbm, survives_that_its_driver_leaves_while_it_is_stuck, 60)
{
	struct offload_stats before = offload_stats(NULL);
	pthread_t thread;

	inject("stall", 1);
	ASSERT_EQ(0, pthread_create(&thread, NULL, move_once, self));
	EXPECT_TRUE(comes_true(some_in_flight));
	/* The driver stops the engine, so the CPU copies */
	EXPECT_EQ(0, file_write(DRIVER "/unbind", DEVICE));
	EXPECT_EQ(0, channels().in_flight);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, self->wrong);
	EXPECT_EQ(0, offload_stats(&before).quarantined_bytes);
	EXPECT_EQ(0, region_pages_off(&self->region, self->nodes[1]));
	offload_set("active", "none");
	EXPECT_EQ(0, module_unload("dcbm", 1000));
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

/* One timeout for all channels, as for one */
TEST_F_TIMEOUT(dcbm, does_not_wait_for_one_stuck_channel_after_the_other, 60)
{
	pthread_t thread;
	double start;

	ASSERT_EQ(NULL, offload_use_dcbm("channels=16", "timeout_ms=1000"));
	inject("stall", 1);
	ASSERT_EQ(0, pthread_create(&thread, NULL, move_once, self));
	EXPECT_TRUE(comes_true(all_in_flight));
	start = seconds(CLOCK_MONOTONIC);
	EXPECT_EQ(0, file_write(DRIVER "/unbind", DEVICE));
	EXPECT_GT(4, seconds(CLOCK_MONOTONIC) - start);
	EXPECT_EQ(0, channels().in_flight);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, self->wrong);
}

/* --- only slow --- */

TEST_F_TIMEOUT(dcbm, uses_a_channel_again_that_was_only_slow, 60)
{
	struct offload_stats before = offload_stats(NULL);
	struct region bait;

	inject("stall", 2);
	move_others(_metadata, self, 1);
	EXPECT_LT(0, offload_stats(&before).quarantined_bytes);
	EXPECT_TRUE(comes_true(some_stuck));

	/* What it writes late is in no page that is in use */
	region_fill(&self->region, NEW_SEED);
	EXPECT_EQ(NULL, region_create(&bait, ANON, 0, 2 * SIZE,
				      self->nodes[1]));
	inject("stall", 0);
	softdma_set("stall_release", 1);
	EXPECT_TRUE(comes_true(all_live));
	EXPECT_TRUE(comes_true(none_in_flight));
	EXPECT_EQ(0, region_wrong_words(&self->region));
	EXPECT_EQ(0, region_wrong_words(&bait));

	move_at_last(_metadata, self, 1);
	before = offload_stats(NULL);
	for (int i = 0; i < ROUNDS; i++)
		move(_metadata, self, i % 2);
	EXPECT_EQ((long)(ROUNDS * SIZE / PMD), offload_stats(&before).folios);
	EXPECT_EQ(NR_CHANNELS, channels().live);
}

/* Of what it has the folios stay where they are; the others move by the rest */
TEST_F_TIMEOUT(dcbm, does_without_a_stuck_channel, 60)
{
	struct offload_stats before;

	/* One of the parts of one move */
	inject("stall", SIZE / PMD * NR_CHANNELS / 2 + 1);
	move_others(_metadata, self, 1);
	EXPECT_TRUE(comes_true(one_stuck));
	inject("stall", 0);
	EXPECT_EQ(NR_CHANNELS - 1, channels().live);
	EXPECT_EQ(0, file_read_long(OFFLOAD_DIR "/migrators/dcbm/overdue"));
	EXPECT_EQ(1, file_read_long(OFFLOAD_DIR "/in_service"));
	/* In place of the window that was lost */
	sleep(2);
	before = offload_stats(NULL);
	move(_metadata, self, 0);
	EXPECT_LT(0, offload_stats(&before).folios);
	EXPECT_EQ(0, offload_stats(&before).quarantined_bytes);
	EXPECT_TRUE(one_stuck());

	softdma_set("stall_release", 1);
	EXPECT_TRUE(comes_true(all_live));
	EXPECT_EQ(0, region_wrong_words(&self->region));
	move_at_last(_metadata, self, 1);
}

TEST_F_TIMEOUT(dcbm, is_left_at_once_with_copies_that_do_not_end, 60)
{
	double start;

	inject("stall", 2);
	move_others(_metadata, self, 1);
	EXPECT_LT(0, channels().in_flight);
	start = seconds(CLOCK_MONOTONIC);
	offload_set("active", "none");
	EXPECT_GT(0.4, seconds(CLOCK_MONOTONIC) - start);
	/* The channels that have copies stay until these end */
	EXPECT_LT(0, channels().in_flight);
	EXPECT_LT(0, softdma_users());

	inject("stall", 0);
	softdma_set("stall_release", 1);
	EXPECT_EQ(0, module_unload("dcbm", 10000));
	EXPECT_EQ(0, softdma_users());
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

TEST_HARNESS_MAIN
