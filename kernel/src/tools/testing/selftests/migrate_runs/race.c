// SPDX-License-Identifier: GPL-2.0-only
#include <pthread.h>
#include <time.h>

#include "large.h"
#include "race.h"

#define SECONDS	3

#define COPY_MAPPED	"/proc/sys/vm/migrate_copy_mapped"

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
