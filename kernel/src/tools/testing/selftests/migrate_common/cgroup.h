/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A control group (version 2) for this process and its children.
 */
#ifndef MIGRATE_COMMON_CGROUP_H
#define MIGRATE_COMMON_CGROUP_H

#define CGROUP_PATH	"/sys/fs/cgroup/migrate_test"

/* Make the group and enter it. NULL, or the unmet need. */
const char *cgroup_enter(const char *controller);
/* Be in the root group, until cgroup_write("cgroup.procs", "0") */
int cgroup_pause(void);
/* Leave the group and remove it, if it is empty and there is one */
void cgroup_leave(void);

int cgroup_write(const char *file, const char *value);
long cgroup_read(const char *file);
/* Bytes on a node, of memory.numa_stat */
long cgroup_node_bytes(const char *kind, int node);

#endif /* MIGRATE_COMMON_CGROUP_H */
