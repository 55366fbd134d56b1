/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A ring of io_uring with one buffer, which stays pinned from its registration
 * until the ring is closed.
 */
#ifndef MIGRATE_OFFLOAD_URING_H
#define MIGRATE_OFFLOAD_URING_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stddef.h>

struct ring {
	struct io_uring_params params;
	struct io_uring_sqe *sqes;
	char *rings;
	int fd;
};

bool ring_possible(void);
void ring_open(struct ring *ring);
void ring_close(struct ring *ring);

/* 0 or -errno: who pins for long has to move what can be unplugged, and may fail */
int ring_pin(struct ring *ring, void *buffer, size_t size);
int ring_unpin(struct ring *ring);

/* Read from the start of a file into the buffer: bytes, or -errno */
long ring_read_fixed(struct ring *ring, int fd, char *to, size_t size);

#endif /* MIGRATE_OFFLOAD_URING_H */
