// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page of a large folio goes bad: it is lost to its owner, who is told so
 * when it is touched, and all others of the folio move, and are right.
 *
 * The poison is simulated. Pages stay poisoned until the next boot.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"

#include <sys/mman.h>

#include "large.h"

#define SIZE	(8 * FOLIO)
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

/*
 * Linux 6.12 frees a folio that it could not split with its bad page, and may
 * hand that out again. Here it shall not be one of the next destinations.
 */
static bool heal(uint64_t frame)
{
	return !hwpoison("unpoison-pfn", frame);
}

FIXTURE_SETUP(poison)
{
	const char *why = large_missing();
	int pipes[2] = { -1, -1 }, error;

	if (why)
		SKIP(return, "%s", why);
	self->addr = large_alloc(SIZE, PMD);
	if (!self->addr)
		SKIP(return, "no folios of 64 KiB to be had");
	self->frame = page_frame(self->addr + BAD);
	if (variant->whole)
		ASSERT_TRUE(page_to_pipe(self->addr + BAD, pipes));
	error = page_poison(self->addr + BAD);
	close(pipes[0]);
	close(pipes[1]);
	if (error == EINVAL)
		SKIP(return, "a kernel without memory failure");
	ASSERT_EQ(variant->whole ? EHWPOISON : 0, error);
	/* The folio was kept if, and only if, it could not be split */
	ASSERT_EQ(variant->whole, !!(pagemap(self->addr + BAD) & PM_PRESENT));
	ASSERT_EQ(variant->whole ? 0 : NR,
		  pages_not_in_folios(self->addr + 3 * FOLIO, FOLIO, FOLIO));
}

FIXTURE_TEARDOWN(poison)
{
	if (self->addr)
		munmap(self->addr, SIZE);
}

static size_t wrong_around(const char *addr)
{
	return words_wrong(addr, 0, BAD) +
	       words_wrong(addr, BAD + PAGE, SIZE - BAD - PAGE);
}

TEST_F(poison, bad_page_is_lost_alone)
{
	for (int node = 1; node >= 0; node--) {
		EXPECT_EQ(0, large_move(self->addr, SIZE, node));
		EXPECT_EQ(0, wrong_around(self->addr));
		/* Once it has moved without it, nobody is given its bytes */
		EXPECT_FALSE(pagemap(self->addr + BAD) & PM_PRESENT);
		EXPECT_FALSE(page_readable(self->addr + BAD));
		if (node && variant->whole)
			ASSERT_TRUE(heal(self->frame));
	}
	/* What a program does that can make the contents once more */
	ASSERT_NE(MAP_FAILED, mmap(self->addr + BAD, PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	EXPECT_TRUE(page_readable(self->addr + BAD));
	words_fill(self->addr, BAD, PAGE);
	EXPECT_EQ(0, large_move(self->addr, SIZE, 1));
	EXPECT_EQ(0, words_wrong(self->addr, 0, SIZE));
}

TEST_HARNESS_MAIN
