/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of move_pages(2), mbind(2) and migrate_pages(2) share: memory
 * whose pages are known, and where they are sent.
 */
#ifndef CALLS_H
#define CALLS_H

#include <sys/types.h>

#include "../migrate_common/memory.h"
#include "../migrate_common/pages.h"
#include "../migrate_common/system.h"

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

/* Memory that no huge page is taken for */
char *map(size_t size);
/* Fill so many pages, which are new and come from this node */
void touch(char *addr, long first, long nr, int node);
/* How many of these addresses are not where they were sent */
long astray(const struct calls *c, long first, long nr);
long move_some(struct calls *c, long nr, int flags);
/* All pages of the memory to the other node, in order */
void calls_reset(struct calls *c);
long statuses_not(const int *status, long first, long nr, int wanted);
bool run_on(int cpu);
/* Another CPU has just made some pages: they are in its LRU cache */
bool renew_elsewhere(struct calls *c, long first, long nr);
long mbind_at(char *addr, long nr, int node);
long mbind_to(struct calls *c, long first, long nr, int node);
long migrate_all(pid_t pid, int from, int to);

#endif
