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

bool memory_is_file(const struct options *opt)
{
	return !strcmp(opt->memory, "file");
}

/* Address space at a 2 MiB boundary, so that any folio size fits. */
static char *reserve(size_t bytes)
{
	char *base = mmap(NULL, bytes + ALIGN_BYTES, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t skip;

	if (base == MAP_FAILED)
		die(EXIT_CANNOT_RUN, "mmap of %zu bytes: %s", bytes, strerror(errno));
	skip = -(uintptr_t)base % ALIGN_BYTES;
	if (skip)
		munmap(base, skip);
	munmap(base + skip + bytes, ALIGN_BYTES - skip);
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
		die(EXIT_BAD_USAGE, "--file %s: %s; name a new file in a writable directory",
		    opt->file, strerror(errno));
	errno = 0;
	if (unlink(opt->file))
		die(EXIT_CANNOT_RUN, "--file %s: unlink: %s", opt->file, strerror(errno));
	for (at = 0; at < opt->bytes; at += opt->folio_bytes) {
		for (page = 0; page < opt->folio_bytes; page += PAGE_BYTES)
			pattern_fill(folio + page, (at + page) / PAGE_BYTES, opt->seed);
		if (pwrite(fd, folio, opt->folio_bytes, (off_t)at) !=
		    (ssize_t)opt->folio_bytes)
			die(EXIT_CANNOT_RUN, "--file %s: write at %zu: %s", opt->file, at,
			    errno ? strerror(errno) : "filesystem full");
	}
	if (fsync(fd))
		die(EXIT_CANNOT_RUN, "--file %s: fsync: %s", opt->file, strerror(errno));
	free(folio);
	return fd;
}

/* New memory in the place of the old. */
static void map(struct bench *b, int fd)
{
	const struct options *opt = &b->opt;
	const struct bitmask *from = b->mem.mask_from;
	int advice = opt->folio_bytes > PAGE_BYTES ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
	int flags = MAP_FIXED;

	flags |= !strcmp(opt->memory, "anon") ? MAP_PRIVATE : MAP_SHARED;
	flags |= fd < 0 ? MAP_ANONYMOUS : 0;
	if (mmap(b->mem.base, opt->bytes, PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED)
		die(EXIT_CANNOT_RUN, "mmap of %lu bytes: %s", opt->bytes, strerror(errno));
	/* EINVAL: a kernel without huge pages, which has nothing to advise */
	if (madvise(b->mem.base, opt->bytes, advice) &&
	    (errno != EINVAL || advice == MADV_HUGEPAGE))
		die(EXIT_CANNOT_RUN, "madvise: %s", strerror(errno));
	/* a policy of its own also keeps NUMA balancing away */
	if (mbind(b->mem.base, opt->bytes, MPOL_BIND, from->maskp, from->size + 1, 0))
		die(EXIT_CANNOT_RUN, "mbind to node %lu: %s", opt->from, strerror(errno));
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
		die(EXIT_CANNOT_RUN, "set_mempolicy to node %lu: %s", opt->from,
		    strerror(errno));
	if (memory_is_file(opt))
		fd = fill_file(opt);
	map(b, fd);
	for (i = 0; i < mem->pages; i++) {
		char *page = mem->base + i * PAGE_BYTES;

		if (fd < 0)
			pattern_fill(page, i, opt->seed);
		else
			(void)*(volatile char *)page;	/* only map it */
	}
	if (set_mempolicy(MPOL_DEFAULT, NULL, 0))
		die(EXIT_CANNOT_RUN, "set_mempolicy: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	memset(mem->touches, 0, mem->pages * sizeof(*mem->touches));
	confirm(b);
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
	mem->base = reserve(opt->bytes);
	mem->addr = zalloc(mem->folios, sizeof(*mem->addr));
	mem->node_to = zalloc(mem->folios, sizeof(*mem->node_to));
	mem->status = zalloc(mem->folios, sizeof(*mem->status));
	mem->touches = zalloc(mem->pages, sizeof(*mem->touches));
	for (i = 0; i < mem->folios; i++) {
		mem->addr[i] = mem->base + i * opt->folio_bytes;
		mem->node_to[i] = (int)opt->to;
		mem->status[i] = -1;	/* writes it: none of this faults in the call */
	}
}
