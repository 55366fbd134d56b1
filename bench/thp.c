// SPDX-License-Identifier: GPL-2.0
/* Folio sizes are chosen in /sys/kernel/mm/transparent_hugepage: the size that
 * is asked for must be on, larger ones off (the kernel takes the largest). What
 * has to be changed is put back at exit.
 */
#include "migbench.h"

#include <string.h>
#include <unistd.h>

#define THP "/sys/kernel/mm/transparent_hugepage/"

static void change(const char *path, const char *before, const char *word,
		   unsigned long kib)
{
	if (setting_change(path, word))
		die(EXIT_CANNOT_RUN,
		    "--folio %luK: %s is '%s' and cannot be changed; as root: echo %s > %s",
		    kib, path, before, word, path);
}

/* Is this size on (or off) as the file of its own, or the global one, says? */
static bool is_on(const char *word, const char *global)
{
	char all[32] = "never";

	if (!strcmp(word, "inherit")) {
		setting_read(global, all, sizeof(all));
		word = all;
	}
	return !strcmp(word, "always") || !strcmp(word, "madvise") ||
	       !strcmp(word, "advise") || !strcmp(word, "within_size") ||
	       !strcmp(word, "force");
}

void thp_prepare(const struct options *opt)
{
	bool shared = !strcmp(opt->memory, "shared") || memory_is_weights(opt);
	const char *file = shared ? "shmem_enabled" : "enabled";
	const char *on = shared ? "advise" : "madvise";
	unsigned long kib, want = opt->folio_bytes >> 10;
	char path[128], global[128], word[32];

	if (want == PAGE_BYTES >> 10 || memory_is_file(opt) || memory_is_hugetlb(opt))
		return;		/* MADV_NOHUGEPAGE, the filesystem, or the pool decides */
	if (access(THP, F_OK))
		die(EXIT_CANNOT_RUN, "--folio %luK: this kernel has no transparent huge pages",
		    want);
	snprintf(global, sizeof(global), THP "%s", file);
	for (kib = 8; kib <= 2048; kib *= 2) {
		snprintf(path, sizeof(path), THP "hugepages-%lukB/%s", kib, file);
		if (setting_read(path, word, sizeof(word))) {
			/* before Linux 6.8: the global file rules 2M, the only size */
			if (kib != want)
				continue;
			if (kib != 2048 || setting_read(global, word, sizeof(word)))
				die(EXIT_CANNOT_RUN,
				    "--folio %luK: this kernel has no %s; ls " THP
				    " shows the sizes it has", want, path);
			snprintf(path, sizeof(path), "%s", global);
		}
		if (kib == want && !is_on(word, global))
			change(path, word, on, want);
		if (kib > want && is_on(word, global))
			change(path, word, "never", want);
	}
}
