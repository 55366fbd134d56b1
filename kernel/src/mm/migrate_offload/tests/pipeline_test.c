// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of a call's way through the ring of chunks: all bytes arrive, whatever
 * the engine does.
 *
 * Not tested here: page tables (most folios are not mapped), DMA, and poison
 * that the hardware reports. See tools/testing/selftests/migrate_offload.
 */
#include <kunit/static_stub.h>
#include <kunit/test-bug.h>
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/shmem_fs.h>
#include <linux/swap.h>
#include <linux/uaccess.h>

#include "../../internal.h"
#include "../../migrate_compat.h"
#include "../hooks.h"
#include "../internal.h"
#include "kunit_engine.h"

static void engine_copies_every_folio(struct kunit *test)
{
	struct fixture *fx = test->priv;
	unsigned long before = migrate_offload_stat(STAT_FOLIOS);

	migrate_kunit_prepare(test, FAULT_NONE);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FOLIOS) - before,
			NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&fx->engine.m.stats->bytes),
			NR_FOLIOS * PAGE_SIZE);
}

static void out_of_order_completion_is_right(struct kunit *test)
{
	migrate_kunit_prepare(test, FAULT_REVERSE);
	migrate_kunit_expect_all_moved(test);
}

/* From the second chunk on that was waited for, the last copy of each wakes who waits */
static void engine_that_says_nothing_is_looked_at(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_QUIET);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_GT(test, fx->engine.nr_tell, 0);
	KUNIT_EXPECT_LT(test, fx->engine.nr_tell, fx->engine.nr_flushed);
}

/* It ends a chunk while nobody looks any more, but sleeps */
static void engine_that_ends_unseen_is_done(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_UNSEEN);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
}

static void next_call_is_told_if_this_one_has_waited(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_QUIET);
	s.chunk_pages = NR_FOLIOS;
	s.window_pages = NR_FOLIOS;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_tell, 0);
	migrate_kunit_isolate(test);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_tell, 1);
}

/* The ring has room for 12 pages, so that it is not the ring that bounds */
static void window_is_never_exceeded(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_SLOW);
	s.window_pages = 10;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.max_inflight, 10);
}

/* What an administrator chooses is not cut for the target */
static void chosen_chunk_is_not_cut(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_SLOW);
	s.chunk_pages = s.window_pages;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_flushed,
			NR_FOLIOS / s.chunk_pages);
}

/* How much is in flight at most, where a chunk takes 50 ms */
static unsigned int most_for_target(struct kunit *test, unsigned long target_us)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_SLOW);
	s.window_pages = 0;
	s.target_us = target_us;
	s.engine_always = 1;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	migrate_kunit_expect_all_moved(test);
	return fx->engine.max_inflight;
}

static void no_more_is_unmapped_than_fits_the_target(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, most_for_target(test, 1), migrate_kunit_small().chunk_pages);
}

static void more_is_unmapped_if_it_fits_the_target(struct kunit *test)
{
	KUNIT_EXPECT_GT(test,
			most_for_target(test, MIGRATE_OFFLOAD_MAX_TARGET_US),
			migrate_kunit_small().chunk_pages);
}

static unsigned long one_page(const struct migrate_offload_state *state,
			      unsigned long quota, unsigned long nr_pages,
			      unsigned long flush_pages, bool alone, u64 ns)
{
	struct fixture *fx = kunit_get_current_test()->priv;

	fx->nr_alone += alone;
	return 1;
}

static unsigned long cheap_flushes(const struct migrate_offload_state *state,
				   unsigned long nr_pages, unsigned long wanted,
				   u64 unmap_ns, u64 flush_ns)
{
	return 0;
}

/* The first chunk has two pages, all others have one */
static unsigned int nr_alone(struct kunit *test, enum fault fault)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_flush_pages,
				   cheap_flushes);
	kunit_activate_static_stub(test, migrate_offload_quota, one_page);
	migrate_kunit_prepare(test, fault);
	s.window_pages = 0;
	s.engine_always = 1;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	migrate_kunit_expect_all_moved(test);
	return fx->nr_alone;
}

static void chunk_is_alone_beside_an_engine(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, nr_alone(test, FAULT_REVERSE), NR_FOLIOS - 1);
}

/* To be given more would keep pages away for longer, and be of no use */
static void chunk_is_not_alone_with_the_task(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, nr_alone(test, FAULT_IDLE), 0);
}

static unsigned long dear_flushes(const struct migrate_offload_state *state,
				  unsigned long nr_pages, unsigned long wanted,
				  u64 unmap_ns, u64 flush_ns)
{
	struct fixture *fx = kunit_get_current_test()->priv;

	fx->nr_flushes++;
	return 4 * migrate_kunit_small().chunk_pages;
}

/* The target cannot be met: then there are at least not many flushes */
static void chunks_share_a_flush_if_it_is_dear(struct kunit *test)
{
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, migrate_kunit_target_of);
	kunit_activate_static_stub(test, migrate_offload_flush_pages,
				   dear_flushes);
	KUNIT_EXPECT_EQ(test, most_for_target(test, 1),
			4 * migrate_kunit_small().chunk_pages);
	/* The first is not known to be */
	KUNIT_EXPECT_GE(test, fx->nr_flushes, 1 + NR_FOLIOS / 16);
	KUNIT_EXPECT_LE(test, fx->nr_flushes, 2 + NR_FOLIOS / 16);
}

static void next_call_knows_that_flushes_are_dear(struct kunit *test)
{
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, migrate_kunit_target_of);
	kunit_activate_static_stub(test, migrate_offload_flush_pages,
				   dear_flushes);
	most_for_target(test, 1);
	fx->nr_flushes = 0;
	migrate_kunit_isolate(test);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->nr_flushes, NR_FOLIOS / 16);
}

/* What it has no room for, the CPU would copy with all of it unmapped */
static void small_engine_is_given_chunk_by_chunk(struct kunit *test)
{
	struct migrate_offload_settings s = migrate_kunit_small();
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, migrate_kunit_target_of);
	kunit_activate_static_stub(test, migrate_offload_flush_pages,
				   dear_flushes);
	migrate_kunit_prepare(test, FAULT_FULL);
	s.window_pages = 0;
	s.engine_always = 1;
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(s));
	migrate_kunit_expect_all_moved(test);
	/* It had room for the first chunk, and not for those that came next */
	KUNIT_EXPECT_EQ(test, fx->nr_flushes, 2);
}

static void no_more_than_a_chunk_waits_for_the_caller(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_IDLE);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, fx->engine.max_inflight, migrate_kunit_small().chunk_pages);
}

static void busy_engine_falls_back_to_cpu(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_FALLBACK_BUSY);

	migrate_kunit_prepare(test, FAULT_BUSY);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FALLBACK_BUSY) - before,
			NR_FOLIOS);
}

/* Whatever is unmapped while the engine is full, it would refuse */
static void nothing_is_unmapped_for_a_full_engine(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_FULL);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted,
			NR_FOLIOS / migrate_kunit_small().chunk_pages * ENGINE_ROOM);
}

/* The CPU copies them beside the engine, which takes its time */
static void refused_folios_do_not_wait_for_the_engine(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_FULL);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_early_moved,
			migrate_kunit_small().chunk_pages - ENGINE_ROOM);
}

static void folios_do_not_wait_for_others_of_their_chunk(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_HALF_SLOW);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_GE(test, fx->engine.nr_early_moved, 2);
}

static void nothing_is_unmapped_while_memory_is_allocated(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_SLOW);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, fx->nr_locked, 0);
}

static void memory_without_a_wait_keeps_the_engine_busy(struct kunit *test)
{
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, migrate_kunit_target_of);
	migrate_kunit_prepare(test, FAULT_SLOW);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_early_inflight,
			migrate_kunit_small().window_pages);
	KUNIT_EXPECT_EQ(test, fx->nr_locked, 0);
}

static void caller_that_never_waits_goes_on_so(struct kunit *test)
{
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, migrate_kunit_target_of);
	migrate_kunit_prepare(test, FAULT_SLOW);
	fx->target.nowait = true;
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_TRUE(test, fx->target.nowait);
}

static void memory_is_waited_for_with_nothing_unmapped(struct kunit *test)
{
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, migrate_kunit_target_of);
	migrate_kunit_prepare(test, FAULT_SLOW);
	fx->all_waits = true;
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_early_inflight,
			migrate_kunit_small().chunk_pages);
	KUNIT_EXPECT_EQ(test, fx->nr_locked, 0);
}

static void folio_without_memory_is_alone(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_NONE);
	fx->no_memory = fx->before[3];
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS - 1);
}

/* Not an error of the engine */
static void part_without_room_is_copied_by_cpu(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_FALLBACK_BUSY);
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_PART_REFUSED);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FALLBACK_BUSY) - before,
			NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&fx->engine.m.stats->errors), 0);
}

static void poisoned_source_fails_alone(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_POISON);
	KUNIT_EXPECT_EQ(test, migrate_kunit_migrate(fx, MR_SYSCALL), NR_FOLIOS - 1);
	/* The last one comes first */
	KUNIT_EXPECT_FALSE(test, migrate_kunit_has_moved(fx, NR_FOLIOS - 1));
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_moved(fx), NR_FOLIOS - 1);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
	/* Linux has not tried it again */
	KUNIT_EXPECT_EQ(test, fx->nr_new, NR_FOLIOS);
}

static void engine_that_is_gone_is_asked_no_more(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_FALLBACK_BUSY);
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_GONE);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, ENGINE_ROOM);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FALLBACK_BUSY) - before,
			migrate_kunit_small().chunk_pages - ENGINE_ROOM);
}

static void engine_that_is_out_of_service_is_not_used(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_NONE);
	fx->engine.in_service = false;
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
	fx->engine.in_service = true;
	migrate_kunit_isolate(test);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
}

static void failed_copy_is_never_used(struct kunit *test)
{
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_IO);
	migrate_kunit_expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&fx->engine.m.stats->errors),
			NR_FOLIOS);
}

static void one_failed_part_fails_the_copy(struct kunit *test)
{
	migrate_kunit_prepare(test, FAULT_ONE_PART);
	migrate_kunit_expect_all_moved(test);
}

static void extra_reference_keeps_folio_from_engine(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_FALLBACK_REFS);
	struct fixture *fx = test->priv;

	migrate_kunit_prepare(test, FAULT_NONE);
	fx->engine.refused = fx->before[7];
	folio_get(fx->before[7]);
	KUNIT_EXPECT_EQ(test, migrate_kunit_migrate(fx, MR_SYSCALL), NR_FOLIOS - 1);
	folio_put(fx->before[7]);
	KUNIT_EXPECT_FALSE(test, fx->engine.saw_refused);
	KUNIT_EXPECT_PTR_EQ(test, migrate_kunit_folio_of(fx, 7), fx->before[7]);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FALLBACK_REFS) - before,
			1);
}

/*
 * The engine copies folio 0; then a holder of a reference writes to it and
 * lets go. The second attempt must not use the first one's copy.
 */
static void retry_copies_afresh(struct kunit *test)
{
	struct fixture *fx = test->priv;
	u8 *p;

	migrate_kunit_prepare(test, FAULT_TAKE_REF);
	KUNIT_EXPECT_EQ(test, migrate_kunit_migrate(fx, MR_SYSCALL), NR_FOLIOS);
	KUNIT_EXPECT_PTR_EQ(test, fx->engine.src0, NULL);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_moved(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS - 1);
	p = folio_address(migrate_kunit_folio_of(fx, NR_FOLIOS - 1));
	KUNIT_EXPECT_EQ(test, p[0], 0x55);
	KUNIT_EXPECT_EQ(test, p[PAGE_SIZE - 1], 0x55);
}

/* Puts a mapped folio of another file between those of the fixture's */
static struct file *add_mapped_folio(struct kunit *test)
{
	struct file *file = shmem_file_setup("migrate_kunit2", PAGE_SIZE,
					     EMPTY_VMA_FLAGS);
	struct fixture *fx = test->priv;
	struct folio *folio;
	unsigned long addr;
	char byte;

	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	addr = kunit_vm_mmap(test, file, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_SHARED, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_EQ(test, put_user(1, (char __user *)addr), 0);
	KUNIT_ASSERT_EQ(test, get_user(byte, (char __user *)addr), 0);
	folio = shmem_read_folio(file->f_mapping, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(folio));
	KUNIT_ASSERT_TRUE(test, folio_mapped(folio));
	lru_add_drain_all();
	KUNIT_ASSERT_TRUE(test, isolate_folio_to_list(folio, &fx->list));
	/* After one chunk and a half */
	list_move(&folio->lru, &fx->before[migrate_kunit_small().chunk_pages * 3 / 2]->lru);
	folio_put(folio);
	return file;
}

static void locked_rmap_is_not_waited_for(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct task_struct *task;
	unsigned int i, ms;
	struct file *file;

	migrate_kunit_prepare(test, FAULT_SLOW);
	file = add_mapped_folio(test);
	i_mmap_lock_write(file->f_mapping);
	task = migrate_kunit_in_thread(test);
	/* Linux itself may wait, but for this one folio alone */
	for (i = 0, ms = 0; i < NR_FOLIOS && ms < 20000; ms += 20) {
		for (; i < NR_FOLIOS && migrate_kunit_has_moved(fx, i); i++)
			;
		msleep(20);
	}
	KUNIT_EXPECT_EQ(test, i, NR_FOLIOS);
	KUNIT_EXPECT_FALSE(test, completion_done(&fx->migrated));
	i_mmap_unlock_write(file->f_mapping);
	KUNIT_EXPECT_TRUE(test, migrate_kunit_ended_in_time(fx, task));
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
	fput(file);
}

static struct kunit_case migrate_offload_pipeline_cases[] = {
	KUNIT_CASE(engine_copies_every_folio),
	KUNIT_CASE(out_of_order_completion_is_right),
	KUNIT_CASE(engine_that_says_nothing_is_looked_at),
	KUNIT_CASE(engine_that_ends_unseen_is_done),
	KUNIT_CASE(next_call_is_told_if_this_one_has_waited),
	KUNIT_CASE(window_is_never_exceeded),
	KUNIT_CASE(chosen_chunk_is_not_cut),
	KUNIT_CASE(no_more_is_unmapped_than_fits_the_target),
	KUNIT_CASE(more_is_unmapped_if_it_fits_the_target),
	KUNIT_CASE(chunk_is_alone_beside_an_engine),
	KUNIT_CASE(chunk_is_not_alone_with_the_task),
	KUNIT_CASE(chunks_share_a_flush_if_it_is_dear),
	KUNIT_CASE(next_call_knows_that_flushes_are_dear),
	KUNIT_CASE(small_engine_is_given_chunk_by_chunk),
	KUNIT_CASE(no_more_than_a_chunk_waits_for_the_caller),
	KUNIT_CASE(busy_engine_falls_back_to_cpu),
	KUNIT_CASE(nothing_is_unmapped_for_a_full_engine),
	KUNIT_CASE(refused_folios_do_not_wait_for_the_engine),
	KUNIT_CASE(folios_do_not_wait_for_others_of_their_chunk),
	KUNIT_CASE(nothing_is_unmapped_while_memory_is_allocated),
	KUNIT_CASE(memory_without_a_wait_keeps_the_engine_busy),
	KUNIT_CASE(caller_that_never_waits_goes_on_so),
	KUNIT_CASE(memory_is_waited_for_with_nothing_unmapped),
	KUNIT_CASE(folio_without_memory_is_alone),
	KUNIT_CASE(part_without_room_is_copied_by_cpu),
	KUNIT_CASE(poisoned_source_fails_alone),
	KUNIT_CASE(engine_that_is_gone_is_asked_no_more),
	KUNIT_CASE(engine_that_is_out_of_service_is_not_used),
	KUNIT_CASE(locked_rmap_is_not_waited_for),
	KUNIT_CASE(failed_copy_is_never_used),
	KUNIT_CASE(one_failed_part_fails_the_copy),
	KUNIT_CASE(extra_reference_keeps_folio_from_engine),
	KUNIT_CASE(retry_copies_afresh),
	{}
};

static struct kunit_suite migrate_offload_pipeline_suite = {
	.name = "migrate_offload",
	.init = migrate_kunit_init,
	.exit = migrate_kunit_exit,
	.test_cases = migrate_offload_pipeline_cases,
};

kunit_test_suite(migrate_offload_pipeline_suite);
