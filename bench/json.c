// SPDX-License-Identifier: GPL-2.0
/* JSON, as little as a report needs: one value a line, NaN as null. */
#include "migbench.h"

#include <math.h>

static void write_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < ' ')
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void begin(struct json *j, const char *key)
{
	if (j->comma)
		fputs(",\n", j->out);
	j->comma = true;
	if (!key)
		return;
	write_string(j->out, key);
	fputs(": ", j->out);
}

void json_open(struct json *j, const char *key, char bracket)
{
	begin(j, key);
	fprintf(j->out, "%c\n", bracket);
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	fprintf(j->out, "\n%c", bracket);
	j->comma = true;
}

void json_text(struct json *j, const char *key, const char *text)
{
	begin(j, key);
	write_string(j->out, text);
}

void json_count(struct json *j, const char *key, uint64_t value)
{
	begin(j, key);
	fprintf(j->out, "%lu", value);
}

void json_real(struct json *j, const char *key, double value)
{
	begin(j, key);
	if (isfinite(value))
		fprintf(j->out, "%.6g", value);
	else
		fputs("null", j->out);
}

void json_flag(struct json *j, const char *key, bool value)
{
	begin(j, key);
	fputs(value ? "true" : "false", j->out);
}
