// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of ptdma: what a client of the engine relies on
 *
 * They need engines: real ones, or those of an emulator, which can also be told
 * to fail. Parameters say which function has which fault, as in
 * good=0000:00:0a.0; a case whose function was not named is skipped. The
 * functions must be free: load no other client before.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sizes.h>

static char *good;
module_param(good, charp, 0444);
MODULE_PARM_DESC(good, "function without faults (default: none)");

static char *failing;
module_param(failing, charp, 0444);
MODULE_PARM_DESC(failing, "function whose first copy fails (default: none)");

static char *slow;
module_param(slow, charp, 0444);
MODULE_PARM_DESC(slow, "function that takes 10 to 100 ms for each copy (default: none)");

static char *losing;
module_param(losing, charp, 0444);
MODULE_PARM_DESC(losing, "function that loses its first interrupt (default: none)");

static char *erring;
module_param(erring, charp, 0444);
MODULE_PARM_DESC(erring, "function whose 41st copy fails (default: none)");

static char *stopping;
module_param(stopping, charp, 0444);
MODULE_PARM_DESC(stopping, "function whose first copy fails, as failing (default: none)");

static char *blinking;
module_param(blinking, charp, 0444);
MODULE_PARM_DESC(blinking, "function that is as slow, and whose second read of INT_STATUS gives all ones (default: none)");

static char *silent;
module_param(silent, charp, 0444);
MODULE_PARM_DESC(silent, "function without faults, whose interrupts are counted (default: none)");

static char *sweeping;
module_param(sweeping, charp, 0444);
MODULE_PARM_DESC(sweeping, "function of whose copies each 81st fails (default: none)");

#define PT_TEST_LEN	SZ_64K
#define PT_TEST_SOURCE	0x5a
#define PT_TEST_TARGET	0xa5
#define PT_TEST_WAIT	(10 * HZ)
#define PT_TEST_COPIES	2000
/* More than twice what the ring holds, of which one fails in the middle */
#define PT_TEST_GROUP	80
#define PT_TEST_BAD	40
/* What takes an engine so long that HEAD can be watched meanwhile */
#define PT_TEST_LARGE	SZ_4M
#define PT_TEST_LOOKS	10
#define PT_TEST_BAR	2
#define PT_TEST_HEAD	0x1008

/* A small copy of a group, and when its end was told */
struct pt_test_page {
	struct pt_test *t;
	enum dmaengine_tx_result result;
	int calls;
	int turn;
};

struct pt_test {
	struct dma_chan *chan;
	void __iomem *regs;
	size_t len;
	u8 *src;
	u8 *dst;
	dma_addr_t src_dma;
	dma_addr_t dst_dma;
	struct completion done;
	atomic_t callbacks;
	enum dmaengine_tx_result result;
	struct pt_test_page pages[PT_TEST_GROUP];
	bool stop;
};

static void pt_test_callback(void *param, const struct dmaengine_result *result)
{
	struct pt_test *t = param;

	t->result = result ? result->result : DMA_TRANS_NOERROR;
	atomic_inc(&t->callbacks);
	complete(&t->done);
}

static bool pt_test_filter(struct dma_chan *chan, void *name)
{
	return !strcmp(dev_name(chan->device->dev), name);
}

static void pt_test_release(void *param)
{
	struct pt_test *t = param;
	struct device *dev = t->chan->device->dev;

	if (t->dst)
		dma_free_coherent(dev, t->len, t->dst, t->dst_dma);
	if (t->src)
		dma_free_coherent(dev, t->len, t->src, t->src_dma);
	dma_release_channel(t->chan);
}

/* The named function's channel, with a full source and another target */
static struct pt_test *pt_test_take_for(struct kunit *test, char *name, size_t len)
{
	struct pt_test *t;
	struct device *dev;
	dma_cap_mask_t mask;

	if (!name)
		kunit_skip(test, "no such function was named");
	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	init_completion(&t->done);
	t->len = len;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	t->chan = dma_request_channel(mask, pt_test_filter, name);
	KUNIT_ASSERT_NOT_NULL_MSG(test, t->chan, "%s is not there or in use", name);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, pt_test_release, t));
	dev = t->chan->device->dev;
	t->src = dma_alloc_coherent(dev, len, &t->src_dma, GFP_KERNEL);
	t->dst = dma_alloc_coherent(dev, len, &t->dst_dma, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->src);
	KUNIT_ASSERT_NOT_NULL(test, t->dst);
	memset(t->src, PT_TEST_SOURCE, len);
	memset(t->dst, PT_TEST_TARGET, len);
	return t;
}

static struct pt_test *pt_test_take(struct kunit *test, char *name)
{
	return pt_test_take_for(test, name, PT_TEST_LEN);
}

static dma_cookie_t pt_test_submit_tx(struct kunit *test,
				      struct dma_async_tx_descriptor *tx,
				      dma_async_tx_callback_result callback,
				      void *param)
{
	dma_cookie_t cookie;

	KUNIT_ASSERT_NOT_NULL(test, tx);
	tx->callback_result = callback;
	tx->callback_param = param;
	cookie = dmaengine_submit(tx);
	KUNIT_ASSERT_FALSE(test, dma_submit_error(cookie));
	return cookie;
}

static dma_cookie_t pt_test_submit(struct kunit *test, struct pt_test *t)
{
	struct dma_async_tx_descriptor *tx;

	tx = dmaengine_prep_dma_memcpy(t->chan, t->dst_dma, t->src_dma, t->len,
				       DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
	return pt_test_submit_tx(test, tx, pt_test_callback, t);
}

/* Has somebody called back? Once for each time */
static bool pt_test_ended(struct pt_test *t)
{
	return wait_for_completion_timeout(&t->done, PT_TEST_WAIT);
}

/* Copy and wait for the end */
static dma_cookie_t pt_test_copy(struct kunit *test, struct pt_test *t)
{
	dma_cookie_t cookie = pt_test_submit(test, t);

	dma_async_issue_pending(t->chan);
	KUNIT_ASSERT_TRUE(test, pt_test_ended(t));
	return cookie;
}

static enum dma_status pt_test_status(struct pt_test *t, dma_cookie_t cookie)
{
	return dma_async_is_tx_complete(t->chan, cookie, NULL, NULL);
}

static bool pt_test_target_is(struct pt_test *t, u8 value)
{
	return !memchr_inv(t->dst, value, t->len);
}

static void pt_test_copy_well(struct kunit *test, struct pt_test *t)
{
	dma_cookie_t cookie = pt_test_copy(test, t);

	KUNIT_EXPECT_EQ(test, DMA_TRANS_NOERROR, t->result);
	KUNIT_EXPECT_EQ(test, DMA_COMPLETE, pt_test_status(t, cookie));
	KUNIT_EXPECT_TRUE(test, pt_test_target_is(t, PT_TEST_SOURCE));
}

/* What was terminated writes nothing any more, and calls nobody */
static void pt_test_stands_still(struct kunit *test, struct pt_test *t,
				 unsigned int ms)
{
	int calls = atomic_read(&t->callbacks);

	memset(t->dst, PT_TEST_TARGET, t->len);
	msleep(ms);
	KUNIT_EXPECT_TRUE(test, pt_test_target_is(t, PT_TEST_TARGET));
	KUNIT_EXPECT_EQ(test, calls, atomic_read(&t->callbacks));
	/* For the next copy */
	reinit_completion(&t->done);
}

static void copy_arrives_whole(struct kunit *test)
{
	pt_test_copy_well(test, pt_test_take(test, good));
}

/* An access that gets lost says nothing about the copy in flight */
static void lost_read_fails_no_copy(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, blinking);
	dma_cookie_t cookie = pt_test_submit(test, t);
	int i;

	dma_async_issue_pending(t->chan);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, DMA_IN_PROGRESS, pt_test_status(t, cookie));
	KUNIT_ASSERT_TRUE(test, pt_test_ended(t));
	KUNIT_EXPECT_EQ(test, DMA_TRANS_NOERROR, t->result);
	KUNIT_EXPECT_TRUE(test, pt_test_target_is(t, PT_TEST_SOURCE));
}

static void pt_test_unmap(void *param)
{
	struct pt_test *t = param;

	dmaengine_terminate_sync(t->chan);
	pci_iounmap(to_pci_dev(t->chan->device->dev), t->regs);
}

/*
 * A driver that reads HEAD to see what was copied needs an engine that moves it
 * no earlier. That can be asked of a real engine, with any depth.
 */
static void head_stays_at_a_copy_in_hand(struct kunit *test)
{
	struct pt_test *t = pt_test_take_for(test, good, PT_TEST_LARGE);
	unsigned long end = jiffies + PT_TEST_WAIT;
	unsigned int looks = 0;
	bool early = false;
	u32 head;

	t->regs = pci_iomap(to_pci_dev(t->chan->device->dev), PT_TEST_BAR, 0);
	KUNIT_ASSERT_TRUE(test, t->regs);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, pt_test_unmap, t));
	pt_test_submit(test, t);
	head = ioread32(t->regs + PT_TEST_HEAD);
	dma_async_issue_pending(t->chan);
	while (!try_wait_for_completion(&t->done) && time_before(jiffies, end)) {
		bool moved = ioread32(t->regs + PT_TEST_HEAD) != head;

		/* Looked at after HEAD, so that it is not older */
		if (READ_ONCE(t->dst[t->len - 1]) == PT_TEST_SOURCE)
			continue;
		early |= moved;
		looks++;
	}
	KUNIT_EXPECT_GE(test, looks, PT_TEST_LOOKS);
	KUNIT_EXPECT_FALSE_MSG(test, early, "HEAD runs ahead: use ptdma.depth=1 only");
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&t->callbacks));
	KUNIT_EXPECT_EQ(test, DMA_TRANS_NOERROR, t->result);
}

static void failed_copy_is_reported(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, failing);
	dma_cookie_t failed = pt_test_copy(test, t);

	KUNIT_EXPECT_NE(test, DMA_TRANS_NOERROR, t->result);
	KUNIT_EXPECT_EQ(test, DMA_ERROR, pt_test_status(t, failed));
	KUNIT_EXPECT_TRUE(test, pt_test_target_is(t, PT_TEST_TARGET));

	pt_test_copy_well(test, t);
	KUNIT_EXPECT_EQ(test, DMA_ERROR, pt_test_status(t, failed));
}

static void pt_test_page_callback(void *param,
				  const struct dmaengine_result *result)
{
	struct pt_test_page *page = param;

	page->result = result->result;
	page->calls++;
	page->turn = atomic_inc_return(&page->t->callbacks);
	if (page->turn == PT_TEST_GROUP)
		complete(&page->t->done);
}

/* A group of small copies, all of them issued at once; @empty has no length */
static void pt_test_submit_some(struct kunit *test, struct pt_test *t, int from,
				int nr, int empty, unsigned long flags)
{
	struct dma_async_tx_descriptor *tx;
	size_t at;
	int i;

	for (i = from; i < from + nr; i++) {
		at = i * SZ_512;
		t->pages[i] = (struct pt_test_page){ .t = t };
		tx = dmaengine_prep_dma_memcpy(t->chan, t->dst_dma + at,
					       t->src_dma + at,
					       i == empty ? 0 : SZ_512,
					       flags | DMA_CTRL_ACK);
		pt_test_submit_tx(test, tx, pt_test_page_callback, &t->pages[i]);
	}
	dma_async_issue_pending(t->chan);
}

static void pt_test_submit_group(struct kunit *test, struct pt_test *t, int empty)
{
	pt_test_submit_some(test, t, 0, PT_TEST_GROUP, empty, DMA_PREP_INTERRUPT);
}

/* Of a group that has ended: all was copied but @bad, if that is one of them */
static void pt_test_check_group(struct kunit *test, struct pt_test *t, int bad)
{
	int i;

	for (i = 0; i < PT_TEST_GROUP; i++) {
		struct pt_test_page *page = &t->pages[i];
		u8 value = i == bad ? PT_TEST_TARGET : PT_TEST_SOURCE;

		KUNIT_EXPECT_EQ(test, 1, page->calls);
		KUNIT_EXPECT_EQ(test, i + 1, page->turn);
		KUNIT_EXPECT_EQ(test, i == bad, page->result != DMA_TRANS_NOERROR);
		KUNIT_EXPECT_NULL(test, memchr_inv(t->dst + i * SZ_512, value, SZ_512));
	}
}

/* Of a group, PT_TEST_BAD fails: by itself, or as it is @empty */
static void pt_test_bad_group(struct kunit *test, struct pt_test *t, int empty)
{
	pt_test_submit_group(test, t, empty);
	KUNIT_ASSERT_TRUE(test, pt_test_ended(t));
	pt_test_check_group(test, t, PT_TEST_BAD);
}

static void each_copy_of_a_group_has_its_own_result(struct kunit *test)
{
	pt_test_bad_group(test, pt_test_take(test, erring), -1);
}

/* Only the last asks for an interrupt, when there is no room in the ring */
static void last_is_told_behind_a_full_ring(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, silent);

	pt_test_submit_some(test, t, 0, PT_TEST_GROUP - 1, -1, 0);
	pt_test_submit_some(test, t, PT_TEST_GROUP - 1, 1, -1, DMA_PREP_INTERRUPT);
	KUNIT_ASSERT_TRUE(test, pt_test_ended(t));
	pt_test_check_group(test, t, -1);
}

/* A real engine can be made to fail so, as its error 9 is "illegal length" */
static void copy_without_length_fails_alone(struct kunit *test)
{
	pt_test_bad_group(test, pt_test_take(test, good), PT_TEST_BAD);
}

/*
 * In the first group none fails, in the others the first, the second and so on.
 * Nobody asks for a status, so an error whose interrupt is not seen to stops the
 * channel.
 */
static void error_is_told_wherever_it_strikes(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, sweeping);
	int group, i, still = 0;

	for (group = 0; group <= PT_TEST_GROUP; group++) {
		atomic_set(&t->callbacks, 0);
		reinit_completion(&t->done);
		memset(t->dst, PT_TEST_TARGET, t->len);
		pt_test_submit_group(test, t, -1);
		if (!wait_for_completion_timeout(&t->done, HZ)) {
			kunit_info(test, "stands still as copy %d fails\n", group);
			still++;
		}
		/* For the next group */
		for (i = 0; i < 100 && atomic_read(&t->callbacks) < PT_TEST_GROUP; i++) {
			pt_test_status(t, t->chan->cookie);
			msleep(20);
		}
		pt_test_check_group(test, t, group - 1);
	}
	KUNIT_EXPECT_EQ(test, 0, still);
}

/* The engine has stopped, and its interrupt is late: new copies come first */
static void failed_copy_is_not_taken_again(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, stopping);
	int irq = pci_irq_vector(to_pci_dev(t->chan->device->dev), 0);
	dma_cookie_t failed, next;

	KUNIT_ASSERT_GT(test, irq, 0);
	disable_irq(irq);
	failed = pt_test_submit(test, t);
	dma_async_issue_pending(t->chan);
	msleep(50);
	next = pt_test_submit(test, t);
	dma_async_issue_pending(t->chan);
	msleep(50);
	KUNIT_EXPECT_TRUE(test, pt_test_target_is(t, PT_TEST_TARGET));
	enable_irq(irq);

	KUNIT_EXPECT_TRUE(test, pt_test_ended(t));
	KUNIT_EXPECT_TRUE(test, pt_test_ended(t));
	KUNIT_EXPECT_EQ(test, DMA_ERROR, pt_test_status(t, failed));
	KUNIT_EXPECT_EQ(test, DMA_COMPLETE, pt_test_status(t, next));
	KUNIT_EXPECT_TRUE(test, pt_test_target_is(t, PT_TEST_SOURCE));
}

static void terminated_group_is_waited_for(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, good);

	pt_test_submit_group(test, t, -1);
	KUNIT_EXPECT_EQ(test, 0, dmaengine_terminate_sync(t->chan));
	pt_test_stands_still(test, t, 100);
	pt_test_copy_well(test, t);
}

struct pt_test_list {
	struct scatterlist src[PT_TEST_GROUP];
	struct scatterlist dst[PT_TEST_GROUP];
};

/* Where in the source is what goes to place @i of the target? */
static size_t pt_test_from(int i)
{
	return i * 37 % PT_TEST_GROUP * SZ_512;
}

/* One descriptor for a group of small copies that do not adjoin each other */
static void pt_test_submit_list(struct kunit *test, struct pt_test *t, int empty)
{
	struct dma_async_tx_descriptor *tx;
	struct pt_test_list *list;
	int i;

	if (!dma_has_cap(DMA_MEMCPY_SG, t->chan->device->cap_mask))
		kunit_skip(test, "the driver does not copy several by one descriptor");
	list = kunit_kzalloc(test, sizeof(*list), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, list);
	sg_init_table(list->src, PT_TEST_GROUP);
	sg_init_table(list->dst, PT_TEST_GROUP);
	for (i = 0; i < PT_TEST_GROUP; i++) {
		memset(t->src + pt_test_from(i), i, SZ_512);
		sg_dma_address(&list->src[i]) = t->src_dma + pt_test_from(i);
		sg_dma_address(&list->dst[i]) = t->dst_dma + i * SZ_512;
		sg_dma_len(&list->src[i]) = i == empty ? 0 : SZ_512;
		sg_dma_len(&list->dst[i]) = sg_dma_len(&list->src[i]);
	}
	tx = dmaengine_prep_dma_memcpy_sg(t->chan, list->dst, list->src,
					  PT_TEST_GROUP,
					  DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
	pt_test_submit_tx(test, tx, pt_test_callback, t);
	dma_async_issue_pending(t->chan);
}

static void pt_test_copy_list(struct kunit *test, struct pt_test *t)
{
	int i;

	pt_test_submit_list(test, t, -1);
	KUNIT_ASSERT_TRUE(test, pt_test_ended(t));
	KUNIT_EXPECT_EQ(test, DMA_TRANS_NOERROR, t->result);
	for (i = 0; i < PT_TEST_GROUP; i++)
		KUNIT_EXPECT_NULL(test, memchr_inv(t->dst + i * SZ_512, i, SZ_512));
}

static void list_ends_once_when_all_is_copied(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, good);

	pt_test_copy_list(test, t);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&t->callbacks));
}

/* The first, one that goes to the ring after others are done, and the last */
static void list_with_a_bad_copy_fails(struct kunit *test)
{
	static const int bad[] = { 0, PT_TEST_BAD, PT_TEST_GROUP - 1 };
	struct pt_test *t = pt_test_take(test, good);
	int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		pt_test_submit_list(test, t, bad[i]);
		KUNIT_ASSERT_TRUE(test, pt_test_ended(t));
		KUNIT_EXPECT_NE(test, DMA_TRANS_NOERROR, t->result);
		KUNIT_EXPECT_EQ(test, 2 * i + 1, atomic_read(&t->callbacks));
		/* The next is not thought to have failed, nor to be a part of it */
		pt_test_copy_list(test, t);
		KUNIT_EXPECT_EQ(test, 2 * i + 2, atomic_read(&t->callbacks));
	}
}

/* Whatever was in the ring of it, a new one begins at its own beginning */
static void terminated_list_is_waited_for(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, good);

	pt_test_submit_list(test, t, -1);
	KUNIT_EXPECT_EQ(test, 0, dmaengine_terminate_sync(t->chan));
	pt_test_stands_still(test, t, 100);
	pt_test_copy_list(test, t);
}

/* A copy in flight has not ended because somebody has paused the channel */
static void pause_ends_no_copy_if_offered(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, slow);
	dma_cookie_t cookie;

	if (!t->chan->device->device_pause) {
		KUNIT_EXPECT_NULL(test, t->chan->device->device_resume);
		return;
	}
	cookie = pt_test_submit(test, t);
	dma_async_issue_pending(t->chan);
	KUNIT_EXPECT_EQ(test, 0, dmaengine_pause(t->chan));
	KUNIT_EXPECT_EQ(test, 0, dmaengine_resume(t->chan));
	KUNIT_EXPECT_EQ(test, DMA_IN_PROGRESS, pt_test_status(t, cookie));
	KUNIT_EXPECT_TRUE(test, pt_test_ended(t));
	KUNIT_EXPECT_TRUE(test, pt_test_target_is(t, PT_TEST_SOURCE));
}

static void interrupt_descriptor_works_if_offered(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, good);
	struct dma_async_tx_descriptor *tx;

	if (!dma_has_cap(DMA_INTERRUPT, t->chan->device->cap_mask)) {
		KUNIT_EXPECT_NULL(test, t->chan->device->device_prep_dma_interrupt);
		return;
	}
	tx = t->chan->device->device_prep_dma_interrupt(t->chan, DMA_PREP_INTERRUPT);
	pt_test_submit_tx(test, tx, pt_test_callback, t);
	dma_async_issue_pending(t->chan);
	KUNIT_EXPECT_TRUE(test, pt_test_ended(t));
}

/* Neither copy goes on once synchronize has returned */
static void pt_test_terminate(struct kunit *test, struct pt_test *t)
{
	pt_test_submit(test, t);
	pt_test_submit(test, t);
	dma_async_issue_pending(t->chan);
	KUNIT_EXPECT_EQ(test, 0, dmaengine_terminate_async(t->chan));
	dmaengine_synchronize(t->chan);
	pt_test_stands_still(test, t, 300);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&t->callbacks));

	pt_test_copy_well(test, t);
}

static void terminated_copy_is_waited_for(struct kunit *test)
{
	pt_test_terminate(test, pt_test_take(test, slow));
}

static void terminated_copy_may_lose_its_interrupt(struct kunit *test)
{
	pt_test_terminate(test, pt_test_take(test, losing));
}

static int pt_test_poll(void *param)
{
	struct pt_test *t = param;

	while (!READ_ONCE(t->stop)) {
		pt_test_status(t, READ_ONCE(t->chan->cookie));
		cond_resched();
	}
	return 0;
}

static void copies_complete_once_while_polled(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, good);
	struct task_struct *poller;
	int i;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	poller = kthread_run(pt_test_poll, t, "ptdma_test");
	KUNIT_ASSERT_FALSE(test, IS_ERR(poller));
	get_task_struct(poller);
	for (i = 0; i < PT_TEST_COPIES; i++) {
		pt_test_submit(test, t);
		dma_async_issue_pending(t->chan);
		if (!pt_test_ended(t))
			break;
	}
	WRITE_ONCE(t->stop, true);
	kthread_stop_put(poller);
	KUNIT_EXPECT_EQ(test, PT_TEST_COPIES, i);
	KUNIT_EXPECT_EQ(test, PT_TEST_COPIES, atomic_read(&t->callbacks));
}

static void pt_test_slow_callback(void *param,
				  const struct dmaengine_result *result)
{
	struct pt_test *t = param;

	complete(&t->done);
	mdelay(200);
	atomic_inc(&t->callbacks);
}

/* The interrupt is late, so it is the poller who calls back */
static void callback_has_ended_once_terminated(struct kunit *test)
{
	struct pt_test *t = pt_test_take(test, good);
	int irq = pci_irq_vector(to_pci_dev(t->chan->device->dev), 0);
	struct dma_async_tx_descriptor *tx;
	struct task_struct *poller;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	KUNIT_ASSERT_GT(test, irq, 0);
	tx = dmaengine_prep_dma_memcpy(t->chan, t->dst_dma, t->src_dma,
				       PT_TEST_LEN, DMA_CTRL_ACK);
	KUNIT_ASSERT_NOT_NULL(test, tx);
	tx->callback_result = pt_test_slow_callback;
	tx->callback_param = t;
	disable_irq(irq);
	dmaengine_submit(tx);
	dma_async_issue_pending(t->chan);
	poller = kthread_run(pt_test_poll, t, "ptdma_test");
	if (!IS_ERR(poller)) {
		get_task_struct(poller);
		wait_for_completion_timeout(&t->done, PT_TEST_WAIT);
		KUNIT_EXPECT_EQ(test, 0, dmaengine_terminate_sync(t->chan));
		KUNIT_EXPECT_EQ(test, 1, atomic_read(&t->callbacks));
		WRITE_ONCE(t->stop, true);
		kthread_stop_put(poller);
	}
	enable_irq(irq);
	KUNIT_EXPECT_FALSE(test, IS_ERR(poller));
}

static struct kunit_case pt_test_cases[] = {
	KUNIT_CASE(copy_arrives_whole),
	KUNIT_CASE(lost_read_fails_no_copy),
	KUNIT_CASE(head_stays_at_a_copy_in_hand),
	KUNIT_CASE(copy_without_length_fails_alone),
	KUNIT_CASE(failed_copy_is_reported),
	KUNIT_CASE(each_copy_of_a_group_has_its_own_result),
	KUNIT_CASE(last_is_told_behind_a_full_ring),
	KUNIT_CASE_SLOW(error_is_told_wherever_it_strikes),
	KUNIT_CASE(failed_copy_is_not_taken_again),
	KUNIT_CASE(terminated_group_is_waited_for),
	KUNIT_CASE(list_ends_once_when_all_is_copied),
	KUNIT_CASE(list_with_a_bad_copy_fails),
	KUNIT_CASE(terminated_list_is_waited_for),
	KUNIT_CASE_SLOW(pause_ends_no_copy_if_offered),
	KUNIT_CASE(interrupt_descriptor_works_if_offered),
	KUNIT_CASE_SLOW(terminated_copy_is_waited_for),
	KUNIT_CASE_SLOW(terminated_copy_may_lose_its_interrupt),
	KUNIT_CASE_SLOW(copies_complete_once_while_polled),
	KUNIT_CASE(callback_has_ended_once_terminated),
	{ }
};

static struct kunit_suite pt_test_suite = {
	.name = "ptdma",
	.test_cases = pt_test_cases,
};

kunit_test_suite(pt_test_suite);

MODULE_DESCRIPTION("KUnit tests of the AMD PTDMA driver");
MODULE_LICENSE("GPL");
