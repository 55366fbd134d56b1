// SPDX-License-Identifier: GPL-2.0
/* A target node that has memory enough, and no free block of more than 15 pages:
 * before the kernel can allocate a larger folio it has to make room for it.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>

/* Of so many pages that were allocated in a row one is kept */
#define KEEP_BYTES (16 * PAGE_BYTES)

/*
 * Take what is free on the node, and give back all of it but a page in 16. What
 * is kept can be moved, and stays until the end. Called before each move, since
 * the one before has made room.
 */
void fragment(const struct bench *b)
{
	struct bitmask *node = numa_bitmask_setbit(numa_allocate_nodemask(),
						   (unsigned int)b->opt.to);
	long long free_bytes = 0;
	size_t bytes, at;
	char *base;

	numa_node_size64((int)b->opt.to, &free_bytes);
	bytes = (size_t)free_bytes / KEEP_BYTES * KEEP_BYTES;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		die(EXIT_CANNOT_RUN, "--fragmented: mmap of %zu bytes: %m", bytes);
	/* EINVAL: a kernel without huge pages. What is reserved is left: no OOM. */
	if (madvise(base, bytes, MADV_NOHUGEPAGE) && errno != EINVAL)
		die(EXIT_CANNOT_RUN, "--fragmented: madvise: %m");
	if (mbind(base, bytes, MPOL_PREFERRED, node->maskp, node->size + 1, 0))
		die(EXIT_CANNOT_RUN, "--fragmented: mbind to node %lu: %m", b->opt.to);
	for (at = 0; at < bytes; at += PAGE_BYTES)
		base[at] = 1;
	for (at = 0; at < bytes; at += KEEP_BYTES)
		if (madvise(base + at + PAGE_BYTES, KEEP_BYTES - PAGE_BYTES, MADV_DONTNEED))
			die(EXIT_CANNOT_RUN, "--fragmented: madvise: %m");
	numa_bitmask_free(node);
}
