/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A thread that writes to one word of each page of a region, at random, and
 * compares it before and after each write with what it must be.
 */
#ifndef MIGRATE_OFFLOAD_WRITER_H
#define MIGRATE_OFFLOAD_WRITER_H

#include <pthread.h>
#include <stdatomic.h>

#include "region.h"

struct writer {
	struct region *region;
	/* One write of any kind; false if it failed, or was lost at once */
	bool (*put)(uint64_t *at, uint64_t value);
	uint64_t *last;		/* of each page: what its word must be */
	pthread_t thread;
	atomic_bool over;
	long writes;
	long failed;
	long lost;
};

void writer_begin(struct writer *w, struct region *r,
		  bool (*put)(uint64_t *at, uint64_t value));
/* The region must be writable by now; its words are then as it was filled */
void writer_end(struct writer *w);

/* A store, as a program makes it */
bool writer_store(uint64_t *at, uint64_t value);

#endif /* MIGRATE_OFFLOAD_WRITER_H */
