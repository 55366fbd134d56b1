// SPDX-License-Identifier: GPL-2.0-only
/*
 * A process writes to its memory while that moves, in each way in which a copy that
 * was made meanwhile could miss the write. No word gets a value twice, so a word
 * from before a write is seen.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region.h"
#include "slow_file.h"
#include "torture.h"
#include "uring.h"
#include "writer.h"

#define PARTS		16		/* of a region, in one strike */
#define PART_SIZE	(64 * KIB)	/* at most */
#define WORDS		64		/* of a region, in one strike */
#define STAY		300000		/* writes to one of them: milliseconds */
#define LATE_US		3000		/* to wait, at most: more than a copy takes */

static void make(struct region *r, enum backing kind)
{
	static const size_t folios[] = { PAGE, 64 * KIB, PMD };
	size_t folio = folios[rand() % ARRAY_SIZE(folios)];

	torture_create(r, kind, folio, folio == PMD ? 2 * PMD : 512 * KIB,
		       torture_nodes[rand() % 2]);
}

/* --- stores --- */

/* What one word counts; nothing but the TLB says where it lies */
static long stay(struct region *r, size_t at)
{
	atomic_ullong *word = (void *)r->addr + at;
	uint64_t value = region_word(r, at), seen;
	long wrong = 0;

	for (long i = 0; i < STAY; i++) {
		seen = atomic_fetch_add(word, 1);
		wrong += seen != value;
		value = seen + 1;
	}
	wrong += *word != value;
	region_refill(r, at, 8);
	return wrong;
}

static long stores(void)
{
	struct region r;
	long wrong = 0;

	make(&r, ANON);
	for (int i = 0; i < WORDS; i++)
		wrong += stay(&r, rand() % (r.size / 8) * 8);
	return torture_unmake(&r, "stores", wrong);
}

/* --- by the kernel, for others and for devices --- */

/* A file's memory anew, by a descriptor that cannot write, or by one that can */
static void map_again(struct region *r, bool writable)
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->fd);
	fd = open(path, writable ? O_RDWR : O_RDONLY);
	if (fd < 0 || mmap(r->map, r->map_size, PROT_READ | (writable ? PROT_WRITE : 0),
			   MAP_SHARED | MAP_FIXED, fd, 0) != r->map)
		err(1, "mmap of %s", path);
	close(fd);
}

/* 0, or the mistakes; the region may be left read-only */
typedef long put_fn(struct region *r, size_t at, const void *data, size_t size);

static long put_parts(const char *who, enum backing kind, put_fn *put)
{
	static uint64_t value;
	struct region r;
	uint64_t *words;	/* that the region must have */
	long wrong = 0;

	make(&r, kind);
	words = malloc(r.size);
	if (!words)
		err(1, "malloc");
	memcpy(words, r.addr, r.size);
	if (r.fd >= 0)
		map_again(&r, false);
	for (int i = 0; i < PARTS; i++) {
		size_t size = (1 + rand() % (PART_SIZE / 8)) * 8;
		size_t at = rand() % ((r.size - size) / 8) * 8;

		for (size_t j = at; j < at + size; j += 8)
			words[j / 8] = ++value * 0x9e3779b97f4a7c15ULL;
		wrong += put(&r, at, (char *)words + at, size);
		for (size_t j = 0; j < r.size; j += 8)
			wrong += *(volatile uint64_t *)(r.addr + j) != words[j / 8];
	}
	free(words);
	if (r.fd >= 0)
		map_again(&r, true);
	mprotect(r.addr, r.size, PROT_READ | PROT_WRITE);
	region_refill(&r, 0, r.size);
	return torture_unmake(&r, who, wrong);
}

static const char *have_process_vm(void)
{
	uint64_t from = 1, to;
	struct iovec local = { &from, 8 }, remote = { &to, 8 };

	return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == 8 ?
	       NULL : "no process_vm_writev";
}

static long put_remotely(struct region *r, size_t at, const void *data, size_t size)
{
	struct iovec local = { (void *)data, size }, remote = { r->addr + at, size };

	return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)size;
}

static long remote_writes(void)
{
	return put_parts("process_vm_writev", ANON, put_remotely);
}

static const char *have_fuse(void)
{
	return access("/dev/fuse", R_OK | W_OK) ? "no /dev/fuse" : NULL;
}

static struct slow_file slow;

static long put_late(struct region *r, size_t at, const void *data, size_t size)
{
	slow_file_read(&slow, r->addr + at, size);
	usleep(rand() % LATE_US);
	return slow_file_answer(&slow, data) != (long)size;
}

/* A direct read pins its buffer, and its data comes later */
static long late_reads(void)
{
	const char *why = slow.server ? NULL : slow_file_open(&slow);

	if (why)
		errx(1, "%s", why);
	return put_parts("late direct reads", ANON, put_late);
}

static const char *have_ring(void)
{
	return ring_possible() ? NULL : "no io_uring";
}

static struct ring ring;
static int memfd = -1;
static bool pinned;

/*
 * mprotect() gives the right to write and takes it away again; in between one pins
 * the memory, writes by the pin and unpins it, and leaves no dirty entry. What
 * cannot be pinned now, since it moves, is stored.
 */
static long put_between(struct region *r, size_t at, const void *data, size_t size)
{
	long wrong = pwrite(memfd, data, size, 0) != (ssize_t)size;

	wrong += mprotect(r->addr, r->size, PROT_READ) != 0;
	usleep(rand() % LATE_US);
	wrong += mprotect(r->addr, r->size, PROT_READ | PROT_WRITE) != 0;
	if (ring_pin(&ring, r->addr + at, size)) {
		memcpy(r->addr + at, data, size);
	} else {
		pinned = true;
		wrong += ring_read_fixed(&ring, memfd, r->addr + at, size) != (long)size;
		wrong += ring_unpin(&ring) != 0;
	}
	wrong += mprotect(r->addr, r->size, PROT_READ) != 0;
	usleep(rand() % LATE_US);
	return wrong;
}

static long protected_pins(void)
{
	long wrong;

	if (memfd < 0)
		memfd = memfd_create("torture", MFD_CLOEXEC);
	pinned = false;
	ring_open(&ring);
	wrong = put_parts("mprotect and pins", ANON, put_between);
	ring_close(&ring);
	return wrong || pinned ? wrong : TORTURE_MISSED;
}

/* --- to a file that is mapped read-only --- */

/* By write(2), or by a mapping that comes while the file's folios move, and goes */
static long put_to_file(struct region *r, size_t at, const void *data, size_t size)
{
	size_t offset = r->addr - r->map + at, first = offset & -PAGE;
	size_t length = offset + size - first;
	char *writer;

	usleep(rand() % LATE_US);
	if (rand() % 2)
		return pwrite(r->fd, data, size, offset) != (ssize_t)size;
	writer = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, first);
	if (writer == MAP_FAILED)
		err(1, "mmap");
	memcpy(writer + offset - first, data, size);
	munmap(writer, length);
	return 0;
}

static long file_writes(void)
{
	return put_parts("writes to a file", MEMFD, put_to_file);
}

/* --- fork --- */

static uint64_t sum(const struct region *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->size; i += 8)
		sum = sum * 31 + *(volatile uint64_t *)(r->addr + i);
	return sum;
}

/* The child: one word of each page is as the writer left it, the others as filled */
static bool stands_still(struct region *r)
{
	uint64_t before = sum(r);
	bool still = region_wrong_words(r) <= r->size / PAGE;

	usleep(rand() % LATE_US);
	still &= sum(r) == before;
	region_fill(r, ~r->seed);
	usleep(rand() % LATE_US);
	return still && !region_wrong_words(r);
}

/* A thread writes all the time; no child sees it, and it sees no child */
static long fork_writes(void)
{
	struct writer w;
	struct region r;
	long wrong = 0;
	int status;

	make(&r, ANON);
	writer_begin(&w, &r, writer_store);
	for (int i = 0; i < PARTS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (!pid)
			_exit(!stands_still(&r));
		if (waitpid(pid, &status, 0) != pid || status)
			wrong += torture_mistake(1, "fork_writes: the child saw wrong words");
	}
	writer_end(&w);
	return torture_unmake(&r, "fork_writes", wrong + w.lost);
}

const struct torture_class torture_writers[] = {
	{ .name = "stores", .strike = stores, .moved = true },
	{ .name = "remote_writes", .begin = have_process_vm, .strike = remote_writes,
	  .moved = true },
	{ .name = "late_reads", .begin = have_fuse, .strike = late_reads,
	  .moved = true },
	{ .name = "protected_pins", .begin = have_ring, .strike = protected_pins,
	  .moved = true },
	{ .name = "file_writes", .strike = file_writes, .moved = true },
	{ .name = "fork_writes", .strike = fork_writes, .moved = true },
	{}
};
