// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings mean what Documentation/ABI says, and a refused one changes nothing.
 *
 * Guards rule 6 (with no migrator active, and for small calls, Linux takes its
 * own path) and rule 7 (the window is bounded, always). The first test expects
 * a machine whose settings nobody has changed yet.
 */
#include "../kselftest_harness.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "../migrate_common/events.h"
#include "offload.h"
#include "region.h"

#define MAX_WINDOW	262144L	/* pages */
#define SIZE		(1 * MIB)
#define NR_BUCKETS	24	/* of inaccessible_us */
#define ALL_REASONS	"compaction memory_failure memory_hotplug syscall_or_cpuset mempolicy_mbind numa_misplaced contig_range longterm_pin demotion damon"

static const char * const settings[] = {
	"active", "reasons", "min_bytes", "target_us", "window_pages", "chunk_pages",
	"stripe_bytes", "deadline_ms", "engine_always", "inaccessible_enabled",
};

FIXTURE(sysfs)
{
	int nodes[2];
	struct region region;
};

FIXTURE_SETUP(sysfs)
{
	if (access(OFFLOAD_DIR, F_OK))
		SKIP(return, "this kernel has no " OFFLOAD_DIR);
	if (!nodes_find(self->nodes))
		SKIP(return, "one node with memory only");
}

FIXTURE_TEARDOWN_PARENT(sysfs)
{
	offload_reset();
}

TEST_F(sysfs, defaults_are_none_all_and_auto)
{
	static const struct {
		const char *name, *value;
	} defaults[] = {
		{ "active", "none" },
		{ "min_bytes", "0" },
		{ "target_us", "0" },
		{ "window_pages", "0" },
		{ "chunk_pages", "0" },
		{ "stripe_bytes", "0" },
		{ "deadline_ms", "0" },
		{ "engine_always", "0" },
		{ "in_service", "0" },
		{ "inaccessible_enabled", "0" },
		{ "reasons", ALL_REASONS },
	};
	char value[256];

	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
		offload_get(defaults[i].name, value, sizeof(value));
		EXPECT_STREQ(defaults[i].value, value);
	}
	offload_get("available", value, sizeof(value));
	EXPECT_EQ(0, strncmp(value, "cpu", 3));
}

static int nr_files, nr_unreadable, nr_wrong_mode;

static int check_file(const char *path, const struct stat *st, int type)
{
	char buf[4096];

	if (type != FTW_F)
		return 0;
	nr_files++;
	if (file_read(path, buf, sizeof(buf)) || !*buf)
		nr_unreadable++;
	if (!(st->st_mode & 0222) && file_write(path, "0") != -EACCES)
		nr_wrong_mode++;
	return 0;
}

TEST_F(sysfs, every_file_is_readable_and_counters_are_read_only)
{
	ASSERT_EQ(0, ftw(OFFLOAD_DIR, check_file, 16));
	/* 11 files, 10 counters, 4 for each migrator */
	EXPECT_GE(nr_files, 25);
	EXPECT_EQ(0, nr_unreadable);
	EXPECT_EQ(0, nr_wrong_mode);
}

struct refusal {
	const char *name, *value;
	int error;
};

static void check_refusal(struct __test_metadata *_metadata,
			  const struct refusal *bad)
{
	char before[ARRAY_SIZE(settings)][256], after[256];

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		offload_get(settings[i], before[i], sizeof(before[i]));
	EXPECT_EQ(bad->error, offload_try(bad->name, bad->value)) {
		TH_LOG("'%s' was written to %s", bad->value, bad->name);
	}
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		offload_get(settings[i], after, sizeof(after));
		EXPECT_STREQ(before[i], after);
	}
}

TEST_F(sysfs, bad_value_is_refused_and_changes_nothing)
{
	static const struct refusal bad[] = {
		{ "active", "nonesuch", -ENOENT },
		{ "active", "\n", -ENOENT },
		{ "active", "cpu cpu", -ENOENT },
		{ "active", "a_name_of_32_characters_or_more_x", -ENOENT },
		{ "reasons", "nonesuch", -EINVAL },
		{ "reasons", "compaction nonesuch", -EINVAL },
		{ "reasons", "all,compaction", -EINVAL },
		{ "min_bytes", "-1", -EINVAL },
		{ "min_bytes", "4096 8192", -EINVAL },
		{ "target_us", "1000001", -EINVAL },
		{ "engine_always", "2", -EINVAL },
		{ "window_pages", "many", -EINVAL },
		{ "window_pages", "262145", -EINVAL },
		{ "chunk_pages", "262145", -EINVAL },
		{ "chunk_pages", "\n", -EINVAL },
		{ "stripe_bytes", "4095", -EINVAL },
		{ "stripe_bytes", "4097", -EINVAL },
		{ "deadline_ms", "60001", -EINVAL },
		{ "inaccessible_enabled", "2", -EINVAL },
	};

	/* Both with an engine that has to be set up anew, and without */
	for (int i = 0; i < 2; i++) {
		offload_set("active", i ? "cpu" : "none");
		offload_set("reasons", "compaction damon");
		offload_set("min_bytes", "12288");
		for (size_t j = 0; j < ARRAY_SIZE(bad); j++)
			check_refusal(_metadata, &bad[j]);
	}
}

TEST_F(sysfs, chunk_must_fit_into_window_in_any_order)
{
	static const struct refusal large_chunk = {
		"chunk_pages", "65", -EINVAL
	}, small_window = {
		"window_pages", "31", -EINVAL
	};

	offload_set("window_pages", "64");
	check_refusal(_metadata, &large_chunk);
	EXPECT_EQ(0, offload_try("chunk_pages", "64"));
	EXPECT_EQ(0, offload_try("chunk_pages", "32"));
	check_refusal(_metadata, &small_window);
	EXPECT_EQ(0, offload_try("window_pages", "32"));
	EXPECT_EQ(0, offload_try("window_pages", "0"));
	EXPECT_EQ(0, offload_try("chunk_pages", "65"));
}

TEST_F(sysfs, largest_and_smallest_values_are_taken)
{
	char value[64], want[64];

	offload_set("active", "cpu");
	snprintf(want, sizeof(want), "%ld", MAX_WINDOW);
	offload_set("window_pages", "%s", want);
	offload_get("window_pages", value, sizeof(value));
	EXPECT_STREQ(want, value);
	EXPECT_EQ(0, offload_try("chunk_pages", want));
	EXPECT_EQ(0, offload_try("chunk_pages", "1"));
	EXPECT_EQ(0, offload_try("window_pages", "1"));
	EXPECT_EQ(0, offload_try("target_us", "1000000"));
	EXPECT_EQ(0, offload_try("target_us", "1"));
	EXPECT_EQ(0, offload_try("stripe_bytes", "4096"));
	EXPECT_EQ(0, offload_try("min_bytes", "0x1000"));
	offload_get("min_bytes", value, sizeof(value));
	EXPECT_STREQ("4096", value);
}

TEST_F(sysfs, reasons_read_back_as_written)
{
	char value[256];

	offload_set("reasons", "damon  compaction");
	offload_get("reasons", value, sizeof(value));
	EXPECT_STREQ("compaction damon", value);
	offload_set("reasons", "none");
	offload_get("reasons", value, sizeof(value));
	EXPECT_STREQ("none", value);
}

/* --- what the settings do --- */

static struct offload_stats move_stats(struct __test_metadata *_metadata,
				       FIXTURE_DATA(sysfs) *self, size_t size)
{
	struct offload_stats before, grew;
	const char *why;
	int *nodes = self->nodes;

	why = region_create(&self->region, ANON, PAGE, size, nodes[0]);
	ASSERT_EQ(NULL, why) TH_LOG("%s", why);
	before = offload_stats(NULL);
	EXPECT_EQ(0, region_move(&self->region, MOVE_PAGES, nodes[0], nodes[1]));
	grew = offload_stats(&before);
	EXPECT_EQ(0, region_wrong_words(&self->region));
	EXPECT_EQ(0, region_pages_off(&self->region, nodes[1]));
	region_destroy(&self->region);
	return grew;
}

TEST_F(sysfs, nothing_is_counted_while_none_is_active)
{
	static const struct offload_stats nothing;
	struct offload_stats grew;

	offload_set("min_bytes", "1");
	grew = move_stats(_metadata, self, SIZE);
	EXPECT_EQ(0, memcmp(&nothing, &grew, sizeof(grew)));
}

TEST_F(sysfs, calls_below_min_bytes_take_linux_path)
{
	offload_set("reasons", "syscall_or_cpuset");
	offload_set("active", "cpu");

	/* auto is at least 256 KiB */
	EXPECT_EQ(0, move_stats(_metadata, self, 252 * KIB).calls);
	EXPECT_EQ(1, move_stats(_metadata, self, 256 * KIB).calls);
	offload_set("min_bytes", "16385");
	EXPECT_EQ(0, move_stats(_metadata, self, 16 * KIB).calls);
	offload_set("min_bytes", "16384");
	EXPECT_EQ(1, move_stats(_metadata, self, 16 * KIB).calls);
}

TEST_F(sysfs, masked_reason_takes_linux_path)
{
	offload_set("active", "cpu");
	offload_set("reasons", "compaction mempolicy_mbind damon");
	EXPECT_EQ(0, move_stats(_metadata, self, SIZE).bytes);
	offload_set("reasons", "syscall_or_cpuset");
	EXPECT_LT(0, move_stats(_metadata, self, SIZE).bytes);
}

/* -1: it is not one line of so many numbers as the ABI says */
static long histogram_sum(void)
{
	FILE *f = fopen(OFFLOAD_DIR "/inaccessible_us", "r");
	long count, sum = 0;
	int nr = 0;
	char after;

	while (f && fscanf(f, "%ld%c", &count, &after) == 2) {
		sum += count;
		nr++;
		if (after != (nr == NR_BUCKETS ? '\n' : ' '))
			break;
	}
	if (f && fgetc(f) != EOF)
		nr = 0;
	if (f)
		fclose(f);
	return nr == NR_BUCKETS ? sum : -1;
}

TEST_F(sysfs, inaccessible_time_is_recorded_only_when_enabled)
{
	long before;

	offload_set("active", "cpu");
	offload_set("reasons", "syscall_or_cpuset");
	before = histogram_sum();
	ASSERT_LE(0, before);
	move_stats(_metadata, self, SIZE);
	EXPECT_EQ(before, histogram_sum());
	offload_set("inaccessible_enabled", "1");
	move_stats(_metadata, self, SIZE);
	EXPECT_EQ(before + SIZE / PAGE, histogram_sum());
}

/* --- the window --- */

FIXTURE(window)
{
	int nodes[2];
	struct region region;
};

FIXTURE_VARIANT(window)
{
	size_t folio;
	long window;
	long chunk;
	long max;
};

FIXTURE_VARIANT_ADD(window, of_4k) {
	.folio = PAGE, .window = 64, .chunk = 16, .max = 64,
};

FIXTURE_VARIANT_ADD(window, of_one_page) {
	.folio = PAGE, .window = 1, .chunk = 1, .max = 1,
};

FIXTURE_VARIANT_ADD(window, of_64k) {
	.folio = 64 * KIB, .window = 40, .chunk = 16, .max = 32,
};

/* Nor by the chunk that is being filled, with nothing else in flight */
FIXTURE_VARIANT_ADD(window, of_one_chunk) {
	.folio = 64 * KIB, .window = 40, .chunk = 40, .max = 32,
};

/* A folio that is larger than the window goes alone */
FIXTURE_VARIANT_ADD(window, of_2m) {
	.folio = PMD, .window = 64, .chunk = 16, .max = 512,
};

FIXTURE_SETUP(window)
{
	const char *why = offload_use_between(self->nodes, "dcbm");

	if (why)
		SKIP(return, "%s", why);
	why = region_create(&self->region, ANON, variant->folio,
			    variant->folio == PMD ? 2 * PMD : SIZE,
			    self->nodes[0]);
	if (!why && !events_start("migrate_offload", false))
		why = "no events/migrate_offload in tracefs";
	if (why) {
		offload_reset();
		SKIP(return, "%s", why);
	}
}

FIXTURE_TEARDOWN_PARENT(window)
{
	offload_reset();
	events_stop();
}

TEST_F(window, is_used_and_never_exceeded)
{
	offload_set("window_pages", "%ld", variant->window);
	offload_set("chunk_pages", "%ld", variant->chunk);
	/* The engine is slow enough for the window to fill */
	softdma_set("latency_ns", 1000000);
	EXPECT_EQ(0, region_move(&self->region, MOVE_PAGES, self->nodes[0],
				 self->nodes[1]));
	EXPECT_EQ(0, region_wrong_words(&self->region));
	EXPECT_EQ(0, region_pages_off(&self->region, self->nodes[1]));
	EXPECT_EQ(variant->max,
		  events_max("migrate_offload_submit:", "window_pages="));
}

TEST_HARNESS_MAIN
