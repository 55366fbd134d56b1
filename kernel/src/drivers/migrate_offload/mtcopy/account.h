/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _MTCOPY_ACCOUNT_H
#define _MTCOPY_ACCOUNT_H

#include <linux/types.h>

struct folio;

int mtcopy_account_init(void);
void mtcopy_account_exit(void);
u64 mtcopy_group_of(struct folio *folio);
void mtcopy_account(u64 group, u64 ns);

#endif /* _MTCOPY_ACCOUNT_H */
