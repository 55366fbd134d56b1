// SPDX-License-Identifier: GPL-2.0
/* Threads that want the CPU all the time, until the process ends. */
#include "migbench.h"

#include <pthread.h>

static void *burn(void *arg)
{
	volatile uint64_t turns = 0;

	(void)arg;
	for (;;)
		turns = turns + 1;
	return NULL;
}

void busy_start(unsigned long threads)
{
	pthread_t thread;

	while (threads--) {
		if (pthread_create(&thread, NULL, burn, NULL))
			die(EXIT_CANNOT_RUN, "--busy: cannot start a thread");
		pthread_detach(thread);
	}
}
