// SPDX-License-Identifier: GPL-2.0
/*
 * differ SEED STEPS: calls that move memory, chosen at random, on memory in any state. Each step is a line:
 * its number, what was done, and what came of it. Two kernels that do the same say the same.
 *
 * A word that begins with "~" names a difference that is known; what may differ by it follows, and all
 * memory is made anew after it.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE		4096UL
#define MOST		700	/* addresses of a call: more than Linux has in one batch */
/* The same on all kernels, and beside nothing else */
#define PLACE		((char *)0x100000000000)
#define APART		(1UL << 30)
#define HOLE		(PLACE + REGIONS * APART)
#define UNTOUCHED	77	/* no status, and no errno of these calls */
#define NODES		2
#define OPEN		(PROT_READ | PROT_WRITE)

/* Memory of one kind. Pages that move together are a unit. */
static struct region {
	const char *name;
	char *base;
	size_t pages, unit;
	int flags;
	uint64_t *want;		/* first word of each page; 0: none that we know of */
	bool *closed;		/* PROT_NONE */
} regions[] = {
	{ .name = "small", .pages = 1024, .unit = 1, .flags = MAP_PRIVATE },
	{ .name = "shmem", .pages = 512, .unit = 1, .flags = MAP_SHARED },
	{ .name = "large", .pages = 512, .unit = 16, .flags = MAP_PRIVATE },
	{ .name = "huge", .pages = 1024, .unit = 512, .flags = MAP_PRIVATE },
};
#define REGIONS (sizeof(regions) / sizeof(regions[0]))
/* Small memory keeps its past. Of large folios Linux splits some that move twice. */
#define LASTING 2

static int pipes[2] = { -1, -1 };
static pid_t child;
static uint64_t state;

static uint32_t draw(uint32_t below)
{
	state = state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(state >> 33) % below;
}

static void set(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		err(1, "%s", path);
	close(fd);
}

/* --- memory --- */

static void touch(struct region *r, size_t page)
{
	if (r->closed[page])
		return;
	r->want[page] = state | 1;
	*(volatile uint64_t *)(r->base + page * PAGE) = r->want[page];
}

static void renew(struct region *r)
{
	size_t bytes = r->pages * PAGE, page;

	if (mmap(r->base, bytes, OPEN, r->flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		err(1, "mmap");
	if (madvise(r->base, bytes, r->unit > 1 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
		err(1, "madvise");
	memset(r->closed, 0, r->pages * sizeof(*r->closed));
	memset(r->want, 0, r->pages * sizeof(*r->want));
	for (page = 0; page < r->pages; page++)
		if (r->unit > 1 || page % 64)
			touch(r, page);
}

static void unpin(void)
{
	if (pipes[0] >= 0) {
		close(pipes[0]);
		close(pipes[1]);
	}
	pipes[0] = -1;
}

static void end_child(void)
{
	if (child) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	child = 0;
}

static void renew_all(void)
{
	size_t i;

	unpin();
	end_child();
	for (i = 0; i < REGIONS; i++)
		renew(&regions[i]);
}

static void set_up(void)
{
	size_t i;

	set("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "madvise");
	set("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
	set("/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "0");
	for (i = 0; i < REGIONS; i++) {
		struct region *r = &regions[i];

		/* Where no huge page fits in, unless it is to be one */
		r->base = PLACE + i * APART + (r->unit < 512 ? 256 * PAGE : 0);
		r->want = calloc(r->pages, sizeof(*r->want));
		r->closed = calloc(r->pages, sizeof(*r->closed));
	}
	renew_all();
}

static size_t wrong_pages(void)
{
	size_t i, page, wrong = 0;

	for (i = 0; i < REGIONS; i++) {
		struct region *r = &regions[i];

		for (page = 0; page < r->pages; page++)
			if (r->want[page] && !r->closed[page])
				wrong += *(volatile uint64_t *)(r->base + page * PAGE) != r->want[page];
	}
	return wrong;
}

static long move_pages(unsigned long count, void **addr, const int *nodes, int *status, int flags)
{
	return syscall(SYS_move_pages, 0, count, addr, nodes, status, flags);
}

/* Runs of equal numbers: "12x0 1x-14". */
static void say(const int *number, size_t count)
{
	size_t i, first = 0;

	for (i = 1; i <= count; i++) {
		if (i < count && number[i] == number[first])
			continue;
		printf(" %zux%d", i - first, number[first]);
		first = i;
	}
}

/* Where every page is. */
static void say_places(void)
{
	static void *addr[1024];
	static int status[1024];
	size_t i, page;

	for (i = 0; i < REGIONS; i++) {
		struct region *r = &regions[i];

		for (page = 0; page < r->pages; page++)
			addr[page] = r->base + page * PAGE;
		if (move_pages(r->pages, addr, NULL, status, 0))
			err(1, "move_pages");
		printf(" | %s", r->name);
		say(status, r->pages);
	}
}

/* --- calls that move --- */

static struct call {
	void *addr[MOST];
	int node[MOST], status[MOST];
	size_t count;
} call;

static bool named_before(const char *addr, size_t unit)
{
	size_t i, bytes = unit * PAGE;

	for (i = 0; i < call.count; i++)
		if ((uintptr_t)call.addr[i] / bytes == (uintptr_t)addr / bytes)
			return true;
	return false;
}

/* Addresses of any kind; without @again no unit twice. */
static void choose(bool again)
{
	size_t tries = 1 + draw(draw(4) ? 40 : MOST - 1), i;

	call.count = 0;
	for (i = 0; i < tries; i++) {
		struct region *r = &regions[draw(REGIONS)];
		char *addr = r->base + draw((uint32_t)r->pages) * PAGE + draw(PAGE);
		size_t unit = r->unit;

		if (!draw(30)) {
			addr = draw(3) ? HOLE + draw(64) * PAGE : (char *)-PAGE;
			unit = 1;
		}
		if (!again && named_before(addr, unit))
			continue;
		call.addr[call.count++] = addr;
	}
}

static void direct(int node)
{
	size_t i;

	for (i = 0; i < call.count; i++) {
		call.node[i] = node >= 0 ? node : (int)draw(NODES);
		call.status[i] = UNTOUCHED;
	}
}

static void said(long ret)
{
	/* How many were not moved, counts what was not tried, which is up to the kernel */
	printf(" ret %d", ret > 0 ? 1 : ret < 0 ? -errno : 0);
}

/*
 * Where a folio cannot be moved the call ends with how many are left, sooner or later: then it is not known
 * which of those behind it have moved, nor whether an error behind it was met.
 */
static bool moved(int flags, const char *what)
{
	long ret;

	printf("move_pages %s %zu%s", what, call.count, flags == MPOL_MF_MOVE_ALL ? " all" : "");
	ret = move_pages(call.count, call.addr, call.node, call.status, flags);
	said(ret);
	if (ret <= 0) {
		say(call.status, call.count);
		return false;
	}
	printf(" ~left");
	return true;
}

static int move_flags(void)
{
	return draw(4) ? MPOL_MF_MOVE : MPOL_MF_MOVE_ALL;
}

static bool move_some(void)
{
	choose(false);
	direct(draw(3) ? -1 : (int)draw(NODES));
	return moved(move_flags(), "some");
}

/* Of a folio that is in the list already Linux says that it is busy, Ferry where it ends up. */
static bool move_again(void)
{
	size_t i;

	choose(true);
	direct((int)draw(NODES));
	printf("move_pages again %zu", call.count);
	said(move_pages(call.count, call.addr, call.node, call.status, MPOL_MF_MOVE));
	for (i = 0; i < call.count; i++)
		if (call.status[i] == -EBUSY || call.status[i] == call.node[i])
			call.status[i] = 0;
	printf(" ~again");
	return true;
}

static bool ask(void)
{
	choose(true);
	direct(0);
	printf("move_pages ask %zu", call.count);
	said(move_pages(call.count, call.addr, NULL, call.status, 0));
	say(call.status, call.count);
	return false;
}

static bool move_badly(void)
{
	static const int bad[] = { -1, 2, 63, 1024, 1 << 30, -2147483647 };
	size_t i, many = draw(3) + 1;

	unpin();
	choose(false);
	direct(-1);
	for (i = 0; i < many; i++)
		call.node[draw((uint32_t)call.count)] = bad[draw(6)];
	return moved(move_flags(), "badly");
}

static bool move_with_bad_flags(void)
{
	static const int bad[] = { 0, MPOL_MF_STRICT, 8, MPOL_MF_MOVE | 16, -1 };

	choose(false);
	direct(-1);
	return moved(bad[draw(5)], "flags");
}

/* An array that ends in a page which cannot be read, or written. */
static void *at_the_edge(const void *array, size_t size, size_t count, int prot)
{
	static char *pages;
	size_t bytes = count * size, whole = MOST * sizeof(void *) / PAGE * PAGE + 2 * PAGE, inside;

	if (!pages)
		pages = mmap(NULL, 3 * whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mprotect(pages, whole, PROT_READ | PROT_WRITE) || mprotect(pages + whole, 2 * whole, PROT_READ | PROT_WRITE))
		err(1, "mprotect");
	inside = draw((uint32_t)count + 1) * size;
	memcpy(pages + whole - inside, array, bytes);
	if (mprotect(pages + whole, 2 * whole, prot))
		err(1, "mprotect");
	return pages + whole - inside;
}

static bool move_off_the_edge(void)
{
	void **addr = call.addr;
	int *node = call.node;
	long ret;

	unpin();
	choose(false);
	direct(-1);
	if (draw(2))
		addr = at_the_edge(call.addr, sizeof(*call.addr), call.count, PROT_NONE);
	else
		node = at_the_edge(call.node, sizeof(*call.node), call.count, PROT_NONE);
	printf("move_pages edge of %s, %zu", addr == call.addr ? "nodes" : "addresses", call.count);
	ret = move_pages(call.count, addr, node, call.status, MPOL_MF_MOVE);
	said(ret);
	if (ret <= 0)
		say(call.status, call.count);
	else
		printf(" ~left");
	return ret > 0;
}

/* Ferry writes as many answers at a time as it has looked up: more may have moved by then. */
static bool move_without_status(void)
{
	int *status;

	choose(false);
	direct(-1);
	status = at_the_edge(call.status, sizeof(*call.status), call.count, PROT_READ);
	printf("move_pages status %zu ~status ret %d", call.count,
	       move_pages(call.count, call.addr, call.node, status, MPOL_MF_MOVE) < 0 ? -1 : 0);
	return true;
}

static bool bind_some(void)
{
	static const int modes[] = { MPOL_BIND, MPOL_BIND, MPOL_PREFERRED, MPOL_INTERLEAVE,
				     MPOL_DEFAULT, MPOL_LOCAL, MPOL_PREFERRED_MANY, 99 };
	static const unsigned int flags[] = { MPOL_MF_MOVE, MPOL_MF_MOVE, MPOL_MF_MOVE_ALL, 0, MPOL_MF_STRICT,
					      MPOL_MF_MOVE | MPOL_MF_STRICT, 64 };
	struct region *r = &regions[draw(REGIONS)];
	size_t page = draw((uint32_t)r->pages), count = 1 + draw((uint32_t)(r->pages - page));
	unsigned long mask = draw(12) ? 1 + draw(3) : draw(3) * 4;
	int mode = modes[draw(8)];
	unsigned int flag = flags[draw(7)];
	char *at = draw(20) ? r->base + page * PAGE : HOLE + 63 * PAGE;
	long ret;

	if (mode == MPOL_DEFAULT || mode == MPOL_LOCAL)
		mask = 0;
	printf("mbind %s %zu+%zu mode %d mask %lx flags %u", r->name, page, count, mode, mask, flag);
	ret = syscall(SYS_mbind, at, count * PAGE, mode, &mask, 64UL, flag);
	printf(" ret %d", ret ? -errno : 0);
	return false;
}

static bool migrate_all(void)
{
	unsigned long from = draw(8) ? 1 + draw(3) : 4, to = draw(8) ? 1 + draw(3) : 8;

	printf("migrate_pages from %lx to %lx", from, to);
	said(syscall(SYS_migrate_pages, 0, 64UL, &from, &to));
	return false;
}

/* --- what happens to memory --- */

static struct region *some_pages(size_t *page, size_t *count)
{
	struct region *r = &regions[draw(LASTING)];

	*page = draw((uint32_t)r->pages);
	*count = 1 + draw(64);
	if (*count > r->pages - *page)
		*count = r->pages - *page;
	return r;
}

static bool discard_some(void)
{
	size_t page, count, i;
	struct region *r = some_pages(&page, &count);

	printf("discard %s %zu+%zu", r->name, page, count);
	madvise(r->base + page * PAGE, count * PAGE, r->flags == MAP_SHARED ? MADV_REMOVE : MADV_DONTNEED);
	for (i = page; i < page + count; i++)
		r->want[i] = 0;
	/* Of one page in four the page of zeroes */
	for (i = page; i < page + count; i += 4)
		if (!r->closed[i])
			(void)*(volatile char *)(r->base + i * PAGE);
	return false;
}

static bool touch_some(void)
{
	size_t page, count, i;
	struct region *r = some_pages(&page, &count);

	printf("touch %s %zu+%zu", r->name, page, count);
	for (i = page; i < page + count; i++)
		touch(r, i);
	return false;
}

static bool protect_some(void)
{
	bool close_it = draw(2);
	size_t page, count, i;
	struct region *r = some_pages(&page, &count);

	printf("protect %s %zu+%zu %d", r->name, page, count, close_it);
	if (mprotect(r->base + page * PAGE, count * PAGE, close_it ? PROT_NONE : OPEN))
		err(1, "mprotect");
	for (i = page; i < page + count; i++)
		r->closed[i] = close_it;
	return false;
}

static bool lock_some(void)
{
	bool lock = draw(2);
	size_t page, count;
	struct region *r = some_pages(&page, &count);

	printf("lock %s %zu+%zu %d", r->name, page, count, lock);
	if (lock)
		syscall(SYS_mlock2, r->base + page * PAGE, count * PAGE, 1 /* on fault */);
	else
		munlock(r->base + page * PAGE, count * PAGE);
	return false;
}

/* A pipe refers to them: they cannot be moved as long as it does. */
static bool pin_some(void)
{
	size_t page, count;
	struct region *r = some_pages(&page, &count);
	struct iovec pages = { r->base + page * PAGE, (count < 8 ? count : 8) * PAGE };

	if (pipes[0] >= 0) {
		printf("unpin");
		unpin();
		return false;
	}
	printf("pin %s %zu+%zu", r->name, page, pages.iov_len / PAGE);
	if (pipe(pipes))
		err(1, "pipe");
	if (vmsplice(pipes[1], &pages, 1, SPLICE_F_NONBLOCK) < 0)
		printf(" not");
	return false;
}

/* Another process maps all of it: not to be moved without MPOL_MF_MOVE_ALL. */
static bool share(void)
{
	if (child) {
		printf("end of child");
		end_child();
		return false;
	}
	printf("child");
	fflush(stdout);
	child = fork();
	if (!child)
		for (;;)
			pause();
	return false;
}

static bool (*const steps[])(void) = {
	move_some, move_some, move_some, move_some, move_again, ask, move_badly, move_with_bad_flags,
	move_off_the_edge, move_without_status, bind_some, bind_some, bind_some, bind_some, migrate_all,
	discard_some, touch_some, touch_some, protect_some, lock_some, pin_some, share,
};

int main(int argc, char **argv)
{
	unsigned long count, i;

	if (argc != 3)
		errx(2, "usage: differ SEED STEPS");
	state = strtoul(argv[1], NULL, 10) * 2 + 1;
	count = strtoul(argv[2], NULL, 10);
	set_up();
	for (i = 0; i < count; i++) {
		bool anew;

		printf("%lu: ", i);
		anew = steps[draw(sizeof(steps) / sizeof(steps[0]))]();
		if (!anew)
			say_places();
		printf(" | wrong %zu\n", wrong_pages());
		if (anew) {
			renew_all();
			continue;
		}
		renew(&regions[2]);
		renew(&regions[3]);
	}
	return 0;
}
