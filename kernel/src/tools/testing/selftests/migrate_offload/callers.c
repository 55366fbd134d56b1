// SPDX-License-Identifier: GPL-2.0-only
/*
 * Everyone who migrates memory may use the engine, if and only if the setting
 * "reasons" has his reason, and moves every byte either way. What the system
 * calls do is in data.c.
 *
 * Guards rules 5 and 6: these callers hold locks, isolate differently, and
 * allocate differently, and a caller that is masked takes Linux's own path.
 */
#include "../kselftest_harness.h"

#include <linux/mman.h>
#include <sys/mman.h>
#include <time.h>

#include "background.h"
#include "../migrate_common/cgroup.h"
#include "offload.h"
#include "region.h"
#include "uring.h"

#define WAIT_MS		20000

FIXTURE(caller)
{
	int nodes[2];
	struct region region;
};

FIXTURE_VARIANT(caller)
{
	const char *reason;
	/* Make the kernel move memory from nodes[0]; NULL or why it cannot */
	const char *(*provoke)(struct region *r, const int *nodes);
	int from;		/* which of the two nodes is nodes[0] */
	size_t folio;
	size_t size;
	bool alone;		/* it hands over one small folio at a time */
};

static bool wait_until_half_off(struct region *r, int node)
{
	for (int ms = 0; ms < WAIT_MS; ms += 20) {
		if (region_pages_off(r, node) >= r->size / PAGE / 2)
			return true;
		usleep(20000);
	}
	return false;
}

/*
 * Every second run of pages is freed: there is something to compact. Compaction
 * looks for free pages in strides of up to 32, and not in the CPUs' lists,
 * which could hold them all.
 */
#define RUN		(64 * PAGE)
#define PCP_FRACTION	"/proc/sys/vm/percpu_pagelist_high_fraction"

/* Which pages it moves depends on where those of others are */
static const char *compact(struct region *r, const int *nodes)
{
	long moved;
	int error;

	(void)nodes;
	file_write(PCP_FRACTION, "1000000");
	for (size_t at = 0; at < r->size; at += 2 * RUN)
		madvise(r->addr + at, RUN, MADV_DONTNEED);
	file_write(PCP_FRACTION, "0");
	moved = vmstat("pgmigrate_success");
	error = file_write("/proc/sys/vm/compact_memory", "1");
	moved = vmstat("pgmigrate_success") - moved;
	for (size_t at = 0; at < r->size; at += 2 * RUN)
		region_refill(r, at, RUN);
	if (error)
		return "no vm.compact_memory";
	return moved ? NULL : "compaction moved nothing";
}

static const char *soft_offline(struct region *r, const int *nodes)
{
	(void)nodes;
	for (size_t at = 0; at < r->size; at += r->size / 4)
		if (madvise(r->addr + at, PAGE, MADV_SOFT_OFFLINE))
			return "MADV_SOFT_OFFLINE does not work";
	return NULL;
}

#define BLOCKS	"/sys/devices/system/memory"

/*
 * Elsewhere than in ZONE_MOVABLE the kernel would only complain, and so with
 * the last block, where the boot has left something.
 */
static bool block_offline(size_t nr)
{
	char path[128], block[96], zone[64];

	snprintf(path, sizeof(path), BLOCKS "/memory%lu", nr + 1);
	if (access(path, F_OK))
		return false;
	snprintf(block, sizeof(block), BLOCKS "/memory%lu", nr);
	snprintf(path, sizeof(path), "%s/valid_zones", block);
	if (file_read(path, zone, sizeof(zone)) || strcmp(zone, "Movable"))
		return false;
	snprintf(path, sizeof(path), "%s/state", block);
	if (file_write(path, "offline"))
		return false;
	file_write(path, "online_movable");
	return true;
}

/* Take the first memory block that can be taken, of those with our pages */
static const char *unplug(struct region *r, const int *nodes)
{
	char text[32];
	size_t size;

	(void)nodes;
	if (file_read(BLOCKS "/block_size_bytes", text, sizeof(text)))
		return "no memory hotplug";
	size = strtoul(text, NULL, 16);
	for (size_t at = 0; at < r->size; at += r->size / 8)
		if (block_offline(page_frame(r->addr + at) * PAGE / size))
			return NULL;
	return "no memory block can be put offline";
}

#define CMA		"/sys/kernel/debug/cma/reserved"
#define CMA_PAGES	"2048"

/* Take contiguous memory bit by bit, until it is our turn */
static const char *contig(struct region *r, const int *nodes)
{
	size_t last = r->size - PAGE;
	uint64_t frame = page_frame(r->addr + last);
	bool moved = false;
	int taken = 0;

	(void)nodes;
	if (access(CMA, F_OK))
		return "no " CMA ": boot with cma= and CONFIG_CMA_DEBUGFS";
	while (!moved && !file_write(CMA "/alloc", CMA_PAGES)) {
		taken++;
		moved = page_frame(r->addr + last) != frame;
	}
	while (taken--)
		file_write(CMA "/free", CMA_PAGES);
	return moved ? NULL : "the region is not in the contiguous area";
}

/* What is pinned for long must leave ZONE_MOVABLE */
static const char *pin(struct region *r, const int *nodes)
{
	struct ring ring;
	int error;

	(void)nodes;
	if (!ring_possible())
		return "no io_uring";
	ring_open(&ring);
	error = ring_pin(&ring, r->addr, r->size);
	ring_close(&ring);
	return error ? "cannot register a buffer" : NULL;
}

static const char *change_cpuset(struct region *r, const int *nodes)
{
	const char *why = cgroup_enter("cpuset");
	char value[16];

	if (why)
		return why;
	for (int i = 0; i < 2; i++) {
		snprintf(value, sizeof(value), "%d", nodes[i]);
		if (cgroup_write("cpuset.mems", value))
			return "cannot set cpuset.mems";
	}
	if (!wait_until_half_off(r, nodes[0]))
		return "memory did not follow the cpuset";
	cgroup_leave();
	return NULL;
}

static const char *balance(struct region *r, const int *nodes)
{
	bool moved = false;
	const char *why;

	why = node_run_on(nodes[1]) ? balancing_begin() :
	      "no CPU on the other node";
	if (why)
		return why;
	for (time_t end = time(NULL) + WAIT_MS / 1000;
	     !moved && time(NULL) < end;) {
		region_wrong_words(r);
		moved = region_pages_off(r, nodes[0]) > r->size / PAGE / 2;
	}
	balancing_end();
	return moved ? NULL : "memory did not follow the task";
}

static const char *demote(struct region *r, const int *nodes)
{
	const char *why;
	bool moved;

	if (!nodes_have_tiers())
		return "all nodes are equally fast";
	why = cgroup_enter("memory");
	if (why)
		return why;
	/* What was charged before does not count */
	madvise(r->addr, r->size, MADV_DONTNEED);
	node_alloc_on(nodes[0]);
	region_refill(r, 0, r->size);
	node_alloc_on(-1);
	file_write("/sys/kernel/mm/numa/demotion_enabled", "1");
	/* It ends with EAGAIN when there is nothing left to demote */
	cgroup_write("memory.reclaim", "64M");
	moved = wait_until_half_off(r, nodes[0]);
	file_write("/sys/kernel/mm/numa/demotion_enabled", "0");
	cgroup_leave();
	return moved ? NULL : "nothing was demoted";
}

/* All memory between the first and the last frame is called cold */
static const char *damon(struct region *r, const int *nodes)
{
	uint64_t first = UINT64_MAX, last = 0, frame;
	const char *why;
	bool moved;

	for (size_t at = 0; at < r->size; at += PAGE) {
		frame = page_frame(r->addr + at);
		first = frame < first ? frame : first;
		last = frame > last ? frame : last;
	}
	why = damon_begin(first, last, nodes[1]);
	moved = !why && wait_until_half_off(r, nodes[0]);
	damon_end();
	if (why)
		return why;
	return moved ? NULL : "DAMON moved nothing";
}

#define VARIANT_OF(_name, _reason, _provoke, _from, _folio, _size, _alone)	\
FIXTURE_VARIANT_ADD(caller, _name) {					\
	.reason = #_reason, .provoke = _provoke, .from = _from,		\
	.folio = _folio, .size = _size, .alone = _alone,		\
}

#define VARIANT(...)	VARIANT_OF(__VA_ARGS__, false)
/* Small folios one by one: no engine is offered these */
#define VARIANT_ALONE(...)	VARIANT_OF(__VA_ARGS__, true)

/* The last memory of a machine is the likeliest to be movable */
VARIANT(hot_unplug_4k, memory_hotplug, unplug, 1, PAGE, 8 * MIB);
VARIANT(hot_unplug_2m, memory_hotplug, unplug, 1, PMD, 8 * MIB);
VARIANT(longterm_pin_4k, longterm_pin, pin, 1, PAGE, 4 * MIB);
VARIANT(longterm_pin_2m, longterm_pin, pin, 1, PMD, 4 * MIB);
VARIANT(contig_range, contig_range, contig, 0, PAGE, 32 * MIB);
VARIANT(compaction, compaction, compact, 0, PAGE, 16 * MIB);
VARIANT_ALONE(soft_offline, memory_failure, soft_offline, 0, PAGE, 1 * MIB);
VARIANT(cpuset, syscall_or_cpuset, change_cpuset, 0, PAGE, 4 * MIB);
VARIANT_ALONE(balancing_4k, numa_misplaced, balance, 0, PAGE, 1 * MIB);
VARIANT(balancing_2m, numa_misplaced, balance, 0, PMD, 4 * MIB);
VARIANT(demotion, demotion, demote, 0, PAGE, 8 * MIB);
VARIANT(damon, damon, damon, 0, PAGE, 4 * MIB);

FIXTURE_SETUP(caller)
{
	const char *why = offload_use_between(self->nodes, "dcbm");

	if (why)
		SKIP(return, "%s", why);
	/* Most of them hand over few pages at a time */
	offload_set("min_bytes", "%lu", PAGE);
}

FIXTURE_TEARDOWN_PARENT(caller)
{
	cgroup_leave();
	if (!access(OFFLOAD_DIR, F_OK))
		offload_reset();
}

/* Pages that are not where they were */
static size_t moved_pages(struct region *r, const uint64_t *frames)
{
	uint64_t *now = page_frames(r->addr, r->size);
	size_t moved = 0;

	for (size_t i = 0; i < r->size / PAGE; i++)
		moved += now[i] != frames[i];
	free(now);
	return moved;
}

static const char *provoke(struct __test_metadata *_metadata,
			   FIXTURE_DATA(caller) *self,
			   const FIXTURE_VARIANT(caller) *variant,
			   struct offload_stats *grew)
{
	uint64_t *frames;
	int nodes[2] = {
		self->nodes[variant->from], self->nodes[!variant->from]
	};
	struct region *r = &self->region;
	struct offload_stats before;
	const char *why;

	why = region_create(r, ANON, variant->folio, variant->size, nodes[0]);
	if (why)
		return why;
	frames = page_frames(r->addr, r->size);
	before = offload_stats(NULL);
	why = variant->provoke(r, nodes);
	*grew = offload_stats(&before);
	EXPECT_EQ(0, region_wrong_words(r));
	if (!why && !moved_pages(r, frames))
		why = "the kernel moved nothing, with or without an engine";
	region_destroy(r);
	free(frames);
	return why;
}

TEST_F_TIMEOUT(caller, uses_the_engine_only_if_its_reason_is_allowed, 120)
{
	struct offload_stats allowed, masked;
	const char *why, *why_masked;

	offload_set("reasons", "%s", variant->reason);
	why = provoke(_metadata, self, variant, &allowed);
	/* A reason that nobody has just now */
	offload_set("reasons", "mempolicy_mbind");
	why_masked = provoke(_metadata, self, variant, &masked);
	if (why && why_masked)
		SKIP(return, "%s", why);
	EXPECT_EQ(NULL, why);
	if (variant->alone) {
		EXPECT_EQ(0, allowed.calls);
	} else {
		EXPECT_LT(0, allowed.calls);
		EXPECT_LT(0, allowed.bytes);
	}
	EXPECT_EQ(0, allowed.fallback_error);
	EXPECT_EQ(0, masked.calls);
}

TEST_HARNESS_MAIN
