// SPDX-License-Identifier: GPL-2.0-only
/*
 * The addresses of a block of move_pages(2) are brought into order.
 *
 * Hot and cold pages are named in any order. In order of addresses neighbours
 * share the lock of their page table when they are looked up, and they are
 * unmapped and mapped together.
 *
 * A radix sort: it looks at as many bits only as the addresses differ in, and
 * keeps the order in which an address was named twice.
 */
#include <linux/bitops.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "migrate_bulk.h"

#define DIGIT_BITS	8
/* A key is the number of a page, which has 52 bits, and an index in the block */
#define INDEX_BITS	12

static_assert(MIGRATE_SORT_MAX <= 1 << INDEX_BITS);

static unsigned int key_index(u64 key)
{
	return key & GENMASK(INDEX_BITS - 1, 0);
}

static noinline_for_stack void sort_by_digit(const u64 *from, u64 *to,
					     unsigned int nr,
					     unsigned int shift)
{
	u16 at[1 << DIGIT_BITS] = {};
	unsigned int i, sum = 0, count;

	for (i = 0; i < nr; i++)
		at[(u8)(from[i] >> shift)]++;
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		count = at[i];
		at[i] = sum;
		sum += count;
	}
	for (i = 0; i < nr; i++)
		to[at[(u8)(from[i] >> shift)]++] = from[i];
}

/**
 * migrate_sort() - bring addresses into order
 * @sort: its memory is allocated when it is first needed
 * @pages: the addresses
 * @nr: how many
 * @room: how many there are at most in any call with this @sort, itself at most
 *	  MIGRATE_SORT_MAX
 *
 * Each address becomes that of the page it is in. May sleep.
 *
 * Return: false if nothing was changed, for want of memory: else migrate_unsort()
 * must be called.
 */
bool migrate_sort(struct migrate_sort *sort, const void __user **pages,
		  unsigned int nr, unsigned int room)
{
	unsigned int i, shift;
	u64 differ = 0;

	if (!sort->keys)
		sort->keys = kvmalloc_array(room, 2 * sizeof(*sort->keys),
					    GFP_KERNEL | __GFP_NOWARN);
	if (!sort->keys)
		return false;
	sort->sorted = sort->keys;
	sort->other = sort->keys + room;
	for (i = 0; i < nr; i++) {
		u64 page = (unsigned long)pages[i] >> PAGE_SHIFT;

		sort->sorted[i] = page << INDEX_BITS | i;
		differ |= (sort->sorted[i] ^ sort->sorted[0]) >> INDEX_BITS;
	}
	for (shift = INDEX_BITS; differ; differ >>= DIGIT_BITS) {
		if (differ & GENMASK(DIGIT_BITS - 1, 0)) {
			sort_by_digit(sort->sorted, sort->other, nr, shift);
			swap(sort->sorted, sort->other);
		}
		shift += DIGIT_BITS;
	}
	for (i = 0; i < nr; i++)
		pages[i] = (const void __user *)(unsigned long)
			   (sort->sorted[i] >> INDEX_BITS << PAGE_SHIFT);
	return true;
}

/**
 * migrate_unsort() - put answers where the addresses were that they belong to
 * @sort: as migrate_sort() has left it
 * @answers: in order of addresses
 * @nr: as many as there were addresses
 */
void migrate_unsort(struct migrate_sort *sort, int *answers, unsigned int nr)
{
	int *by_address = (int *)sort->other;
	unsigned int i;

	memcpy(by_address, answers, nr * sizeof(*answers));
	for (i = 0; i < nr; i++)
		answers[key_index(sort->sorted[i])] = by_address[i];
}
