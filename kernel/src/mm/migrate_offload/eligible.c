// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a migrator may do with a folio: what eligible.h does not decide in a few
 * instructions.
 */
#include <kunit/static_stub.h>
#include <linux/highmem.h>
#include <linux/hugetlb.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#ifdef CONFIG_ARM64_MTE
#include <asm/mte.h>
#endif

#include "../internal.h"
#include "eligible.h"

/* Without migration entries for PMDs Linux splits such a folio first */
bool migrate_offload_thp_supported(void)
{
	KUNIT_STATIC_STUB_REDIRECT(migrate_offload_thp_supported);
	return thp_migration_supported();
}

/*
 * Are the bytes of the folio all there is to copy? Not if the architecture has
 * a copy_highpage() of its own: arm64 and sparc64 keep tags beside the memory,
 * which an engine does not see.
 */
bool migrate_offload_plain_bytes(struct folio *src)
{
	KUNIT_STATIC_STUB_REDIRECT(migrate_offload_plain_bytes, src);
#if defined(CONFIG_ARM64_MTE)
	if (system_supports_mte()) {
		long i, nr = folio_nr_pages(src);

		for (i = 0; i < nr; i++)
			if (page_mte_tagged(folio_page(src, i)))
				return false;
	}
	return true;
#elif defined(CONFIG_ARM64) || !defined(__HAVE_ARCH_COPY_HIGHPAGE)
	return true;
#else
	return false;
#endif
}

/* Not those that Linux splits, or treats in its own way */
bool migrate_offload_may_unmap_large(struct folio *src)
{
	if (folio_test_hugetlb(src))
		return false;
	if (!migrate_offload_thp_supported() && folio_test_pmd_mappable(src))
		return false;
	if (folio_order(src) == 1)
		return true;
	/* Whoever splits it just now has the lock that unmapping it needs */
	if (data_race(list_empty(&src->_deferred_list)))
		return true;
	return !folio_test_partially_mapped(src);
}
