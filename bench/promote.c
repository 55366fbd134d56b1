// SPDX-License-Identifier: GPL-2.0
/* NUMA balancing promotes what is touched on a slow node: the kernel hides the
 * memory first, and each folio moves in the fault of the task that touches it.
 * So what is timed is what that task waits for: the fault with the move in it.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BALANCING "/proc/sys/kernel/numa_balancing"
#define SCAN_DELAY "/sys/kernel/debug/sched/numa_balancing/scan_delay_ms"
#define TIERING "2"
#define GIVE_UP_NS 30000000000UL

static void burn_ns(uint64_t ns)
{
	uint64_t since = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - since < ns)
		;
}

/*
 * Until the kernel has hidden all of it. It does so in the ticks of the task
 * itself, for each of its mappings once in a time of CPU: so this must not sleep.
 */
static void wait_until_hidden(const struct bench *b, unsigned long before)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	unsigned long hidden;

	do {
		burn_ns(5000000);
		hidden = vmstat("numa_pte_updates") - before;
		if (clock_ns(CLOCK_MONOTONIC) - begin > GIVE_UP_NS)
			die(EXIT_CANNOT_RUN,
			    "--call promote: NUMA balancing has looked at %lu of %zu pages; node %lu must be slower than one with CPUs",
			    hidden, b->mem.pages, b->opt.from);
	} while (hidden < b->mem.pages);
}

/*
 * The first CPU counts jiffies as a rule, and the kernel waits for some of them.
 * Where virtual CPUs take turns it counts too few while another one is busy.
 */
static void wait_on_first_cpu(const struct bench *b, unsigned long before)
{
	cpu_set_t home;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(home), &home))
		die(EXIT_CANNOT_RUN, "--call promote: sched_getaffinity: %m");
	while (!CPU_ISSET((size_t)cpu, &home))
		cpu++;
	pin(cpu);
	wait_until_hidden(b, before);
	if (sched_setaffinity(0, sizeof(home), &home))
		die(EXIT_CANNOT_RUN, "--call promote: sched_setaffinity: %m");
}

void promote_prepare(struct bench *b)
{
	unsigned long before = vmstat("numa_pte_updates");

	lru_drain();
	memory_forget_policy(b);
	/* A new mapping is left alone for so long; a kernel may have no such file */
	setting_change(SCAN_DELAY, "1");
	if (setting_change(BALANCING, TIERING))
		die(EXIT_CANNOT_RUN, "--call promote: " TIERING " > " BALANCING ": %m; needs CONFIG_NUMA_BALANCING and root");
	wait_on_first_cpu(b, before);
	/* It is also how often a new thread looks at all again */
	setting_restore(SCAN_DELAY);
}

/* How long each touch has taken, or NULL: that would make them longer */
static uint64_t *touch_ns;

int promote_move(struct bench *b, size_t first, size_t count)
{
	uint64_t begin = 0;
	size_t i;

	for (i = first; i < first + count; i++) {
		if (touch_ns)
			begin = clock_ns(CLOCK_MONOTONIC);
		(void)*(volatile char *)b->mem.addr[i];
		if (touch_ns)
			touch_ns[i] = clock_ns(CLOCK_MONOTONIC) - begin;
	}
	return 0;
}

void promote_time_faults(struct bench *b)
{
	touch_ns = calloc(b->mem.folios, sizeof(*touch_ns));
	if (!touch_ns)
		die(EXIT_CANNOT_RUN, "--faults: no memory for the time of %zu touches",
		    b->mem.folios);
}

void promote_timed_faults(struct bench *b)
{
	size_t i;

	for (i = 0; i < b->mem.folios; i++)
		samples_add(&b->fault_us, (double)touch_ns[i] / 1000);
	free(touch_ns);
	touch_ns = NULL;
}

/*
 * The checks touch the memory, too: what has not moved by now stays. The last pages
 * may wait for a tick, if the kernel moves several at once.
 */
void promote_finish(void)
{
	if (!access("/proc/sys/vm/migrate_promote_batch", F_OK))
		burn_ns(20000000);
	setting_restore(BALANCING);
}
