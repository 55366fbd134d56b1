// SPDX-License-Identifier: GPL-2.0
/* Huge pages for --memory hugetlb: as many on each of the two nodes as will move. */
#include "migbench.h"

#include <stdlib.h>

static void fill_pool(unsigned long node, unsigned long kib, size_t wanted)
{
	char path[128], text[32];
	unsigned long got = 0;

	snprintf(path, sizeof(path),
		 "/sys/devices/system/node/node%lu/hugepages/hugepages-%lukB/nr_hugepages", node, kib);
	snprintf(text, sizeof(text), "%zu", wanted);
	if (setting_change(path, text))
		die(EXIT_CANNOT_RUN, "--folio %luK: cannot write %s; be root, on a CPU that has such pages",
		    kib, path);
	if (!read_text(path, text, sizeof(text)))
		got = strtoul(text, NULL, 10);
	if (got < wanted)
		die(EXIT_CANNOT_RUN,
		    "--memory hugetlb: node %lu gave %lu of %zu pages of %lu KiB; reserve them at boot: hugepagesz=%luK hugepages=%zu",
		    node, got, wanted, kib, kib, 2 * wanted);
}

/* The pools are as they were when migbench ends. */
void hugetlb_prepare(const struct options *opt)
{
	size_t folios = opt->bytes / opt->folio_bytes;

	if (!memory_is_hugetlb(opt))
		return;
	fill_pool(opt->from, opt->folio_bytes >> 10, folios);
	if (opt->to != opt->from)
		fill_pool(opt->to, opt->folio_bytes >> 10, folios);
}
