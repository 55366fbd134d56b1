// SPDX-License-Identifier: GPL-2.0
/* What every part needs: to stop with one clear line, to read and write small
 * files, a clock, samples, and signals that arrive only between two runs.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static sigset_t held;

void die(enum exit_code code, const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	fputs("migbench: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(code);
}

/* A check did not hold: say so, measure no more, but still write the report. */
void fail(struct bench *b, const char *fmt, ...)
{
	va_list args;

	fputs("migbench: FAILED: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	b->failed = true;
}

void *zalloc(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p)
		die(EXIT_CANNOT_RUN, "no memory for %zu x %zu bytes", count, size);
	return p;
}

/* The first @size - 1 bytes of a file, without the newline at its end. */
int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read(fd, text, size - 1);
	if (got < 0)
		got = -errno;
	close(fd);
	if (got < 0)
		return (int)got;
	while (got && text[got - 1] == '\n')
		got--;
	text[got] = '\0';
	return 0;
}

int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	size_t length = strlen(text);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (length && write(fd, text, length) != (ssize_t)length)
		err = -errno;
	close(fd);
	return err;
}

uint64_t clock_ns(int clock)
{
	struct timespec now;

	if (clock_gettime(clock, &now))
		die(EXIT_CANNOT_RUN, "clock_gettime: %s", strerror(errno));
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void samples_add(struct samples *s, double value)
{
	if (s->count == s->room) {
		s->room = s->room ? 2 * s->room : 64;
		s->value = realloc(s->value, s->room * sizeof(*s->value));
		if (!s->value)
			die(EXIT_CANNOT_RUN, "no memory for %zu samples", s->room);
	}
	s->value[s->count++] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Nearest rank; with 50, an even count gives the mean of the middle two. */
double samples_percentile(struct samples *s, double percent)
{
	size_t n = s->count;
	size_t rank;

	if (!n)
		return NAN;
	qsort(s->value, n, sizeof(*s->value), compare);
	if (percent == 50 && n % 2 == 0)
		return (s->value[n / 2 - 1] + s->value[n / 2]) / 2;
	rank = (size_t)ceil(percent / 100 * (double)n);
	return s->value[rank ? rank - 1 : 0];
}

/*
 * Ctrl-C must not leave changed settings or a trace instance behind, and what
 * undoes them runs at exit(): so signals wait until a run is over.
 */
void signals_hold(void)
{
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	sigprocmask(SIG_BLOCK, &held, NULL);
}

void signals_obey(void)
{
	const struct timespec now = { 0 };
	int signal = sigtimedwait(&held, NULL, &now);

	if (signal > 0) {
		fprintf(stderr, "migbench: stopped by signal %d\n", signal);
		exit(128 + signal);
	}
}
