// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of softdma; part of softdma.c
 *
 * Each case drives the channels of a device of its own, with a ring of
 * SOFTDMA_TEST_RING descriptors. Source bytes have their top bit clear, bytes
 * of the destination that nobody may write have it set.
 *
 * Real machine checks are not tested: a poisoned page is only marked as such.
 */
#include <kunit/test.h>
#include <linux/sizes.h>

#define SOFTDMA_TEST_RING	8
#define SOFTDMA_TEST_SIZE	SZ_128K
#define SOFTDMA_TEST_WAIT	(60 * HZ)

struct softdma_test {
	struct platform_device *pdev;
	struct dma_chan *chan;
	u8 *src;
	u8 *dst;
	dma_addr_t src_dma;
	dma_addr_t dst_dma;
	atomic_t calls;
};

struct softdma_test_copy {
	struct softdma_test *t;
	struct completion done;
	dma_cookie_t cookie;
	struct dmaengine_result result;
	int turn;	/* 1 is the first to complete */
};

/* --- fixture --- */

static u8 softdma_test_src_byte(size_t i)
{
	return (i * 7 + i / SZ_4K) & 0x7f;
}

static u8 softdma_test_dst_byte(size_t i)
{
	return 0x80 | (i & 0x7f);
}

static void softdma_test_no_faults(void)
{
	unsigned int id;

	for (id = 0; id < SOFTDMA_NR_FAULTS; id++)
		softdma_set_fault(&softdma_faults[id], 0);
	softdma_mbps = 0;
	softdma_latency_ns = 0;
}

static bool softdma_test_filter(struct dma_chan *chan, void *dev)
{
	return chan->device->dev == dev;
}

static struct dma_chan *softdma_test_request(struct softdma_test *t)
{
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	return dma_request_channel(mask, softdma_test_filter, &t->pdev->dev);
}

static void softdma_test_defer(struct kunit *test, kunit_action_t *action,
			       void *arg)
{
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, action, arg));
}

static void softdma_test_remove(void *pdev)
{
	platform_device_unregister(pdev);
}

static void softdma_test_free_pages(void *buf)
{
	free_pages_exact(buf, SOFTDMA_TEST_SIZE);
}

static u8 *softdma_test_buffer(struct kunit *test)
{
	u8 *buf = alloc_pages_exact(SOFTDMA_TEST_SIZE, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	softdma_test_defer(test, softdma_test_free_pages, buf);
	return buf;
}

static int softdma_test_init(struct kunit *test)
{
	const struct softdma_config config = {
		.channels = 2,
		.ring = SOFTDMA_TEST_RING,
		.private = true,
		.lists = true,
	};
	struct softdma_test *t;
	size_t i;

	softdma_test_no_faults();
	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	test->priv = t;
	t->src = softdma_test_buffer(test);
	t->dst = softdma_test_buffer(test);
	for (i = 0; i < SOFTDMA_TEST_SIZE; i++) {
		t->src[i] = softdma_test_src_byte(i);
		t->dst[i] = softdma_test_dst_byte(i);
	}
	t->pdev = softdma_add_device(PLATFORM_DEVID_AUTO, NUMA_NO_NODE, &config);
	KUNIT_ASSERT_FALSE(test, IS_ERR(t->pdev));
	softdma_test_defer(test, softdma_test_remove, t->pdev);
	t->chan = softdma_test_request(t);
	KUNIT_ASSERT_NOT_NULL(test, t->chan);
	t->src_dma = dma_map_single(&t->pdev->dev, t->src, SOFTDMA_TEST_SIZE,
				    DMA_TO_DEVICE);
	t->dst_dma = dma_map_single(&t->pdev->dev, t->dst, SOFTDMA_TEST_SIZE,
				    DMA_FROM_DEVICE);
	KUNIT_ASSERT_FALSE(test, dma_mapping_error(&t->pdev->dev, t->src_dma));
	KUNIT_ASSERT_FALSE(test, dma_mapping_error(&t->pdev->dev, t->dst_dma));
	return 0;
}

static void softdma_test_release(struct softdma_test *t)
{
	if (t->chan)
		dma_release_channel(t->chan);
	t->chan = NULL;
}

static void softdma_test_exit(struct kunit *test)
{
	struct softdma_test *t = test->priv;

	softdma_test_no_faults();
	softdma_release_stalled();
	if (!t || !t->chan)
		return;
	softdma_test_release(t);
	dma_unmap_single(&t->pdev->dev, t->src_dma, SOFTDMA_TEST_SIZE,
			 DMA_TO_DEVICE);
	dma_unmap_single(&t->pdev->dev, t->dst_dma, SOFTDMA_TEST_SIZE,
			 DMA_FROM_DEVICE);
}

/* --- helpers --- */

static void softdma_test_fault(enum softdma_fault_id id, unsigned int every)
{
	softdma_set_fault(&softdma_faults[id], every);
}

static int softdma_test_injected(enum softdma_fault_id id)
{
	return atomic_read(&softdma_faults[id].injected);
}

static void softdma_test_callback(void *param,
				  const struct dmaengine_result *result)
{
	struct softdma_test_copy *copy = param;

	copy->result = *result;
	copy->turn = atomic_inc_return(&copy->t->calls);
	complete(&copy->done);
}

static struct dma_async_tx_descriptor *
softdma_test_prep(struct softdma_test *t, size_t dst, size_t src, size_t len)
{
	return dmaengine_prep_dma_memcpy(t->chan, t->dst_dma + dst,
					 t->src_dma + src, len,
					 DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
}

static void softdma_test_submit_tx(struct kunit *test,
				   struct softdma_test_copy *copy,
				   struct dma_async_tx_descriptor *tx)
{
	KUNIT_ASSERT_NOT_NULL(test, tx);
	copy->t = test->priv;
	copy->turn = 0;
	copy->result.result = DMA_TRANS_ABORTED;
	init_completion(&copy->done);
	tx->callback_result = softdma_test_callback;
	tx->callback_param = copy;
	copy->cookie = dmaengine_submit(tx);
	KUNIT_ASSERT_FALSE(test, dma_submit_error(copy->cookie));
}

static void softdma_test_submit(struct kunit *test,
				struct softdma_test_copy *copy, size_t dst,
				size_t src, size_t len)
{
	softdma_test_submit_tx(test, copy,
			       softdma_test_prep(test->priv, dst, src, len));
}

static void softdma_test_wait(struct kunit *test,
			      struct softdma_test_copy *copy)
{
	KUNIT_ASSERT_NE(test, 0UL,
			wait_for_completion_timeout(&copy->done,
						    SOFTDMA_TEST_WAIT));
}

/* Only [dst, dst + len) was written, with the bytes that begin at src */
static void softdma_test_expect(struct kunit *test, size_t dst, size_t src,
				size_t len)
{
	struct softdma_test *t = test->priv;
	size_t i, bad_src = 0, bad_dst = 0;

	for (i = 0; i < SOFTDMA_TEST_SIZE; i++) {
		bool in = i >= dst && i - dst < len;

		bad_src += t->src[i] != softdma_test_src_byte(i);
		bad_dst += t->dst[i] != (in ?
					 softdma_test_src_byte(i - dst + src) :
					 softdma_test_dst_byte(i));
	}
	KUNIT_EXPECT_EQ(test, 0, bad_src);
	KUNIT_EXPECT_EQ(test, 0, bad_dst);
}

/* --- copying --- */

static const size_t softdma_test_lens[] = {
	1, 63, SZ_4K - 1, SZ_4K, SZ_4K + 1, SZ_64K, SOFTDMA_TEST_SIZE - 11,
};

static void softdma_test_len_desc(const size_t *len, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%zu bytes", *len);
}

KUNIT_ARRAY_PARAM(softdma_test_len, softdma_test_lens, softdma_test_len_desc);

static void copies_every_byte_and_nothing_else(struct kunit *test)
{
	size_t len = *(const size_t *)test->param_value;
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy;

	softdma_test_submit(test, &copy, 11, 5, len);
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy);
	KUNIT_EXPECT_EQ(test, DMA_TRANS_NOERROR, copy.result.result);
	KUNIT_EXPECT_EQ(test, 0, copy.result.residue);
	softdma_test_expect(test, 11, 5, len);
}

#define SOFTDMA_TEST_ENTRIES		4
#define softdma_test_list_src(i)	((SOFTDMA_TEST_ENTRIES - 1 - (i)) * SZ_32K + 5)
#define softdma_test_list_len(i)	(SZ_8K + 1000 * (i))

/* The last of the source goes to the beginning. Return: how many bytes */
static size_t softdma_test_submit_list(struct kunit *test,
				       struct softdma_test_copy *copy)
{
	struct softdma_test *t = test->priv;
	struct dma_async_tx_descriptor *tx;
	struct scatterlist *src, *dst;
	size_t len = 0;
	int i;

	src = kunit_kcalloc(test, 2 * SOFTDMA_TEST_ENTRIES, sizeof(*src),
			    GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, src);
	dst = src + SOFTDMA_TEST_ENTRIES;
	sg_init_table(src, SOFTDMA_TEST_ENTRIES);
	sg_init_table(dst, SOFTDMA_TEST_ENTRIES);
	for (i = 0; i < SOFTDMA_TEST_ENTRIES; i++) {
		sg_dma_address(&src[i]) = t->src_dma + softdma_test_list_src(i);
		sg_dma_address(&dst[i]) = t->dst_dma + i * SZ_32K;
		sg_dma_len(&src[i]) = softdma_test_list_len(i);
		sg_dma_len(&dst[i]) = softdma_test_list_len(i);
		len += softdma_test_list_len(i);
	}
	tx = dmaengine_prep_dma_memcpy_sg(t->chan, dst, src,
					  SOFTDMA_TEST_ENTRIES, DMA_CTRL_ACK);
	softdma_test_submit_tx(test, copy, tx);
	return len;
}

static void list_is_copied_entry_by_entry(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy;
	size_t len, at;
	int i;

	softdma_test_submit_list(test, &copy);
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy);
	KUNIT_EXPECT_EQ(test, DMA_TRANS_NOERROR, copy.result.result);
	KUNIT_EXPECT_EQ(test, 0, copy.result.residue);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&t->calls));
	for (i = 0; i < SOFTDMA_TEST_ENTRIES; i++) {
		len = softdma_test_list_len(i);
		KUNIT_EXPECT_MEMEQ(test, t->dst + i * SZ_32K,
				   t->src + softdma_test_list_src(i), len);
		for (at = i * SZ_32K + len; at < (i + 1) * SZ_32K; at++)
			if (t->dst[at] != softdma_test_dst_byte(at))
				break;
		KUNIT_EXPECT_EQ(test, (i + 1) * SZ_32K, at);
	}
}

static void list_that_fails_half_way_says_so(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy;
	size_t len;

	softdma_test_fault(SOFTDMA_READ_ERROR, 1);
	len = softdma_test_submit_list(test, &copy);
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy);
	KUNIT_EXPECT_EQ(test, DMA_TRANS_READ_FAILED, copy.result.result);
	KUNIT_EXPECT_EQ(test, len - len / 2, copy.result.residue);
	KUNIT_EXPECT_MEMEQ(test, t->dst, t->src + softdma_test_list_src(0),
			   softdma_test_list_len(0));
}

static void nothing_happens_before_issue_pending(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy;

	softdma_test_submit(test, &copy, 0, 0, SZ_4K);
	KUNIT_EXPECT_EQ(test, 0,
			wait_for_completion_timeout(&copy.done, HZ / 20));
	softdma_test_expect(test, 0, 0, 0);
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy);
	softdma_test_expect(test, 0, 0, SZ_4K);
}

static void completions_are_in_order(struct kunit *test)
{
	struct softdma_test_copy copy[SOFTDMA_TEST_RING];
	struct softdma_test *t = test->priv;
	int i;

	for (i = 0; i < SOFTDMA_TEST_RING; i++)
		softdma_test_submit(test, &copy[i], i * SZ_4K, i * SZ_4K, SZ_4K);
	dma_async_issue_pending(t->chan);
	for (i = 0; i < SOFTDMA_TEST_RING; i++) {
		softdma_test_wait(test, &copy[i]);
		KUNIT_EXPECT_EQ(test, i + 1, copy[i].turn);
	}
	softdma_test_expect(test, 0, 0, SOFTDMA_TEST_RING * SZ_4K);
}

static void bandwidth_and_latency_are_modelled(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy[4];
	ktime_t start;
	int i;

	/* 6.5536 ms for the bytes and 1 ms more, four times */
	softdma_mbps = 10;
	softdma_latency_ns = NSEC_PER_MSEC;
	for (i = 0; i < 4; i++)
		softdma_test_submit(test, &copy[i], 0, 0, SZ_64K);
	start = ktime_get();
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy[3]);
	KUNIT_EXPECT_GE(test, ktime_us_delta(ktime_get(), start), 30214);
}

static void status_and_residue_follow_the_cookie(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy[2];
	struct dma_tx_state state;
	int i;

	softdma_test_fault(SOFTDMA_STALL, 2);
	for (i = 0; i < 2; i++)
		softdma_test_submit(test, &copy[i], 0, 0, SZ_4K + i);
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy[0]);
	KUNIT_EXPECT_EQ(test, DMA_COMPLETE,
			dmaengine_tx_status(t->chan, copy[0].cookie, &state));
	KUNIT_EXPECT_EQ(test, DMA_IN_PROGRESS,
			dmaengine_tx_status(t->chan, copy[1].cookie, &state));
	KUNIT_EXPECT_EQ(test, SZ_4K + 1, state.residue);
	KUNIT_EXPECT_EQ(test, copy[0].cookie, state.last);
	KUNIT_EXPECT_EQ(test, copy[1].cookie, state.used);
	softdma_release_stalled();
	softdma_test_wait(test, &copy[1]);
	KUNIT_EXPECT_EQ(test, DMA_COMPLETE,
			dmaengine_tx_status(t->chan, copy[1].cookie, &state));
	KUNIT_EXPECT_EQ(test, 0, state.residue);
}

/* --- faults --- */

struct softdma_test_error {
	enum softdma_fault_id id;
	enum dmaengine_tx_result result;
	const char *name;
};

static const struct softdma_test_error softdma_test_errors[] = {
	{ SOFTDMA_READ_ERROR, DMA_TRANS_READ_FAILED, "read" },
	{ SOFTDMA_WRITE_ERROR, DMA_TRANS_WRITE_FAILED, "write" },
	{ SOFTDMA_RESIDUE, DMA_TRANS_NOERROR, "residue" },
};

KUNIT_ARRAY_PARAM_DESC(softdma_test_error, softdma_test_errors, name);

static void every_second_copy_fails_and_says_so(struct kunit *test)
{
	const struct softdma_test_error *error = test->param_value;
	int injected = softdma_test_injected(error->id);
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy[4];
	int i;

	softdma_test_fault(error->id, 2);
	for (i = 0; i < 4; i++)
		softdma_test_submit(test, &copy[i], i * SZ_8K, 0, SZ_8K);
	dma_async_issue_pending(t->chan);
	for (i = 0; i < 4; i++) {
		bool bad = i % 2;

		softdma_test_wait(test, &copy[i]);
		KUNIT_EXPECT_EQ(test, bad ? error->result : DMA_TRANS_NOERROR,
				copy[i].result.result);
		KUNIT_EXPECT_EQ(test, bad ? SZ_4K : 0, copy[i].result.residue);
		KUNIT_EXPECT_EQ(test, bad,
				!!memcmp(t->dst + i * SZ_8K, t->src, SZ_8K));
	}
	KUNIT_EXPECT_EQ(test, injected + 2, softdma_test_injected(error->id));
}

static void softdma_test_unpoison(void *page)
{
	ClearPageHWPoison((struct page *)page);
}

static void poisoned_source_is_a_read_error(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct page *page = virt_to_page(t->src + SZ_4K);
	struct softdma_test_copy copy;

	if (!IS_ENABLED(CONFIG_MEMORY_FAILURE))
		kunit_skip(test, "needs CONFIG_MEMORY_FAILURE");
	SetPageHWPoison(page);
	softdma_test_defer(test, softdma_test_unpoison, page);
	softdma_test_submit(test, &copy, 0, 0, SZ_16K);
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy);
	KUNIT_EXPECT_EQ(test, DMA_TRANS_READ_FAILED, copy.result.result);
	KUNIT_EXPECT_EQ(test, SZ_16K - SZ_4K, copy.result.residue);
	softdma_test_expect(test, 0, 0, SZ_4K);
}

static void stalled_copy_waits_for_its_release(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy[2];

	softdma_test_fault(SOFTDMA_STALL, 1);
	softdma_test_submit(test, &copy[0], 0, 0, SZ_4K);
	softdma_test_fault(SOFTDMA_STALL, 0);
	softdma_test_submit(test, &copy[1], SZ_4K, SZ_4K, SZ_4K);
	dma_async_issue_pending(t->chan);
	/* It also blocks what is behind it */
	KUNIT_EXPECT_EQ(test, 0,
			wait_for_completion_timeout(&copy[1].done, HZ / 10));
	softdma_test_expect(test, 0, 0, 0);
	softdma_release_stalled();
	softdma_test_wait(test, &copy[1]);
	KUNIT_EXPECT_EQ(test, 1, copy[0].turn);
	KUNIT_EXPECT_EQ(test, DMA_TRANS_NOERROR, copy[0].result.result);
	softdma_test_expect(test, 0, 0, SZ_8K);
}

static void lost_interrupt_delays_the_word_not_the_copy(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy;

	softdma_test_fault(SOFTDMA_LOST_IRQ, 1);
	softdma_test_submit(test, &copy, 0, 0, SZ_4K);
	dma_async_issue_pending(t->chan);
	KUNIT_EXPECT_EQ(test, 0,
			wait_for_completion_timeout(&copy.done, HZ / 10));
	softdma_test_expect(test, 0, 0, SZ_4K);
	softdma_release_stalled();
	softdma_test_wait(test, &copy);
	KUNIT_EXPECT_EQ(test, DMA_TRANS_NOERROR, copy.result.result);
	KUNIT_EXPECT_EQ(test, 0, copy.result.residue);
}

static void late_copy_writes_late(struct kunit *test)
{
	unsigned int late_ms = softdma_late_ms;
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy;
	ktime_t start;

	softdma_late_ms = 500;
	softdma_test_fault(SOFTDMA_LATE, 1);
	softdma_test_submit(test, &copy, 0, 0, SZ_4K);
	start = ktime_get();
	dma_async_issue_pending(t->chan);
	KUNIT_EXPECT_EQ(test, 0,
			wait_for_completion_timeout(&copy.done, HZ / 10));
	softdma_test_expect(test, 0, 0, 0);
	softdma_test_wait(test, &copy);
	KUNIT_EXPECT_GE(test, ktime_ms_delta(ktime_get(), start), 500);
	KUNIT_EXPECT_EQ(test, DMA_TRANS_NOERROR, copy.result.result);
	softdma_test_expect(test, 0, 0, SZ_4K);
	softdma_late_ms = late_ms;
}

static void swapped_neighbours_complete_out_of_order(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy[2];
	int i;

	KUNIT_EXPECT_FALSE(test, dma_has_cap(DMA_COMPLETION_NO_ORDER,
					     t->chan->device->cap_mask));
	softdma_test_fault(SOFTDMA_SWAP, 1);
	KUNIT_EXPECT_TRUE(test, dma_has_cap(DMA_COMPLETION_NO_ORDER,
					    t->chan->device->cap_mask));
	for (i = 0; i < 2; i++)
		softdma_test_submit(test, &copy[i], i * SZ_4K, i * SZ_4K, SZ_4K);
	KUNIT_EXPECT_EQ(test, DMA_OUT_OF_ORDER,
			dmaengine_tx_status(t->chan, copy[0].cookie, NULL));
	dma_async_issue_pending(t->chan);
	for (i = 0; i < 2; i++)
		softdma_test_wait(test, &copy[i]);
	KUNIT_EXPECT_EQ(test, 2, copy[0].turn);
	KUNIT_EXPECT_EQ(test, 1, copy[1].turn);
	softdma_test_expect(test, 0, 0, SZ_8K);
}

static void full_ring_refuses_until_a_copy_completes(struct kunit *test)
{
	struct softdma_test_copy copy[SOFTDMA_TEST_RING];
	struct softdma_test *t = test->priv;
	int i;

	for (i = 0; i < SOFTDMA_TEST_RING; i++)
		softdma_test_submit(test, &copy[i], 0, 0, SZ_4K);
	KUNIT_EXPECT_NULL(test, softdma_test_prep(t, 0, 0, SZ_4K));
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy[SOFTDMA_TEST_RING - 1]);
	dmaengine_synchronize(t->chan);
	KUNIT_EXPECT_NOT_NULL(test, softdma_test_prep(t, 0, 0, SZ_4K));
}

static void pretended_full_ring_refuses_until_a_copy_completes(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy;

	softdma_test_fault(SOFTDMA_RING_FULL, 2);
	softdma_test_submit(test, &copy, 0, 0, SZ_4K);
	KUNIT_EXPECT_NULL(test, softdma_test_prep(t, 0, 0, SZ_4K));
	softdma_test_fault(SOFTDMA_RING_FULL, 0);
	KUNIT_EXPECT_NULL(test, softdma_test_prep(t, 0, 0, SZ_4K));
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy);
	dmaengine_synchronize(t->chan);
	KUNIT_EXPECT_NOT_NULL(test, softdma_test_prep(t, 0, 0, SZ_4K));
}

static void empty_and_every_third_preparation_fail(struct kunit *test)
{
	int injected = softdma_test_injected(SOFTDMA_PREP_NULL);
	struct softdma_test *t = test->priv;
	int i;

	KUNIT_EXPECT_NULL(test, softdma_test_prep(t, 0, 0, 0));
	softdma_test_fault(SOFTDMA_PREP_NULL, 3);
	for (i = 1; i <= 6; i++)
		KUNIT_EXPECT_EQ(test, i % 3 == 0,
				!softdma_test_prep(t, 0, 0, SZ_4K));
	KUNIT_EXPECT_EQ(test, injected + 2,
			softdma_test_injected(SOFTDMA_PREP_NULL));
}

/* --- termination --- */

static void terminated_copies_neither_write_nor_call_back(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy[3];

	softdma_test_fault(SOFTDMA_STALL, 1);
	softdma_test_submit(test, &copy[0], 0, 0, SZ_4K);
	softdma_test_submit(test, &copy[1], SZ_4K, SZ_4K, SZ_4K);
	dma_async_issue_pending(t->chan);
	KUNIT_EXPECT_EQ(test, 0, dmaengine_terminate_sync(t->chan));
	softdma_test_fault(SOFTDMA_STALL, 0);
	softdma_release_stalled();
	/* The channel goes on, past the terminated ones */
	softdma_test_submit(test, &copy[2], SZ_8K, SZ_8K, SZ_4K);
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy[2]);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&t->calls));
	softdma_test_expect(test, SZ_8K, SZ_8K, SZ_4K);
}

static void running_copies_end_with_terminate_sync(struct kunit *test)
{
	struct softdma_test_copy copy[SOFTDMA_TEST_RING];
	struct softdma_test *t = test->priv;
	int i, calls;
	u8 *seen;

	seen = kunit_kzalloc(test, SOFTDMA_TEST_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, seen);
	softdma_latency_ns = NSEC_PER_MSEC;
	for (i = 0; i < SOFTDMA_TEST_RING; i++)
		softdma_test_submit(test, &copy[i], 0, i * SZ_4K, SZ_64K);
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy[1]);
	KUNIT_EXPECT_EQ(test, 0, dmaengine_terminate_sync(t->chan));
	calls = atomic_read(&t->calls);
	memcpy(seen, t->dst, SOFTDMA_TEST_SIZE);

	softdma_test_submit(test, &copy[0], SZ_64K, 0, SZ_4K);
	memcpy(seen + SZ_64K, t->src, SZ_4K);
	dma_async_issue_pending(t->chan);
	softdma_test_wait(test, &copy[0]);
	KUNIT_EXPECT_EQ(test, calls + 1, atomic_read(&t->calls));
	KUNIT_EXPECT_EQ(test, 0, memcmp(seen, t->dst, SOFTDMA_TEST_SIZE));
}

static void channel_is_released_under_a_stalled_copy(struct kunit *test)
{
	struct softdma_test *t = test->priv;
	struct softdma_test_copy copy;
	struct dma_chan *other;

	softdma_test_fault(SOFTDMA_STALL, 1);
	softdma_test_submit(test, &copy, 0, 0, SZ_4K);
	dma_async_issue_pending(t->chan);
	/* The fixture unmaps only while it has a channel */
	other = softdma_test_request(t);
	KUNIT_ASSERT_NOT_NULL(test, other);
	softdma_test_release(t);
	t->chan = other;
	softdma_release_stalled();
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&t->calls));
	softdma_test_expect(test, 0, 0, 0);
}

static struct kunit_case softdma_test_cases[] = {
	KUNIT_CASE_PARAM(copies_every_byte_and_nothing_else,
			 softdma_test_len_gen_params),
	KUNIT_CASE(list_is_copied_entry_by_entry),
	KUNIT_CASE(list_that_fails_half_way_says_so),
	KUNIT_CASE(nothing_happens_before_issue_pending),
	KUNIT_CASE(completions_are_in_order),
	KUNIT_CASE(bandwidth_and_latency_are_modelled),
	KUNIT_CASE(status_and_residue_follow_the_cookie),
	KUNIT_CASE_PARAM(every_second_copy_fails_and_says_so,
			 softdma_test_error_gen_params),
	KUNIT_CASE(poisoned_source_is_a_read_error),
	KUNIT_CASE(stalled_copy_waits_for_its_release),
	KUNIT_CASE(lost_interrupt_delays_the_word_not_the_copy),
	KUNIT_CASE(late_copy_writes_late),
	KUNIT_CASE(swapped_neighbours_complete_out_of_order),
	KUNIT_CASE(full_ring_refuses_until_a_copy_completes),
	KUNIT_CASE(pretended_full_ring_refuses_until_a_copy_completes),
	KUNIT_CASE(empty_and_every_third_preparation_fail),
	KUNIT_CASE(terminated_copies_neither_write_nor_call_back),
	KUNIT_CASE(running_copies_end_with_terminate_sync),
	KUNIT_CASE(channel_is_released_under_a_stalled_copy),
	{ }
};

static struct kunit_suite softdma_test_suite = {
	.name = "softdma",
	.init = softdma_test_init,
	.exit = softdma_test_exit,
	.test_cases = softdma_test_cases,
};

kunit_test_suite(softdma_test_suite);
