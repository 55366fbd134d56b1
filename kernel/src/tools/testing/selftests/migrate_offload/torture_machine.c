// SPDX-License-Identifier: GPL-2.0-only
/*
 * What can happen to a machine: CPUs and memory come and go, time and memory
 * are short.
 */
#define _GNU_SOURCE
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../migrate_common/cgroup.h"
#include "offload.h"
#include "../migrate_common/scratch.h"
#include "torture.h"

/* --- CPUs --- */

#define CPU1	"/sys/devices/system/cpu/cpu1/online"

static const char *have_cpu1(void)
{
	return access(CPU1, W_OK) ? "no CPU that can be put offline" : NULL;
}

static long unplug_cpu(void)
{
	bool failed = file_write(CPU1, "0");

	usleep(rand() % 50 * 1000);
	failed |= !!file_write(CPU1, "1");
	return torture_mistake(failed, "CPU 1 did not go or come back");
}

static void plug_cpu(void)
{
	file_write(CPU1, "1");
}

static const char *enter_cpu(void)
{
	const char *why = cgroup_enter("cpu");

	if (!why && cgroup_write("cpu.max", "max 50000"))
		why = "no cpu.max";
	return why;
}

/* This one is throttled, too */
static long throttle(void)
{
	bool failed = cgroup_write("cpu.max", "5000 50000");

	usleep(200000);
	failed |= !!cgroup_write("cpu.max", "max 50000");
	return torture_mistake(failed, "cpu.max cannot be written");
}

/* --- memory that is not to be had --- */

#define TIMES	100000000L

static char knob[64];

static void fault_set(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", knob, name);
	file_write(path, value);
}

static const char *begin_fault(const char *what, const char *probability)
{
	char times[16];

	snprintf(knob, sizeof(knob), "/sys/kernel/debug/%s", what);
	if (!debugfs_has(knob))
		return "no such fault in this kernel";
	/* Those who cannot wait, and these processes alone */
	fault_set("verbose", "0");
	fault_set("task-filter", "Y");
	fault_set("min-order", "0");
	/* Nearly all that can migrate is highmem to the allocator */
	fault_set("ignore-gfp-highmem", "N");
	fault_set("interval", "1");
	snprintf(times, sizeof(times), "%ld", TIMES);
	fault_set("times", times);
	fault_set("probability", probability);
	return file_write("/proc/self/make-it-fail", "1") ?
	       "no /proc/self/make-it-fail" : NULL;
}

static const char *fail_slab(void)
{
	return begin_fault("failslab", "10");
}

static const char *fail_page_alloc(void)
{
	return begin_fault("fail_page_alloc", "20");
}

static long allocations_failed(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/times", knob);
	return TIMES - file_read_long(path);
}

static void fail_no_more(void)
{
	file_write("/proc/self/make-it-fail", "0");
	fault_set("probability", "0");
	fault_set("task-filter", "N");
}

/* --- memory that is short --- */

#define SWAP	"/mnt/swap"

static long swapped_before;

/* Its pages exist before the limit does, and belong to nobody in the group */
static const char *make_swap(void)
{
	const char *why = NULL;

	if (!scratch_mount("tmpfs", "", &why))
		return why;
	if (run("fallocate -l 96M " SWAP) ||
	    run("losetup -f --show " SWAP " >/mnt/dev") ||
	    run("mkswap $(cat /mnt/dev) && swapon $(cat /mnt/dev)") ||
	    run("losetup -d $(cat /mnt/dev)"))
		return "no swap to be had";
	swapped_before = vmstat("pswpout");
	return cgroup_enter("memory");
}

static long squeeze(void)
{
	cgroup_write("memory.high", "24M");
	cgroup_write("memory.reclaim", "8M");
	usleep(100000);
	cgroup_write("memory.high", "max");
	return 0;
}

static long pages_swapped(void)
{
	return vmstat("pswpout") - swapped_before;
}

static void end_swap(void)
{
	cgroup_leave();
	run("swapoff $(cat /mnt/dev)");
}

/* --- memory that goes --- */

/*
 * Any block of the second node whose pages can all move, but the last, where
 * the boot has left something
 */
static bool movable_block(char path[128])
{
	char pattern[128], zones[64], *names[64];
	size_t nr = 0;
	glob_t blocks;

	snprintf(pattern, sizeof(pattern),
		 "/sys/devices/system/node/node%d/memory*/valid_zones",
		 torture_nodes[1]);
	if (glob(pattern, 0, NULL, &blocks))
		return false;
	for (size_t i = 0; i + 1 < blocks.gl_pathc && nr < ARRAY_SIZE(names); i++)
		if (!file_read(blocks.gl_pathv[i], zones, sizeof(zones)) &&
		    !strcmp(zones, "Movable"))
			names[nr++] = blocks.gl_pathv[i];
	if (nr) {
		const char *name = names[rand() % nr];

		snprintf(path, 128, "%.*s/state",
			 (int)(strrchr(name, '/') - name), name);
	}
	globfree(&blocks);
	return nr;
}

static const char *have_block(void)
{
	char path[128];

	return movable_block(path) ? NULL : "no memory block can be put offline";
}

/* Others may hold a page of it; then it stays, which is no mistake */
static long unplug_memory(void)
{
	char path[128];

	if (!movable_block(path) || file_write(path, "offline"))
		return TORTURE_MISSED;
	return torture_mistake(!!file_write(path, "online_movable"),
			       "%s cannot be put online again", path);
}

const struct torture_class torture_machine[] = {
	{ .name = "cpu_hotplug", .begin = have_cpu1, .strike = unplug_cpu,
	  .end = plug_cpu, .pause_ms = 50 },
	{ .name = "cpu_throttled", .begin = enter_cpu, .strike = throttle,
	  .end = cgroup_leave, .pause_ms = 200 },
	{ .name = "slab_fails", .begin = fail_slab, .struck = allocations_failed,
	  .end = fail_no_more },
	{ .name = "page_alloc_fails", .begin = fail_page_alloc,
	  .struck = allocations_failed, .end = fail_no_more },
	{ .name = "memory_pressure", .begin = make_swap, .strike = squeeze,
	  .struck = pages_swapped, .end = end_swap, .pause_ms = 50 },
	{ .name = "memory_unplug", .begin = have_block, .strike = unplug_memory,
	  .pause_ms = 50 },
	{}
};
