// SPDX-License-Identifier: GPL-2.0
/* Settings of the kernel that a caller needs. What has to be changed is put back
 * at exit. And the kernel's counters.
 */
#include "migbench.h"

#include <stdlib.h>
#include <string.h>

#define CHANGES_MAX 8

static struct change {
	char path[128];
	char before[32];
} changes[CHANGES_MAX];
static int changes_made;

static void put_back(const struct change *c)
{
	if (write_text(c->path, c->before))
		fprintf(stderr, "migbench: cannot put %s back into %s\n", c->before, c->path);
}

static void put_all_back(void)
{
	while (changes_made--)
		put_back(&changes[changes_made]);
}

static struct change *find(const char *path)
{
	struct change *c = changes;

	while (c < changes + changes_made && strcmp(c->path, path))
		c++;
	return c;
}

/* Return: 0 or -errno. */
int setting_change(const char *path, const char *value)
{
	struct change *c = find(path);
	char before[32];
	int err;

	err = read_text(path, before, sizeof(before));
	if (!err)
		err = write_text(path, value);
	if (err || c < changes + changes_made)
		return err;
	if (changes_made == CHANGES_MAX)
		die(EXIT_CANNOT_RUN, "%s: too many settings to keep", path);
	if (!changes_made++)
		atexit(put_all_back);
	snprintf(c->path, sizeof(c->path), "%s", path);
	snprintf(c->before, sizeof(c->before), "%s", before);
	return 0;
}

/* As it was, and again at exit. */
void setting_restore(const char *path)
{
	struct change *c = find(path);

	if (c < changes + changes_made)
		put_back(c);
}

unsigned long vmstat(const char *name)
{
	size_t length = strlen(name);
	static char text[16384];
	const char *line = text;

	if (read_text("/proc/vmstat", text, sizeof(text)))
		die(EXIT_CANNOT_RUN, "cannot read /proc/vmstat");
	for (; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, length) && line[length] == ' ')
			return strtoul(line + length, NULL, 10);
	}
	die(EXIT_CANNOT_RUN, "/proc/vmstat has no %s", name);
}
