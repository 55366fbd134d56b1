// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tests' engine: it copies, fails, stalls or completes out of order on command.
 */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/workqueue.h>

#include "../internal.h"
#include "kunit_engine.h"

void migrate_kunit_scribble(struct folio *folio)
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
void migrate_kunit_engine_drain(struct engine *e)
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

void migrate_kunit_engine_creep(struct work_struct *work)
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
			migrate_kunit_nr_of_others(container_of(e, struct fixture, engine));
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
		nr += migrate_kunit_has_moved(fx, e->early[i]);
	e->nr_early_moved = max(e->nr_early_moved, nr);
	e->nr_early_done = end;
	if (!e->nr_early_inflight)
		e->nr_early_inflight = atomic_read(&e->nr_inflight);
	migrate_kunit_engine_drain(e);
}

static void engine_limits(struct migrator *m, struct migrate_offload_limits *l)
{
	l->inflight_bytes = SZ_1M;
	l->min_bytes = PAGE_SIZE;
	l->stripe_bytes = PAGE_SIZE;
}

static void engine_fail(struct engine *e, struct migrate_copy *copy, int error)
{
	migrate_kunit_scribble(copy->dst);
	atomic_dec(&e->nr_inflight);
	migrate_copy_done(copy, error);
}

/* As if one of its channels were stuck, which has the copy */
void migrate_kunit_engine_disown(struct engine *e, struct migrate_copy *copy)
{
	e->nr_disowned++;
	migrate_copy_disown(copy);
}

static void engine_push(struct engine *e, struct migrate_copy *copy)
{
	spin_lock(&e->lock);
	list_add_tail(&copy->node, &e->queue);
	spin_unlock(&e->lock);
	if (e->disowns)
		migrate_kunit_engine_disown(e, copy);
}

static void engine_note_early(struct engine *e, struct migrate_copy *copy)
{
	if (e->nr_early < NR_FOLIOS)
		e->early[e->nr_early++] = copy->src->index;
}

/* Return: the error with which it refuses the copy, or 0 */
static int engine_refuses(struct engine *e, struct migrate_copy *copy)
{
	if (e->fault == FAULT_BUSY)
		return -EBUSY;
	if (e->fault == FAULT_GONE && e->nr_submitted == ENGINE_ROOM)
		return -ENODEV;
	if (e->fault != FAULT_FULL ||
	    atomic_read(&e->nr_inflight) != ENGINE_ROOM)
		return 0;
	engine_note_early(e, copy);
	return -EBUSY;
}

static void engine_count(struct engine *e, struct migrate_copy *copy)
{
	if (!e->nr_submitted++) {
		e->src0 = copy->src;
		if (e->overtaken)
			atomic_long_inc(&e->m.stats->nr_submitted);
	}
	e->nr_tell += copy->tell;
	set_bit(copy->src->index, e->given);
	atomic_inc(&e->nr_inflight);
	e->max_inflight = max_t(unsigned int, e->max_inflight,
				atomic_read(&e->nr_inflight));
}

/* It takes the copy, and does not make it */
static void engine_spoil(struct engine *e, struct migrate_copy *copy)
{
	int error = e->fault == FAULT_IO ? -EIO : 0;

	switch (e->fault) {
	case FAULT_PART_REFUSED:
		migrate_copy_split(copy, 2);
		migrate_copy_done(copy, -EBUSY);
		break;
	case FAULT_ONE_PART:
		migrate_copy_split(copy, 3);
		migrate_copy_done(copy, 0);
		migrate_copy_done(copy, -EIO);
		break;
	default:
		break;
	}
	engine_fail(e, copy, error);
}

static int engine_submit(struct migrator *m, struct migrate_copy *copy)
{
	struct engine *e = container_of(m, struct engine, m);
	int refused;

	e->saw_refused |= copy->src == e->refused;
	refused = engine_refuses(e, copy);
	if (refused)
		return refused;
	engine_count(e, copy);
	switch (e->fault) {
	case FAULT_REVERSE:
	case FAULT_SLOW:
	case FAULT_UNSEEN:
	case FAULT_CREEP:
	case FAULT_FULL:
	case FAULT_IDLE:
	case FAULT_QUIET:
	case FAULT_LATE:
	case FAULT_OTHERS:
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
	case FAULT_IO:
	case FAULT_ONE_PART:
		engine_spoil(e, copy);
		break;
	case FAULT_POISON:
		if (copy->src == e->src0)
			engine_fail(e, copy, -EHWPOISON);
		else
			engine_copy(e, copy);
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
void migrate_kunit_engine_end_late(struct engine *e)
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
		migrate_kunit_engine_drain(e);
	else if (e->fault == FAULT_SLOW || e->fault == FAULT_FULL ||
		 e->fault == FAULT_HALF_SLOW || e->fault == FAULT_CREEP ||
		 e->fault == FAULT_UNSEEN)
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

static int engine_look(struct migrator *m, void *call)
{
	struct engine *e = container_of(m, struct engine, m);
	struct migrate_copy *copy;

	if (e->fault == FAULT_OTHERS)
		return time_before(jiffies, e->others_until);
	if (e->fault == FAULT_UNSEEN)
		return 0;
	if (e->fault != FAULT_QUIET && e->fault != FAULT_LATE)
		return -ENOENT;
	/* Not at once, so that it is worth a sleep */
	if (e->fault == FAULT_QUIET ? ++e->nr_looks % 2 : !e->nr_looks++)
		return 0;
	if (e->nr_looks == 2)
		msleep(e->late_ms);
	if (e->fault == FAULT_QUIET)
		mdelay(1);
	copy = engine_pop(e);
	if (!copy)
		return 0;
	if (copy->tell)
		migrate_copy_told(copy);
	engine_copy(e, copy);
	return 1;
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
		atomic_long_read(&m->stats->overdue) + e->nr_disowned);
	e->nr_started--;
}

static bool engine_in_service(struct migrator *m)
{
	return container_of(m, struct engine, m)->in_service;
}

/* Not registered yet */
void migrate_kunit_engine_init(struct engine *e)
{
	spin_lock_init(&e->lock);
	INIT_LIST_HEAD(&e->queue);
	INIT_DELAYED_WORK(&e->work, engine_work);
	e->m = (struct migrator) {
		.name = ENGINE_NAME,
		.limits = engine_limits,
		.submit = engine_submit,
		.flush = engine_flush,
		.help = engine_help,
		.look = engine_look,
		.start = engine_start,
		.stop = engine_stop,
		.in_service = engine_in_service,
	};
	e->in_service = true;
}
