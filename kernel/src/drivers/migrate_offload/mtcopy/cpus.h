/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _MTCOPY_CPUS_H
#define _MTCOPY_CPUS_H

int mtcopy_cpus_init(void);
void mtcopy_cpus_exit(void);
unsigned int mtcopy_choose_cpus(int *chosen, unsigned int max, int dst_nid,
				int src_nid);

#endif /* _MTCOPY_CPUS_H */
