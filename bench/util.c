// SPDX-License-Identifier: GPL-2.0
/* What every part needs: to say that a check did not hold, to read and write small
 * files, samples, and signals that arrive only between two runs.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static sigset_t held;

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

/* Return: 0, or -1 with errno. */
int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ssize_t length = (ssize_t)strlen(text);
	bool whole;

	if (fd < 0)
		return -1;
	whole = !length || write(fd, text, (size_t)length) == length;
	close(fd);
	return whole ? 0 : -1;
}

/* This thread on one CPU alone */
void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die(EXIT_CANNOT_RUN, "cannot run on CPU %d: %m", cpu);
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
