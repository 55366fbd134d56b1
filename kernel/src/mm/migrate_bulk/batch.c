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
#include "../migrate_mapped.h"
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

/* Return: how many of the first that fit with each other are locked now */
static unsigned int lock_folios(struct folio **srcs, struct folio **dsts,
				unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (!migrate_range_fits(srcs[0], srcs[i]) ||
		    !folio_trylock(srcs[i]))
			break;
		if (!folio_trylock(dsts[i])) {
			folio_unlock(srcs[i]);
			break;
		}
	}
	return i;
}

static void unlock_folios(struct folio **srcs, struct folio **dsts,
			  unsigned int first, unsigned int end)
{
	for (; first < end; first++) {
		folio_unlock(dsts[first]);
		folio_unlock(srcs[first]);
	}
}

/**
 * migrate_folios_protect() - protect folios together
 * @srcs: isolated folios
 * @dsts: what each is to move to
 * @nr: how many
 *
 * Waits for no lock that others may hold for long.
 *
 * Return: how many of the first are protected, as by migrate_folio_unmap(): none that
 * a PMD maps. Nothing has been done to the others.
 */
unsigned int migrate_folios_protect(struct folio **srcs, struct folio **dsts,
				    unsigned int nr)
{
	unsigned int i, locked, done;

	for (i = 0; i < nr; i++)
		if (!migrate_mapped_fits(srcs[i]) ||
		    !migrate_is_in_range(srcs[i]))
			break;
	locked = lock_folios(srcs, dsts, i);
	done = locked ? migrate_protect_range(srcs, locked) : 0;
	/* They are mapped, so others may unmap them at any moment */
	for (i = 0; i < done; i++)
		migrate_folio_record_protected(dsts[i],
					       folio_get_anon_vma(srcs[i]));
	unlock_folios(srcs, dsts, done, locked);
	return done;
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
	unsigned int i, locked = lock_folios(srcs, dsts, nr), done;

	done = locked > 1 ? migrate_range_unmap(srcs, locked) : 0;
	for (i = 0; i < done; i++)
		migrate_folio_record_range(dsts[i], folio_anon_vma(srcs[i]));
	unlock_folios(srcs, dsts, done, locked);
	return done;
}

/**
 * migrate_folios_unmap_copied() - unmap protected folios together, flush the TLB
 * @srcs: folios that are protected, and copied; all anonymous, or all of files
 * @dsts: their copies
 * @nr: how many
 *
 * Return: how many of the first can be moved now, and need no copy. The next one, whose
 * copy is probably void, and those after it are still protected.
 */
unsigned int migrate_folios_unmap_copied(struct folio **srcs,
					 struct folio **dsts, unsigned int nr)
{
	unsigned int i, done = migrate_unmap_protected_range(srcs, nr);

	if (done)
		try_to_unmap_flush();
	for (i = 0; i < done; i++)
		migrate_folio_record_copied(dsts[i], true);
	return done;
}

/**
 * migrate_copy_range() - copy protected folios by this CPU, then unmap them together
 * @sources: those that have moved, and are mapped first: the copies take long
 * @src: the first one, if migrate_folio_needs_copy() and PTEs map it
 * @dst: where it is to move to
 * @srcs: the list of @src and of those that come next; their destinations are on
 *	another one, in the same order
 *
 * Those that cannot be unmapped stay protected, and copied if they are anonymous, until
 * migrate_folio_move() tries again. Those of files may be mlocked, for which their
 * record has the same bit.
 */
void migrate_copy_range(struct migrate_sources *sources, struct folio *src,
			struct folio *dst, struct list_head *srcs)
{
	struct folio *from[MIGRATE_RANGE], *to[MIGRATE_RANGE], *first = src;
	unsigned int nr = 0, pages = 0, i, done;

	migrate_settle(sources);
	list_for_each_entry_from(src, srcs, lru) {
		if (nr == MIGRATE_RANGE || pages >= MIGRATE_RANGE_PAGES ||
		    !migrate_goes_with(src, first) ||
		    !migrate_folio_needs_copy(dst) ||
		    migrate_copy_protected(dst, src))
			break;
		if (folio_test_anon(src))
			migrate_folio_record_copied(dst, false);
		pages += folio_nr_pages(src);
		from[nr] = src;
		to[nr++] = dst;
		dst = list_next_entry(dst, lru);
	}
	/* They may be in several tables. What cannot be first is left out */
	for (i = 0; i < nr; i += done ?: 1)
		done = migrate_folios_unmap_copied(from + i, to + i, nr - i);
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
	unsigned int i, first = 0, end, found = 2;

	/* What the first ones are not, the others hardly are */
	for (; first < nr && found > 1; first = end) {
		end = first + migrate_folios_protect(srcs + first, dsts + first,
						     nr - first);
		if (end == first)
			end += migrate_folios_unmap(srcs + first, dsts + first,
						    nr - first);
		found = end - first;
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
