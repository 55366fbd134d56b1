// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdlib.h>

#include "writer.h"

/* Another one in each page, so that no part of a copy is special */
static size_t place_of(size_t page)
{
	return page * PAGE + page * 520 % PAGE;
}

static volatile uint64_t *address_of(const struct writer *w, size_t page)
{
	return (uint64_t *)(w->region->addr + place_of(page));
}

bool writer_store(uint64_t *at, uint64_t value)
{
	*(volatile uint64_t *)at = value;
	return true;
}

static void *write_all(void *arg)
{
	struct writer *w = arg;
	unsigned int seed = 1;

	while (!w->over) {
		size_t page = rand_r(&seed) % (w->region->size / PAGE);
		volatile uint64_t *at = address_of(w, page);

		w->lost += *at != w->last[page];
		/* No value comes twice, so an old one is seen to be old */
		w->last[page] = region_word(w->region, place_of(page)) ^ ++w->writes;
		w->failed += !w->put((uint64_t *)at, w->last[page]);
		w->lost += *at != w->last[page];
	}
	return NULL;
}

void writer_begin(struct writer *w, struct region *r,
		  bool (*put)(uint64_t *at, uint64_t value))
{
	size_t nr = r->size / PAGE;

	*w = (struct writer){ .region = r, .put = put };
	w->last = calloc(nr, sizeof(*w->last));
	if (!w->last)
		err(1, "calloc");
	for (size_t i = 0; i < nr; i++)
		w->last[i] = region_word(r, place_of(i));
	if (pthread_create(&w->thread, NULL, write_all, w))
		errx(1, "pthread_create");
}

void writer_end(struct writer *w)
{
	w->over = true;
	pthread_join(w->thread, NULL);
	for (size_t i = 0; i < w->region->size / PAGE; i++) {
		w->lost += *address_of(w, i) != w->last[i];
		region_refill(w->region, place_of(i), sizeof(uint64_t));
	}
	free(w->last);
}
