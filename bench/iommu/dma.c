// SPDX-License-Identifier: GPL-2.0
/*
 * The device reads and writes through mappings while their neighbours in the same
 * tables come and go: right data while mapped, a clean fault when not, never a
 * page that was unmapped.
 */
#include <linux/delay.h>
#include <linux/io-64-nonatomic-lo-hi.h>

#include "iommu_bench.h"

/* edu's registers and its buffer; a full 4 KiB is refused by QEMU's check. */
#define EDU_SOURCE	0x80
#define EDU_TARGET	0x88
#define EDU_COUNT	0x90
#define EDU_COMMAND	0x98
#define EDU_START	BIT(0)
#define EDU_TO_MEMORY	BIT(1)
#define EDU_BUFFER	0x40000
#define BYTES		2048
#define TIMEOUT_MS	5000
/* One transfer in so many goes to an address that is not mapped. */
#define UNMAPPED_EVERY	4

static int transfer(struct bench *bench, u64 iova, bool to_memory)
{
	unsigned int ms;

	writeq(to_memory ? EDU_BUFFER : iova, bench->regs + EDU_SOURCE);
	writeq(to_memory ? iova : EDU_BUFFER, bench->regs + EDU_TARGET);
	writeq(BYTES, bench->regs + EDU_COUNT);
	writeq(EDU_START | (to_memory ? EDU_TO_MEMORY : 0),
	       bench->regs + EDU_COMMAND);
	for (ms = 0; ms < TIMEOUT_MS; ms++) {
		if (!(readq(bench->regs + EDU_COMMAND) & EDU_START))
			return 0;
		usleep_range(500, 1000);
	}
	return -ETIMEDOUT;
}

static bool is_filled(const u8 *at, u8 byte)
{
	return !memchr_inv(at, byte, BYTES);
}

/* Through the device from one page to another, then to where nothing is mapped. */
static u64 one_round(struct crew *crew, u64 round, struct result *result)
{
	struct bench *bench = crew->bench;
	/* The owner's number after the last thread's; see stress_fn(). */
	unsigned int owners = crew->nr + 1, groups = STRESS_PAGES / owners;
	unsigned int group = round * 37 % groups;
	unsigned int page = group * owners + crew->nr;
	u64 iova = STRESS_IOVA + (u64)page * SZ_4K;
	u8 *from = page_address(bench->target) + SZ_2M, *to = from + SZ_4K;
	phys_addr_t physical = bench->target_phys + SZ_2M;
	u8 byte = round % 251 + 1;
	u64 errors = 0;

	memset(from, byte, BYTES);
	memset(to, 0, BYTES);
	errors += stress_map(crew, page, physical);
	errors += transfer(bench, iova, false) != 0;
	errors += stress_unmap(crew, page);

	errors += stress_map(crew, page, physical + SZ_4K);
	errors += transfer(bench, iova, true) != 0;
	errors += !is_filled(to, byte);
	errors += stress_unmap(crew, page);
	result->transfers += 2;
	if (round % UNMAPPED_EVERY)
		return errors;

	memset(to, 0, BYTES);
	errors += transfer(bench, iova, true) != 0;
	errors += !is_filled(to, 0);
	errors += !is_filled(from, byte);
	result->unmapped++;
	return errors;
}

int dma_run(struct bench *bench, const char *name, unsigned int threads,
	    u64 rounds, struct result *result)
{
	struct crew crew = { .bench = bench, .nr = threads, .pairs = U64_MAX };
	u64 i, begin = ktime_get_ns();
	int ret = stress_start(&crew);

	if (ret)
		return ret;
	for (i = 0; i < rounds; i++) {
		u64 errors = one_round(&crew, i, result);

		if (errors)
			pr_err_ratelimited("iommu_bench: wrong data in round %llu\n", i);
		result->errors += errors;
	}
	WRITE_ONCE(crew.stop, true);
	stress_finish(&crew, result);
	result->pairs = rounds;
	result->ns = ktime_get_ns() - begin;
	return 0;
}
