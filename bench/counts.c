// SPDX-License-Identifier: GPL-2.0
/* What else a move costs: faults of this process, and interrupts of other CPUs
 * that have to flush their TLBs, of which the whole machine has one count.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* The sum over all CPUs of the line that x86 names TLB; 0 if there is none */
static uint64_t shootdowns(void)
{
	FILE *file = fopen("/proc/interrupts", "re");
	char *line = NULL, *at, *end;
	uint64_t sum = 0;
	size_t room = 0;

	while (file && getline(&line, &room, file) > 0) {
		at = line + strspn(line, " ");
		if (strncmp(at, "TLB:", 4))
			continue;
		for (at += 4;; at = end) {
			unsigned long value = strtoul(at, &end, 10);

			if (end == at)
				break;
			sum += value;
		}
	}
	if (file)
		fclose(file);
	free(line);
	return sum;
}

struct counts counts_read(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (struct counts){
		.minor_faults = (uint64_t)usage.ru_minflt,
		.shootdowns = shootdowns(),
	};
}
