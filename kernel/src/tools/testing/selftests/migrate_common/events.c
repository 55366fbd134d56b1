// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "events.h"
#include "system.h"

#define INSTANCE	"/sys/kernel/tracing/instances/migrate_test"

bool events_start(const char *which, bool own)
{
	char path[128];

	if (access("/sys/kernel/tracing/events", F_OK))
		run("mount -t tracefs none /sys/kernel/tracing");
	snprintf(path, sizeof(path), INSTANCE "/events/%s/enable", which);
	return !mkdir(INSTANCE, 0700) &&
	       !(own && file_write_long(INSTANCE "/set_event_pid", getpid())) &&
	       !file_write(path, "1");
}

long events_count(const char *event)
{
	FILE *f = fopen(INSTANCE "/trace", "r");
	char line[512];
	long nr = 0;

	while (f && fgets(line, sizeof(line), f))
		nr += !!strstr(line, event);
	if (f)
		fclose(f);
	return nr;
}

long events_max(const char *event, const char *field)
{
	FILE *f = fopen(INSTANCE "/trace", "r");
	char line[512], *at;
	long max = -1;

	while (f && fgets(line, sizeof(line), f)) {
		at = strstr(line, event) ? strstr(line, field) : NULL;
		if (at && atol(at + strlen(field)) > max)
			max = atol(at + strlen(field));
	}
	if (f)
		fclose(f);
	return max;
}

void events_stop(void)
{
	rmdir(INSTANCE);
}
