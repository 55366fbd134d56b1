// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup.h"
#include "system.h"

#define ROOT	"/sys/fs/cgroup"
#define GROUP	CGROUP_PATH

const char *cgroup_enter(const char *controller)
{
	static char enable[32];

	if (access(ROOT "/cgroup.controllers", F_OK) &&
	    run("mount -t cgroup2 cgroup2 " ROOT))
		return "no cgroup2 on " ROOT;
	snprintf(enable, sizeof(enable), "+%s", controller);
	if (file_write(ROOT "/cgroup.subtree_control", enable))
		return "no such cgroup controller";
	if (mkdir(GROUP, 0700) && errno != EEXIST)
		return "cannot make a cgroup";
	return cgroup_write("cgroup.procs", "0") ? "cannot enter cgroup" : NULL;
}

int cgroup_pause(void)
{
	return file_write(ROOT "/cgroup.procs", "0");
}

void cgroup_leave(void)
{
	cgroup_pause();
	rmdir(GROUP);
}

int cgroup_write(const char *file, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), GROUP "/%s", file);
	return file_write(path, value);
}

long cgroup_read(const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), GROUP "/%s", file);
	return file_read_long(path);
}

long cgroup_node_bytes(const char *kind, int node)
{
	FILE *f = fopen(GROUP "/memory.numa_stat", "r");
	char line[512], name[32], key[16];
	long bytes = -1;
	char *at;

	snprintf(key, sizeof(key), " N%d=", node);
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%31s", name) != 1 || strcmp(name, kind))
			continue;
		at = strstr(line, key);
		bytes = at ? atol(at + strlen(key)) : -1;
	}
	if (f)
		fclose(f);
	return bytes;
}
