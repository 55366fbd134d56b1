/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The copy offload as user space sees it: settings, counters, engines.
 *
 * What cannot fail in a sane test machine ends the test with a message.
 */
#ifndef MIGRATE_OFFLOAD_OFFLOAD_H
#define MIGRATE_OFFLOAD_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "../migrate_common/system.h"

#define OFFLOAD_DIR	"/sys/kernel/mm/migrate_offload"
#define SOFTDMA_DIR	"/sys/module/softdma/parameters"

/* The counters of stats/; each but window_max_pages only grows */
struct offload_stats {
	long calls;
	long folios;
	long bytes;
	long fallback_kind;
	long fallback_refs;
	long fallback_busy;
	long fallback_error;
	long left;
	long quarantined_bytes;
};

/* Any file of OFFLOAD_DIR: 0 or -errno */
int offload_try(const char *name, const char *value);
/* The same, but it must work */
__printf(2, 3)
void offload_set(const char *name, const char *format, ...);
void offload_get(const char *name, char *buf, size_t size);

/* What the counters have grown by since @since; all of them if it is NULL */
struct offload_stats offload_stats(const struct offload_stats *since);

/* No migrator active, all settings at their defaults, no fault in softdma */
void offload_reset(void);

/*
 * Load what the engine needs and make it active: it then copies all that it can,
 * however slow it is. NULL, or the unmet need.
 */
const char *offload_use(const char *engine);
/* The same, if there are two @nodes to move memory between */
const char *offload_use_between(int nodes[2], const char *engine);
/* The same as offload_use() for one that has registered already, whatever it is */
const char *offload_use_loaded(const char *engine);
/* The same for dcbm, loaded anew, with the modules' parameters */
const char *offload_use_dcbm(const char *softdma_params, const char *dcbm_params);
/* Unload all engines that are modules; those of lost copies take a moment */
void offload_unload(void);

bool module_loaded(const char *name);
/* 0 or -errno; dependencies and @params as in modprobe(8) */
int module_load(const char *name, const char *params);
/* Try again for so long while it is in use */
int module_unload(const char *name, unsigned int wait_ms);

void softdma_set(const char *name, unsigned int value);
long softdma_get(const char *name);

#endif /* MIGRATE_OFFLOAD_OFFLOAD_H */
