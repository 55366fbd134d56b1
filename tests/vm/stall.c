// SPDX-License-Identifier: GPL-2.0
/*
 * A guest of nothing but this, loaded by multiboot: it drives one function of
 * the PTDMA device, and writes what its clock says of it to port 0xe9.
 */

typedef unsigned int u32;

#define BAR		0xe0000000u
#define MSIX_BAR	0xe8000000u
#define RING		0x300000u
#define MESSAGE		0x310000u
#define SLOT		16
#define QUEUE(at)	(BAR + 0x1000 + (at))
#define CONTROL		QUEUE(0x0)
#define TAIL		QUEUE(0x4)
#define HEAD		QUEUE(0x8)
#define INT_ENABLE	QUEUE(0xc)
#define INT_STATUS	QUEUE(0x10)
#define RUN		(4 << 3 | 1)
#define ACCESSES	100
#define COPIES		4
#define BYTES		500

__asm__(".text\n"
	".align 4\n"
	".long 0x1badb002, 0, -0x1badb002\n"
	".globl _start\n"
	"_start: mov $0x280000, %esp\n"
	"call run\n");

static void outl(unsigned short port, u32 value)
{
	__asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port));
}

static void config(u32 at, u32 value)
{
	outl(0xcf8, 0x80000000u | SLOT << 11 | at);
	outl(0xcfc, value);
}

static u32 now(void)
{
	u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return low;
}

static u32 get(u32 at)
{
	return *(volatile u32 *)at;
}

static void set(u32 at, u32 value)
{
	*(volatile u32 *)at = value;
}

static void put(char c)
{
	__asm__ volatile("outb %0, $0xe9" : : "a"(c));
}

static void text(const char *at)
{
	while (*at)
		put(*at++);
}

static void number(u32 value)
{
	if (value > 9)
		number(value / 10);
	put('0' + value % 10);
}

/* A record, as all guests write them for the lab */
static void say(const char *name, u32 value)
{
	text("{\"record\": \"count\", \"of\": \"");
	text(name);
	text("\", \"is\": ");
	number(value);
	text("}\n");
}

static void set_up(void)
{
	config(0x18, BAR);
	config(0x20, MSIX_BAR);
	config(4, 6);
	set(MSIX_BAR, MESSAGE);
	set(MSIX_BAR + 4, 0);
	set(MSIX_BAR + 8, 1);
	set(MSIX_BAR + 12, 0);
	config(0x40, 0x80000000u);
	set(HEAD, RING);
	set(TAIL, RING);
	set(INT_ENABLE, 1);
}

/* The engine has all descriptors at once; they end while the CPU waits for HEAD */
static void copy(void)
{
	u32 begin, polls = 0;

	for (u32 i = 0; i < COPIES; i++) {
		u32 at = RING + 32 * i;

		set(at, 0x500012);
		set(at + 4, BYTES);
		set(at + 8, 0x320000);
		set(at + 16, 0x330000);
	}
	set(TAIL, RING + 32 * COPIES);
	set(CONTROL, RUN);
	begin = now();
	do
		polls++;
	while (get(HEAD) != RING + 32 * COPIES);
	say("copies", now() - begin);
	say("polls", polls);
}

void run(void)
{
	u32 begin, middle;

	set_up();
	begin = now();
	for (int i = 0; i < ACCESSES; i++)
		get(HEAD);
	say("reads", now() - begin);
	begin = now();
	for (int i = 0; i < ACCESSES; i++)
		set(HEAD, RING);
	say("writes", now() - begin);
	copy();
	say("messages", get(MESSAGE));
	begin = now();
	get(INT_STATUS);
	middle = now();
	get(INT_STATUS);
	say("second", now() - middle);
	say("first", middle - begin);
	outl(0xf4, 0);
	for (;;)
		;
}
