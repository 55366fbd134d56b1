// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the tests of the copy offload share: an engine, and shmem folios that are
 * migrated for real.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/kthread.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/swap.h>

#include "../../internal.h"
#include "../../migrate_compat.h"
#include "../hooks.h"
#include "../internal.h"
#include "kunit_engine.h"

/* Asks no lock: a folio that is on its way is locked */
bool migrate_kunit_has_moved(struct fixture *fx, pgoff_t index)
{
	struct folio *folio = filemap_get_folio(fx->file->f_mapping, index);
	bool moved = folio != fx->before[index];

	if (!IS_ERR(folio))
		folio_put(folio);
	return moved;
}

/* Folios on their way that this engine was not given */
unsigned int migrate_kunit_nr_of_others(struct fixture *fx)
{
	unsigned int i, nr = 0;

	for (i = 0; i < NR_FOLIOS; i++)
		nr += !test_bit(i, fx->engine.given) && !migrate_kunit_has_moved(fx, i) &&
		      folio_test_locked(fx->before[i]);
	return nr;
}

static u8 pattern(pgoff_t index, size_t offset)
{
	return index * 31 + offset * 7 + (offset >> 8);
}

static void fill(struct folio *folio, pgoff_t index)
{
	u8 *p = folio_address(folio);
	size_t i;

	for (i = 0; i < PAGE_SIZE; i++)
		p[i] = pattern(index, i);
}

static bool intact(struct folio *folio, pgoff_t index)
{
	u8 *p = folio_address(folio);
	size_t i;

	for (i = 0; i < PAGE_SIZE; i++)
		if (p[i] != pattern(index, i))
			return false;
	return true;
}

struct folio *migrate_kunit_folio_of(struct fixture *fx, pgoff_t index)
{
	struct folio *folio = shmem_read_folio(fx->file->f_mapping, index);

	/* The page cache keeps it; nobody truncates the file */
	if (!IS_ERR(folio))
		folio_put(folio);
	return folio;
}

/* A source whose extra reference was dropped, and whose bytes changed before */
static struct folio *new_folio(struct folio *src, unsigned long private)
{
	struct fixture *fx = (struct fixture *)private;
	unsigned int i;

	/* Those that Linux asks for later are not ours */
	for (i = 0; fx->nr_new < NR_FOLIOS && i < NR_FOLIOS; i++)
		fx->nr_locked += !fx->target.nowait && !migrate_kunit_has_moved(fx, i) &&
				 folio_test_locked(fx->before[i]);
	if (fx->target.nowait && fx->all_waits)
		return NULL;
	fx->asked[src->index]++;
	if (fx->memory_blocks) {
		complete(&fx->blocked);
		wait_for_completion(&fx->unblock);
		return NULL;
	}
	if (src == fx->no_memory) {
		fx->no_memory = NULL;
		return NULL;
	}
	if (++fx->nr_new > NR_FOLIOS && fx->engine.fault == FAULT_TAKE_REF &&
	    src == fx->engine.src0) {
		memset(folio_address(src), 0x55, PAGE_SIZE);
		folio_put(src);
		fx->engine.src0 = NULL;
	}
	return folio_alloc(GFP_HIGHUSER_MOVABLE, folio_order(src));
}

struct migration_target_control *
migrate_kunit_target_of(new_folio_t get_new_folio, unsigned long private)
{
	struct fixture *fx = (struct fixture *)private;

	return get_new_folio == new_folio ? &fx->target : NULL;
}

unsigned int migrate_kunit_migrate(struct fixture *fx, enum migrate_reason reason)
{
	unsigned int nr = 0;

	migrate_pages(&fx->list, new_folio, NULL, (unsigned long)fx,
		      MIGRATE_ASYNC, reason, &nr);
	if (!list_empty(&fx->list))
		putback_movable_pages(&fx->list);
	return nr;
}

unsigned int migrate_kunit_nr_intact(struct fixture *fx)
{
	unsigned int i, n = 0;

	for (i = 0; i < NR_FOLIOS; i++)
		n += intact(migrate_kunit_folio_of(fx, i), i);
	return n;
}

unsigned int migrate_kunit_nr_moved(struct fixture *fx)
{
	unsigned int i, n = 0;

	for (i = 0; i < NR_FOLIOS; i++)
		n += migrate_kunit_folio_of(fx, i) != fx->before[i];
	return n;
}

int migrate_kunit_apply(struct migrate_offload_settings s)
{
	return set(target_us, s.target_us) ?:
	       set(chunk_pages, 0) ?: set(window_pages, s.window_pages) ?:
	       set(chunk_pages, s.chunk_pages) ?:
	       set(stripe_bytes, s.stripe_bytes) ?:
	       set(min_bytes, s.min_bytes) ?: set(reasons, s.reasons) ?:
	       set(deadline_ms, s.deadline_ms) ?:
	       set(engine_always, s.engine_always);
}

static struct migrate_offload_settings current_settings(void)
{
	return (struct migrate_offload_settings) {
		.reasons = get(reasons),
		.min_bytes = get(min_bytes),
		.target_us = get(target_us),
		.window_pages = get(window_pages),
		.chunk_pages = get(chunk_pages),
		.stripe_bytes = get(stripe_bytes),
		.deadline_ms = get(deadline_ms),
		.engine_always = get(engine_always),
	};
}

struct migrate_offload_settings migrate_kunit_small(void)
{
	return (struct migrate_offload_settings) {
		.reasons = MIGRATE_OFFLOAD_ALL_REASONS,
		.min_bytes = PAGE_SIZE,
		.window_pages = 16,
		.chunk_pages = 4,
		/* Longer than what is slow here takes on any machine */
		.deadline_ms = MIGRATE_OFFLOAD_MAX_DEADLINE_MS,
	};
}

void migrate_kunit_isolate(struct kunit *test)
{
	struct fixture *fx = test->priv;
	unsigned int i;

	for (i = 0; i < NR_FOLIOS; i++) {
		fx->before[i] = migrate_kunit_folio_of(fx, i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(fx->before[i]));
		fill(fx->before[i], i);
	}
	lru_add_drain_all();
	for (i = 0; i < NR_FOLIOS; i++)
		KUNIT_ASSERT_TRUE(test, isolate_folio_to_list(fx->before[i],
							      &fx->list));
}

/* An active engine, and 64 folios with known contents that are isolated */
void migrate_kunit_prepare(struct kunit *test, enum fault fault)
{
	struct fixture *fx = test->priv;

	fx->engine.fault = fault;
	KUNIT_ASSERT_EQ(test, 0, migrate_offload_activate(ENGINE_NAME));
	KUNIT_ASSERT_EQ(test, 0, migrate_kunit_apply(migrate_kunit_small()));
	migrate_kunit_isolate(test);
}

/* What every fault has in common: all bytes right, all folios moved */
void migrate_kunit_expect_all_moved(struct kunit *test)
{
	struct fixture *fx = test->priv;

	KUNIT_EXPECT_EQ(test, migrate_kunit_migrate(fx, MR_SYSCALL), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_moved(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_kunit_nr_intact(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, atomic_read(&fx->engine.nr_inflight), 0);
}

int migrate_kunit_thread(void *data)
{
	struct fixture *fx = data;

	migrate_kunit_migrate(fx, MR_SYSCALL);
	complete(&fx->migrated);
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

/* Migrates in a thread: one that hangs shall fail, and not hang the test */
struct task_struct *migrate_kunit_in_thread(struct kunit *test)
{
	struct task_struct *task;

	task = kthread_run(migrate_kunit_thread, test->priv, "migrate_kunit");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	return task;
}

/* Return: false if the migration did not end without the engine */
bool migrate_kunit_ended_in_time(struct fixture *fx, struct task_struct *task)
{
	bool ended = wait_for_completion_timeout(&fx->migrated, 20 * HZ);

	if (!ended) {
		/* What is submitted after this, too */
		WRITE_ONCE(fx->engine.fault, FAULT_NONE);
		do
			migrate_kunit_engine_drain(&fx->engine);
		while (!wait_for_completion_timeout(&fx->migrated, HZ / 10));
	}
	kthread_stop(task);
	return ended;
}

bool migrate_kunit_in_service(struct kunit *test)
{
	char *page = (char *)__get_free_page(GFP_KERNEL);
	bool yes;

	KUNIT_ASSERT_NOT_NULL(test, page);
	migrate_offload_show_in_service(page);
	yes = !strcmp(page, "1\n");
	free_page((unsigned long)page);
	return yes;
}

int migrate_kunit_init(struct kunit *test)
{
	struct fixture *fx = kunit_kzalloc(test, sizeof(*fx), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, fx);
	test->priv = fx;
	INIT_LIST_HEAD(&fx->list);
	migrate_kunit_engine_init(&fx->engine);
	fx->saved = current_settings();
	init_completion(&fx->migrated);
	init_completion(&fx->blocked);
	init_completion(&fx->unblock);
	fx->file = shmem_file_setup("migrate_kunit", NR_FOLIOS * PAGE_SIZE,
				    EMPTY_VMA_FLAGS);
	KUNIT_ASSERT_FALSE(test, IS_ERR(fx->file));
	KUNIT_ASSERT_EQ(test, 0, migrate_offload_register(&fx->engine.m));
	fx->registered = true;
	return 0;
}

void migrate_kunit_exit(struct kunit *test)
{
	struct fixture *fx = test->priv;

	if (!fx)
		return;
	if (fx->registered)
		migrate_offload_unregister(&fx->engine.m);
	cancel_delayed_work_sync(&fx->engine.work);
	migrate_kunit_engine_end_late(&fx->engine);
	migrate_offload_reap();
	if (!list_empty(&fx->list))
		putback_movable_pages(&fx->list);
	if (!IS_ERR_OR_NULL(fx->file))
		fput(fx->file);
	migrate_offload_activate("none");
	migrate_kunit_apply(fx->saved);
}
