/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DAMON, which migrates memory of its own accord.
 */
#ifndef MIGRATE_OFFLOAD_BACKGROUND_H
#define MIGRATE_OFFLOAD_BACKGROUND_H

#include <stdint.h>

/* All folios of these frames are cold, and cold ones go to this node. NULL, or the unmet need. */
const char *damon_begin(uint64_t first, uint64_t last, int node);
/* Bytes that it has moved */
long damon_moved(void);
void damon_end(void);

#endif /* MIGRATE_OFFLOAD_BACKGROUND_H */
