// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <linux/mempolicy.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../kselftest.h"
#include "large.h"

#define THP_DIR	"/sys/kernel/mm/transparent_hugepage/hugepages-64kB"
#define PMD_DIR	"/sys/kernel/mm/transparent_hugepage/hugepages-2048kB"

/* --- files --- */

int file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		error = -errno;
	close(fd);
	return error;
}

int run(const char *format, ...)
{
	char command[512], quiet[600];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	snprintf(quiet, sizeof(quiet), "(%s) >/dev/null 2>&1 </dev/null", command);
	return system(quiet);
}

static void words_of(const char *path, uint64_t index, uint64_t *words, size_t nr)
{
	ssize_t size = nr * sizeof(*words);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || pread(fd, words, size, index * sizeof(*words)) != size)
		err(1, "cannot read %s", path);
	close(fd);
}

static uint64_t word_of(const char *path, uint64_t index)
{
	uint64_t word;

	words_of(path, index, &word, 1);
	return word;
}

long stat_of(const char *path, const char *name)
{
	char line[256], found[128];
	FILE *file = fopen(path, "r");
	long value = -1, number;

	while (file && value < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "%127s %ld", found, &number) == 2 && !strcmp(found, name))
			value = number;
	if (file)
		fclose(file);
	return value;
}

long number_of(const char *path)
{
	FILE *file = fopen(path, "r");
	long number = -1;

	if (file && fscanf(file, "%ld", &number) != 1)
		number = -1;
	if (file)
		fclose(file);
	return number;
}

long smaps_kb(const char *addr, size_t size, const char *field)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long start, end;
	char line[512], name[64];
	bool inside = false;
	long sum = 0, kb;

	if (!file)
		err(1, "smaps");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start < (uintptr_t)addr + size && end > (uintptr_t)addr;
		else if (inside && sscanf(line, "%63s %ld kB", name, &kb) == 2 &&
			 !strcmp(name, field))
			sum += kb;
	}
	fclose(file);
	return sum;
}

/* --- pages --- */

uint64_t pagemap(const void *addr)
{
	return word_of("/proc/self/pagemap", (uintptr_t)addr / PAGE);
}

uint64_t kpagecount(const void *addr)
{
	return word_of("/proc/kpagecount", pagemap(addr) & PM_FRAME);
}

/*
 * What the kernel says of the pages of a range. At once: page by page a debug
 * kernel takes minutes for 64 MiB.
 */
static void look_at(const char *addr, size_t nr, uint64_t *map, uint64_t *flags)
{
	words_of("/proc/self/pagemap", (uintptr_t)addr / PAGE, map, nr);
	for (size_t i = 0, run; i < nr; i += run) {
		run = 1;
		flags[i] = 0;
		if (!(map[i] & PM_PRESENT))
			continue;
		while (i + run < nr && map[i + run] & PM_PRESENT &&
		       (map[i + run] & PM_FRAME) == (map[i] & PM_FRAME) + run)
			run++;
		words_of("/proc/kpageflags", map[i] & PM_FRAME, flags + i, run);
	}
}

static void *array(size_t nr, size_t size)
{
	void *found = calloc(nr, size);

	if (!found)
		err(1, "calloc");
	return found;
}

size_t large_pages_not_whole(const char *addr, size_t size)
{
	size_t wrong = 0, all = size / PAGE;
	uint64_t *map = array(all, sizeof(*map));
	uint64_t *flags = array(all, sizeof(*flags)), head = 0;

	look_at(addr, all, map, flags);
	for (size_t i = 0; i < all; i++) {
		if (i % NR == 0)
			head = map[i] & PM_FRAME;
		wrong += (map[i] & PM_FRAME) != head + i % NR ||
			 !(flags[i] >> (i % NR ? KPF_COMPOUND_TAIL : KPF_COMPOUND_HEAD) & 1);
	}
	free(map);
	free(flags);
	return wrong;
}

size_t large_move(char *addr, size_t size, int node)
{
	size_t nr = 0, all = size / PAGE, off = 0;
	uint64_t *map = array(all, sizeof(*map));
	uint64_t *flags = array(all, sizeof(*flags));
	void **pages = array(all, sizeof(*pages));
	int *nodes = array(all, sizeof(*nodes));
	int *status = array(all, sizeof(*status));

	look_at(addr, all, map, flags);
	/* A page in the middle of a folio would end the batch */
	for (size_t i = 0; i < all; i++) {
		if (i && flags[i] >> KPF_COMPOUND_TAIL & 1 &&
		    (map[i] & PM_FRAME) == (map[i - 1] & PM_FRAME) + 1)
			continue;
		nodes[nr] = node;
		pages[nr++] = addr + i * PAGE;
	}
	if (syscall(SYS_move_pages, 0, nr, pages, nodes, status, MPOL_MF_MOVE_ALL) < 0)
		err(1, "move_pages");
	for (size_t i = 0; i < all; i++)
		pages[i] = addr + i * PAGE;
	if (syscall(SYS_move_pages, 0, all, pages, NULL, status, 0))
		err(1, "move_pages");
	words_of("/proc/self/pagemap", (uintptr_t)addr / PAGE, map, all);
	for (size_t i = 0; i < all; i++)
		off += map[i] & PM_PRESENT && status[i] != node;
	free(map);
	free(flags);
	free(pages);
	free(nodes);
	free(status);
	return off;
}

/* --- contents --- */

uint64_t large_word(size_t offset)
{
	return (offset / 8 + 1) * 0x9e3779b97f4a7c15ULL;
}

void large_fill(char *addr, size_t offset, size_t size)
{
	for (size_t at = offset; at < offset + size; at += 8)
		*(uint64_t *)(addr + at) = large_word(at);
}

size_t large_wrong(const char *addr, size_t offset, size_t size)
{
	size_t wrong = 0;

	for (size_t at = offset; at < offset + size; at += 8)
		wrong += *(volatile uint64_t *)(addr + at) != large_word(at);
	return wrong;
}

/* --- memory --- */

const char *large_missing(void)
{
	if (geteuid())
		return "not root";
	if (access("/sys/devices/system/node/node1/meminfo", R_OK))
		return "no second node";
	if (access(THP_DIR "/enabled", W_OK))
		return "no folios of 64 KiB";
	return NULL;
}

/* @advice: about huge pages, for as long as this takes */
static void fill_on_node0(char *addr, size_t size, int advice)
{
	unsigned long node0 = 1;

	if (syscall(SYS_set_mempolicy, MPOL_BIND, &node0, sizeof(node0) * 8))
		err(1, "set_mempolicy");
	madvise(addr, size, advice);
	large_fill(addr, 0, size);
	/* They shall stay as they are */
	madvise(addr, size, MADV_NOHUGEPAGE);
	if (syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0))
		err(1, "set_mempolicy");
}

static int prefer(const char *file, const char *advised, bool large)
{
	char knob[128], pmd_knob[128];

	snprintf(knob, sizeof(knob), THP_DIR "/%s", file);
	snprintf(pmd_knob, sizeof(pmd_knob), PMD_DIR "/%s", file);
	return file_write(knob, large ? advised : "never") ?:
	       file_write(pmd_knob, large ? "never" : "inherit");
}

int large_prefer(bool large)
{
	return prefer("enabled", "madvise", large);
}

static int shmem_prefer(bool large)
{
	return prefer("shmem_enabled", "advise", large);
}

bool large_populate(char *addr, size_t size, int fd)
{
	int (*prefer)(bool large) = fd < 0 ? large_prefer : shmem_prefer;

	if (prefer(true))
		return false;
	fill_on_node0(addr, size, MADV_HUGEPAGE);
	prefer(false);
	return !large_pages_not_whole(addr, size);
}

static char *map_aligned(size_t size, size_t align, int flags)
{
	char *hole = mmap(NULL, size + 2 * align, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *addr = (char *)(((uintptr_t)hole + align) & -align);

	if (hole == MAP_FAILED)
		err(1, "mmap");
	if (mmap(addr, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0) == MAP_FAILED)
		err(1, "mmap");
	return addr;
}

char *large_alloc(size_t size, size_t align)
{
	char *addr = map_aligned(size, align, 0);

	return large_populate(addr, size, -1) ? addr : NULL;
}

char *small_alloc(size_t size, size_t align)
{
	char *addr = map_aligned(size, align, 0);

	fill_on_node0(addr, size, MADV_NOHUGEPAGE);
	return addr;
}

char *huge_alloc(size_t size)
{
	char *addr = map_aligned(size, PMD, 0);

	fill_on_node0(addr, size, MADV_HUGEPAGE);
	return smaps_kb(addr, size, "AnonHugePages:") * KIB == size ? addr : NULL;
}

bool hugetlb_reserve(long nr)
{
	char path[96], number[24];
	bool all = true;

	snprintf(number, sizeof(number), "%ld", nr);
	for (int node = 0; node < 2; node++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages",
			 node);
		all &= !file_write(path, number) && number_of(path) == nr;
	}
	return all;
}

char *hugetlb_alloc(size_t size)
{
	char *addr;

	/* To move there, for what a fork shares, and some that are still in use */
	if (!hugetlb_reserve(4 * size / PMD))
		return NULL;
	addr = map_aligned(size, PMD, MAP_HUGETLB);
	fill_on_node0(addr, size, MADV_NORMAL);
	return addr;
}
