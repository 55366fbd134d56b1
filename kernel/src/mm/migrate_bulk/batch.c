// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which folios of a batch are unmapped together, and which then mapped together.
 *
 * Before a batch is unmapped folio by folio, those are taken off its list that
 * can be unmapped in ranges. When they have moved they are not mapped at once,
 * but when the range is full, at the latest when the batch is done.
 */
#include <linux/mm.h>
#include <linux/sched.h>

#include "../internal.h"
#include "migrate_bulk.h"

/**
 * migrate_settle() - map what has moved, and let it go
 * @sources: the folios; none is left when this returns
 *
 * The destinations are on their LRU lists before anyone can use them: who has to
 * isolate one could not drain them from here.
 */
void migrate_settle(struct migrate_sources *sources)
{
	struct folio *srcs[MIGRATE_RANGE], *dsts[MIGRATE_RANGE], *src;
	unsigned int i = 0, nr = sources->nr_unmapped;

	if (!nr)
		return;
	list_for_each_entry(src, &sources->unmapped, lru) {
		srcs[i] = src;
		dsts[i++] = src->private;
		src->private = NULL;
	}
	migrate_add_lru(dsts, nr);
	migrate_range_restore(srcs, dsts, nr);
	for (i = 0; i < nr; i++)
		migrate_folio_end(srcs[i], dsts[i], folio_anon_vma(srcs[i]),
				  sources->reason, sources);
	sources->nr_unmapped = 0;
	sources->nr_unmapped_pages = 0;
}

/**
 * migrate_settle_later() - leave it to migrate_settle() to map a folio
 * @sources: where it waits for others
 * @src: the folio, which was unmapped in a range; locked. It has moved, so its
 *	private field is free
 * @dst: what it has moved to, locked; on no list yet
 */
void migrate_settle_later(struct migrate_sources *sources, struct folio *src,
			  struct folio *dst)
{
	src->private = dst;
	list_move_tail(&src->lru, &sources->unmapped);
	sources->nr_unmapped++;
	sources->nr_unmapped_pages += folio_nr_pages(dst);
	if (sources->nr_unmapped == MIGRATE_RANGE ||
	    sources->nr_unmapped_pages >= MIGRATE_RANGE_PAGES)
		migrate_settle(sources);
}

/**
 * migrate_folios_unmap() - unmap folios together
 * @srcs: isolated folios
 * @dsts: what each is to move to
 * @nr: how many
 *
 * Waits for no lock that others may hold for long. Leaves one folio alone to the
 * walk of the reverse mapping, which is cheaper then.
 *
 * Return: how many of the first are unmapped, as by migrate_folio_unmap().
 * Nothing has been done to the others.
 */
unsigned int migrate_folios_unmap(struct folio **srcs, struct folio **dsts,
				  unsigned int nr)
{
	unsigned int i, locked, done;

	for (locked = 0; locked < nr; locked++) {
		if (!migrate_range_fits(srcs[0], srcs[locked]) ||
		    !folio_trylock(srcs[locked]))
			break;
		if (!folio_trylock(dsts[locked])) {
			folio_unlock(srcs[locked]);
			break;
		}
	}
	done = locked > 1 ? migrate_range_unmap(srcs, locked) : 0;
	for (i = 0; i < done; i++)
		migrate_folio_record_range(dsts[i], folio_anon_vma(srcs[i]));
	for (; i < locked; i++) {
		folio_unlock(dsts[i]);
		folio_unlock(srcs[i]);
	}
	return done;
}

static void put_dsts(struct folio **dsts, unsigned int nr,
		     free_folio_t put_new_folio, unsigned long private)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (put_new_folio)
			put_new_folio(dsts[i], private);
		else
			folio_put(dsts[i]);
	}
}

/* Folios that fit with each other. What is got for those that stay is put back. */
static void unmap_range(struct folio **srcs, struct folio **dsts,
			unsigned int nr, free_folio_t put_new_folio,
			unsigned long private, struct list_head *unmapped,
			struct list_head *destinations)
{
	unsigned int i, first = 0, end;

	for (; first < nr; first = end) {
		end = first + migrate_folios_unmap(srcs + first, dsts + first,
						   nr - first);
		/* What the first ones are not, the others hardly are */
		if (end == first)
			break;
		for (i = first; i < end; i++) {
			list_move_tail(&srcs[i]->lru, unmapped);
			list_add_tail(&dsts[i]->lru, destinations);
		}
	}
	put_dsts(dsts + first, nr - first, put_new_folio, private);
}

/**
 * migrate_unmap_ranges() - unmap what can be in a range with others
 * @from: the folios of a batch; those that are not unmapped remain
 * @get_new_folio: as in migrate_pages()
 * @put_new_folio: as in migrate_pages()
 * @private: as in migrate_pages()
 * @unmapped: where the others go
 * @destinations: where their destinations go, in the same order
 */
void migrate_unmap_ranges(struct list_head *from, new_folio_t get_new_folio,
			  free_folio_t put_new_folio, unsigned long private,
			  struct list_head *unmapped,
			  struct list_head *destinations)
{
	struct folio *srcs[MIGRATE_RANGE], *dsts[MIGRATE_RANGE], *folio, *next;
	unsigned int nr = 0;

	list_for_each_entry_safe(folio, next, from, lru) {
		if (nr == MIGRATE_RANGE ||
		    (nr && !migrate_range_fits(srcs[0], folio))) {
			unmap_range(srcs, dsts, nr, put_new_folio, private,
				    unmapped, destinations);
			nr = 0;
			cond_resched_tasks_rcu_qs();
		}
		/* There is no range of one: the walk is cheaper */
		if (!nr && (list_is_last(&folio->lru, from) ||
			    !migrate_range_fits(folio, next) ||
			    !migrate_range_fits(folio, folio)))
			continue;
		srcs[nr] = folio;
		dsts[nr] = get_new_folio(folio, private);
		if (!dsts[nr])
			break;	/* whoever comes next asks again, and says so */
		nr++;
	}
	unmap_range(srcs, dsts, nr, put_new_folio, private, unmapped,
		    destinations);
}

#ifdef CONFIG_MIGRATE_RANGES_KUNIT_TEST
#include "batch_test.c"
#endif
