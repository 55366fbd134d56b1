// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../migrate_common/memory.h"
#include "offload.h"

static const char *offload_path(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), OFFLOAD_DIR "/%s", name);
	return path;
}

int offload_try(const char *name, const char *value)
{
	return file_write(offload_path(name), value);
}

void offload_set(const char *name, const char *format, ...)
{
	char value[256];
	va_list args;
	int error;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	error = offload_try(name, value);
	if (error)
		errx(1, "cannot write '%s' to %s: %s", value,
		     offload_path(name), strerror(-error));
}

void offload_get(const char *name, char *buf, size_t size)
{
	if (file_read(offload_path(name), buf, size))
		err(1, "cannot read %s", offload_path(name));
}

/* An engine that is slow since the host is busy is not what most tests are about */
#define PATIENT_MS	"60000"

static void rely_on_engine(void)
{
	offload_set("deadline_ms", PATIENT_MS);
	offload_set("engine_always", "1");
}

struct offload_stats offload_stats(const struct offload_stats *since)
{
	static const struct {
		const char *name;
		size_t offset;
	} files[] = {
#define STAT(name) { "stats/" #name, offsetof(struct offload_stats, name) }
		STAT(calls), STAT(folios), STAT(bytes), STAT(fallback_kind),
		STAT(fallback_refs), STAT(fallback_busy), STAT(fallback_error),
		STAT(left), STAT(quarantined_bytes),
#undef STAT
	};
	struct offload_stats stats = {};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		long *value = (void *)&stats + files[i].offset;

		*value = file_read_long(offload_path(files[i].name));
		if (since)
			*value -= *(long *)((void *)since + files[i].offset);
	}
	return stats;
}

void offload_reset(void)
{
	static const char * const numbers[] = {
		"min_bytes", "target_us", "chunk_pages", "window_pages",
		"stripe_bytes", "deadline_ms", "engine_always",
		"inaccessible_enabled",
	};
	static const char * const faults[] = {
		"read_error", "write_error", "residue", "lost_irq", "stall",
		"late", "swap", "prep_null", "ring_full",
	};
	char name[64];

	offload_set("active", "none");
	offload_set("reasons", "all");
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		offload_set(numbers[i], "0");
	if (!module_loaded("softdma"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		snprintf(name, sizeof(name), "%s_every", faults[i]);
		softdma_set(name, 0);
	}
	softdma_set("stall_release", 1);
	softdma_set("latency_ns", 0);
	softdma_set("mbps", 0);
}

bool module_loaded(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/module/%s/refcnt", name);
	return !access(path, F_OK);
}

int module_load(const char *name, const char *params)
{
	if (module_loaded(name))
		return -EEXIST;
	return run("modprobe %s %s", name, params) ? -ENOENT : 0;
}

int module_unload(const char *name, unsigned int wait_ms)
{
	for (unsigned int ms = 0;; ms += 10) {
		if (!syscall(SYS_delete_module, name, O_NONBLOCK))
			return 0;
		if (errno != EWOULDBLOCK || ms >= wait_ms)
			return -errno;
		usleep(10000);
	}
}

const char *offload_use(const char *engine)
{
	bool dcbm = !strcmp(engine, "dcbm");
	static char why[128];

	if (access(OFFLOAD_DIR, F_OK))
		return "this kernel has no " OFFLOAD_DIR;
	/* Room for a window of small folios, however slow the machine is */
	if (dcbm && !module_loaded("softdma") &&
	    module_load("softdma", "ring=1024"))
		return "no module softdma";
	if (strcmp(engine, "cpu") && !module_loaded(engine) &&
	    module_load(engine, dcbm ? "queue_depth=1024" : "")) {
		snprintf(why, sizeof(why), "no module %s", engine);
		return why;
	}
	offload_set("active", "%s", engine);
	rely_on_engine();
	return NULL;
}

const char *offload_use_between(int nodes[2], const char *engine)
{
	if (!nodes_find(nodes))
		return "one node with memory only";
	return offload_use(engine);
}

const char *offload_use_loaded(const char *engine)
{
	static char why[128];
	int error;

	error = offload_try("active", engine);
	if (error) {
		snprintf(why, sizeof(why), "engine %s: %s", engine,
			 strerror(-error));
		return why;
	}
	rely_on_engine();
	return NULL;
}

const char *offload_use_dcbm(const char *softdma_params, const char *dcbm_params)
{
	if (access(OFFLOAD_DIR, F_OK))
		return "this kernel has no " OFFLOAD_DIR;
	offload_unload();
	if (module_load("softdma", softdma_params))
		return "no module softdma";
	if (module_load("dcbm", dcbm_params))
		return "no module dcbm";
	offload_set("active", "dcbm");
	rely_on_engine();
	return NULL;
}

void offload_unload(void)
{
	static const char * const modules[] = { "dcbm", "mtcopy", "softdma" };
	int error;

	offload_set("active", "none");
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++) {
		if (!module_loaded(modules[i]))
			continue;
		error = module_unload(modules[i], 10000);
		if (error)
			errx(1, "cannot unload %s: %s", modules[i],
			     strerror(-error));
	}
}

void softdma_set(const char *name, unsigned int value)
{
	char path[256];
	int error;

	snprintf(path, sizeof(path), SOFTDMA_DIR "/%s", name);
	error = file_write_long(path, value);
	if (error)
		errx(1, "cannot write %u to %s: %s", value, path,
		     strerror(-error));
}

long softdma_get(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), SOFTDMA_DIR "/%s", name);
	return file_read_long(path);
}
