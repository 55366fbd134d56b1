// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin for QEMU's TCG: the instructions of one system call, by kernel
 * function and by step.
 *
 *	-plugin ./steps.so,table=FILE,out=FILE
 *
 * The table has a line for each function of the guest's kernel, in ascending
 * order of addresses (hexadecimal):
 *
 *	ADDRESS ROLE STEP NAME
 *
 * ROLE is "start" for the entry of a system call that may be the one, "must"
 * for a function without which it was another, "trap" for the entry of an
 * interrupt or exception, else "-". STEP is a number below 32: the step that
 * begins when the function is called, and ends when it returns; "N/M" if it
 * begins step N only when called in step M; "-" for a function that always
 * belongs to its caller's step. Step 0 is that of the system call
 * itself. Code outside the table (modules) is of step MODULES.
 *
 * A call counts from its entry to the first instruction in user space. The
 * last one that came by a "must" is written when the guest ends:
 *
 *	STEP NAME-OR-ADDRESS INSTRUCTIONS
 *
 * For x86-64, and for one virtual CPU. Which function called which is told by
 * a second stack, of the return addresses of all calls. It is right again at
 * the first return after it went wrong, as it does when tasks are switched.
 */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <qemu-plugin.h>

#define STEPS		32
#define MODULES		1	/* the step of code outside the table */
#define OUTSIDE		65536	/* most blocks of code outside the table */
#define DEPTH		256
#define KERNEL		(1ULL << 63)

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

struct function {
	uint64_t address;
	bool start;
	bool must;
	bool trap;
	int step;		/* -1: its caller's */
	int within;		/* -1: whatever that is */
	char name[56];
};

/* How a block ends */
enum end { OTHER, CALL, RETURN, TRAP_RETURN };

/* A translated block. @slot is where it counts: its function, or itself. */
struct block {
	uint64_t address;
	uint64_t next;		/* address behind it */
	unsigned int insns;
	unsigned int slot;
	const struct function *entered;	/* it is the function's first */
	enum end end;
	bool user;
	bool outside;
};

/* A function that was called, and the step that it belongs to */
struct frame {
	uint64_t returns_to;	/* 0: an interrupt or exception */
	int step;
	enum end interrupted;	/* the end of the block before it */
};

static GArray *functions;
static uint64_t *outside;	/* addresses of the blocks outside the table */
static unsigned int nr_outside;
static GHashTable *outside_slots;

static uint64_t *counts, *kept;	/* by step and slot */
static size_t nr_slots;

static bool counting, came_by_must;
static struct frame frames[DEPTH];
static unsigned int depth;
static enum end last_end;
static char *out_path;

static struct function *function_at(unsigned int i)
{
	return &g_array_index(functions, struct function, i);
}

/* --- while the guest runs --- */

static void push(uint64_t returns_to)
{
	if (depth == DEPTH) {
		/* The oldest of a stack that went wrong goes */
		memmove(frames + 1, frames + 2, (DEPTH - 2) * sizeof(*frames));
		depth--;
	}
	frames[depth] = frames[depth - 1];
	frames[depth++].returns_to = returns_to;
}

/* Leave the youngest call that returns to @address, and all that it called */
static void pop(uint64_t address)
{
	unsigned int i;

	for (i = depth - 1; i; i--) {
		if (frames[i].returns_to == address) {
			depth = i;
			return;
		}
	}
}

static void start(void)
{
	memset(counts, 0, STEPS * nr_slots * sizeof(*counts));
	counting = true;
	came_by_must = false;
	frames[0] = (struct frame) { };
	depth = 1;
	last_end = OTHER;
}

static void stop(void)
{
	uint64_t *old = kept;

	counting = false;
	if (!came_by_must)
		return;
	kept = counts;
	counts = old;
}

/* The step of a function is that of its call: the youngest frame */
static void enter(const struct function *f)
{
	if (f->trap) {
		push(0);
		frames[depth - 1].interrupted = last_end;
	}
	if (f->step >= 0 &&
	    (f->within < 0 || f->within == frames[depth - 1].step))
		frames[depth - 1].step = f->step;
	came_by_must |= f->must;
}

static void executed(unsigned int cpu, void *data)
{
	const struct block *block = data;

	if (block->user) {
		if (counting)
			stop();
		return;
	}
	if (block->entered && block->entered->start)
		start();
	if (!counting)
		return;
	if (last_end == RETURN)
		pop(block->address);
	if (block->entered)
		enter(block->entered);
	if (block->outside)
		frames[depth - 1].step = MODULES;
	counts[frames[depth - 1].step * nr_slots + block->slot] += block->insns;
	last_end = block->end;
	if (last_end == CALL) {
		push(block->next);
	} else if (last_end == TRAP_RETURN) {
		pop(0);
		last_end = frames[depth].interrupted;
	}
}

/* --- when code is translated --- */

static unsigned int find_function(uint64_t address)
{
	unsigned int low = 0, high = functions->len;

	while (high - low > 1) {
		unsigned int middle = (low + high) / 2;

		if (function_at(middle)->address <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static unsigned int outside_slot(uint64_t address)
{
	gpointer found = g_hash_table_lookup(outside_slots, (gpointer)address);

	if (found)
		return GPOINTER_TO_UINT(found) - 1;
	if (nr_outside < OUTSIDE - 1)
		outside[nr_outside++] = address;
	g_hash_table_insert(outside_slots, (gpointer)address,
			    GUINT_TO_POINTER(functions->len + nr_outside));
	return functions->len + nr_outside - 1;
}

/* Calls and returns of x86-64, behind whatever prefixes */
static enum end end_of(struct qemu_plugin_insn *insn)
{
	const uint8_t *code = qemu_plugin_insn_data(insn);
	size_t size = qemu_plugin_insn_size(insn), i = 0;

	while (i + 1 < size && (code[i] == 0x66 || code[i] == 0xf2 ||
				code[i] == 0xf3 || code[i] == 0x2e ||
				code[i] == 0x3e || (code[i] & 0xf0) == 0x40))
		i++;
	switch (code[i]) {
	case 0xe8:
		return CALL;
	case 0xff:
		return (code[i + 1] >> 3 & 7) == 2 ? CALL : OTHER;
	case 0xc2:
	case 0xc3:
		return RETURN;
	case 0xcf:
		return TRAP_RETURN;
	default:
		return OTHER;
	}
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t insns = qemu_plugin_tb_n_insns(tb);
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, insns - 1);
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	uint64_t end = function_at(functions->len - 1)->address;
	struct block *block = g_new0(struct block, 1);

	block->address = address;
	block->next = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last);
	block->insns = insns;
	block->end = end_of(last);
	if (address < KERNEL) {
		block->user = true;
	} else if (address < function_at(0)->address || address >= end) {
		block->outside = true;
		block->slot = outside_slot(address);
	} else {
		block->slot = find_function(address);
		if (function_at(block->slot)->address == address)
			block->entered = function_at(block->slot);
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, QEMU_PLUGIN_CB_NO_REGS,
					     block);
}

/* --- begin and end --- */

static void write_slot(FILE *out, int step, size_t slot)
{
	uint64_t count = kept[step * nr_slots + slot];

	if (!count)
		return;
	if (slot < functions->len)
		fprintf(out, "%d %s %" PRIu64 "\n", step, function_at(slot)->name,
			count);
	else
		fprintf(out, "%d %" PRIx64 " %" PRIu64 "\n", step,
			outside[slot - functions->len], count);
}

static void finish(qemu_plugin_id_t id, void *unused)
{
	FILE *out = fopen(out_path, "w");
	size_t slot;
	int step;

	if (!out)
		return;	/* who waits for the file will say so */
	for (step = 0; step < STEPS; step++)
		for (slot = 0; slot < nr_slots; slot++)
			write_slot(out, step, slot);
	fclose(out);
}

static bool read_line(const char *line)
{
	struct function f = { .step = -1, .within = -1 };
	char role[8], step[8];

	if (sscanf(line, "%" SCNx64 " %7s %7s %55s", &f.address, role, step,
		   f.name) != 4)
		return false;
	f.start = !strcmp(role, "start");
	f.must = !strcmp(role, "must");
	f.trap = !strcmp(role, "trap");
	if (strcmp(step, "-") && sscanf(step, "%d/%d", &f.step, &f.within) < 1)
		return false;
	if (f.step >= STEPS)
		return false;
	g_array_append_val(functions, f);
	return true;
}

static bool read_table(const char *path)
{
	char line[256];
	bool good = true;
	FILE *in = fopen(path, "r");

	if (!in)
		return false;
	while (good && fgets(line, sizeof(line), in))
		good = read_line(line);
	fclose(in);
	return good && functions->len;
}

QEMU_PLUGIN_EXPORT
int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
			char **argv)
{
	const char *table = NULL;
	int i;

	for (i = 0; i < argc; i++) {
		if (g_str_has_prefix(argv[i], "table="))
			table = argv[i] + strlen("table=");
		if (g_str_has_prefix(argv[i], "out="))
			out_path = g_strdup(argv[i] + strlen("out="));
	}
	functions = g_array_new(FALSE, FALSE, sizeof(struct function));
	if (!table || !out_path || !read_table(table)) {
		fprintf(stderr, "steps: table=FILE with ADDRESS ROLE STEP NAME, and out=FILE, are needed\n");
		return -1;
	}
	nr_slots = functions->len + OUTSIDE;
	counts = g_new0(uint64_t, STEPS * nr_slots);
	kept = g_new0(uint64_t, STEPS * nr_slots);
	outside = g_new0(uint64_t, OUTSIDE);
	outside_slots = g_hash_table_new(NULL, NULL);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
