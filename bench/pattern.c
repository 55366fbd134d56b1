// SPDX-License-Identifier: GPL-2.0
/* What every byte must be: a hash of its offset and the seed, so that a page in
 * the wrong place, an old copy or a torn one all show. The stall probe and each
 * writer add to one word of each page, and what they added must be there, too.
 */
#include "migbench.h"

#define WORDS (PAGE_BYTES / sizeof(uint64_t))

static uint64_t word_at(uint64_t index, uint64_t seed)
{
	return hash_of((seed << 1 | 1) * 0x9e3779b97f4a7c15 + index);
}

void pattern_fill(char *page, size_t page_index, uint64_t seed)
{
	uint64_t *words = (uint64_t *)page;
	size_t i;

	for (i = 0; i < WORDS; i++)
		words[i] = word_at(page_index * WORDS + i, seed);
}

static unsigned int bytes_that_differ(uint64_t a, uint64_t b)
{
	unsigned int count = 0;
	uint64_t x;

	for (x = a ^ b; x; x >>= 8)
		count += (x & 0xff) != 0;
	return count;
}

void pattern_check(struct bench *b)
{
	uint64_t first_bad = 0, bad = 0, got = 0, want = 0;
	size_t page, i;

	for (page = 0; page < b->mem.pages; page++) {
		const uint64_t *words = (const uint64_t *)memory_page(b, page);
		const uint64_t *touches = &b->mem.touches[page * b->mem.touchers];

		for (i = 0; i < WORDS; i++) {
			uint64_t right = word_at(page * WORDS + i, b->opt.seed);

			size_t toucher = (i - page) % WORDS;

			if (toucher < b->mem.touchers)
				right += touches[toucher];
			if (words[i] == right)
				continue;
			if (!bad) {
				first_bad = page * PAGE_BYTES + i * sizeof(uint64_t);
				got = words[i];
				want = right;
			}
			bad += bytes_that_differ(words[i], right);
		}
	}
	b->verified_bytes += b->opt.bytes;
	b->mismatched_bytes += bad;
	if (bad)
		fail(b, "%lu bytes differ, the first in the word at offset %#lx: %#018lx instead of %#018lx",
		     bad, first_bad, got, want);
}
