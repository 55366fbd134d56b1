/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A new file system that this process alone can see, and that goes with it.
 */
#ifndef MIGRATE_COMMON_SCRATCH_H
#define MIGRATE_COMMON_SCRATCH_H

/* Its directory; @options: of mkfs. NULL: *why is the unmet need. */
const char *scratch_mount(const char *type, const char *options, const char **why);

#endif /* MIGRATE_COMMON_SCRATCH_H */
