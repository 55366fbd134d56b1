/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tierbench: what applications notice of their memory moving between a near node
 * and a far one. Each mode is a file; it ends with a line of JSON.
 */
#ifndef TIERBENCH_H
#define TIERBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common.h"

#define PAGE_BYTES 4096UL
#define NEAR 0
#define FAR 1

struct options {
	unsigned long page;	/* bytes of a buffer, or of a value */
	unsigned long items;	/* buffers, or keys */
	unsigned long near;	/* buffers that the near node may have */
	unsigned long batch;	/* buffers that one call moves; 0: the kernel moves them */
	unsigned long requests;
	unsigned long warmup;	/* requests before those that are measured */
	unsigned long seed;
	const char *socket;
	const char *by;		/* arena: memcpy or move_pages */
	unsigned long moves;
};

/* How long requests took; what came before is forgotten at the first measured one. */
struct times {
	uint32_t *ns;
	size_t count;
	uint64_t begin_ns, end_ns;
};

/* Pages that the kernel has moved by itself, and CPU time of a server and of the kernel's threads. */
struct counters {
	uint64_t server_ns, kswapd_ns, kdamond_ns, promoted, demoted;
};

static inline uint64_t hash(uint64_t x)
{
	return hash_of((x + 1) * 0x9e3779b97f4a7c15);
}

/* main.c */
char *map_on(int node, size_t bytes, size_t align);
long move(size_t count, void **addr, const int *node, int *status);
size_t pages_not_on(int node, void *base, size_t bytes);
void times_open(struct times *t, size_t count);
void times_add(struct times *t, uint64_t ns);
void times_print(struct times *t);

/* kernel.c */
struct counters counters_read(void);
void counters_print(const struct counters *before, const struct counters *after);

/* skew.c */
uint32_t *skew_sequence(size_t items, size_t count, uint64_t seed);

/* pool.c, load.c, arena.c */
int pool_run(const struct options *opt);
int fill_run(const struct options *opt);
int load_run(const struct options *opt);
int arena_run(const struct options *opt);

#endif
