/* SPDX-License-Identifier: GPL-2.0 */
/* Linux 7.3 has these settings by this name, and the files' functions in vm_util.h. */
#include "thp_settings.h"
