# SPDX-License-Identifier: GPL-2.0-only
# What the tests of page migration have in common: to be included before ../lib.mk

# Static, so that they also run from an initramfs without any library
CFLAGS += -Wall -O2 -g $(KHDR_INCLUDES)
LDFLAGS += -static
LDLIBS += -lpthread

LOCAL_HDRS += $(wildcard ../migrate_common/*.h *.h)

# Of each program; those who need more of the folder name it
COMMON := $(addprefix ../migrate_common/,memory.c pages.c system.c)
COMMON += $(addprefix ../mm/,hugepage_settings.c vm_util.c)
