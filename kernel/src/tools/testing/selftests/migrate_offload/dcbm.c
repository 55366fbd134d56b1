// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dcbm.h"
#include "offload.h"

#define CHANNELS	"/sys/kernel/debug/dcbm/channels"

struct channels channels(void)
{
	long submitted, completed, errors, in_flight;
	struct channels sum = {};
	char state[16], line[256];
	FILE *f;

	f = debugfs_has(CHANNELS) ? fopen(CHANNELS, "r") : NULL;
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*s %*d %ld %ld %ld %ld %15s", &submitted,
			   &completed, &errors, &in_flight, state) != 5)
			continue;
		sum.submitted += submitted;
		sum.completed += completed;
		sum.errors += errors;
		sum.in_flight += in_flight;
		sum.live += !strcmp(state, "live");
		sum.failed += !strcmp(state, "failed");
		sum.stuck += !strcmp(state, "stuck");
		sum.gone += !strcmp(state, "gone");
	}
	if (f)
		fclose(f);
	return sum;
}

long injected(const char *fault)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_injected", fault);
	return softdma_get(name);
}

void inject(const char *fault, unsigned int every)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_every", fault);
	softdma_set(name, every);
}
