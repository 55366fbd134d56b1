// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page tables change while their folio is in flight: what is zapped stays so,
 * what is protected, moved, forked or unmapped is that, and nothing waits for
 * the copy.
 *
 * The engine is late, so that there is time to change what is to be restored.
 */
#define _GNU_SOURCE
#include "../kselftest_harness.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "dcbm.h"
#include "offload.h"
#include "region.h"

#define SIZE		(2 * MIB)
#define LATE_MS		1000
/* What is changed, and a page beside it that shows whether it still waits */
#define PART		(2 * PAGE)
#define PART_SIZE	(4 * PAGE)
#define BESIDE		(9 * PAGE)

FIXTURE(inflight)
{
	int nodes[2];
	struct region region;
	pthread_t mover;
};

FIXTURE_VARIANT(inflight)
{
	size_t folio;
};

FIXTURE_VARIANT_ADD(inflight, 4k) { .folio = PAGE };
FIXTURE_VARIANT_ADD(inflight, 64k) { .folio = 64 * KIB };
FIXTURE_VARIANT_ADD(inflight, 2m) { .folio = PMD };

FIXTURE_SETUP(inflight)
{
	const char *why;

	if (!nodes_find(self->nodes))
		SKIP(return, "one node with memory only");
	why = offload_use_dcbm("channels=4 ring=64", "");
	if (!why)
		why = region_create(&self->region, ANON, variant->folio, SIZE,
				    self->nodes[0]);
	if (why)
		SKIP(return, "%s", why);
	offload_set("reasons", "syscall_or_cpuset");
	offload_set("deadline_ms", "%d", 30 * LATE_MS);
	offload_set("window_pages", "%d", variant->folio == PMD ? 512 : 16);
}

FIXTURE_TEARDOWN_PARENT(inflight)
{
	if (access(OFFLOAD_DIR, F_OK))
		return;
	offload_reset();
	offload_unload();
}

/* A kernel without the setting unmaps each folio before it copies it */
static bool may_stay_mapped(void)
{
	char value[16];

	if (file_read("/proc/sys/vm/migrate_copy_mapped", value, sizeof(value)))
		return false;
	return strcmp(value, "0");
}

/*
 * A folio that waits for its copy is either inaccessible, or where the kernel
 * may leave it mapped, it is locked. That it is read-only then the tables do not
 * show to user space.
 */
static bool in_flight(const char *addr)
{
	if (pagemap(addr) & PM_SWAP)
		return true;
	return may_stay_mapped() && kpageflags(addr) & PAGE_LOCKED;
}

static void *move(void *arg)
{
	struct region *r = arg;
	int nodes[2];

	nodes_find(nodes);
	pages_move(r, nodes[1], OWN);
	return NULL;
}

/* From here on all of the part, and the page beside it, wait for the engine */
#define BEGIN()								\
do {									\
	char *_at = self->region.addr;					\
	long _late = injected("late");					\
									\
	softdma_set("late_ms", LATE_MS);				\
	softdma_set("late_every", 1);					\
	ASSERT_EQ(0, pthread_create(&self->mover, NULL, move, &self->region)); \
	for (int _ms = 0; injected("late") == _late && _ms < 5000; _ms++)	\
		usleep(1000);						\
	/* The other copies of the window; none that follows shall be late */	\
	usleep(LATE_MS * 100);						\
	softdma_set("late_every", 0);					\
	for (size_t _i = PART; _i < PART + PART_SIZE; _i += PAGE)	\
		ASSERT_TRUE(in_flight(_at + _i));			\
	ASSERT_TRUE(in_flight(_at + BESIDE));				\
} while (0)

/* It still waits: what was done meanwhile has not waited for it */
#define STILL()	ASSERT_TRUE(in_flight(self->region.addr + BESIDE))

/* All is as filled, and moves as ever */
#define END()								\
do {									\
	struct region *_r = &self->region;				\
									\
	pthread_join(self->mover, NULL);				\
	EXPECT_EQ(0, region_wrong_words(_r));				\
	for (int _i = 0; _i < 2; _i++) {				\
		pages_move(_r, self->nodes[_i], OWN);			\
		EXPECT_EQ(0, region_pages_off(_r, self->nodes[_i]));	\
		EXPECT_EQ(0, region_wrong_words(_r));			\
	}								\
} while (0)

TEST_F_TIMEOUT(inflight, zapped, 60)
{
	struct region *r = &self->region;

	BEGIN();
	ASSERT_EQ(0, madvise(r->addr + PART, PART_SIZE, MADV_DONTNEED));
	EXPECT_EQ(0, words_nonzero(r->addr + PART, PART_SIZE));
	STILL();
	pthread_join(self->mover, NULL);
	EXPECT_EQ(0, words_nonzero(r->addr + PART, PART_SIZE));
	region_refill(r, PART, PART_SIZE);
	ASSERT_EQ(0, pthread_create(&self->mover, NULL, move, r));
	END();
}

TEST_F_TIMEOUT(inflight, unmapped, 60)
{
	struct region *r = &self->region;

	BEGIN();
	ASSERT_EQ(0, munmap(r->addr + PART, PART_SIZE));
	ASSERT_NE(MAP_FAILED, mmap(r->addr + PART, PART_SIZE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	region_refill(r, PART, PART_SIZE);
	STILL();
	END();
}

TEST_F_TIMEOUT(inflight, protected, 60)
{
	struct region *r = &self->region;

	BEGIN();
	ASSERT_EQ(0, mprotect(r->addr + PART, PART_SIZE, PROT_READ));
	STILL();
	pthread_join(self->mover, NULL);
	for (size_t i = PART; i < PART + PART_SIZE; i += PAGE)
		EXPECT_FALSE(page_writable(r->addr + i));
	ASSERT_EQ(0, mprotect(r->addr + PART, PART_SIZE, PROT_READ | PROT_WRITE));
	EXPECT_TRUE(page_writable(r->addr + PART));
	region_refill(r, PART, PAGE);
	ASSERT_EQ(0, pthread_create(&self->mover, NULL, move, r));
	END();
}

TEST_F_TIMEOUT(inflight, remapped, 60)
{
	struct region *r = &self->region;
	char *to, *from = r->addr + PART;

	BEGIN();
	to = mremap(from, PART_SIZE, PART_SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	ASSERT_NE(MAP_FAILED, to);
	EXPECT_EQ(0, words_nonzero(from, PART_SIZE));
	STILL();
	EXPECT_EQ(0, words_wrong_masked(to - PART, PART, PART_SIZE, r->seed));
	ASSERT_EQ(from, mremap(to, PART_SIZE, PART_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, from));
	END();
}

/* The child sees what was there, whatever its parent writes */
TEST_F_TIMEOUT(inflight, forked, 60)
{
	struct region *r = &self->region;
	int status, pid;

	BEGIN();
	pid = fork();
	if (!pid)
		_exit(region_wrong_words(r) != 0);
	ASSERT_LT(0, pid);
	STILL();
	memset(r->addr + PART, 0xff, PART_SIZE);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	region_refill(r, PART, PART_SIZE);
	END();
}

TEST_F_TIMEOUT(inflight, write_protected, 60)
{
	struct region *r = &self->region;
	int fd = uffd_open(r->addr, SIZE, UFFDIO_REGISTER_MODE_WP);

	if (fd < 0)
		SKIP(return, "no userfaultfd that protects from writes");
	BEGIN();
	ASSERT_EQ(0, uffd_wp(fd, r->addr + PART, PART_SIZE, true));
	STILL();
	pthread_join(self->mover, NULL);
	for (size_t i = 0; i < 64 * KIB; i += PAGE)
		EXPECT_EQ(i >= PART && i < PART + PART_SIZE,
			  !!(pagemap(r->addr + i) & PM_UFFD_WP));
	ASSERT_EQ(0, uffd_wp(fd, r->addr + PART, PART_SIZE, false));
	close(fd);
	ASSERT_EQ(0, pthread_create(&self->mover, NULL, move, r));
	END();
}

#define MANY		8
#define LEAST_CUT	2
#define MOST_CUT	3
#define OF_PMD(name)	"/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/stats/" name

/* In the place of the fixture's one folio of 2 MiB; with what is in flight left to Ferry */
static const char *use_many(struct region *r, int node)
{
	region_destroy(r);
	offload_set("window_pages", "0");
	offload_set("engine_always", "1");
	return region_create(r, ANON, PMD, MANY * PMD, node);
}

static int many_in_flight(const struct region *r)
{
	int nr = 0;

	for (int i = 0; i < MANY; i++)
		nr += in_flight(r->addr + i * PMD);
	return nr;
}

/*
 * A folio of 2 MiB has a part for every channel, so few of them keep the engine
 * busy. Who needs the lock of one waits for all that are in flight before it.
 */
TEST_F_TIMEOUT(inflight, few_are_locked_if_they_are_cut, 60)
{
	if (variant->folio != PMD)
		SKIP(return, "copied whole");
	ASSERT_EQ(NULL, use_many(&self->region, self->nodes[0]));
	BEGIN();
	EXPECT_LE(LEAST_CUT, many_in_flight(&self->region));
	EXPECT_GE(MOST_CUT, many_in_flight(&self->region));
	END();
}

/* And what was written to is likely to be so in the next call: there it begins with few */
TEST_F_TIMEOUT(inflight, void_copy_is_made_again_while_mapped, 60)
{
	struct region *r = &self->region;
	long mapped, voids;

	if (variant->folio != PMD || !may_stay_mapped())
		SKIP(return, "no folio of 2 MiB that is copied while it is mapped");
	ASSERT_EQ(NULL, use_many(r, self->nodes[0]));
	mapped = file_read_long(OF_PMD("migrate_mapped"));
	voids = file_read_long(OF_PMD("migrate_void"));
	BEGIN();
	region_refill(r, PART, PART_SIZE);
	STILL();
	pthread_join(self->mover, NULL);
	EXPECT_EQ(1, file_read_long(OF_PMD("migrate_void")) - voids);
	EXPECT_EQ(MANY, file_read_long(OF_PMD("migrate_mapped")) - mapped);
	pages_move(r, self->nodes[0], OWN);
	BEGIN();
	EXPECT_EQ(LEAST_CUT, many_in_flight(r));
	END();
}

TEST_HARNESS_MAIN
