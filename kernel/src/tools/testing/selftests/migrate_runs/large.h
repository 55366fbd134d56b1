/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Anonymous memory on node 0 in large folios that PTEs map, and in others beside them.
 *
 * What cannot fail in a sane test machine ends the test with a message.
 */
#ifndef MIGRATE_RUNS_LARGE_H
#define MIGRATE_RUNS_LARGE_H

#include "../migrate_common/memory.h"
#include "../migrate_common/pages.h"
#include "../migrate_common/system.h"

#define FOLIO	(64 * KIB)
#define NR	(FOLIO / PAGE)	/* pages of a folio */

/* The need that is not met, or NULL: two nodes, folios of 64 KiB, root */
const char *large_missing(void);

/* In folios of 64 KiB, filled. NULL if they could not be had. @align: a multiple of FOLIO */
char *large_alloc(size_t size, size_t align);
/* The same in folios of 4 KiB */
char *small_alloc(size_t size, size_t align);
/* The same in folios of 2 MiB that PMDs map */
char *huge_alloc(size_t size);
/* The same of hugetlb, whose pool is filled for it: hugetlb_reserve(0) empties it again */
char *hugetlb_alloc(size_t size);
/* Fault what is mapped there in, in folios of 64 KiB, and fill it */
bool large_populate(char *addr, size_t size, int fd);

/* Move the folios; how many pages that are present are not on the node then */
size_t large_move(char *addr, size_t size, int node);

#endif /* MIGRATE_RUNS_LARGE_H */
