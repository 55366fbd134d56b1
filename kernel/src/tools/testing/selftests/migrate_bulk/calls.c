// SPDX-License-Identifier: GPL-2.0-only
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../kselftest.h"

long read_long(const char *path, const char *key)
{
	char text[1 << 16];
	int fd = open(path, O_RDONLY);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *at = text;

	if (fd >= 0)
		close(fd);
	if (len <= 0)
		return -1;
	text[len] = 0;
	if (key)
		at = strstr(text, key);
	return at ? atol(at + (key ? strlen(key) : 0)) : -1;
}

bool write_long(const char *path, long value)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%ld", value);
	int fd = open(path, O_WRONLY);
	bool written = fd >= 0 && write(fd, text, len) == len;

	if (fd >= 0)
		close(fd);
	return written;
}

bool nodes_find(int nodes[2])
{
	char path[64];
	int nr = 0;

	for (int node = 0; node < 64 && nr < 2; node++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/meminfo", node);
		if (read_long(path, "MemTotal:") > 0)
			nodes[nr++] = node;
	}
	return nr == 2;
}

void bind_new_memory(int node)
{
	unsigned long mask = node < 0 ? 0 : 1UL << node;

	syscall(SYS_set_mempolicy, node < 0 ? MPOL_DEFAULT : MPOL_BIND,
		node < 0 ? NULL : &mask, node < 0 ? 0 : 64);
}

uint64_t word(long page)
{
	return (page + 1) * 0x9e3779b97f4a7c15ULL;
}

void touch(char *addr, long first, long nr, int node)
{
	bind_new_memory(node);
	for (long i = first; i < first + nr; i++)
		for (size_t at = 0; at < PAGE; at += 8)
			*(uint64_t *)(addr + i * PAGE + at) = word(i);
	bind_new_memory(-1);
}

long wrong_pages(const char *addr, long first, long nr)
{
	long wrong = 0;

	for (long i = first; i < first + nr; i++)
		for (size_t at = 0; at < PAGE; at += 8)
			if (*(uint64_t *)(addr + i * PAGE + at) != word(i)) {
				wrong++;
				break;
			}
	return wrong;
}

char *map(size_t size)
{
	char *hole = mmap(NULL, size + PMD, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *addr = (char *)(((uintptr_t)hole + PMD - 1) & -PMD);

	if (hole == MAP_FAILED)
		ksft_exit_fail_msg("mmap: %s\n", strerror(errno));
	madvise(addr, size, MADV_NOHUGEPAGE);
	return addr;
}

int node_of(const void *addr)
{
	int node = -EINVAL;

	if (syscall(SYS_move_pages, 0, 1UL, &addr, NULL, &node, 0))
		return -errno;
	return node;
}

/* How many pages of the first @nr addresses are not where they were sent */
long astray(const struct calls *c, long first, long nr)
{
	long count = 0;

	for (long i = first; i < first + nr; i++)
		count += node_of(c->pages[i]) != c->to[i];
	return count;
}

/* How many of these pages are not on this node, or do not say this error */
long pages_not_on(int node, const char *addr, long first, long nr)
{
	long count = 0;

	for (long i = first; i < first + nr; i++)
		count += node_of(addr + i * PAGE) != node;
	return count;
}

long move_some(struct calls *c, long nr, int flags)
{
	long err = syscall(SYS_move_pages, 0, nr, c->pages, c->to, c->status,
			   flags);

	return err < 0 ? -errno : err;
}

/* All pages of the memory to the other node, in order */
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

/* A page that is in a pipe has a reference that nothing can explain */
bool pin(char *addr, int pipe_fd[2])
{
	struct iovec iov = { .iov_base = addr, .iov_len = PAGE };

	return !pipe(pipe_fd) && vmsplice(pipe_fd[1], &iov, 1, 0) == PAGE;
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

long counter(const char *key)
{
	int fd = open("/proc/sys/vm/stat_refresh", O_WRONLY);

	if (fd >= 0) {
		(void)!write(fd, "1", 1);
		close(fd);
	}
	return read_long("/proc/vmstat", key);
}

/* Pages that are free, in the CPUs' own lists or elsewhere */
long free_pages(void)
{
	long sum = counter("nr_free_pages "), count;
	FILE *file = fopen("/proc/zoneinfo", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " count: %ld", &count) == 1)
			sum += count;
	if (file)
		fclose(file);
	return sum;
}
