// SPDX-License-Identifier: GPL-2.0
/*
 * remap SECONDS BUSY READ: one CPU maps and unmaps the memory of the PCI device BUSY again and again,
 * while all others read a register of the device READ. Writes a record of how often, and what was wrong.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define BAR_BYTES	0x10000
/* Of PTDMA's first queue, which does not run: its register for the head keeps what is written there */
#define HEAD		0x1008
#define VALUE		0x12340
/* Of PCI's config space */
#define COMMAND		4
#define COMMAND_MEMORY	2

static _Atomic long *counts; /* reads, wrong ones */

static int open_file(const char *device, const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", device, name);
	fd = open(path, O_RDWR);
	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

static void run_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		err(1, "cannot run on CPU %d", cpu);
}

static void read_on(int cpu, volatile uint32_t *reg)
{
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_on(cpu);
	for (;;) {
		if (*reg != VALUE)
			counts[1]++;
		counts[0]++;
	}
}

static void command(int fd, uint16_t value)
{
	if (pwrite(fd, &value, sizeof(value), COMMAND) != sizeof(value))
		err(1, "config");
}

int main(int argc, char **argv)
{
	int config, cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint16_t there;
	char *bar;
	long remapped = 0;
	time_t end;

	if (argc != 4)
		errx(1, "usage: remap SECONDS BUSY READ");
	config = open_file(argv[2], "config");
	bar = mmap(NULL, BAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, open_file(argv[3], "resource2"), 0);
	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (bar == MAP_FAILED || counts == MAP_FAILED)
		err(1, "mmap");
	*(volatile uint32_t *)(bar + HEAD) = VALUE;
	for (int cpu = 1; cpu < cpus; cpu++)
		read_on(cpu, (volatile uint32_t *)(bar + HEAD));
	run_on(0);
	if (pread(config, &there, sizeof(there), COMMAND) != sizeof(there))
		err(1, "config");
	for (end = time(NULL) + atoi(argv[1]); time(NULL) < end; remapped++) {
		command(config, there & ~COMMAND_MEMORY);
		command(config, there);
	}
	printf("{\"record\": \"remap\", \"remapped\": %ld, \"reads\": %ld, \"wrong\": %ld}\n",
	       remapped, counts[0], counts[1]);
	return 0;
}
