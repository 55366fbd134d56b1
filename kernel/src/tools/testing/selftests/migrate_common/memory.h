/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory on a node, in folios of a size, and words in it that are known.
 *
 * What cannot fail in a sane test machine ends the test with a message.
 */
#ifndef MIGRATE_COMMON_MEMORY_H
#define MIGRATE_COMMON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB	1024UL
#define MIB	(1024 * KIB)
#define PAGE	(4 * KIB)
#define PMD	(2 * MIB)

/* The first two nodes with memory; false if there is but one */
bool nodes_find(int nodes[2]);
/* file_sum_after() of a file of this node */
long node_sum_after(int node, const char *file, const char *word);
/* Where the pages of this task are allocated from now on; -1: anywhere */
void node_alloc_on(int node);

/* At a multiple of @align, where folios of a file fit its offsets; @fd -1: anonymous */
char *map_aligned(size_t size, size_t align, int flags, int fd);

/*
 * Until thp_give_back() who asks by madvise(2) for huge pages gets those of this size
 * alone, in anonymous memory or in shmem. False if there are none of this size.
 */
bool thp_take(size_t folio_size, bool shmem);
void thp_give_back(void);

/* Huge pages of 2 MiB that a node has for hugetlb */
void hugetlb_set(int node, long nr);
long hugetlb_get(int node);
/* So many for each of the first two nodes; false if there are fewer */
bool hugetlb_reserve(long nr);

/* The word at an offset; those that differ in @mask are of another pattern */
uint64_t word_of(size_t offset);
void words_fill_masked(char *addr, size_t offset, size_t size, uint64_t mask);
size_t words_wrong_masked(const char *addr, size_t offset, size_t size, uint64_t mask);
size_t words_nonzero(const char *addr, size_t size);

static inline void words_fill(char *addr, size_t offset, size_t size)
{
	words_fill_masked(addr, offset, size, 0);
}

/* How many are not as they were filled */
static inline size_t words_wrong(const char *addr, size_t offset, size_t size)
{
	return words_wrong_masked(addr, offset, size, 0);
}

#endif /* MIGRATE_COMMON_MEMORY_H */
