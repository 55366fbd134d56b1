// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "memory.h"
#include "pages.h"
#include "system.h"

/* --- what the kernel says --- */

static void *array(size_t nr, size_t size)
{
	void *found = calloc(nr, size);

	if (!found)
		err(1, "calloc");
	return found;
}

/* Words of a file of the kernel that is an array of them */
static void file_words(const char *path, uint64_t first, uint64_t *words, size_t nr)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = nr * sizeof(*words);

	if (fd < 0 || pread(fd, words, len, first * sizeof(*words)) != len)
		err(1, "cannot read %s", path);
	close(fd);
}

/* Opened each time: who has forked since would see the pages of its parent */
uint64_t pagemap(const void *addr)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = pagemap_get_entry(fd, (char *)addr);

	close(fd);
	return entry;
}

static uint64_t frame_of(uint64_t entry)
{
	return PAGEMAP_PRESENT(entry) ? PAGEMAP_PFN(entry) : 0;
}

uint64_t page_frame(const void *addr)
{
	return frame_of(pagemap(addr));
}

uint64_t kpagecount(const void *addr)
{
	uint64_t count;

	file_words("/proc/kpagecount", page_frame(addr), &count, 1);
	return count;
}

uint64_t kpageflags(const void *addr)
{
	uint64_t *flags = page_flags(addr, PAGE), found = *flags;

	free(flags);
	return found;
}

uint64_t *page_frames(const char *addr, size_t size)
{
	uint64_t *frames = array(size / PAGE, sizeof(*frames));

	file_words("/proc/self/pagemap", (uintptr_t)addr / PAGE, frames, size / PAGE);
	for (size_t i = 0; i < size / PAGE; i++)
		frames[i] = frame_of(frames[i]);
	return frames;
}

/* In runs: page by page a debug kernel takes minutes for 64 MiB */
uint64_t *page_flags(const char *addr, size_t size)
{
	uint64_t *frames = page_frames(addr, size);
	size_t nr = size / PAGE;
	uint64_t *flags = array(nr, sizeof(*flags));

	for (size_t i = 0, run; i < nr; i += run) {
		run = 1;
		while (frames[i] && i + run < nr && frames[i + run] == frames[i] + run)
			run++;
		if (frames[i])
			file_words("/proc/kpageflags", frames[i], flags + i, run);
	}
	free(frames);
	return flags;
}

int *page_nodes(const char *addr, size_t size)
{
	size_t nr = size / PAGE;
	void **pages = array(nr, sizeof(*pages));
	int *nodes = array(nr, sizeof(*nodes));

	for (size_t i = 0; i < nr; i++)
		pages[i] = (void *)addr + i * PAGE;
	if (syscall(SYS_move_pages, 0, nr, pages, NULL, nodes, 0))
		err(1, "move_pages");
	free(pages);
	return nodes;
}

int page_node(const void *addr)
{
	int *nodes = page_nodes(addr, PAGE), node = *nodes;

	free(nodes);
	return node;
}

size_t pages_not_on(int node, const char *addr, size_t size)
{
	int *nodes = page_nodes(addr, size);
	size_t off = 0;

	for (size_t i = 0; i < size / PAGE; i++)
		off += nodes[i] != node;
	free(nodes);
	return off;
}

size_t pages_not_in_folios(const char *addr, size_t size, size_t folio_size)
{
	uint64_t *frames = page_frames(addr, size), *flags = page_flags(addr, size);
	size_t nr = folio_size / PAGE, wrong = 0;

	for (size_t i = 0; i < size / PAGE; i++) {
		uint64_t wanted = i % nr ? PAGE_TAIL : nr > 1 ? PAGE_HEAD : 0;

		wrong += !frames[i] || frames[i] != frames[i - i % nr] + i % nr ||
			 (flags[i] & (PAGE_HEAD | PAGE_TAIL)) != wanted;
	}
	free(frames);
	free(flags);
	return wrong;
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

/* --- to another node --- */

size_t pages_first(char *addr, size_t size, void **pages)
{
	uint64_t *frames = page_frames(addr, size), *flags = page_flags(addr, size);
	size_t nr = 0;

	for (size_t i = 0; i < size / PAGE; i++)
		if (!i || !(flags[i] & PAGE_TAIL) || frames[i] != frames[i - 1] + 1)
			pages[nr++] = addr + i * PAGE;
	free(frames);
	free(flags);
	return nr;
}

long pages_send(void **pages, size_t nr, int node, int flags)
{
	int *nodes = array(nr, sizeof(*nodes)), *status = array(nr, sizeof(*status));
	long left;

	for (size_t i = 0; i < nr; i++)
		nodes[i] = node;
	left = syscall(SYS_move_pages, 0, nr, pages, nodes, status, flags);
	if (left < 0)
		left = -errno;
	free(nodes);
	free(status);
	return left;
}

/* --- who holds or protects them --- */

bool page_writable(char *addr)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	bool can = read(fd, addr, 1) == 1;

	close(fd);
	return can;
}

bool page_readable(const char *addr)
{
	int pipes[2];
	bool can;

	if (pipe(pipes))
		err(1, "pipe");
	can = write(pipes[1], addr, PAGE) == (ssize_t)PAGE;
	close(pipes[0]);
	close(pipes[1]);
	return can;
}

bool page_to_pipe(char *addr, int pipe_fd[2])
{
	struct iovec iov = { .iov_base = addr, .iov_len = PAGE };

	return !pipe(pipe_fd) && vmsplice(pipe_fd[1], &iov, 1, 0) == PAGE;
}

/* Who poisons his own page may be told at once; nobody here reads it */
static void ignore(int signal)
{
	(void)signal;
}

/* Pages that Linux has taken away from their owners since boot */
static long pages_recovered(void)
{
	char path[80];
	long sum = 0;

	for (int node = 0; ; node++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/memory_failure/recovered", node);
		if (access(path, R_OK))
			return sum;
		sum += file_read_long(path);
	}
}

/*
 * madvise() also returns 0 if the page was marked before, is still its owner's, and is
 * just not mapped, as it is being moved.
 */
int page_poison(char *addr)
{
	sighandler_t old = signal(SIGBUS, ignore);
	long before = pages_recovered();
	int error;

	/* Busy: it is locked, or has just moved away */
	do
		error = madvise(addr, PAGE, MADV_HWPOISON) ? errno : 0;
	while (error == EBUSY);
	signal(SIGBUS, old);
	return error || pages_recovered() > before ? error : EHWPOISON;
}

int uffd_open(char *addr, size_t size, int mode)
{
	struct uffdio_api api = {
		.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) ||
	    uffd_register(fd, addr, size, mode == UFFDIO_REGISTER_MODE_MISSING,
			  mode == UFFDIO_REGISTER_MODE_WP, false))
		return -1;
	return fd;
}

int uffd_wp(int fd, char *addr, size_t size, bool protect)
{
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)addr, size },
		.mode = protect ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(fd, UFFDIO_WRITEPROTECT, &wp);
}
