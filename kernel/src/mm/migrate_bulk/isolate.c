// SPDX-License-Identifier: GPL-2.0-only
/*
 * Folios leave the LRU lists many at a time, and the per-CPU caches of these
 * lists are only drained for a folio that needs it.
 */
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/vmstat.h>
#include <trace/events/pagemap.h>

#include "../internal.h"
#include "migrate_bulk.h"

/* Folios of one LRU list in a row, whose pages are counted at once */
struct lru_run {
	struct lruvec *lruvec;
	enum lru_list lru;
	enum zone_type zone;
	enum node_stat_item isolated;
	long pages;		/* negative: they leave the list */
};

static void lru_run_count(struct lru_run *run)
{
	if (!run->pages)
		return;
	update_lru_size(run->lruvec, run->lru, run->zone, run->pages);
	if (run->pages < 0)
		__mod_node_page_state(lruvec_pgdat(run->lruvec), run->isolated,
				      -run->pages);
	run->pages = 0;
}

/* Make the folio part of the run, or begin another; returns its list */
static enum lru_list lru_run_join(struct lru_run *run, struct lruvec *lruvec,
				  struct folio *folio,
				  enum node_stat_item isolated)
{
	enum lru_list lru = folio_lru_list(folio);
	enum zone_type zone = folio_zonenum(folio);

	if (run->lruvec != lruvec || run->lru != lru || run->zone != zone ||
	    run->isolated != isolated) {
		lru_run_count(run);
		run->lruvec = lruvec;
		run->lru = lru;
		run->zone = zone;
		run->isolated = isolated;
	}
	return lru;
}

/* The lruvec of this folio, locked; another that is locked has its run counted */
static struct lruvec *lru_run_lock(struct lru_run *run, struct lruvec *locked,
				   struct folio *folio)
{
	if (locked) {
		if (folio_matches_lruvec(folio, locked))
			return locked;
		lru_run_count(run);
		lruvec_unlock_irq(locked);
	}
	return folio_lruvec_lock_irq(folio);
}

static void lru_run_unlock(struct lru_run *run, struct lruvec *locked)
{
	if (!locked)
		return;
	lru_run_count(run);
	lruvec_unlock_irq(locked);
}

/**
 * migrate_isolate_claimed() - take claimed folios off their LRU lists
 * @claims: the claimed folios; none is left when this returns
 *
 * Each folio is put on the list that it was claimed for, and counted as
 * isolated, as folio_isolate_lru() and its callers do for one.
 */
void migrate_isolate_claimed(struct migrate_claims *claims)
{
	struct lruvec *lruvec = NULL;
	struct lru_run run = { };
	unsigned int i;

	for (i = 0; i < claims->nr; i++) {
		struct folio *folio = claims->of[i].folio;
		enum node_stat_item isolated;

		lruvec = lru_run_lock(&run, lruvec, folio);
		isolated = NR_ISOLATED_ANON + folio_is_file_lru(folio);
		if (lru_gen_del_folio(lruvec, folio, false)) {
			__node_stat_mod_folio(folio, isolated,
					      folio_nr_pages(folio));
		} else {
			if (lru_run_join(&run, lruvec, folio, isolated) !=
			    LRU_UNEVICTABLE)
				list_del(&folio->lru);
			run.pages -= folio_nr_pages(folio);
		}
		list_add_tail(&folio->lru, claims->of[i].list);
	}
	lru_run_unlock(&run, lruvec);
	claims->nr = 0;
}

/* Those of a memory cgroup go a while after they were switched off */
static bool lru_has_generations(struct lruvec *lruvec)
{
#ifdef CONFIG_LRU_GEN
	if (lruvec->lrugen.enabled)
		return true;
#endif
	return lru_gen_enabled();
}

/**
 * migrate_add_lru() - put folios on their LRU lists
 * @folios: the folios, on no list; the caller has a reference to each
 * @nr: how many
 *
 * As folio_add_lru() does, but past the per-CPU cache, unless this is the
 * multi-generational LRU.
 */
void migrate_add_lru(struct folio **folios, unsigned int nr)
{
	struct lruvec *lruvec = NULL;
	struct lru_run run = { };
	unsigned long left = 0;
	unsigned int i;

	BUILD_BUG_ON(MIGRATE_RANGE > BITS_PER_LONG);
	for (i = 0; i < nr; i++) {
		struct folio *folio = folios[i];
		enum lru_list lru;

		lruvec = lru_run_lock(&run, lruvec, folio);
		/*
		 * The lock is held: whoever clears PG_mlocked sees PG_lru, and
		 * whoever has enabled generations has yet to fill them.
		 */
		if (lru_has_generations(lruvec) ||
		    !folio_evictable(folio) || folio_test_unevictable(folio)) {
			left |= BIT(i);
			continue;
		}
		lru = lru_run_join(&run, lruvec, folio, NR_ISOLATED_ANON);
		run.pages += folio_nr_pages(folio);
		list_add(&folio->lru, &lruvec->lists[lru]);
		trace_mm_lru_insertion(folio);
		folio_set_lru(folio);
	}
	lru_run_unlock(&run, lruvec);

	for (i = 0; left; i++, left >>= 1)
		if (left & 1)
			folio_add_lru(folios[i]);
}

/**
 * migrate_claim() - claim a folio for migration
 * @claims: where it is noted; if there is no room, all there are isolated first
 * @folio: the folio, which must not go away meanwhile: its page table is locked,
 *	or it is referenced
 * @list: the list that it will be put on
 *
 * Context: Interrupts are enabled, and no lruvec is locked.
 *
 * Return: false if the folio is on no LRU list: it is isolated by someone else,
 * or still in a per-CPU cache.
 */
bool migrate_claim(struct migrate_claims *claims, struct folio *folio,
		   struct list_head *list)
{
	if (!folio_test_clear_lru(folio))
		return false;
	folio_get(folio);
	if (claims->nr == MIGRATE_CLAIMS)
		migrate_isolate_claimed(claims);
	claims->of[claims->nr].folio = folio;
	claims->of[claims->nr++].list = list;
	return true;
}

/**
 * lru_quiet_begin() - before folios are isolated
 * @quiet: to be given to lru_quiet_end()
 *
 * Drains the caches of this CPU only: most often the folios are in no other.
 */
void lru_quiet_begin(struct lru_quiet *quiet)
{
	*quiet = (struct lru_quiet){ };
	lru_add_drain();
}

/**
 * lru_quiet_insist() - drain and disable the caches of all CPUs
 * @quiet: as given to lru_quiet_begin()
 *
 * Return: whether another attempt to isolate or move is worth while.
 */
bool lru_quiet_insist(struct lru_quiet *quiet)
{
	if (quiet->disabled)
		return false;
	lru_cache_disable();
	quiet->disabled = true;
	return true;
}

/**
 * lru_quiet_suspects() - may a per-CPU cache refer to this folio?
 * @quiet: as given to lru_quiet_begin()
 * @folio: a folio that is not isolated, but on an LRU list
 *
 * Return: true if it has a reference that nothing but such a cache, or a pin,
 * explains. It could not be moved.
 */
bool lru_quiet_suspects(const struct lru_quiet *quiet, struct folio *folio)
{
	return !quiet->disabled &&
	       folio_ref_count(folio) != folio_expected_ref_count(folio);
}

/**
 * lru_quiet_end() - after folios were moved
 * @quiet: as given to lru_quiet_begin()
 *
 * What was moved must not stay in a cache: it could not be moved again.
 */
void lru_quiet_end(struct lru_quiet *quiet)
{
	if (quiet->disabled)
		lru_cache_enable();
	else
		lru_add_drain();
}
