// SPDX-License-Identifier: GPL-2.0
/* What is asked for: a Zipf distribution, as YCSB has it, made before anything is measured. */
#include "tierbench.h"

#include <math.h>
#include <stdlib.h>

#define THETA 0.99

/* Which item is the most popular, which the next: neighbours are no more alike than others. */
static uint32_t *shuffled(size_t items, uint64_t seed)
{
	uint32_t *item = zalloc(items, sizeof(*item));
	size_t i;

	for (i = 0; i < items; i++)
		item[i] = (uint32_t)i;
	for (i = items - 1; i; i--) {
		size_t other = hash(seed << 32 ^ i) % (i + 1);
		uint32_t kept = item[i];

		item[i] = item[other];
		item[other] = kept;
	}
	return item;
}

static size_t rank_of(const double *sum, size_t items, double point)
{
	size_t low = 0, high = items - 1;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (sum[middle] < point)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t *skew_sequence(size_t items, size_t count, uint64_t seed)
{
	uint32_t *item = shuffled(items, seed), *sequence = zalloc(count, sizeof(*sequence));
	double *sum = zalloc(items, sizeof(*sum)), whole = 0;
	size_t i;

	for (i = 0; i < items; i++)
		sum[i] = whole += 1 / pow((double)(i + 1), THETA);
	for (i = 0; i < count; i++) {
		double point = (double)(hash(seed << 40 ^ i) >> 11) / 0x1p53 * whole;

		sequence[i] = item[rank_of(sum, items, point)];
	}
	free(item);
	free(sum);
	return sequence;
}
