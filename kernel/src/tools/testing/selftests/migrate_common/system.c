// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../mm/hugepage_settings.h"
#include "system.h"
/* After kselftest.h, which it needs in Linux 6.12 */
#include "../mm/vm_util.h"

int file_write(const char *path, const char *value)
{
	ssize_t len = strlen(value);
	int fd = open(path, O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, len) != len)
		error = -errno;
	close(fd);
	return error;
}

int file_write_long(const char *path, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	return file_write(path, text);
}

int file_read(const char *path, char *buf, size_t size)
{
	errno = 0;
	*buf = '\0';
	if (read_file(path, buf, size) <= 0)
		return -errno;
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

long file_read_long(const char *path)
{
	char buf[64], *end;
	long value;

	if (file_read(path, buf, sizeof(buf)))
		err(1, "cannot read %s", path);
	value = strtol(buf, &end, 10);
	if (end == buf)
		errx(1, "%s holds '%s', not a number", path, buf);
	return value;
}

long file_sum_after(const char *path, const char *word)
{
	FILE *f = fopen(path, "re");
	long sum = -1, value;
	char line[256], *at;

	while (f && fgets(line, sizeof(line), f)) {
		at = strstr(line, word);
		if (!at || (at > line && !isspace(at[-1])))
			continue;
		at += strlen(word);
		/* It ends there, and what follows it may be in a column */
		if (strspn(at, " \t:") && sscanf(at + strspn(at, " \t:"), "%ld", &value) == 1)
			sum = (sum < 0 ? 0 : sum) + value;
	}
	if (f)
		fclose(f);
	return sum;
}

long vmstat(const char *name)
{
	file_write("/proc/sys/vm/stat_refresh", "1");
	return file_sum_after("/proc/vmstat", name);
}

long free_pages(void)
{
	return vmstat("nr_free_pages") + file_sum_after("/proc/zoneinfo", "count:");
}

int run(const char *format, ...)
{
	char line[640];
	va_list args;
	int len;

	va_start(args, format);
	len = snprintf(line, sizeof(line), "exec >/dev/null 2>&1 </dev/null; ");
	vsnprintf(line + len, sizeof(line) - len, format, args);
	va_end(args);
	return system(line);
}

double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

bool debugfs_has(const char *path)
{
	if (access(path, F_OK))
		run("mount -t debugfs none /sys/kernel/debug");
	return !access(path, F_OK);
}

#define SCAN		"/sys/kernel/debug/sched/numa_balancing/"

const char *balancing_begin(void)
{
	if (file_write(SCAN "scan_delay_ms", "1") ||
	    file_write(SCAN "scan_period_min_ms", "10") ||
	    file_write(SCAN "scan_period_max_ms", "50"))
		return "no NUMA balancing, or no debugfs";
	/* However slow the machine is, what is touched is hot */
	file_write(SCAN "hot_threshold_ms", "60000");
	return file_write(BALANCING, "1") ?
	       "NUMA balancing cannot be switched on" : NULL;
}

void balancing_end(void)
{
	file_write(BALANCING, "0");
	/* The defaults */
	file_write(SCAN "hot_threshold_ms", "1000");
	file_write(SCAN "scan_period_max_ms", "60000");
	file_write(SCAN "scan_period_min_ms", "1000");
	file_write(SCAN "scan_delay_ms", "1000");
}

void cpu_run_for(double s)
{
	double begin = seconds(CLOCK_THREAD_CPUTIME_ID);

	while (seconds(CLOCK_THREAD_CPUTIME_ID) - begin < s)
		;
}

/* How often Linux has looked at all memory of this process to hide it */
static long balancing_passes(void)
{
	return file_sum_after("/proc/thread-self/sched", "mm->numa_scan_seq");
}

bool balancing_hide(long nr)
{
	/* The first pass is half done, and the second may find the VMA too new */
	long passes = balancing_passes() + 3;
	long before = vmstat("numa_pte_updates");
	double begin = seconds(CLOCK_MONOTONIC);

	/* NUMA_BALANCING_MEMORY_TIERING */
	file_write(BALANCING, "2");
	/* The counter is of all processes: another may have slow memory, too */
	while (vmstat("numa_pte_updates") - before < nr ||
	       balancing_passes() < passes) {
		cpu_run_for(0.01);
		if (seconds(CLOCK_MONOTONIC) - begin > 20)
			return false;
	}
	return true;
}

int hwpoison(const char *file, unsigned long frame)
{
	char path[64];

	run("modprobe hwpoison_inject");
	snprintf(path, sizeof(path), "/sys/kernel/debug/hwpoison/%s", file);
	return debugfs_has(path) ? file_write_long(path, frame) : -ENOENT;
}
