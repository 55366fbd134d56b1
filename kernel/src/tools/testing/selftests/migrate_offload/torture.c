// SPDX-License-Identifier: GPL-2.0-only
/*
 * torture [-s SECONDS] [-e ENGINE] [-d MS] [-r SEED] [-l] [CLASS...]: run the campaign's
 * classes (-l: list them), each for so long (default: 1), with dcbm on four
 * channels of softdma, or with an engine that has registered. Classes that strike
 * dcbm or softdma are skipped then. What each process does by chance follows from
 * the seed, which is printed; when it does so does not.
 *
 * A class passes if no byte was wrong, every process ended in time, the engine
 * moved memory, trouble struck, and the engine can be unloaded at the end.
 * Before its result each prints what it did:
 *
 *	# CLASS seconds moved folios pages struck bytes kind refs busy error left
 *	  quarantined
 *
 * moved: folios of the load, by whomever; one that Linux made smaller counts
 * for its size. folios: moved by the engine. pages: moved by the kernel, the
 * engine's included. bytes: compared. kind to left: folios that the engine did
 * not move, by cause, as in stats/. quarantined: bytes that were kept for a
 * stuck engine until it let go.
 */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dcbm.h"
#include "offload.h"
#include "region.h"
#include "torture.h"

#define MAX_PROCESSES	16
#define READY_S		60	/* until all have begun, and then until trouble strikes */
#define END_S		120	/* until all have ended */

int torture_nodes[2];

static const char *engine;	/* NULL: dcbm on softdma */
static const char *deadline;	/* in ms; NULL: as the class wants it */
static const struct torture_class *running;
static struct torture_tally *tally;
static pid_t processes[MAX_PROCESSES];
static int nr_processes;
static unsigned int seed;

static const struct torture_class nothing[] = {
	{ .name = "nothing" },
	{}
};

static const struct torture_class *const all[] = {
	nothing, torture_callers, torture_engine, torture_machine, torture_shared,
	torture_writers, torture_memory,
};

long torture_mistake(long nr, const char *format, ...)
{
	va_list args;

	if (!nr)
		return 0;
	va_start(args, format);
	/* One write: others print, too */
	flockfile(stdout);
	printf("# %s: ", running->name);
	vprintf(format, args);
	printf("\n");
	fflush(stdout);
	funlockfile(stdout);
	va_end(args);
	return nr;
}

/* --- processes --- */

static bool child(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (pid) {
		processes[nr_processes++] = pid;
		return false;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	srand(seed + nr_processes);
	return true;
}

static void *keep_moving(void *unused)
{
	unsigned long nodes[2] = { 1UL << torture_nodes[0],
				   1UL << torture_nodes[1] };

	for (int i = 0; !tally->over; i = !i)
		syscall(SYS_migrate_pages, 0, 64UL, &nodes[i], &nodes[!i]);
	return unused;
}

static void keep_striking(const struct torture_class *class)
{
	pthread_t mover;

	if (class->moved && pthread_create(&mover, NULL, keep_moving, NULL))
		err(1, "pthread_create");
	while (!tally->over) {
		long mistakes = class->strike();

		if (mistakes != TORTURE_MISSED) {
			tally->mistakes += mistakes;
			tally->strikes++;
		}
		usleep(class->pause_ms * 1000);
	}
	if (class->moved)
		pthread_join(mover, NULL);
}

/* How many did not end well, or did not end */
static long end_all(void)
{
	long mistakes = 0;
	int status, ended;

	tally->over = true;
	for (int ms = 0; nr_processes; ms += 10) {
		ended = -1;
		for (int i = 0; i < nr_processes && ended < 0; i++)
			if (waitpid(processes[i], &status, WNOHANG) > 0)
				ended = i;
		if (ended >= 0) {
			processes[ended] = processes[--nr_processes];
			mistakes += torture_mistake(!!status,
						    "a process ended with status %#x",
						    status);
		} else if (ms > END_S * 1000) {
			mistakes += torture_mistake(nr_processes,
						    "%d processes do not end",
						    nr_processes);
			while (nr_processes) {
				kill(processes[--nr_processes], SIGKILL);
				waitpid(processes[nr_processes], NULL, 0);
			}
		} else {
			usleep(10000);
		}
	}
	return mistakes;
}

/* --- a class --- */

static long pages_moved(void)
{
	return vmstat("pgmigrate_success");
}

/* Channels that err are not given up: errors are what some classes are about */
const char *torture_use_dcbm(void)
{
	return offload_use_dcbm("channels=4 ring=64",
				"timeout_ms=500 queue_depth=32 max_errors=1000000");
}

static const char *set_up(const struct torture_class *class)
{
	const char *why;

	if (engine && (class->dcbm || class->faults[0].name))
		return "it strikes dcbm and softdma";
	why = engine ? offload_use_loaded(engine) : torture_use_dcbm();
	if (why)
		return why;
	offload_set("reasons", "all");
	offload_set("min_bytes", "4096");
	if (class->impatient)
		offload_set("deadline_ms", "0");
	if (deadline)
		offload_set("deadline_ms", "%s", deadline);
	for (size_t i = 0; class->faults[i].name; i++)
		inject(class->faults[i].name, class->faults[i].every);
	return class->begin ? class->begin() : NULL;
}

/* Faults that were injected, or what else counts as a strike */
static long strikes_of(const struct torture_class *class)
{
	long nr = 0;

	for (size_t i = 0; class->faults[i].name; i++)
		nr += injected(class->faults[i].name);
	if (class->faults[0].name)
		return nr;
	return class->struck ? class->struck() : tally->strikes;
}

/*
 * The engine can be unloaded only once it has nothing of what it was given. One
 * that was there before stays, for the next class.
 */
static void tear_down(void)
{
	offload_reset();
	if (!engine)
		offload_unload();
}

/*
 * Nothing may have struck yet where the machine has other things to do: then it takes
 * longer. Return: how many seconds it took
 */
static unsigned int let_it_strike(const struct torture_class *class, unsigned int seconds)
{
	unsigned int latest = seconds + READY_S;

	sleep(seconds);
	while (class != nothing && !strikes_of(class) && seconds < latest) {
		sleep(1);
		seconds++;
	}
	return seconds;
}

/* Trouble strikes when all move. Return: how many do not */
static long wait_for_loads(void)
{
	long nr = torture_loads();

	for (int ms = 0; tally->ready < nr && ms < READY_S * 1000; ms += 10)
		usleep(10000);
	return nr - tally->ready;
}

static void torture(const struct torture_class *class, unsigned int seconds)
{
	struct offload_stats before, grew;
	long pages, mistakes, struck, idle;
	const char *why;

	running = class;
	why = set_up(class);
	if (why) {
		tear_down();
		ksft_test_result_skip("%s: %s\n", class->name, why);
		return;
	}
	memset(tally, 0, sizeof(*tally));
	before = offload_stats(NULL);
	pages = pages_moved();
	for (size_t i = 0; i < torture_loads(); i++) {
		if (child()) {
			torture_load(tally, i);
			_exit(0);
		}
	}
	idle = wait_for_loads();
	if (class->strike && child()) {
		keep_striking(class);
		_exit(0);
	}
	seconds = let_it_strike(class, seconds);
	mistakes = end_all() + tally->mistakes;
	mistakes += torture_mistake(idle, "%ld loads had no round", idle);
	struck = strikes_of(class);
	if (class->end)
		class->end();
	tear_down();
	grew = offload_stats(&before);
	printf("# %s seconds=%u moved=%ld folios=%ld pages=%ld struck=%ld bytes=%ld",
	       class->name, seconds, tally->moved, grew.folios,
	       pages_moved() - pages, struck, tally->bytes);
	printf(" kind=%ld refs=%ld busy=%ld error=%ld left=%ld quarantined=%ld\n",
	       grew.fallback_kind, grew.fallback_refs, grew.fallback_busy,
	       grew.fallback_error, grew.left, grew.quarantined_bytes);
	mistakes += torture_mistake(!grew.folios, "the engine moved nothing");
	mistakes += torture_mistake(class != nothing && !struck,
				    "nothing struck");
	ksft_test_result(!mistakes, "%s\n", class->name);
}

/* --- which of them --- */

static bool chosen(const struct torture_class *class, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (!strcmp(class->name, *names))
			return true;
	return false;
}

static unsigned int for_each(char **names, unsigned int seconds,
			     void (*what)(const struct torture_class *, unsigned int))
{
	unsigned int nr = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		for (const struct torture_class *c = all[i]; c->name; c++) {
			if (!chosen(c, names))
				continue;
			nr++;
			if (what)
				what(c, seconds);
		}
	}
	return nr;
}

static void show(const struct torture_class *class, unsigned int seconds)
{
	(void)seconds;
	puts(class->name);
}

#define USAGE "usage: torture [-l] [-s S] [-e ENGINE] [-d MS] [-r SEED] [CLASS...]"

int main(int argc, char **argv)
{
	unsigned int seconds = 1, nr;
	int option;

	seed = time(NULL) ^ getpid();
	while ((option = getopt(argc, argv, "s:e:d:r:l")) != -1) {
		if (option == 'l')
			return !for_each(argv + optind, 0, show);
		if (option == 'e')
			engine = optarg;
		else if (option == 'd')
			deadline = optarg;
		else if (option == 'r')
			seed = strtoul(optarg, NULL, 0);
		else
			seconds = option == 's' ? atoi(optarg) : 0;
		if (!seconds || seconds > 86400)
			errx(1, USAGE);
	}
	nr = for_each(argv + optind, 0, NULL);
	if (!nr || (optind < argc && nr != (unsigned int)(argc - optind)))
		errx(1, "no such class; torture -l lists them");
	ksft_print_header();
	if (access(OFFLOAD_DIR, F_OK))
		ksft_exit_skip("this kernel has no %s\n", OFFLOAD_DIR);
	if (!nodes_find(torture_nodes))
		ksft_exit_skip("one node with memory only\n");
	region_ask_no_flags();
	if (engine) {
		const char *why = offload_use_loaded(engine);

		/* Not one class would run, which must not look well */
		if (why)
			errx(1, "%s", why);
		offload_reset();
	}
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally == MAP_FAILED)
		err(1, "mmap");
	ksft_print_msg("seed %u\n", seed);
	ksft_set_plan(nr);
	for_each(argv + optind, seconds, torture);
	ksft_finished();
}
