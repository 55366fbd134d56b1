/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Those who migrate memory of their own accord: NUMA balancing and DAMON.
 */
#ifndef MIGRATE_OFFLOAD_BACKGROUND_H
#define MIGRATE_OFFLOAD_BACKGROUND_H

#include <stdint.h>

/* Each begins what the other ends. NULL, or the unmet need. */
const char *balancing_begin(void);
void balancing_end(void);

/* All folios of these frames are cold, and cold ones go to this node */
const char *damon_begin(uint64_t first, uint64_t last, int node);
/* Bytes that it has moved */
long damon_moved(void);
void damon_end(void);

#endif /* MIGRATE_OFFLOAD_BACKGROUND_H */
