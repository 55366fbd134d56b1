// SPDX-License-Identifier: GPL-2.0-only
/*
 * The load of a campaign: a region whose every word is rewritten in each
 * round, moved there and back while a thread writes to each of its pages, and
 * then compared word by word.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "offload.h"
#include "region.h"
#include "torture.h"
#include "writer.h"

#define LIFE	32	/* rounds, then large folios are made anew */

static const struct load {
	const char *name;
	enum backing backing;
	enum mover mover;
	size_t folio;
	size_t size;
} loads[] = {
	{ "small", ANON, MOVE_PAGES, PAGE, 2 * MIB },
	{ "middle", ANON, MBIND, 64 * KIB, 1 * MIB },
	{ "huge", ANON, MIGRATE_PAGES, PMD, 4 * MIB },
	{ "memfd", MEMFD, MOVE_PAGES, PAGE, 512 * KIB },
	{ "file", EXT4, MOVE_PAGES, 0, 512 * KIB },
};

size_t torture_loads(void)
{
	return ARRAY_SIZE(loads);
}

/*
 * There and back. Where trouble strikes not all move, and that is right.
 * Return: how many folios moved; *@stayed pages were not where they should be
 * before, and then after it.
 */
static long move(const struct load *load, struct region *r, long *stayed)
{
	long nr = r->size / PAGE, per_folio = (load->folio ?: PAGE) / PAGE;
	long moved = 0, off;

	for (int i = 0; i < 2; i++) {
		off = region_move(r, load->mover, torture_nodes[i],
				  torture_nodes[!i]);
		if (off < 0)
			off = region_pages_off(r, torture_nodes[!i]);
		/* What did not go does not come back; what is nowhere did neither */
		if (off + *stayed < nr)
			moved += nr - off - *stayed;
		*stayed = off;
	}
	return moved / per_folio;
}

static long round_of(struct torture_tally *tally, const struct load *load,
		     struct region *r, long *stayed)
{
	struct writer w;

	writer_begin(&w, r, writer_store);
	tally->moved += move(load, r, stayed);
	writer_end(&w);
	return torture_mistake(w.lost, "%s: %ld writes are lost", load->name,
			       w.lost);
}

void torture_create(struct region *r, enum backing kind, size_t folio,
		    size_t size, int node)
{
	int fd = -1;

	/* The size of large folios is a setting of the machine: one at a time */
	if (folio > PAGE) {
		fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		if (fd < 0 || flock(fd, LOCK_EX))
			err(1, "flock");
	}
	/* If there are no folios of this size now, others do as well */
	region_create(r, kind, folio, size, node);
	if (fd >= 0)
		close(fd);
	if (!r->addr)
		errx(1, "no memory to move; mkfs.ext4 may be missing");
}

long torture_unmake(struct region *r, const char *who, long wrong)
{
	wrong += region_wrong_words(r);
	region_destroy(r);
	return torture_mistake(wrong, "%s: %ld words are wrong", who, wrong);
}

void torture_load(struct torture_tally *tally, size_t i)
{
	const struct load *load = &loads[i];
	struct region r;
	long stayed = 0;
	size_t wrong;

	torture_create(&r, load->backing, load->folio, load->size,
		       torture_nodes[0]);
	for (uint64_t round = 1; !tally->over; round++) {
		if (round % LIFE == 0 && load->folio > PAGE) {
			region_destroy(&r);
			torture_create(&r, load->backing, load->folio,
				       load->size, torture_nodes[0]);
			stayed = 0;
		}
		region_fill(&r, round * 0x9e3779b97f4a7c15ULL);
		tally->mistakes += round_of(tally, load, &r, &stayed);
		wrong = region_wrong_words(&r);
		tally->mistakes += torture_mistake(wrong, "%s: %zu words are wrong",
						   load->name, wrong);
		tally->bytes += r.size;
		tally->ready += round == 1;
	}
	region_destroy(&r);
}
