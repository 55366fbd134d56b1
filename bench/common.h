/* SPDX-License-Identifier: GPL-2.0 */
/* What all programs of the bench need: to stop with one clear line, a clock, numbers. */
#ifndef COMMON_H
#define COMMON_H

#include <stddef.h>
#include <stdint.h>

enum exit_code {
	EXIT_PASSED = 0,
	EXIT_CHECK_FAILED = 1,
	EXIT_BAD_USAGE = 2,
	EXIT_CANNOT_RUN = 4,
};

/* %m says what errno was */
void die(enum exit_code code, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 2, 3)));
void *zalloc(size_t count, size_t size);
uint64_t clock_ns(int clock);
/* The first @size - 1 bytes of a file, without the newline at its end. Return: 0, or -1 with errno. */
int read_text(const char *path, char *text, size_t size);
/* A counter of the kernel's; 0 if it has none of that name */
unsigned long vmstat(const char *name);

/* A number that looks random, from one that counts */
static inline uint64_t hash_of(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* The next of a row of random numbers; @x is not 0 */
static inline uint64_t random_next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

#endif
