// SPDX-License-Identifier: GPL-2.0
/* Reclaim demotes what is cold to a slower node: here that of a memory cgroup, so
 * that nothing but the memory to be moved is looked at. It takes folios in the
 * order of its LRU list, which is that in which they were filled.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define CGROUP "/sys/fs/cgroup"
#define DEMOTION "/sys/kernel/mm/numa/demotion_enabled"

static char group[64], home[192];
static bool mounted;

static void put_back(void)
{
	write_text(home, "0");
	rmdir(group);
	if (mounted)
		umount(CGROUP);
}

static const char *path_of(const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", group, file);
	return path;
}

/* The process in a cgroup of its own: what it fills from now on is charged to it. */
void demote_set_up(struct bench *b)
{
	char text[128];

	(void)b;
	if (access(CGROUP "/cgroup.controllers", F_OK) &&
	    !mount("none", CGROUP, "cgroup2", 0, NULL))
		mounted = true;
	if (read_text("/proc/self/cgroup", text, sizeof(text)) || strncmp(text, "0::/", 4))
		die(EXIT_CANNOT_RUN, "--call demote: needs cgroups of version 2 alone, and root");
	snprintf(home, sizeof(home), CGROUP "%s/cgroup.procs", text + 3);
	snprintf(group, sizeof(group), CGROUP "/migbench.%d", getpid());
	write_text(CGROUP "/cgroup.subtree_control", "+memory");
	if (mkdir(group, 0700))
		die(EXIT_CANNOT_RUN, "--call demote: cannot make %s: %m; run as root", group);
	atexit(put_back);
	if (write_text(path_of("cgroup.procs"), "0") || access(path_of("memory.reclaim"), W_OK))
		die(EXIT_CANNOT_RUN, "--call demote: %s: %m; needs Linux 5.19 with CONFIG_MEMCG", group);
	if (setting_change(DEMOTION, "1"))
		die(EXIT_CANNOT_RUN, "--call demote: 1 > " DEMOTION ": %m; needs Linux 5.18");
}

/* All of it at the cold end, in the order in which it is to be demoted. */
void demote_prepare(struct bench *b)
{
	size_t i;

	lru_drain();
	for (i = 0; i < b->mem.folios; i++)
		if (madvise(b->mem.addr[i], b->opt.folio_bytes, MADV_COLD))
			die(EXIT_CANNOT_RUN, "--call demote: madvise: %m");
	lru_drain();
}

/*
 * Where not all can be demoted this tries for long, and says so: place.c counts.
 * Reclaim also splits folios whose split was deferred, which Linux does to those
 * that are unmapped page by page (6.12.117).
 */
int demote_move(struct bench *b, size_t first, size_t count)
{
	char text[32];

	(void)first;
	(void)count;
	snprintf(text, sizeof(text), "%lu", b->opt.bytes);
	return write_text(path_of("memory.reclaim"), text) && errno != EAGAIN ? -errno : 0;
}
