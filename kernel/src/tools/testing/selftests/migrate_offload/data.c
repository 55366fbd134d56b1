// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each byte and each page is where it should be, whatever kind of memory is
 * moved, by whatever call and engine; and the engine did what it could, and
 * nothing that it must not do.
 *
 * Guards rule 8 (only folios that are known to be safe are copied early): ext4
 * has buffer heads, so an engine that copies its folios fails here. So does an
 * engine that reports as copied what it has not copied.
 */
#include "../kselftest_harness.h"

#include "offload.h"
#include "region.h"

#define SIZE	(4 * MIB)

FIXTURE(move)
{
	int nodes[2];
	struct region region;
};

FIXTURE_VARIANT(move)
{
	const char *engine;
	enum backing backing;
	size_t folio;
	bool eligible;
};

#define VARIANT(_engine, _name, _backing, _folio, _eligible)		\
FIXTURE_VARIANT_ADD(move, _engine##_##_name) {				\
	.engine = #_engine,						\
	.backing = _backing,						\
	.folio = _folio,						\
	.eligible = _eligible,						\
}

#define VARIANTS(engine)						\
	VARIANT(engine, anon_4k, ANON, PAGE, true);			\
	VARIANT(engine, anon_64k, ANON, 64 * KIB, true);		\
	VARIANT(engine, anon_2m, ANON, PMD, true);			\
	VARIANT(engine, hugetlb_2m, HUGETLB, PMD, true);		\
	VARIANT(engine, memfd_4k, MEMFD, PAGE, true);			\
	VARIANT(engine, memfd_64k, MEMFD, 64 * KIB, true);		\
	VARIANT(engine, memfd_2m, MEMFD, PMD, true);			\
	VARIANT(engine, tmpfs, TMPFS, PAGE, true);			\
	VARIANT(engine, ext4, EXT4, 0, false);				\
	VARIANT(engine, xfs, XFS, 0, true)

VARIANTS(cpu);
VARIANTS(mtcopy);
VARIANTS(dcbm);

FIXTURE_SETUP(move)
{
	const char *why = offload_use_between(self->nodes, variant->engine);

	if (why)
		SKIP(return, "%s", why);
	/* Count what is moved here, not what the kernel moves meanwhile */
	offload_set("reasons", "syscall_or_cpuset mempolicy_mbind");
	why = region_create(&self->region, variant->backing, variant->folio,
			    SIZE, self->nodes[0]);
	if (why) {
		offload_reset();
		SKIP(return, "%s", why);
	}
	ASSERT_EQ(0, region_pages_off(&self->region, self->nodes[0]));
}

FIXTURE_TEARDOWN_PARENT(move)
{
	offload_reset();
	hugetlb_reserve(0);
}

static void check_contents(struct __test_metadata *_metadata,
			   const struct region *r, size_t folio, int node)
{
	ASSERT_EQ(0, region_wrong_words(r));
	ASSERT_EQ(0, region_pages_off(r, node));
	ASSERT_TRUE(!folio || !pages_not_in_folios(r->addr, r->size, folio));
}

/*
 * A few folios may be busy for a moment, and be moved by Linux itself. Those of a file
 * are as large as its file system likes: two of xfs, of 512 and 64 KiB, were too many for
 * the bound of small ones.
 */
static void check_stats(struct __test_metadata *_metadata,
			const struct offload_stats *grew, bool eligible,
			size_t folio)
{
	size_t busy = folio ? SIZE / 16 : SIZE / 2;

	EXPECT_EQ(0, grew->fallback_error);
	EXPECT_EQ(0, grew->quarantined_bytes);
	if (eligible) {
		EXPECT_GE(grew->bytes, SIZE - busy);
		EXPECT_GE(grew->folios, folio ? (SIZE - busy) / folio : 1);
		EXPECT_LT(grew->fallback_kind, SIZE / PAGE / 16);
	} else {
		/* migrate_pages(2) moves the stack of this process as well */
		EXPECT_LT(grew->bytes, SIZE / 4);
		/* Folios are counted: those of ext4 may be large */
		EXPECT_GE(grew->fallback_kind, SIZE / PMD);
	}
}

/*
 * Linux takes an anonymous folio whose PTEs were unmapped one by one for
 * partially mapped, and splits it when it is migrated once more.
 */
static bool splits_next_time(const FIXTURE_VARIANT(move) *variant)
{
	return variant->backing == ANON && variant->folio > PAGE &&
	       variant->folio < PMD;
}

static void forth_and_back(struct __test_metadata *_metadata,
			   FIXTURE_DATA(move) *self,
			   const FIXTURE_VARIANT(move) *variant,
			   enum mover mover)
{
	struct offload_stats before, grew;
	size_t folio = variant->folio;
	int *nodes = self->nodes;

	before = offload_stats(NULL);
	ASSERT_EQ(0, region_move(&self->region, mover, nodes[0], nodes[1]));
	grew = offload_stats(&before);
	check_contents(_metadata, &self->region, folio, nodes[1]);
	check_stats(_metadata, &grew, variant->eligible, folio);

	before = offload_stats(NULL);
	ASSERT_EQ(0, region_move(&self->region, mover, nodes[1], nodes[0]));
	grew = offload_stats(&before);
	if (splits_next_time(variant)) {
		check_contents(_metadata, &self->region, 0, nodes[0]);
		return;
	}
	check_contents(_metadata, &self->region, folio, nodes[0]);
	check_stats(_metadata, &grew, variant->eligible, folio);
}

TEST_F_TIMEOUT(move, move_pages_moves_every_byte, 120)
{
	forth_and_back(_metadata, self, variant, MOVE_PAGES);
}

TEST_F_TIMEOUT(move, mbind_moves_every_byte, 120)
{
	forth_and_back(_metadata, self, variant, MBIND);
}

TEST_F_TIMEOUT(move, migrate_pages_moves_every_byte, 120)
{
	forth_and_back(_metadata, self, variant, MIGRATE_PAGES);
}

TEST_HARNESS_MAIN
