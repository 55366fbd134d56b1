/* SPDX-License-Identifier: GPL-2.0 */
/* Addresses of a device that a program can map and unmap: through VFIO or iommufd. */
#ifndef SPACE_H
#define SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "../common.h"

struct space {
	int fd;			/* the container, or /dev/iommu */
	uint32_t ioas;		/* 0: VFIO's container */
};

/* A container of VFIO with one group. */
struct space space_of_group(const char *group);
/*
 * IOASes of iommufd: the first has a device (/dev/vfio/devices/NAME) and a second
 * domain, the others have a domain that no device uses.
 */
void spaces_of_device(const char *name, struct space *spaces, unsigned int nr);

/* Both return 0, or -1 with errno. */
int space_map(const struct space *space, void *memory, uint64_t iova, uint64_t size);
int space_unmap(const struct space *space, uint64_t iova, uint64_t size);

#endif
