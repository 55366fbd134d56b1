// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page of a large folio goes bad: it is lost to its owner, who is told so
 * when it is touched, and all others of the folio move, and are right.
 *
 * The poison is simulated. Pages stay poisoned until the next boot.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "large.h"

#define SIZE	(8 * FOLIO)
#define HWPOISON_DIR	"/sys/kernel/debug/hwpoison"
#define BAD	(3 * FOLIO + 5 * PAGE)	/* where the bad page is: inside a run */

FIXTURE(poison)
{
	char *addr;
	uint64_t frame;		/* the bad one */
};

/* A folio is split around its bad page, unless somebody else refers to it */
FIXTURE_VARIANT(poison)
{
	bool whole;
};

FIXTURE_VARIANT_ADD(poison, split) { .whole = false };
FIXTURE_VARIANT_ADD(poison, whole) { .whole = true };

/* Whether the kernel cannot read there for us; a program would get SIGBUS */
static bool is_lost(const char *at)
{
	int pipes[2];
	bool lost;

	if (pipe(pipes))
		return false;
	lost = write(pipes[1], at, 1) < 0 && errno == EFAULT;
	close(pipes[0]);
	close(pipes[1]);
	return lost;
}

/* Who poisons his own page may be told at once; nobody here reads it */
static void go_on(int signal)
{
	(void)signal;
}

static int go_bad(char *at)
{
	sighandler_t old = signal(SIGBUS, go_on);
	int error = 0;

	/* Busy: it is locked, or has just moved away */
	do
		error = madvise(at, PAGE, MADV_HWPOISON) ? errno : 0;
	while (error == EBUSY);
	signal(SIGBUS, old);
	return error;
}

/*
 * Linux 6.12 frees a folio that it could not split with its bad page, and may
 * hand that out again. Here it shall not be one of the next destinations.
 */
static bool heal(uint64_t frame)
{
	char value[32];

	run("modprobe hwpoison_inject");
	if (access(HWPOISON_DIR, F_OK))
		run("mount -t debugfs none /sys/kernel/debug");
	snprintf(value, sizeof(value), "%llu", (unsigned long long)frame);
	return !file_write(HWPOISON_DIR "/unpoison-pfn", value);
}

FIXTURE_SETUP(poison)
{
	struct iovec bad;
	const char *why = large_missing();
	int pipes[2], error;

	if (why)
		SKIP(return, "%s", why);
	self->addr = large_alloc(SIZE, PMD);
	if (!self->addr)
		SKIP(return, "no folios of 64 KiB to be had");
	self->frame = pagemap(self->addr + BAD) & PM_FRAME;
	bad = (struct iovec){ self->addr + BAD, PAGE };
	ASSERT_EQ(0, pipe(pipes));
	if (variant->whole)
		ASSERT_EQ(PAGE, vmsplice(pipes[1], &bad, 1, 0));
	error = go_bad(self->addr + BAD);
	close(pipes[0]);
	close(pipes[1]);
	if (error == EINVAL)
		SKIP(return, "a kernel without memory failure");
	ASSERT_EQ(variant->whole ? EHWPOISON : 0, error);
	/* The folio was kept if, and only if, it could not be split */
	ASSERT_EQ(variant->whole, !!(pagemap(self->addr + BAD) & PM_PRESENT));
	ASSERT_EQ(variant->whole ? 0 : NR,
		  large_pages_not_whole(self->addr + 3 * FOLIO, FOLIO));
}

FIXTURE_TEARDOWN(poison)
{
	if (self->addr)
		munmap(self->addr, SIZE);
}

static size_t wrong_around(const char *addr)
{
	return large_wrong(addr, 0, BAD) +
	       large_wrong(addr, BAD + PAGE, SIZE - BAD - PAGE);
}

TEST_F(poison, bad_page_is_lost_alone)
{
	for (int node = 1; node >= 0; node--) {
		EXPECT_EQ(0, large_move(self->addr, SIZE, node));
		EXPECT_EQ(0, wrong_around(self->addr));
		/* Once it has moved without it, nobody is given its bytes */
		EXPECT_FALSE(pagemap(self->addr + BAD) & PM_PRESENT);
		EXPECT_TRUE(is_lost(self->addr + BAD));
		if (node && variant->whole)
			ASSERT_TRUE(heal(self->frame));
	}
	/* What a program does that can make the contents once more */
	ASSERT_NE(MAP_FAILED, mmap(self->addr + BAD, PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	EXPECT_FALSE(is_lost(self->addr + BAD));
	large_fill(self->addr, BAD, PAGE);
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	EXPECT_EQ(0, large_wrong(self->addr, 0, SIZE));
}

TEST_HARNESS_MAIN
