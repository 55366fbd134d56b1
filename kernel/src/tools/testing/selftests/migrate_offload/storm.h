/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes that do something again and again, all at once, until the storm is
 * over. Most of them move memory of their own forth and back.
 */
#ifndef MIGRATE_OFFLOAD_STORM_H
#define MIGRATE_OFFLOAD_STORM_H

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#define STORM_MAX	8

/* In memory that all its processes share */
struct storm {
	atomic_bool over;
	int nr;
	struct {
		pid_t pid;
		atomic_long rounds;
		atomic_long mistakes;
	} processes[STORM_MAX];
};

struct storm *storm_begin(void);
/*
 * Start a process, and wait for its first round; work() returns the number of
 * mistakes that it found.
 */
void storm_add(struct storm *s, long (*work)(const void *arg),
	       const void *arg);
/* The mistakes of all; a process that has died in the storm is one, too */
long storm_end(struct storm *s);

struct storm_move {
	int nodes[2];
	size_t folio;
	size_t size;
};

/* For storm_add(): there and back again. Bytes that are wrong are mistakes. */
long storm_move(const void *arg);

#endif /* MIGRATE_OFFLOAD_STORM_H */
