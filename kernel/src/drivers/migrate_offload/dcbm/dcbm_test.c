// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of dcbm: whose channels it uses and how it asks them, how folios
 * are cut into parts, which small ones make one part
 *
 * Copying, faults and lost copies are not tested here: they need channels,
 * such as those of softdma, and a migration to be made.
 */
#include <kunit/test.h>
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/list.h>
#include <linux/platform_device.h>
#include <linux/preempt.h>
#include <linux/sizes.h>

#include "dcbm.h"

struct dcbm_cut {
	size_t size;
	size_t stripe;
	unsigned int live;
	unsigned int parts;
};

static const struct dcbm_cut dcbm_cuts[] = {
	/* one base page cannot be cut */
	{ PAGE_SIZE, PAGE_SIZE, 16, 1 },
	{ PAGE_SIZE, 0, 16, 1 },
	{ PAGE_SIZE, SZ_128K, 1, 1 },
	/* the stripe decides */
	{ SZ_128K, SZ_128K, 16, 1 },
	{ SZ_256K - PAGE_SIZE, SZ_128K, 16, 1 },
	{ SZ_256K, SZ_128K, 16, 2 },
	{ SZ_2M, SZ_1M, 16, 2 },
	{ SZ_2M, SZ_2M, 16, 1 },
	{ SZ_2M, SZ_4M, 16, 1 },
	/* the channels decide; 3 does not divide 512 pages */
	{ SZ_2M, SZ_128K, 1, 1 },
	{ SZ_2M, SZ_128K, 3, 3 },
	{ SZ_2M, SZ_128K, 16, 16 },
	{ SZ_2M, PAGE_SIZE, 256, 256 },
	/* all pages apart */
	{ SZ_2M, 0, 1024, 512 },
};

static void dcbm_cut_desc(const struct dcbm_cut *cut, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE,
		 "%zu KiB by %zu KiB, %u channels", cut->size / SZ_1K,
		 cut->stripe / SZ_1K, cut->live);
}

KUNIT_ARRAY_PARAM(dcbm_cut, dcbm_cuts, dcbm_cut_desc);

static void number_of_parts_is_bounded(struct kunit *test)
{
	const struct dcbm_cut *cut = test->param_value;

	KUNIT_EXPECT_EQ(test, cut->parts,
			dcbm_nr_parts(cut->size, cut->stripe, cut->live));
}

static void parts_cover_the_folio_once_and_exactly(struct kunit *test)
{
	const struct dcbm_cut *cut = test->param_value;
	size_t least = max_t(size_t, cut->stripe, PAGE_SIZE);
	size_t start, end = 0;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, 0, dcbm_part_start(cut->size, cut->parts, 0));
	for (i = 0; i < cut->parts; i++) {
		start = end;
		end = dcbm_part_start(cut->size, cut->parts, i + 1);
		KUNIT_EXPECT_TRUE(test, PAGE_ALIGNED(end));
		KUNIT_EXPECT_GE(test, end - start, min(least, cut->size));
	}
	KUNIT_EXPECT_EQ(test, cut->size, end);
}

static void parts_differ_by_one_page_at_most(struct kunit *test)
{
	const struct dcbm_cut *cut = test->param_value;
	size_t len, least = SIZE_MAX, most = 0;
	unsigned int i;

	for (i = 0; i < cut->parts; i++) {
		len = dcbm_part_start(cut->size, cut->parts, i + 1) -
		      dcbm_part_start(cut->size, cut->parts, i);
		least = min(least, len);
		most = max(most, len);
	}
	KUNIT_EXPECT_LE(test, most - least, PAGE_SIZE);
}

/* Base pages that lie side by side: two blocks, one to copy from, one to */
#define RUN_ORDER	get_order((DCBM_RUN_FOLIOS + 2) * PAGE_SIZE)

struct dcbm_blocks {
	struct dcbm_chan chan;
	struct dcbm_part part;
	struct migrate_copy *copies;
	struct page *src;
	struct page *dst;
};

static void free_blocks(void *data)
{
	struct dcbm_blocks *b = data;
	unsigned int i;

	for (i = 0; i < 1 << RUN_ORDER; i++) {
		if (b->src)
			__free_page(b->src + i);
		if (b->dst)
			__free_page(b->dst + i);
	}
}

static struct page *get_block(struct kunit *test)
{
	struct page *page = alloc_pages(GFP_KERNEL, RUN_ORDER);

	KUNIT_ASSERT_NOT_NULL(test, page);
	split_page(page, RUN_ORDER);
	return page;
}

static struct dcbm_blocks *get_blocks(struct kunit *test)
{
	struct dcbm_blocks *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, b);
	b->copies = kunit_kcalloc(test, 1 << RUN_ORDER, sizeof(*b->copies),
				  GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, b->copies);
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, free_blocks, b));
	b->src = get_block(test);
	b->dst = get_block(test);
	spin_lock_init(&b->chan.lock);
	INIT_LIST_HEAD(&b->chan.scatters);
	b->part.chan = &b->chan;
	return b;
}

static struct migrate_copy *copy_of(struct dcbm_blocks *b, unsigned int src,
				    unsigned int dst)
{
	struct migrate_copy *copy = &b->copies[src];

	copy->src = page_folio(b->src + src);
	copy->dst = page_folio(b->dst + dst);
	return copy;
}

/* The part is for page @src, and for nothing else */
static void begin_at(struct dcbm_blocks *b, unsigned int src, unsigned int dst)
{
	dcbm_fill(&b->part, copy_of(b, src, dst), 0, PAGE_SIZE);
}

static void expect_part(struct kunit *test, struct dcbm_blocks *b,
			unsigned int src, unsigned int dst, unsigned int nr)
{
	KUNIT_EXPECT_EQ(test, page_to_pfn(b->src) + src, b->part.src);
	KUNIT_EXPECT_EQ(test, page_to_pfn(b->dst) + dst, b->part.dst);
	KUNIT_EXPECT_EQ(test, nr * PAGE_SIZE, b->part.len);
	KUNIT_EXPECT_EQ(test, nr, b->part.nr_copies);
}

static void folios_that_adjoin_make_one_part(struct kunit *test)
{
	struct dcbm_blocks *b = get_blocks(test);

	if (DCBM_RUN_FOLIOS < 4)
		kunit_skip(test, "base pages are large");
	begin_at(b, 5, 2);
	KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part, copy_of(b, 6, 3)));
	expect_part(test, b, 5, 2, 2);
	/* Falling frames do as well as rising ones */
	KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part, copy_of(b, 4, 1)));
	expect_part(test, b, 4, 1, 3);
	KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part, copy_of(b, 7, 4)));
	expect_part(test, b, 4, 1, 4);
	KUNIT_EXPECT_PTR_EQ(test, &b->copies[5], b->part.copies[0]);
	KUNIT_EXPECT_PTR_EQ(test, &b->copies[6], b->part.copies[1]);
	KUNIT_EXPECT_PTR_EQ(test, &b->copies[4], b->part.copies[2]);
	KUNIT_EXPECT_PTR_EQ(test, &b->copies[7], b->part.copies[3]);
}

static void folios_that_do_not_adjoin_are_left(struct kunit *test)
{
	struct dcbm_blocks *b = get_blocks(test);

	if (DCBM_RUN_FOLIOS < 4)
		kunit_skip(test, "base pages are large");
	begin_at(b, 5, 5);
	/* in neither place, in one, on other sides, the same once more */
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 7, 7)));
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 6, 7)));
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 7, 6)));
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 6, 4)));
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 4, 6)));
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 5, 5)));
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 3, 3)));
	expect_part(test, b, 5, 5, 1);
}

static void part_of_several_folios_is_bounded(struct kunit *test)
{
	struct dcbm_blocks *b = get_blocks(test);
	unsigned int i;

	begin_at(b, 1, 1);
	for (i = 1; i < DCBM_RUN_FOLIOS; i++)
		KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part,
						    copy_of(b, i + 1, i + 1)));
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part,
					     copy_of(b, i + 1, i + 1)));
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 0, 0)));
	expect_part(test, b, 1, 1, DCBM_RUN_FOLIOS);
}

static void share_as_before(void *before)
{
	dcbm_share_bytes = (unsigned long)before;
}

/* However large parts are otherwise */
static void part_has_no_more_than_share_bytes(struct kunit *test)
{
	struct dcbm_blocks *b = get_blocks(test);
	unsigned int i;

	if (DCBM_RUN_FOLIOS < 4)
		kunit_skip(test, "base pages are large");
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, share_as_before,
						  (void *)(unsigned long)dcbm_share_bytes));
	for (i = 0; i < 1 << RUN_ORDER; i++)
		b->copies[i].stripe_bytes = DCBM_RUN_BYTES;
	dcbm_share_bytes = 2 * PAGE_SIZE;
	begin_at(b, 1, 1);
	KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part, copy_of(b, 2, 2)));
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 3, 3)));
	expect_part(test, b, 1, 1, 2);
	dcbm_share_bytes = 0;
	begin_at(b, 1, 1);
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 2, 2)));
	expect_part(test, b, 1, 1, 1);
}

/* The channel has a table that no part has */
static void add_scatter(struct kunit *test, struct dcbm_blocks *b)
{
	struct dcbm_scatter *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, s);
	sg_init_table(s->src, DCBM_RUN_FOLIOS);
	sg_init_table(s->dst, DCBM_RUN_FOLIOS);
	list_add(&s->node, &b->chan.scatters);
}

static void behind_an_iommu_folios_lie_anywhere(struct kunit *test)
{
	struct dcbm_blocks *b = get_blocks(test);

	if (DCBM_RUN_FOLIOS < 6)
		kunit_skip(test, "base pages are large");
	add_scatter(test, b);
	begin_at(b, 5, 5);
	/* Those that adjoin do not need the table */
	KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part, copy_of(b, 6, 6)));
	KUNIT_EXPECT_NULL(test, b->part.scatter);
	KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part, copy_of(b, 1, 9)));
	KUNIT_EXPECT_NOT_NULL(test, b->part.scatter);
	KUNIT_EXPECT_TRUE(test, list_empty(&b->chan.scatters));
	/* Adjoining or not: the first frames are what they were */
	KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part, copy_of(b, 4, 4)));
	KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part, copy_of(b, 9, 1)));
	expect_part(test, b, 5, 5, 5);
	KUNIT_EXPECT_PTR_EQ(test, &b->copies[1], b->part.copies[2]);
	KUNIT_EXPECT_PTR_EQ(test, &b->copies[9], b->part.copies[4]);
}

static void part_has_no_more_than_its_table(struct kunit *test)
{
	struct dcbm_blocks *b = get_blocks(test);
	unsigned int i;

	add_scatter(test, b);
	begin_at(b, 0, 1);
	for (i = 1; i < DCBM_RUN_FOLIOS; i++)
		KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part,
						    copy_of(b, i, 0)));
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, i, 0)));
	KUNIT_EXPECT_EQ(test, DCBM_RUN_FOLIOS, b->part.nr_copies);
}

static void without_a_free_table_folios_must_adjoin(struct kunit *test)
{
	struct dcbm_blocks *b = get_blocks(test);

	if (DCBM_RUN_FOLIOS < 4)
		kunit_skip(test, "base pages are large");
	add_scatter(test, b);
	begin_at(b, 5, 5);
	KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part, copy_of(b, 1, 1)));
	/* The table is that part's now */
	b->part.scatter = NULL;
	begin_at(b, 5, 5);
	KUNIT_EXPECT_FALSE(test, dcbm_append(&b->part, copy_of(b, 1, 1)));
	KUNIT_EXPECT_TRUE(test, dcbm_append(&b->part, copy_of(b, 6, 6)));
	expect_part(test, b, 5, 5, 2);
}

/* A channel of a device that reaches all memory, and whose driver reports errors */
struct dcbm_engine {
	struct device_driver driver;
	struct device dev;
	struct dma_device device;
	struct dma_chan_dev chan_dev;
	struct dma_chan chan;
	u64 dma_mask;
	bool asked;
	bool softirqs_on;
};

static struct dcbm_engine *get_engine(struct kunit *test)
{
	struct dcbm_engine *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, e);
	e->driver.name = "softdma";
	e->dma_mask = DMA_BIT_MASK(64);
	e->dev.bus = &platform_bus_type;
	e->dev.driver = &e->driver;
	e->dev.dma_mask = &e->dma_mask;
	e->device.dev = &e->dev;
	e->device.reports_errors = true;
	dma_cap_set(DMA_MEMCPY, e->device.cap_mask);
	e->chan.device = &e->device;
	e->chan.dev = &e->chan_dev;
	return e;
}

/* Whatever it is called: another kernel's driver of that name may hide errors */
static void driver_that_does_not_promise_is_not_used(struct kunit *test)
{
	static const char * const names[] = { "ptdma", "plx_dma", "softdma" };
	struct dcbm_engine *e = get_engine(test);
	const char *why;
	unsigned int i;

	e->device.reports_errors = false;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		e->driver.name = names[i];
		KUNIT_EXPECT_FALSE(test, dcbm_may_use(&e->chan, &why));
		KUNIT_ASSERT_NOT_NULL(test, why);
		KUNIT_EXPECT_NOT_NULL(test, strstr(why, "reports_errors"));
	}
}

static void driver_that_promises_is_used(struct kunit *test)
{
	struct dcbm_engine *e = get_engine(test);
	const char *why;

	e->driver.name = "unheard-of";
	KUNIT_EXPECT_TRUE(test, dcbm_may_use(&e->chan, &why));
	KUNIT_EXPECT_NULL(test, why);
}

static void others_are_used_at_ones_own_risk(struct kunit *test)
{
	struct dcbm_engine *e = get_engine(test);

	e->device.reports_errors = false;
	e->driver.name = "own";
	KUNIT_EXPECT_TRUE(test, dcbm_trusts(&e->device, "own"));
	KUNIT_EXPECT_TRUE(test, dcbm_trusts(&e->device, "other,own"));
	KUNIT_EXPECT_TRUE(test, dcbm_trusts(&e->device, "own,other"));
	KUNIT_EXPECT_FALSE(test, dcbm_trusts(&e->device, "owner,disown"));
	KUNIT_EXPECT_FALSE(test, dcbm_trusts(&e->device, ""));
	KUNIT_EXPECT_FALSE(test, dcbm_trusts(&e->device, NULL));
	e->driver.name = "owner";
	KUNIT_EXPECT_FALSE(test, dcbm_trusts(&e->device, "own"));
	e->driver.name = "";
	KUNIT_EXPECT_FALSE(test, dcbm_trusts(&e->device, ","));
}

/* Nor is it worth a word: they are others' to use */
static void channels_of_slave_controllers_are_not_used(struct kunit *test)
{
	struct dcbm_engine *e = get_engine(test);
	const char *why;

	KUNIT_EXPECT_TRUE(test, dcbm_may_use(&e->chan, &why));
	KUNIT_EXPECT_NULL(test, why);
	dma_cap_set(DMA_SLAVE, e->device.cap_mask);
	KUNIT_EXPECT_FALSE(test, dcbm_may_use(&e->chan, &why));
	KUNIT_EXPECT_NULL(test, why);
	dma_cap_clear(DMA_SLAVE, e->device.cap_mask);
	dma_cap_set(DMA_CYCLIC, e->device.cap_mask);
	KUNIT_EXPECT_FALSE(test, dcbm_may_use(&e->chan, &why));
	KUNIT_EXPECT_NULL(test, why);
}

/* Who would tell that it leaves? */
static void device_without_driver_or_known_bus_is_not_used(struct kunit *test)
{
	struct dcbm_engine *e = get_engine(test);
	const char *why;

	e->dev.bus = NULL;
	KUNIT_EXPECT_FALSE(test, dcbm_may_use(&e->chan, &why));
	KUNIT_EXPECT_NOT_NULL(test, why);
	e->dev.bus = &platform_bus_type;
	e->dev.driver = NULL;
	KUNIT_EXPECT_FALSE(test, dcbm_may_use(&e->chan, &why));
	KUNIT_EXPECT_NOT_NULL(test, why);
}

static enum dma_status note_softirqs(struct dma_chan *chan, dma_cookie_t cookie,
				     struct dma_tx_state *state)
{
	struct dcbm_engine *e = container_of(chan, struct dcbm_engine, chan);

	e->asked = true;
	e->softirqs_on = !softirq_count();
	return DMA_IN_PROGRESS;
}

/* A part of base pages that lie like that, of a device without an IOMMU */
static void begin_scattered(struct kunit *test, struct dcbm_blocks *b,
			    struct dcbm_engine *e)
{
	e->dev.coherent_dma_mask = e->dma_mask;
	b->chan.chan = &e->chan;
	b->chan.dev = &e->dev;
	add_scatter(test, b);
	begin_at(b, 5, 5);
	KUNIT_ASSERT_TRUE(test, dcbm_append(&b->part, copy_of(b, 1, 9)));
	KUNIT_ASSERT_TRUE(test, dcbm_append(&b->part, copy_of(b, 2, 10)));
	KUNIT_ASSERT_TRUE(test, dcbm_append(&b->part, copy_of(b, 0, 8)));
	KUNIT_ASSERT_TRUE(test, dcbm_append(&b->part, copy_of(b, 3, 1)));
}

static void list_has_an_entry_for_those_that_adjoin(struct kunit *test)
{
	static const unsigned int src[] = { 5, 0, 3 }, dst[] = { 5, 8, 1 };
	static const unsigned int nr[] = { 1, 3, 1 };
	struct dcbm_blocks *b = get_blocks(test);
	struct dcbm_engine *e = get_engine(test);
	struct dcbm_scatter *s;
	unsigned int i;

	if (DCBM_RUN_FOLIOS < 6)
		kunit_skip(test, "base pages are large");
	begin_scattered(test, b, e);
	s = b->part.scatter;
	dma_cap_set(DMA_MEMCPY_SG, e->device.cap_mask);
	KUNIT_ASSERT_EQ(test, 0, dcbm_map_scatter(&b->part));
	KUNIT_EXPECT_TRUE(test, s->listed);
	KUNIT_ASSERT_EQ(test, 3, s->nr);
	for (i = 0; i < s->nr; i++) {
		KUNIT_EXPECT_PTR_EQ(test, b->src + src[i], sg_page(&s->src[i]));
		KUNIT_EXPECT_PTR_EQ(test, b->dst + dst[i], sg_page(&s->dst[i]));
		KUNIT_EXPECT_EQ(test, nr[i] * PAGE_SIZE, sg_dma_len(&s->src[i]));
		KUNIT_EXPECT_EQ(test, nr[i] * PAGE_SIZE, sg_dma_len(&s->dst[i]));
	}
	dcbm_unmap_scatter(&b->part);
}

static void without_lists_nor_iommu_nothing_is_mapped(struct kunit *test)
{
	struct dcbm_blocks *b = get_blocks(test);
	struct dcbm_engine *e = get_engine(test);

	if (DCBM_RUN_FOLIOS < 6)
		kunit_skip(test, "base pages are large");
	begin_scattered(test, b, e);
	KUNIT_EXPECT_EQ(test, -EIO, dcbm_map_scatter(&b->part));
	/* Some queue of the device takes shorter ones than a part may have */
	dma_cap_set(DMA_MEMCPY_SG, e->device.cap_mask);
	e->device.max_sg_burst = DCBM_RUN_FOLIOS - 1;
	KUNIT_EXPECT_EQ(test, -EIO, dcbm_map_scatter(&b->part));
	e->device.max_sg_burst = DCBM_RUN_FOLIOS;
	KUNIT_ASSERT_EQ(test, 0, dcbm_map_scatter(&b->part));
	dcbm_unmap_scatter(&b->part);
}

static struct dcbm_chan *get_channel(struct kunit *test, struct dcbm_engine *e)
{
	struct dcbm_chan *c = kunit_kzalloc(test, struct_size(c, parts, 1),
					    GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	spin_lock_init(&c->submit_lock);
	spin_lock_init(&c->lock);
	INIT_LIST_HEAD(&c->free);
	INIT_LIST_HEAD(&c->busy);
	list_add(&c->parts[0].node, &c->free);
	c->chan = &e->chan;
	c->dev = &e->dev;
	return c;
}

/* Its lock may be its tasklet's as well */
static void driver_is_asked_with_softirqs_off(struct kunit *test)
{
	struct dcbm_engine *e = get_engine(test);
	struct dcbm_chan *c = get_channel(test, e);

	e->device.device_tx_status = note_softirqs;
	dcbm_poll(c);
	KUNIT_EXPECT_FALSE(test, e->asked);
	c->in_flight = 1;
	dcbm_poll(c);
	KUNIT_EXPECT_TRUE(test, e->asked);
	KUNIT_EXPECT_FALSE(test, e->softirqs_on);
}

/* Take the channels from dcbm again, whatever the test has found */
static void forget_channel(void *c)
{
	list_del(&((struct dcbm_chan *)c)->link);
}

static struct dcbm_chan *busy_channel(struct kunit *test, struct dcbm_engine *e,
				      u64 oldest)
{
	struct dcbm_chan *c = get_channel(test, e);

	e->device.device_tx_status = note_softirqs;
	c->in_flight = 1;
	c->polled = true;
	c->oldest = oldest;
	list_add_tail(&c->link, &dcbm_chans);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, forget_channel, c));
	return c;
}

static void oldest_is_looked_at_first(struct kunit *test)
{
	struct dcbm_engine *young = get_engine(test), *old = get_engine(test);
	struct dcbm_engine *other = get_engine(test);
	unsigned int i;

	if (!list_empty(&dcbm_chans))
		kunit_skip(test, "dcbm is in use");
	KUNIT_EXPECT_LT(test, dcbm_look(), 0);
	busy_channel(test, other, 1)->polled = false;
	KUNIT_EXPECT_LT(test, dcbm_look(), 0);
	busy_channel(test, young, 3);
	busy_channel(test, old, 2);
	for (i = 1; i < DCBM_MISSES; i++)
		KUNIT_EXPECT_EQ(test, 0, dcbm_look());
	KUNIT_EXPECT_TRUE(test, old->asked);
	KUNIT_EXPECT_FALSE(test, young->asked);
	/* It may be stuck */
	KUNIT_EXPECT_EQ(test, 0, dcbm_look());
	KUNIT_EXPECT_TRUE(test, young->asked);
	KUNIT_EXPECT_FALSE(test, other->asked);
}

/* Those that are idle when dcbm is left are taken anew in any case */
static void failed_channel_that_was_kept_is_tried_again(struct kunit *test)
{
	struct dcbm_chan *c = get_channel(test, get_engine(test));

	c->state = DCBM_FAILED;
	c->errors_in_row = dcbm_max_errors;
	c->in_flight = 1;
	dcbm_renew(c);
	dcbm_bring_back(c);
	KUNIT_EXPECT_EQ(test, c->state, DCBM_STUCK);
	c->in_flight = 0;
	dcbm_bring_back(c);
	KUNIT_EXPECT_EQ(test, c->state, DCBM_LIVE);
	KUNIT_EXPECT_EQ(test, c->errors_in_row, 0);
	atomic_dec(&dcbm_nr_live);
	/* One whose driver leaves is not held up */
	c->state = DCBM_GONE;
	dcbm_renew(c);
	KUNIT_EXPECT_EQ(test, c->state, DCBM_GONE);
}

static void retire_as_stuck(struct dcbm_chan *c)
{
	spin_lock_irq(&c->lock);
	dcbm_retire(c, DCBM_STUCK);
	spin_unlock_irq(&c->lock);
}

/* Or whoever waits would look at nothing else */
static void stuck_channel_is_not_looked_at(struct kunit *test)
{
	struct dcbm_chan *c = get_channel(test, get_engine(test));

	atomic_inc(&dcbm_nr_live);
	c->parts[0].age = 7;
	list_move(&c->parts[0].node, &c->busy);
	dcbm_note_oldest(c);
	KUNIT_EXPECT_EQ(test, c->oldest, 7);
	retire_as_stuck(c);
	KUNIT_EXPECT_EQ(test, c->oldest, 0);
}

static void channel_that_is_stuck_again_is_left_alone_for_longer(struct kunit *test)
{
	struct dcbm_chan *c = get_channel(test, get_engine(test));
	unsigned long first;

	atomic_inc(&dcbm_nr_live);
	retire_as_stuck(c);
	first = c->back_at - jiffies;
	dcbm_bring_back(c);
	KUNIT_EXPECT_EQ(test, c->state, DCBM_STUCK);
	/* As its copies have ended at last */
	c->errors_in_row = 3;
	c->back_at = jiffies;
	dcbm_bring_back(c);
	KUNIT_EXPECT_EQ(test, c->state, DCBM_LIVE);
	KUNIT_EXPECT_EQ(test, c->errors_in_row, 3);
	retire_as_stuck(c);
	KUNIT_EXPECT_GT(test, c->back_at - jiffies, first);
}

static void refuse(struct dcbm_chan *c, size_t len)
{
	spin_lock(&c->submit_lock);
	dcbm_refused(c, len);
	spin_unlock(&c->submit_lock);
}

/* One that has copies in flight may be full, and long ones not every engine takes */
static void idle_channel_that_takes_nothing_is_retired(struct kunit *test)
{
	struct dcbm_chan *c = get_channel(test, get_engine(test));
	unsigned int i;

	atomic_inc(&dcbm_nr_live);
	list_move(&c->parts[0].node, &c->busy);
	for (i = 0; i < 2 * dcbm_max_errors; i++)
		refuse(c, SZ_4K);
	KUNIT_EXPECT_EQ(test, c->state, DCBM_LIVE);
	list_move(&c->parts[0].node, &c->free);
	for (i = 0; i < 2 * dcbm_max_errors; i++)
		refuse(c, SZ_2M + SZ_4K);
	for (i = 1; i < dcbm_max_errors; i++)
		refuse(c, SZ_2M);
	KUNIT_EXPECT_EQ(test, c->state, DCBM_LIVE);
	refuse(c, SZ_4K);
	KUNIT_EXPECT_EQ(test, c->state, DCBM_STUCK);
	/* It is tried again, by one part, which is not taken either */
	c->back_at = jiffies;
	dcbm_bring_back(c);
	KUNIT_EXPECT_EQ(test, c->state, DCBM_LIVE);
	refuse(c, SZ_4K);
	KUNIT_EXPECT_EQ(test, c->state, DCBM_STUCK);
}

static struct kunit_case dcbm_cases[] = {
	KUNIT_CASE_PARAM(number_of_parts_is_bounded, dcbm_cut_gen_params),
	KUNIT_CASE_PARAM(parts_cover_the_folio_once_and_exactly,
			 dcbm_cut_gen_params),
	KUNIT_CASE_PARAM(parts_differ_by_one_page_at_most, dcbm_cut_gen_params),
	KUNIT_CASE(folios_that_adjoin_make_one_part),
	KUNIT_CASE(folios_that_do_not_adjoin_are_left),
	KUNIT_CASE(part_of_several_folios_is_bounded),
	KUNIT_CASE(part_has_no_more_than_share_bytes),
	KUNIT_CASE(behind_an_iommu_folios_lie_anywhere),
	KUNIT_CASE(part_has_no_more_than_its_table),
	KUNIT_CASE(without_a_free_table_folios_must_adjoin),
	KUNIT_CASE(list_has_an_entry_for_those_that_adjoin),
	KUNIT_CASE(without_lists_nor_iommu_nothing_is_mapped),
	KUNIT_CASE(driver_that_does_not_promise_is_not_used),
	KUNIT_CASE(driver_that_promises_is_used),
	KUNIT_CASE(others_are_used_at_ones_own_risk),
	KUNIT_CASE(channels_of_slave_controllers_are_not_used),
	KUNIT_CASE(device_without_driver_or_known_bus_is_not_used),
	KUNIT_CASE(driver_is_asked_with_softirqs_off),
	KUNIT_CASE(oldest_is_looked_at_first),
	KUNIT_CASE(failed_channel_that_was_kept_is_tried_again),
	KUNIT_CASE(stuck_channel_is_not_looked_at),
	KUNIT_CASE(channel_that_is_stuck_again_is_left_alone_for_longer),
	KUNIT_CASE(idle_channel_that_takes_nothing_is_retired),
	{ }
};

static struct kunit_suite dcbm_suite = {
	.name = "dcbm",
	.test_cases = dcbm_cases,
};

kunit_test_suite(dcbm_suite);
