/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory moves from node to node while a thread does something to it.
 */
#ifndef MIGRATE_RUNS_RACE_H
#define MIGRATE_RUNS_RACE_H

#include <stddef.h>

/**
 * struct race - one of them
 * @addr: the memory
 * @fd: the file that is mapped there, or the userfaultfd that watches it, if there is one
 * @stop: the thread is to end
 * @rounds: how often it has acted
 * @wrong: how often it did not find what it had to
 */
struct race {
	char *addr;
	int fd;
	int stop;
	long rounds, wrong;
};

typedef void (*race_act)(struct race *race, unsigned int *seed);

/*
 * Move @size bytes back and forth for three seconds, and have a thread act again and
 * again meanwhile. Return: how often it all was to move; -1: there is no thread
 */
long race_run(struct race *race, size_t size, race_act act);

#endif /* MIGRATE_RUNS_RACE_H */
