// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <err.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region.h"
#include "storm.h"

struct storm *storm_begin(void)
{
	struct storm *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (s == MAP_FAILED)
		err(1, "mmap");
	return s;
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = {};

	return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	       info.si_pid;
}

void storm_add(struct storm *s, long (*work)(const void *arg), const void *arg)
{
	int i = s->nr++;
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid) {
		s->processes[i].pid = pid;
		/* One by one: the size of folios is a setting of the machine */
		while (!s->processes[i].rounds && !has_ended(pid))
			usleep(1000);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!s->over) {
		s->processes[i].mistakes += work(arg);
		s->processes[i].rounds++;
	}
	_exit(0);
}

long storm_end(struct storm *s)
{
	long mistakes = 0;
	int status;

	s->over = true;
	for (int i = 0; i < s->nr; i++) {
		if (waitpid(s->processes[i].pid, &status, 0) < 0)
			err(1, "waitpid");
		mistakes += s->processes[i].mistakes + !!status;
	}
	munmap(s, sizeof(*s));
	return mistakes;
}

long storm_move(const void *arg)
{
	static struct region r;
	const struct storm_move *m = arg;
	const char *why = NULL;

	if (!r.addr)
		why = region_create(&r, ANON, m->folio, m->size, m->nodes[0]);
	if (why)
		errx(1, "%s", why);
	for (int i = 0; i < 2; i++)
		region_move(&r, MOVE_PAGES, m->nodes[i], m->nodes[!i]);
	return region_wrong_words(&r);
}
