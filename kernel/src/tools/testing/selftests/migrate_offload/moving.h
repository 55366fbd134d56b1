/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Anonymous memory that moves there and back, by a slow engine, until the test
 * says that it is over.
 */
#ifndef MIGRATE_OFFLOAD_MOVING_H
#define MIGRATE_OFFLOAD_MOVING_H

#include <pthread.h>
#include <stdatomic.h>

#include "region.h"

struct moving {
	struct region region;
	int nodes[2];
	pthread_t mover;
	atomic_bool over;
	atomic_long arrived;	/* pages, in all calls */
	double begun;
};

/* With dcbm on softdma, whose copies end late. NULL, or the unmet need */
const char *moving_create(struct moving *m, size_t folio);
void moving_begin(struct moving *m);
bool moving_has_returned(const struct moving *m);
/* True for so long, and until all has returned, however busy the machine is */
bool moving_goes_on(const struct moving *m, long ms);
void moving_end(struct moving *m);

#endif /* MIGRATE_OFFLOAD_MOVING_H */
