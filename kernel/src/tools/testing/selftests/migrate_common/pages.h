/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel says of pages, how they are sent to a node, and what keeps them.
 *
 * What cannot fail in a sane test machine ends the test with a message.
 */
#ifndef MIGRATE_COMMON_PAGES_H
#define MIGRATE_COMMON_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/userfaultfd.h>

#include "../kselftest.h"
#include "../mm/vm_util.h"

/* Bits of /proc/kpageflags */
#define PAGE_LOCKED	(1ULL << 0)
#define PAGE_HEAD	(1ULL << 15)
#define PAGE_TAIL	(1ULL << 16)
#define PAGE_POISON	(1ULL << 19)

/* Its entry in /proc/self/pagemap */
uint64_t pagemap(const void *addr);
/* Its page frame; 0 if it is not present */
uint64_t page_frame(const void *addr);
/* How often it is mapped */
uint64_t kpagecount(const void *addr);
/* Its flags in /proc/kpageflags; 0 if it is not present */
uint64_t kpageflags(const void *addr);

/* Of each page of a range, at once; free() them */
uint64_t *page_frames(const char *addr, size_t size);
uint64_t *page_flags(const char *addr, size_t size);
/* The nodes, or -errno each */
int *page_nodes(const char *addr, size_t size);
int page_node(const void *addr);
/* Pages that are not on this node; with -errno, those that do not give this error */
size_t pages_not_on(int node, const char *addr, size_t size);
/* Pages that are not where they are in a whole folio of this size */
size_t pages_not_in_folios(const char *addr, size_t size, size_t folio_size);

/* The first page of each folio: to name another one too would split the call */
size_t pages_first(char *addr, size_t size, void **pages);
/* move_pages(2) of these to one node: what it returns, or -errno */
long pages_send(void **pages, size_t nr, int node, int flags);

/* kB of a field in all VMAs of [addr, addr + size), from smaps */
long smaps_kb(const char *addr, size_t size, const char *field);

/* May the kernel write there, or read the page, for us? There is no signal if not */
bool page_writable(char *addr);
bool page_readable(const char *addr);

/* A page that is in a pipe has a reference that nothing can explain */
bool page_to_pipe(char *addr, int pipe_fd[2]);
/*
 * Let it go bad, without a signal to this task: 0 if Linux took it away, or errno.
 * EHWPOISON: it is marked, and may still be read.
 */
int page_poison(char *addr);

/* @mode: UFFDIO_REGISTER_MODE_WP or _MISSING. -1: there is no such userfaultfd */
int uffd_open(char *addr, size_t size, int mode);
int uffd_wp(int fd, char *addr, size_t size, bool protect);

#endif /* MIGRATE_COMMON_PAGES_H */
