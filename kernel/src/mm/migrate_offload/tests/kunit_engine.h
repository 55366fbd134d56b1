/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tests' engine, and the folios that it copies.
 */
#ifndef _MM_MIGRATE_OFFLOAD_TESTS_KUNIT_ENGINE_H
#define _MM_MIGRATE_OFFLOAD_TESTS_KUNIT_ENGINE_H

#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/migrate.h>
#include <linux/migrate_offload.h>
#include <linux/mm.h>
#include <linux/workqueue.h>

#include "../../internal.h"
#include "../internal.h"

struct kunit;

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
	FAULT_UNSEEN,		/* as slow, and look() finds nothing of it */
	FAULT_QUIET,		/* say nothing: copy one at each look() */
	FAULT_LATE,		/* the same, but the second look() takes @late_ms */
	FAULT_OTHERS,		/* at each look() end a copy of others, until @others_until */
	FAULT_BUSY,		/* refuse */
	FAULT_FULL,		/* as slow, with room for ENGINE_ROOM folios */
	FAULT_IO,		/* scribble over the destination, then fail */
	FAULT_ONE_PART,		/* three parts, the second one fails */
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
	unsigned int nr_tell;
	unsigned int nr_looks;
	unsigned int late_ms;
	unsigned long others_until;	/* in jiffies */
	bool disowns;			/* each copy that it does not make at once */
	unsigned int nr_disowned;
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
	bool overtaken;			/* by a chunk of another call */
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

#define get(field) \
	migrate_offload_get(offsetof(struct migrate_offload_settings, field))
#define set(field, value) \
	migrate_offload_set(offsetof(struct migrate_offload_settings, field), \
			    value)

static inline struct migrate_offload_state *state_of_now(void)
{
	return rcu_access_pointer(migrate_offload_state);
}

/* kunit_engine.c */
void migrate_kunit_scribble(struct folio *folio);
void migrate_kunit_engine_drain(struct engine *e);
void migrate_kunit_engine_creep(struct work_struct *work);
void migrate_kunit_engine_disown(struct engine *e, struct migrate_copy *copy);
void migrate_kunit_engine_end_late(struct engine *e);
void migrate_kunit_engine_init(struct engine *e);

/* kunit_fixture.c */
bool migrate_kunit_has_moved(struct fixture *fx, pgoff_t index);
unsigned int migrate_kunit_nr_of_others(struct fixture *fx);
struct folio *migrate_kunit_folio_of(struct fixture *fx, pgoff_t index);
struct migration_target_control *
migrate_kunit_target_of(new_folio_t get_new_folio, unsigned long private);
unsigned int migrate_kunit_migrate(struct fixture *fx, enum migrate_reason reason);
unsigned int migrate_kunit_nr_intact(struct fixture *fx);
unsigned int migrate_kunit_nr_moved(struct fixture *fx);
int migrate_kunit_apply(struct migrate_offload_settings s);
struct migrate_offload_settings migrate_kunit_small(void);
void migrate_kunit_isolate(struct kunit *test);
void migrate_kunit_prepare(struct kunit *test, enum fault fault);
void migrate_kunit_expect_all_moved(struct kunit *test);
int migrate_kunit_thread(void *data);
struct task_struct *migrate_kunit_in_thread(struct kunit *test);
bool migrate_kunit_ended_in_time(struct fixture *fx, struct task_struct *task);
bool migrate_kunit_in_service(struct kunit *test);
int migrate_kunit_init(struct kunit *test);
void migrate_kunit_exit(struct kunit *test);

#endif /* _MM_MIGRATE_OFFLOAD_TESTS_KUNIT_ENGINE_H */
