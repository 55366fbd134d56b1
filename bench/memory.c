// SPDX-License-Identifier: GPL-2.0
/* The memory that will move: mapped, bound to the source node, filled. */
#define _GNU_SOURCE
#include "migbench.h"

#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <numaif.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGN_BYTES (2UL << 20)
/* What a page of a PMD table maps: with --apart no two movers share one */
#define APART_BYTES (1UL << 30)

bool memory_is_file(const struct options *opt)
{
	return !strcmp(opt->memory, "file");
}

/* As of a model: a file that nobody can write to by what maps it */
bool memory_is_weights(const struct options *opt)
{
	return !strcmp(opt->memory, "weights");
}

bool memory_is_hugetlb(const struct options *opt)
{
	return !strcmp(opt->memory, "hugetlb");
}

char *memory_page(const struct bench *b, size_t page)
{
	const struct region *mem = &b->mem;

	return mem->base + page / mem->share_pages * mem->stride +
	       page % mem->share_pages * PAGE_BYTES;
}

/* Which page is this? Return: false if it is none of ours. */
bool memory_find(const struct bench *b, uintptr_t addr, size_t *page)
{
	const struct region *mem = &b->mem;
	size_t offset = addr - (uintptr_t)mem->base;
	size_t share = offset / mem->stride, inside = offset % mem->stride / PAGE_BYTES;

	*page = share * mem->share_pages + inside;
	return inside < mem->share_pages && *page < mem->pages;
}

/* Address space at a boundary of @align bytes, so that any folio size fits. */
static char *reserve(size_t bytes, size_t align)
{
	char *base = mmap(NULL, bytes + align, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t skip;

	if (base == MAP_FAILED)
		die(EXIT_CANNOT_RUN, "mmap of %zu bytes: %m", bytes);
	skip = -(uintptr_t)base % align;
	if (skip)
		munmap(base, skip);
	munmap(base + skip + bytes, align - skip);
	return base + skip;
}

static struct bitmask *mask_of(unsigned long node)
{
	return numa_bitmask_setbit(numa_allocate_nodemask(), (unsigned int)node);
}

/* New page-cache folios, made by writes of one folio each, clean on disk. */
static int fill_file(const struct options *opt)
{
	int fd = open(opt->file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char *folio = zalloc(1, opt->folio_bytes);
	size_t at, page;

	if (fd < 0)
		die(EXIT_BAD_USAGE, "--file %s: %m; name a new file in a writable directory",
		    opt->file);
	errno = 0;
	if (unlink(opt->file))
		die(EXIT_CANNOT_RUN, "--file %s: unlink: %m", opt->file);
	for (at = 0; at < opt->bytes; at += opt->folio_bytes) {
		for (page = 0; page < opt->folio_bytes; page += PAGE_BYTES)
			pattern_fill(folio + page, (at + page) / PAGE_BYTES, opt->seed);
		if (pwrite(fd, folio, opt->folio_bytes, (off_t)at) !=
		    (ssize_t)opt->folio_bytes)
			die(EXIT_CANNOT_RUN, "--file %s: write at %zu: %s", opt->file, at,
			    errno ? strerror(errno) : "filesystem full");
	}
	if (fsync(fd))
		die(EXIT_CANNOT_RUN, "--file %s: fsync: %m", opt->file);
	free(folio);
	return fd;
}

/* New memory in the place of the old: of one share, or of all. */
static void map(const struct bench *b, int fd, char *base, size_t bytes)
{
	const struct options *opt = &b->opt;
	const struct bitmask *from = b->mem.mask_from;
	int advice = opt->folio_bytes > PAGE_BYTES ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
	bool hugetlb = memory_is_hugetlb(opt);
	int flags = MAP_FIXED;

	flags |= hugetlb || !strcmp(opt->memory, "anon") ? MAP_PRIVATE : MAP_SHARED;
	flags |= fd < 0 ? MAP_ANONYMOUS : 0;
	flags |= hugetlb ? MAP_HUGETLB | __builtin_ctzl(opt->folio_bytes) << MAP_HUGE_SHIFT : 0;
	if (mmap(base, bytes, PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED)
		die(EXIT_CANNOT_RUN, "mmap of %zu bytes: %m", bytes);
	/* EINVAL: a kernel without huge pages, which has nothing to advise */
	if (!hugetlb && madvise(base, bytes, advice) &&
	    (errno != EINVAL || advice == MADV_HUGEPAGE))
		die(EXIT_CANNOT_RUN, "madvise: %m");
	/* a policy of its own also keeps NUMA balancing away */
	if (mbind(base, bytes, MPOL_BIND, from->maskp, from->size + 1, 0))
		die(EXIT_CANNOT_RUN, "mbind to node %lu: %m", opt->from);
}

/* A file in memory, with no room yet. */
static int new_shmem(const struct options *opt)
{
	int fd = memfd_create("weights", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)opt->bytes))
		die(EXIT_CANNOT_RUN, "memfd of %lu bytes: %m", opt->bytes);
	return fd;
}

/* By a descriptor that cannot write: what was writable goes. */
static void map_read_only(const struct bench *b, int fd)
{
	size_t bytes = b->mem.pages * PAGE_BYTES, at;
	char path[40];
	int reader;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	if (reader < 0 || mmap(b->mem.base, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, reader,
			       0) == MAP_FAILED)
		die(EXIT_CANNOT_RUN, "mmap of %s: %m", path);
	for (at = 0; at < bytes; at += PAGE_BYTES)
		(void)*(volatile char *)(b->mem.base + at);
	close(reader);
}

/* More memory like it. */
char *memory_map(const struct bench *b, size_t bytes)
{
	char *base = reserve(bytes, ALIGN_BYTES);

	map(b, -1, base, bytes);
	return base;
}

/* Where it is to be is no longer said. */
void memory_forget_policy(const struct bench *b)
{
	const struct region *mem = &b->mem;
	size_t i;

	for (i = 0; i < mem->pages; i += mem->share_pages)
		if (mbind(memory_page(b, i), mem->share_pages * PAGE_BYTES, MPOL_DEFAULT,
			  NULL, 0, 0))
			die(EXIT_CANNOT_RUN, "mbind: %m");
}

static void confirm(struct bench *b)
{
	size_t home = place_count(b, b->opt.from), first = 0, wrong;

	if (home < b->mem.pages)
		die(EXIT_CANNOT_RUN,
		    "only %zu of %zu pages are on node %lu before the move; free memory there",
		    home, b->mem.pages, b->opt.from);
	wrong = place_wrong_folios(b, &first);
	if (wrong)
		die(EXIT_CANNOT_RUN,
		    "--folio %luK: the kernel gave %zu of %zu folios another size (first at offset %#lx); %s",
		    b->opt.folio_bytes >> 10, wrong, b->mem.folios,
		    first * b->opt.folio_bytes,
		    memory_is_file(&b->opt) ?
		    "ask for a size that the filesystem uses (tmpfs: mount with huge=always for 2M)" :
		    "if memory is fragmented: echo 1 > /proc/sys/vm/compact_memory");
}

/* Those of a file are filled, and only to be mapped. */
static void fill(struct bench *b, size_t folio)
{
	size_t pages = b->opt.folio_bytes / PAGE_BYTES, page = folio * pages, end;

	/* Reclaim takes first what was filled first; and so frames do not adjoin */
	if (b->call->aged || !strcmp(b->opt.order, "scattered"))
		memory_find(b, (uintptr_t)b->mem.addr[folio], &page);
	for (end = page + pages; page < end; page++) {
		char *at = memory_page(b, page);

		if (memory_is_file(&b->opt))
			(void)*(volatile char *)at;
		else
			pattern_fill(at, page, b->opt.seed);
	}
	if (b->call->filled)
		b->call->filled(b, folio);
}

/*
 * New, filled, and confirmed to be on the source node in folios of the right
 * size. Moving the old memory back instead would not do: some kernels (6.12.117)
 * split a folio that is mapped by PTEs when it moves a second time.
 */
void memory_renew(struct bench *b)
{
	const struct options *opt = &b->opt;
	struct region *mem = &b->mem;
	const struct bitmask *from = mem->mask_from;
	int fd = -1;
	size_t i;

	if (set_mempolicy(MPOL_BIND, from->maskp, from->size + 1))
		die(EXIT_CANNOT_RUN, "set_mempolicy to node %lu: %m", opt->from);
	if (memory_is_file(opt))
		fd = fill_file(opt);
	if (memory_is_weights(opt))
		fd = new_shmem(opt);
	for (i = 0; i < mem->pages; i += mem->share_pages)
		map(b, fd, memory_page(b, i), mem->share_pages * PAGE_BYTES);
	for (i = 0; i < mem->folios; i++)
		fill(b, i);
	if (memory_is_weights(opt))
		map_read_only(b, fd);
	if (set_mempolicy(MPOL_DEFAULT, NULL, 0))
		die(EXIT_CANNOT_RUN, "set_mempolicy: %m");
	if (fd >= 0)
		close(fd);
	memset(mem->touches, 0, mem->pages * mem->touchers * sizeof(*mem->touches));
	confirm(b);
}

/* Where the memory is to be: in one piece, or a mover's share in each. */
static void lay_out(struct bench *b)
{
	struct region *mem = &b->mem;
	size_t shares = b->opt.apart ? b->opt.threads : 1;
	size_t align = b->opt.apart || b->opt.folio_bytes > ALIGN_BYTES ? APART_BYTES : ALIGN_BYTES;
	size_t bytes;

	mem->share_pages = mem->pages / shares;
	bytes = mem->share_pages * PAGE_BYTES;
	mem->stride = (bytes + align - 1) / align * align;
	/* Mappings that adjoin would be one */
	if (b->opt.apart && mem->stride == bytes)
		mem->stride += align;
	mem->base = reserve(shares * mem->stride, align);
}

/* The folios in an order that the seed alone decides. */
static void shuffle(struct region *mem, uint64_t seed)
{
	uint64_t x = seed * 2 + 1;
	size_t i;

	for (i = mem->folios - 1; i; i--) {
		void *addr = mem->addr[i];
		size_t other;

		x = x * 6364136223846793005 + 1442695040888963407;
		other = (x >> 32) % (i + 1);
		mem->addr[i] = mem->addr[other];
		mem->addr[other] = addr;
	}
}

/* What stays the same from run to run: the address, and the calls' arrays. */
void memory_set_up(struct bench *b)
{
	const struct options *opt = &b->opt;
	struct region *mem = &b->mem;
	size_t i;

	mem->folios = opt->bytes / opt->folio_bytes;
	mem->pages = opt->bytes / PAGE_BYTES;
	mem->mask_from = mask_of(opt->from);
	mem->mask_to = mask_of(opt->to);
	lay_out(b);
	mem->addr = zalloc(mem->folios, sizeof(*mem->addr));
	mem->node_to = zalloc(mem->folios, sizeof(*mem->node_to));
	mem->status = zalloc(mem->folios, sizeof(*mem->status));
	mem->touchers = 1 + b->opt.writers;
	mem->touches = zalloc(mem->pages * mem->touchers, sizeof(*mem->touches));
	mem->wrong = zalloc(mem->folios, sizeof(*mem->wrong));
	for (i = 0; i < mem->folios; i++) {
		mem->addr[i] = memory_page(b, i * opt->folio_bytes / PAGE_BYTES);
		mem->node_to[i] = (int)opt->to;
		mem->status[i] = -1;	/* writes it: none of this faults in the call */
	}
	if (strcmp(opt->order, "up"))
		shuffle(mem, opt->seed);
}
