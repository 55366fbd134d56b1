// SPDX-License-Identifier: GPL-2.0
/* The headers are those of the kernel that is tested: Debian 12 knows neither iommufd nor __counted_by. */
#define _GNU_SOURCE
#define __user
#define __counted_by(member)
#include "iommufd.h"
#include "vfio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "space.h"

static int open_or_die(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		die(EXIT_CANNOT_RUN, "%s: %m", path);
	return fd;
}

struct space space_of_group(const char *group)
{
	struct space space = { .fd = open_or_die("/dev/vfio/vfio") };
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/vfio/%s", group);
	fd = open_or_die(path); /* stays open: the container lives as long as it has the group */
	if (ioctl(fd, VFIO_GROUP_SET_CONTAINER, &space.fd))
		die(EXIT_CANNOT_RUN, "VFIO_GROUP_SET_CONTAINER: %m");
	if (ioctl(space.fd, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
		die(EXIT_CANNOT_RUN, "VFIO_SET_IOMMU: %m");
	return space;
}

static struct space space_of_iommufd(int fd)
{
	struct space space = { .fd = fd };
	struct iommu_ioas_alloc ioas = { .size = sizeof(ioas) };

	if (ioctl(fd, IOMMU_IOAS_ALLOC, &ioas))
		die(EXIT_CANNOT_RUN, "IOMMU_IOAS_ALLOC: %m");
	space.ioas = ioas.out_ioas_id;
	return space;
}

void spaces_of_device(const char *name, struct space *spaces, unsigned int nr)
{
	int iommufd = open_or_die("/dev/iommu"), fd;
	struct vfio_device_bind_iommufd bind = { .argsz = sizeof(bind), .iommufd = iommufd };
	struct vfio_device_attach_iommufd_pt attach = { .argsz = sizeof(attach) };
	char path[64];
	unsigned int i;

	snprintf(path, sizeof(path), "/dev/vfio/devices/%s", name);
	fd = open_or_die(path);
	if (ioctl(fd, VFIO_DEVICE_BIND_IOMMUFD, &bind))
		die(EXIT_CANNOT_RUN, "VFIO_DEVICE_BIND_IOMMUFD: %m");
	for (i = 0; i < nr; i++)
		spaces[i] = space_of_iommufd(iommufd);
	attach.pt_id = spaces[0].ioas;
	if (ioctl(fd, VFIO_DEVICE_ATTACH_IOMMUFD_PT, &attach))
		die(EXIT_CANNOT_RUN, "VFIO_DEVICE_ATTACH_IOMMUFD_PT: %m");
	for (i = 0; i < nr; i++) {
		struct iommu_hwpt_alloc domain = {
			.size = sizeof(domain), .dev_id = bind.out_devid, .pt_id = spaces[i].ioas,
		};

		if (ioctl(iommufd, IOMMU_HWPT_ALLOC, &domain))
			die(EXIT_CANNOT_RUN, "IOMMU_HWPT_ALLOC: %m");
	}
}

int space_map(const struct space *space, void *memory, uint64_t iova, uint64_t size)
{
	struct vfio_iommu_type1_dma_map vfio = {
		.argsz = sizeof(vfio),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)memory, .iova = iova, .size = size,
	};
	struct iommu_ioas_map map = {
		.size = sizeof(map), .ioas_id = space->ioas,
		.flags = IOMMU_IOAS_MAP_FIXED_IOVA | IOMMU_IOAS_MAP_READABLE |
			 IOMMU_IOAS_MAP_WRITEABLE,
		.user_va = (uintptr_t)memory, .iova = iova, .length = size,
	};

	return space->ioas ? ioctl(space->fd, IOMMU_IOAS_MAP, &map) :
			     ioctl(space->fd, VFIO_IOMMU_MAP_DMA, &vfio);
}

int space_unmap(const struct space *space, uint64_t iova, uint64_t size)
{
	struct vfio_iommu_type1_dma_unmap vfio = {
		.argsz = sizeof(vfio), .iova = iova, .size = size,
	};
	struct iommu_ioas_unmap unmap = {
		.size = sizeof(unmap), .ioas_id = space->ioas,
		.iova = iova, .length = size,
	};
	int ret = space->ioas ? ioctl(space->fd, IOMMU_IOAS_UNMAP, &unmap) :
				ioctl(space->fd, VFIO_IOMMU_UNMAP_DMA, &vfio);

	if (!ret && (space->ioas ? unmap.length : vfio.size) != size) {
		errno = ERANGE;
		ret = -1;
	}
	return ret;
}
