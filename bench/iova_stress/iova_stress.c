// SPDX-License-Identifier: GPL-2.0
/*
 * Map and unmap one page at ever new addresses of an IOMMU, through VFIO, and say
 * how much memory the IOMMU's page tables have taken. Each step lands in a page
 * table of its own. The fields are those of the public tool of this name.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/vfio.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#define PAGE	4096ULL
#define TABLE	(2ULL << 20)	/* what one table of 4 KiB pages covers */
#define MIB	(1ULL << 20)
#define GIB	(1ULL << 30)
#define FIRST	(4 * GIB)	/* above what the platform reserves */

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_CANNOT = 4 };

struct options {
	const char *group;
	uint64_t space;
	uint64_t dma_size;
	uint64_t same;
	bool json;
};

struct usage {
	long tables_kib;	/* nr_iommu_pages of /proc/vmstat */
	uint64_t free;
};

static void die(int code, const char *what)
{
	fprintf(stderr, "iova_stress: %s: %s\n", what, strerror(errno));
	exit(code);
}

static void usage(void)
{
	puts("iova_stress -g GROUP [-s GIB] [-d KIB] [-n PAIRS] [-j]\n"
	     "\n"
	     "  -g GROUP  IOMMU group of a device that is bound to vfio-pci\n"
	     "  -s GIB    addresses to pass over (default 64)\n"
	     "  -d KIB    how much to map at a time (default 4)\n"
	     "  -n PAIRS  stay at one address, for so many maps and unmaps\n"
	     "  -j        print one line of JSON");
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || !value || value > 1 << 20) {
		fprintf(stderr, "iova_stress: '%s' is no number from 1 to 1048576\n", text);
		exit(EXIT_USAGE);
	}
	return value;
}

static struct options parse(int argc, char **argv)
{
	struct options options = { .space = 64 * GIB, .dma_size = PAGE };
	int option;

	while ((option = getopt(argc, argv, "g:s:d:n:jh")) != -1) {
		switch (option) {
		case 'g': options.group = optarg; break;
		case 's': options.space = number(optarg) * GIB; break;
		case 'd': options.dma_size = number(optarg) * 1024; break;
		case 'n': options.same = number(optarg); break;
		case 'j': options.json = true; break;
		case 'h': usage(); exit(EXIT_OK);
		default: usage(); exit(EXIT_USAGE);
		}
	}
	if (!options.group || optind != argc || options.dma_size % PAGE) {
		usage();
		exit(EXIT_USAGE);
	}
	return options;
}

static struct usage memory(void)
{
	struct usage now = { .tables_kib = -1 };
	struct sysinfo info;
	char name[64];
	long value;
	FILE *file = fopen("/proc/vmstat", "r");

	if (!file)
		die(EXIT_CANNOT, "/proc/vmstat");
	while (fscanf(file, "%63s %ld", name, &value) == 2)
		if (!strcmp(name, "nr_iommu_pages"))
			now.tables_kib = value * 4;
	fclose(file);
	if (sysinfo(&info))
		die(EXIT_CANNOT, "sysinfo");
	now.free = (uint64_t)info.freeram * info.mem_unit;
	return now;
}

/* Returns the container, ready for maps; the group stays open. */
static int open_vfio(const char *group_name)
{
	char path[64];
	int container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC), group;

	if (container < 0)
		die(EXIT_CANNOT, "/dev/vfio/vfio");
	snprintf(path, sizeof(path), "/dev/vfio/%s", group_name);
	group = open(path, O_RDWR | O_CLOEXEC);
	if (group < 0)
		die(EXIT_CANNOT, path);
	if (ioctl(group, VFIO_GROUP_SET_CONTAINER, &container))
		die(EXIT_CANNOT, "VFIO_GROUP_SET_CONTAINER");
	if (ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
		die(EXIT_CANNOT, "VFIO_SET_IOMMU");
	return container;
}

static void pair(int container, uint64_t vaddr, uint64_t iova, uint64_t size)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = vaddr, .iova = iova, .size = size,
	};
	struct vfio_iommu_type1_dma_unmap unmap = {
		.argsz = sizeof(unmap), .iova = iova, .size = size,
	};

	if (ioctl(container, VFIO_IOMMU_MAP_DMA, &map))
		die(EXIT_FAILED, "VFIO_IOMMU_MAP_DMA");
	if (ioctl(container, VFIO_IOMMU_UNMAP_DMA, &unmap) || unmap.size != size)
		die(EXIT_FAILED, "VFIO_IOMMU_UNMAP_DMA");
}

static double seconds(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_MONOTONIC, &now))
		die(EXIT_CANNOT, "clock_gettime");
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t run(int container, const struct options *options, uint64_t vaddr)
{
	uint64_t step = options->dma_size > TABLE ? options->dma_size : TABLE;
	uint64_t i, pairs = options->same;

	for (i = 0; i < options->same; i++)
		pair(container, vaddr, FIRST, options->dma_size);
	if (!options->same)
		for (i = 0; i < options->space; i += step, pairs++)
			pair(container, vaddr, FIRST + i, options->dma_size);
	return pairs;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	struct usage before, after;
	double begin, time;
	uint64_t pairs;
	int container = open_vfio(options.group);
	void *buffer = mmap(NULL, options.dma_size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (buffer == MAP_FAILED)
		die(EXIT_CANNOT, "mmap");
	pair(container, (uintptr_t)buffer, FIRST - GIB, options.dma_size);
	before = memory();
	begin = seconds();
	pairs = run(container, &options, (uintptr_t)buffer);
	time = seconds() - begin;
	/* Memory that waits for a grace period has been given back, if late. */
	sleep(1);
	after = memory();
	if (options.json)
		printf("{\"dma_size_kib\": %llu, \"iova_gib\": %llu, \"iommu_kib\": %ld, "
		       "\"free_drop_kib\": %lld, \"pairs\": %llu, \"ns\": %.0f}\n",
		       (unsigned long long)options.dma_size / 1024,
		       (unsigned long long)(options.same ? 0 : options.space / GIB),
		       after.tables_kib - before.tables_kib,
		       (long long)(before.free - after.free) / 1024,
		       (unsigned long long)pairs, time * 1e9);
	else
		printf("dma_size: %lluK iova space: %lluG iommu: ~ %ldM time: %.3fs\n",
		       (unsigned long long)options.dma_size / 1024,
		       (unsigned long long)(options.same ? 0 : options.space / GIB),
		       (after.tables_kib - before.tables_kib) / 1024, time);
	return EXIT_OK;
}
