// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../migrate_common/scratch.h"
#include "offload.h"
#include "region.h"

#define GUARD_SEED	0x5a5a5a5a5a5a5a5aULL
#define HUGETLB_MAPPED	"/sys/kernel/mm/hugepages/hugepages-2048kB/migrate_mapped"

static bool no_flags;

void region_ask_no_flags(void)
{
	no_flags = true;
}

/* --- nodes --- */

/* Memory on slower nodes is in a tier of its own */
bool nodes_have_tiers(void)
{
	DIR *dir = opendir("/sys/devices/virtual/memory_tiering");
	struct dirent *entry;
	int tiers = 0;

	while (dir && (entry = readdir(dir)))
		tiers += !strncmp(entry->d_name, "memory_tier", 11);
	if (dir)
		closedir(dir);
	return tiers > 1;
}

bool node_run_on(int node)
{
	long nr = sysconf(_SC_NPROCESSORS_CONF);
	char path[64];
	cpu_set_t set;

	CPU_ZERO(&set);
	for (long cpu = 0; cpu < nr && cpu < CPU_SETSIZE; cpu++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpu%ld",
			 node, cpu);
		if (!access(path, F_OK))
			CPU_SET(cpu, &set);
	}
	return CPU_COUNT(&set) && !sched_setaffinity(0, sizeof(set), &set);
}

/* --- contents --- */

uint64_t region_word(const struct region *r, size_t offset)
{
	return word_of(offset) ^ r->seed;
}

void region_fill(struct region *r, uint64_t seed)
{
	r->seed = seed;
	region_refill(r, 0, r->size);
}

void region_refill(struct region *r, size_t offset, size_t size)
{
	words_fill_masked(r->addr, offset, size, r->seed);
}

/* The guards, which begin and end the mapping */
static size_t guard_of(const struct region *r)
{
	return (r->map_size - r->size) / 2;
}

static void guards_fill(struct region *r)
{
	words_fill_masked(r->map, 0, guard_of(r), GUARD_SEED);
	words_fill_masked(r->map + guard_of(r) + r->size, 0, guard_of(r), GUARD_SEED);
}

size_t region_wrong_words(const struct region *r)
{
	size_t guard = guard_of(r);

	return words_wrong_masked(r->map, 0, guard, GUARD_SEED) +
	       words_wrong_masked(r->addr, 0, r->size, r->seed) +
	       words_wrong_masked(r->map + guard + r->size, 0, guard, GUARD_SEED);
}

/* --- their life --- */

static int region_open(enum backing backing, const char **why)
{
	static const char * const types[] = {
		[TMPFS] = "tmpfs", [EXT4] = "ext4", [XFS] = "xfs",
	};
	const char *dir;

	if (backing == ANON || backing == HUGETLB)
		return -1;
	if (backing == MEMFD)
		return memfd_create("region", 0);
	dir = scratch_mount(types[backing], "", why);
	return dir ? open(dir, O_RDWR | O_TMPFILE, 0600) : -1;
}

static void region_map(struct region *r, enum backing kind, size_t guard)
{
	r->map_size = r->size + 2 * guard;
	if (r->fd >= 0 && ftruncate(r->fd, r->map_size))
		err(1, "ftruncate");
	r->map = map_aligned(r->map_size, guard, kind == HUGETLB ? MAP_HUGETLB : 0,
			     r->fd);
	r->addr = r->map + guard;
}

const char *region_create(struct region *r, enum backing kind,
			  size_t folio_size, size_t size, int node)
{
	size_t guard = folio_size > 64 * KIB ? folio_size : 64 * KIB;
	const char *why = NULL;
	bool large = folio_size > PAGE && kind != HUGETLB, found;

	memset(r, 0, sizeof(*r));
	r->size = size;
	r->folio_size = folio_size;
	r->fd = region_open(kind, &why);
	if (why)
		return why;
	if (kind == HUGETLB && access(HUGETLB_MAPPED, F_OK))
		return "no engine of this kernel copies huge pages";
	if (kind == HUGETLB && !hugetlb_reserve(2 * (size + 2 * guard) / PMD))
		return "no huge pages to be had";
	region_map(r, kind, guard);
	found = !large || thp_take(folio_size, kind != ANON);
	if (large)
		madvise(r->map, r->map_size, MADV_HUGEPAGE);

	node_alloc_on(node);
	guards_fill(r);
	region_fill(r, 0x1122334455667788ULL);
	node_alloc_on(-1);

	/* They shall stay as they are */
	if (folio_size < PMD)
		madvise(r->map, r->map_size, MADV_NOHUGEPAGE);
	if (large && found)
		thp_give_back();
	if (!found)
		return "no transparent huge pages of this size";
	if (folio_size && !no_flags && pages_not_in_folios(r->addr, size, folio_size))
		return "folios of this size could not be had";
	return NULL;
}

void region_destroy(struct region *r)
{
	munmap(r->map, r->map_size);
	if (r->fd >= 0)
		close(r->fd);
}

/* --- where the pages are --- */

bool region_has_poison(const struct region *r)
{
	uint64_t *flags = page_flags(r->addr, r->size), all = 0;

	for (size_t i = 0; i < r->size / PAGE; i++)
		all |= flags[i];
	free(flags);
	return all & PAGE_POISON;
}

size_t region_pages_off(const struct region *r, int node)
{
	return pages_not_on(node, r->addr, r->size);
}

/* --- moving --- */

/*
 * Can page @i be behind the first one of a folio? What was split and lies where it
 * lay before can, too; it stays then, and lies elsewhere once the first one moves.
 */
static bool can_be_tail(const struct region *r, const uint64_t *frames, size_t i)
{
	size_t nr = r->folio_size / PAGE, at = nr > 1 ? i % nr : 0;

	return at && frames[i - at] % nr == 0 && frames[i] == frames[i - at] + at;
}

/* The same as pages_first() without a look at flags */
static size_t pages_that_can_be_first(const struct region *r, void **pages)
{
	uint64_t *frames = page_frames(r->addr, r->size);
	size_t nr = 0;

	for (size_t i = 0; i < r->size / PAGE; i++)
		if (!frames[i] || !can_be_tail(r, frames, i))
			pages[nr++] = r->addr + i * PAGE;
	free(frames);
	return nr;
}

long pages_move(const struct region *r, int to, enum sharing sharing)
{
	void **pages = calloc(r->size / PAGE, sizeof(*pages));
	size_t nr;
	long error;

	if (!pages)
		err(1, "calloc");
	nr = no_flags ? pages_that_can_be_first(r, pages) :
			pages_first(r->addr, r->size, pages);
	error = pages_send(pages, nr, to,
			   sharing == SHARED ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE);
	free(pages);
	return error < 0 ? error : (long)region_pages_off(r, to);
}

long region_move(struct region *r, enum mover call, int from, int to)
{
	unsigned long old = 1UL << from, new = 1UL << to;
	long error;

	switch (call) {
	case MOVE_PAGES:
		return pages_move(r, to, OWN);
	case MBIND:
		error = syscall(SYS_mbind, r->addr, r->size, MPOL_BIND, &new,
				sizeof(new) * 8, MPOL_MF_MOVE | MPOL_MF_STRICT);
		return error ? -errno : 0;
	case MIGRATE_PAGES:
		error = syscall(SYS_migrate_pages, 0, sizeof(old) * 8, &old,
				&new);
		return error < 0 ? -errno : (long)region_pages_off(r, to);
	}
	return -EINVAL;
}
