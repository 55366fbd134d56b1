/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A file whose bytes come when the test says so: a FUSE file system of one
 * file, served by the test itself. A direct read of it keeps its buffer pinned
 * until slow_file_answer().
 */
#ifndef MIGRATE_OFFLOAD_SLOW_FILE_H
#define MIGRATE_OFFLOAD_SLOW_FILE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define SLOW_READ_MAX	(1024 * 1024)	/* bytes in one request */

struct slow_file {
	int dev;
	int fd;
	pthread_t server;
	pthread_t reader;
	char *buf;
	size_t size;
	long result;
	int asked[2];	/* a pipe: requests to read, as the server sees them */
	uint64_t unique;
};

/* NULL, or the unmet need */
const char *slow_file_open(struct slow_file *f);

/* Start a direct read into memory; returns once its pages are pinned */
void slow_file_read(struct slow_file *f, char *buf, size_t size);

/* Let the read end with these bytes; returns once it has: its result */
long slow_file_answer(struct slow_file *f, const void *data);

#endif /* MIGRATE_OFFLOAD_SLOW_FILE_H */
