// SPDX-License-Identifier: GPL-2.0-only
/*
 * What can happen to an engine: it errs, stalls, mixes up, refuses, goes away,
 * is exchanged, or is told something else.
 */
#include <stdlib.h>
#include <unistd.h>

#include "dcbm.h"
#include "offload.h"
#include "torture.h"

#define DRIVER	"/sys/bus/platform/drivers/softdma"

/* --- faults of softdma --- */

static const char * const faults[] = {
	"read_error", "write_error", "residue", "lost_irq", "stall", "late",
	"swap", "prep_null", "ring_full",
};

static long faults_struck(void)
{
	long nr = 0;

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		nr += injected(faults[i]);
	return nr;
}

static const char *err_often(void)
{
	inject("read_error", 7);
	inject("write_error", 11);
	inject("residue", 13);
	return NULL;
}

static const char *stall(void)
{
	inject("stall", 200);
	return NULL;
}

static const char *lose_interrupt(void)
{
	inject("lost_irq", 200);
	return NULL;
}

/* Sooner or later than anybody gives up */
static long release(void)
{
	usleep(rand() % 1000 * 1000);
	softdma_set("stall_release", 1);
	return 0;
}

static const char *disorder(void)
{
	/* Much later than others, much earlier than dcbm gives up */
	softdma_set("late_ms", 20);
	inject("late", 97);
	inject("swap", 2);
	inject("read_error", 17);
	return NULL;
}

static const char *refuse(void)
{
	inject("prep_null", 3);
	return NULL;
}

static const char *fill_ring(void)
{
	inject("ring_full", 5);
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
	int window = rand() % 2048;

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
	{ .name = "engine_error", .begin = err_often, .struck = faults_struck },
	{ .name = "stall", .begin = stall, .strike = release,
	  .struck = faults_struck, .impatient = true },
	{ .name = "lost_interrupt", .begin = lose_interrupt, .strike = release,
	  .struck = faults_struck, .impatient = true },
	{ .name = "wrong_order", .begin = disorder, .struck = faults_struck },
	{ .name = "prep_refuses", .begin = refuse, .struck = faults_struck },
	{ .name = "ring_full", .begin = fill_ring, .struck = faults_struck },
	{ .name = "provider_unbound", .strike = leave },
	{ .name = "module_unload", .strike = unload, .pause_ms = 100 },
	{ .name = "engine_switch", .begin = load_mtcopy, .strike = exchange,
	  .pause_ms = 20 },
	{ .name = "settings", .strike = change_settings, .pause_ms = 10 },
	{}
};
