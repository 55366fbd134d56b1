// SPDX-License-Identifier: GPL-2.0-only
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "background.h"
#include "offload.h"
#include "region.h"

#define DAMON	"/sys/kernel/mm/damon/admin/kdamonds"
#define CONTEXT	"0/contexts/0/"
#define SCHEME	CONTEXT "schemes/0/"
#define TARGET	CONTEXT "targets/0/regions/"

__printf(2, 3)
static int damon_set(const char *name, const char *format, ...)
{
	char path[256], value[64];
	va_list args;

	snprintf(path, sizeof(path), DAMON "/%s", name);
	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	return file_write(path, value);
}

const char *damon_begin(uint64_t first, uint64_t last, int node)
{
	int error = 0;

	if (damon_set("nr_kdamonds", "1"))
		return "no DAMON in sysfs";
	error |= damon_set("0/contexts/nr_contexts", "1");
	error |= damon_set(CONTEXT "operations", "paddr");
	error |= damon_set(CONTEXT "monitoring_attrs/intervals/sample_us", "5000");
	error |= damon_set(CONTEXT "monitoring_attrs/intervals/aggr_us", "50000");
	error |= damon_set(CONTEXT "targets/nr_targets", "1");
	error |= damon_set(TARGET "nr_regions", "1");
	error |= damon_set(TARGET "0/start", "%lu", first * PAGE);
	error |= damon_set(TARGET "0/end", "%lu", (last + 1) * PAGE);
	error |= damon_set(CONTEXT "schemes/nr_schemes", "1");
	error |= damon_set(SCHEME "action", "migrate_cold");
	error |= damon_set(SCHEME "target_nid", "%d", node);
	error |= damon_set(SCHEME "access_pattern/sz/max", "%lu", 1UL << 40);
	error |= damon_set(SCHEME "access_pattern/nr_accesses/max", "1000");
	error |= damon_set(SCHEME "access_pattern/age/max", "1000");
	error |= damon_set("0/state", "on");
	return error ? "DAMON has no migrate_cold" : NULL;
}

long damon_moved(void)
{
	damon_set("0/state", "update_schemes_stats");
	return file_read_long(DAMON "/" SCHEME "stats/sz_applied");
}

void damon_end(void)
{
	damon_set("0/state", "off");
	damon_set("nr_kdamonds", "0");
}
