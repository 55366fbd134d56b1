// SPDX-License-Identifier: GPL-2.0-only
#include <pthread.h>
#include <time.h>

#include "../kselftest.h"
#include "large.h"
#include "race.h"

#define SECONDS	3

#define COPY_MAPPED	"/proc/sys/vm/migrate_copy_mapped"

#define BALANCING	"/proc/sys/kernel/numa_balancing"
#define SCAN		"/sys/kernel/debug/sched/numa_balancing/"

struct worker {
	struct race *race;
	race_act act;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	unsigned int seed = 1;

	for (; !__atomic_load_n(&worker->race->stop, __ATOMIC_RELAXED); worker->race->rounds++)
		worker->act(worker->race, &seed);
	return NULL;
}

long race_run(struct race *race, size_t size, race_act act)
{
	struct worker worker = { race, act };
	time_t end = time(NULL) + SECONDS;
	pthread_t thread;
	long moves = 0;

	race->stop = 0;
	if (pthread_create(&thread, NULL, work, &worker))
		return -1;
	for (int node = 1; time(NULL) < end; node = !node, moves++) {
		/* Or what is written to often would be unmapped before it is copied */
		file_write(COPY_MAPPED, "1");
		large_move(race->addr, size, node);
	}
	__atomic_store_n(&race->stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	return moves;
}

const char *balance(void)
{
	if (file_write(SCAN "scan_delay_ms", "1") ||
	    file_write(SCAN "scan_period_min_ms", "10") ||
	    file_write(SCAN "scan_period_max_ms", "20") ||
	    file_write(BALANCING, "1"))
		return "no NUMA balancing";
	return NULL;
}

void balance_no_more(void)
{
	file_write(BALANCING, "0");
	/* The defaults */
	file_write(SCAN "scan_delay_ms", "1000");
	file_write(SCAN "scan_period_max_ms", "60000");
	file_write(SCAN "scan_period_min_ms", "1000");
}
