// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of which folios the engine may copy.
 */
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/fs.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>

#include "../../internal.h"
#include "../eligible.h"
#include "../internal.h"
#include "kunit_engine.h"

static bool no(void)
{
	return false;
}

static bool not_plain(struct folio *src)
{
	return false;
}

static void memory_tags_are_for_cpus_only(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_NONE);
	kunit_activate_static_stub(test, migrate_offload_plain_bytes, not_plain);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
	fx->engine.m.copies_by_cpu = true;
	migrate_kunit_isolate(test);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	kunit_deactivate_static_stub(test, migrate_offload_plain_bytes);
}

static void thp_without_migration_entries_is_left_to_linux(struct kunit *test)
{
	struct folio *small = folio_alloc(GFP_KERNEL, 0);
	struct folio *thp = folio_alloc(GFP_KERNEL, PMD_ORDER);

	KUNIT_ASSERT_TRUE(test, small && thp);
	KUNIT_EXPECT_TRUE(test, migrate_offload_may_unmap(thp));
	kunit_activate_static_stub(test, migrate_offload_thp_supported, no);
	KUNIT_EXPECT_FALSE(test, migrate_offload_may_unmap(thp));
	KUNIT_EXPECT_TRUE(test, migrate_offload_may_unmap(small));
	kunit_deactivate_static_stub(test, migrate_offload_thp_supported);
	folio_put(small);
	folio_put(thp);
}

static void known_poison_is_not_shown_to_the_engine(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct folio *folio;

	migrate_kunit_prepare(test, FAULT_NONE);
	folio = fx->before[0];
	folio_lock(folio);
	KUNIT_EXPECT_TRUE(test, migrate_offload_may_copy(&fx->engine.m, folio));
	folio_set_hwpoison(folio);
	KUNIT_EXPECT_FALSE(test, migrate_offload_may_copy(&fx->engine.m, folio));
	folio_clear_hwpoison(folio);
	folio_unlock(folio);
}

/* As a journal does: write to the folio after it was locked and unmapped */
static int late_writer_migrate_folio(struct address_space *mapping,
				     struct folio *dst, struct folio *src,
				     enum migrate_mode mode)
{
	memset(folio_address(src), 0x77, PAGE_SIZE);
	return migrate_folio(mapping, dst, src, mode);
}

static const struct address_space_operations late_writer_aops = {
	.dirty_folio = noop_dirty_folio,
	.migrate_folio = late_writer_migrate_folio,
};

static void unknown_migrate_callback_is_not_copied_early(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct address_space *mapping = fx->file->f_mapping;
	const struct address_space_operations *saved = mapping->a_ops;
	unsigned int i, right = 0;

	migrate_kunit_prepare(test, FAULT_NONE);
	mapping->a_ops = &late_writer_aops;
	KUNIT_EXPECT_EQ(test, migrate_kunit_migrate(fx, MR_SYSCALL), NR_FOLIOS);
	mapping->a_ops = saved;

	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
	for (i = 0; i < NR_FOLIOS; i++)
		right += *(u8 *)folio_address(migrate_kunit_folio_of(fx, i)) == 0x77;
	KUNIT_EXPECT_EQ(test, right, NR_FOLIOS);
}

static struct kunit_case migrate_offload_eligible_cases[] = {
	KUNIT_CASE(memory_tags_are_for_cpus_only),
	KUNIT_CASE(thp_without_migration_entries_is_left_to_linux),
	KUNIT_CASE(known_poison_is_not_shown_to_the_engine),
	KUNIT_CASE(unknown_migrate_callback_is_not_copied_early),
	{}
};

static struct kunit_suite migrate_offload_eligible_suite = {
	.name = "migrate_offload_eligible",
	.init = migrate_kunit_init,
	.exit = migrate_kunit_exit,
	.test_cases = migrate_offload_eligible_cases,
};

kunit_test_suite(migrate_offload_eligible_suite);
