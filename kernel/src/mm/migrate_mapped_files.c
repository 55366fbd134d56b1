// SPDX-License-Identifier: GPL-2.0-only
/*
 * Folios of files that nobody can write to by a page table, such as a program's code or
 * a model's weights, are copied while they are mapped, as mm/migrate_mapped.c copies
 * anonymous ones. Nothing has to be protected for it, and nothing be looked at afterwards.
 *
 * From the look until the folio is unmapped this has to hold: no byte of it is written.
 * It does, since the folio is locked, and
 *
 *	- no VMA that may write shares the file. One that is new has nothing that maps
 *	  the folio until it takes a fault, which waits for the lock. What is mapped
 *	  around a fault leaves locked folios out;
 *	- who writes to a private mapping writes to a page of its own, by FOLL_FORCE too;
 *	- write(2), and whoever fills or cuts the file, has the lock;
 *	- who may write by a reference, got by a VMA that is gone, is seen by the look.
 *
 * The copy that Linux makes of an unmapped folio relies on the last two as well.
 */
#include <linux/fs.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>

#include "internal.h"
#include "migrate_mapped.h"

/* For migrate_mapped_fits(): can nobody write to the folio, mapped, perhaps not locked? */
bool migrate_file_fits(struct folio *folio)
{
	struct address_space *mapping;
	bool fits;

	if (folio_test_hugetlb(folio) || folio_test_swapcache(folio))
		return false;
	/* If the inode goes meanwhile, RCU keeps it */
	rcu_read_lock();
	mapping = folio_mapping(folio);
	fits = mapping && !mapping_writably_mapped(mapping);
	rcu_read_unlock();
	return fits;
}

/* For migrate_protected_alone() */
bool migrate_file_alone(struct folio *folio)
{
	int expected = folio_expected_ref_count(folio), refs;

	/*
	 * Read the number of entries before that of the references and after it:
	 * an entry that goes in between would hide a reference. While the folio is
	 * locked only a fork makes new ones. Pins are counted on their own.
	 */
	smp_rmb();
	refs = folio_ref_count(folio);
	smp_rmb();	/* as above */
	return refs == 1 + expected &&
	       folio_expected_ref_count(folio) == expected &&
	       !folio_maybe_dma_pinned(folio);
}

/* As migrate_unmap_protected_range(); not those of another file than the first one's */
unsigned int migrate_files_unmap(struct folio **folios, unsigned int nr)
{
	struct address_space *mapping = folios[0]->mapping;
	bool mapped = false;
	unsigned int i;

	/* For all of them, so that none waits for it while another one is unmapped */
	i_mmap_lock_read(mapping);
	for (i = 0; i < nr && folios[i]->mapping == mapping; i++) {
		try_to_migrate(folios[i], TTU_BATCH_FLUSH | TTU_RMAP_LOCKED);
		mapped = folio_mapped(folios[i]);
		if (mapped)
			break;
	}
	i_mmap_unlock_read(mapping);
	/* An entry that somebody clears now is not seen; all others are back */
	if (mapped)
		remove_migration_ptes(folios[i], folios[i], 0);
	return i;
}
