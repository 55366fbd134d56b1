// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whoever holds a reference to a folio may still write to it: direct I/O that
 * reads into it, for one. Nothing that is written is lost, be the write early,
 * late, or between two attempts to move the folio.
 *
 * Guards rule 1 (no extra references before the copy starts; each attempt
 * copies afresh). Where the engine is dcbm, its copies are made at once but
 * reported late, so that a write in between meets a stale copy if there is one.
 */
#include "../kselftest_harness.h"

#include <fcntl.h>
#include <sys/uio.h>

#include "offload.h"
#include "region.h"
#include "slow_file.h"

#define SIZE		(256 * KIB)
#define PMD_SIZE	(4 * MIB)
#define FILE_SEED	0x0f1e2d3c4b5a6978ULL
#define COPY_MS		600	/* how long dcbm's copies seem to take, together */

FIXTURE(pinned)
{
	int nodes[2];
	struct region region;
	struct slow_file file;
	char *data;
	size_t pinned;	/* bytes */
};

FIXTURE_VARIANT(pinned)
{
	const char *engine;
	enum backing backing;
	size_t folio;
};

#define VARIANT(_engine, _name, _backing, _folio)			\
FIXTURE_VARIANT_ADD(pinned, _engine##_##_name) {			\
	.engine = #_engine, .backing = _backing, .folio = _folio,	\
}

#define VARIANTS(engine)						\
	VARIANT(engine, anon_4k, ANON, PAGE);				\
	VARIANT(engine, memfd_4k, MEMFD, PAGE);				\
	VARIANT(engine, memfd_2m, MEMFD, PMD)

VARIANTS(cpu);
VARIANTS(mtcopy);
VARIANTS(dcbm);

/* What the slow file holds, which is what the region holds after the read */
static char *file_data(const struct region *r, size_t size)
{
	struct region image = { .addr = malloc(size), .size = size };

	region_fill(&image, FILE_SEED ^ r->seed);
	return image.addr;
}

static const char *set_up(FIXTURE_DATA(pinned) *self,
			  const FIXTURE_VARIANT(pinned) *variant)
{
	size_t size = variant->folio == PMD ? PMD_SIZE : SIZE;
	const char *why;

	if (!nodes_find(self->nodes))
		return "one node with memory only";
	why = offload_use(variant->engine);
	if (!why)
		why = slow_file_open(&self->file);
	if (!why)
		why = region_create(&self->region, variant->backing,
				    variant->folio, size, self->nodes[0]);
	/* One chunk: all is with the engine before the first folio is remapped */
	offload_set("window_pages", "%zu", size / PAGE);
	offload_set("chunk_pages", "%zu", size / PAGE);
	offload_set("min_bytes", "4096");
	offload_set("reasons", "syscall_or_cpuset");
	return why;
}

/*
 * From now on dcbm is slow, or is not any more. Its four channels share the
 * folios, or the parts of a large one.
 */
static void engine_slow(const FIXTURE_VARIANT(pinned) *variant, bool slow)
{
	unsigned int parts = variant->folio == PMD ? PMD_SIZE / PMD :
			     SIZE / PAGE / 4;

	if (!strcmp(variant->engine, "dcbm"))
		softdma_set("latency_ns", slow ? COPY_MS * 1000000 / parts : 0);
}

FIXTURE_SETUP(pinned)
{
	const char *why = set_up(self, variant);

	if (why) {
		if (!access(OFFLOAD_DIR, F_OK))
			offload_reset();
		SKIP(return, "%s", why);
	}
	self->pinned = self->region.size / 2;
	if (self->pinned > SLOW_READ_MAX)
		self->pinned = SLOW_READ_MAX;
	self->data = file_data(&self->region, self->pinned);
}

FIXTURE_TEARDOWN_PARENT(pinned)
{
	offload_reset();
}

/* The start of the region is as in the file, the rest as it was filled */
static size_t wrong_words_after_read(FIXTURE_DATA(pinned) *self)
{
	struct region *r = &self->region;
	size_t wrong = 0;

	for (size_t at = 0; at < self->pinned; at += 8) {
		uint64_t *word = (void *)r->addr + at;

		wrong += *word != *(uint64_t *)(self->data + at);
		*word = region_word(r, at);
	}
	return wrong + region_wrong_words(r);
}

static long pinned_folios(FIXTURE_DATA(pinned) *self, size_t folio)
{
	return (self->pinned + folio - 1) / folio;
}

TEST_F_TIMEOUT(pinned, folio_under_direct_read_stays_until_it_is_read, 60)
{
	long nr = pinned_folios(self, variant->folio);
	struct offload_stats before = offload_stats(NULL), grew;
	struct region *r = &self->region;

	slow_file_read(&self->file, r->addr, self->pinned);
	/* The first attempt: all but the pinned folios move */
	EXPECT_EQ(nr * (long)(variant->folio / PAGE),
		  region_move(r, MOVE_PAGES, self->nodes[0], self->nodes[1]));
	grew = offload_stats(&before);
	EXPECT_EQ((long)(r->size / variant->folio) - nr, grew.folios);
	/* Linux cannot unmap exclusive anonymous pages that are pinned */
	EXPECT_LE(nr, variant->backing == ANON ? grew.left : grew.fallback_refs);

	EXPECT_EQ((long)self->pinned,
		  slow_file_answer(&self->file, self->data));
	/* The retry */
	EXPECT_EQ(0, region_move(r, MOVE_PAGES, self->nodes[0], self->nodes[1]));
	EXPECT_EQ((long)(r->size / variant->folio), offload_stats(&before).folios);
	EXPECT_EQ(0, wrong_words_after_read(self));
}

/* --- a write while the engine is at work --- */

static struct region *moving;
static int moving_to;

static void *mover(void *arg)
{
	(void)arg;
	region_move(moving, MOVE_PAGES, !moving_to, moving_to);
	return NULL;
}

static pthread_t start_move(struct region *r, int to)
{
	pthread_t thread;

	moving = r;
	moving_to = to;
	if (pthread_create(&thread, NULL, mover, NULL))
		abort();
	return thread;
}

/* Until a page is in flight, or much of the time has passed */
static bool wait_in_flight(const char *page)
{
	for (int ms = 0; ms < COPY_MS / 4; ms++) {
		if (!page_frame(page))
			return true;
		usleep(1000);
	}
	return false;
}

TEST_F_TIMEOUT(pinned, direct_read_that_ends_during_the_copies_is_not_lost, 60)
{
	struct region *r = &self->region;
	pthread_t thread;

	engine_slow(variant, true);
	slow_file_read(&self->file, r->addr, self->pinned);
	thread = start_move(r, self->nodes[1]);
	wait_in_flight(r->addr + r->size - PAGE);
	EXPECT_EQ((long)self->pinned,
		  slow_file_answer(&self->file, self->data));
	pthread_join(thread, NULL);
	engine_slow(variant, false);
	EXPECT_EQ(0, wrong_words_after_read(self));
	EXPECT_EQ(0, region_move(r, MOVE_PAGES, self->nodes[0], self->nodes[1]));
	EXPECT_EQ(0, region_wrong_words(r));
}

/* One writer for each of the pages, since each waits for the folio's lock */
#define NR_WRITERS	8

static void *file_writer(void *arg)
{
	off_t at = moving->addr - moving->map + (off_t)(uintptr_t)arg * PAGE;
	uint64_t word = FILE_SEED + at;

	return (void *)(intptr_t)(pwrite(moving->fd, &word, 8, at) == 8);
}

TEST_F_TIMEOUT(pinned, write_to_the_file_during_the_copies_is_not_lost, 60)
{
	struct region *r = &self->region;
	pthread_t thread, writers[NR_WRITERS];
	void *written;

	if (r->fd < 0)
		SKIP(return, "no file behind this memory");
	engine_slow(variant, true);
	thread = start_move(r, self->nodes[1]);
	wait_in_flight(r->addr);
	for (uintptr_t i = 0; i < NR_WRITERS; i++)
		ASSERT_EQ(0, pthread_create(&writers[i], NULL, file_writer,
					    (void *)i));
	for (int i = 0; i < NR_WRITERS; i++) {
		pthread_join(writers[i], &written);
		EXPECT_NE(NULL, written);
	}
	pthread_join(thread, NULL);
	engine_slow(variant, false);
	for (int i = 0; i < NR_WRITERS; i++) {
		uint64_t *word = (void *)r->addr + i * PAGE;

		EXPECT_EQ(FILE_SEED + (r->addr - r->map) + i * PAGE, *word);
		*word = region_word(r, i * PAGE);
	}
	EXPECT_EQ(0, region_move(r, MOVE_PAGES, self->nodes[0], self->nodes[1]));
	EXPECT_EQ(0, region_wrong_words(r));
}

/* A pipe holds a plain reference, not a pin: Linux does unmap such a folio */
TEST_F_TIMEOUT(pinned, page_in_a_pipe_is_not_copied_early, 60)
{
	long pages = 8, folios = (pages * PAGE + variant->folio - 1) / variant->folio;
	struct offload_stats before = offload_stats(NULL), grew;
	struct region *r = &self->region;
	struct iovec iov = { r->addr, pages * PAGE };
	char *copy = malloc(iov.iov_len);
	int pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ((long)iov.iov_len, vmsplice(pipes[1], &iov, 1, 0));
	EXPECT_EQ(folios * (long)(variant->folio / PAGE),
		  region_move(r, MOVE_PAGES, self->nodes[0], self->nodes[1]));
	grew = offload_stats(&before);
	EXPECT_LE(folios, grew.fallback_refs);
	EXPECT_EQ((long)(r->size / variant->folio) - folios, grew.folios);

	EXPECT_EQ((long)iov.iov_len, read(pipes[0], copy, iov.iov_len));
	EXPECT_EQ(0, memcmp(copy, r->addr, iov.iov_len));
	EXPECT_EQ(0, region_move(r, MOVE_PAGES, self->nodes[0], self->nodes[1]));
	EXPECT_EQ(0, region_wrong_words(r));
}

TEST_HARNESS_MAIN
