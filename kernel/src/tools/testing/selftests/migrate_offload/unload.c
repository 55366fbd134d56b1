// SPDX-License-Identifier: GPL-2.0-only
/*
 * Engines come and go, and settings change, while several processes migrate:
 * no byte is lost, nobody gets stuck, and an engine in use cannot be unloaded.
 * Who changes them does not wait for calls of others to end, but for windows.
 *
 * Guards rule 2 (nothing that was submitted is forgotten: unregistering waits
 * for what is in flight) and rule 7 (the window is bounded, whatever is set).
 */
#include "../kselftest_harness.h"

#include <err.h>
#include <sys/param.h>
#include <time.h>

#include "../migrate_common/cgroup.h"
#include "offload.h"
#include "region.h"
#include "storm.h"

#define NR_MOVERS	3
#define ROUNDS		3
#define SECONDS		10

static struct storm_move moves[NR_MOVERS] = {
	{ .folio = PAGE, .size = 1 * MIB },
	{ .folio = 64 * KIB, .size = 1 * MIB },
	{ .folio = PMD, .size = 4 * MIB },
};

static const char * const engines[] = { "dcbm", "mtcopy", "cpu" };

FIXTURE(storm)
{
	struct storm *storm;
	int nodes[2];
};

FIXTURE_SETUP(storm)
{
	const char *why = NULL;

	if (!nodes_find(self->nodes))
		SKIP(return, "one node with memory only");
	for (size_t i = 0; i < ARRAY_SIZE(engines) && !why; i++)
		why = offload_use(engines[i]);
	if (why)
		SKIP(return, "%s", why);
	self->storm = storm_begin();
	for (int i = 0; i < NR_MOVERS; i++) {
		memcpy(moves[i].nodes, self->nodes, sizeof(self->nodes));
		storm_add(self->storm, storm_move, &moves[i]);
	}
}

FIXTURE_TEARDOWN_PARENT(storm)
{
	if (access(OFFLOAD_DIR, F_OK))
		return;
	offload_reset();
	offload_unload();
}

/* The engine copies something within a minute */
static bool is_used(const char *engine)
{
	char path[128];
	long bytes;

	snprintf(path, sizeof(path), OFFLOAD_DIR "/migrators/%s/bytes", engine);
	bytes = file_read_long(path);
	for (int ms = 0; ms < 60000; ms += 10) {
		if (file_read_long(path) > bytes)
			return true;
		usleep(10000);
	}
	return false;
}

TEST_F_TIMEOUT(storm, every_engine_comes_is_used_and_goes, 120)
{
	for (size_t i = 0; i < ROUNDS * ARRAY_SIZE(engines); i++) {
		const char *engine = engines[i % ARRAY_SIZE(engines)];

		EXPECT_EQ(NULL, offload_use(engine));
		EXPECT_TRUE(is_used(engine));
		EXPECT_EQ(strcmp(engine, "cpu") ? -EWOULDBLOCK : -ENOENT,
			  module_unload(engine, 0));
		/* Straight to the next one, or by way of none */
		offload_set("active", i % 2 ? "none" : "cpu");
		offload_unload();
	}
	EXPECT_EQ(0, storm_end(self->storm));
}

/* Others load and unload what is being chosen, and change the settings */

static long load_and_unload(const void *module)
{
	module_load(module, "");
	usleep(50000);
	module_unload(module, 0);
	return 0;
}

static long choose(const void *arg)
{
	static unsigned int i;

	(void)arg;
	/* It may have gone just now */
	offload_try("active", engines[i++ % ARRAY_SIZE(engines)]);
	usleep(20000);
	return 0;
}

/*
 * Not inaccessible_enabled, which patches code: QEMU's multi-threaded emulator
 * can meet a breakpoint that is there no more.
 */
static long set(const void *arg)
{
	static unsigned int i;

	(void)arg;
	offload_set("chunk_pages", "0");
	offload_set("window_pages", "%u", 1 << i % 10);
	offload_set("chunk_pages", "%u", 1 << i % 4 % (i % 10 + 1));
	offload_set("stripe_bytes", "%lu", PAGE << i % 8);
	offload_set("min_bytes", "%lu", PAGE << i % 3);
	offload_set("reasons", i % 8 ? "all" : "none");
	i++;
	return 0;
}

TEST_F_TIMEOUT(storm, anybody_may_load_unload_choose_and_set_at_any_time, 120)
{
	struct offload_stats before = offload_stats(NULL);
	struct storm *s = self->storm;

	storm_add(s, load_and_unload, "mtcopy");
	storm_add(s, load_and_unload, "dcbm");
	storm_add(s, choose, NULL);
	storm_add(s, set, NULL);
	sleep(SECONDS);
	EXPECT_EQ(0, storm_end(s));
	EXPECT_LT(0, offload_stats(&before).bytes);
	EXPECT_EQ(0, offload_stats(&before).quarantined_bytes);
}

/* A mover whose one call takes long, since it hardly ever runs */

#define CALL_S		8
#define MOST_MS		3000
#define LOOK_EVERY	16

static long move_much(const void *arg)
{
	static unsigned int rounds;
	static struct region r;
	const int *nodes = arg;
	const char *why = NULL;

	if (!r.addr)
		why = region_create(&r, ANON, PAGE, 16 * MIB, nodes[0]);
	if (why)
		errx(1, "%s", why);
	region_move(&r, MOVE_PAGES, nodes[rounds % 2], nodes[!(rounds % 2)]);
	/* Seldom, since that takes longer than to move it */
	return rounds++ % LOOK_EVERY ? 0 : region_wrong_words(&r);
}

FIXTURE(throttled)
{
	struct storm *storm;
	int nodes[2];
};

FIXTURE_SETUP(throttled)
{
	const char *why;
	char limit[32];
	long rounds;

	if (!nodes_find(self->nodes))
		SKIP(return, "one node with memory only");
	why = offload_use("cpu");
	why = why ?: cgroup_enter("cpu");
	if (why)
		SKIP(return, "%s", why);
	self->storm = storm_begin();
	storm_add(self->storm, move_much, self->nodes);
	rounds = self->storm->processes[0].rounds;
	sleep(1);
	rounds = self->storm->processes[0].rounds - rounds;
	snprintf(limit, sizeof(limit), "%ld 100000",
		 MAX(100000 / (CALL_S * MAX(rounds, 1)), 1000));
	ASSERT_EQ(0, cgroup_write("cpu.max", limit));
	/* Without its mover, which stays */
	cgroup_leave();
}

FIXTURE_TEARDOWN_PARENT(throttled)
{
	if (access(OFFLOAD_DIR, F_OK))
		return;
	offload_reset();
	cgroup_leave();
}

static long set_active(const char *engine)
{
	double begin = seconds(CLOCK_MONOTONIC);

	offload_set("active", engine);
	return (seconds(CLOCK_MONOTONIC) - begin) * 1000;
}

TEST_F_TIMEOUT(throttled, nobody_waits_for_all_of_its_call, 240)
{
	long most = 0;

	for (int i = 0; i < ROUNDS; i++) {
		long ms;

		ASSERT_TRUE(is_used("cpu"));
		ms = set_active("none");
		most = ms > most ? ms : most;
		set_active("cpu");
	}
	TH_LOG("waited for %ld ms at most", most);
	EXPECT_GT(MOST_MS, most);
	EXPECT_LT(0, file_sum_after(CGROUP_PATH "/cpu.stat", "nr_throttled"));

	ASSERT_EQ(0, cgroup_write("cpu.max", "max"));
	EXPECT_EQ(0, storm_end(self->storm));
}

TEST_HARNESS_MAIN
