/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where whoever collects folios for migrate_pages() asks how many an engine wants.
 */
#ifndef _MM_MIGRATE_OFFLOAD_BATCH_H
#define _MM_MIGRATE_OFFLOAD_BATCH_H

#include "hooks.h"

#ifdef CONFIG_MIGRATE_OFFLOAD
unsigned long __migrate_offload_batch(enum migrate_reason reason);
#endif

/**
 * migrate_offload_batch() - how much to collect for one call of migrate_pages()
 * @reason: that the call will give
 *
 * Context: A task's. Does not sleep.
 *
 * Return: so many base pages keep the active engine busy; 0 if there is none but the
 * CPU, or if it takes no calls of @reason now: then as many as without an engine.
 */
static inline unsigned long migrate_offload_batch(enum migrate_reason reason)
{
#ifdef CONFIG_MIGRATE_OFFLOAD
	if (static_branch_unlikely(&migrate_offload_key))
		return __migrate_offload_batch(reason);
#endif
	return 0;
}

#endif /* _MM_MIGRATE_OFFLOAD_BATCH_H */
