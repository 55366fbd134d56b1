/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's files, commands, and clocks.
 *
 * write_file() and read_num() of selftests/mm end the test if they fail; here errors are
 * returned, as tests look at them.
 */
#ifndef MIGRATE_COMMON_SYSTEM_H
#define MIGRATE_COMMON_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "../kselftest.h"

/* 0 or -errno; at most one line is read, without its newline */
int file_write(const char *path, const char *value);
int file_write_long(const char *path, long value);
int file_read(const char *path, char *buf, size_t size);
/* The number that a file begins with; it must be there */
long file_read_long(const char *path);
/* The sum of all numbers that follow a word in a file; -1: there is none */
long file_sum_after(const char *path, const char *word);
/* The same of a counter of vmstat, with what each CPU has counted */
long vmstat(const char *name);

/* Pages that are free, in the CPUs' own lists or elsewhere */
long free_pages(void);

/* Run a command line with its output thrown away: its exit code */
__printf(1, 2)
int run(const char *format, ...);

double seconds(clockid_t clock);

/* Is this file of debugfs there? It is mounted if need be */
bool debugfs_has(const char *path);

/* NUMA balancing looks at all memory, often. NULL, or the unmet need. */
#define BALANCING	"/proc/sys/kernel/numa_balancing"
const char *balancing_begin(void);
void balancing_end(void);
/* Linux looks at a task's memory as the task runs: burn so many seconds of CPU */
void cpu_run_for(double s);
/*
 * From now on slow memory that is touched is promoted: hide so many pages of it, which
 * this task has; false if Linux does not. balancing_begin() was called.
 */
bool balancing_hide(long nr);

/* Write a page frame to a file of debugfs's hwpoison: 0 or -errno */
int hwpoison(const char *file, unsigned long frame);

#endif /* MIGRATE_COMMON_SYSTEM_H */
