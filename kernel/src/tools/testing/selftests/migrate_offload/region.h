/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory to move, with contents that are known byte by byte.
 *
 * A region lies between two guards that hold other bytes: what is written
 * beside the region is seen as well as what is written in it.
 */
#ifndef MIGRATE_OFFLOAD_REGION_H
#define MIGRATE_OFFLOAD_REGION_H

#include "../migrate_common/memory.h"
#include "../migrate_common/pages.h"

enum backing {
	ANON,
	HUGETLB,
	MEMFD,
	TMPFS,		/* a file system from here on */
	EXT4,
	XFS,
};

enum mover {
	MOVE_PAGES,
	MBIND,
	MIGRATE_PAGES,	/* moves the whole process */
};

enum sharing {
	OWN,		/* only what no other process maps */
	SHARED,
};

struct region {
	char *addr;
	size_t size;
	size_t folio_size;	/* as it was asked for */
	uint64_t seed;
	char *map;	/* the region and its guards */
	size_t map_size;
	int fd;
};

/*
 * From now on folios are taken for what was asked for, as long as their frames can
 * be: others move them at any time, and Linux 6.12 reads /proc/kpageflags without
 * a reference to what it looks at, which kernels with DEBUG_VM_PGFLAGS may die of.
 */
void region_ask_no_flags(void);

/* Is one of them faster than another? */
bool nodes_have_tiers(void);
/* Run on a CPU of this node; false if it has none */
bool node_run_on(int node);

/*
 * Make a region on a node, in folios of this size (0: whatever comes), and
 * fill it. NULL, or the unmet need. For HUGETLB the pools of the first two nodes are
 * filled, each for as much again, which a stuck engine may keep; hugetlb_reserve(0)
 * empties them.
 */
const char *region_create(struct region *r, enum backing kind,
			  size_t folio_size, size_t size, int node);
void region_destroy(struct region *r);

void region_fill(struct region *r, uint64_t seed);
/* Write a part of it once more, where others have put something else */
void region_refill(struct region *r, size_t offset, size_t size);
/* 64-bit words of the region and its guards that are not as they were filled */
size_t region_wrong_words(const struct region *r);
uint64_t region_word(const struct region *r, size_t offset);

/* Pages that are not on this node, be it that they are not present at all */
size_t region_pages_off(const struct region *r, int node);
/* Has a page of it been poisoned? */
bool region_has_poison(const struct region *r);

/* Pages that are not on node @to afterwards, or -errno */
long region_move(struct region *r, enum mover call, int from, int to);
long pages_move(const struct region *r, int to, enum sharing sharing);

#endif /* MIGRATE_OFFLOAD_REGION_H */
