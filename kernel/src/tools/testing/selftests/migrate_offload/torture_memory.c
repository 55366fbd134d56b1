// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a process can do with its memory while the memory moves. Each strike is
 * one life of a region, with contents that are known at each step.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "offload.h"
#include "region.h"
#include "../migrate_common/scratch.h"
#include "torture.h"
#include "uring.h"

#define SIZE	(512 * KIB)

/* Anywhere, with contents that no other strike has had */
static void make_of(struct region *r, size_t folio)
{
	static uint64_t seed;

	torture_create(r, ANON, folio, SIZE, torture_nodes[rand() % 2]);
	region_fill(r, ++seed * 0x9e3779b97f4a7c15ULL);
}

static void make(struct region *r)
{
	make_of(r, rand() % 2 ? PAGE : 64 * KIB);
}

/* --- fork, mremap, MADV_DONTNEED, mlock --- */

/* Both write to all of it, and neither sees the other's */
static long forks(void)
{
	uint64_t own, parents;
	struct region r;
	long wrong;
	int status;
	pid_t pid;

	make(&r);
	own = r.seed ^ 1;
	parents = r.seed ^ 2;
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		wrong = region_wrong_words(&r);
		region_fill(&r, own);
		usleep(5000);
		_exit(!!(wrong + region_wrong_words(&r)));
	}
	region_fill(&r, parents);
	wrong = region_wrong_words(&r);
	if (waitpid(pid, &status, 0) != pid || status)
		wrong += torture_mistake(1, "fork: the child saw wrong words");
	return torture_unmake(&r, "fork", wrong);
}

static long remaps(void)
{
	struct region r;
	char *moved;
	long wrong;

	make(&r);
	moved = mremap(r.addr + SIZE / 2, SIZE / 2, SIZE / 2,
		       MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (moved == MAP_FAILED)
		err(1, "mremap");
	wrong = words_wrong_masked(moved - SIZE / 2, SIZE / 2, SIZE / 2, r.seed);
	wrong += words_nonzero(r.addr + SIZE / 2, SIZE / 2);
	/* And back */
	if (mremap(moved, SIZE / 2, SIZE / 2, MREMAP_MAYMOVE | MREMAP_FIXED,
		   r.addr + SIZE / 2) == MAP_FAILED)
		err(1, "mremap");
	return torture_unmake(&r, "mremap", wrong);
}

static long drops(void)
{
	struct region r;
	long wrong;

	make(&r);
	madvise(r.addr + SIZE / 4, SIZE / 2, MADV_DONTNEED);
	wrong = words_nonzero(r.addr + SIZE / 4, SIZE / 2);
	region_refill(&r, SIZE / 4, SIZE / 2);
	return torture_unmake(&r, "MADV_DONTNEED", wrong);
}

static long locks(void)
{
	struct region r;
	long wrong;

	make(&r);
	if (mlock(r.addr, SIZE))
		err(1, "mlock");
	wrong = region_wrong_words(&r);
	munlock(r.addr + SIZE / 4, SIZE / 2);
	return torture_unmake(&r, "mlock", wrong);
}

/* --- KSM --- */

#define KSM	"/sys/kernel/mm/ksm/"

static long merged_before;

static const char *start_ksm(void)
{
	merged_before = vmstat("cow_ksm");
	return !file_write(KSM "pages_to_scan", "1000") &&
	       !file_write(KSM "sleep_millisecs", "1") &&
	       !file_write(KSM "run", "1") ? NULL : "no KSM";
}

static void stop_ksm(void)
{
	file_write(KSM "run", "2");
	file_write(KSM "run", "0");
}

/* Pages that were merged, and written to again */
static long pages_unmerged(void)
{
	return vmstat("cow_ksm") - merged_before;
}

/* Pages that are all alike are one page until somebody writes to them */
static long merges(void)
{
	struct region r;
	long wrong = 0;

	make(&r);
	memset(r.addr, 0x77, SIZE);
	madvise(r.addr, SIZE, MADV_MERGEABLE);
	for (int ms = 0; ms < 2000 && !file_read_long(KSM "pages_sharing"); ms += 50)
		usleep(50000);
	for (size_t i = 0; i < SIZE; i++)
		wrong += r.addr[i] != 0x77;
	region_fill(&r, r.seed);
	return torture_unmake(&r, "KSM", wrong);
}

/* --- userfaultfd --- */

/* A thread that serves faults until somebody closes the pipe */
struct server {
	struct region *region;
	pthread_t thread;
	int uffd;
	int stop[2];
	long served;
	char page[PAGE];
};

static void serve(struct server *s, const struct uffd_msg *msg)
{
	unsigned long at = msg->arg.pagefault.address & -PAGE;
	struct uffdio_copy copy = { .dst = at, .src = (unsigned long)s->page,
				    .len = PAGE };
	size_t offset = at - (unsigned long)s->region->addr;

	if (msg->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
		s->served += !uffd_wp(s->uffd, (char *)at, PAGE, false);
		return;
	}
	words_fill_masked(s->page - offset, offset, PAGE, s->region->seed);
	s->served += !ioctl(s->uffd, UFFDIO_COPY, &copy);
}

static void *serve_all(void *arg)
{
	struct server *s = arg;
	struct pollfd fds[] = { { s->uffd, POLLIN }, { s->stop[0], POLLIN } };
	struct uffd_msg msg;

	while (poll(fds, 2, -1) > 0 && !fds[1].revents)
		if (read(s->uffd, &msg, sizeof(msg)) == sizeof(msg))
			serve(s, &msg);
	return NULL;
}

static void server_start(struct server *s, struct region *r, int mode)
{
	s->region = r;
	s->served = 0;
	s->uffd = uffd_open(r->addr, r->size, mode);
	if (s->uffd < 0 || pipe(s->stop))
		err(1, "userfaultfd");
	if (pthread_create(&s->thread, NULL, serve_all, s))
		err(1, "pthread_create");
}

/* Faults that were served */
static long server_stop(struct server *s)
{
	close(s->stop[1]);
	pthread_join(s->thread, NULL);
	close(s->stop[0]);
	close(s->uffd);
	return s->served;
}

static struct server server;

static const char *have_uffd(void)
{
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (uffd < 0)
		return "no userfaultfd";
	close(uffd);
	return NULL;
}

/* What is missing is asked for once, wherever the rest goes meanwhile */
static long misses(void)
{
	struct region r;
	long wrong, served;

	make(&r);
	server_start(&server, &r, UFFDIO_REGISTER_MODE_MISSING);
	madvise(r.addr + SIZE / 4, SIZE / 2, MADV_DONTNEED);
	wrong = region_wrong_words(&r);
	served = server_stop(&server);
	if (served != SIZE / 2 / PAGE)
		wrong += torture_mistake(1, "userfaultfd: %ld pages were missing, not %lu",
					 served, SIZE / 2 / PAGE);
	return torture_unmake(&r, "userfaultfd", wrong);
}

/* Each write to a page that is protected is told once, and is not lost */
static long protects(void)
{
	struct region r;
	long wrong = 0, served;

	make(&r);
	server_start(&server, &r, UFFDIO_REGISTER_MODE_WP);
	if (uffd_wp(server.uffd, r.addr, SIZE, true))
		err(1, "UFFDIO_WRITEPROTECT");
	usleep(5000);
	for (size_t at = 0; at < SIZE; at += PAGE) {
		atomic_ullong *word = (void *)r.addr + at;

		wrong += *word != region_word(&r, at);
		*word = ~region_word(&r, at);
		wrong += *word != ~region_word(&r, at);
		*word = region_word(&r, at);
	}
	served = server_stop(&server);
	if (served != SIZE / PAGE)
		wrong += torture_mistake(1, "userfaultfd: %ld writes were told, not %lu",
					 served, SIZE / PAGE);
	return torture_unmake(&r, "write protection", wrong);
}

/* --- whom a device writes to --- */

static int direct_fd = -1;

static const char *open_direct(void)
{
	const char *why, *dir = scratch_mount("ext4", "", &why);

	if (!dir)
		return why;
	direct_fd = open(dir, O_RDWR | O_TMPFILE | O_DIRECT | O_CLOEXEC, 0600);
	return direct_fd < 0 || ftruncate(direct_fd, SIZE) ?
	       "no direct I/O on ext4" : NULL;
}

static void close_file(void)
{
	close(direct_fd);
	direct_fd = -1;
}

/* Written from where it lies, read to where it lies by then */
static long directs(void)
{
	struct region r;

	make(&r);
	if (pwrite(direct_fd, r.addr, SIZE, 0) != (ssize_t)SIZE)
		err(1, "pwrite");
	memset(r.addr, 0, SIZE);
	if (pread(direct_fd, r.addr, SIZE, 0) != (ssize_t)SIZE)
		err(1, "pread");
	return torture_unmake(&r, "direct I/O", 0);
}

static const char *open_buffered(void)
{
	direct_fd = memfd_create("torture", MFD_CLOEXEC);
	if (!ring_possible() || direct_fd < 0 || ftruncate(direct_fd, SIZE))
		return "no io_uring";
	return NULL;
}

/* A buffer that stays pinned; what is read lands where the process looks */
static long fixes(void)
{
	struct region r;
	struct ring ring;
	long wrong = 0;

	make(&r);
	ring_open(&ring);
	if (ring_pin(&ring, r.addr, SIZE)) {
		ring_close(&ring);
		return torture_unmake(&r, "no buffer", 0) ?: TORTURE_MISSED;
	}
	for (int i = 0; i < 4; i++) {
		if (pwrite(direct_fd, r.addr, SIZE, 0) != (ssize_t)SIZE)
			err(1, "pwrite");
		memset(r.addr, i, SIZE);
		if (ring_read_fixed(&ring, direct_fd, r.addr, SIZE) != SIZE)
			wrong += torture_mistake(1, "io_uring: short read");
		wrong += region_wrong_words(&r);
	}
	ring_close(&ring);
	return torture_unmake(&r, "a fixed buffer", wrong);
}

/* --- poison --- */

static void ignore(int signal)
{
	(void)signal;
}

/*
 * One page of its own is given up; the others of the region go on. Small
 * folios only: of a large one that it cannot split Linux takes all pages.
 */
static long poisons(void)
{
	size_t at = rand() % (SIZE / PAGE) * PAGE;
	struct region r;
	bool missed;

	signal(SIGBUS, ignore);
	make_of(&r, PAGE);
	/* It may fail and have unmapped the page all the same */
	missed = madvise(r.addr + at, PAGE, MADV_HWPOISON);
	if (mmap(r.addr + at, PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		err(1, "mmap");
	signal(SIGBUS, SIG_DFL);
	region_refill(&r, at, PAGE);
	return torture_unmake(&r, "poison", 0) ?: missed ? TORTURE_MISSED : 0;
}

const struct torture_class torture_memory[] = {
	{ .name = "fork", .strike = forks, .moved = true },
	{ .name = "mremap", .strike = remaps, .moved = true },
	{ .name = "dontneed", .strike = drops, .moved = true },
	{ .name = "mlock", .strike = locks, .moved = true },
	{ .name = "ksm", .begin = start_ksm, .strike = merges,
	  .struck = pages_unmerged, .end = stop_ksm, .moved = true },
	{ .name = "uffd_missing", .begin = have_uffd, .strike = misses,
	  .moved = true },
	{ .name = "uffd_wp", .begin = have_uffd, .strike = protects,
	  .moved = true },
	{ .name = "direct_io", .begin = open_direct, .strike = directs,
	  .end = close_file, .moved = true },
	{ .name = "fixed_buffers", .begin = open_buffered, .strike = fixes,
	  .end = close_file, .moved = true },
	/* Last: what is poisoned stays so until the next boot */
	{ .name = "poison", .strike = poisons, .moved = true, .pause_ms = 100 },
	{}
};
