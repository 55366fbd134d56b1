// SPDX-License-Identifier: GPL-2.0
/* See common.h. */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void die(enum exit_code code, const char *fmt, ...)
{
	int err = errno;
	va_list args;

	fflush(stdout);
	fputs(PROGRAM ": ", stderr);
	va_start(args, fmt);
	errno = err;
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(code);
}

void *zalloc(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p)
		die(EXIT_CANNOT_RUN, "no memory for %zu x %zu bytes", count, size);
	return p;
}

uint64_t clock_ns(int clock)
{
	struct timespec now;

	if (clock_gettime(clock, &now))
		die(EXIT_CANNOT_RUN, "clock_gettime: %m");
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -1;
	got = read(fd, text, size - 1);
	close(fd);
	if (got < 0)
		return -1;
	while (got && text[got - 1] == '\n')
		got--;
	text[got] = '\0';
	return 0;
}

/*
 * By one read into memory that stays. Through stdio, which asks six times and allocates,
 * NUMA balancing takes twice as long to hide what --call promote waits for (2026-11-28).
 */
unsigned long vmstat(const char *name)
{
	size_t length = strlen(name);
	static char text[16384];
	const char *line = text;

	if (read_text("/proc/vmstat", text, sizeof(text)))
		die(EXIT_CANNOT_RUN, "/proc/vmstat: %m");
	for (; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, length) && line[length] == ' ')
			return strtoul(line + length, NULL, 10);
	}
	return 0;
}
