// SPDX-License-Identifier: GPL-2.0
/* The calls that move memory, one table row each. Pages that the kernel
 * left behind are no error here: place.c counts where every page ended up.
 */
#include "migbench.h"

#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <string.h>

static int by_move_pages(struct bench *b, size_t first, size_t count)
{
	struct region *mem = &b->mem;
	long left = move_pages(0, count, mem->addr + first, mem->node_to + first,
			       mem->status + first, MPOL_MF_MOVE);

	return left < 0 ? -errno : 0;
}

static int by_migrate_pages(struct bench *b, size_t first, size_t count)
{
	const struct bitmask *from = b->mem.mask_from, *to = b->mem.mask_to;
	long left = migrate_pages(0, to->size + 1, from->maskp, to->maskp);

	(void)first;
	(void)count;
	return left < 0 ? -errno : 0;
}

static int by_mbind(struct bench *b, size_t first, size_t count)
{
	const struct bitmask *to = b->mem.mask_to;
	long err = mbind(b->mem.addr[first], count * b->opt.folio_bytes, MPOL_BIND,
			 to->maskp, to->size + 1, MPOL_MF_MOVE);

	return err ? -errno : 0;
}

static int by_nothing(struct bench *b, size_t first, size_t count)
{
	(void)b;
	(void)first;
	(void)count;
	return 0;
}

static const struct call calls[] = {
	{ .name = "move_pages", .move = by_move_pages },
	{ .name = "migrate_pages", .move = by_migrate_pages },
	{ .name = "mbind", .move = by_mbind },
	{ .name = "damon", .move = damon_move, .prepare = damon_prepare,
	  .finish = damon_finish },
};

static const struct call null_call = { .name = "null", .move = by_nothing };

const struct call *call_find(const struct options *opt)
{
	const struct call *call = calls;

	if (opt->null)
		return &null_call;
	while (strcmp(call->name, opt->call))
		call++;
	return call;
}
