// SPDX-License-Identifier: GPL-2.0
/* The kernel's migration events, with nanoseconds, from a trace instance of our
 * own: nobody else's tracing is touched, and it is gone at exit. The raw buffers
 * are read, in the format that events/header_page describes.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRACEFS "/sys/kernel/tracing"
#define PMD_PAGES 512
#define EVENT_BYTES 48		/* in the buffer, rounded up */
#define HEADER_BYTES 16		/* of a buffer page: time stamp, bytes used */
#define USED_MASK ((1UL << 30) - 1)
#define MISSED (1UL << 31)

static const char *const event_names[TRACE_KINDS] = {
	[TRACE_START] = "migrate/mm_migrate_pages_start",
	[TRACE_SET_PTE] = "migrate/set_migration_pte",
	[TRACE_REMOVE_PTE] = "migrate/remove_migration_pte",
	[TRACE_SET_RUN] = "migrate/set_migration_run",
	[TRACE_REMOVE_RUN] = "migrate/remove_migration_run",
	[TRACE_SET_PMD] = "thp/set_migration_pmd",
	[TRACE_REMOVE_PMD] = "thp/remove_migration_pmd",
};

static char instance[64];
static bool mounted;
static int event_id[TRACE_KINDS];
static size_t addr_offset, nr_offset;

static bool is_run(enum trace_kind kind)
{
	return kind == TRACE_SET_RUN || kind == TRACE_REMOVE_RUN;
}

static const char *path_of(const char *file)
{
	static char path[384];

	snprintf(path, sizeof(path), "%s/%s", instance, file);
	return path;
}

static void set(const char *file, const char *text)
{
	if (write_text(path_of(file), text))
		die(EXIT_CANNOT_RUN, "--latency: cannot write %s to %s: %m", text, path_of(file));
}

static void remove_instance(void)
{
	write_text(path_of("events/enable"), "0");
	rmdir(instance);
	if (mounted)
		umount(TRACEFS);
}

static void make_instance(void)
{
	if (access(TRACEFS "/instances", F_OK) &&
	    !mount("tracefs", TRACEFS, "tracefs", 0, NULL))
		mounted = true;
	snprintf(instance, sizeof(instance), TRACEFS "/instances/migbench.%d", getpid());
	if (mkdir(instance, 0700))
		die(EXIT_CANNOT_RUN, "--latency: cannot make %s: %m; it needs root and a kernel with CONFIG_EVENT_TRACING",
		    instance);
	atexit(remove_instance);
}

/* Where an event has what its format, @text, calls @field */
static size_t offset_of(enum trace_kind kind, const char *text, const char *field)
{
	char line[64];
	const char *found;

	snprintf(line, sizeof(line), " %s;\toffset:", field);
	found = strstr(text, line);
	if (!found)
		die(EXIT_CANNOT_RUN, "--latency: event %s tells no %s", event_names[kind],
		    field);
	return strtoul(strchr(found, ':') + 1, NULL, 10);
}

static void enable_event(enum trace_kind kind)
{
	char file[128], text[2048];

	snprintf(file, sizeof(file), "events/%s/id", event_names[kind]);
	event_id[kind] = -1;
	if (read_text(path_of(file), text, sizeof(text))) {
		/* Linux tells of each PTE */
		if (is_run(kind))
			return;
		die(EXIT_CANNOT_RUN, "--latency: this kernel has no event %s",
		    event_names[kind]);
	}
	event_id[kind] = atoi(text);
	snprintf(file, sizeof(file), "events/%s/format", event_names[kind]);
	if (read_text(path_of(file), text, sizeof(text)))
		text[0] = '\0';
	if (kind != TRACE_START)
		addr_offset = offset_of(kind, text, "addr");
	if (is_run(kind))
		nr_offset = offset_of(kind, text, "nr");
	snprintf(file, sizeof(file), "events/%s/enable", event_names[kind]);
	set(file, "1");
}

void tracefs_open(size_t expected_events)
{
	size_t kib = expected_events * EVENT_BYTES / 1024 + 64;
	enum trace_kind kind;
	char text[32];

	make_instance();
	set("tracing_on", "0");
	set("trace_clock", "mono");
	/* each CPU may get it all; with too little memory, less (and "lost") */
	do {
		snprintf(text, sizeof(text), "%zu", kib);
		kib /= 2;
	} while (write_text(path_of("buffer_size_kb"), text) && kib > 64);
	for (kind = 0; kind < TRACE_KINDS; kind++)
		enable_event(kind);
}

void tracefs_start(void)
{
	set("trace", "");
	set("tracing_on", "1");
}

static void add_event(struct trace_log *log, uint64_t ns, const char *data, size_t length)
{
	struct trace_event *e;
	enum trace_kind kind;
	uint16_t id;

	if (length < 8)
		return;
	memcpy(&id, data, sizeof(id));
	for (kind = 0; kind < TRACE_KINDS && event_id[kind] != id; kind++)
		;
	if (kind == TRACE_KINDS ||
	    (kind != TRACE_START && length < addr_offset + sizeof(e->addr)) ||
	    (is_run(kind) && length < nr_offset + sizeof(e->pages)))
		return;
	if (log->count == log->room) {
		log->room = log->room ? 2 * log->room : 4096;
		log->event = realloc(log->event, log->room * sizeof(*e));
		if (!log->event)
			die(EXIT_CANNOT_RUN, "no memory for %zu trace events", log->room);
	}
	e = &log->event[log->count];
	*e = (struct trace_event){ .ns = ns, .kind = kind, .pages = 1, .seq = log->count++ };
	memcpy(&e->pid, data + 4, sizeof(e->pid));
	if (kind != TRACE_START)
		memcpy(&e->addr, data + addr_offset, sizeof(e->addr));
	if (kind == TRACE_SET_PMD || kind == TRACE_REMOVE_PMD)
		e->pages = PMD_PAGES;
	if (is_run(kind))
		memcpy(&e->pages, data + nr_offset, sizeof(e->pages));
}

/* Entries of a page: 5 bits type or length, 27 bits time since the one before. */
static void decode_page(struct trace_log *log, const char *page, size_t bytes)
{
	uint64_t ns, used;
	size_t at, length;
	uint32_t head, word;

	memcpy(&ns, page, sizeof(ns));
	memcpy(&used, page + 8, sizeof(used));
	log->lost |= (used & MISSED) != 0;
	used &= USED_MASK;
	if (used > bytes - HEADER_BYTES)
		used = bytes - HEADER_BYTES;
	page += HEADER_BYTES;
	for (at = 0; at + 8 <= used; at += length) {
		memcpy(&head, page + at, sizeof(head));
		memcpy(&word, page + at + 4, sizeof(word));
		length = 8;
		switch (head & 31) {
		case 29:		/* padding; of no length: the page ends */
			if (!(head >> 5))
				return;
			ns += head >> 5;
			length = 4 + word;
			break;
		case 30:		/* a long time since the last entry */
			ns += ((uint64_t)word << 27) + (head >> 5);
			break;
		case 31:		/* absolute time */
			ns = (ns & 31UL << 59) | ((uint64_t)word << 27) | head >> 5;
			break;
		case 0:			/* a long entry: its length comes first */
			ns += head >> 5;
			length = 4 + word;
			if (word >= 4 && at + length <= used)
				add_event(log, ns, page + at + 8, word - 4);
			break;
		default:
			ns += head >> 5;
			length = 4 + 4 * (head & 31);
			if (at + length <= used)
				add_event(log, ns, page + at + 4, length - 4);
		}
	}
}

static void read_cpu(struct trace_log *log, const char *cpu)
{
	static const char *const losses[] = { "\noverrun: ", "commit overrun: ",
					      "dropped events: " };
	char file[300], text[512], page[PAGE_BYTES];
	ssize_t got;
	size_t i;
	int fd;

	snprintf(file, sizeof(file), "per_cpu/%s/stats", cpu);
	if (read_text(path_of(file), text, sizeof(text)))
		die(EXIT_CANNOT_RUN, "--latency: cannot read %s", path_of(file));
	for (i = 0; i < 3; i++) {
		const char *count = strstr(text, losses[i]);

		log->lost |= !count || atol(count + strlen(losses[i])) > 0;
	}
	snprintf(file, sizeof(file), "per_cpu/%s/trace_pipe_raw", cpu);
	fd = open(path_of(file), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		die(EXIT_CANNOT_RUN, "--latency: cannot open %s: %m", path_of(file));
	while ((got = read(fd, page, sizeof(page))) > HEADER_BYTES)
		decode_page(log, page, (size_t)got);
	close(fd);
}

static int by_time(const void *a, const void *b)
{
	const struct trace_event *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->seq < y->seq ? -1 : 1;
}

void tracefs_stop(struct trace_log *log)
{
	struct dirent *entry;
	DIR *cpus;

	set("tracing_on", "0");
	log->count = 0;
	log->lost = false;
	cpus = opendir(path_of("per_cpu"));
	if (!cpus)
		die(EXIT_CANNOT_RUN, "--latency: cannot list %s", path_of("per_cpu"));
	while ((entry = readdir(cpus)))
		if (!strncmp(entry->d_name, "cpu", 3))
			read_cpu(log, entry->d_name);
	closedir(cpus);
	if (log->count)
		qsort(log->event, log->count, sizeof(*log->event), by_time);
}
