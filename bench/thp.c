// SPDX-License-Identifier: GPL-2.0
/* Folio sizes are chosen in /sys/kernel/mm/transparent_hugepage: the size that
 * is asked for must be on, larger ones off (the kernel takes the largest). What
 * has to be changed is put back at exit.
 */
#include "migbench.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THP "/sys/kernel/mm/transparent_hugepage/"
#define CHANGES_MAX 16

static struct change {
	char path[128];
	char before[32];
} changes[CHANGES_MAX];
static int changes_made;

static void put_back(void)
{
	while (changes_made--) {
		const struct change *c = &changes[changes_made];

		if (write_text(c->path, c->before))
			fprintf(stderr, "migbench: cannot put %s back into %s\n",
				c->before, c->path);
	}
}

/* The word in [brackets]; false: no such file. */
static bool setting(const char *path, char *word, size_t size)
{
	char text[256];
	const char *open, *close;

	if (read_text(path, text, sizeof(text)))
		return false;
	open = strchr(text, '[');
	close = open ? strchr(open, ']') : NULL;
	if (!close || (size_t)(close - open) > size)
		return false;
	snprintf(word, size, "%.*s", (int)(close - open - 1), open + 1);
	return true;
}

static void change(const char *path, const char *before, const char *word,
		   unsigned long kib)
{
	struct change *c = &changes[changes_made];

	if (changes_made == CHANGES_MAX || write_text(path, word))
		die(EXIT_CANNOT_RUN,
		    "--folio %luK: %s is '%s' and cannot be changed; as root: echo %s > %s",
		    kib, path, before, word, path);
	if (!changes_made++)
		atexit(put_back);
	snprintf(c->path, sizeof(c->path), "%s", path);
	snprintf(c->before, sizeof(c->before), "%s", before);
}

/* Is this size on (or off) as the file of its own, or the global one, says? */
static bool is_on(const char *word, const char *global)
{
	char all[32] = "never";

	if (!strcmp(word, "inherit")) {
		setting(global, all, sizeof(all));
		word = all;
	}
	return !strcmp(word, "always") || !strcmp(word, "madvise") ||
	       !strcmp(word, "advise") || !strcmp(word, "within_size") ||
	       !strcmp(word, "force");
}

void thp_prepare(const struct options *opt)
{
	bool shared = !strcmp(opt->memory, "shared");
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
		if (!setting(path, word, sizeof(word))) {
			/* before Linux 6.8: the global file rules 2M, the only size */
			if (kib != want)
				continue;
			if (kib != 2048 || !setting(global, word, sizeof(word)))
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
