// SPDX-License-Identifier: GPL-2.0
/*
 * Loads and stores of 2, 4 and 8 bytes that lie in two pages, right after an access to the second page.
 * The pages meet at an address that 2^26 to 2^46 divide. Writes a record of how many checks there were; how
 * many were wrong, if any, is told on stderr.
 */
#define _GNU_SOURCE
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE		4096UL
#define FIRST_BITS	26
#define LAST_BITS	46

static long checks, wrong;

static void check(const volatile char *at, const unsigned char *wanted, size_t size)
{
	size_t i;

	checks++;
	for (i = 0; i < size; i++) {
		if ((unsigned char)at[i] != wanted[i]) {
			wrong++;
			return;
		}
	}
}

/* One access of TYPE after one to the second page, so that this page's TLB entry is the last to be used */
#define ACROSS(type, boundary, before) do {						\
	volatile char *at = (boundary) - (before);					\
	type value, wanted;								\
	unsigned char bytes[sizeof(type)];						\
											\
	memset(bytes, 0x11, before);							\
	memset(bytes + (before), 0x22, sizeof(type) - (before));			\
	memcpy(&wanted, bytes, sizeof(type));						\
	memset((char *)at, 0x11, before);						\
	memset((char *)(boundary), 0x22, 64);						\
	asm volatile("movb $0x22, 32(%1)\n\tmov (%2), %0"				\
		     : "=r" (value) : "r" (boundary), "r" (at) : "memory");		\
	checks++;									\
	wrong += value != wanted;							\
	memset(bytes, 0x33, sizeof(type));						\
	memcpy(&value, bytes, sizeof(type));						\
	asm volatile("movb $0x22, 32(%1)\n\tmov %0, (%2)"				\
		     : : "r" (value), "r" (boundary), "r" (at) : "memory");		\
	check(at, bytes, sizeof(type));							\
} while (0)

int main(void)
{
	int bits;
	size_t i;

	for (bits = FIRST_BITS; bits <= LAST_BITS; bits++) {
		char *boundary = (char *)(1UL << bits);
		char *pages = mmap(boundary - PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (pages != boundary - PAGE)
			err(1, "no two pages at 2^%d", bits);
		/* If their frames were side by side, too, a wrong one would be the right one */
		pages[bits % 2 ? 0 : PAGE] = 0;
		for (i = 1; i < sizeof(uint16_t); i++)
			ACROSS(uint16_t, boundary, i);
		for (i = 1; i < sizeof(uint32_t); i++)
			ACROSS(uint32_t, boundary, i);
		for (i = 1; i < sizeof(uint64_t); i++)
			ACROSS(uint64_t, boundary, i);
	}
	if (wrong)
		errx(1, "%ld of %ld accesses to two pages are wrong", wrong, checks);
	printf("{\"record\": \"boundary\", \"checks\": %ld}\n", checks);
	return 0;
}
