// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of one folio's copy, from submit() to its last part, and the
 * simplest migrator: the calling CPU.
 */
#include <linux/export.h>
#include <linux/mm.h>

#include "internal.h"

/* @nr of its copies have ended, or were not submitted */
void migrate_chunk_put(struct migrate_chunk *chunk, int nr)
{
	if (!atomic_sub_and_test(nr, &chunk->pending))
		return;
	atomic_long_inc(&chunk->stats->nr_ended);
	complete(&chunk->done);
}

/**
 * migrate_copy_split() - say that a copy is made in several parts
 * @copy: a copy that is being submitted, before its first part starts
 * @nr_parts: how many times migrate_copy_done() will be called; at least 1
 *
 * Without it a copy has one part.
 */
void migrate_copy_split(struct migrate_copy *copy, unsigned int nr_parts)
{
	WARN_ON_ONCE(!nr_parts);
	atomic_set(&copy->parts, nr_parts);
}
EXPORT_SYMBOL_GPL(migrate_copy_split);

/**
 * migrate_copy_told() - wake whoever waits for a copy with @migrate_copy.tell
 * @copy: a copy whose last part has ended, or will not begin
 *
 * What was begun before it has ended too, or will soon: the waiter looks. Called
 * once, before the migrate_copy_done() of that part.
 */
void migrate_copy_told(struct migrate_copy *copy)
{
	complete(&copy->chunk->told);
}
EXPORT_SYMBOL_GPL(migrate_copy_told);

/**
 * migrate_copy_done() - report the fate of one part of a copy
 * @copy: a copy that submit() has taken
 * @error: 0 if every byte of the part is in place, or
 *	-EHWPOISON: the source is poisoned, and the folio cannot be moved;
 *	-EBUSY: there was no room for the part after all. No fault of the engine;
 *	another -errno: the part is not copied, and the engine no longer
 *	touches the folios.
 *
 * Called exactly once per part, from any context. The migrator must not touch
 * @copy after the call for the last part. As long as the engine may read or write
 * it is not called: see migrate_copy_disown().
 */
void migrate_copy_done(struct migrate_copy *copy, int error)
{
	/* The copy's owner may be done with it once its last part is */
	struct migrate_chunk *chunk = copy->chunk;

	if (error)
		cmpxchg(&copy->error, 0, error);

	/* Orders the store to copy->error before the read by the chunk's owner */
	if (atomic_dec_and_test(&copy->parts))
		migrate_chunk_put(chunk, 1);
}
EXPORT_SYMBOL_GPL(migrate_copy_done);

static void cpu_limits(struct migrator *m, struct migrate_offload_limits *l)
{
	l->inflight_bytes = 0;
	l->min_bytes = 0;
	l->stripe_bytes = 0;
}

static int cpu_submit(struct migrator *m, struct migrate_copy *copy)
{
	migrate_copy_done(copy, folio_mc_copy(copy->dst, copy->src));
	return 0;
}

static bool cpu_flush(struct migrator *m, void *call)
{
	return false;
}

struct migrator migrator_cpu = {
	.name = "cpu",
	.limits = cpu_limits,
	.submit = cpu_submit,
	.flush = cpu_flush,
	.copies_by_cpu = true,
};
