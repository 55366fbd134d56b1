// SPDX-License-Identifier: GPL-2.0
/* Compaction of the node that the memory is on: after each folio another of the
 * same size is filled, and freed before the move. So every second one is free, and
 * compaction moves one half of the memory between what it leaves of the other.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <errno.h>
#include <numa.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LISTS "/proc/sys/vm/percpu_pagelist_high_fraction"
#define SHORTEST "1000000"

#define CACHES "/proc/sys/vm/drop_caches"

static char *between;
static uint64_t *before, *after;	/* frames of the folios */

static int compact_node(const struct bench *b)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%lu/compact", b->opt.from);
	return write_text(path, "1");
}

void compact_set_up(struct bench *b)
{
	long long free_bytes = 0;

	numa_node_size64((int)b->opt.from, &free_bytes);
	if (free_bytes / 3 < (long long)b->opt.bytes)
		die(EXIT_CANNOT_RUN, "--call compact: node %lu has %lld bytes free, and needs three times --bytes",
		    b->opt.from, free_bytes);
	/* What is freed into a CPU's own lists is no place to move to */
	if (setting_change(LISTS, SHORTEST))
		die(EXIT_CANNOT_RUN, "--call compact: " SHORTEST " > " LISTS ": %m; needs Linux 5.14 and root");
	/* What else is there, and where, would decide what has to move */
	if (write_text(CACHES, "3") || compact_node(b))
		die(EXIT_CANNOT_RUN, "--call compact: %s and compact of node %lu: %m; needs root", CACHES,
		    b->opt.from);
	before = zalloc(b->mem.folios, sizeof(*before));
	after = zalloc(b->mem.folios, sizeof(*after));
}

void compact_filled(struct bench *b, size_t folio)
{
	if (!folio)
		between = memory_map(b, b->opt.bytes);
	between[folio * b->opt.folio_bytes] = 1;
}

void compact_prepare(struct bench *b)
{
	if (munmap(between, b->opt.bytes))
		die(EXIT_CANNOT_RUN, "--call compact: munmap: %m");
	lru_drain();
	place_frames(b, before);
}

int compact_move(struct bench *b, size_t first, size_t count)
{
	(void)first;
	(void)count;
	return compact_node(b) ? -errno : 0;
}

size_t compact_moved(struct bench *b)
{
	size_t i, moved = 0;

	place_frames(b, after);
	for (i = 0; i < b->mem.folios; i++)
		moved += before[i] != after[i];
	return moved * (b->opt.folio_bytes / PAGE_BYTES);
}
