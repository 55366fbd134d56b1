// SPDX-License-Identifier: GPL-2.0
/* What the kernel has promoted and demoted by itself, and how long its threads ran. NUMA
 * balancing and reclaim count in /proc/vmstat, DAMON's schemes in sysfs.
 */
#define _GNU_SOURCE
#include "tierbench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KDAMONDS "/sys/kernel/mm/damon/admin/kdamonds"
#define UPDATE "update_schemes_stats"

/* Process time of a process, be it a thread of the kernel's; 0 if there is none */
static uint64_t cpu_of(int pid)
{
	clockid_t clock;

	return pid > 0 && !clock_getcpuclockid(pid, &clock) ? clock_ns(clock) : 0;
}

/* A file of a kernel thread of DAMON's; false if there is none. */
static bool damon_reads(char *text, size_t size, unsigned int thread, const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), KDAMONDS "/%u/%s", thread, file);
	return !read_text(path, text, size);
}

/* The thread has its numbers written down once it has ended its sleep. */
static void damon_update(unsigned int thread)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), KDAMONDS "/%u/state", thread);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, UPDATE, strlen(UPDATE)) < 0)
		die(EXIT_CANNOT_RUN, "DAMON does not say what it has moved: %s: %m", path);
	close(fd);
}

/* Each thread has one scheme, which moves memory to one node. */
static void damon_add(struct counters *c)
{
	unsigned int thread;
	char text[64];

	for (thread = 0; damon_reads(text, sizeof(text), thread, "pid"); thread++) {
		int pid = atoi(text);
		uint64_t *to = &c->demoted;

		if (pid <= 0)
			continue;
		damon_update(thread);
		c->kdamond_ns += cpu_of(pid);
		if (damon_reads(text, sizeof(text), thread, "contexts/0/schemes/0/action") &&
		    !strcmp(text, "migrate_hot"))
			to = &c->promoted;
		if (damon_reads(text, sizeof(text), thread, "contexts/0/schemes/0/stats/sz_applied"))
			*to += strtoul(text, NULL, 10) / PAGE_BYTES;
	}
}

struct counters counters_read(void)
{
	const char *server = getenv("SERVER_PID"), *kswapd = getenv("KSWAPD_PID");
	struct counters c = {
		.server_ns = cpu_of(server ? atoi(server) : 0),
		.kswapd_ns = cpu_of(kswapd ? atoi(kswapd) : 0),
		.promoted = vmstat("pgpromote_success"),
		.demoted = vmstat("pgdemote_kswapd") + vmstat("pgdemote_direct") +
			   vmstat("pgdemote_khugepaged") + vmstat("pgdemote_proactive"),
	};

	damon_add(&c);
	return c;
}

/* What has been counted between the two, in the middle of a report. */
void counters_print(const struct counters *before, const struct counters *after)
{
	printf(", \"promoted\": %lu, \"demoted\": %lu, \"server_ns\": %lu, \"kswapd_ns\": %lu",
	       after->promoted - before->promoted, after->demoted - before->demoted,
	       after->server_ns - before->server_ns, after->kswapd_ns - before->kswapd_ns);
	printf(", \"kdamond_ns\": %lu", after->kdamond_ns - before->kdamond_ns);
}
