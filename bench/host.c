// SPDX-License-Identifier: GPL-2.0
/* Can the move be made on this machine? Nodes, free memory, CPUs. */
#include "migbench.h"

#include <numa.h>
#include <unistd.h>

#define SPARE_BYTES (64UL << 20)	/* the kernel's reserves, page tables */

/* The nodes with memory that this process may use. */
int host_nodes(unsigned long *nodes, int room)
{
	struct bitmask *allowed = numa_get_mems_allowed();
	int node, count = 0;

	for (node = 0; node <= numa_max_node() && count < room; node++)
		if (numa_bitmask_isbitset(allowed, (unsigned int)node) &&
		    numa_node_size64(node, NULL) > 0)
			nodes[count++] = (unsigned long)node;
	numa_bitmask_free(allowed);
	return count;
}

static void check_node(const char *option, unsigned long node, size_t bytes)
{
	unsigned long nodes[1024];
	int count = host_nodes(nodes, 1024), i;
	long long free_bytes = 0;

	for (i = 0; i < count && nodes[i] != node; i++)
		;
	if (i == count)
		die(EXIT_CANNOT_RUN,
		    "%s %lu: node is offline, has no memory, or is not allowed here; see /sys/devices/system/node/has_memory",
		    option, node);
	numa_node_size64((int)node, &free_bytes);
	if (bytes && (long long)(bytes + SPARE_BYTES) > free_bytes)
		die(EXIT_CANNOT_RUN,
		    "--bytes %zu: node %lu has %lld bytes free, of which %lu must stay free; ask for less or free memory there",
		    bytes, node, free_bytes, SPARE_BYTES);
}

/* Overrides libnuma's, which prints: what is wrong is said here, in one line. */
void numa_warn(int number, char *where, ...)
{
	(void)number;
	(void)where;
}

/*
 * Overrides libnuma's, which resolves network devices to nodes for nobody here,
 * and with that would draw the resolver into the static binary.
 */
int resolve_affinity(const char *id, struct bitmask *mask);
int resolve_affinity(const char *id, struct bitmask *mask)
{
	(void)id;
	(void)mask;
	return -1;
}

/* The CPUs of --cpus, in turn, for each mover. */
static void choose_cpus(struct bench *b)
{
	struct bitmask *mask = numa_parse_cpustring(b->opt.cpus);
	unsigned long mover = 0;
	unsigned int cpu;

	if (!mask || !numa_bitmask_weight(mask))
		die(EXIT_BAD_USAGE, "--cpus %s: must be CPUs of this machine, such as 0 or 0,2-3",
		    b->opt.cpus);
	b->cpus = zalloc(b->opt.threads, sizeof(*b->cpus));
	while (mover < b->opt.threads)
		for (cpu = 0; cpu < mask->size && mover < b->opt.threads; cpu++)
			if (numa_bitmask_isbitset(mask, cpu))
				b->cpus[mover++] = (int)cpu;
	numa_bitmask_free(mask);
}

void host_check(struct bench *b)
{
	struct options *opt = &b->opt;
	unsigned long nodes[2];
	bool within;	/* stays on its node */
	int count;

	if (sysconf(_SC_PAGESIZE) != (long)PAGE_BYTES)
		die(EXIT_CANNOT_RUN, "pages of %ld bytes: only 4096 is supported",
		    sysconf(_SC_PAGESIZE));
	if (numa_available() < 0)
		die(EXIT_CANNOT_RUN, "this kernel has no NUMA support (CONFIG_NUMA)");
	count = host_nodes(nodes, 2);
	within = opt->null || call_find(opt)->moved;
	if (count < 2 && !within)
		die(EXIT_CANNOT_RUN,
		    "no second memory node: node %lu is the only one; use a machine or VM with two (or boot with numa=fake=2)",
		    nodes[0]);
	if (opt->from == NODE_AUTO)
		opt->from = opt->to == nodes[0] && count > 1 ? nodes[1] : nodes[0];
	if (!opt->null && within)
		opt->to = opt->from;
	if (opt->to == NODE_AUTO)
		opt->to = opt->from == nodes[0] && count > 1 ? nodes[1] : nodes[0];
	check_node("--from", opt->from, opt->bytes);
	check_node("--to", opt->to, within ? 0 : opt->bytes);
	if (opt->cpus)
		choose_cpus(b);
}
