// SPDX-License-Identifier: GPL-2.0
/*
 * Map and unmap memory at many addresses of an IOMMU, through VFIO or iommufd, and
 * say how much memory the IOMMU's page tables take. Each step lands in a page table
 * of its own. The first fields are those of the public tool of this name.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "space.h"

#define PAGE	4096ULL
#define TABLE	(2ULL << 20)	/* what one table of 4 KiB pages covers */
#define GIB	(1ULL << 30)
#define FIRST	(4 * GIB)	/* above what the platform reserves */

/*
 * What threads share: every other page lies in few tables, so that these come and
 * go under their feet, the rest in so many that it is seen if they stay.
 */
#define FEW_TABLES	2
#define SHARED_TABLES	64
#define TABLE_PAGES	512

/* Over so many tables maps fail. */
#define FAILING_TABLES	256

#define MAX_SPACES	8

enum order { UP, DOWN, RANDOM };
static const char *const orders[] = { "up", "down", "random" };

struct options {
	const char *groups[MAX_SPACES];
	const char *device;
	unsigned int spaces;
	uint64_t space;
	uint64_t size;
	uint64_t same;
	unsigned int threads;
	enum order order;
	bool keep;
	bool peak;
	bool fail;
	bool turns;
	bool json;
};

static struct space spaces[MAX_SPACES];
static long peak_kib;
static long failed_kib; /* after maps that fail */

static void usage(void)
{
	puts("iova_stress -g GROUP...|-c DEVICE [-i NR] [-s GIB] [-d KIB] [-o ORDER] [-k|-f] [-p] [-n PAIRS] [-a] [-t THREADS] [-j]\n"
	     "\n"
	     "  -g GROUP    IOMMU group of a device that is bound to vfio-pci; a container for each\n"
	     "  -c DEVICE   through iommufd: a name in /dev/vfio/devices\n"
	     "  -i NR       of IOASes (default 1)\n"
	     "  -s GIB      addresses to pass over (default 64)\n"
	     "  -d KIB      how much to map at a time (default 4)\n"
	     "  -o ORDER    of the addresses: up (default), down, random\n"
	     "  -k          map all before the first is unmapped\n"
	     "  -p          look for the peak on the way, which takes time\n"
	     "  -n PAIRS    stay at one address, for so many maps and unmaps\n"
	     "  -a          at two addresses in turns, in two tables\n"
	     "  -t THREADS  that map and unmap -n times each, at random in the same tables; on the\n"
	     "              containers or IOASes in turns\n"
	     "  -f          maps that fail at their last page, then such that do not, over 512 MiB\n"
	     "  -j          print one line of JSON\n"
	     "  --version");
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || !value || value > 1 << 20) {
		fprintf(stderr, "iova_stress: '%s' is no number from 1 to 1048576\n", text);
		exit(EXIT_BAD_USAGE);
	}
	return value;
}

static enum order order_of(const char *text)
{
	enum order order;

	for (order = UP; order <= RANDOM; order++)
		if (!strcmp(orders[order], text))
			return order;
	usage();
	exit(EXIT_BAD_USAGE);
}

static struct options parse(int argc, char **argv)
{
	struct options options = { .space = 64 * GIB, .size = PAGE, .spaces = 1 };
	unsigned int nr_groups = 0;
	int option;

	if (argc > 1 && !strcmp(argv[1], "--version")) {
		puts("iova_stress " VERSION);
		exit(EXIT_PASSED);
	}

	while ((option = getopt(argc, argv, "g:c:i:s:d:o:kpn:at:fjh")) != -1) {
		switch (option) {
		case 'g':
			if (nr_groups < MAX_SPACES)
				options.groups[nr_groups++] = optarg;
			break;
		case 'i': options.spaces = (unsigned int)number(optarg); break;
		case 'c': options.device = optarg; break;
		case 's': options.space = number(optarg) * GIB; break;
		case 'd': options.size = number(optarg) * 1024; break;
		case 'o': options.order = order_of(optarg); break;
		case 'k': options.keep = true; break;
		case 'p': options.peak = true; break;
		case 'n': options.same = number(optarg); break;
		case 'a': options.turns = true; break;
		case 't': options.threads = (unsigned int)number(optarg); break;
		case 'f': options.fail = true; break;
		case 'j': options.json = true; break;
		case 'h': usage(); exit(EXIT_PASSED);
		default: usage(); exit(EXIT_BAD_USAGE);
		}
	}
	if (!nr_groups == !options.device || optind != argc || options.size % PAGE ||
	    options.spaces > MAX_SPACES || (options.threads && !options.same)) {
		usage();
		exit(EXIT_BAD_USAGE);
	}
	if (nr_groups)
		options.spaces = nr_groups;
	return options;
}

/*
 * nr_iommu_pages of /proc/vmstat, with what each CPU has counted and not yet
 * added: for a CPU that is idle that would take until it has work.
 */
static long tables_kib(void)
{
	int refresh = open("/proc/sys/vm/stat_refresh", O_WRONLY);

	if (refresh < 0 || write(refresh, "1", 1) != 1)
		die(EXIT_CANNOT_RUN, "/proc/sys/vm/stat_refresh: %m");
	close(refresh);
	return (long)vmstat("nr_iommu_pages") * 4;
}

static void note_peak(void)
{
	long now = tables_kib();

	if (now > peak_kib)
		peak_kib = now;
}

static void map(const struct space *space, void *memory, uint64_t iova, uint64_t size)
{
	if (space_map(space, memory, iova, size))
		die(EXIT_CHECK_FAILED, "map: %m");
}

static void unmap(const struct space *space, uint64_t iova, uint64_t size)
{
	if (space_unmap(space, iova, size))
		die(EXIT_CHECK_FAILED, "unmap: %m");
}

/*
 * Of the size of a large range, but of one table's worth of memory again and again,
 * in no order of physical addresses: the IOMMU cannot use large pages for it.
 */
static void *buffer_of(uint64_t size)
{
	uint64_t chunk = size < TABLE ? size : TABLE, at, i, pages = chunk / PAGE;
	int fd = memfd_create("iova_stress", MFD_CLOEXEC);
	char *memory;

	if (fd < 0 || ftruncate(fd, (off_t)chunk))
		die(EXIT_CANNOT_RUN, "memfd_create: %m");
	for (i = 0; i < pages; i++)
		if (pwrite(fd, "x", 1, (off_t)(i * 197 % pages * PAGE)) != 1)
			die(EXIT_CANNOT_RUN, "memfd: %m");
	memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die(EXIT_CANNOT_RUN, "mmap: %m");
	for (at = 0; at < size; at += chunk)
		if (mmap(memory + at, size - at < chunk ? size - at : chunk, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED)
			die(EXIT_CANNOT_RUN, "mmap: %m");
	return memory;
}

/* Where the pass is at its step i of nr. */
static uint64_t place(enum order order, uint64_t i, uint64_t nr)
{
	if (order == DOWN)
		return nr - 1 - i;
	/* A prime that does not divide nr: every step once. */
	return order == RANDOM ? i * 1000003 % nr : i;
}

static uint64_t pass(const struct options *options, void *buffer)
{
	uint64_t step = options->size > TABLE ? options->size : TABLE;
	uint64_t i, nr = options->space / step;

	for (i = 0; options->keep && i < nr; i++)
		map(spaces, buffer, FIRST + i * step, options->size);
	for (i = 0; i < nr; i++) {
		uint64_t iova = FIRST + place(options->order, i, nr) * step;

		if (!options->keep)
			map(spaces, buffer, iova, options->size);
		if (options->peak && !(i % 256))
			note_peak();
		unmap(spaces, iova, options->size);
	}
	return nr;
}

/*
 * What is mapped before the page that cannot be must go again, with its tables;
 * then the same places can be mapped.
 */
static uint64_t failing_pass(const struct options *options, char *buffer)
{
	uint64_t step = options->size > TABLE ? options->size : TABLE;
	uint64_t i, nr = FAILING_TABLES * TABLE / step;
	char *last = buffer + options->size - PAGE;

	if (mprotect(last, PAGE, PROT_NONE))
		die(EXIT_CANNOT_RUN, "mprotect: %m");
	for (i = 0; i < nr; i++) {
		errno = 0;
		space_map(spaces, buffer, FIRST + i * step, options->size);
		if (errno != EFAULT)
			die(EXIT_CHECK_FAILED, "map of a page without access: %m");
	}
	failed_kib = tables_kib();
	if (mprotect(last, PAGE, PROT_READ | PROT_WRITE))
		die(EXIT_CANNOT_RUN, "mprotect: %m");
	for (i = 0; i < nr; i++) {
		map(spaces, buffer, FIRST + i * step, options->size);
		unmap(spaces, FIRST + i * step, options->size);
	}
	return nr;
}

struct thread {
	pthread_t id;
	unsigned int number;
	const struct options *options;
	const struct space *space;
	void *buffer;
	uint64_t pairs;
};

/* Each thread owns the pages that are its own modulo the number of threads. */
static void *thread_run(void *argument)
{
	struct thread *thread = argument;
	unsigned int seed = thread->number + 1, threads = thread->options->threads;
	uint64_t mapped[2] = { 0, 0 };

	for (; thread->pairs < thread->options->same; thread->pairs++) {
		uint64_t pages = (thread->pairs % 2 ? SHARED_TABLES : FEW_TABLES) * TABLE_PAGES;
		uint64_t page = (uint64_t)rand_r(&seed) % pages / threads * threads + thread->number;
		uint64_t iova = FIRST + page * PAGE;
		uint64_t *slot = &mapped[thread->pairs % 2];

		if (*slot)
			unmap(thread->space, *slot, PAGE);
		*slot = 0;
		if (iova == mapped[0] || iova == mapped[1] || page >= pages)
			continue;
		map(thread->space, thread->buffer, iova, PAGE);
		*slot = iova;
	}
	if (mapped[0])
		unmap(thread->space, mapped[0], PAGE);
	if (mapped[1])
		unmap(thread->space, mapped[1], PAGE);
	return NULL;
}

static uint64_t threads_run(const struct options *options, void *buffer)
{
	struct thread *threads = calloc(options->threads, sizeof(*threads));
	uint64_t pairs = 0;
	unsigned int i;

	if (!threads)
		die(EXIT_CANNOT_RUN, "calloc: %m");
	for (i = 0; i < options->threads; i++) {
		threads[i] = (struct thread){
			.number = i, .options = options, .buffer = buffer,
			.space = &spaces[i % options->spaces],
		};
		errno = pthread_create(&threads[i].id, NULL, thread_run, &threads[i]);
		if (errno)
			die(EXIT_CANNOT_RUN, "pthread_create: %m");
	}
	for (i = 0; i < options->threads; i++) {
		pthread_join(threads[i].id, NULL);
		pairs += threads[i].pairs;
	}
	free(threads);
	return pairs;
}

static uint64_t run(const struct options *options, void *buffer)
{
	uint64_t i;

	if (options->threads)
		return threads_run(options, buffer);
	if (options->fail)
		return failing_pass(options, buffer);
	if (!options->same)
		return pass(options, buffer);
	for (i = 0; i < options->same; i++) {
		uint64_t iova = FIRST + (options->turns && i % 2 ? TABLE : 0);

		map(spaces, buffer, iova, options->size);
		unmap(spaces, iova, options->size);
	}
	return options->same;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	unsigned long long gib, pairs;
	long before, after;
	uint64_t begin, ns;
	void *buffer = buffer_of(options.size);
	unsigned int i;

	if (options.device)
		spaces_of_device(options.device, spaces, options.spaces);
	for (i = 0; i < options.spaces; i++) {
		if (!options.device)
			spaces[i] = space_of_group(options.groups[i]);
		map(&spaces[i], buffer, FIRST - GIB, PAGE);
		unmap(&spaces[i], FIRST - GIB, PAGE);
	}
	before = peak_kib = tables_kib();
	begin = clock_ns(CLOCK_MONOTONIC);
	pairs = run(&options, buffer);
	ns = clock_ns(CLOCK_MONOTONIC) - begin;
	sleep(1); /* what waits for a grace period is given back, if late */
	after = tables_kib();
	if (after < failed_kib)
		after = failed_kib;
	gib = options.same ? 0 : options.space / GIB;
	if (options.json)
		printf("{\"dma_size_kib\": %llu, \"iova_gib\": %llu, \"iommu_kib\": %ld, "
		       "\"peak_kib\": %ld, \"pairs\": %llu, \"ns\": %.0f}\n",
		       (unsigned long long)options.size / 1024, gib, after - before,
		       options.peak ? peak_kib - before : -1, pairs, (double)ns);
	else
		printf("dma_size: %lluK iova space: %lluG iommu: ~ %ldM time: %.3fs\n",
		       (unsigned long long)options.size / 1024, gib, (after - before) / 1024, (double)ns / 1e9);
	return EXIT_PASSED;
}
