// SPDX-License-Identifier: GPL-2.0
/* What was found, for people and for programs. */
#include "migbench.h"

#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define KIB 1024
#define MIB (1024.0 * 1024)

struct summary {
	struct samples gbps, cpu_ns_per_page, ns_per_folio;
	struct samples faults_per_folio, shootdowns_per_folio;
};

static FILE *json_file;

/* Before anything is measured: a result that cannot be written is no result. */
void report_open(const struct options *opt)
{
	if (!opt->json)
		return;
	json_file = strcmp(opt->json, "-") ? fopen(opt->json, "we") : stdout;
	if (!json_file)
		die(EXIT_BAD_USAGE, "--json %s: %m; name a file that can be written, or -",
		    opt->json);
}

static double median(struct samples *s)
{
	return samples_percentile(s, 50);
}

static struct spread spread_of(struct samples *s)
{
	return (struct spread){
		.p50_us = median(s), .p99_us = samples_percentile(s, 99),
		.longest_us = samples_percentile(s, 100), .count = s->count,
	};
}

/* Runs that moved nothing (--null) have no rates. */
static void summarise(struct bench *b, struct summary *s)
{
	size_t i;

	for (i = 0; i < b->runs_done; i++) {
		const struct run *r = &b->runs[i];
		double pages = (double)r->moved_pages;
		double folios = pages * PAGE_BYTES / (double)b->opt.folio_bytes;

		if (!r->moved_pages || !r->ns)
			continue;
		samples_add(&s->gbps, pages * PAGE_BYTES / (double)r->ns);
		samples_add(&s->cpu_ns_per_page, (double)r->cpu_ns / pages);
		samples_add(&s->ns_per_folio, (double)r->ns / folios);
		samples_add(&s->faults_per_folio, (double)r->counts.minor_faults / folios);
		samples_add(&s->shootdowns_per_folio, (double)r->counts.shootdowns / folios);
	}
}

static void json_host(struct json *j)
{
	unsigned long nodes[1024];
	int count = host_nodes(nodes, 1024), i;

	json_open(j, "host", '{');
	json_count(j, "cpus", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	json_open(j, "nodes", '[');
	for (i = 0; i < count; i++)
		json_count(j, NULL, nodes[i]);
	json_close(j, ']');
	json_close(j, '}');
}

static void json_setting(struct json *j, const struct bench *b)
{
	const struct options *opt = &b->opt;
	struct utsname name;
	int i;

	uname(&name);
	json_text(j, "tool", "migbench");
	json_text(j, "version", VERSION);
	json_open(j, "command", '[');
	for (i = 0; i < opt->argc; i++)
		json_text(j, NULL, opt->argv[i]);
	json_close(j, ']');
	json_text(j, "kernel", name.release);
	json_count(j, "seed", opt->seed);
	json_host(j);
	json_text(j, "call", b->call->name);
	json_text(j, "memory", opt->memory);
	json_count(j, "folio_kib", opt->folio_bytes / KIB);
	json_flag(j, "folio_confirmed", b->mem.confirmed);
	json_count(j, "bytes", opt->bytes);
	json_count(j, "folios", b->mem.folios);
	json_count(j, "threads", opt->threads);
	json_count(j, "per_call", opt->per_call);
	json_text(j, "order", opt->order);
	json_flag(j, "apart", opt->apart);
	json_flag(j, "fragmented", opt->fragmented);
	json_count(j, "busy", opt->busy);
	json_count(j, "writers", opt->writers);
	json_count(j, "write_rate", opt->write_rate);
	json_count(j, "write_share", opt->write_share);
	if (opt->cpus)
		json_text(j, "pinned_to", opt->cpus);
	json_count(j, "from", opt->from);
	json_count(j, "to", opt->to);
}

static void json_runs(struct json *j, struct bench *b, struct summary *s)
{
	size_t i;

	json_open(j, "runs", '[');
	for (i = 0; i < b->runs_done; i++) {
		json_open(j, NULL, '{');
		json_count(j, "ns", b->runs[i].ns);
		json_count(j, "cpu_ns", b->runs[i].cpu_ns);
		json_count(j, "moved_pages", b->runs[i].moved_pages);
		if (b->runs[i].split_folios)
			json_count(j, "split_folios", b->runs[i].split_folios);
		json_close(j, '}');
	}
	json_close(j, ']');
	if (!s->gbps.count)
		return;
	json_real(j, "gbps", median(&s->gbps));
	json_real(j, "gbps_min", samples_percentile(&s->gbps, 0));
	json_real(j, "gbps_max", samples_percentile(&s->gbps, 100));
	json_real(j, "cpu_ns_per_page", median(&s->cpu_ns_per_page));
	json_real(j, "ns_per_folio", median(&s->ns_per_folio));
	json_real(j, "minor_faults_per_folio", median(&s->faults_per_folio));
	json_real(j, "tlb_shootdowns_per_folio", median(&s->shootdowns_per_folio));
}

/* Null where nothing was timed */
static void json_spread(struct json *j, const char *key, struct spread s)
{
	json_open(j, key, '{');
	json_real(j, "p50", s.count ? s.p50_us : NAN);
	json_real(j, "p99", s.count ? s.p99_us : NAN);
	json_real(j, "max", s.count ? s.longest_us : NAN);
	json_count(j, "samples", s.count);
	json_close(j, '}');
}

static void json_extras(struct json *j, struct bench *b)
{
	if (b->failed)
		return;		/* cut short: nothing to go by */
	if (b->opt.latency) {
		struct spread none = { 0 };

		json_real(j, "first_folio_us", b->latency_void ? NAN : median(&b->first_folio_us));
		json_spread(j, "inaccessible_us",
			    b->latency_void ? none : spread_of(&b->inaccessible_us));
	}
	if (b->opt.access) {
		json_open(j, "access", '{');
		json_real(j, "uncached_cycles_per_page", median(&b->uncached_cycles));
		json_real(j, "cached_cycles_per_page", median(&b->cached_cycles));
		json_real(j, "post_move_cycles_per_page", median(&b->post_move_cycles));
		json_close(j, '}');
	}
	if (b->opt.writers)
		json_spread(j, "write_wait_us", writers_waits(b));
	if (b->opt.faults)
		json_spread(j, "fault_us", spread_of(&b->fault_us));
	if (b->opt.stall) {
		json_open(j, "stall", '{');
		json_real(j, "worst_us", samples_percentile(&b->stall_us, 100));
		json_real(j, "median_of_worst_us", median(&b->stall_us));
		json_count(j, "touches", b->stall_touches);
		json_close(j, '}');
	}
}

static void write_json(struct bench *b, struct summary *s)
{
	struct json j = { .out = json_file };

	json_open(&j, NULL, '{');
	json_setting(&j, b);
	json_runs(&j, b, s);
	json_extras(&j, b);
	json_count(&j, "verified_bytes", b->verified_bytes);
	json_count(&j, "mismatched_bytes", b->mismatched_bytes);
	json_flag(&j, "passed", !b->failed);
	json_close(&j, '}');
	fputc('\n', json_file);
	if (fflush(json_file) || ferror(json_file))
		die(EXIT_CANNOT_RUN, "--json %s: %m", b->opt.json);
}

static void table_setting(const struct bench *b)
{
	const struct options *opt = &b->opt;
	struct utsname name;

	uname(&name);
	printf("migbench %s on Linux %s, seed %lu\n", VERSION, name.release,
	       opt->seed);
	printf("%s, %s memory, %.6g MiB in %zu folios of %lu KiB (%s), node %lu to %lu\n",
	       b->call->name, opt->memory, (double)opt->bytes / MIB, b->mem.folios,
	       opt->folio_bytes / KIB,
	       b->mem.confirmed ? "confirmed" : "not confirmed: needs root",
	       opt->from, opt->to);
	printf("%lu thread%s on CPU %s, %lu busy, ", opt->threads,
	       opt->threads > 1 ? "s" : "", opt->cpus ? opt->cpus : "any", opt->busy);
	if (opt->per_call)
		printf("folios per call: %lu\n", opt->per_call);
	else
		printf("all folios in one call\n");
	if (strcmp(opt->order, "up") || opt->apart)
		printf("addresses: %s%s\n", opt->order, opt->apart ? ", threads apart" : "");
	if (opt->fragmented)
		puts("the target node was fragmented before each move");
}

static void table_runs(struct bench *b, struct summary *s)
{
	size_t left = 0, split = 0, i;

	if (!s->gbps.count) {
		for (i = 0; i < b->runs_done; i++)
			printf("  run %-14zu %lu ns, %lu ns of CPU\n", i + 1, b->runs[i].ns,
			       b->runs[i].cpu_ns);
		return;
	}
	printf("  throughput         %.3f GB/s (%.3f to %.3f, %zu runs)\n",
	       median(&s->gbps), samples_percentile(&s->gbps, 0),
	       samples_percentile(&s->gbps, 100), s->gbps.count);
	printf("  wall time          %.3f us per folio\n", median(&s->ns_per_folio) / 1000);
	printf("  caller's CPU time  %.0f ns per 4 KiB page\n", median(&s->cpu_ns_per_page));
	printf("  per folio          %.3g minor faults, %.3g TLB shootdowns\n",
	       median(&s->faults_per_folio), median(&s->shootdowns_per_folio));
	for (i = 0; i < b->runs_done; i++) {
		left += b->mem.pages - b->runs[i].moved_pages;
		split += b->runs[i].split_folios;
	}
	if (left || split)
		printf("  not moved          %zu pages left behind, %zu folios split\n", left, split);
}

static void table_spread(const char *title, struct spread s, const char *what)
{
	printf("  %-19sp50 %.1f, p99 %.1f, max %.1f us (%lu %s)\n", title, s.p50_us, s.p99_us,
	       s.longest_us, s.count, what);
}

static void table_extras(struct bench *b)
{
	if (b->failed)
		return;
	if (b->opt.latency && b->latency_void) {
		printf("  latency            not known: %s\n", b->latency_void);
	} else if (b->opt.latency) {
		printf("  first folio        %.1f us\n", median(&b->first_folio_us));
		table_spread("inaccessible", spread_of(&b->inaccessible_us), "samples");
	}
	if (b->opt.access)
		printf("  cycles per page    %.0f read uncached, %.0f cached, %.0f after the move\n",
		       median(&b->uncached_cycles), median(&b->cached_cycles),
		       median(&b->post_move_cycles));
	if (b->opt.writers)
		table_spread(b->opt.direct_from ? "direct reads'" : "writers' waits",
			     writers_waits(b), "writes");
	if (b->opt.faults)
		table_spread("touches", spread_of(&b->fault_us), "of them");
	if (b->opt.stall)
		printf("  worst stall        %.1f us (%.1f in the median run, %lu touches)\n",
		       samples_percentile(&b->stall_us, 100), median(&b->stall_us),
		       b->stall_touches);
}

static void write_table(struct bench *b, struct summary *s)
{
	table_setting(b);
	table_runs(b, s);
	table_extras(b);
	printf("  verified           %.6g MiB, %lu bytes differ\n",
	       (double)b->verified_bytes / MIB, b->mismatched_bytes);
	printf("%s\n", b->failed ? "FAILED" : "passed");
}

void report_write(struct bench *b)
{
	static struct summary s;

	summarise(b, &s);
	if (json_file)
		write_json(b, &s);
	if (json_file != stdout)
		write_table(b, &s);
}
