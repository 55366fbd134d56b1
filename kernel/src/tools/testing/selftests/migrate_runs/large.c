// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdlib.h>

#include "large.h"

const char *large_missing(void)
{
	int nodes[2];

	if (geteuid())
		return "not root";
	if (!nodes_find(nodes) || nodes[0] != 0 || nodes[1] != 1)
		return "no second node";
	if (access("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", W_OK))
		return "no folios of 64 KiB";
	return NULL;
}

/* @advice: about huge pages, for as long as this takes */
static void fill_on_node0(char *addr, size_t size, int advice)
{
	node_alloc_on(0);
	madvise(addr, size, advice);
	words_fill(addr, 0, size);
	/* They shall stay as they are */
	madvise(addr, size, MADV_NOHUGEPAGE);
	node_alloc_on(-1);
}

static bool fill_in_folios(char *addr, size_t size, size_t folio, int fd)
{
	if (!thp_take(folio, fd >= 0))
		return false;
	fill_on_node0(addr, size, MADV_HUGEPAGE);
	thp_give_back();
	return true;
}

bool large_populate(char *addr, size_t size, int fd)
{
	return fill_in_folios(addr, size, FOLIO, fd) &&
	       !pages_not_in_folios(addr, size, FOLIO);
}

char *large_alloc(size_t size, size_t align)
{
	char *addr = map_aligned(size, align, 0, -1);

	return large_populate(addr, size, -1) ? addr : NULL;
}

char *small_alloc(size_t size, size_t align)
{
	char *addr = map_aligned(size, align, 0, -1);

	fill_on_node0(addr, size, MADV_NOHUGEPAGE);
	return addr;
}

char *huge_alloc(size_t size)
{
	char *addr = map_aligned(size, PMD, 0, -1);

	return fill_in_folios(addr, size, PMD, -1) &&
	       smaps_kb(addr, size, "AnonHugePages:") * KIB == size ? addr : NULL;
}

char *hugetlb_alloc(size_t size)
{
	char *addr;

	/* To move there, for what a fork shares, and some that are still in use */
	if (!hugetlb_reserve(4 * size / PMD))
		return NULL;
	addr = map_aligned(size, PMD, MAP_HUGETLB, -1);
	fill_on_node0(addr, size, MADV_NORMAL);
	return addr;
}

size_t large_move(char *addr, size_t size, int node)
{
	void **pages = calloc(size / PAGE, sizeof(*pages));
	uint64_t *frames;
	size_t off = 0;
	int *nodes;

	if (!pages)
		err(1, "calloc");
	if (pages_send(pages, pages_first(addr, size, pages), node, MPOL_MF_MOVE_ALL) < 0)
		errx(1, "move_pages fails");
	nodes = page_nodes(addr, size);
	frames = page_frames(addr, size);
	for (size_t i = 0; i < size / PAGE; i++)
		off += frames[i] && nodes[i] != node;
	free(pages);
	free(nodes);
	free(frames);
	return off;
}
