// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "region.h"
#include "uring.h"

bool ring_possible(void)
{
	struct io_uring_params params = {};
	int fd = syscall(SYS_io_uring_setup, 1, &params);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void ring_open(struct ring *ring)
{
	struct io_uring_params *p = &ring->params;

	memset(ring, 0, sizeof(*ring));
	ring->fd = syscall(SYS_io_uring_setup, 1, p);
	if (ring->fd < 0 || !(p->features & IORING_FEAT_SINGLE_MMAP))
		err(1, "io_uring");
	ring->rings = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
			   ring->fd, IORING_OFF_SQ_RING);
	ring->sqes = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
			  ring->fd, IORING_OFF_SQES);
	if (ring->rings == MAP_FAILED || ring->sqes == MAP_FAILED)
		err(1, "mmap of io_uring");
}

void ring_close(struct ring *ring)
{
	munmap(ring->rings, PAGE);
	munmap(ring->sqes, PAGE);
	close(ring->fd);
}

int ring_pin(struct ring *ring, void *buffer, size_t size)
{
	struct iovec iov = { buffer, size };

	return syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS,
		       &iov, 1) ? -errno : 0;
}

int ring_unpin(struct ring *ring)
{
	return syscall(SYS_io_uring_register, ring->fd,
		       IORING_UNREGISTER_BUFFERS, NULL, 0) ? -errno : 0;
}

long ring_read_fixed(struct ring *ring, int fd, char *to, size_t size)
{
	unsigned int *tail = (void *)ring->rings + ring->params.sq_off.tail;
	unsigned int *array = (void *)ring->rings + ring->params.sq_off.array;
	unsigned int *head = (void *)ring->rings + ring->params.cq_off.head;
	struct io_uring_cqe *cqe = (void *)ring->rings + ring->params.cq_off.cqes;
	long result;

	ring->sqes[0] = (struct io_uring_sqe) {
		.opcode = IORING_OP_READ_FIXED, .fd = fd, .len = size,
		.addr = (unsigned long)to,
	};
	array[0] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS,
		    NULL, 0) != 1)
		err(1, "io_uring_enter");
	result = cqe[*head & (ring->params.cq_entries - 1)].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return result;
}
