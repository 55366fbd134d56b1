// SPDX-License-Identifier: GPL-2.0-only
/*
 * What can happen to an engine: it errs, stalls, mixes up, refuses, goes away,
 * is exchanged, or is told something else.
 */
#include <stdlib.h>
#include <unistd.h>

#include "offload.h"
#include "torture.h"

#define DRIVER	"/sys/bus/platform/drivers/softdma"

/* Sooner or later than anybody gives up */
static long release(void)
{
	usleep(rand() % 1000 * 1000);
	softdma_set("stall_release", 1);
	return 0;
}

/* Much later than others, much earlier than dcbm gives up */
static const char *hurry(void)
{
	softdma_set("late_ms", 20);
	return NULL;
}

/* --- its life --- */

/* A provider that is back is taken when dcbm becomes active again */
static long leave(void)
{
	bool failed;

	usleep(rand() % 300 * 1000);
	failed = file_write(DRIVER "/unbind", "softdma.0");
	usleep(rand() % 100 * 1000);
	failed |= file_write(DRIVER "/bind", "softdma.0") ||
		  offload_try("active", "none") || offload_try("active", "dcbm");
	return torture_mistake(failed, "softdma cannot be bound again");
}

static long unload(void)
{
	const char *why = torture_use_dcbm();

	return torture_mistake(!!why, "%s", why);
}

static long exchange(void)
{
	static const char * const engines[] = { "none", "cpu", "mtcopy", "dcbm" };
	const char *engine = engines[rand() % ARRAY_SIZE(engines)];

	return torture_mistake(!!offload_try("active", engine),
			       "%s cannot be made active", engine);
}

static const char *load_mtcopy(void)
{
	return module_loaded("mtcopy") || !module_load("mtcopy", "") ? NULL :
	       "no module mtcopy";
}

static long change_settings(void)
{
	/* Not inaccessible_enabled: it is a static branch */
	static const char * const reasons[] = {
		"all", "syscall_or_cpuset", "mempolicy_mbind numa_misplaced",
	};
	int window = rand() % 2 ? rand() % 2048 : 0;

	offload_set("engine_always", "%d", rand() % 2);
	offload_set("target_us", "%d", rand() % 2000);
	/* A chunk is never larger than the window */
	offload_set("chunk_pages", "0");
	offload_set("window_pages", "%d", window);
	offload_set("chunk_pages", "%d", window ? rand() % window : 0);
	offload_set("stripe_bytes", "%d", rand() % 2 ? 0 : 4096 << rand() % 10);
	offload_set("min_bytes", "%d", 4096 << rand() % 6);
	offload_set("reasons", "%s", reasons[rand() % ARRAY_SIZE(reasons)]);
	return 0;
}

const struct torture_class torture_engine[] = {
	{ .name = "engine_error",
	  .faults = { { "read_error", 7 }, { "write_error", 11 }, { "residue", 13 } } },
	{ .name = "stall", .faults = { { "stall", 200 } }, .strike = release,
	  .impatient = true },
	{ .name = "lost_interrupt", .faults = { { "lost_irq", 200 } },
	  .strike = release, .impatient = true },
	{ .name = "wrong_order", .begin = hurry,
	  .faults = { { "swap", 2 }, { "late", 97 }, { "read_error", 17 } } },
	{ .name = "prep_refuses", .faults = { { "prep_null", 3 } } },
	{ .name = "ring_full", .faults = { { "ring_full", 5 } } },
	{ .name = "provider_unbound", .strike = leave, .dcbm = true },
	{ .name = "module_unload", .strike = unload, .pause_ms = 100, .dcbm = true },
	{ .name = "engine_switch", .begin = load_mtcopy, .strike = exchange,
	  .pause_ms = 20, .dcbm = true },
	{ .name = "settings", .strike = change_settings, .pause_ms = 10 },
	{}
};
