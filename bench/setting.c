// SPDX-License-Identifier: GPL-2.0
/* Settings of the kernel that a caller needs. What has to be changed is put back
 * at exit.
 */
#include "migbench.h"

#include <stdlib.h>
#include <string.h>

#define CHANGES_MAX 16

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

/* What a file says; of several words the one in [brackets]. Return: 0, or -1 with errno. */
int setting_read(const char *path, char *value, size_t size)
{
	char text[256], *begin, *end;

	if (read_text(path, text, sizeof(text)))
		return -1;
	begin = strchr(text, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (end)
		*end = '\0';
	snprintf(value, size, "%s", end ? begin + 1 : text);
	return 0;
}

/* Return: 0, or -1 with errno. */
int setting_change(const char *path, const char *value)
{
	struct change *c = find(path);
	char before[32];

	if (setting_read(path, before, sizeof(before)) || write_text(path, value))
		return -1;
	if (c < changes + changes_made)
		return 0;
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
