// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>

#include "moving.h"
#include "offload.h"

#define PATIENCE_MS	20000
#define COPY_NS	300000	/* of each copy, from its bytes to its report */

const char *moving_create(struct moving *m, size_t folio)
{
	size_t size = folio == PAGE ? 256 * KIB : folio == PMD ? 4 * MIB : MIB;
	const char *why;

	if (!nodes_find(m->nodes))
		return "one node with memory only";
	why = offload_use_dcbm("channels=4 ring=64", "");
	if (!why)
		why = region_create(&m->region, ANON, folio, size, m->nodes[0]);
	if (why)
		return why;
	offload_set("reasons", "syscall_or_cpuset");
	offload_set("min_bytes", "4096");
	softdma_set("latency_ns", COPY_NS);
	return NULL;
}

/* Pages that stay, since somebody holds them, are tried again in the next turn */
static void *move(void *arg)
{
	struct moving *m = arg;
	long off;

	for (int i = 1; !m->over; i = !i) {
		off = pages_move(&m->region, m->nodes[i], OWN);
		if (off >= 0)
			m->arrived += m->region.size / PAGE - off;
	}
	return NULL;
}

void moving_begin(struct moving *m)
{
	m->over = false;
	m->begun = seconds(CLOCK_MONOTONIC);
	if (pthread_create(&m->mover, NULL, move, m))
		errx(1, "pthread_create");
}

bool moving_has_returned(const struct moving *m)
{
	return m->arrived >= (long)(2 * m->region.size / PAGE);
}

bool moving_goes_on(const struct moving *m, long ms)
{
	double passed_ms = (seconds(CLOCK_MONOTONIC) - m->begun) * 1000;

	return passed_ms < ms || (passed_ms < PATIENCE_MS && !moving_has_returned(m));
}

void moving_end(struct moving *m)
{
	m->over = true;
	pthread_join(m->mover, NULL);
}
