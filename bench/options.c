// SPDX-License-Identifier: GPL-2.0
/* The command line: one table row per option; help, defaults and parsing all
 * come from it. What is wrong with a value is said in one line.
 */
#define _GNU_SOURCE
#include "migbench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, NUMBER, SIZE, CHOICE, FOLIO, TEXT };

struct row {
	const char *name;
	enum kind kind;
	size_t offset;		/* in struct options */
	const char *arg;	/* for CHOICE and FOLIO: the words allowed */
	unsigned long min, max;
	const char *initial;	/* in brackets: shown, but nothing to set */
	const char *example;
	const char *help;
};

#define AT(field) offsetof(struct options, field)
#define CALLS "move_pages|migrate_pages|mbind|damon|promote|demote|compact"
#define FOLIO_SIZES "4K|16K|32K|64K|128K|256K|512K|1M|2M|1G"

static const struct row rows[] = {
	{ "call", CHOICE, AT(call), CALLS, 0, 0, "move_pages", "mbind",
	  "who moves: a system call (migrate_pages: of the whole process), or the kernel itself" },
	{ "folio", FOLIO, AT(folio_bytes), FOLIO_SIZES, 0, 0, "4K", "64K",
	  "folio size, KiB (K), MiB (M) or GiB (G); set up as root, confirmed by the kernel" },
	{ "memory", CHOICE, AT(memory), "anon|shared|weights|file|hugetlb", 0, 0, "anon", "shared",
	  "private, shmem, read-only file of shmem, page cache of --file, private of hugetlb" },
	{ "file", TEXT, AT(file), "PATH", 0, 0, "(none)", "/mnt/xfs/new",
	  "for --memory file: a path that does not exist yet; made, then removed" },
	{ "bytes", SIZE, AT(bytes), "SIZE", PAGE_BYTES, 1UL << 46, "64M", "1G",
	  "how much, in KiB (K), MiB (M) or GiB (G); a multiple of --folio" },
	{ "from", NUMBER, AT(from), "NODE", 0, 1023, "(the first with memory)", "0",
	  "node that the memory is on" },
	{ "to", NUMBER, AT(to), "NODE", 0, 1023, "(the second with memory)", "1",
	  "node that it moves to" },
	{ "runs", NUMBER, AT(runs), "N", 1, 100000, "5", "11",
	  "timed moves, each of new memory" },
	{ "warmup", NUMBER, AT(warmup), "N", 0, 1000, "1", "0",
	  "moves before the timed ones, checked alike" },
	{ "threads", NUMBER, AT(threads), "N", 1, 1024, "1", "4",
	  "threads that move, each its own share, all at once" },
	{ "per-call", NUMBER, AT(per_call), "FOLIOS", 0, 1UL << 34, "0", "512",
	  "folios given to one call (0: all in one)" },
	{ "order", CHOICE, AT(order), "up|random|scattered", 0, 0, "up", "random",
	  "in which the folios move: of addresses, or one of --seed's; scattered: filled so" },
	{ "apart", FLAG, AT(apart), NULL, 0, 0, "off", NULL,
	  "each thread's share in mappings, and GiBs of addresses, of its own" },
	{ "fragmented", FLAG, AT(fragmented), NULL, 0, 0, "off", NULL,
	  "no free block above 15 pages on --to before a move: large folios wait for room" },
	{ "cpus", TEXT, AT(cpus), "LIST", 0, 0, "(not pinned)", "0,2-3",
	  "CPUs to pin the moving threads to, in turn" },
	{ "latency", FLAG, AT(latency), NULL, 0, 0, "off", NULL,
	  "+ --runs moves under tracepoints: first folio, inaccessible time, in us" },
	{ "access", FLAG, AT(access), NULL, 0, 0, "off", NULL,
	  "+ --runs moves: cycles to read a page uncached, cached, after the move" },
	{ "stall", FLAG, AT(stall), NULL, 0, 0, "off", NULL,
	  "+ --runs moves while a thread reads and writes: its worst stall, in us" },
	{ "faults", FLAG, AT(faults), NULL, 0, 0, "off", NULL,
	  "+ --runs moves of --call promote: how long each touch takes, in us" },
	{ "busy", NUMBER, AT(busy), "N", 0, 4096, "0", "2",
	  "threads that burn CPU all the while" },
	{ "writers", NUMBER, AT(writers), "N", 0, 64, "0", "1",
	  "threads that write single words at random while it moves: their waits, in us" },
	{ "write-rate", NUMBER, AT(write_rate), "N", 0, 1000000000, "0", "10000",
	  "writes a second of all --writers together (0: as fast as they can)" },
	{ "write-share", NUMBER, AT(write_share), "PERCENT", 1, 100, "100", "10",
	  "of the memory that is written to: the first pages" },
	{ "direct-from", TEXT, AT(direct_from), "DEVICE", 0, 0, "(none)", "/dev/loop0",
	  "--writers submit direct reads of it, which needs the folio's lock; it is overwritten" },
	{ "null", FLAG, AT(null), NULL, 0, 0, "off", NULL,
	  "do everything but the call: measures migbench itself; one node is enough" },
	{ "allow-partial", FLAG, AT(allow_partial), NULL, 0, 0, "off", NULL,
	  "pass when the kernel left pages behind, be it all, or split folios" },
	{ "seed", NUMBER, AT(seed), "N", 0, ~0UL, "1", "42",
	  "of the pattern that fills the memory, and of the probe's steps" },
	{ "json", TEXT, AT(json), "FILE|-", 0, 0, "(none)", "-",
	  "write JSON to FILE, or (-) to stdout instead of the table" },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void help(void)
{
	const struct row *r;

	puts("migbench " VERSION
	     ": moves memory between NUMA nodes, times it, and verifies every byte.\n"
	     "\n"
	     "usage: migbench [OPTION VALUE | OPTION=VALUE]...\n");
	for (r = rows; r < rows + ROWS; r++) {
		printf("  --%s%s%s\n      %s\n", r->name, r->arg ? " " : "",
		       r->arg ? r->arg : "", r->help);
		printf("      default %s; example: --%s%s%s\n", r->initial, r->name,
		       r->example ? " " : "", r->example ? r->example : "");
	}
	puts("  --help, --version\n"
	     "\n"
	     "Each run: new memory is filled on --from; between two clock reads it is moved to\n"
	     "--to; then every byte, and the node and folio size of every page, are checked.\n"
	     "Only --from to --to is measured: swap them for the other direction. move_pages\n"
	     "gets one address per folio. damon begins a millisecond after it was told to, and its\n"
	     "CPU time is not counted. promote touches each folio of a slow node for NUMA\n"
	     "balancing; demote reclaims from a cgroup whose folios have been cold in --order;\n"
	     "compact moves within --from what other folios were freed between. Figures are\n"
	     "medians over the timed runs. GB is 10^9 bytes; K, M, G are powers of 1024.\n"
	     "\n"
	     "As root, folio sizes that are off are enabled (larger ones disabled) under\n"
	     "/sys/kernel/mm/transparent_hugepage, the nodes' pools of huge pages filled for\n"
	     "--memory hugetlb, and put back at exit; tracefs is mounted if need be. Signals are\n"
	     "obeyed between two runs.\n"
	     "\n"
	     "exit: 0 passed; 1 a byte differs, or the kernel left a page behind or split a\n"
	     "folio (both are accepted, and counted, with --allow-partial); 2 bad usage;\n"
	     "4 cannot run here (node, free memory, folio size, privilege).\n"
	     "\n"
	     "examples:\n"
	     "  migbench --folio 2M --bytes 1G --from 0 --to 1 --latency --stall\n"
	     "  migbench --call mbind --folio 64K --memory shared --json out.json\n"
	     "  migbench --memory file --file /mnt/new --per-call 512 --threads 2");
	exit(EXIT_PASSED);
}

/* Is @text one of the |-separated @words? */
static bool one_of(const char *words, const char *text)
{
	size_t length = strlen(text);

	while (length) {
		size_t word = strcspn(words, "|");

		if (word == length && !strncmp(words, text, word))
			return true;
		if (!words[word])
			return false;
		words += word + 1;
	}
	return false;
}

/* A decimal number with an optional K, M or G if @suffix; false: not one. */
static bool parse_number(const char *text, bool suffix, unsigned long *value)
{
	unsigned int shift = 0;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoul(text, &end, 10);
	if (errno)
		return false;
	if (suffix && *end) {
		const char *units = "KMG", *unit = strchr(units, *end);

		if (!unit)
			return false;
		shift = 10 * (unsigned int)(unit - units + 1);
		end++;
	}
	if (*end || *value > ~0UL >> shift)
		return false;
	*value <<= shift;
	return true;
}

static void set_number(struct options *opt, const struct row *r, const char *text)
{
	unsigned long *field = (void *)((char *)opt + r->offset);
	bool size = r->kind != NUMBER;

	if (parse_number(text, size, field) && *field >= r->min && *field <= r->max)
		return;
	if (size)
		die(EXIT_BAD_USAGE, "--%s %s: must be a size from 4K up, such as 64M or 1G",
		    r->name, text);
	die(EXIT_BAD_USAGE, "--%s %s: must be a number from %lu to %lu", r->name, text,
	    r->min, r->max);
}

static void set(struct options *opt, const struct row *r, const char *text)
{
	void *field = (char *)opt + r->offset;

	switch (r->kind) {
	case FLAG:
		*(bool *)field = text != r->initial;
		return;
	case NUMBER:
	case SIZE:
		set_number(opt, r, text);
		return;
	case CHOICE:
	case FOLIO:
		if (!one_of(r->arg, text))
			die(EXIT_BAD_USAGE, "--%s %s: must be one of %s", r->name, text,
			    r->arg);
		if (r->kind == FOLIO)
			parse_number(text, true, field);
		else
			*(const char **)field = text;
		return;
	case TEXT:
		if (!*text)
			die(EXIT_BAD_USAGE, "--%s '': must not be empty", r->name);
		*(const char **)field = text;
		return;
	}
}

static const struct row *find(const char *arg)
{
	size_t length = strcspn(arg, "=");
	const struct row *r;

	for (r = rows; r < rows + ROWS; r++)
		if (!strncmp(arg, "--", 2) && strlen(r->name) == length - 2 &&
		    !strncmp(arg + 2, r->name, length - 2))
			return r;
	die(EXIT_BAD_USAGE, "%s: no such option; migbench --help lists them", arg);
}

/* What not every call can do. */
static void validate_call(const struct options *opt, const struct call *call)
{
	if (strcmp(opt->order, "up") && !call->ordered)
		die(EXIT_BAD_USAGE, "--order %s: cannot go with --call %s", opt->order, opt->call);
	if ((opt->threads > 1 && !call->parted) || (opt->per_call && !call->repeated))
		die(EXIT_BAD_USAGE, "--call %s: moves all at once, so leave out --%s",
		    opt->call, opt->per_call ? "per-call" : "threads");
	if (call->anon && strcmp(opt->memory, "anon"))
		die(EXIT_BAD_USAGE, "--call %s: needs --memory anon", opt->call);
	if (call->moved && (opt->folio_bytes == 2UL << 20 || opt->fragmented))
		die(EXIT_BAD_USAGE, "--call %s: moves folios smaller than 2M, and not to --fragmented",
		    opt->call);
}

/* What one option alone cannot tell. */
static void validate(const struct options *opt)
{
	const struct call *call = call_find(opt);
	bool file = !strcmp(opt->memory, "file");
	unsigned long folios = opt->bytes / opt->folio_bytes;

	if (!folios || opt->bytes % opt->folio_bytes)
		die(EXIT_BAD_USAGE, "--bytes %lu: must be a multiple of --folio, %lu KiB",
		    opt->bytes, opt->folio_bytes >> 10);
	if (opt->threads > folios)
		die(EXIT_BAD_USAGE, "--threads %lu: must be at most the %lu folios",
		    opt->threads, folios);
	if (file && !opt->file)
		die(EXIT_BAD_USAGE, "--memory file: needs --file PATH, a path to create");
	if (!file && opt->file)
		die(EXIT_BAD_USAGE, "--file %s: only goes with --memory file", opt->file);
	if (!opt->null && !call->moved && opt->from == opt->to && opt->from != NODE_AUTO)
		die(EXIT_BAD_USAGE, "--to %lu: must differ from --from %lu", opt->to,
		    opt->from);
	if (memory_is_weights(opt) && (opt->stall || opt->writers))
		die(EXIT_BAD_USAGE, "--%s: writes, so --memory must not be weights",
		    opt->stall ? "stall" : "writers");
	if (memory_is_hugetlb(opt) ? opt->folio_bytes < 2UL << 20 : opt->folio_bytes > 2UL << 20)
		die(EXIT_BAD_USAGE,
		    "--folio %luK: must be 2M or 1G with --memory hugetlb, and at most 2M without",
		    opt->folio_bytes >> 10);
	if (opt->faults && (strcmp(opt->call, "promote") || opt->null))
		die(EXIT_BAD_USAGE, "--faults: needs --call promote, which takes hint faults, and no --null");
	if (opt->null && opt->latency)
		die(EXIT_BAD_USAGE, "--latency: cannot go with --null, which moves nothing");
	if (!opt->writers && opt->write_rate)
		die(EXIT_BAD_USAGE, "--write-rate %lu: needs --writers", opt->write_rate);
	if (!opt->writers && opt->direct_from)
		die(EXIT_BAD_USAGE, "--direct-from %s: needs --writers", opt->direct_from);
	validate_call(opt, call);
	if (opt->apart && (strcmp(opt->memory, "anon") || folios % opt->threads))
		die(EXIT_BAD_USAGE,
		    "--apart: needs --memory anon, and as many folios for each of the --threads");
	if (opt->fragmented && opt->null)
		die(EXIT_BAD_USAGE, "--fragmented: cannot go with --null, which moves nothing");
	if (opt->apart && opt->access)
		die(EXIT_BAD_USAGE, "--access: cannot go with --apart");
}

void options_parse(struct options *opt, int argc, char **argv)
{
	const struct row *r;
	int i;

	*opt = (struct options){ .from = NODE_AUTO, .to = NODE_AUTO,
				 .argc = argc, .argv = argv };
	for (r = rows; r < rows + ROWS; r++)
		if (*r->initial != '(')
			set(opt, r, r->initial);
	for (i = 1; i < argc; i++) {
		const char *value = strchr(argv[i], '=');

		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			help();
		if (!strcmp(argv[i], "--version")) {
			puts("migbench " VERSION);
			exit(EXIT_PASSED);
		}
		r = find(argv[i]);
		if (r->kind == FLAG && value)
			die(EXIT_BAD_USAGE, "--%s: takes no value", r->name);
		if (r->kind != FLAG && !value && ++i == argc)
			die(EXIT_BAD_USAGE, "--%s: needs a value, %s", r->name, r->arg);
		set(opt, r, value ? value + 1 : argv[i]);
	}
	validate(opt);
}
