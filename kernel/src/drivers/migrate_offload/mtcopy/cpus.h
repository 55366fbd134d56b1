/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _MTCOPY_CPUS_H
#define _MTCOPY_CPUS_H

#include <linux/types.h>

struct cgroup;
struct folio;

/* cpus.c */
int mtcopy_cpus_init(void);
void mtcopy_cpus_exit(void);
unsigned int mtcopy_choose_cpus(int *chosen, unsigned int max, int dst_nid,
				int src_nid);

/* charge.c */
struct cgroup *mtcopy_group_get(struct folio *folio);
void mtcopy_charge(struct cgroup *group, u64 ns);

#endif /* _MTCOPY_CPUS_H */
