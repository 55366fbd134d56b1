/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A campaign: memory of several processes moves all the time, its contents are
 * checked all the time, and meanwhile a class of trouble strikes.
 */
#ifndef MIGRATE_OFFLOAD_TORTURE_H
#define MIGRATE_OFFLOAD_TORTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "offload.h"
#include "region.h"

#define TORTURE_MISSED	-1L	/* no mistake, and no strike either */

struct torture_class {
	const char *name;
	/* Of softdma; the last one has no name */
	struct {
		const char *name;
		unsigned int every;
	} faults[4];
	/* Before memory moves: the unmet need, or NULL. May be missing. */
	const char *(*begin)(void);
	/*
	 * Again and again, in a process of its own: the number of mistakes, or
	 * TORTURE_MISSED. May be missing.
	 */
	long (*strike)(void);
	/* The process of strike() is moved from node to node meanwhile */
	bool moved;
	/*
	 * How often trouble struck; if missing, each fault, or each strike()
	 * that did not miss
	 */
	long (*struck)(void);
	/* Once nothing moves any more, if begin() went well. May be missing. */
	void (*end)(void);
	unsigned int pause_ms;	/* between strikes */
	bool impatient;		/* the deadlines are those of a user */
	bool dcbm;		/* strikes dcbm and softdma, as each with faults does */
};

/* Each ends with one that has no name */
extern const struct torture_class torture_callers[];
extern const struct torture_class torture_engine[];
extern const struct torture_class torture_machine[];
extern const struct torture_class torture_memory[];
extern const struct torture_class torture_shared[];
extern const struct torture_class torture_writers[];

/* In memory that all processes share */
struct torture_tally {
	atomic_bool over;
	atomic_int ready;	/* loads that have had a round */
	atomic_long moved;	/* folios of the load, by whomever */
	atomic_long bytes;	/* compared with what they should be */
	atomic_long strikes;
	atomic_long mistakes;
};

/* The two nodes between which all memory moves */
extern int torture_nodes[2];

/* Say what is wrong, once for each, and count it */
__printf(2, 3)
long torture_mistake(long nr, const char *format, ...);

/* Load dcbm and softdma anew and make it active. NULL, or the unmet need. */
const char *torture_use_dcbm(void);

/* How many kinds of load there are */
size_t torture_loads(void);
/* Move memory of kind @i, and check it, until it is over */
void torture_load(struct torture_tally *tally, size_t i);

/* A region; if folios of this size cannot be had, it is made of others */
void torture_create(struct region *r, enum backing kind, size_t folio,
		    size_t size, int node);
/* The last word of a strike: how many of its words were wrong, these included */
long torture_unmake(struct region *r, const char *who, long wrong);

#endif /* MIGRATE_OFFLOAD_TORTURE_H */
