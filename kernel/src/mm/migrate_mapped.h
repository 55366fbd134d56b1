/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Folios that are copied while they are mapped, for those who move them:
 * protect, copy, unmap.
 */
#ifndef _MM_MIGRATE_MAPPED_H
#define _MM_MIGRATE_MAPPED_H

#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

/*
 * So many pages of folios that are copied while they are mapped the CPU locks, copies
 * and moves at a time, or one folio: who needs the lock of one waits for all of them.
 */
#define MIGRATE_MAPPED_PAGES	128

struct hstate;

/* mm/migrate.c: is the source of @dst protected, and not copied yet? */
bool migrate_folio_needs_copy(struct folio *dst);

/*
 * Does the move of a locked folio of a file do no more than copy it, and is it known that
 * nobody writes to one that is locked, unmapped and has no extra references? Not so with
 * buffer heads: a journal writes to b_data under the buffer's lock. What
 * migrate_folio_copied() does is right for these folios, and for no others.
 */
static inline bool migrate_file_is_plain(struct folio *folio)
{
	struct address_space *mapping = folio_mapping(folio);

	if (!mapping || mapping_inaccessible(mapping))
		return false;
	if (mapping->a_ops->migrate_folio == filemap_migrate_folio)
		return true;
	/* migrate_folio() would leave private data behind */
	return mapping->a_ops->migrate_folio == migrate_folio &&
	       !folio_test_private(folio);
}

/* May it be in a range with @first, of PTEs, or at least be unmapped beside it? */
static inline bool migrate_goes_with(struct folio *folio, struct folio *first)
{
	if (folio_test_pmd_mappable(folio) ||
	    folio_test_anon(folio) != folio_test_anon(first))
		return false;
	return folio_test_anon(folio) || folio->mapping == first->mapping;
}

/* Do PTEs map it that were protected in a range? */
static inline bool migrate_is_in_range(struct folio *folio)
{
	return folio_test_anon(folio) && !folio_test_pmd_mappable(folio);
}

#ifdef CONFIG_MIGRATE_MAPPED
DECLARE_STATIC_KEY_TRUE(migrate_mapped_key);

#define MIGRATE_RECORD_BITS	6

/* In jiffies: until when no folio of a record is copied while it is mapped */
extern unsigned long migrate_given_up[BIT(MIGRATE_RECORD_BITS)];

/* The record for folios of one order that one anon_vma maps, and for some others */
static inline unsigned int migrate_record_of(struct folio *folio)
{
	return hash_long((unsigned long)READ_ONCE(folio->mapping) +
			 folio_order(folio), MIGRATE_RECORD_BITS);
}

/* Are copies of such folios void so often that none is made for a while? */
static inline bool migrate_is_given_up(struct folio *folio)
{
	unsigned long until =
		READ_ONCE(migrate_given_up[migrate_record_of(folio)]);

	return unlikely(until) && time_before(jiffies, until);
}

bool __migrate_protect(struct folio *folio);
bool migrate_protected_alone(struct folio *folio);
int migrate_copy_protected(struct folio *dst, struct folio *src);
bool migrate_unmap_protected(struct folio *folio, bool copied);
int __migrate_copy_hugetlb(struct folio *dst, struct folio *src);

/* Of files */
bool migrate_file_fits(struct folio *folio);
bool migrate_file_alone(struct folio *folio);
unsigned int migrate_files_unmap(struct folio **folios, unsigned int nr);

/* How many of this size were copied while mapped, and @good; or were void */
unsigned long migrate_hugetlb_count(struct hstate *h, bool good);

/* Is a folio, perhaps not locked, one that is now copied while it is mapped? */
static inline bool migrate_mapped_fits(struct folio *folio)
{
	if (!folio_test_large(folio) ||
	    !static_branch_likely(&migrate_mapped_key) ||
	    migrate_is_given_up(folio))
		return false;
	if (!folio_test_anon(folio))
		return folio_mapped(folio) && migrate_file_fits(folio);
	return IS_ENABLED(CONFIG_MIGRATE_OFFLOAD_HUGETLB) ||
	       !folio_test_hugetlb(folio);
}

/**
 * migrate_protect() - let nobody write to a large folio unnoticed
 * @folio: locked, and isolated by the caller
 *
 * May sleep. Until migrate_unmap_protected() returns the folio stays locked. The flush
 * of the TLB may have been noted only: it has to be done before the folio is copied,
 * see try_to_unmap_flush().
 *
 * Inline, for the sake of small folios.
 *
 * Return: true if it can be copied while it is mapped; else nothing was done.
 */
static inline bool migrate_protect(struct folio *folio)
{
	return migrate_mapped_fits(folio) && __migrate_protect(folio);
}

/**
 * migrate_copy_hugetlb() - copy a hugetlb folio while it is mapped, then unmap it
 * @dst: where to, locked
 * @src: locked, and isolated by the caller
 *
 * May sleep, for as long as the CPU copies.
 *
 * Return: 0: @src is unmapped as by try_to_migrate(), and its copy good. -EAGAIN: it is
 * mapped as before, to be moved in Linux's own way. -EHWPOISON: so it is, and cannot be
 * read.
 */
static inline int migrate_copy_hugetlb(struct folio *dst, struct folio *src)
{
	if (!static_branch_likely(&migrate_mapped_key) ||
	    !folio_test_anon(src) || migrate_is_given_up(src))
		return -EAGAIN;
	return __migrate_copy_hugetlb(dst, src);
}
#else
static inline bool migrate_mapped_fits(struct folio *folio)
{
	return false;
}

static inline bool migrate_protect(struct folio *folio)
{
	return false;
}

static inline bool migrate_protected_alone(struct folio *folio)
{
	return false;
}

static inline int migrate_copy_protected(struct folio *dst, struct folio *src)
{
	return -EAGAIN;
}

static inline bool migrate_unmap_protected(struct folio *folio, bool copied)
{
	return false;
}

static inline int migrate_copy_hugetlb(struct folio *dst, struct folio *src)
{
	return -EAGAIN;
}
#endif /* CONFIG_MIGRATE_MAPPED */

#if defined(CONFIG_MIGRATE_MAPPED) && defined(CONFIG_MIGRATE_RANGES)
unsigned int migrate_protect_range(struct folio **folios, unsigned int nr);
unsigned int migrate_unmap_protected_range(struct folio **folios,
					   unsigned int nr);
#else
static inline unsigned int migrate_protect_range(struct folio **folios,
						 unsigned int nr)
{
	return 0;
}

static inline unsigned int
migrate_unmap_protected_range(struct folio **folios, unsigned int nr)
{
	return 0;
}
#endif

#endif /* _MM_MIGRATE_MAPPED_H */
