// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many pages a caller of migrate_pages() should collect for one call.
 *
 * As many as the engine can have in flight: with fewer it runs empty at the end of
 * each call, and more would only be off the LRU lists for longer. The calling task
 * itself copies no faster for being given more.
 */
#include "batch.h"
#include "internal.h"

unsigned long __migrate_offload_batch(enum migrate_reason reason)
{
	struct migrate_offload_state *state;
	unsigned long nr = 0;
	int idx;

	idx = srcu_read_lock(&migrate_offload_srcu);
	state = srcu_dereference(migrate_offload_state, &migrate_offload_srcu);
	if (state && state->m != &migrator_cpu &&
	    state->reasons & BIT(reason) && migrate_offload_in_service(state))
		nr = state->window_pages;
	srcu_read_unlock(&migrate_offload_srcu, idx);
	return nr;
}
