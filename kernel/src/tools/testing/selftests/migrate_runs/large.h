/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory in large folios that PTEs map, and what the kernel says of its pages.
 *
 * What cannot fail in a sane test machine ends the test with a message.
 */
#ifndef MIGRATE_RUNS_LARGE_H
#define MIGRATE_RUNS_LARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB	1024UL
#define MIB	(1024 * KIB)
#define PAGE	(4 * KIB)
#define FOLIO	(64 * KIB)
#define PMD	(2 * MIB)
#define NR	(FOLIO / PAGE)	/* pages of a folio */

/* Bits of /proc/PID/pagemap */
#define PM_SOFT_DIRTY	(1ULL << 55)
#define PM_UFFD_WP	(1ULL << 57)
#define PM_FILE		(1ULL << 61)
#define PM_SWAP		(1ULL << 62)
#define PM_PRESENT	(1ULL << 63)
#define PM_FRAME	((1ULL << 55) - 1)

/* The need that is not met, or NULL: two nodes, folios of 64 KiB, root */
const char *large_missing(void);

/*
 * Anonymous memory, all in folios of 64 KiB on node 0, word by word different.
 * NULL if such folios could not be had. @align: a multiple of FOLIO
 */
char *large_alloc(size_t size, size_t align);
/* The same in folios of 4 KiB */
char *small_alloc(size_t size, size_t align);
/* The same in folios of 2 MiB that PMDs map, words unlike those at other addresses */
char *huge_alloc(size_t size);
/* The same of hugetlb, whose pool is filled for it: hugetlb_reserve(0) empties it again */
char *hugetlb_alloc(size_t size);
/* So many huge pages of 2 MiB for each of the two nodes; false if there are fewer */
bool hugetlb_reserve(long nr);
/* MADV_HUGEPAGE gives folios of 64 KiB from now on; or what it does by default */
int large_prefer(bool large);
/* Fault what is mapped there in, in folios of 64 KiB, and fill it */
bool large_populate(char *addr, size_t size, int fd);

/* Word at @offset of what large_populate() has filled */
uint64_t large_word(size_t offset);
void large_fill(char *addr, size_t offset, size_t size);
/* Words of a part that are not as they were filled */
size_t large_wrong(const char *addr, size_t offset, size_t size);

uint64_t pagemap(const void *addr);
uint64_t kpagecount(const void *addr);
/* Pages that are not where they are in a whole folio of 64 KiB */
size_t large_pages_not_whole(const char *addr, size_t size);

/* Move the folios; how many pages that are present are not on the node then */
size_t large_move(char *addr, size_t size, int node);

/* kB of a field in all VMAs of [addr, addr + size), from smaps */
long smaps_kb(const char *addr, size_t size, const char *field);
/* The number after @name in a file of "name number" lines; -1: not there */
long stat_of(const char *path, const char *name);
/* The number that a file begins with; -1: there is none */
long number_of(const char *path);

int file_write(const char *path, const char *text);
__printf(1, 2)
int run(const char *format, ...);

#endif /* MIGRATE_RUNS_LARGE_H */
