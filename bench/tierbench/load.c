// SPDX-License-Identifier: GPL-2.0
/* One client of a redis-server on a Unix socket. redis-benchmark asks for all keys
 * alike; this one asks for some far more often. Every value is looked at.
 */
#define _GNU_SOURCE
#include "tierbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MOST 64
#define KEY "key:%010u"
#define KEY_BYTES 14

static int connected(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!path || strlen(path) >= sizeof(to.sun_path))
		die(EXIT_BAD_USAGE, "--socket must name the server's socket");
	strcpy(to.sun_path, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die(EXIT_CANNOT_RUN, "cannot connect to %s: %m", path);
	return fd;
}

static void send_all(int fd, const char *data, size_t bytes)
{
	while (bytes) {
		ssize_t sent = write(fd, data, bytes);

		if (sent <= 0)
			die(EXIT_CANNOT_RUN, "the server went away: %m");
		data += sent;
		bytes -= (size_t)sent;
	}
}

static void receive_all(int fd, char *data, size_t bytes)
{
	while (bytes) {
		ssize_t got = read(fd, data, bytes);

		if (got <= 0)
			die(EXIT_CANNOT_RUN, "the server went away");
		data += got;
		bytes -= (size_t)got;
	}
}

/* A value is one word, which its key gives, again and again. */
static bool is_of(const char *value, size_t bytes, uint32_t key)
{
	uint64_t word, right = hash(key);
	size_t i;

	for (i = 0; i < bytes; i += sizeof(word)) {
		memcpy(&word, value + i, sizeof(word));
		if (word != right)
			return false;
	}
	return true;
}

int fill_run(const struct options *opt)
{
	static const char ok[] = "+OK\r\n";
	char *text = zalloc(1, HEAD_MOST + opt->page + 2), answer[sizeof(ok) - 1];
	int fd = connected(opt->socket);
	uint32_t key;
	size_t i;

	for (key = 0; key < opt->items; key++) {
		uint64_t word = hash(key);
		int head = snprintf(text, HEAD_MOST,
				    "*3\r\n$3\r\nSET\r\n$%d\r\n" KEY "\r\n$%lu\r\n", KEY_BYTES, key,
				    opt->page);

		for (i = 0; i < opt->page; i += sizeof(word))
			memcpy(text + head + i, &word, sizeof(word));
		memcpy(text + head + opt->page, "\r\n", 2);
		send_all(fd, text, (size_t)head + opt->page + 2);
		receive_all(fd, answer, sizeof(answer));
		if (memcmp(answer, ok, sizeof(answer)))
			die(EXIT_CANNOT_RUN, "the server does not set key %u", key);
	}
	close(fd);
	return 0;
}

/* The answer to one question: its length is known, so it is read without looking. */
static bool get(int fd, uint32_t key, char *answer, size_t head, size_t bytes)
{
	char text[HEAD_MOST];
	int length = snprintf(text, sizeof(text), "*2\r\n$3\r\nGET\r\n$%d\r\n" KEY "\r\n",
			      KEY_BYTES, key);

	send_all(fd, text, (size_t)length);
	receive_all(fd, answer, 1);
	if (answer[0] != '$')
		die(EXIT_CANNOT_RUN, "the server does not get key %u", key);
	receive_all(fd, answer + 1, head + bytes + 1);
	return is_of(answer + head, bytes, key);
}

static void report(struct times *t, const struct counters *before, uint64_t bad, size_t bytes)
{
	struct counters after = counters_read();

	printf("{");
	times_print(t);
	counters_print(before, &after);
	printf(", \"mismatches\": %lu, \"verified_bytes\": %lu}\n", bad, bytes);
}

int load_run(const struct options *opt)
{
	size_t count = opt->warmup + opt->requests, i;
	uint32_t *sequence = skew_sequence(opt->items, count, opt->seed);
	size_t head = (size_t)snprintf(NULL, 0, "$%lu\r\n", opt->page);
	char *answer = zalloc(1, head + opt->page + 2);
	int fd = connected(opt->socket);
	struct counters before = { 0 };
	struct times t = { 0 };
	uint64_t bad = 0, since = 0, now;

	times_open(&t, opt->requests);
	for (i = 0; i < count; i++) {
		if (i == opt->warmup) {
			before = counters_read();
			t.begin_ns = since = clock_ns(CLOCK_MONOTONIC);
		}
		bad += !get(fd, sequence[i], answer, head, opt->page);
		if (i < opt->warmup)
			continue;
		now = clock_ns(CLOCK_MONOTONIC);
		times_add(&t, now - since);
		since = now;
	}
	t.end_ns = since;
	report(&t, &before, bad, count * opt->page);
	close(fd);
	return 0;
}
