// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "calls.h"

void touch(char *addr, long first, long nr, int node)
{
	node_alloc_on(node);
	words_fill(addr, first * PAGE, nr * PAGE);
	node_alloc_on(-1);
}

char *map(size_t size)
{
	char *addr = map_aligned(size, PMD, MAP_NORESERVE, -1);

	madvise(addr, size, MADV_NOHUGEPAGE);
	return addr;
}

long astray(const struct calls *c, long first, long nr)
{
	long count = 0;

	for (long i = first; i < first + nr; i++)
		count += page_node(c->pages[i]) != c->to[i];
	return count;
}

long move_some(struct calls *c, long nr, int flags)
{
	long err = syscall(SYS_move_pages, 0, nr, c->pages, c->to, c->status,
			   flags);

	return err < 0 ? -errno : err;
}

void calls_reset(struct calls *c)
{
	for (long i = 0; i < c->nr; i++) {
		c->pages[i] = c->base + i * PAGE;
		c->to[i] = c->nodes[1];
		c->status[i] = UNTOUCHED;
	}
}

long statuses_not(const int *status, long first, long nr, int wanted)
{
	long count = 0;

	for (long i = first; i < first + nr; i++)
		count += status[i] != wanted;
	return count;
}

bool run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

struct toucher {
	struct calls *c;
	long first, nr;
	bool ran;
};

static void *touch_elsewhere(void *arg)
{
	struct toucher *t = arg;

	t->ran = run_on(1);
	if (t->ran)
		touch(t->c->base, t->first, t->nr, t->c->nodes[0]);
	return NULL;
}

/* Another CPU has just made some pages: they are in its LRU cache */
bool renew_elsewhere(struct calls *c, long first, long nr)
{
	struct toucher t = { .c = c, .first = first, .nr = nr };
	pthread_t thread;

	run_on(0);
	madvise(c->base + first * PAGE, nr * PAGE, MADV_DONTNEED);
	pthread_create(&thread, NULL, touch_elsewhere, &t);
	pthread_join(thread, NULL);
	return t.ran;
}

long mbind_at(char *addr, long nr, int node)
{
	unsigned long mask = 1UL << node;

	return syscall(SYS_mbind, addr, nr * PAGE, MPOL_BIND, &mask, 64UL,
		       MPOL_MF_MOVE | MPOL_MF_STRICT) ? -errno : 0;
}

long mbind_to(struct calls *c, long first, long nr, int node)
{
	return mbind_at(c->base + first * PAGE, nr, node);
}

long migrate_all(pid_t pid, int from, int to)
{
	unsigned long old = 1UL << from, new = 1UL << to;
	long left = syscall(SYS_migrate_pages, pid, 64UL, &old, &new);

	return left < 0 ? -errno : left;
}
