// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page tables change while their memory moves, and it is written to in between:
 * no write is lost, and what was protected, forked, dropped, moved or locked is
 * that.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "moving.h"
#include "offload.h"
#include "uring.h"

#define CHANGE_MS	1000
#define PAGES		8	/* at most, of one change */

FIXTURE(tables)
{
	struct moving moving;
	struct offload_stats before;
};

FIXTURE_VARIANT(tables)
{
	size_t folio;
};

FIXTURE_VARIANT_ADD(tables, 4k) { .folio = PAGE };
FIXTURE_VARIANT_ADD(tables, 64k) { .folio = 64 * KIB };
FIXTURE_VARIANT_ADD(tables, 2m) { .folio = PMD };

FIXTURE_SETUP(tables)
{
	const char *why = moving_create(&self->moving, variant->folio);

	if (why)
		SKIP(return, "%s", why);
	self->before = offload_stats(NULL);
}

FIXTURE_TEARDOWN_PARENT(tables)
{
	if (access(OFFLOAD_DIR, F_OK))
		return;
	offload_reset();
	offload_unload();
}

/* Changes in a row while it all moves; each leaves its part as it was filled */
static void change_while_it_moves(struct __test_metadata *_metadata,
				  FIXTURE_DATA(tables) *self,
				  long (*change)(struct region *r, size_t at, size_t size))
{
	struct region *r = &self->moving.region;
	long wrong = 0, changes = 0;

	moving_begin(&self->moving);
	do {
		size_t size = (1 + rand() % PAGES) * PAGE;
		size_t at = rand() % ((r->size - size) / PAGE) * PAGE;

		wrong += change(r, at, size);
		changes++;
		usleep(rand() % 500);
	} while (moving_goes_on(&self->moving, CHANGE_MS));
	moving_end(&self->moving);
	EXPECT_LT(0, changes);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, region_wrong_words(r));
	EXPECT_TRUE(moving_has_returned(&self->moving));
	EXPECT_LT(0, offload_stats(&self->before).folios);
}

/* Words of a part that are not what was filled, with these bits turned */
static long wrong_in(const struct region *r, size_t at, size_t size, uint64_t mask)
{
	return words_wrong_masked(r->addr, at, size, r->seed ^ mask);
}

static void write_all(struct region *r, size_t at, size_t size, uint64_t mask)
{
	words_fill_masked(r->addr, at, size, r->seed ^ mask);
}

/* Write it, see it stay for about a copy's time, and put back what was there */
static long write_and_undo(struct region *r, size_t at, size_t size)
{
	long wrong = wrong_in(r, at, size, 0);

	write_all(r, at, size, 1);
	usleep(rand() % 500);
	wrong += wrong_in(r, at, size, 1);
	write_all(r, at, size, 0);
	return wrong;
}

static long protect(struct region *r, size_t at, size_t size)
{
	long wrong = mprotect(r->addr + at, size, PROT_READ) != 0;

	usleep(rand() % 500);
	wrong += wrong_in(r, at, size, 0);
	wrong += mprotect(r->addr + at, size, PROT_READ | PROT_WRITE) != 0;
	return wrong + write_and_undo(r, at, size);
}

TEST_F(tables, mprotect)
{
	change_while_it_moves(_metadata, self, protect);
}

static struct ring ring;
static int memfd = -1;

/*
 * mprotect() may make an entry writable that is not dirty, a pin of the fast
 * path writes by it and is gone, and mprotect() takes the right to write away:
 * all within one copy, and nothing but the bytes tells of it.
 */
static long protect_and_pin(struct region *r, size_t at, size_t size)
{
	uint64_t value = ~region_word(r, at);
	char *addr = r->addr + at;
	long wrong = 0;

	if (pwrite(memfd, &value, 8, 0) != 8)
		return 1;
	wrong += mprotect(addr, size, PROT_READ) != 0;
	wrong += mprotect(addr, size, PROT_READ | PROT_WRITE) != 0;
	wrong += ring_pin(&ring, addr, 8) != 0;
	wrong += ring_read_fixed(&ring, memfd, addr, 8) != 8;
	wrong += ring_unpin(&ring) != 0;
	wrong += mprotect(addr, size, PROT_READ) != 0;
	usleep(1000);
	wrong += *(volatile uint64_t *)addr != value;
	wrong += mprotect(addr, size, PROT_READ | PROT_WRITE) != 0;
	region_refill(r, at, 8);
	return wrong;
}

TEST_F(tables, mprotect_and_a_short_pin)
{
	if (!ring_possible())
		SKIP(return, "no io_uring");
	ring_open(&ring);
	memfd = memfd_create("tables", MFD_CLOEXEC);
	ASSERT_LE(0, memfd);
	change_while_it_moves(_metadata, self, protect_and_pin);
	ring_close(&ring);
}

static int uffd = -1;

static long write_protect(struct region *r, size_t at, size_t size)
{
	long wrong = uffd_wp(uffd, r->addr + at, size, true) != 0;

	usleep(rand() % 500);
	wrong += wrong_in(r, at, size, 0);
	wrong += uffd_wp(uffd, r->addr + at, size, false) != 0;
	return wrong + write_and_undo(r, at, size);
}

TEST_F(tables, userfaultfd)
{
	uffd = uffd_open(self->moving.region.addr, self->moving.region.size,
			 UFFDIO_REGISTER_MODE_WP);
	if (uffd < 0)
		SKIP(return, "no userfaultfd that protects from writes");
	change_while_it_moves(_metadata, self, write_protect);
	close(uffd);
}

/* Both write, and neither sees what the other has written */
static long forked(struct region *r, size_t at, size_t size)
{
	int status = 1;
	pid_t pid = fork();

	if (!pid)
		_exit(write_and_undo(r, at, size) != 0);
	return (pid < 0) + write_and_undo(r, at, size) +
	       (waitpid(pid, &status, 0) != pid || status);
}

TEST_F(tables, fork)
{
	change_while_it_moves(_metadata, self, forked);
}

/* It may be freed as long as nobody writes to it */
static long set_free(struct region *r, size_t at, size_t size)
{
	long wrong = madvise(r->addr + at, size, MADV_FREE) != 0;

	write_all(r, at, size, 1);
	usleep(rand() % 500);
	wrong += wrong_in(r, at, size, 1);
	write_all(r, at, size, 0);
	return wrong;
}

TEST_F(tables, madv_free)
{
	change_while_it_moves(_metadata, self, set_free);
}

static long drop(struct region *r, size_t at, size_t size)
{
	long wrong = madvise(r->addr + at, size, MADV_DONTNEED) != 0;

	wrong += words_nonzero(r->addr + at, size);
	write_all(r, at, size, 0);
	return wrong + write_and_undo(r, at, size);
}

TEST_F(tables, madv_dontneed)
{
	change_while_it_moves(_metadata, self, drop);
}

static long remap(struct region *r, size_t at, size_t size)
{
	char *from = r->addr + at;
	char *to = mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	long wrong = 0;

	if (to == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < size; i += 8)
		*(volatile uint64_t *)(to + i) ^= 1;
	usleep(rand() % 500);
	wrong += mremap(to, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, from) != from;
	wrong += wrong_in(r, at, size, 1);
	write_all(r, at, size, 0);
	return wrong;
}

TEST_F(tables, mremap)
{
	change_while_it_moves(_metadata, self, remap);
}

static long lock(struct region *r, size_t at, size_t size)
{
	long wrong = mlock(r->addr + at, size) != 0;

	wrong += write_and_undo(r, at, size);
	return wrong + (munlock(r->addr + at, size) != 0);
}

TEST_F(tables, mlock)
{
	change_while_it_moves(_metadata, self, lock);
}

/* NUMA balancing takes all rights away, and its faults give them back */
TEST_F(tables, balancing)
{
	const char *why = balancing_begin();

	if (why)
		SKIP(return, "%s", why);
	change_while_it_moves(_metadata, self, write_and_undo);
	balancing_end();
}

TEST_HARNESS_MAIN
