/* SPDX-License-Identifier: GPL-2.0-only */
/* The fixture of all cases: memory on one node, to be sent to the other. */
#ifndef CALLS_FIXTURE_H
#define CALLS_FIXTURE_H

#include "../kselftest_harness.h"

#include <stdlib.h>
#include <unistd.h>

#include "calls.h"

FIXTURE(calls)
{
	struct calls c;
};

FIXTURE_SETUP(calls)
{
	struct calls *c = &self->c;

	if (geteuid())
		SKIP(return, "needs root");
	if (!nodes_find(c->nodes))
		SKIP(return, "one node with memory only");
	c->nr = MANY;
	c->base = map(c->nr * PAGE);
	c->pages = calloc(c->nr, sizeof(*c->pages));
	c->to = calloc(c->nr, sizeof(*c->to));
	c->status = calloc(c->nr, sizeof(*c->status));
	touch(c->base, 0, c->nr, c->nodes[0]);
	calls_reset(c);
}

FIXTURE_TEARDOWN(calls)
{
}

#endif
