// SPDX-License-Identifier: GPL-2.0
/*
 * movdir64b: what the instruction stores, and which exceptions it raises, on this CPU. Writes a record of
 * how many checks there were; the first that fails is told on stderr.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <err.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE	4096
#define BLOCK	64

static sigjmp_buf after;
static volatile sig_atomic_t raised;
static int checks;

static void on_signal(int number)
{
	raised = number;
	siglongjmp(after, 1);
}

static void check(int good, const char *what)
{
	checks++;
	if (!good)
		errx(1, "%s", what);
}

/* The signal that the instruction gets, 0: none */
static int store(void *to, const void *from)
{
	raised = 0;
	if (!sigsetjmp(after, 1))
		asm volatile("movdir64b (%0), %1" : : "r"(from), "r"(to) : "memory");
	return raised;
}

/* With an address of 32 bits, from 8 bytes behind @from */
static int store_low(uint32_t to, uint32_t from)
{
	raised = 0;
	if (!sigsetjmp(after, 1))
		asm volatile("movdir64b 8(%k0), %k1" : : "r"((uint64_t)from | 1ULL << 40),
			     "r"((uint64_t)to | 1ULL << 40) : "memory");
	return raised;
}

/* The same opcode with a register in place of memory */
static int store_of_register(void)
{
	raised = 0;
	if (!sigsetjmp(after, 1))
		asm volatile(".byte 0x66, 0x0f, 0x38, 0xf8, 0xc0");
	return raised;
}

static int without_prefix(void *to)
{
	raised = 0;
	if (!sigsetjmp(after, 1))
		asm volatile(".byte 0x0f, 0x38, 0xf8, 0x00" : : "a"(to) : "memory");
	return raised;
}

static int is(const uint8_t *at, int value, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (at[i] != value)
			return 0;
	return 1;
}

static void check_stores(uint8_t *page, uint8_t *from)
{
	uint8_t *to = page + 1024;

	/* From no aligned address, and over the end of a page */
	for (size_t at = PAGE - 65; at < PAGE + 3; at++) {
		memset(page, 0xee, PAGE);
		check(!store(to, from + at), "an exception");
		check(!memcmp(to, from + at, BLOCK), "not what was read");
		check(is(page, 0xee, 1024) && is(to + BLOCK, 0xee, PAGE - 1024 - BLOCK), "more than 64 bytes");
	}
	memset(page, 0xee, PAGE);
	check(!store_low((uintptr_t)to, (uintptr_t)from), "an exception at an address of 32 bits");
	check(!memcmp(to, from + 8, BLOCK), "not what was read at an address of 32 bits");
	/* What is read first is all of it */
	memcpy(page, from, 2 * BLOCK);
	check(!store(page, page + 32), "an exception where both overlap");
	check(!memcmp(page, from + 32, BLOCK), "not what was there where both overlap");
}

static void check_exceptions(uint8_t *page, uint8_t *from)
{
	uint8_t *beyond = page + PAGE;

	memset(page, 0xee, PAGE);
	for (int offset = 1; offset < BLOCK; offset++)
		check(store(page + offset, from) == SIGSEGV, "no exception where it is not aligned");
	check(store(page, beyond - 32) == SIGSEGV, "no exception where half of it cannot be read");
	check(store(beyond, from) == SIGSEGV, "no exception where nothing can be written");
	check(!mprotect(page, PAGE, PROT_READ), "mprotect");
	check(store(page, from) == SIGSEGV, "no exception where it may only be read");
	check(is(page, 0xee, PAGE), "something was stored nevertheless");
	check(store_of_register() == SIGILL, "a register is no memory");
	check(without_prefix(page) == SIGILL, "without its prefix it is another instruction");
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	unsigned int a, b, c, d;
	uint8_t *from, *page;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(c & 1u << 28))
		errx(1, "the CPU says that it has no MOVDIR64B");
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	from = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (from == MAP_FAILED || page == MAP_FAILED || munmap(page + PAGE, PAGE))
		err(1, "mmap");
	for (size_t i = 0; i < 2 * PAGE; i++)
		from[i] = i * 7 + (i >> 8);
	check_stores(page, from);
	check_exceptions(page, from);
	printf("{\"record\": \"movdir64b\", \"checks\": %d}\n", checks);
	return 0;
}
