// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <err.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../mm/hugepage_settings.h"
#include "memory.h"
#include "system.h"

#define NODE_DIR	"/sys/devices/system/node/node%d/"

/* --- nodes --- */

long node_sum_after(int node, const char *file, const char *word)
{
	char path[64];

	snprintf(path, sizeof(path), NODE_DIR "%s", node, file);
	return file_sum_after(path, word);
}

bool nodes_find(int nodes[2])
{
	int nr = 0;

	for (int node = 0; node < 64 && nr < 2; node++)
		if (node_sum_after(node, "meminfo", "MemTotal:") > 0)
			nodes[nr++] = node;
	return nr == 2;
}

void node_alloc_on(int node)
{
	unsigned long mask = 1UL << (node < 0 ? 0 : node);

	if (syscall(SYS_set_mempolicy, node < 0 ? MPOL_DEFAULT : MPOL_BIND,
		    node < 0 ? NULL : &mask, node < 0 ? 0 : sizeof(mask) * 8))
		err(1, "set_mempolicy");
}

/* --- mappings --- */

char *map_aligned(size_t size, size_t align, int flags, int fd)
{
	char *hole = mmap(NULL, size + 2 * align, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *addr = (char *)(((uintptr_t)hole + align) & -align);

	flags |= fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	if (hole == MAP_FAILED ||
	    mmap(addr, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd,
		 0) == MAP_FAILED)
		err(1, "mmap");
	return addr;
}

/* --- huge pages --- */

/* Of those who have taken them: one may do so while another has */
static struct thp_settings old_settings[2];
static unsigned int takers;

bool thp_take(size_t folio_size, bool shmem)
{
	unsigned long orders = shmem ? thp_shmem_supported_orders() :
				       thp_supported_orders();
	int order = __builtin_ctzl(folio_size / PAGE);
	struct thp_settings settings;

	if (!(orders >> order & 1))
		return false;
	if (takers == 2)
		errx(1, "huge pages are taken a third time");
	thp_read_settings(&settings);
	old_settings[takers++] = settings;
	for (int i = 0; i < NR_ORDERS; i++) {
		if (shmem)
			settings.shmem_hugepages[i].enabled =
				i == order ? SHMEM_ADVISE : SHMEM_NEVER;
		else
			settings.hugepages[i].enabled =
				i == order ? THP_MADVISE : THP_NEVER;
	}
	thp_write_settings(&settings);
	return true;
}

void thp_give_back(void)
{
	thp_write_settings(&old_settings[--takers]);
}

static const char *hugetlb_path(int node)
{
	static char path[96];

	snprintf(path, sizeof(path), NODE_DIR "hugepages/hugepages-2048kB/nr_hugepages",
		 node);
	return path;
}

void hugetlb_set(int node, long nr)
{
	file_write_long(hugetlb_path(node), nr);
}

long hugetlb_get(int node)
{
	return file_read_long(hugetlb_path(node));
}

bool hugetlb_reserve(long nr)
{
	bool all = true;
	int nodes[2];

	for (int i = 0; nodes_find(nodes) && i < 2; i++) {
		if (access(hugetlb_path(nodes[i]), F_OK))
			return false;
		hugetlb_set(nodes[i], nr);
		all &= hugetlb_get(nodes[i]) == nr;
	}
	return all;
}

/* --- contents --- */

uint64_t word_of(size_t offset)
{
	return (offset / 8 + 1) * 0x9e3779b97f4a7c15ULL;
}

void words_fill_masked(char *addr, size_t offset, size_t size, uint64_t mask)
{
	for (size_t at = offset; at < offset + size; at += 8)
		*(volatile uint64_t *)(addr + at) = word_of(at) ^ mask;
}

size_t words_wrong_masked(const char *addr, size_t offset, size_t size, uint64_t mask)
{
	size_t wrong = 0;

	for (size_t at = offset; at < offset + size; at += 8)
		wrong += *(volatile uint64_t *)(addr + at) != (word_of(at) ^ mask);
	return wrong;
}

size_t words_nonzero(const char *addr, size_t size)
{
	size_t nonzero = 0;

	for (size_t at = 0; at < size; at += 8)
		nonzero += *(volatile uint64_t *)(addr + at) != 0;
	return nonzero;
}
