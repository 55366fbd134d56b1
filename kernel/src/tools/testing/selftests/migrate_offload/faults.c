// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whatever a DMA engine does wrong, each byte is right, each page has moved,
 * and the counters say what happened.
 *
 * Guards rule 2 (a copy completes exactly once, and no page that an engine may
 * still write to is reused) and rule 3 (an error is never "copied", and the
 * order of completions does not matter).
 */
#include "../kselftest_harness.h"

#include <err.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "dcbm.h"
#include "offload.h"
#include "region.h"

/* The first huge page goes alone; more than one of the others are in flight */
#define SIZE		(8 * MIB)
#define MOVES		4
#define MAX_MOVES	40
#define MAX_BAITS	4
/* So many base pages may share a descriptor: DCBM_RUN_BYTES */
#define PART_FOLIOS	(131072 / PAGE)
#define NEW_SEED	0x0102030405060708ULL

static int nodes_of_move[2];

struct fault {
	const char *name;
	unsigned int every;
};

static const char *set_up_on(struct region *r, int nodes[2],
			     enum backing backing, size_t folio,
			     const char *softdma_params,
			     const char *dcbm_params)
{
	const char *why;

	if (!nodes_find(nodes))
		return "one node with memory only";
	why = offload_use_dcbm(softdma_params, dcbm_params);
	if (why)
		return why;
	offload_set("reasons", "syscall_or_cpuset");
	/* Never more in flight than the channels take */
	offload_set("window_pages", "%d", folio == PAGE ? 64 : 1024);
	offload_set("chunk_pages", "32");
	return region_create(r, backing, folio, SIZE, nodes[0]);
}

static const char *set_up(struct region *r, int nodes[2], enum backing backing,
			  size_t folio, const char *dcbm_params)
{
	return set_up_on(r, nodes, backing, folio, "channels=4 ring=64",
			 dcbm_params);
}

static void tear_down(void)
{
	hugetlb_reserve(0);
	if (access(OFFLOAD_DIR, F_OK))
		return;
	offload_reset();
	offload_unload();
}

/* --- faults that pass --- */

FIXTURE(passing)
{
	int nodes[2];
	struct region region;
};

FIXTURE_VARIANT(passing)
{
	enum backing backing;
	size_t folio;
	struct fault faults[6];	/* the last one has no name */
	bool errors;		/* fallback_error grows */
	bool busy;		/* fallback_busy grows */
	bool halves;		/* every other move is of two halves */
};

#define VARIANTS(_name, _errors, _busy, ...)				\
FIXTURE_VARIANT_ADD(passing, _name##_4k) {				\
	.folio = PAGE, .errors = _errors, .busy = _busy,		\
	.faults = { __VA_ARGS__ },					\
};									\
FIXTURE_VARIANT_ADD(passing, _name##_2m) {				\
	.folio = PMD, .errors = _errors, .busy = _busy,			\
	.faults = { __VA_ARGS__ },					\
};									\
FIXTURE_VARIANT_ADD(passing, _name##_hugetlb) {				\
	.backing = HUGETLB,						\
	.folio = PMD, .errors = _errors, .busy = _busy,			\
	.faults = { __VA_ARGS__ },					\
}

VARIANTS(read_error, true, false, { "read_error", 3 });
VARIANTS(write_error, true, false, { "write_error", 3 });
VARIANTS(residue, true, false, { "residue", 3 });
VARIANTS(every_copy_fails, true, false, { "read_error", 1 });
VARIANTS(late, false, false, { "late", 8 });
VARIANTS(swap, false, false, { "swap", 2 });
/* Who takes the order of completions for that of submissions blames others */
VARIANTS(swap_and_error, true, false, { "swap", 2 }, { "read_error", 5 });
VARIANTS(prep_null, false, false, { "prep_null", 3 });
VARIANTS(never_prepared, false, true, { "prep_null", 1 });
VARIANTS(ring_full, false, false, { "ring_full", 5 });
VARIANTS(all_at_once, true, false, { "read_error", 7 }, { "write_error", 5 },
	 { "late", 11 }, { "swap", 2 }, { "prep_null", 13 });

/* Frames do not adjoin: what shares a descriptor is in a list */
#define IN_LISTS(_name, _errors, ...)					\
FIXTURE_VARIANT_ADD(passing, _name##_listed) {				\
	.folio = PAGE, .errors = _errors, .halves = true,		\
	.faults = { __VA_ARGS__ },					\
}

IN_LISTS(read_error, true, { "read_error", 3 });
IN_LISTS(residue, true, { "residue", 3 });
IN_LISTS(prep_null, false, { "prep_null", 3 });
IN_LISTS(all_at_once, true, { "read_error", 7 }, { "write_error", 5 },
	 { "late", 11 }, { "swap", 2 }, { "prep_null", 13 });

/*
 * Every second page, and then the others: they do not adjoin where they come from.
 * When all are moved together again, in order of addresses, they do not either.
 */
static long move_halves(const struct region *r, int to)
{
	static void *pages[SIZE / PAGE / 2];
	size_t nr = SIZE / PAGE / 2;
	long error;

	for (size_t half = 0; half < 2; half++) {
		for (size_t i = 0; i < nr; i++)
			pages[i] = r->addr + (2 * i + half) * PAGE;
		error = pages_send(pages, nr, to, MPOL_MF_MOVE);
		if (error < 0)
			return error;
	}
	return region_pages_off(r, to);
}

FIXTURE_SETUP(passing)
{
	/* A list is a chunk: two are behind each other on one channel */
	const char *softdma = variant->halves ? "channels=1 ring=64" :
			      "channels=4 ring=64 lists=0";
	const char *why = set_up_on(&self->region, self->nodes,
				    variant->backing, variant->folio, softdma,
				    "timeout_ms=60000 max_errors=1000000");

	if (why)
		SKIP(return, "%s", why);
	softdma_set("late_ms", 20);
	/* Copies queue up, so that they can be out of order */
	softdma_set("latency_ns", 300000);
}

FIXTURE_TEARDOWN_PARENT(passing)
{
	tear_down();
}

/* Each folio is counted once: copied by the engine, or why not */
static void check_stats(struct __test_metadata *_metadata,
			const FIXTURE_VARIANT(passing) *variant,
			const struct offload_stats *grew, int moves)
{
	struct channels c = channels();
	long folios = moves * SIZE / variant->folio;

	EXPECT_EQ(folios, grew->folios + grew->fallback_error +
		  grew->fallback_busy + grew->fallback_refs +
		  grew->fallback_kind);
	EXPECT_EQ(grew->bytes, grew->folios * (long)variant->folio);
	EXPECT_EQ(variant->errors, grew->fallback_error > 0);
	EXPECT_TRUE(!variant->busy || !grew->folios);
	EXPECT_EQ(0, grew->quarantined_bytes);
	/* Each copy has ended exactly once */
	EXPECT_EQ(c.submitted, c.completed + c.errors);
	EXPECT_EQ(0, c.in_flight);
	EXPECT_EQ(variant->errors, c.errors > 0);
	/* What fails is a part of a folio, or some that adjoin each other */
	if (variant->folio == PAGE) {
		EXPECT_LE(c.errors, grew->fallback_error);
		EXPECT_GE(c.errors * PART_FOLIOS, grew->fallback_error);
	}
	EXPECT_EQ(grew->fallback_error,
		  file_read_long(OFFLOAD_DIR "/migrators/dcbm/errors"));
}

static bool all_were_injected(const struct fault *f)
{
	while (f->name && injected(f->name))
		f++;
	return !f->name;
}

TEST_F_TIMEOUT(passing, every_byte_moves_and_every_folio_is_counted, 60)
{
	struct offload_stats before = offload_stats(NULL), grew;
	const struct fault *f;
	int i;

	for (f = variant->faults; f->name; f++)
		inject(f->name, f->every);
	/* Two copies that are to swap have to meet: with few that takes more moves */
	for (i = 0; i < MOVES ||
	     (i < MAX_MOVES && !all_were_injected(variant->faults)); i++) {
		int from = self->nodes[i % 2], to = self->nodes[!(i % 2)];

		EXPECT_EQ(0, variant->halves && !(i % 2) ?
			  move_halves(&self->region, to) :
			  region_move(&self->region, MOVE_PAGES, from, to));
		EXPECT_EQ(0, region_wrong_words(&self->region));
	}
	grew = offload_stats(&before);
	for (f = variant->faults; f->name; f++) {
		EXPECT_LT(0, injected(f->name)) {
			TH_LOG("no %s was injected", f->name);
		}
	}
	check_stats(_metadata, variant, &grew, i);
}

/* --- no fault at all --- */

TEST(small_folios_that_adjoin_share_a_descriptor)
{
	uint64_t *from, *to;
	long pages = SIZE / PAGE, pairs = 0;
	struct region r;
	int nodes[2];
	const char *why;

	why = set_up_on(&r, nodes, ANON, PAGE, "channels=4 ring=64 lists=0", "");
	if (why)
		SKIP(return, "%s", why);
	from = page_frames(r.addr, SIZE);
	EXPECT_EQ(0, region_move(&r, MOVE_PAGES, nodes[0], nodes[1]));
	to = page_frames(r.addr, SIZE);
	for (long i = 1; i < pages; i++)
		pairs += from[i] == from[i - 1] + 1 && to[i] == to[i - 1] + 1;
	free(from);
	free(to);
	TH_LOG("%ld of %ld adjoin, %ld descriptors", pairs, pages,
	       channels().submitted);
	/* A chunk may end between them, or the task go to another CPU */
	EXPECT_GE(pages - pairs + 2 * pages / PART_FOLIOS,
		  channels().submitted);
	EXPECT_LE(pages / PART_FOLIOS, channels().submitted);
	EXPECT_EQ(0, region_wrong_words(&r));
	tear_down();
	if (pairs < pages / 4)
		SKIP(return, "memory is too fragmented for most to adjoin");
}

TEST(small_folios_that_do_not_adjoin_share_one_as_well)
{
	long pages = SIZE / PAGE;
	struct region r;
	int nodes[2];
	const char *why;

	why = set_up(&r, nodes, ANON, PAGE, "");
	if (why)
		SKIP(return, "%s", why);
	EXPECT_EQ(0, move_halves(&r, nodes[1]));
	EXPECT_GE(2 * pages / PART_FOLIOS + pages / 16, channels().submitted);
	EXPECT_LE(pages / PART_FOLIOS, channels().submitted);
	EXPECT_EQ(0, region_wrong_words(&r));
	tear_down();
}

/* How many folios a migrator has copied */
static long copied_by(const char *migrator)
{
	char path[128];

	snprintf(path, sizeof(path), OFFLOAD_DIR "/migrators/%s/folios",
		 migrator);
	return file_read_long(path);
}

struct copied {
	long by_cpu;
	long by_dcbm;
};

/* Move the region to the other node. Return: how many folios who has copied. */
static struct copied move_over(struct __test_metadata *_metadata,
			       struct region *r, int nodes[2])
{
	struct copied was = { copied_by("cpu"), copied_by("dcbm") }, now;
	int to = nodes[0];

	EXPECT_EQ(0, region_move(r, MOVE_PAGES, to, nodes[1]));
	EXPECT_EQ(0, region_wrong_words(r));
	nodes[0] = nodes[1];
	nodes[1] = to;
	now = (struct copied) {
		copied_by("cpu") - was.by_cpu, copied_by("dcbm") - was.by_dcbm
	};
	TH_LOG("the engine copied %ld, the CPU %ld", now.by_dcbm, now.by_cpu);
	/* Nothing is known of an engine that has never been used */
	EXPECT_LT(0, now.by_dcbm);
	return now;
}

/* Each descriptor takes as long as a thousand copies by CPU */
TEST(slow_engine_leaves_folios_to_the_cpu)
{
	struct copied copied = {};
	struct region r;
	int nodes[2];
	const char *why;

	why = set_up(&r, nodes, ANON, PAGE, "timeout_ms=60000");
	if (why)
		SKIP(return, "%s", why);
	softdma_set("latency_ns", 5000000);
	offload_set("window_pages", "0");
	/* On a busy host the first copy by CPU may be slow as well */
	for (int i = 0; i < 3 && copied.by_cpu <= copied.by_dcbm; i++) {
		offload_set("engine_always", "0");
		copied = move_over(_metadata, &r, nodes);
	}
	EXPECT_GT(copied.by_cpu, copied.by_dcbm);

	offload_set("engine_always", "1");
	copied = move_over(_metadata, &r, nodes);
	EXPECT_EQ(0, copied.by_cpu);
	tear_down();
}

/* --- faults that last --- */

FIXTURE(lasting)
{
	int nodes[2];
	struct region region;
};

FIXTURE_VARIANT(lasting)
{
	enum backing backing;
	size_t folio;
};

FIXTURE_VARIANT_ADD(lasting, of_4k) { .folio = PAGE };
FIXTURE_VARIANT_ADD(lasting, of_2m) { .folio = PMD };
FIXTURE_VARIANT_ADD(lasting, of_hugetlb) { .backing = HUGETLB, .folio = PMD };

FIXTURE_SETUP(lasting)
{
	const char *why = set_up(&self->region, self->nodes, variant->backing,
				 variant->folio, "timeout_ms=2000 max_errors=3");

	if (why)
		SKIP(return, "%s", why);
}

FIXTURE_TEARDOWN_PARENT(lasting)
{
	tear_down();
}

static void move(struct __test_metadata *_metadata,
		 FIXTURE_DATA(lasting) *self, int to)
{
	EXPECT_EQ(0, region_move(&self->region, MOVE_PAGES, self->nodes[!to],
				 self->nodes[to]));
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

TEST_F_TIMEOUT(lasting, channel_that_errs_again_and_again_is_retired, 60)
{
	struct offload_stats before = offload_stats(NULL), grew;

	inject("read_error", 1);
	for (int i = 0; i < MOVES; i++)
		move(_metadata, self, !(i % 2));
	EXPECT_EQ(4, channels().failed);
	/* With none left nothing is unmapped for them */
	inject("read_error", 0);
	before = offload_stats(NULL);
	move(_metadata, self, 1);
	grew = offload_stats(&before);
	EXPECT_EQ(0, grew.calls);
	EXPECT_EQ(0, grew.fallback_busy);
	EXPECT_EQ(4, channels().failed);
	/* Until they are taken anew */
	offload_set("active", "none");
	offload_set("active", "dcbm");
	EXPECT_EQ(4, channels().live);
	move(_metadata, self, 0);
	EXPECT_EQ((long)(SIZE / variant->folio), offload_stats(&before).folios);
}

static void *release(void *arg)
{
	/* A slow machine may not have come to the first copy yet */
	for (int ms = 0; !injected("stall") && ms < 10000; ms++)
		usleep(1000);
	usleep(100000);
	inject("stall", 0);
	softdma_set("stall_release", 1);
	return arg;
}

TEST_F_TIMEOUT(lasting, stall_that_ends_in_time_costs_nothing, 60)
{
	struct offload_stats before = offload_stats(NULL), grew;
	pthread_t thread;

	inject("stall", 3);
	ASSERT_EQ(0, pthread_create(&thread, NULL, release, NULL));
	move(_metadata, self, 1);
	pthread_join(thread, NULL);
	grew = offload_stats(&before);
	EXPECT_LT(0, injected("stall"));
	EXPECT_EQ(0, grew.quarantined_bytes);
	EXPECT_EQ((long)(SIZE / variant->folio), grew.folios);
	EXPECT_EQ(4, channels().live);
}

/* Memory of a node from each CPU's own lists, where what was just freed is */
static unsigned int get_baits(struct region *baits, int node)
{
	unsigned int nr = 0;
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all))
		err(1, "sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE && nr < MAX_BAITS; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			err(1, "sched_setaffinity");
		if (!region_create(&baits[nr], ANON, 0, SIZE, node))
			nr++;
	}
	sched_setaffinity(0, sizeof(all), &all);
	return nr;
}

static long overdue(void)
{
	return file_read_long(OFFLOAD_DIR "/migrators/dcbm/overdue");
}

/*
 * First the core gives the copies up, then dcbm the channels. The folios stay where
 * they were until the engine lets go: it may still read them. If their destinations
 * were free, Linux would take those, and the bytes that the engine writes at last
 * would be in the region or in the bait.
 */
TEST_F_TIMEOUT(lasting, stuck_engine_writes_to_no_page_that_is_in_use, 60)
{
	struct offload_stats before = offload_stats(NULL), grew;
	struct region baits[MAX_BAITS];
	unsigned int nr_baits;

	offload_set("deadline_ms", "100");
	inject("stall", 2);
	pages_move(&self->region, self->nodes[1], OWN);
	EXPECT_EQ(0, region_wrong_words(&self->region));
	EXPECT_LT(0, overdue());
	grew = offload_stats(&before);
	EXPECT_LE((long)variant->folio, grew.quarantined_bytes);
	/* What was only busy moves now, without the engine */
	pages_move(&self->region, self->nodes[1], OWN);
	EXPECT_EQ(grew.quarantined_bytes / PAGE,
		  (long)region_pages_off(&self->region, self->nodes[1]));
	for (int ms = 0; (!channels().stuck || overdue()) && ms < 20000; ms += 10)
		usleep(10000);
	EXPECT_LT(0, channels().stuck);
	EXPECT_EQ(0, overdue());
	EXPECT_LT(0, channels().in_flight);

	/* The engine still has the old bytes in mind */
	region_fill(&self->region, NEW_SEED);
	nr_baits = get_baits(baits, self->nodes[1]);
	EXPECT_LT(0, nr_baits);
	/* Until the engine lets go its driver must stay */
	offload_set("active", "none");
	EXPECT_EQ(-EWOULDBLOCK, module_unload("dcbm", 0));

	inject("stall", 0);
	softdma_set("stall_release", 1);
	EXPECT_EQ(0, module_unload("dcbm", 10000));
	EXPECT_EQ(0, module_unload("softdma", 0));
	EXPECT_EQ(0, region_wrong_words(&self->region));
	while (nr_baits--)
		EXPECT_EQ(0, region_wrong_words(&baits[nr_baits]));
	move(_metadata, self, 1);
}

/* --- the core's deadline --- */

static bool in_service_after(bool in_service, unsigned int ms)
{
	for (;; ms -= 10) {
		if (file_read_long(OFFLOAD_DIR "/in_service") == in_service)
			return true;
		if (ms < 10)
			return false;
		usleep(10000);
	}
}

/*
 * dcbm would wait for a minute. Nobody else does: neither who moves nor who
 * touches. The folios that are with the engine stay until it lets go.
 */
TEST_F_TIMEOUT(lasting, stuck_engine_is_not_waited_for, 100)
{
	struct offload_stats before = offload_stats(NULL), grew;
	double start;

	offload_unload();
	ASSERT_EQ(NULL, offload_use_dcbm("channels=4 ring=64",
					 "timeout_ms=60000"));
	offload_set("deadline_ms", "200");
	EXPECT_TRUE(in_service_after(true, 0));
	inject("stall", 2);
	start = seconds(CLOCK_MONOTONIC);
	pages_move(&self->region, self->nodes[1], OWN);
	EXPECT_EQ(0, region_wrong_words(&self->region));
	EXPECT_GT(20, seconds(CLOCK_MONOTONIC) - start);

	grew = offload_stats(&before);
	EXPECT_LE((long)variant->folio, grew.quarantined_bytes);
	EXPECT_TRUE(in_service_after(false, 0));
	EXPECT_LT(0, overdue());
	/* Their callbacks have not run yet, so the module must stay */
	offload_set("active", "none");
	EXPECT_EQ(-EWOULDBLOCK, module_unload("dcbm", 0));
	offload_set("active", "dcbm");
	/* Those that are not with the engine move without it */
	before = offload_stats(NULL);
	pages_move(&self->region, self->nodes[1], OWN);
	EXPECT_EQ(0, offload_stats(&before).calls);
	EXPECT_EQ(0, region_wrong_words(&self->region));

	/* The engine still has the old bytes in mind */
	region_fill(&self->region, NEW_SEED);
	inject("stall", 0);
	softdma_set("stall_release", 1);
	EXPECT_TRUE(in_service_after(true, 20000));
	EXPECT_EQ(0, overdue());
	EXPECT_EQ(0, region_wrong_words(&self->region));

	/* And now all of them move, with the engine */
	offload_set("deadline_ms", "60000");
	move(_metadata, self, 1);
	before = offload_stats(NULL);
	move(_metadata, self, 0);
	EXPECT_EQ((long)(SIZE / variant->folio), offload_stats(&before).folios);
	EXPECT_EQ(0, region_wrong_words(&self->region));
}

#define NR_CALLS	(SIZE / PMD)

static void *move_folio(void *arg)
{
	struct region *r = arg;

	return (void *)pages_move(r, nodes_of_move[1], OWN);
}

/*
 * Each call has one folio, which takes the engine a third of a second: the second
 * one waits for longer than the deadline, of an engine that works. A call that
 * finds no free window, of which there are two for each CPU, goes Linux's way.
 */
TEST(slow_engine_that_many_calls_use_is_not_stuck)
{
	pthread_t threads[NR_CALLS];
	struct region all, part[NR_CALLS];
	struct offload_stats before;
	const char *why;
	void *off;

	why = set_up(&all, nodes_of_move, ANON, PMD, "timeout_ms=60000");
	if (!why) {
		offload_unload();
		why = offload_use_dcbm("channels=1 ring=64 mbps=6",
				       "timeout_ms=60000");
	}
	if (why)
		SKIP(return, "%s", why);
	offload_set("deadline_ms", "500");
	before = offload_stats(NULL);
	for (size_t i = 0; i < NR_CALLS; i++) {
		part[i] = all;
		part[i].addr += i * PMD;
		part[i].size = PMD;
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, move_folio,
					    &part[i]));
	}
	for (size_t i = 0; i < NR_CALLS; i++) {
		pthread_join(threads[i], &off);
		EXPECT_EQ(NULL, off);
	}
	EXPECT_EQ(0, overdue());
	EXPECT_EQ(0, offload_stats(&before).quarantined_bytes);
	EXPECT_LE(2, offload_stats(&before).folios);
	EXPECT_EQ(0, region_wrong_words(&all));
	tear_down();
}

TEST_HARNESS_MAIN
