// SPDX-License-Identifier: GPL-2.0
/* Where every page is, and of which size its folio: asked from the kernel. */
#define _GNU_SOURCE
#include "migbench.h"

#include <fcntl.h>
#include <numaif.h>
#include <unistd.h>

#define BLOCK 4096		/* pages asked for at once */
#define PFN_MASK ((1UL << 55) - 1)
#define PAGE_PRESENT (1UL << 63)
#define COMPOUND_HEAD (1UL << 15)
#define COMPOUND_TAIL (1UL << 16)

size_t place_count(struct bench *b, unsigned long node)
{
	void *addr[BLOCK];
	int status[BLOCK];
	size_t page, i, there = 0;

	for (page = 0; page < b->mem.pages; page += i) {
		size_t count = b->mem.pages - page < BLOCK ? b->mem.pages - page : BLOCK;

		for (i = 0; i < count; i++)
			addr[i] = memory_page(b, page + i);
		if (move_pages(0, count, addr, NULL, status, 0))
			die(EXIT_CANNOT_RUN, "move_pages cannot tell the nodes of pages: %m");
		for (i = 0; i < count; i++)
			there += status[i] == (int)node;
	}
	return there;
}

static bool read_words(int fd, uint64_t index, uint64_t *words, size_t count)
{
	ssize_t bytes = (ssize_t)(count * sizeof(*words));

	return pread(fd, words, (size_t)bytes, (off_t)(index * sizeof(*words))) == bytes;
}

/* @count pages are mapped side by side from here on, all tails of a folio; the first frame is @frame. */
static bool part_is_right(int map_fd, int flags_fd, uint64_t page, uint64_t frame, size_t count)
{
	uint64_t map[BLOCK], flags[BLOCK];
	size_t i;

	if (!read_words(map_fd, page, map, count) || !read_words(flags_fd, frame, flags, count))
		return false;
	for (i = 0; i < count; i++)
		if (!(map[i] & PAGE_PRESENT) || (map[i] & PFN_MASK) != frame + i ||
		    !(flags[i] & COMPOUND_TAIL))
			return false;
	return true;
}

/* One folio of exactly @pages pages starts here, and is mapped as a whole. */
static bool folio_is_right(int map_fd, int flags_fd, const char *addr, size_t pages)
{
	uint64_t page = (uintptr_t)addr / PAGE_BYTES, frame, flags;
	size_t i, count;

	if (!read_words(map_fd, page, &frame, 1) || !(frame & PAGE_PRESENT))
		return false;
	frame &= PFN_MASK;
	if (!read_words(flags_fd, frame, &flags, 1) ||
	    !(flags & COMPOUND_HEAD) != (pages == 1) || flags & COMPOUND_TAIL)
		return false;
	for (i = 1; i < pages; i += count) {
		count = pages - i < BLOCK ? pages - i : BLOCK;
		if (!part_is_right(map_fd, flags_fd, page + i, frame + i, count))
			return false;
	}
	/* the page behind it does not exist at the end of memory */
	return !read_words(flags_fd, frame + pages, &flags, 1) || !(flags & COMPOUND_TAIL);
}

/* The first frame of each folio. */
void place_frames(const struct bench *b, uint64_t *frame)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool told = fd >= 0;
	size_t i;

	for (i = 0; told && i < b->mem.folios; i++) {
		told = read_words(fd, (uintptr_t)b->mem.addr[i] / PAGE_BYTES, &frame[i], 1);
		frame[i] &= PFN_MASK;
		told = told && frame[i];
	}
	if (!told)
		die(EXIT_CANNOT_RUN, "--call %s: /proc/self/pagemap tells no frames; run as root",
		    b->call->name);
	close(fd);
}

/*
 * How many folios have not the size asked for. Frame numbers are root's to see:
 * without them nothing is known, and mem.confirmed stays false.
 */
size_t place_wrong_folios(struct bench *b, size_t *first_wrong)
{
	int map_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int flags_fd = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	size_t pages = b->opt.folio_bytes / PAGE_BYTES, wrong = 0, i;
	uint64_t entry = 0;

	b->mem.confirmed = map_fd >= 0 && flags_fd >= 0 &&
		read_words(map_fd, (uintptr_t)b->mem.base / PAGE_BYTES, &entry, 1) &&
		entry & PFN_MASK;
	for (i = 0; b->mem.confirmed && i < b->mem.folios; i++) {
		b->mem.wrong[i] = !folio_is_right(map_fd, flags_fd,
						  memory_page(b, i * pages), pages);
		if (!b->mem.wrong[i])
			continue;
		if (!wrong++)
			*first_wrong = i;
	}
	if (map_fd >= 0)
		close(map_fd);
	if (flags_fd >= 0)
		close(flags_fd);
	return wrong;
}
