// SPDX-License-Identifier: GPL-2.0-only
/*
 * Others who move the memory of the load meanwhile, by the same engine. The
 * load itself makes the system calls.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "background.h"
#include "offload.h"
#include "region.h"
#include "torture.h"

/* --- compaction --- */

#define HOLES		(4 * MIB)
#define RUN		(64 * PAGE)
#define COMPACT		"/proc/sys/vm/compact_memory"

static const char *have_compaction(void)
{
	return access(COMPACT, W_OK) ? "no vm.compact_memory" : NULL;
}

/* Every second run of pages is freed, so that there is something to compact */
static long compact(void)
{
	struct region r;
	long wrong = 0;

	torture_create(&r, ANON, PAGE, HOLES, torture_nodes[rand() % 2]);
	for (size_t at = 0; at < r.size; at += 2 * RUN)
		madvise(r.addr + at, RUN, MADV_DONTNEED);
	file_write(COMPACT, "1");
	for (size_t at = RUN; at < r.size; at += 2 * RUN)
		wrong += words_wrong_masked(r.addr, at, RUN, r.seed);
	region_destroy(&r);
	return torture_mistake(wrong, "compaction: %ld words are wrong", wrong);
}

/* --- NUMA balancing --- */

static long balanced_before;

static long pages_balanced(void)
{
	return vmstat("numa_pages_migrated") -
	       balanced_before;
}

static const char *begin_balancing(void)
{
	balanced_before = vmstat("numa_pages_migrated");
	return balancing_begin();
}

/* One more task whose memory is to follow it */
static long wander(void)
{
	struct region r;
	long wrong = 0;

	torture_create(&r, ANON, rand() % 2 ? PAGE : 64 * KIB, MIB,
		       torture_nodes[0]);
	for (int i = 0; i < 20; i++) {
		node_run_on(torture_nodes[i / 10]);
		wrong += region_wrong_words(&r);
	}
	region_destroy(&r);
	return torture_mistake(wrong, "balancing: %ld words are wrong", wrong);
}

/* --- NUMA balancing, several folios at once --- */

#define PROMOTE_BATCH	"/proc/sys/vm/migrate_promote_batch"

static const char *begin_promotion(void)
{
	if (access(PROMOTE_BATCH, W_OK))
		return "no vm.migrate_promote_batch";
	file_write_long(PROMOTE_BATCH, 2 + rand() % 63);
	return begin_balancing();
}

static void end_promotion(void)
{
	balancing_end();
	file_write_long(PROMOTE_BATCH, 0);
}

/* What becomes of memory that the kernel has noted, and has yet to move */
static long disturb(struct region *r)
{
	size_t at = rand() % (r->size / PAGE) * PAGE;
	int status;
	pid_t pid;

	switch (rand() % 4) {
	case 0:
		madvise(r->addr + at, r->size - at, MADV_DONTNEED);
		region_refill(r, at, r->size - at);
		break;
	case 1:
		pid = fork();
		if (!pid)
			_exit(region_wrong_words(r) != 0);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			break;
		return torture_mistake(status != 0,
				       "promotion: a child reads other bytes");
	case 2:
		/* It may be split, or mapped by PMDs no more */
		mprotect(r->addr + at, PAGE, PROT_READ);
		mprotect(r->addr + at, PAGE, PROT_READ | PROT_WRITE);
		break;
	}
	return 0;
}

/* As wander(); the notes that there are at its end are for memory that has gone */
static long wander_noted(void)
{
	const size_t folios[] = { PAGE, 16 * KIB, 64 * KIB, 256 * KIB };
	struct region r;
	long wrong = 0;

	torture_create(&r, ANON, folios[rand() % 4], MIB, torture_nodes[0]);
	for (int i = 0; i < 20; i++) {
		node_run_on(torture_nodes[i / 10]);
		wrong += region_wrong_words(&r);
		wrong += disturb(&r);
	}
	region_destroy(&r);
	return torture_mistake(wrong, "promotion: %ld words are wrong", wrong);
}

/* --- DAMON --- */

#define BLOCKS	"/sys/devices/system/memory"

/* What is on the first node goes to the second */
static const char *begin_damon(void)
{
	char path[96], size[32];
	uint64_t first = UINT64_MAX, last = 0, pages;

	if (file_read(BLOCKS "/block_size_bytes", size, sizeof(size)))
		return "no memory blocks in sysfs";
	pages = strtoul(size, NULL, 16) / PAGE;
	for (uint64_t nr = 0; nr < 1024; nr++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/memory%lu",
			 torture_nodes[0], nr);
		if (access(path, F_OK))
			continue;
		first = nr < first ? nr : first;
		last = nr;
	}
	if (first > last)
		return "no memory blocks in sysfs";
	return damon_begin(first * pages, (last + 1) * pages - 1,
			   torture_nodes[1]);
}

const struct torture_class torture_callers[] = {
	{ .name = "compaction", .begin = have_compaction, .strike = compact,
	  .pause_ms = 20 },
	{ .name = "balancing", .begin = begin_balancing, .strike = wander,
	  .struck = pages_balanced, .end = balancing_end, .pause_ms = 1 },
	{ .name = "promotion", .begin = begin_promotion, .strike = wander_noted,
	  .struck = pages_balanced, .end = end_promotion, .pause_ms = 1 },
	{ .name = "damon", .begin = begin_damon, .struck = damon_moved,
	  .end = damon_end },
	{}
};
