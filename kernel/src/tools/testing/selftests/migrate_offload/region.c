// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/kernel-page-flags.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "offload.h"
#include "region.h"
#include "scratch.h"

#define GUARD_SEED	0x5a5a5a5a5a5a5a5aULL
#define THP_DIR		"/sys/kernel/mm/transparent_hugepage"
#define HUGETLB_MAPPED	"/sys/kernel/mm/hugepages/hugepages-2048kB/migrate_mapped"

static bool no_flags;

void region_ask_no_flags(void)
{
	no_flags = true;
}

/* --- nodes --- */

/* Numbers of a list such as "0-1,3" */
static int list_parse(const char *list, int *numbers, int max)
{
	int nr = 0;
	char *end;

	while (*list >= '0' && *list <= '9') {
		long first = strtol(list, &end, 10);
		long last = *end == '-' ? strtol(end + 1, &end, 10) : first;

		for (; first <= last && nr < max; first++)
			numbers[nr++] = first;
		list = *end ? end + 1 : end;
	}
	return nr;
}

bool nodes_find(int nodes[2])
{
	char list[256];

	if (file_read("/sys/devices/system/node/has_memory", list,
		      sizeof(list)))
		return false;
	return list_parse(list, nodes, 2) == 2;
}

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
	int cpus[CPU_SETSIZE], nr;
	char path[64], list[256];
	cpu_set_t set;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist",
		 node);
	if (file_read(path, list, sizeof(list)))
		return false;
	nr = list_parse(list, cpus, CPU_SETSIZE);
	CPU_ZERO(&set);
	for (int i = 0; i < nr; i++)
		CPU_SET(cpus[i], &set);
	return nr && !sched_setaffinity(0, sizeof(set), &set);
}

void node_alloc_on(int node)
{
	unsigned long mask = 1UL << node;
	long error;

	if (node < 0)
		error = syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	else
		error = syscall(SYS_set_mempolicy, MPOL_BIND, &mask,
				sizeof(mask) * 8);
	if (error)
		err(1, "set_mempolicy(node %d)", node);
}

/* --- contents --- */

static uint64_t pattern(uint64_t seed, size_t offset)
{
	return (offset / 8 + 1) * 0x9e3779b97f4a7c15ULL ^ seed;
}

uint64_t region_word(const struct region *r, size_t offset)
{
	return pattern(r->seed, offset);
}

static void fill(char *from, char *to, uint64_t seed)
{
	for (uint64_t *p = (void *)from; p < (uint64_t *)to; p++)
		*p = pattern(seed, (char *)p - from);
}

static size_t wrong_words(const char *from, const char *to, uint64_t seed)
{
	size_t wrong = 0;

	for (const uint64_t *p = (void *)from; p < (uint64_t *)to; p++)
		wrong += *p != pattern(seed, (char *)p - from);
	return wrong;
}

void region_fill(struct region *r, uint64_t seed)
{
	r->seed = seed;
	fill(r->addr, r->addr + r->size, seed);
}

void region_refill(struct region *r, size_t offset, size_t size)
{
	for (size_t at = offset; at < offset + size; at += 8)
		*(uint64_t *)(r->addr + at) = pattern(r->seed, at);
}

size_t region_wrong_words(const struct region *r)
{
	char *end = r->addr + r->size;

	return wrong_words(r->map, r->addr, GUARD_SEED) +
	       wrong_words(r->addr, end, r->seed) +
	       wrong_words(end, r->map + r->map_size, GUARD_SEED);
}

/* --- folios of a chosen size --- */

#define MAX_SIZES	16

/* A file that says who gets huge pages of one size, and what it said before */
struct thp_knob {
	char path[128];
	char old[32];
};

struct thp_knobs {
	struct thp_knob knobs[MAX_SIZES];
	size_t nr;
};

static void knob_set(struct thp_knob *knob, const char *path, const char *value)
{
	char choices[128] = "", *chosen;

	snprintf(knob->path, sizeof(knob->path), "%s", path);
	file_read(path, choices, sizeof(choices));
	chosen = strchr(choices, '[');
	if (!chosen)
		errx(1, "cannot read %s", path);
	snprintf(knob->old, sizeof(knob->old), "%.*s",
		 (int)strcspn(chosen + 1, "]"), chosen + 1);
	if (file_write(path, value))
		errx(1, "cannot write %s to %s", value, path);
}

/* Those who ask get huge pages of this size only; false if there are none */
static bool knobs_set(struct thp_knobs *all, size_t folio_size,
		      enum backing backing)
{
	const char *file = backing == ANON ? "enabled" : "shmem_enabled";
	char pattern[128], wanted[32];
	bool found = false, want;
	glob_t sizes;

	all->nr = 0;
	snprintf(wanted, sizeof(wanted), "-%lukB/", folio_size / KIB);
	snprintf(pattern, sizeof(pattern), THP_DIR "/hugepages-*kB/%s", file);
	if (glob(pattern, 0, NULL, &sizes))
		return false;
	for (size_t i = 0; i < sizes.gl_pathc && i < MAX_SIZES; i++) {
		want = strstr(sizes.gl_pathv[i], wanted);
		found |= want;
		knob_set(&all->knobs[all->nr++], sizes.gl_pathv[i],
			 !want ? "never" : backing == ANON ? "madvise" : "advise");
	}
	globfree(&sizes);
	return found;
}

static void knobs_restore(const struct thp_knobs *all)
{
	for (size_t i = 0; i < all->nr; i++)
		file_write(all->knobs[i].path, all->knobs[i].old);
}

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
	dir = scratch_mount(types[backing], why);
	return dir ? open(dir, O_RDWR | O_TMPFILE, 0600) : -1;
}

static void region_map(struct region *r, enum backing kind, size_t guard)
{
	int flags = r->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	char *hole;

	if (kind == HUGETLB)
		flags |= MAP_HUGETLB;
	r->map_size = r->size + 2 * guard;
	if (r->fd >= 0 && ftruncate(r->fd, r->map_size))
		err(1, "ftruncate");
	/* Large folios need an address that fits their offset in the file */
	hole = mmap(NULL, r->map_size + guard, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (hole == MAP_FAILED)
		err(1, "mmap");
	r->map = (char *)(((uintptr_t)hole + guard - 1) & -guard);
	if (mmap(r->map, r->map_size, PROT_READ | PROT_WRITE, flags | MAP_FIXED,
		 r->fd, 0) == MAP_FAILED)
		err(1, "mmap");
	r->addr = r->map + guard;
}

/* So many huge pages of 2 MiB for each of the first two nodes; false if there are fewer */
static bool hugetlb_reserve(long nr)
{
	char path[96], number[24];
	bool all = true;
	int nodes[2];

	snprintf(number, sizeof(number), "%ld", nr);
	for (int i = 0; nodes_find(nodes) && i < 2; i++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages",
			 nodes[i]);
		all &= !file_write(path, number) && file_read_long(path) == nr;
	}
	return all;
}

void hugetlb_give_back(void)
{
	hugetlb_reserve(0);
}

const char *region_create(struct region *r, enum backing kind,
			  size_t folio_size, size_t size, int node)
{
	size_t guard = folio_size > 64 * KIB ? folio_size : 64 * KIB;
	struct thp_knobs knobs = {};
	const char *why = NULL;
	bool found = true;

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
	if (folio_size > PAGE && kind != HUGETLB) {
		found = knobs_set(&knobs, folio_size, kind);
		madvise(r->map, r->map_size, MADV_HUGEPAGE);
	}

	node_alloc_on(node);
	fill(r->map, r->addr, GUARD_SEED);
	region_fill(r, 0x1122334455667788ULL);
	fill(r->addr + size, r->map + r->map_size, GUARD_SEED);
	node_alloc_on(-1);

	/* They shall stay as they are */
	if (folio_size < PMD)
		madvise(r->map, r->map_size, MADV_NOHUGEPAGE);
	knobs_restore(&knobs);
	if (!found)
		return "no transparent huge pages of this size";
	if (folio_size && !no_flags && region_pages_not_in(r, folio_size))
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

/* Words of a file of the kernel that is an array of them */
static void file_words(const char *path, uint64_t first, uint64_t *words,
		       size_t nr)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = nr * sizeof(*words);

	if (fd < 0 || pread(fd, words, len, first * sizeof(*words)) != len)
		err(1, "cannot read %s", path);
	close(fd);
}

/* Page frame numbers; 0 for what is not present */
static uint64_t *page_frames(const char *addr, size_t nr)
{
	uint64_t *frames = calloc(nr, sizeof(*frames));

	if (!frames)
		err(1, "calloc");
	file_words("/proc/self/pagemap", (uintptr_t)addr / PAGE, frames, nr);
	for (size_t i = 0; i < nr; i++)
		frames[i] = frames[i] >> 63 ? frames[i] & ((1ULL << 55) - 1) : 0;
	return frames;
}

uint64_t page_frame(const void *addr)
{
	uint64_t *frames = page_frames(addr, 1);
	uint64_t frame = *frames;

	free(frames);
	return frame;
}

static bool frame_has(uint64_t frame, unsigned int flag)
{
	uint64_t flags;

	if (no_flags)
		errx(1, "no flags must be asked for here, see region.h");
	file_words("/proc/kpageflags", frame, &flags, 1);
	return flags >> flag & 1;
}

size_t region_pages_not_in(const struct region *r, size_t folio_size)
{
	size_t nr = folio_size / PAGE, wrong = 0;
	uint64_t *frames = page_frames(r->addr, r->size / PAGE);

	for (size_t i = 0; i < r->size / PAGE; i++) {
		bool first = i % nr == 0;

		wrong += !frames[i] || frames[i] != frames[i - i % nr] + i % nr ||
			 frame_has(frames[i], KPF_COMPOUND_HEAD) != (first && nr > 1) ||
			 frame_has(frames[i], KPF_COMPOUND_TAIL) != !first;
	}
	free(frames);
	return wrong;
}

bool region_has_poison(const struct region *r)
{
	uint64_t *frames = page_frames(r->addr, r->size / PAGE);
	bool poison = false;

	for (size_t i = 0; i < r->size / PAGE; i++)
		poison |= frames[i] && frame_has(frames[i], KPF_HWPOISON);
	free(frames);
	return poison;
}

/* The nodes of pages, or -errno each */
static int *page_nodes(const char *addr, size_t nr)
{
	void **pages = calloc(nr, sizeof(*pages));
	int *nodes = calloc(nr, sizeof(*nodes));

	if (!pages || !nodes)
		err(1, "calloc");
	for (size_t i = 0; i < nr; i++)
		pages[i] = (void *)addr + i * PAGE;
	if (syscall(SYS_move_pages, 0, nr, pages, NULL, nodes, 0))
		err(1, "move_pages");
	free(pages);
	return nodes;
}

int page_node(const void *addr)
{
	int *nodes = page_nodes(addr, 1);
	int node = *nodes;

	free(nodes);
	return node;
}

size_t region_pages_off(const struct region *r, int node)
{
	int *nodes = page_nodes(r->addr, r->size / PAGE);
	size_t off = 0;

	for (size_t i = 0; i < r->size / PAGE; i++)
		off += nodes[i] != node;
	free(nodes);
	return off;
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

static bool is_tail(const struct region *r, const uint64_t *frames, size_t i)
{
	if (!i || !frames[i])
		return false;
	return no_flags ? can_be_tail(r, frames, i) :
			  frame_has(frames[i], KPF_COMPOUND_TAIL);
}

/* The first page of each folio: to name another one would split the call */
static size_t pages_to_move(const struct region *r, void **pages)
{
	uint64_t *frames = page_frames(r->addr, r->size / PAGE);
	size_t nr = 0;

	for (size_t i = 0; i < r->size / PAGE; i++)
		if (!is_tail(r, frames, i))
			pages[nr++] = r->addr + i * PAGE;
	free(frames);
	return nr;
}

long pages_move(const struct region *r, int to, enum sharing sharing)
{
	void **pages = calloc(r->size / PAGE, sizeof(*pages));
	int *status = calloc(r->size / PAGE, sizeof(*status));
	int *nodes = calloc(r->size / PAGE, sizeof(*nodes));
	size_t nr;
	long error;

	if (!pages || !status || !nodes)
		err(1, "calloc");
	nr = pages_to_move(r, pages);
	for (size_t i = 0; i < nr; i++)
		nodes[i] = to;
	error = syscall(SYS_move_pages, 0, nr, pages, nodes, status,
			sharing == SHARED ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE);
	error = error < 0 ? -errno : (long)region_pages_off(r, to);
	free(pages);
	free(status);
	free(nodes);
	return error;
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
