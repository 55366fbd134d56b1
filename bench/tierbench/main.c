// SPDX-License-Identifier: GPL-2.0
/* Options, and what every mode needs. */
#define _GNU_SOURCE
#include "tierbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MPOL_PREFERRED 1
#define MPOL_MF_MOVE 2

static const struct mode {
	const char *name;
	int (*run)(const struct options *opt);
} modes[] = {
	{ "pool", pool_run },
	{ "fill", fill_run },
	{ "load", load_run },
	{ "arena", arena_run },
};

static const char usage[] =
	"usage: tierbench MODE [OPTION]...\n"
	"  pool    a buffer pool that moves its own buffers between two nodes by move_pages(2)\n"
	"  fill    sets all keys of a redis-server\n"
	"  load    gets keys of a redis-server, some far more often than others\n"
	"  arena   memory that is moved whole between two nodes while a thread reads it\n"
	"  --page BYTES      of a buffer, or of a value; of an arena's folios (4096)\n"
	"  --items N         buffers, keys, or the arena's folios (16384)\n"
	"  --near N          buffers that the near node may have (4096)\n"
	"  --batch N         buffers that one call moves; 0: the kernel places and moves them (64)\n"
	"  --requests N      that are measured (100000)\n"
	"  --warmup N        requests before these (0)\n"
	"  --seed N          of what is asked for (1)\n"
	"  --socket PATH     of the redis-server\n"
	"  --by CALL         memcpy or move_pages (move_pages)\n"
	"  --moves N         of the arena (4)\n"
	"  --version\n";

/* Memory of its own VMA, aligned, which is allocated from a node as it is touched. */
char *map_on(int node, size_t bytes, size_t align)
{
	unsigned long mask = 1UL << node;
	char *p = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		die(EXIT_CANNOT_RUN, "cannot map %zu bytes: %m", bytes);
	p += -(uintptr_t)p & (align - 1);
	if (syscall(SYS_mbind, p, bytes, MPOL_PREFERRED, &mask, 8 * sizeof(mask), 0))
		die(EXIT_CANNOT_RUN, "mbind to node %d: %m; are there two nodes?", node);
	return p;
}

long move(size_t count, void **addr, const int *node, int *status)
{
	long left = syscall(SYS_move_pages, 0, count, addr, node, status, MPOL_MF_MOVE);

	if (left < 0)
		die(EXIT_CANNOT_RUN, "move_pages: %m");
	return left;
}

size_t pages_not_on(int node, void *base, size_t bytes)
{
	size_t at, count = 0;
	int status;

	for (at = 0; at < bytes; at += PAGE_BYTES) {
		void *addr = (char *)base + at;

		move(1, &addr, NULL, &status);
		count += status != node;
	}
	return count;
}

void times_open(struct times *t, size_t count)
{
	t->ns = zalloc(count, sizeof(*t->ns));
	memset(t->ns, 1, count * sizeof(*t->ns));	/* no fault is to be measured */
}

void times_add(struct times *t, uint64_t ns)
{
	t->ns[t->count++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double at(const struct times *t, size_t thousandths)
{
	size_t rank = (t->count * thousandths + 999) / 1000;

	return t->ns[rank ? rank - 1 : 0] / 1e3;
}

/* The first part of a report. */
void times_print(struct times *t)
{
	double seconds = (double)(t->end_ns - t->begin_ns) / 1e9;

	qsort(t->ns, t->count, sizeof(*t->ns), compare);
	printf("\"requests\": %zu, \"per_second\": %.3f, ", t->count, (double)t->count / seconds);
	printf("\"us\": {\"p50\": %.3f, \"p99\": %.3f, \"p99_9\": %.3f, \"max\": %.3f}",
	       at(t, 500), at(t, 990), at(t, 999), at(t, 1000));
}

static void parse(struct options *opt, int argc, char **argv)
{
	static const char *const numbers[] = {
		"page", "items", "near", "batch", "requests", "warmup", "seed", "moves",
	};
	unsigned long *const to[] = {
		&opt->page, &opt->items, &opt->near, &opt->batch, &opt->requests, &opt->warmup,
		&opt->seed, &opt->moves,
	};
	size_t count = sizeof(to) / sizeof(to[0]), i;
	int word;

	for (word = 0; word + 1 < argc; word += 2) {
		const char *name = argv[word], *value = argv[word + 1];
		char *end = NULL;

		for (i = 0; i < count; i++)
			if (!strncmp(name, "--", 2) && !strcmp(name + 2, numbers[i]))
				*to[i] = strtoul(value, &end, 0);
		if (!strcmp(name, "--socket"))
			opt->socket = value;
		else if (!strcmp(name, "--by"))
			opt->by = value;
		else if (!end || end == value || *end)
			die(EXIT_BAD_USAGE, "%s %s: not understood\n%s", name, value, usage);
	}
	if (word < argc)
		die(EXIT_BAD_USAGE, "%s: not understood\n%s", argv[word], usage);
	if (opt->page < PAGE_BYTES || opt->page & (opt->page - 1) || !opt->items || !opt->requests)
		die(EXIT_BAD_USAGE, "--page must be a power of two from %lu on, and nothing may be 0", PAGE_BYTES);
}

int main(int argc, char **argv)
{
	struct options opt = {
		.page = PAGE_BYTES, .items = 16384, .near = 4096, .batch = 64, .requests = 100000, .seed = 1,
		.by = "move_pages", .moves = 4,
	};
	size_t count = sizeof(modes) / sizeof(modes[0]), i;

	if (argc > 1 && !strcmp(argv[1], "--version")) {
		puts("tierbench " VERSION);
		return 0;
	}
	for (i = 0; i < count; i++) {
		if (argc < 2 || strcmp(argv[1], modes[i].name))
			continue;
		parse(&opt, argc - 2, argv + 2);
		return modes[i].run(&opt);
	}
	die(EXIT_BAD_USAGE, "no such mode\n%s", usage);
}
