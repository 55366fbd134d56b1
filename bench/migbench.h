/* SPDX-License-Identifier: GPL-2.0 */
/*
 * migbench: how fast does this kernel move memory between NUMA nodes, how long
 * is the memory inaccessible meanwhile, and does every byte arrive?
 *
 * main.c runs the show; every other file is one idea of it.
 */
#ifndef MIGBENCH_H
#define MIGBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common.h"

#if !__has_include(<numa.h>)
#error "numa.h is missing: apt-get install libnuma-dev"
#endif

struct bitmask;	/* libnuma's */

#define PAGE_BYTES 4096UL
#define NODE_AUTO (~0UL)

/* What the user asked for; options.c fills it from its table. */
struct options {
	const char *call;
	const char *memory;
	const char *file;
	const char *cpus;
	const char *json;
	const char *order;
	unsigned long folio_bytes;
	unsigned long bytes;
	unsigned long from;
	unsigned long to;
	unsigned long runs;
	unsigned long warmup;
	unsigned long threads;
	unsigned long per_call;
	unsigned long busy;
	unsigned long writers;
	unsigned long write_rate;	/* a second, of all writers */
	unsigned long write_share;	/* percent */
	const char *direct_from;
	unsigned long seed;
	bool latency;
	bool access;
	bool stall;
	bool faults;
	bool null;
	bool apart;
	bool fragmented;
	bool allow_partial;
	int argc;
	char **argv;
};

/* The memory that moves, and the arrays that the calls need, made beforehand. */
struct region {
	char *base;
	size_t share_pages;	/* that lie side by side: all, or a mover's */
	size_t stride;		/* from share to share */
	size_t folios;
	size_t pages;
	void **addr;		/* of each folio, in the order in which they move */
	int *node_to;		/* for each folio, as move_pages() wants it */
	int *status;
	struct bitmask *mask_from;	/* for mbind() and migrate_pages() */
	struct bitmask *mask_to;
	uint64_t *touches;	/* per page and toucher: what it added to its word */
	size_t touchers;	/* the stall probe, then each writer */
	bool confirmed;		/* folio sizes were read back from the kernel */
	bool *wrong;		/* for each folio: it was not whole the last time */
};

struct counts {
	uint64_t minor_faults;
	uint64_t shootdowns;
};

/* How long something took each time; 0 if it never happened */
struct spread {
	uint64_t count;
	double p50_us, p99_us, longest_us;
};

struct run {
	uint64_t ns;
	uint64_t cpu_ns;
	size_t moved_pages;
	size_t split_folios;
	struct counts counts;
};

struct samples {
	double *value;
	size_t count;
	size_t room;
};

struct bench;

/* A way to move folios [first, first + count); returns 0 or -errno. What is not
 * timed may be NULL.
 */
struct call {
	const char *name;
	int (*move)(struct bench *b, size_t first, size_t count);
	void (*set_up)(struct bench *b);	/* once, before memory is filled */
	void (*filled)(struct bench *b, size_t folio);	/* after each folio is */
	void (*prepare)(struct bench *b);	/* before each move */
	void (*finish)(void);
	size_t (*moved)(struct bench *b);	/* within --from; NULL: all to --to */
	bool ordered;		/* may move the folios in any --order */
	bool aged;		/* in that in which they were filled */
	bool anon;		/* moves private memory alone */
	bool splits;		/* folios on the way, as a side effect */
	bool parted;		/* may get some of them: --threads */
	bool repeated;		/* and some at a time: --per-call */
};

struct bench {
	struct options opt;
	const struct call *call;
	struct region mem;
	int *cpus;		/* for each mover; NULL: not pinned */
	struct run *runs;	/* the timed ones that are complete */
	size_t runs_done;
	struct samples first_folio_us;
	struct samples inaccessible_us;
	const char *latency_void;	/* why the figures above cannot be trusted */
	struct samples uncached_cycles;
	struct samples cached_cycles;
	struct samples post_move_cycles;
	struct samples stall_us;	/* the worst touch of each run */
	uint64_t stall_touches;
	struct samples fault_us;	/* what --call promote touches */
	uint64_t verified_bytes;
	uint64_t mismatched_bytes;
	bool failed;
};

/* util.c */
void fail(struct bench *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int write_text(const char *path, const char *text);
void pin(int cpu);
void samples_add(struct samples *s, double value);
double samples_percentile(struct samples *s, double percent);
void signals_hold(void);
void signals_obey(void);

/* options.c */
void options_parse(struct options *opt, int argc, char **argv);

/* host.c */
void host_check(struct bench *b);
int host_nodes(unsigned long *nodes, int room);

/* thp.c */
void thp_prepare(const struct options *opt);

/* hugetlb.c */
void hugetlb_prepare(const struct options *opt);

/* memory.c */
void memory_set_up(struct bench *b);
void memory_renew(struct bench *b);
bool memory_is_file(const struct options *opt);
bool memory_is_weights(const struct options *opt);
bool memory_is_hugetlb(const struct options *opt);
char *memory_page(const struct bench *b, size_t page);
bool memory_find(const struct bench *b, uintptr_t addr, size_t *page);
void memory_forget_policy(const struct bench *b);
char *memory_map(const struct bench *b, size_t bytes);

/* fragment.c */
void fragment(const struct bench *b);

/* pattern.c */
void pattern_fill(char *page, size_t page_index, uint64_t seed);
void pattern_check(struct bench *b);

/* place.c */
size_t place_count(struct bench *b, unsigned long node);
void place_frames(const struct bench *b, uint64_t *frame);
size_t place_wrong_folios(struct bench *b, size_t *first_wrong);

/* setting.c: the kernel's, put back at exit */
int setting_read(const char *path, char *value, size_t size);
int setting_change(const char *path, const char *value);
void setting_restore(const char *path);

/* damon.c, promote.c, demote.c, compact.c: callers that are no system calls */
void damon_prepare(struct bench *b);
int damon_move(struct bench *b, size_t first, size_t count);
void damon_finish(void);
void promote_prepare(struct bench *b);
int promote_move(struct bench *b, size_t first, size_t count);
void promote_finish(void);
void promote_time_faults(struct bench *b);
void promote_timed_faults(struct bench *b);
void demote_set_up(struct bench *b);
void demote_prepare(struct bench *b);
int demote_move(struct bench *b, size_t first, size_t count);
void compact_set_up(struct bench *b);
void compact_filled(struct bench *b, size_t folio);
void compact_prepare(struct bench *b);
int compact_move(struct bench *b, size_t first, size_t count);
size_t compact_moved(struct bench *b);

/* lru.c */
void lru_drain(void);

/* calls.c */
const struct call *call_find(const struct options *opt);

/* movers.c */
void movers_run(struct bench *b, struct run *run);

/* busy.c */
void busy_start(unsigned long threads);

/* latency.c, access.c, stall.c: what else is measured around a move */
void latency_prepare(struct bench *b);
void latency_before(struct bench *b);
void latency_after(struct bench *b);
void access_before(struct bench *b);
void access_after(struct bench *b);
void stall_before(struct bench *b);
void stall_after(struct bench *b);

/* counts.c */
struct counts counts_read(void);

/* writers.c: beside the timed moves */
void writers_start(struct bench *b);
void writers_stop(struct bench *b);
void writers_forget(struct bench *b);
struct spread writers_waits(const struct bench *b);

/* direct.c */
struct direct;
void direct_set_up(const struct bench *b);
struct direct *direct_open(void);
uint64_t direct_read(struct bench *b, struct direct *d, size_t page);

/* tracefs.c */
enum trace_kind {
	TRACE_START,
	TRACE_SET_PTE,
	TRACE_REMOVE_PTE,
	TRACE_SET_RUN,
	TRACE_REMOVE_RUN,
	TRACE_SET_PMD,
	TRACE_REMOVE_PMD,
	TRACE_KINDS,
};

struct trace_event {
	uint64_t ns;
	uint64_t addr;
	uint32_t pages;		/* from addr on */
	size_t seq;
	int pid;
	enum trace_kind kind;
};

struct trace_log {
	struct trace_event *event;
	size_t count;
	size_t room;
	bool lost;
};

void tracefs_open(size_t expected_events);
void tracefs_start(void);
void tracefs_stop(struct trace_log *log);

/* report.c, json.c */
void report_open(const struct options *opt);
void report_write(struct bench *b);

struct json {
	FILE *out;
	bool comma;
};

void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);
void json_text(struct json *j, const char *key, const char *text);
void json_count(struct json *j, const char *key, uint64_t value);
void json_real(struct json *j, const char *key, double value);
void json_flag(struct json *j, const char *key, bool value);

#endif
