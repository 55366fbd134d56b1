// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the copy offload: shmem folios are migrated for real, with an
 * engine that copies, fails, stalls or completes out of order on command.
 *
 * Not tested here: page tables (most folios are not mapped), DMA, and poison
 * that the hardware reports. See tools/testing/selftests/migrate_offload.
 */
#include <kunit/static_stub.h>
#include <kunit/test-bug.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/huge_mm.h>
#include <linux/kthread.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/page-flags.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/suspend.h>
#include <linux/swap.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "../internal.h"
#include "eligible.h"
#include "hooks.h"
#include "internal.h"

#define NR_FOLIOS	64
#define ENGINE_NAME	"kunit"
#define ENGINE_ROOM	2
#define ENGINE_FINE	4
#define CREEP_CHUNK	2	/* half of the least quota */
#define CREEP_MS	50

enum fault {
	FAULT_NONE,		/* copy at once */
	FAULT_REVERSE,		/* copy at flush(), the last one first */
	FAULT_SLOW,		/* copy 50 ms after flush() */
	FAULT_CREEP,		/* the same with one copy only, the oldest */
	FAULT_IDLE,		/* copy only in help() */
	FAULT_BUSY,		/* refuse */
	FAULT_FULL,		/* as slow, with room for ENGINE_ROOM folios */
	FAULT_IO,		/* scribble over the destination, then fail */
	FAULT_ONE_PART,		/* three parts, the second one fails */
	FAULT_STUCK,		/* give up, and keep the destination */
	FAULT_TAKE_REF,		/* copy; then somebody else takes a reference */
	FAULT_POISON,		/* the first source is poisoned */
	FAULT_HALF_SLOW,	/* of four, two at once and two after 50 ms */
	FAULT_NEVER,		/* after ENGINE_FINE copies, end nothing more */
	FAULT_HALF_NEVER,	/* the same with every second one */
	FAULT_PART_REFUSED,	/* two parts, there is no room for the second */
	FAULT_GONE,		/* there is nothing to copy with any more */
};

struct engine {
	struct migrator m;
	enum fault fault;
	spinlock_t lock;		/* of the queue */
	struct list_head queue;
	struct delayed_work work;
	struct folio *refused;		/* src that must never be submitted */
	struct folio *src0;		/* first source submitted */
	struct folio *stuck[NR_FOLIOS];
	unsigned int nr_stuck;
	unsigned int nr_submitted;
	unsigned int nr_flushed;
	atomic_t nr_inflight;
	unsigned int max_inflight;
	bool saw_refused;
	int start_error;
	int nr_started;			/* less what was stopped */
	bool in_service;
	pgoff_t early[NR_FOLIOS];	/* need not wait for the slow work */
	unsigned int nr_early;
	unsigned int nr_early_done;	/* of these, in chunks of earlier works */
	unsigned int nr_early_moved;	/* most at the beginning of a slow work */
	unsigned int nr_early_inflight;	/* when the first slow work began */
	DECLARE_BITMAP(given, NR_FOLIOS);
	unsigned int nr_crept;
	unsigned int nr_beside;		/* folios of others while it creeps */
};

struct fixture {
	struct engine engine;
	struct file *file;
	struct folio *before[NR_FOLIOS];
	struct migrate_offload_settings saved;
	struct list_head list;
	unsigned int nr_new;
	unsigned int nr_locked;		/* sources, when memory was waited for */
	unsigned int nr_flushes;
	unsigned int nr_alone;		/* chunks that had no second, but could */
	struct migration_target_control target;
	bool all_waits;			/* there is no memory without a wait */
	struct folio *no_memory;	/* src that gets no memory at first */
	unsigned int asked[NR_FOLIOS];	/* how often for which source */
	bool memory_blocks;		/* and then there is none */
	struct completion blocked;
	struct completion unblock;
	struct completion migrated;
	bool registered;
};

static void scribble(struct folio *folio)
{
	memset(folio_address(folio), 0xee, folio_size(folio));
}

static void engine_copy(struct engine *e, struct migrate_copy *copy)
{
	int error = folio_mc_copy(copy->dst, copy->src);

	atomic_dec(&e->nr_inflight);
	migrate_copy_done(copy, error);
}

static struct migrate_copy *engine_pop(struct engine *e)
{
	struct migrate_copy *copy = NULL;

	spin_lock(&e->lock);
	if (!list_empty(&e->queue)) {
		copy = list_last_entry(&e->queue, struct migrate_copy, node);
		list_del(&copy->node);
	}
	spin_unlock(&e->lock);
	return copy;
}

/* What is submitted meanwhile has a time of its own */
static void engine_drain(struct engine *e)
{
	struct migrate_copy *copy;
	LIST_HEAD(queue);

	spin_lock(&e->lock);
	list_splice_init(&e->queue, &queue);
	spin_unlock(&e->lock);
	while (!list_empty(&queue)) {
		copy = list_last_entry(&queue, struct migrate_copy, node);
		list_del(&copy->node);
		engine_copy(e, copy);
	}
}

/* Asks no lock: a folio that is on its way is locked */
static bool has_moved(struct fixture *fx, pgoff_t index)
{
	struct folio *folio = filemap_get_folio(fx->file->f_mapping, index);
	bool moved = folio != fx->before[index];

	if (!IS_ERR(folio))
		folio_put(folio);
	return moved;
}

/* Folios on their way that this engine was not given */
static unsigned int nr_of_others(struct fixture *fx)
{
	unsigned int i, nr = 0;

	for (i = 0; i < NR_FOLIOS; i++)
		nr += !test_bit(i, fx->engine.given) && !has_moved(fx, i) &&
		      folio_test_locked(fx->before[i]);
	return nr;
}

static void engine_creep(struct work_struct *work)
{
	struct engine *e = container_of(work, struct engine, work.work);
	struct migrate_copy *copy;

	spin_lock(&e->lock);
	copy = list_first_entry_or_null(&e->queue, struct migrate_copy, node);
	if (copy)
		list_del(&copy->node);
	spin_unlock(&e->lock);
	if (!copy)
		return;
	/* The first chunk is done: whoever comes next has been chosen */
	if (e->nr_crept >= CREEP_CHUNK)
		e->nr_beside +=
			nr_of_others(container_of(e, struct fixture, engine));
	e->nr_crept++;
	engine_copy(e, copy);
	schedule_delayed_work(&e->work, msecs_to_jiffies(CREEP_MS));
}

static void engine_work(struct work_struct *work)
{
	struct engine *e = container_of(work, struct engine, work.work);
	struct fixture *fx = container_of(e, struct fixture, engine);
	unsigned int i, nr = 0, end = READ_ONCE(e->nr_early);

	/* Those of chunks that are done with have moved in any case */
	for (i = e->nr_early_done; i < end; i++)
		nr += has_moved(fx, e->early[i]);
	e->nr_early_moved = max(e->nr_early_moved, nr);
	e->nr_early_done = end;
	if (!e->nr_early_inflight)
		e->nr_early_inflight = atomic_read(&e->nr_inflight);
	engine_drain(e);
}

static void engine_limits(struct migrator *m, struct migrate_offload_limits *l)
{
	l->inflight_bytes = SZ_1M;
	l->min_bytes = PAGE_SIZE;
	l->stripe_bytes = PAGE_SIZE;
}

static void engine_fail(struct engine *e, struct migrate_copy *copy, int error)
{
	scribble(copy->dst);
	atomic_dec(&e->nr_inflight);
	migrate_copy_done(copy, error);
}

static void engine_push(struct engine *e, struct migrate_copy *copy)
{
	spin_lock(&e->lock);
	list_add_tail(&copy->node, &e->queue);
	spin_unlock(&e->lock);
}

static void engine_note_early(struct engine *e, struct migrate_copy *copy)
{
	if (e->nr_early < NR_FOLIOS)
		e->early[e->nr_early++] = copy->src->index;
}

static int engine_submit(struct migrator *m, struct migrate_copy *copy)
{
	struct engine *e = container_of(m, struct engine, m);

	e->saw_refused |= copy->src == e->refused;
	if (e->fault == FAULT_BUSY)
		return -EBUSY;
	if (e->fault == FAULT_GONE && e->nr_submitted == ENGINE_ROOM)
		return -ENODEV;
	if (e->fault == FAULT_FULL &&
	    atomic_read(&e->nr_inflight) == ENGINE_ROOM) {
		engine_note_early(e, copy);
		return -EBUSY;
	}
	if (!e->nr_submitted++)
		e->src0 = copy->src;
	set_bit(copy->src->index, e->given);
	atomic_inc(&e->nr_inflight);
	e->max_inflight = max_t(unsigned int, e->max_inflight,
				atomic_read(&e->nr_inflight));
	switch (e->fault) {
	case FAULT_REVERSE:
	case FAULT_SLOW:
	case FAULT_CREEP:
	case FAULT_FULL:
	case FAULT_IDLE:
		engine_push(e, copy);
		break;
	case FAULT_HALF_SLOW:
		if ((e->nr_submitted - 1) % 4 >= 2) {
			engine_push(e, copy);
			break;
		}
		engine_note_early(e, copy);
		engine_copy(e, copy);
		break;
	case FAULT_NEVER:
	case FAULT_HALF_NEVER:
		if (e->nr_submitted <= ENGINE_FINE ||
		    (e->fault == FAULT_HALF_NEVER && e->nr_submitted % 2))
			engine_copy(e, copy);
		else
			engine_push(e, copy);
		break;
	case FAULT_PART_REFUSED:
		migrate_copy_split(copy, 2);
		migrate_copy_done(copy, -EBUSY);
		engine_fail(e, copy, 0);
		break;
	case FAULT_POISON:
		if (copy->src == e->src0)
			engine_fail(e, copy, -EHWPOISON);
		else
			engine_copy(e, copy);
		break;
	case FAULT_IO:
		engine_fail(e, copy, -EIO);
		break;
	case FAULT_ONE_PART:
		migrate_copy_split(copy, 3);
		migrate_copy_done(copy, 0);
		migrate_copy_done(copy, -EIO);
		engine_fail(e, copy, 0);
		break;
	case FAULT_STUCK:
		folio_get(copy->dst);
		e->stuck[e->nr_stuck++] = copy->dst;
		engine_fail(e, copy, -ETIMEDOUT);
		break;
	case FAULT_TAKE_REF:
		if (copy->src == e->src0)
			folio_get(copy->src);
		fallthrough;
	default:
		engine_copy(e, copy);
	}
	return 0;
}

/* It gets at its copies when the destinations are of no use any more */
static void engine_end_late(struct engine *e)
{
	struct migrate_copy *copy;

	while ((copy = engine_pop(e))) {
		folio_mc_copy(copy->dst, copy->src);
		engine_fail(e, copy, 0);
	}
}

static bool engine_flush(struct migrator *m, void *call)
{
	struct engine *e = container_of(m, struct engine, m);

	e->nr_flushed++;
	if (e->fault == FAULT_REVERSE)
		engine_drain(e);
	else if (e->fault == FAULT_SLOW || e->fault == FAULT_FULL ||
		 e->fault == FAULT_HALF_SLOW || e->fault == FAULT_CREEP)
		schedule_delayed_work(&e->work, msecs_to_jiffies(CREEP_MS));
	return e->fault != FAULT_IDLE;
}

static bool engine_help(struct migrator *m, void *call)
{
	struct engine *e = container_of(m, struct engine, m);
	struct migrate_copy *copy;

	copy = e->fault == FAULT_IDLE ? engine_pop(e) : NULL;
	if (copy)
		engine_copy(e, copy);
	return copy;
}

static int engine_start(struct migrator *m)
{
	struct engine *e = container_of(m, struct engine, m);

	if (!e->start_error)
		e->nr_started++;
	return e->start_error;
}

static void engine_stop(struct migrator *m)
{
	struct engine *e = container_of(m, struct engine, m);

	/* But for what is overdue, nobody may wait for a copy any more */
	WARN_ON(atomic_read(&e->nr_inflight) >
		atomic_long_read(&m->stats->overdue));
	e->nr_started--;
}

static bool engine_in_service(struct migrator *m)
{
	return container_of(m, struct engine, m)->in_service;
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

static struct folio *folio_of(struct fixture *fx, pgoff_t index)
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
		fx->nr_locked += !fx->target.nowait && !has_moved(fx, i) &&
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

static struct migration_target_control *
target_of(new_folio_t get_new_folio, unsigned long private)
{
	struct fixture *fx = (struct fixture *)private;

	return get_new_folio == new_folio ? &fx->target : NULL;
}

static unsigned int run_migration(struct fixture *fx, enum migrate_reason reason)
{
	unsigned int nr = 0;

	migrate_pages(&fx->list, new_folio, NULL, (unsigned long)fx,
		      MIGRATE_ASYNC, reason, &nr);
	if (!list_empty(&fx->list))
		putback_movable_pages(&fx->list);
	complete(&fx->migrated);
	return nr;
}

static unsigned int nr_intact(struct fixture *fx)
{
	unsigned int i, n = 0;

	for (i = 0; i < NR_FOLIOS; i++)
		n += intact(folio_of(fx, i), i);
	return n;
}

static unsigned int nr_moved(struct fixture *fx)
{
	unsigned int i, n = 0;

	for (i = 0; i < NR_FOLIOS; i++)
		n += folio_of(fx, i) != fx->before[i];
	return n;
}

#define get(field) \
	migrate_offload_get(offsetof(struct migrate_offload_settings, field))
#define set(field, value) \
	migrate_offload_set(offsetof(struct migrate_offload_settings, field), \
			    value)

static int apply(struct migrate_offload_settings s)
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

static struct migrate_offload_settings small(void)
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

static void isolate(struct kunit *test)
{
	struct fixture *fx = test->priv;
	unsigned int i;

	for (i = 0; i < NR_FOLIOS; i++) {
		fx->before[i] = folio_of(fx, i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(fx->before[i]));
		fill(fx->before[i], i);
	}
	lru_add_drain_all();
	for (i = 0; i < NR_FOLIOS; i++)
		KUNIT_ASSERT_TRUE(test, isolate_folio_to_list(fx->before[i],
							      &fx->list));
}

/* An active engine, and 64 folios with known contents that are isolated */
static void prepare(struct kunit *test, enum fault fault)
{
	struct fixture *fx = test->priv;

	fx->engine.fault = fault;
	KUNIT_ASSERT_EQ(test, 0, migrate_offload_activate(ENGINE_NAME));
	KUNIT_ASSERT_EQ(test, 0, apply(small()));
	isolate(test);
}

static struct migrate_offload_state *state_of_now(void)
{
	return rcu_access_pointer(migrate_offload_state);
}

/* What every fault has in common: all bytes right, all folios moved */
static void expect_all_moved(struct kunit *test)
{
	struct fixture *fx = test->priv;

	KUNIT_EXPECT_EQ(test, run_migration(fx, MR_SYSCALL), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, nr_moved(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, atomic_read(&fx->engine.nr_inflight), 0);
}

static void engine_copies_every_folio(struct kunit *test)
{
	struct fixture *fx = test->priv;
	unsigned long before = migrate_offload_stat(STAT_FOLIOS);

	prepare(test, FAULT_NONE);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FOLIOS) - before,
			NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&fx->engine.m.stats->bytes),
			NR_FOLIOS * PAGE_SIZE);
}

static void out_of_order_completion_is_right(struct kunit *test)
{
	prepare(test, FAULT_REVERSE);
	expect_all_moved(test);
}

/* The ring has room for 12 pages, so that it is not the ring that bounds */
static void window_is_never_exceeded(struct kunit *test)
{
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;

	prepare(test, FAULT_SLOW);
	s.window_pages = 10;
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.max_inflight, 10);
}

/* What an administrator chooses is not cut for the target */
static void chosen_chunk_is_not_cut(struct kunit *test)
{
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;

	prepare(test, FAULT_SLOW);
	s.chunk_pages = s.window_pages;
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_flushed,
			NR_FOLIOS / s.chunk_pages);
}

/* How much is in flight at most, where a chunk takes 50 ms */
static unsigned int most_for_target(struct kunit *test, unsigned long target_us)
{
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;

	prepare(test, FAULT_SLOW);
	s.window_pages = 0;
	s.target_us = target_us;
	s.engine_always = 1;
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	expect_all_moved(test);
	return fx->engine.max_inflight;
}

static void no_more_is_unmapped_than_fits_the_target(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, most_for_target(test, 1), small().chunk_pages);
}

static void more_is_unmapped_if_it_fits_the_target(struct kunit *test)
{
	KUNIT_EXPECT_GT(test,
			most_for_target(test, MIGRATE_OFFLOAD_MAX_TARGET_US),
			small().chunk_pages);
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
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_flush_pages,
				   cheap_flushes);
	kunit_activate_static_stub(test, migrate_offload_quota, one_page);
	prepare(test, fault);
	s.window_pages = 0;
	s.engine_always = 1;
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	expect_all_moved(test);
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
	return 4 * small().chunk_pages;
}

/* The target cannot be met: then there are at least not many flushes */
static void chunks_share_a_flush_if_it_is_dear(struct kunit *test)
{
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, target_of);
	kunit_activate_static_stub(test, migrate_offload_flush_pages,
				   dear_flushes);
	KUNIT_EXPECT_EQ(test, most_for_target(test, 1),
			4 * small().chunk_pages);
	/* The first is not known to be */
	KUNIT_EXPECT_GE(test, fx->nr_flushes, 1 + NR_FOLIOS / 16);
	KUNIT_EXPECT_LE(test, fx->nr_flushes, 2 + NR_FOLIOS / 16);
}

static void next_call_knows_that_flushes_are_dear(struct kunit *test)
{
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, target_of);
	kunit_activate_static_stub(test, migrate_offload_flush_pages,
				   dear_flushes);
	most_for_target(test, 1);
	fx->nr_flushes = 0;
	isolate(test);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->nr_flushes, NR_FOLIOS / 16);
}

/* What it has no room for, the CPU would copy with all of it unmapped */
static void small_engine_is_given_chunk_by_chunk(struct kunit *test)
{
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, target_of);
	kunit_activate_static_stub(test, migrate_offload_flush_pages,
				   dear_flushes);
	prepare(test, FAULT_FULL);
	s.window_pages = 0;
	s.engine_always = 1;
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	expect_all_moved(test);
	/* It had room for the first chunk, and not for those that came next */
	KUNIT_EXPECT_EQ(test, fx->nr_flushes, 2);
}

static void dear_flushes_are_for_many_pages(struct kunit *test)
{
	struct migrate_offload_state state = {
		.target_us = 500, .chunk_pages = 128, .window_pages = 1024,
	};

#define expect_flush_pages(_nr, _wanted, _unmap_us, _flush_us, _pages)	\
	KUNIT_EXPECT_EQ(test, migrate_offload_flush_pages(&state, _nr,	\
			_wanted, 1000 * (_unmap_us),			\
			1000 * (_flush_us)), _pages)

	expect_flush_pages(64, 0, 80, 80, 0);
	/* It takes longer than all that it is for */
	expect_flush_pages(64, 0, 80, 90, 128);
	expect_flush_pages(128, 128, 80, 90, 256);
	expect_flush_pages(512, 512, 80, 90, 512);
	/* There were no more, or it does not matter for the target */
	expect_flush_pages(5, 512, 80, 90, 512);
	expect_flush_pages(64, 0, 8, 30, 0);
	/* Neither dear nor cheap */
	expect_flush_pages(512, 512, 80, 80, 512);
	expect_flush_pages(512, 512, 80, 20, 512);
	expect_flush_pages(512, 512, 80, 10, 256);
	expect_flush_pages(128, 128, 80, 10, 0);
	state.window_pages = 200;
	expect_flush_pages(128, 128, 80, 90, 200);
	state.target_us = 0;
	expect_flush_pages(128, 128, 80, 90, 0);
}

/* --- how deep --- */

/* 96 MiB, and what probes take of it */
#define DEPTH_CALL	((SZ_64M + SZ_32M) >> PAGE_SHIFT)
#define DEPTH_SHALLOW	(SZ_32M >> PAGE_SHIFT)

/* A stretch of which each page that has moved took so long. Return: was it deep? */
static bool depth_stretch(struct migrate_offload_state *state,
			  unsigned long pages, unsigned long moved, u64 ns)
{
	struct migrate_stretch stretch;

	migrate_stretch_begin(&stretch, state, 0, pages, 1000);
	stretch.pages = min(pages, stretch.pages_left);
	stretch.pages_moved = min(moved, stretch.pages);
	migrate_stretch_end(&stretch, state, 1000 + ns * stretch.pages);
	return stretch.deep;
}

static void deep_where_it_pays(struct kunit *test)
{
	struct migrate_offload_state state = { .may_deepen = true, .deadline = HZ };
	unsigned long all = DEPTH_CALL;

	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 70));
	/* By more than an eighth */
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 72));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 73));
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	/* Nor where the CPU is cheaper */
	state.depth[0].ns[true] = 40;
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 40));
	state.costs[false][0].cpu_ns = 40;
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	/* Nor where all might miss the deadline */
	state.costs[false][0].cpu_ns = 0;
	state.depth[0].ns[true] = 20;
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 20));
	state.deadline = 1;
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	/* Whoever has chosen the parts has them */
	state.deadline = HZ;
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 20));
	state.may_deepen = false;
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
}

static void shallow_where_copies_are_void(struct kunit *test)
{
	struct migrate_offload_state state = { .may_deepen = true, .deadline = HZ };
	unsigned long all = DEPTH_CALL;

	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all, 40));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all / 4, 40));
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, all, all / 4, 40));
	KUNIT_EXPECT_FALSE(test, depth_stretch(&state, all, all, 80));
}

static void deep_is_nothing_for_a_small_call(struct kunit *test)
{
	struct migrate_offload_state state = { .may_deepen = true, .deadline = HZ };
	struct migrate_stretch stretch;
	unsigned long all = DEPTH_CALL;

	depth_stretch(&state, all, all, 80);
	depth_stretch(&state, all, all, 40);
	KUNIT_EXPECT_TRUE(test, depth_stretch(&state, DEPTH_SHALLOW, all, 40));
	migrate_stretch_begin(&stretch, &state, 0, DEPTH_SHALLOW - 1, 0);
	KUNIT_EXPECT_FALSE(test, stretch.deep);
	KUNIT_EXPECT_EQ(test, stretch.pages_left, ULONG_MAX);
	/* And teaches nothing */
	stretch.pages = DEPTH_SHALLOW - 1;
	stretch.pages_moved = stretch.pages;
	migrate_stretch_end(&stretch, &state, stretch.pages);
	KUNIT_EXPECT_EQ(test, state.depth[0].ns[false], 80);
}

static void other_depth_is_tried_again(struct kunit *test)
{
	struct migrate_offload_state state = { .may_deepen = true, .deadline = HZ };
	unsigned long all = DEPTH_CALL;
	struct migrate_stretch stretch;

	depth_stretch(&state, all, all, 80);
	depth_stretch(&state, all, all, 90);
	state.depth[0].tried = jiffies - 10 * HZ;
	migrate_stretch_begin(&stretch, &state, 0, all, 0);
	KUNIT_EXPECT_TRUE(test, stretch.deep);
	KUNIT_EXPECT_EQ(test, stretch.pages_left, MIGRATE_DEEP_PAGES);
	migrate_stretch_begin(&stretch, &state, 0, all, 0);
	KUNIT_EXPECT_FALSE(test, stretch.deep);
	KUNIT_EXPECT_EQ(test, stretch.pages_left, ULONG_MAX);
}

/* Settled, if each chunk takes as long as what is unmapped takes the engine */
static unsigned long settled_quota(const struct migrate_offload_state *state,
				   unsigned long quota, u64 ns_per_page)
{
	unsigned int i;

	for (i = 0; i < 40; i++)
		quota = migrate_offload_quota(state, quota, quota, 0, false,
					      quota * ns_per_page);
	return quota;
}

static void quota_is_what_the_engine_does_in_time(struct kunit *test)
{
	struct migrate_offload_state state = {
		.target_us = 500,
		.window_pages = 1024,
		.chunk_pages = 128,
	};

	/* 500 us are 250 pages of 2 us, whatever it began with */
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 128, 2000), 249);
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 1024, 2000), 250);
	/* A fast engine gets all, a slow one no less than is worth a flush */
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 128, 200), 1024);
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 1024, 100000), 128);
	KUNIT_EXPECT_EQ(test, migrate_offload_first_quota(&state), 128);
	/* What is known first counts in whole */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 0, 128, 0,
						    false, 128000), 500);
	/* And never less than should share a flush */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 0, 128, 512,
						    false, 128000), 512);
	state.chunk_pages = 4;
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 1024, 100000), 5);
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 1024, 1000000), 4);
	/* Once interrupted for a second it loses a half */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 250, 250, 0,
						    false, NSEC_PER_SEC), 125);
	/* No time at all, or a clock that went back */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 250, 250, 0,
						    false, 0), 1024);
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 250, 250, 0,
						    false, -1ULL), 125);
	/* A window that was chosen is what it is */
	state.target_us = 0;
	KUNIT_EXPECT_EQ(test, migrate_offload_first_quota(&state), 1024);
	KUNIT_EXPECT_EQ(test, settled_quota(&state, 16, 100000), 1024);
}

static void void_copies_leave_less_in_flight(struct kunit *test)
{
	struct migrate_offload_state state = {
		.target_us = 500,
		.window_pages = 1024,
		.chunk_pages = 128,
		.nr_chunks = 16,
	};
	unsigned long quota = migrate_offload_most_mapped(&state);
	unsigned int i;

	KUNIT_EXPECT_EQ(test, quota, 2048);
	quota = migrate_offload_mapped_quota(&state, quota, 128, true);
	KUNIT_EXPECT_EQ(test, quota, 1024);
	/* Down to two chunks, whatever one has */
	KUNIT_EXPECT_EQ(test, 1024, migrate_offload_mapped_quota(&state, quota,
								 512, true));
	for (i = 0; i < 10; i++)
		quota = migrate_offload_mapped_quota(&state, quota, 128, true);
	KUNIT_EXPECT_EQ(test, quota, 256);
	/* It comes back slowly, and no further */
	KUNIT_EXPECT_EQ(test, 260, migrate_offload_mapped_quota(&state, quota,
								128, false));
	for (i = 0; i < 200; i++)
		quota = migrate_offload_mapped_quota(&state, quota, 128, false);
	KUNIT_EXPECT_EQ(test, quota, 2048);
	/* A window that was chosen bounds it, and so does one of a single chunk */
	state.target_us = 0;
	KUNIT_EXPECT_EQ(test, migrate_offload_most_mapped(&state), 1024);
	KUNIT_EXPECT_EQ(test, 1024, migrate_offload_mapped_quota(&state, quota,
								 1024, true));
}

/* 2 MiB in 267 us are 958 pages in 500 us: not two of them, by the rate of one */
static void second_large_folio_is_tried(struct kunit *test)
{
	struct migrate_offload_state state = {
		.target_us = 500,
		.window_pages = 2048,
		.chunk_pages = 128,
	};

	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 958, 512, 0, false,
						    267000), 958);
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 958, 512, 0, true,
						    267000), 1024);
	/* Whether the two were too slow is seen then, and not forgotten */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 1024, 1024, 0, false,
						    530000), 995);
	/* Where two would be far too slow there is no need to try */
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 680, 512, 0, true,
						    376000), 680);
	state.window_pages = 1000;
	KUNIT_EXPECT_EQ(test, migrate_offload_quota(&state, 958, 512, 0, true,
						    267000), 1000);
}

/* Costs of folios of order 0: what @m has charged for a page in its turn */
static void learn(struct migrate_offload_state *state, struct migrator *m,
		  u64 ns)
{
	struct migrate_turn turn = {
		.m = m, .nr_chunks = 16, .nr_pages = 64, .lost_ns = 64 * ns,
	};

	migrate_offload_learn(state, &turn);
}

#define expect_choice(test, state, order, m) \
	KUNIT_EXPECT_PTR_EQ(test, migrate_offload_choose(state, order, false), m)
#define expect_few(test, state, m) \
	KUNIT_EXPECT_PTR_EQ(test, migrate_offload_choose(state, 0, true), m)

static void dearer_engine_leaves_copies_to_the_cpu(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = {
		.m = &fx->engine.m, .may_choose = true,
	};
	struct migrate_cost *cost = &state.costs[0][0];

	/* The engine comes first; then the CPU must show what it can, once */
	expect_choice(test, &state, 0, state.m);
	learn(&state, state.m, 1000);
	expect_choice(test, &state, 0, &migrator_cpu);
	learn(&state, &migrator_cpu, 1000);
	expect_choice(test, &state, 0, state.m);
	/* An eighth is forgiven, no more */
	cost->engine_ns = 1125;
	expect_choice(test, &state, 0, state.m);
	cost->engine_ns = 1126;
	expect_choice(test, &state, 0, &migrator_cpu);
	/* Folios of another size have costs of their own */
	expect_choice(test, &state, 1, state.m);
	/* An administrator who wants the engine gets it */
	state.may_choose = false;
	expect_choice(test, &state, 0, state.m);
}

static void dearer_one_is_tried_again(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = {
		.m = &fx->engine.m, .may_choose = true,
	};
	struct migrate_cost *cost = &state.costs[0][0];

	/* The engine after a second, for one turn */
	*cost = (struct migrate_cost) { 5000, 1000, jiffies - HZ };
	expect_choice(test, &state, 0, state.m);
	expect_choice(test, &state, 0, &migrator_cpu);
	/* The CPU after ten */
	*cost = (struct migrate_cost) { 100, 1000, jiffies - 8 * HZ };
	expect_choice(test, &state, 0, state.m);
	*cost = (struct migrate_cost) { 100, 1000, jiffies - 10 * HZ };
	expect_choice(test, &state, 0, &migrator_cpu);
	expect_choice(test, &state, 0, state.m);
}

/* All that it takes is measured, and if the engine is dearer Linux does it */
static void dearer_engine_leaves_small_calls_to_linux(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = {
		.m = &fx->engine.m, .may_choose = true,
	};
	struct migrate_turn turn = {
		.m = state.m, .few = true, .nr_chunks = 2, .nr_pages = 128,
		.left_pages = 64, .lost_ns = 128 * 5000,
	};
	struct migrate_cost *cost = &state.costs[1][0];

	expect_few(test, &state, state.m);
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, cost->engine_ns, 5000);
	expect_few(test, &state, &migrator_cpu);
	turn.m = &migrator_cpu;
	turn.lost_ns = 128 * 4999;
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 4999);
	expect_few(test, &state, NULL);
	/* Calls of many folios have costs of their own */
	expect_choice(test, &state, 0, state.m);
	/* It is tried again after a second, once */
	cost->tried = jiffies - HZ;
	expect_few(test, &state, state.m);
	expect_few(test, &state, &migrator_cpu);
	expect_few(test, &state, NULL);
	/* A turn of few ends with its call, and all orders count */
	KUNIT_EXPECT_FALSE(test, migrate_turn_is_over(&turn));
	turn.nr_pages = 0;
	migrate_turn_add(&turn, &(struct migrate_chunk) {
			.nr_folios = 2, .nr_pages = 17,
		});
	KUNIT_EXPECT_EQ(test, turn.nr_pages, 17);
}

static void one_bad_turn_says_little(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = { .m = &fx->engine.m };
	struct migrate_cost *cost = &state.costs[0][0];

	/* What is known first counts in whole */
	learn(&state, state.m, 1000);
	KUNIT_EXPECT_EQ(test, cost->engine_ns, 1000);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 0);
	/* Interrupted for a second */
	learn(&state, state.m, NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, cost->engine_ns, 1500);
	learn(&state, state.m, 500);
	KUNIT_EXPECT_EQ(test, cost->engine_ns, 1000);
	/* A copy by CPU is never faster than it can be */
	learn(&state, &migrator_cpu, NSEC_PER_SEC);
	learn(&state, &migrator_cpu, 1000);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 1000);
	learn(&state, &migrator_cpu, NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 1500);
	/* No time at all is known, too, and not the end of learning */
	learn(&state, &migrator_cpu, 0);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 1);
	learn(&state, &migrator_cpu, 1000);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, 2);
	/* More than there is room for */
	cost->cpu_ns = U32_MAX;
	learn(&state, &migrator_cpu, U32_MAX + 1ULL);
	KUNIT_EXPECT_EQ(test, cost->cpu_ns, U32_MAX);
}

/* It costs nothing, and copies only a half */
static void what_the_engine_leaves_is_no_bargain(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = { .m = &fx->engine.m };
	struct migrate_turn turn = {
		.m = state.m, .nr_pages = 64, .left_pages = 32,
	};

	learn(&state, &migrator_cpu, 1000);
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, state.costs[0][0].engine_ns, 500);
}

/* Cut short by the end of its call: all of it is latency */
static void short_turn_counts_little(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = { .m = &fx->engine.m };
	struct migrate_turn turn = {
		.m = state.m, .nr_chunks = 2, .nr_pages = 64,
		.lost_ns = 64 * 1800,
	};

	learn(&state, state.m, 1000);
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, state.costs[0][0].engine_ns, 1050);
	/* But not if it is short since it has cost so much */
	turn.spent_ns = NSEC_PER_SEC;
	turn.lost_ns = 64 * 2050;
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, state.costs[0][0].engine_ns, 1550);
}

static void turn_adds_up_what_can_be_compared(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_offload_state state = { .m = &fx->engine.m };
	struct migrate_turn turn = { .m = state.m, .order = 2 };
	struct migrate_chunk chunk = {
		.nr_folios = 8, .nr_pages = 32, .copied_pages = 16,
		.unfit_pages = 4, .lost_ns = 100,
	};

	migrate_turn_add(&turn, &chunk);
	KUNIT_EXPECT_EQ(test, turn.nr_pages, 28);
	KUNIT_EXPECT_EQ(test, turn.left_pages, 12);
	/* A chunk with folios of other sizes takes time, and teaches nothing */
	chunk.nr_folios = 9;
	migrate_turn_add(&turn, &chunk);
	KUNIT_EXPECT_EQ(test, turn.nr_chunks, 2);
	KUNIT_EXPECT_EQ(test, turn.nr_pages, 28);
	KUNIT_EXPECT_EQ(test, turn.lost_ns, 100);
	KUNIT_EXPECT_EQ(test, turn.spent_ns, 200);
	/* Nor does a turn in which nothing was to be copied */
	turn = (struct migrate_turn) { .m = state.m, .nr_chunks = 1 };
	migrate_offload_learn(&state, &turn);
	KUNIT_EXPECT_EQ(test, state.costs[0][0].engine_ns, 0);
}

static void bad_engine_has_a_short_turn(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrate_turn turn = { .m = &fx->engine.m, .nr_chunks = 2 };

	KUNIT_EXPECT_FALSE(test, migrate_turn_is_over(&turn));
	turn.spent_ns = 50 * NSEC_PER_MSEC;
	KUNIT_EXPECT_TRUE(test, migrate_turn_is_over(&turn));
	turn.spent_ns = 0;
	turn.nr_chunks = 100;
	KUNIT_EXPECT_TRUE(test, migrate_turn_is_over(&turn));
	/* One copy by CPU is like the other */
	turn.m = &migrator_cpu;
	turn.nr_chunks = 1;
	KUNIT_EXPECT_TRUE(test, migrate_turn_is_over(&turn));
}

/* How many of 64 folios the engine is given, which takes 50 ms for a chunk */
static unsigned int given_to_slow_engine(struct kunit *test, bool always)
{
	long before = atomic_long_read(&migrator_cpu.stats->folios);
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;

	prepare(test, FAULT_SLOW);
	s.window_pages = 0;
	s.engine_always = always;
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	expect_all_moved(test);
	/* Each is counted as whose it was */
	KUNIT_EXPECT_EQ(test, atomic_long_read(&migrator_cpu.stats->folios) -
			before, NR_FOLIOS - fx->engine.nr_submitted);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&fx->engine.m.stats->folios),
			fx->engine.nr_submitted);
	return fx->engine.nr_submitted;
}

/* What was on its way when its turn was over, and a turn each second */
static void slow_engine_gets_little(struct kunit *test)
{
	unsigned int given = given_to_slow_engine(test, false);

	KUNIT_EXPECT_GE(test, given, 1);
	KUNIT_EXPECT_LE(test, given, NR_FOLIOS / 2);
}

/* Who comes next has nothing unmapped while copies of the other go on */
static void turn_begins_with_an_empty_window(struct kunit *test)
{
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, target_of);
	fx->engine.work.work.func = engine_creep;
	prepare(test, FAULT_CREEP);
	s.window_pages = 0;
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	expect_all_moved(test);
	/* Two chunks were on their way */
	KUNIT_EXPECT_EQ(test, fx->engine.nr_crept, 2 * CREEP_CHUNK);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_beside, 0);
}

/* How many of the folios of a call with @nr of them the engine was given */
static unsigned int given_of_few(struct kunit *test, unsigned int nr)
{
	struct fixture *fx = test->priv;
	unsigned int before = fx->engine.nr_submitted;
	LIST_HEAD(rest);
	unsigned int i;

	isolate(test);
	for (i = nr; i < NR_FOLIOS; i++)
		list_move(&fx->before[i]->lru, &rest);
	KUNIT_EXPECT_EQ(test, run_migration(fx, MR_SYSCALL), nr);
	putback_movable_pages(&rest);
	return fx->engine.nr_submitted - before;
}

/* What is unmapped at one moment is few: here a chunk of four */
static void small_call_goes_to_linux_if_that_is_cheaper(struct kunit *test)
{
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;
	struct migrate_cost *cost;

	fx->engine.fault = FAULT_NONE;
	KUNIT_ASSERT_EQ(test, 0, migrate_offload_activate(ENGINE_NAME));
	s.window_pages = 0;
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	KUNIT_EXPECT_EQ(test, given_of_few(test, 4), 4);
	cost = &state_of_now()->costs[1][0];
	KUNIT_EXPECT_NE(test, cost->engine_ns, 0);
	KUNIT_EXPECT_EQ(test, given_of_few(test, 4), 0);
	KUNIT_EXPECT_NE(test, cost->cpu_ns, 0);
	cost->engine_ns = cost->cpu_ns + 1;
	cost->tried = jiffies + HZ;
	fx->nr_new = 0;
	KUNIT_EXPECT_EQ(test, given_of_few(test, 4), 0);
	/* One more is not few, and what that costs is not known */
	KUNIT_EXPECT_EQ(test, given_of_few(test, 5), 5);
}

static void slow_engine_gets_all_if_told_to(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, given_to_slow_engine(test, true), NR_FOLIOS);
}

static void no_more_than_a_chunk_waits_for_the_caller(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_IDLE);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, fx->engine.max_inflight, small().chunk_pages);
}

static void busy_engine_falls_back_to_cpu(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_FALLBACK_BUSY);

	prepare(test, FAULT_BUSY);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FALLBACK_BUSY) - before,
			NR_FOLIOS);
}

/* Whatever is unmapped while the engine is full, it would refuse */
static void nothing_is_unmapped_for_a_full_engine(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_FULL);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted,
			NR_FOLIOS / small().chunk_pages * ENGINE_ROOM);
}

/* The CPU copies them beside the engine, which takes its time */
static void refused_folios_do_not_wait_for_the_engine(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_FULL);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_early_moved,
			small().chunk_pages - ENGINE_ROOM);
}

static void folios_do_not_wait_for_others_of_their_chunk(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_HALF_SLOW);
	expect_all_moved(test);
	KUNIT_EXPECT_GE(test, fx->engine.nr_early_moved, 2);
}

static void nothing_is_unmapped_while_memory_is_allocated(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_SLOW);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, fx->nr_locked, 0);
}

static void memory_without_a_wait_keeps_the_engine_busy(struct kunit *test)
{
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, target_of);
	prepare(test, FAULT_SLOW);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_early_inflight,
			small().window_pages);
	KUNIT_EXPECT_EQ(test, fx->nr_locked, 0);
}

static void memory_is_waited_for_with_nothing_unmapped(struct kunit *test)
{
	struct fixture *fx = test->priv;

	kunit_activate_static_stub(test, migrate_offload_target_of, target_of);
	prepare(test, FAULT_SLOW);
	fx->all_waits = true;
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_early_inflight,
			small().chunk_pages);
	KUNIT_EXPECT_EQ(test, fx->nr_locked, 0);
}

static void folio_without_memory_is_alone(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_NONE);
	fx->no_memory = fx->before[3];
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS - 1);
}

/* Not an error of the engine */
static void part_without_room_is_copied_by_cpu(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_FALLBACK_BUSY);
	struct fixture *fx = test->priv;

	prepare(test, FAULT_PART_REFUSED);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FALLBACK_BUSY) - before,
			NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&fx->engine.m.stats->errors), 0);
}

static void poisoned_source_fails_alone(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_POISON);
	KUNIT_EXPECT_EQ(test, run_migration(fx, MR_SYSCALL), NR_FOLIOS - 1);
	/* The last one comes first */
	KUNIT_EXPECT_FALSE(test, has_moved(fx, NR_FOLIOS - 1));
	KUNIT_EXPECT_EQ(test, nr_moved(fx), NR_FOLIOS - 1);
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
	/* Linux has not tried it again */
	KUNIT_EXPECT_EQ(test, fx->nr_new, NR_FOLIOS);
}

static void engine_that_is_gone_is_asked_no_more(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_FALLBACK_BUSY);
	struct fixture *fx = test->priv;

	prepare(test, FAULT_GONE);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, ENGINE_ROOM);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FALLBACK_BUSY) - before,
			small().chunk_pages - ENGINE_ROOM);
}

static void engine_that_is_out_of_service_is_not_used(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_NONE);
	fx->engine.in_service = false;
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
	fx->engine.in_service = true;
	isolate(test);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
}

/* --- what may be copied early --- */

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

	prepare(test, FAULT_NONE);
	kunit_activate_static_stub(test, migrate_offload_plain_bytes, not_plain);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
	fx->engine.m.copies_by_cpu = true;
	isolate(test);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	kunit_deactivate_static_stub(test, migrate_offload_plain_bytes);
}

static void thp_without_migration_entries_is_left_to_linux(struct kunit *test)
{
	struct folio *small = folio_alloc(GFP_KERNEL, 0);
	struct folio *thp = folio_alloc(GFP_KERNEL, HPAGE_PMD_ORDER);

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

	prepare(test, FAULT_NONE);
	folio = fx->before[0];
	folio_lock(folio);
	KUNIT_EXPECT_TRUE(test, migrate_offload_may_copy(&fx->engine.m, folio));
	folio_set_hwpoison(folio);
	KUNIT_EXPECT_FALSE(test, migrate_offload_may_copy(&fx->engine.m, folio));
	folio_clear_hwpoison(folio);
	folio_unlock(folio);
}

static void failed_copy_is_never_used(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_IO);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&fx->engine.m.stats->errors),
			NR_FOLIOS);
}

static void one_failed_part_fails_the_copy(struct kunit *test)
{
	prepare(test, FAULT_ONE_PART);
	expect_all_moved(test);
}

static void stuck_destination_is_never_reused(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_QUARANTINED_BYTES);
	struct fixture *fx = test->priv;
	struct engine *e = &fx->engine;
	unsigned int i;

	prepare(test, FAULT_STUCK);
	KUNIT_EXPECT_EQ(test, run_migration(fx, MR_SYSCALL), 0);
	KUNIT_EXPECT_EQ(test, nr_moved(fx), 0);
	KUNIT_EXPECT_EQ(test, fx->nr_new, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, e->nr_stuck, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test,
			migrate_offload_stat(STAT_QUARANTINED_BYTES) - before,
			NR_FOLIOS * PAGE_SIZE);
	for (i = 0; i < e->nr_stuck; i++) {
		/* Only the engine knows the folio, and writes to it late */
		KUNIT_EXPECT_EQ(test, folio_ref_count(e->stuck[i]), 1);
		KUNIT_EXPECT_FALSE(test, folio_test_locked(e->stuck[i]));
		scribble(e->stuck[i]);
		folio_put(e->stuck[i]);
	}
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
}

static void extra_reference_keeps_folio_from_engine(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_FALLBACK_REFS);
	struct fixture *fx = test->priv;

	prepare(test, FAULT_NONE);
	fx->engine.refused = fx->before[7];
	folio_get(fx->before[7]);
	KUNIT_EXPECT_EQ(test, run_migration(fx, MR_SYSCALL), NR_FOLIOS - 1);
	folio_put(fx->before[7]);
	KUNIT_EXPECT_FALSE(test, fx->engine.saw_refused);
	KUNIT_EXPECT_PTR_EQ(test, folio_of(fx, 7), fx->before[7]);
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
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

	prepare(test, FAULT_TAKE_REF);
	KUNIT_EXPECT_EQ(test, run_migration(fx, MR_SYSCALL), NR_FOLIOS);
	KUNIT_EXPECT_PTR_EQ(test, fx->engine.src0, NULL);
	KUNIT_EXPECT_EQ(test, nr_moved(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS - 1);
	p = folio_address(folio_of(fx, NR_FOLIOS - 1));
	KUNIT_EXPECT_EQ(test, p[0], 0x55);
	KUNIT_EXPECT_EQ(test, p[PAGE_SIZE - 1], 0x55);
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

	prepare(test, FAULT_NONE);
	mapping->a_ops = &late_writer_aops;
	KUNIT_EXPECT_EQ(test, run_migration(fx, MR_SYSCALL), NR_FOLIOS);
	mapping->a_ops = saved;

	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
	for (i = 0; i < NR_FOLIOS; i++)
		right += *(u8 *)folio_address(folio_of(fx, i)) == 0x77;
	KUNIT_EXPECT_EQ(test, right, NR_FOLIOS);
}

static void small_call_takes_linux_path(struct kunit *test)
{
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;

	prepare(test, FAULT_NONE);
	s.min_bytes = (NR_FOLIOS + 1) * PAGE_SIZE;
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
}

static void masked_reason_takes_linux_path(struct kunit *test)
{
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;

	prepare(test, FAULT_NONE);
	s.reasons &= ~BIT(MR_SYSCALL);
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
}

static void engine_works_from_its_choice_to_the_next(struct kunit *test)
{
	struct engine *e = &((struct fixture *)test->priv)->engine;

	KUNIT_EXPECT_EQ(test, e->nr_started, 0);
	prepare(test, FAULT_SLOW);
	KUNIT_EXPECT_EQ(test, e->nr_started, 1);
	/* Another setting is not another engine */
	KUNIT_EXPECT_EQ(test, set(stripe_bytes, 2 * PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, migrate_offload_activate(ENGINE_NAME), 0);
	KUNIT_EXPECT_EQ(test, e->nr_started, 1);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, migrate_offload_activate("cpu"), 0);
	KUNIT_EXPECT_EQ(test, e->nr_started, 0);
}

static void engine_that_cannot_start_changes_nothing(struct kunit *test)
{
	struct engine *e = &((struct fixture *)test->priv)->engine;

	e->start_error = -ENODEV;
	KUNIT_EXPECT_EQ(test, migrate_offload_activate(ENGINE_NAME), -ENODEV);
	KUNIT_EXPECT_FALSE(test, static_key_enabled(&migrate_offload_key));
	e->start_error = 0;
	KUNIT_EXPECT_EQ(test, migrate_offload_activate(ENGINE_NAME), 0);
	KUNIT_EXPECT_EQ(test, e->nr_started, 1);
}

static void no_active_migrator_costs_one_branch(struct kunit *test)
{
	struct fixture *fx = test->priv;

	KUNIT_EXPECT_FALSE(test, static_key_enabled(&migrate_offload_key));
	prepare(test, FAULT_NONE);
	KUNIT_EXPECT_TRUE(test, static_key_enabled(&migrate_offload_key));
	KUNIT_ASSERT_EQ(test, 0, migrate_offload_activate("none"));
	KUNIT_EXPECT_FALSE(test, static_key_enabled(&migrate_offload_key));
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, 0);
}

static unsigned long nr_timed(void)
{
	unsigned long n = 0;
	unsigned int i;

	for (i = 0; i < MIGRATE_OFFLOAD_NR_BUCKETS; i++)
		n += migrate_offload_time_bucket(i);
	return n;
}

static void histogram_counts_only_when_enabled(struct kunit *test)
{
	unsigned long before = nr_timed();

	prepare(test, FAULT_NONE);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, nr_timed(), before);
}

static void histogram_counts_each_folio(struct kunit *test)
{
	unsigned long before = nr_timed();

	prepare(test, FAULT_NONE);
	static_branch_enable(&migrate_offload_time_key);
	expect_all_moved(test);
	static_branch_disable(&migrate_offload_time_key);
	KUNIT_EXPECT_EQ(test, nr_timed() - before, NR_FOLIOS);
}

static int migrating_thread(void *data)
{
	run_migration(data, MR_SYSCALL);
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

/* --- the deadline --- */

#define DEADLINE_MS	50

/* Migrates in a thread: one that hangs shall fail, and not hang the test */
static struct task_struct *migrate_in_thread(struct kunit *test)
{
	struct task_struct *task;

	task = kthread_run(migrating_thread, test->priv, "migrate_kunit");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	return task;
}

/* Return: false if the migration did not end without the engine */
static bool ended_in_time(struct fixture *fx, struct task_struct *task)
{
	bool ended = wait_for_completion_timeout(&fx->migrated, 20 * HZ);

	if (!ended) {
		/* What is submitted after this, too */
		WRITE_ONCE(fx->engine.fault, FAULT_NONE);
		do
			engine_drain(&fx->engine);
		while (!wait_for_completion_timeout(&fx->migrated, HZ / 10));
	}
	kthread_stop(task);
	return ended;
}

static void end_late_work(struct work_struct *work)
{
	engine_end_late(container_of(work, struct engine, work.work));
}

/* From another context than the one that waited */
static void end_late(struct fixture *fx)
{
	fx->engine.work.work.func = end_late_work;
	schedule_delayed_work(&fx->engine.work, 0);
	flush_delayed_work(&fx->engine.work);
}

static bool in_service(struct kunit *test)
{
	char *page = (char *)__get_free_page(GFP_KERNEL);
	bool yes;

	KUNIT_ASSERT_NOT_NULL(test, page);
	migrate_offload_show_in_service(page);
	yes = !strcmp(page, "1\n");
	free_page((unsigned long)page);
	return yes;
}

static long nr_overdue(struct fixture *fx)
{
	return atomic_long_read(&fx->engine.m.stats->overdue);
}

static void engine_that_never_ends_is_abandoned(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_QUARANTINED_BYTES);
	const unsigned int window = small().window_pages;
	struct fixture *fx = test->priv;
	struct engine *e = &fx->engine;
	struct migrate_copy *copy;
	unsigned int i;

	prepare(test, FAULT_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	KUNIT_EXPECT_TRUE(test, in_service(test));
	KUNIT_ASSERT_TRUE(test, ended_in_time(fx, migrate_in_thread(test)));

	KUNIT_EXPECT_EQ(test, e->nr_submitted, ENGINE_FINE + window);
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), window);
	KUNIT_EXPECT_EQ(test,
			migrate_offload_stat(STAT_QUARANTINED_BYTES) - before,
			window * PAGE_SIZE);
	/* What the engine may still read stays, Linux has moved the others */
	KUNIT_EXPECT_EQ(test, nr_moved(fx), NR_FOLIOS - window);
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
	list_for_each_entry(copy, &e->queue, node) {
		/* In vain would Linux unmap it again */
		KUNIT_EXPECT_EQ(test, fx->asked[copy->src->index], 1);
		KUNIT_EXPECT_EQ(test, folio_ref_count(copy->dst), 1);
		KUNIT_EXPECT_FALSE(test, folio_test_locked(copy->dst));
		KUNIT_EXPECT_FALSE(test, folio_test_locked(copy->src));
		folio_get(copy->dst);
		e->stuck[e->nr_stuck++] = copy->dst;
	}

	/* Out of service until it has ended them */
	migrate_offload_reap();
	KUNIT_EXPECT_FALSE(test, in_service(test));
	isolate(test);
	KUNIT_EXPECT_EQ(test, run_migration(fx, MR_SYSCALL), NR_FOLIOS - window);
	KUNIT_EXPECT_EQ(test, e->nr_submitted, ENGINE_FINE + window);

	end_late(fx);
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
	migrate_offload_reap();
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), 0);
	KUNIT_EXPECT_EQ(test, e->nr_stuck, window);
	for (i = 0; i < e->nr_stuck; i++) {
		KUNIT_EXPECT_EQ(test, folio_ref_count(e->stuck[i]), 1);
		folio_put(e->stuck[i]);
	}

	KUNIT_EXPECT_TRUE(test, in_service(test));
	e->fault = FAULT_NONE;
	isolate(test);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, e->nr_submitted,
			ENGINE_FINE + window + NR_FOLIOS);
}

/* What it has copied is used; what it has not stays where it was */
static void engine_that_is_late_with_some_loses_those(struct kunit *test)
{
	unsigned long before = migrate_offload_stat(STAT_FOLIOS);
	const unsigned int window = small().window_pages;
	struct fixture *fx = test->priv;

	prepare(test, FAULT_HALF_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	KUNIT_ASSERT_TRUE(test, ended_in_time(fx, migrate_in_thread(test)));
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), window / 2);
	KUNIT_EXPECT_EQ(test, migrate_offload_stat(STAT_FOLIOS) - before,
			ENGINE_FINE + window / 2);
	KUNIT_EXPECT_EQ(test, nr_moved(fx), NR_FOLIOS - window / 2);
	end_late(fx);
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
}

/* Before it comes to the last chunk of its queue it needs longer than a deadline */
static void engine_that_has_much_to_do_is_not_stuck(struct kunit *test)
{
	struct migrate_offload_settings s = small();
	struct fixture *fx = test->priv;

	fx->engine.work.work.func = engine_creep;
	prepare(test, FAULT_CREEP);
	s.chunk_pages = 1;
	s.deadline_ms = CREEP_MS * s.window_pages * 3 / 4;
	KUNIT_ASSERT_EQ(test, 0, apply(s));
	KUNIT_ASSERT_TRUE(test, ended_in_time(fx, migrate_in_thread(test)));
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), 0);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, nr_moved(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
}

/* As if other channels went on for other calls */
static void end_others(struct work_struct *work)
{
	struct engine *e = container_of(work, struct engine, work.work);

	atomic_long_inc(&e->m.stats->nr_submitted);
	atomic_long_inc(&e->m.stats->nr_ended);
	schedule_delayed_work(&e->work, msecs_to_jiffies(DEADLINE_MS) / 5);
}

static void channel_that_is_stuck_beside_others_is_abandoned(struct kunit *test)
{
	const unsigned int window = small().window_pages;
	struct fixture *fx = test->priv;

	prepare(test, FAULT_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	fx->engine.work.work.func = end_others;
	schedule_delayed_work(&fx->engine.work, 0);
	KUNIT_EXPECT_TRUE(test, ended_in_time(fx, migrate_in_thread(test)));
	cancel_delayed_work_sync(&fx->engine.work);
	KUNIT_EXPECT_EQ(test, nr_overdue(fx), window);
	end_late(fx);
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
}

static void costs_are_known_when_windows_are_replaced(struct kunit *test)
{
	struct migrate_offload_state *before;
	struct fixture *fx = test->priv;

	prepare(test, FAULT_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	before = state_of_now();
	KUNIT_ASSERT_TRUE(test, ended_in_time(fx, migrate_in_thread(test)));
	before->costs[1][3].engine_ns = 5000;
	before->costs[1][3].cpu_ns = 1000;
	before->flush_pages = 256;
	end_late(fx);
	migrate_offload_reap();
	KUNIT_ASSERT_PTR_NE(test, state_of_now(), before);
	KUNIT_EXPECT_EQ(test, state_of_now()->costs[1][3].engine_ns, 5000);
	KUNIT_EXPECT_EQ(test, state_of_now()->costs[1][3].cpu_ns, 1000);
	KUNIT_EXPECT_EQ(test, state_of_now()->flush_pages, 256);
}

/* --- who waits for a migration --- */

struct job {
	struct work_struct work;
	struct completion done;
	const char *name;
	char *page;
};

static void choose_work(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, work);

	migrate_offload_activate(job->name);
	complete(&job->done);
}

static void look_work(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, work);

	migrate_offload_show_active(job->page);
	migrate_offload_show_available(job->page);
	migrate_offload_show_in_service(job->page);
	migrate_offload_get(0);
	complete(&job->done);
}

static void start_job(struct job *job, work_func_t fn)
{
	init_completion(&job->done);
	INIT_WORK_ONSTACK(&job->work, fn);
	queue_work(system_dfl_wq, &job->work);
}

/* A call waits for memory; somebody who chooses another migrator for the call */
static void nobody_waits_long_for_a_call_without_memory(struct kunit *test)
{
	struct job choose = { .name = "cpu" }, look = {};
	struct migrate_offload_state *before;
	struct fixture *fx = test->priv;
	struct task_struct *task;

	look.page = (char *)__get_free_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, look.page);
	prepare(test, FAULT_NONE);
	before = state_of_now();
	fx->memory_blocks = true;
	task = migrate_in_thread(test);
	wait_for_completion(&fx->blocked);
	start_job(&choose, choose_work);
	while (state_of_now() == before)
		msleep(20);
	/* Who only looks waits for neither */
	start_job(&look, look_work);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&look.done, 2 * HZ));
	/* It does not go on to look for memory for the next folio */
	KUNIT_EXPECT_FALSE(test, completion_done(&choose.done));
	complete(&fx->unblock);
	KUNIT_EXPECT_TRUE(test,
			  wait_for_completion_timeout(&choose.done, 2 * HZ));
	complete_all(&fx->unblock);
	KUNIT_EXPECT_TRUE(test, ended_in_time(fx, task));
	flush_work(&look.work);
	flush_work(&choose.work);
	destroy_work_on_stack(&look.work);
	destroy_work_on_stack(&choose.work);
	free_page((unsigned long)look.page);
}

/* It may go, and end its copies before it does so */
static void unregister_does_not_wait_for_overdue_copies(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_NEVER);
	KUNIT_ASSERT_EQ(test, set(deadline_ms, DEADLINE_MS), 0);
	KUNIT_ASSERT_TRUE(test, ended_in_time(fx, migrate_in_thread(test)));
	migrate_offload_unregister(&fx->engine.m);
	fx->registered = false;
	migrate_offload_reap();
	end_late(fx);
	migrate_offload_reap();
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
}

/* --- locks of the reverse mapping --- */

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
	list_move(&folio->lru, &fx->before[small().chunk_pages * 3 / 2]->lru);
	folio_put(folio);
	return file;
}

static void locked_rmap_is_not_waited_for(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct task_struct *task;
	unsigned int i, ms;
	struct file *file;

	prepare(test, FAULT_SLOW);
	file = add_mapped_folio(test);
	i_mmap_lock_write(file->f_mapping);
	task = migrate_in_thread(test);
	/* Linux itself may wait, but for this one folio alone */
	for (i = 0, ms = 0; i < NR_FOLIOS && ms < 20000; ms += 20) {
		for (; i < NR_FOLIOS && has_moved(fx, i); i++)
			;
		msleep(20);
	}
	KUNIT_EXPECT_EQ(test, i, NR_FOLIOS);
	KUNIT_EXPECT_FALSE(test, completion_done(&fx->migrated));
	i_mmap_unlock_write(file->f_mapping);
	KUNIT_EXPECT_TRUE(test, ended_in_time(fx, task));
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
	fput(file);
}

static void unregister_waits_for_what_is_in_flight(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct task_struct *task;
	unsigned int nr;

	prepare(test, FAULT_SLOW);
	task = kthread_run(migrating_thread, fx, "migrate_kunit");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	while (!atomic_read(&fx->engine.nr_inflight))
		cond_resched();

	migrate_offload_unregister(&fx->engine.m);
	fx->registered = false;
	KUNIT_EXPECT_EQ(test, atomic_read(&fx->engine.nr_inflight), 0);
	KUNIT_EXPECT_FALSE(test, static_key_enabled(&migrate_offload_key));
	nr = fx->engine.nr_submitted;
	kthread_stop(task);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, nr);
	KUNIT_EXPECT_LT(test, nr, NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, nr_moved(fx), NR_FOLIOS);
	KUNIT_EXPECT_EQ(test, nr_intact(fx), NR_FOLIOS);
}

static void nothing_is_in_flight_when_the_machine_suspends(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct task_struct *task;
	unsigned int nr;

	prepare(test, FAULT_SLOW);
	task = migrate_in_thread(test);
	while (!atomic_read(&fx->engine.nr_inflight))
		cond_resched();
	migrate_offload_pm(NULL, PM_SUSPEND_PREPARE, NULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&fx->engine.nr_inflight), 0);
	KUNIT_EXPECT_FALSE(test, in_service(test));
	nr = fx->engine.nr_submitted;
	KUNIT_EXPECT_TRUE(test, ended_in_time(fx, task));
	isolate(test);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, nr);
	KUNIT_EXPECT_LT(test, nr, NR_FOLIOS);
	migrate_offload_pm(NULL, PM_POST_SUSPEND, NULL);
	KUNIT_EXPECT_TRUE(test, in_service(test));
	isolate(test);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, nr + NR_FOLIOS);
}

static void register_refuses_bad_migrators(struct kunit *test)
{
	struct fixture *fx = test->priv;
	struct migrator m = fx->engine.m;

	KUNIT_EXPECT_EQ(test, migrate_offload_register(&m), -EBUSY);
	m.name = "none";
	KUNIT_EXPECT_EQ(test, migrate_offload_register(&m), -EINVAL);
	m.name = "a name";
	KUNIT_EXPECT_EQ(test, migrate_offload_register(&m), -EINVAL);
	m.name = "abcdefghijklmnopqrstuvwxyz012345";
	KUNIT_EXPECT_EQ(test, migrate_offload_register(&m), -EINVAL);
	m.name = "incomplete";
	m.flush = NULL;
	KUNIT_EXPECT_EQ(test, migrate_offload_register(&m), -EINVAL);
}

static void unknown_migrator_changes_nothing(struct kunit *test)
{
	struct fixture *fx = test->priv;

	prepare(test, FAULT_NONE);
	KUNIT_EXPECT_EQ(test, migrate_offload_activate("nobody"), -ENOENT);
	expect_all_moved(test);
	KUNIT_EXPECT_EQ(test, fx->engine.nr_submitted, NR_FOLIOS);
}

static void contradictory_settings_are_refused(struct kunit *test)
{
	const unsigned long max = MIGRATE_OFFLOAD_MAX_WINDOW;

	KUNIT_ASSERT_EQ(test, apply(small()), 0);
	KUNIT_EXPECT_EQ(test, set(chunk_pages, small().window_pages), 0);
	KUNIT_EXPECT_EQ(test, set(chunk_pages, small().window_pages + 1),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, set(window_pages, small().window_pages - 1),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, set(window_pages, max), 0);
	KUNIT_EXPECT_EQ(test, set(window_pages, max + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, set(stripe_bytes, PAGE_SIZE + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, set(reasons, BIT(MR_TYPES)), -EINVAL);
	KUNIT_EXPECT_EQ(test,
			set(deadline_ms, MIGRATE_OFFLOAD_MAX_DEADLINE_MS + 1),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, set(engine_always, 2), -EINVAL);
	KUNIT_EXPECT_EQ(test, set(target_us, MIGRATE_OFFLOAD_MAX_TARGET_US + 1),
			-EINVAL);

	KUNIT_EXPECT_EQ(test, get(window_pages), max);
	KUNIT_EXPECT_EQ(test, get(chunk_pages), small().window_pages);
	KUNIT_EXPECT_EQ(test, get(stripe_bytes), 0);
	KUNIT_EXPECT_EQ(test, get(reasons), MIGRATE_OFFLOAD_ALL_REASONS);
}

static void stuck_part_outweighs_other_errors(struct kunit *test)
{
	struct migrator_stats stats = {};
	struct migrate_chunk chunk = {
		.stats = &stats, .pending = ATOMIC_INIT(2),
	};
	struct migrate_copy copy = { .chunk = &chunk };

	init_completion(&chunk.done);
	migrate_copy_split(&copy, 3);
	migrate_copy_done(&copy, -EIO);
	migrate_copy_done(&copy, -ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, atomic_read(&chunk.pending), 2);
	migrate_copy_done(&copy, -EIO);
	KUNIT_EXPECT_EQ(test, copy.error, -ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, atomic_read(&chunk.pending), 1);
	KUNIT_EXPECT_FALSE(test, completion_done(&chunk.done));
	migrate_chunk_put(&chunk, 1);
	KUNIT_EXPECT_TRUE(test, completion_done(&chunk.done));
	KUNIT_EXPECT_EQ(test, atomic_long_read(&stats.nr_ended), 1);
}

static int fixture_init(struct kunit *test)
{
	struct fixture *fx = kunit_kzalloc(test, sizeof(*fx), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, fx);
	test->priv = fx;
	INIT_LIST_HEAD(&fx->list);
	spin_lock_init(&fx->engine.lock);
	INIT_LIST_HEAD(&fx->engine.queue);
	INIT_DELAYED_WORK(&fx->engine.work, engine_work);
	fx->saved = current_settings();
	fx->engine.m = (struct migrator) {
		.name = ENGINE_NAME,
		.limits = engine_limits,
		.submit = engine_submit,
		.flush = engine_flush,
		.help = engine_help,
		.start = engine_start,
		.stop = engine_stop,
		.in_service = engine_in_service,
	};
	fx->engine.in_service = true;
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

static void fixture_exit(struct kunit *test)
{
	struct fixture *fx = test->priv;

	if (!fx)
		return;
	if (fx->registered)
		migrate_offload_unregister(&fx->engine.m);
	cancel_delayed_work_sync(&fx->engine.work);
	engine_end_late(&fx->engine);
	migrate_offload_reap();
	if (!list_empty(&fx->list))
		putback_movable_pages(&fx->list);
	if (!IS_ERR_OR_NULL(fx->file))
		fput(fx->file);
	migrate_offload_activate("none");
	apply(fx->saved);
}

static struct kunit_case migrate_offload_cases[] = {
	KUNIT_CASE(engine_copies_every_folio),
	KUNIT_CASE(out_of_order_completion_is_right),
	KUNIT_CASE(window_is_never_exceeded),
	KUNIT_CASE(chosen_chunk_is_not_cut),
	KUNIT_CASE(no_more_is_unmapped_than_fits_the_target),
	KUNIT_CASE(more_is_unmapped_if_it_fits_the_target),
	KUNIT_CASE(deep_where_it_pays),
	KUNIT_CASE(shallow_where_copies_are_void),
	KUNIT_CASE(deep_is_nothing_for_a_small_call),
	KUNIT_CASE(other_depth_is_tried_again),
	KUNIT_CASE(quota_is_what_the_engine_does_in_time),
	KUNIT_CASE(void_copies_leave_less_in_flight),
	KUNIT_CASE(second_large_folio_is_tried),
	KUNIT_CASE(chunk_is_alone_beside_an_engine),
	KUNIT_CASE(chunk_is_not_alone_with_the_task),
	KUNIT_CASE(chunks_share_a_flush_if_it_is_dear),
	KUNIT_CASE(next_call_knows_that_flushes_are_dear),
	KUNIT_CASE(small_engine_is_given_chunk_by_chunk),
	KUNIT_CASE(dear_flushes_are_for_many_pages),
	KUNIT_CASE(dearer_engine_leaves_copies_to_the_cpu),
	KUNIT_CASE(dearer_one_is_tried_again),
	KUNIT_CASE(dearer_engine_leaves_small_calls_to_linux),
	KUNIT_CASE(small_call_goes_to_linux_if_that_is_cheaper),
	KUNIT_CASE(one_bad_turn_says_little),
	KUNIT_CASE(what_the_engine_leaves_is_no_bargain),
	KUNIT_CASE(short_turn_counts_little),
	KUNIT_CASE(turn_adds_up_what_can_be_compared),
	KUNIT_CASE(bad_engine_has_a_short_turn),
	KUNIT_CASE(slow_engine_gets_little),
	KUNIT_CASE(turn_begins_with_an_empty_window),
	KUNIT_CASE(slow_engine_gets_all_if_told_to),
	KUNIT_CASE(no_more_than_a_chunk_waits_for_the_caller),
	KUNIT_CASE(busy_engine_falls_back_to_cpu),
	KUNIT_CASE(nothing_is_unmapped_for_a_full_engine),
	KUNIT_CASE(refused_folios_do_not_wait_for_the_engine),
	KUNIT_CASE(folios_do_not_wait_for_others_of_their_chunk),
	KUNIT_CASE(nothing_is_unmapped_while_memory_is_allocated),
	KUNIT_CASE(memory_without_a_wait_keeps_the_engine_busy),
	KUNIT_CASE(memory_is_waited_for_with_nothing_unmapped),
	KUNIT_CASE(folio_without_memory_is_alone),
	KUNIT_CASE(part_without_room_is_copied_by_cpu),
	KUNIT_CASE(poisoned_source_fails_alone),
	KUNIT_CASE(engine_that_is_gone_is_asked_no_more),
	KUNIT_CASE(engine_that_is_out_of_service_is_not_used),
	KUNIT_CASE(memory_tags_are_for_cpus_only),
	KUNIT_CASE(thp_without_migration_entries_is_left_to_linux),
	KUNIT_CASE(known_poison_is_not_shown_to_the_engine),
	KUNIT_CASE(engine_that_never_ends_is_abandoned),
	KUNIT_CASE(engine_that_is_late_with_some_loses_those),
	KUNIT_CASE(engine_that_has_much_to_do_is_not_stuck),
	KUNIT_CASE(channel_that_is_stuck_beside_others_is_abandoned),
	KUNIT_CASE(costs_are_known_when_windows_are_replaced),
	KUNIT_CASE(nobody_waits_long_for_a_call_without_memory),
	KUNIT_CASE(unregister_does_not_wait_for_overdue_copies),
	KUNIT_CASE(locked_rmap_is_not_waited_for),
	KUNIT_CASE(failed_copy_is_never_used),
	KUNIT_CASE(one_failed_part_fails_the_copy),
	KUNIT_CASE(stuck_destination_is_never_reused),
	KUNIT_CASE(extra_reference_keeps_folio_from_engine),
	KUNIT_CASE(retry_copies_afresh),
	KUNIT_CASE(unknown_migrate_callback_is_not_copied_early),
	KUNIT_CASE(small_call_takes_linux_path),
	KUNIT_CASE(masked_reason_takes_linux_path),
	KUNIT_CASE(engine_works_from_its_choice_to_the_next),
	KUNIT_CASE(engine_that_cannot_start_changes_nothing),
	KUNIT_CASE(no_active_migrator_costs_one_branch),
	KUNIT_CASE(histogram_counts_only_when_enabled),
	KUNIT_CASE(histogram_counts_each_folio),
	KUNIT_CASE(unregister_waits_for_what_is_in_flight),
	KUNIT_CASE(nothing_is_in_flight_when_the_machine_suspends),
	KUNIT_CASE(register_refuses_bad_migrators),
	KUNIT_CASE(unknown_migrator_changes_nothing),
	KUNIT_CASE(contradictory_settings_are_refused),
	KUNIT_CASE(stuck_part_outweighs_other_errors),
	{}
};

static struct kunit_suite migrate_offload_suite = {
	.name = "migrate_offload",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = migrate_offload_cases,
};

kunit_test_suite(migrate_offload_suite);
