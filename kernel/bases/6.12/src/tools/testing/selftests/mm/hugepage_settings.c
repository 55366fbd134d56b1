// SPDX-License-Identifier: GPL-2.0
/* Linux 7.3 has it by this name. */
#include "thp_settings.c"
