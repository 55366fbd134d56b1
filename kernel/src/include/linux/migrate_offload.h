/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copy engines for page migration.
 *
 * A migrator is an engine that copies folios for migrate_pages(): DMA channels,
 * CPU threads, firmware. The core hands it one folio at a time with submit(),
 * rings flush() once per chunk of folios, and goes on unmapping and remapping
 * other folios meanwhile. The migrator reports the fate of every folio with
 * migrate_copy_done(). See Documentation/mm/migrate_offload.rst.
 */
#ifndef _LINUX_MIGRATE_OFFLOAD_H
#define _LINUX_MIGRATE_OFFLOAD_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/types.h>

struct folio;
struct kobject;
struct migrate_chunk;
struct module;

/**
 * struct migrate_copy - the copy of one folio
 * @src: where from; locked, free of extra references, and unmapped, or mapped
 *	such that nobody can write to it unnoticed. It is only read
 * @dst: where to; locked and of the same size, seen by nobody else
 * @stripe_bytes: cut the folio into parts of at least this many bytes; smaller
 *	folios may share a part of as many. A multiple of PAGE_SIZE
 * @tell: with look(): who waits for the copy sleeps. The migrator is to wake it by
 *	migrate_copy_told() when the last part that it was given has ended, and
 *	has the engine interrupt for that. All others are looked for
 * @call: what begin_call() has returned
 * @node: for the migrator's own queue
 * @cursor: for the migrator: bytes handed to a worker so far; 0 at submit()
 * @parts: private to the core; see migrate_copy_split()
 * @error: private to the core
 * @chunk: private to the core
 *
 * Valid from submit() until the migrate_copy_done() of its last part, also if
 * that is after the deadline and nobody waits for it.
 */
struct migrate_copy {
	struct folio *src;
	struct folio *dst;
	size_t stripe_bytes;
	bool tell;
	void *call;
	struct list_head node;
	size_t cursor;
	atomic_t parts;
	int error;
	struct migrate_chunk *chunk;
};

/**
 * struct migrate_offload_limits - what an engine needs to be worth its while
 * @inflight_bytes: how much must be in flight to keep the engine busy
 * @min_bytes: a smaller call of migrate_pages() is not worth the engine
 * @stripe_bytes: smallest part of a folio that is worth a channel or thread
 */
struct migrate_offload_limits {
	size_t inflight_bytes;
	size_t min_bytes;
	size_t stripe_bytes;
};

/**
 * struct migrator - a copy engine
 * @name: how sysfs calls it; unique, at most 31 characters
 * @owner: THIS_MODULE; pinned while the migrator is the active one
 * @copies_by_cpu: with copy_mc_highpage() and the like. Else the migrator is
 *	given nothing that has more to it than its bytes, such as memory tags
 * @stats: private to the core
 * @node: private to the core
 */
struct migrator {
	const char *name;
	struct module *owner;
	bool copies_by_cpu;

	/**
	 * @start: optional; take what the engine works with.
	 *
	 * Called when the migrator is about to become the active one, before
	 * the other callbacks; may sleep.
	 *
	 * Return: 0, or -errno: then it does not become the active one.
	 */
	int (*start)(struct migrator *m);

	/**
	 * @stop: optional; give back what start() took.
	 *
	 * Called when no call uses the migrator any more: each copy is done,
	 * or overdue and still the engine's. May sleep, but not until an engine
	 * that is stuck moves again: who chooses another migrator waits.
	 */
	void (*stop)(struct migrator *m);

	/**
	 * @limits: fill in what the engine needs.
	 *
	 * Called when the migrator is made active, or a setting changes; may
	 * sleep. If what it says has changed since, it says so to nobody: the
	 * answer is used until the next call.
	 */
	void (*limits)(struct migrator *m, struct migrate_offload_limits *l);

	/**
	 * @begin_call: optional; a call of migrate_pages() begins to use the
	 * migrator.
	 *
	 * Called in process context by the task that will submit the call's
	 * copies.
	 *
	 * Return: the migrator's own data of the call, which submit() finds in
	 * @migrate_copy.call, and flush() and help() are given as @call; NULL:
	 * there are too many calls, and Linux migrates as if no migrator were
	 * active.
	 */
	void *(*begin_call)(struct migrator *m);

	/**
	 * @end_call: with begin_call(); the call submits nothing more.
	 *
	 * Called by the same task. Each of its copies is done, or overdue.
	 */
	void (*end_call)(struct migrator *m, void *call);

	/**
	 * @submit: take one folio's copy.
	 *
	 * Called in process context, by many tasks at once. It must neither
	 * allocate memory with a mask that may reclaim nor wait for a copy.
	 * The work may start at once or at the next flush().
	 *
	 * Return: 0 if taken: exactly one migrate_copy_done() per part follows,
	 * from any context, perhaps before submit() returns, and in bounded
	 * time: after the deadline nobody waits for it, and nothing more is
	 * submitted until it is done. Else -errno (-EBUSY: full just now,
	 * -EOPNOTSUPP: not for this engine, -ENODEV: nothing to copy with);
	 * nothing may have touched @copy->dst for good and the CPU copies the
	 * folio. The caller finishes its oldest chunk before it unmaps more,
	 * and after -ENODEV it unmaps none.
	 */
	int (*submit)(struct migrator *m, struct migrate_copy *copy);

	/**
	 * @flush: start all that was submitted by this task so far.
	 *
	 * Called in process context, once per chunk of folios.
	 *
	 * Return: true if the copies go on while the caller does other things;
	 * false if nobody but help() would make them: then the caller finishes
	 * what is unmapped before it unmaps more.
	 */
	bool (*flush)(struct migrator *m, void *call);

	/**
	 * @help: optional; do some of the engine's work in the calling task.
	 *
	 * Called in process context whenever the caller would wait otherwise.
	 *
	 * Return: true if a part was copied, false if there was nothing to do.
	 */
	bool (*help)(struct migrator *m, void *call);

	/**
	 * @look: optional; see what the engine has done, where it need not say so.
	 *
	 * Called in process context, again and again while the caller waits for
	 * a chunk, and now and then before: it should be cheap where nothing has
	 * ended. A migrator that has it need not be told by its engine of copies
	 * without @migrate_copy.tell.
	 *
	 * Return: 1 if a part has ended, 0 if none has, or -errno if the engine
	 * tells of all that is in flight by itself, so that looking is no use.
	 */
	int (*look)(struct migrator *m, void *call);

	/**
	 * @in_service: optional; is there anything to copy with?
	 *
	 * Called in a task's context, at least once per call of migrate_pages();
	 * it does not sleep. While it says no, Linux migrates as if no migrator
	 * were active.
	 */
	bool (*in_service)(struct migrator *m);

	struct migrator_stats *stats;
	struct list_head node;
};

int migrate_offload_register(struct migrator *m);
void migrate_offload_unregister(struct migrator *m);

void migrate_copy_split(struct migrate_copy *copy, unsigned int nr_parts);
void migrate_copy_told(struct migrate_copy *copy);
void migrate_copy_done(struct migrate_copy *copy, int error);
void migrate_copy_disown(struct migrate_copy *copy);

#endif /* _LINUX_MIGRATE_OFFLOAD_H */
