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
	{ .name = "move_pages", .move = by_move_pages,
	  .ordered = true, .parted = true, .repeated = true },
	{ .name = "migrate_pages", .move = by_migrate_pages },
	{ .name = "mbind", .move = by_mbind, .parted = true, .repeated = true },
	{ .name = "damon", .move = damon_move, .prepare = damon_prepare,
	  .finish = damon_finish },
	{ .name = "promote", .move = promote_move, .prepare = promote_prepare,
	  .finish = promote_finish, .ordered = true, .parted = true, .anon = true },
	{ .name = "demote", .move = demote_move, .set_up = demote_set_up,
	  .prepare = demote_prepare, .ordered = true, .aged = true,
	  .anon = true, .splits = true },
	{ .name = "compact", .move = compact_move, .set_up = compact_set_up,
	  .filled = compact_filled, .prepare = compact_prepare, .moved = compact_moved,
	  .anon = true, .splits = true },
};

static const struct call null_call = { .name = "null", .move = by_nothing,
				       .ordered = true, .parted = true, .repeated = true };

const struct call *call_find(const struct options *opt)
{
	const struct call *call = calls;

	if (opt->null)
		return &null_call;
	while (strcmp(call->name, opt->call))
		call++;
	return call;
}
