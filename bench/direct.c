// SPDX-License-Identifier: GPL-2.0
/* Writes by direct reads of a block device, whose data lands in the memory. Whoever
 * submits one waits for the page to be mapped and for the folio's lock: it is this
 * submission that is timed, not what the device does.
 *
 * The device has the pattern of each page, as if each writer had added one to its
 * word there: so a read that is lost is a byte that differs.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int device = -1;

/* Before any memory moves */
void direct_set_up(const struct bench *b)
{
	const char *path = b->opt.direct_from;
	uint64_t *page;
	size_t i, w;

	device = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	page = aligned_alloc(PAGE_BYTES, PAGE_BYTES);
	if (device < 0 || !page)
		die(EXIT_BAD_USAGE, "--direct-from %s: %m; name a block device that may be overwritten",
		    path);
	for (i = 0; i < b->mem.pages; i++) {
		pattern_fill((char *)page, i, b->opt.seed);
		for (w = 1; w < b->mem.touchers; w++)
			page[(i + w) % (PAGE_BYTES / sizeof(*page))]++;
		if (pwrite(device, page, PAGE_BYTES, (off_t)(i * PAGE_BYTES)) != PAGE_BYTES)
			die(EXIT_CANNOT_RUN, "--direct-from %s: cannot write page %zu: %m",
			    path, i);
	}
	free(page);
}

struct direct {
	aio_context_t context;
};

struct direct *direct_open(void)
{
	struct direct *d = zalloc(1, sizeof(*d));

	if (syscall(SYS_io_setup, 1, &d->context))
		die(EXIT_CANNOT_RUN, "--direct-from: io_setup: %m");
	return d;
}

/* Return: how long its submission took */
uint64_t direct_read(struct bench *b, struct direct *d, size_t page)
{
	uint64_t *touches = &b->mem.touches[page * b->mem.touchers], ns;
	struct iocb read = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = (uint32_t)device,
		.aio_buf = (uintptr_t)memory_page(b, page),
		.aio_nbytes = PAGE_BYTES,
		.aio_offset = (int64_t)(page * PAGE_BYTES),
	}, *reads = &read;
	struct io_event event;
	long submitted;
	size_t w;

	ns = clock_ns(CLOCK_MONOTONIC);
	submitted = syscall(SYS_io_submit, d->context, 1, &reads);
	ns = clock_ns(CLOCK_MONOTONIC) - ns;
	if (submitted != 1 || syscall(SYS_io_getevents, d->context, 1, 1, &event, NULL) != 1 ||
	    event.res != PAGE_BYTES)
		die(EXIT_CANNOT_RUN, "--direct-from: cannot read page %zu", page);
	for (w = 1; w < b->mem.touchers; w++)
		__atomic_store_n(&touches[w], 1, __ATOMIC_RELAXED);
	return ns;
}
