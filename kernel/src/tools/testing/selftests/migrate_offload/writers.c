// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory is written to while it moves, in each way in which a process or a
 * device can: no write is lost, be it before, during or after a copy.
 *
 * The engine's copies are made at once but reported late, so that a write in
 * between meets a stale copy if there is one.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "moving.h"
#include "offload.h"
#include "slow_file.h"
#include "uring.h"
#include "writer.h"

#define WRITE_MS	1000
#define LATE_US		2000	/* from a pin to its data: longer than a copy */
#define STAY		100000	/* stores; milliseconds */

FIXTURE(writers)
{
	struct moving moving;
	struct writer writer;
	struct offload_stats before;
};

FIXTURE_VARIANT(writers)
{
	size_t folio;
};

FIXTURE_VARIANT_ADD(writers, 4k) { .folio = PAGE };
FIXTURE_VARIANT_ADD(writers, 64k) { .folio = 64 * KIB };
FIXTURE_VARIANT_ADD(writers, 2m) { .folio = PMD };

FIXTURE_SETUP(writers)
{
	const char *why = moving_create(&self->moving, variant->folio);

	if (why)
		SKIP(return, "%s", why);
	self->before = offload_stats(NULL);
}

FIXTURE_TEARDOWN_PARENT(writers)
{
	if (access(OFFLOAD_DIR, F_OK))
		return;
	offload_reset();
	offload_unload();
}

/* All is as filled, and it was the engine that moved it, again and again */
static void check_moved(struct __test_metadata *_metadata,
			FIXTURE_DATA(writers) *self)
{
	EXPECT_EQ(0, region_wrong_words(&self->moving.region));
	EXPECT_TRUE(moving_has_returned(&self->moving));
	EXPECT_LT(0, offload_stats(&self->before).folios);
}

static void write_while_it_moves(struct __test_metadata *_metadata,
				 FIXTURE_DATA(writers) *self,
				 bool (*put)(uint64_t *at, uint64_t value))
{
	struct writer *w = &self->writer;

	writer_begin(w, &self->moving.region, put);
	moving_begin(&self->moving);
	while (moving_goes_on(&self->moving, WRITE_MS))
		usleep(1000);
	writer_end(w);
	moving_end(&self->moving);
	EXPECT_LT(0, w->writes);
	EXPECT_EQ(0, w->failed);
	EXPECT_EQ(0, w->lost);
	check_moved(_metadata, self);
}

TEST_F(writers, stores)
{
	write_while_it_moves(_metadata, self, writer_store);
}

/* One word for milliseconds, without entering the kernel: by what the TLB says */
static bool stay(uint64_t *at, uint64_t value)
{
	volatile uint64_t *word = at;

	for (uint64_t i = 0; i < STAY; i++) {
		*word = value + i;
		if (*word != value + i)
			return false;
	}
	*word = value;
	return true;
}

TEST_F(writers, stores_to_one_word)
{
	write_while_it_moves(_metadata, self, stay);
}

/* Two threads add to the same words: each word counts them all */
struct adder {
	const struct region *region;
	pthread_t thread;
	atomic_bool over;
	long *added;
};

static void *add(void *arg)
{
	struct adder *a = arg;
	unsigned int seed = 1;

	while (!a->over) {
		size_t page = rand_r(&seed) % (a->region->size / PAGE);

		atomic_fetch_add((atomic_ulong *)(a->region->addr + page * PAGE), 1);
		a->added[page]++;
	}
	return NULL;
}

TEST_F(writers, atomic_adds)
{
	struct region *r = &self->moving.region;
	size_t nr = r->size / PAGE;
	struct adder adders[2] = {};
	long lost = 0;

	for (int i = 0; i < 2; i++) {
		adders[i].region = r;
		adders[i].added = calloc(nr, sizeof(long));
		ASSERT_NE(NULL, adders[i].added);
		ASSERT_EQ(0, pthread_create(&adders[i].thread, NULL, add, &adders[i]));
	}
	moving_begin(&self->moving);
	while (moving_goes_on(&self->moving, WRITE_MS))
		usleep(1000);
	moving_end(&self->moving);
	for (int i = 0; i < 2; i++) {
		adders[i].over = true;
		pthread_join(adders[i].thread, NULL);
	}
	for (size_t i = 0; i < nr; i++) {
		lost += *(uint64_t *)(r->addr + i * PAGE) != region_word(r, i * PAGE) +
			adders[0].added[i] + adders[1].added[i];
		region_refill(r, i * PAGE, 8);
	}
	EXPECT_EQ(0, lost);
	check_moved(_metadata, self);
}

static bool put_by_process_vm(uint64_t *at, uint64_t value)
{
	struct iovec local = { &value, 8 }, remote = { at, 8 };

	return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == 8;
}

TEST_F(writers, process_vm_writev)
{
	uint64_t word;

	if (!put_by_process_vm(&word, 1))
		SKIP(return, "no process_vm_writev");
	write_while_it_moves(_metadata, self, put_by_process_vm);
}

static int mem_fd = -1;

static bool force(uint64_t *at, uint64_t value)
{
	return pwrite(mem_fd, &value, 8, (uintptr_t)at) == 8;
}

/* Nobody may write to it, but a debugger does so all the same */
TEST_F(writers, forced_writes)
{
	struct region *r = &self->moving.region;
	struct writer *w = &self->writer;

	mem_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, mem_fd);
	ASSERT_EQ(0, mprotect(r->addr, r->size, PROT_READ));
	writer_begin(w, r, force);
	moving_begin(&self->moving);
	while (moving_goes_on(&self->moving, WRITE_MS))
		usleep(1000);
	moving_end(&self->moving);
	ASSERT_EQ(0, mprotect(r->addr, r->size, PROT_READ | PROT_WRITE));
	writer_end(w);
	EXPECT_LT(0, w->writes);
	EXPECT_EQ(0, w->failed);
	EXPECT_EQ(0, w->lost);
	check_moved(_metadata, self);
}

static struct slow_file slow;

/* A direct read whose data comes long after its pin */
static bool read_late(uint64_t *at, uint64_t value)
{
	slow_file_read(&slow, (char *)at, 8);
	usleep(LATE_US);
	return slow_file_answer(&slow, &value) == 8;
}

TEST_F(writers, late_direct_reads)
{
	const char *why = slow_file_open(&slow);

	if (why)
		SKIP(return, "%s", why);
	write_while_it_moves(_metadata, self, read_late);
}

static struct ring ring;
static int memfd = -1;

/* A buffer that is pinned for longer than a copy, and unpinned without a trace */
static bool read_fixed(uint64_t *at, uint64_t value)
{
	bool done;

	if (pwrite(memfd, &value, 8, 0) != 8 || ring_pin(&ring, at, 8))
		return false;
	usleep(LATE_US);
	done = ring_read_fixed(&ring, memfd, (char *)at, 8) == 8;
	return !ring_unpin(&ring) && done;
}

TEST_F(writers, registered_buffers)
{
	if (!ring_possible())
		SKIP(return, "no io_uring");
	ring_open(&ring);
	memfd = memfd_create("writers", MFD_CLOEXEC);
	ASSERT_LE(0, memfd);
	write_while_it_moves(_metadata, self, read_fixed);
	ring_close(&ring);
}

TEST_HARNESS_MAIN
