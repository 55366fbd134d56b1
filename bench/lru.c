// SPDX-License-Identifier: GPL-2.0
/* What waits in a CPU's cache to be put on an LRU list can be isolated by nobody.
 * Most callers drain the caches first; DAMON, NUMA balancing and reclaim do not.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <sched.h>
#include <sys/mman.h>

/* madvise(MADV_COLD) drains the cache of the CPU it is on, first of all. */
void lru_drain(void)
{
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = page == MAP_FAILED, cpu;
	cpu_set_t home;

	err |= sched_getaffinity(0, sizeof(home), &home);
	for (cpu = 0; !err && cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET((size_t)cpu, &home))
			continue;
		pin(cpu);
		err = madvise(page, PAGE_BYTES, MADV_COLD);
	}
	if (err || sched_setaffinity(0, sizeof(home), &home) || munmap(page, PAGE_BYTES))
		die(EXIT_CANNOT_RUN, "cannot drain the LRU caches: %m");
}
