/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of move_pages(2), mbind(2) and migrate_pages(2) share: memory
 * with a word of its own in each page, and where it is.
 */
#ifndef CALLS_H
#define CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGE		4096UL
#define PMD		(512 * PAGE)
#define UNTOUCHED	12345	/* in a status: nothing was stored */
#define MANY		1500	/* more than any piece that is handled at once */

struct calls {
	int nodes[2];
	long nr;
	char *base;		/* pages on nodes[0] */
	void **pages;
	int *to;
	int *status;
};

long read_long(const char *path, const char *key);
bool write_long(const char *path, long value);
bool nodes_find(int nodes[2]);
void bind_new_memory(int node);
uint64_t word(long page);
void touch(char *addr, long first, long nr, int node);
long wrong_pages(const char *addr, long first, long nr);
char *map(size_t size);
int node_of(const void *addr);
/* How many pages of the first @nr addresses are not where they were sent */
long astray(const struct calls *c, long first, long nr);
/* How many of these pages are not on this node, or do not say this error */
long pages_not_on(int node, const char *addr, long first, long nr);
long move_some(struct calls *c, long nr, int flags);
/* All pages of the memory to the other node, in order */
void calls_reset(struct calls *c);
long statuses_not(const int *status, long first, long nr, int wanted);
/* A page that is in a pipe has a reference that nothing can explain */
bool pin(char *addr, int pipe_fd[2]);
bool run_on(int cpu);
/* Another CPU has just made some pages: they are in its LRU cache */
bool renew_elsewhere(struct calls *c, long first, long nr);
long mbind_at(char *addr, long nr, int node);
long mbind_to(struct calls *c, long first, long nr, int node);
long migrate_all(pid_t pid, int from, int to);
long counter(const char *key);
/* Pages that are free, in the CPUs' own lists or elsewhere */
long free_pages(void);

#endif
