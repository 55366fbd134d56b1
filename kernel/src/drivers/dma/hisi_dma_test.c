// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of hisi_dma; part of hisi_dma.c
 *
 * Registers and queues are ordinary memory, and the cases do what the engine
 * would do: they look at what was started, write completion entries, and call
 * the interrupt handler. Nothing is copied, so addresses are mere numbers.
 *
 * Each case runs once for each layout of the registers, on a device with one
 * channel. Its queues are short, so that they wrap.
 */
#include <kunit/device.h>
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>

#define HISI_DMA_TEST_DEPTH	4
#define HISI_DMA_TEST_COPIES	(2 * HISI_DMA_TEST_DEPTH + 1)
#define HISI_DMA_TEST_LEN	SZ_4K
#define HISI_DMA_TEST_SRC	0x10000000
#define HISI_DMA_TEST_DST	0x20000000

struct hisi_dma_test_copy {
	struct hisi_dma_test *t;
	dma_cookie_t cookie;
	unsigned int calls;
	struct dmaengine_result result;
};

struct hisi_dma_test {
	struct hisi_dma_dev *hdma;
	struct hisi_dma_chan *chan;
	bool registered;
	/* the engine's side */
	u32 sq_head;
	u32 cq_tail;
	u16 valid;
	__le16 pci_config[PCI_STD_HEADER_SIZEOF / 2];
	/* the client's side */
	struct dma_chan *client;	/* the same channel, or NULL */
	struct hisi_dma_test_copy copies[HISI_DMA_TEST_COPIES];
	unsigned int prepared;
	unsigned int freed;
	struct completion called;
	unsigned int delay_ms;	/* until a callback returns */
	/* what another CPU does */
	struct work_struct work;
	bool started;
};

/* --- fixture --- */

static void __iomem *hisi_dma_test_map_bus(struct pci_bus *bus,
					   unsigned int devfn, int where)
{
	struct hisi_dma_test *t = bus->sysdata;

	return (void __force __iomem *)t->pci_config + where;
}

static struct pci_ops hisi_dma_test_pci_ops = {
	.map_bus = hisi_dma_test_map_bus,
	.read = pci_generic_config_read,
	.write = pci_generic_config_write,
};

static struct hisi_dma_test *to_hisi_dma_test(struct dma_chan *c)
{
	return to_hisi_dma_chan(c)->hdma_dev->pdev->bus->sysdata;
}

static void hisi_dma_test_desc_free(struct virt_dma_desc *vd)
{
	to_hisi_dma_test(vd->tx.chan)->freed++;
	hisi_dma_desc_free(vd);
}

static void *hisi_dma_test_alloc(struct kunit *test, size_t size)
{
	void *mem = kunit_kzalloc(test, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mem);
	return mem;
}

static struct pci_dev *hisi_dma_test_pdev(struct kunit *test)
{
	struct pci_dev *pdev = hisi_dma_test_alloc(test, sizeof(*pdev));
	struct hisi_dma_test *t = test->priv;

	t->pci_config[PCI_COMMAND / 2] = cpu_to_le16(PCI_COMMAND_MASTER);
	pdev->dev.init_name = "hisi_dma_test";
	pdev->revision = *(const u8 *)test->param_value;
	pdev->bus = hisi_dma_test_alloc(test, sizeof(*pdev->bus));
	pdev->bus->ops = &hisi_dma_test_pci_ops;
	pdev->bus->sysdata = t;
	return pdev;
}

/* As the driver's probe, but for what is the bus's and the interrupts' */
static void hisi_dma_test_make(struct kunit *test)
{
	struct pci_dev *pdev = hisi_dma_test_pdev(test);
	struct hisi_dma_test *t = test->priv;
	struct hisi_dma_dev *hdma;

	hdma = hisi_dma_test_alloc(test, struct_size(hdma, chan, 1));
	hdma->chan_num = 1;
	hdma->chan_depth = HISI_DMA_TEST_DEPTH;
	hdma->pdev = pdev;
	hdma->base = (void __force __iomem *)hisi_dma_test_alloc(test, SZ_16K);
	hdma->reg_layout = hisi_dma_get_reg_layout(pdev);
	hdma->queue_base = hdma->base + hisi_dma_get_queue_base(pdev);
	hisi_dma_init_dma_dev(hdma);

	t->hdma = hdma;
	t->chan = &hdma->chan[0];
	t->chan->sq = hisi_dma_test_alloc(test, HISI_DMA_TEST_DEPTH *
					  sizeof(*t->chan->sq));
	t->chan->cq = hisi_dma_test_alloc(test, HISI_DMA_TEST_DEPTH *
					  sizeof(*t->chan->cq));
	hisi_dma_enable_qps(hdma);
	t->chan->vc.desc_free = hisi_dma_test_desc_free;
}

static void hisi_dma_test_request(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;

	t->client = dma_get_slave_channel(&t->chan->vc.chan);
	KUNIT_ASSERT_NOT_NULL(test, t->client);
}

static void hisi_dma_test_release(struct hisi_dma_test *t)
{
	if (t->client)
		dma_release_channel(t->client);
	t->client = NULL;
}

static int hisi_dma_test_init(struct kunit *test)
{
	struct hisi_dma_test *t;
	struct device *dev;
	int i;

	t = hisi_dma_test_alloc(test, sizeof(*t));
	test->priv = t;
	t->valid = VALID_BIT;
	init_completion(&t->called);
	for (i = 0; i < HISI_DMA_TEST_COPIES; i++)
		t->copies[i].t = t;
	hisi_dma_test_make(test);

	dev = kunit_device_register(test, "hisi_dma");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	t->hdma->dma_dev.dev = dev;
	/* Nobody else is to find the channel */
	dma_cap_set(DMA_PRIVATE, t->hdma->dma_dev.cap_mask);
	KUNIT_ASSERT_EQ(test, 0, dma_async_device_register(&t->hdma->dma_dev));
	t->registered = true;
	hisi_dma_test_request(test);
	return 0;
}

static u32 hisi_dma_test_read(struct hisi_dma_test *t, u32 reg)
{
	return readl_relaxed(t->hdma->queue_base + reg);
}

static void hisi_dma_test_write(struct hisi_dma_test *t, u32 reg, u32 val)
{
	hisi_dma_chan_write(t->hdma->queue_base, reg, 0, val);
}

static void hisi_dma_test_exit(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;

	if (!t || !t->registered)
		return;
	hisi_dma_test_write(t, HISI_DMA_Q_FSM_STS, IDLE);
	hisi_dma_test_release(t);
	dma_async_device_unregister(&t->hdma->dma_dev);
	hisi_dma_disable_qps(t->hdma);
	KUNIT_EXPECT_EQ(test, t->prepared, t->freed);
}

/* --- the engine --- */

/* An engine does it at once. Here it is done before anybody looks. */
static void hisi_dma_test_obey(struct hisi_dma_test *t)
{
	u32 ctrl1 = hisi_dma_test_read(t, HISI_DMA_Q_CTRL1);

	if (!(ctrl1 & HISI_DMA_Q_CTRL1_QUEUE_RESET))
		return;
	hisi_dma_test_write(t, HISI_DMA_Q_CTRL1,
			    ctrl1 & ~HISI_DMA_Q_CTRL1_QUEUE_RESET);
	t->sq_head = 0;
	t->cq_tail = 0;
	t->valid = VALID_BIT;
}

static bool hisi_dma_test_enabled(struct hisi_dma_test *t)
{
	u32 ctrl0 = hisi_dma_test_read(t, HISI_DMA_Q_CTRL0);

	return (ctrl0 & HISI_DMA_Q_CTRL0_QUEUE_EN) &&
	       !(ctrl0 & HISI_DMA_Q_CTRL0_QUEUE_PAUSE);
}

static bool hisi_dma_test_is_master(struct hisi_dma_test *t)
{
	return le16_to_cpu(t->pci_config[PCI_COMMAND / 2]) & PCI_COMMAND_MASTER;
}

/* Both layouts have the first mask at the same place */
static bool hisi_dma_test_unmasked(struct hisi_dma_test *t)
{
	return !hisi_dma_test_read(t, HISI_DMA_HIP09_Q_INT_MSK) ||
	       (t->hdma->reg_layout == HISI_DMA_REG_LAYOUT_HIP09 &&
		!hisi_dma_test_read(t, HISI_DMA_HIP09_Q_ERR_INT_MSK));
}

/* What the engine works on, or NULL */
static struct hisi_dma_sqe *hisi_dma_test_in_hand(struct hisi_dma_test *t)
{
	hisi_dma_test_obey(t);
	if (!hisi_dma_test_enabled(t) ||
	    hisi_dma_test_read(t, HISI_DMA_Q_SQ_TAIL_PTR) == t->sq_head)
		return NULL;
	return &t->chan->sq[t->sq_head];
}

/* The engine is done with what it works on, and writes how that went */
static void hisi_dma_test_end(struct hisi_dma_test *t, u16 status)
{
	struct hisi_dma_cqe *cqe = &t->chan->cq[t->cq_tail];

	t->sq_head = (t->sq_head + 1) % HISI_DMA_TEST_DEPTH;
	cqe->sq_head = cpu_to_le16(t->sq_head);
	WRITE_ONCE(cqe->w0, cpu_to_le16(FIELD_PREP(STATUS_MASK, status) |
					t->valid));
	t->cq_tail = (t->cq_tail + 1) % HISI_DMA_TEST_DEPTH;
	if (!t->cq_tail)
		t->valid ^= VALID_BIT;
}

/* When it returns, the clients were called */
static void hisi_dma_test_interrupt(struct hisi_dma_test *t)
{
	unsigned long flags;

	if (!hisi_dma_test_unmasked(t))
		return;
	local_irq_save(flags);
	hisi_dma_irq(0, t->chan);
	local_irq_restore(flags);
	tasklet_kill(&t->chan->vc.task);
}

static void hisi_dma_test_work(struct kunit *test, u16 status)
{
	struct hisi_dma_test *t = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, hisi_dma_test_in_hand(t));
	hisi_dma_test_end(t, status);
	hisi_dma_test_interrupt(t);
}

/* --- the client --- */

static void hisi_dma_test_callback(void *param,
				   const struct dmaengine_result *result)
{
	struct hisi_dma_test_copy *copy = param;

	copy->result = *result;
	complete(&copy->t->called);
	mdelay(copy->t->delay_ms);
	WRITE_ONCE(copy->calls, copy->calls + 1);
}

static struct dma_async_tx_descriptor *
hisi_dma_test_prep(struct hisi_dma_test *t, size_t len)
{
	struct dma_async_tx_descriptor *tx;

	tx = dmaengine_prep_dma_memcpy(t->client, HISI_DMA_TEST_DST,
				       HISI_DMA_TEST_SRC, len,
				       DMA_PREP_INTERRUPT);
	t->prepared += !!tx;
	return tx;
}

static void hisi_dma_test_submit(struct kunit *test, int i)
{
	struct hisi_dma_test *t = test->priv;
	struct dma_async_tx_descriptor *tx;

	tx = hisi_dma_test_prep(t, HISI_DMA_TEST_LEN);
	KUNIT_ASSERT_NOT_NULL(test, tx);
	tx->callback_result = hisi_dma_test_callback;
	tx->callback_param = &t->copies[i];
	t->copies[i].cookie = dmaengine_submit(tx);
	KUNIT_ASSERT_FALSE(test, dma_submit_error(t->copies[i].cookie));
}

static void hisi_dma_test_issue(struct kunit *test, int i)
{
	struct hisi_dma_test *t = test->priv;

	hisi_dma_test_submit(test, i);
	dma_async_issue_pending(t->client);
}

static enum dma_status hisi_dma_test_status(struct hisi_dma_test *t, int i)
{
	return dma_async_is_tx_complete(t->client, t->copies[i].cookie, NULL,
					NULL);
}

static void hisi_dma_test_expect_none(struct kunit *test, int i)
{
	struct hisi_dma_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, 0, t->copies[i].calls);
}

static void hisi_dma_test_expect(struct kunit *test, int i,
				 enum dmaengine_tx_result result, u32 residue)
{
	struct hisi_dma_test *t = test->priv;
	struct hisi_dma_test_copy *copy = &t->copies[i];

	KUNIT_EXPECT_EQ(test, 1, copy->calls);
	KUNIT_EXPECT_EQ(test, result, copy->result.result);
	KUNIT_EXPECT_EQ(test, residue, copy->result.residue);
}

static void hisi_dma_test_expect_copied(struct kunit *test, int i)
{
	hisi_dma_test_expect(test, i, DMA_TRANS_NOERROR, 0);
}

static void hisi_dma_test_expect_failed(struct kunit *test, int i)
{
	hisi_dma_test_expect(test, i, DMA_TRANS_ABORTED, HISI_DMA_TEST_LEN);
}

/* The channel works, and reports each copy as it went */
static void hisi_dma_test_expect_usable(struct kunit *test, int first)
{
	hisi_dma_test_issue(test, first);
	hisi_dma_test_issue(test, first + 1);
	hisi_dma_test_expect_none(test, first);
	hisi_dma_test_work(test, 1);
	hisi_dma_test_work(test, STATUS_SUCC);
	KUNIT_EXPECT_NULL(test, hisi_dma_test_in_hand(test->priv));
	hisi_dma_test_expect_failed(test, first);
	hisi_dma_test_expect_copied(test, first + 1);
}

static void hisi_dma_test_expect_off(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, hisi_dma_test_enabled(test->priv));
	KUNIT_EXPECT_FALSE(test, hisi_dma_test_unmasked(test->priv));
}

/* --- completion --- */

static void what_the_engine_gets_is_what_was_asked_for(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;
	struct hisi_dma_sqe *sqe;

	hisi_dma_test_issue(test, 0);
	sqe = hisi_dma_test_in_hand(t);
	KUNIT_ASSERT_NOT_NULL(test, sqe);
	KUNIT_EXPECT_EQ(test, OPCODE_M2M | LOCAL_IRQ_EN,
			le32_to_cpu(sqe->dw0));
	KUNIT_EXPECT_EQ(test, HISI_DMA_TEST_LEN, le32_to_cpu(sqe->length));
	KUNIT_EXPECT_EQ(test, HISI_DMA_TEST_SRC, le64_to_cpu(sqe->src_addr));
	KUNIT_EXPECT_EQ(test, HISI_DMA_TEST_DST, le64_to_cpu(sqe->dst_addr));
	hisi_dma_test_work(test, STATUS_SUCC);
	hisi_dma_test_expect_copied(test, 0);
	KUNIT_EXPECT_EQ(test, DMA_COMPLETE, hisi_dma_test_status(t, 0));
}

/* Twelve bits of the status are known; all of them set is not "not written" */
static void a_failed_copy_fails_and_the_next_is_started(struct kunit *test)
{
	static const u16 statuses[] = { 1, GENMASK(11, 0) };
	int i;

	for (i = 0; i < ARRAY_SIZE(statuses); i++)
		hisi_dma_test_issue(test, i);
	hisi_dma_test_issue(test, i);
	for (i = 0; i < ARRAY_SIZE(statuses); i++) {
		hisi_dma_test_work(test, statuses[i]);
		hisi_dma_test_expect_failed(test, i);
	}
	hisi_dma_test_expect_none(test, i);
	hisi_dma_test_work(test, STATUS_SUCC);
	hisi_dma_test_expect_copied(test, i);
}

/* An error has an interrupt of its own, beside that of the completion */
static void the_second_interrupt_of_an_error_ends_nothing(struct kunit *test)
{
	hisi_dma_test_issue(test, 0);
	hisi_dma_test_issue(test, 1);
	hisi_dma_test_work(test, 1);
	hisi_dma_test_interrupt(test->priv);
	hisi_dma_test_expect_failed(test, 0);
	hisi_dma_test_expect_none(test, 1);
	hisi_dma_test_work(test, STATUS_SUCC);
	hisi_dma_test_expect_copied(test, 1);
}

/* Also where the queue has entries of its last round, valid or not */
static void an_early_interrupt_ends_nothing(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;
	int i;

	for (i = 0; i < HISI_DMA_TEST_COPIES; i++) {
		hisi_dma_test_issue(test, i);
		hisi_dma_test_interrupt(t);
		hisi_dma_test_expect_none(test, i);
		KUNIT_EXPECT_EQ(test, DMA_IN_PROGRESS,
				hisi_dma_test_status(t, i));
		hisi_dma_test_work(test, STATUS_SUCC);
		hisi_dma_test_expect_copied(test, i);
		KUNIT_EXPECT_EQ(test, t->cq_tail,
				hisi_dma_test_read(t, HISI_DMA_Q_CQ_HEAD_PTR));
	}
}

/* --- termination --- */

/* After one copy, another is in hand, one is issued, and one submitted */
static void hisi_dma_test_fill(struct kunit *test)
{
	hisi_dma_test_issue(test, 0);
	hisi_dma_test_work(test, STATUS_SUCC);
	hisi_dma_test_issue(test, 1);
	hisi_dma_test_issue(test, 2);
	hisi_dma_test_submit(test, 3);
	KUNIT_EXPECT_NOT_NULL(test, hisi_dma_test_in_hand(test->priv));
}

static void hisi_dma_test_expect_untold(struct kunit *test)
{
	int i;

	for (i = 1; i < 4; i++)
		hisi_dma_test_expect_none(test, i);
}

static void the_engine_stops_when_a_channel_is_terminated(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;

	hisi_dma_test_fill(test);
	KUNIT_EXPECT_EQ(test, 0, dmaengine_terminate_sync(t->client));
	KUNIT_EXPECT_NULL(test, hisi_dma_test_in_hand(t));
	KUNIT_EXPECT_EQ(test, t->prepared, t->freed);
	hisi_dma_test_interrupt(t);
	hisi_dma_test_expect_usable(test, 4);
	hisi_dma_test_expect_untold(test);
}

/* The engine was done already, but nobody has looked yet */
static void a_completion_ends_with_its_channel(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;

	hisi_dma_test_fill(test);
	hisi_dma_test_end(t, STATUS_SUCC);
	KUNIT_EXPECT_EQ(test, 0, dmaengine_terminate_sync(t->client));
	hisi_dma_test_interrupt(t);
	hisi_dma_test_expect_usable(test, 4);
	hisi_dma_test_expect_untold(test);
}

/* Its memory may still be written to, so nothing is forgotten */
static void who_terminates_hears_that_the_engine_hangs(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;

	hisi_dma_test_fill(test);
	hisi_dma_test_write(t, HISI_DMA_Q_FSM_STS, RUN);
	KUNIT_EXPECT_EQ(test, -ETIMEDOUT, dmaengine_terminate_sync(t->client));
	KUNIT_EXPECT_EQ(test, 1, t->freed);
	hisi_dma_test_expect_off(test);
	KUNIT_EXPECT_EQ(test, DMA_IN_PROGRESS, hisi_dma_test_status(t, 1));
	hisi_dma_test_issue(test, 4);
	KUNIT_EXPECT_EQ(test, 0,
			hisi_dma_test_read(t, HISI_DMA_Q_SQ_TAIL_PTR));

	hisi_dma_test_write(t, HISI_DMA_Q_FSM_STS, IDLE);
	KUNIT_EXPECT_EQ(test, 0, dmaengine_terminate_sync(t->client));
	KUNIT_EXPECT_EQ(test, t->prepared, t->freed);
	hisi_dma_test_expect_usable(test, 5);
	hisi_dma_test_expect_untold(test);
}

/* --- release --- */

static void the_engine_stops_when_a_channel_is_released(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;

	hisi_dma_test_fill(test);
	hisi_dma_test_release(t);
	KUNIT_EXPECT_NULL(test, hisi_dma_test_in_hand(t));
	KUNIT_EXPECT_EQ(test, t->prepared, t->freed);
	KUNIT_EXPECT_TRUE(test, hisi_dma_test_is_master(t));
	hisi_dma_test_request(test);
	hisi_dma_test_expect_usable(test, 4);
	hisi_dma_test_expect_untold(test);
}

/* The client may free its memory, and nobody can tell it not to */
static void an_engine_that_hangs_loses_its_access_to_memory(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;

	hisi_dma_test_fill(test);
	hisi_dma_test_write(t, HISI_DMA_Q_FSM_STS, RUN);
	hisi_dma_test_release(t);
	KUNIT_EXPECT_FALSE(test, hisi_dma_test_is_master(t));
	hisi_dma_test_expect_off(test);
	KUNIT_EXPECT_EQ(test, t->prepared, t->freed);
}

/* An interrupt, when the core has waited for all of them */
static void hisi_dma_test_late_interrupt(struct dma_chan *c)
{
	struct hisi_dma_test *t = to_hisi_dma_test(c);

	hisi_dma_synchronize(c);
	hisi_dma_test_end(t, STATUS_SUCC);
	local_irq_disable();
	hisi_dma_irq(0, t->chan);
	local_irq_enable();
	wait_for_completion_timeout(&t->called, HZ);
}

static void a_client_that_has_left_is_not_called(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;

	if (num_online_cpus() < 2)
		kunit_skip(test, "the interrupt needs a second CPU");
	t->delay_ms = 50;
	hisi_dma_test_issue(test, 0);
	t->hdma->dma_dev.device_synchronize = hisi_dma_test_late_interrupt;
	hisi_dma_test_release(t);
	KUNIT_EXPECT_EQ(test, 1, READ_ONCE(t->copies[0].calls));
	t->hdma->dma_dev.device_synchronize = hisi_dma_synchronize;
}

/* --- the lock --- */

static void hisi_dma_test_terminate(struct work_struct *work)
{
	struct hisi_dma_test *t = container_of(work, typeof(*t), work);

	WRITE_ONCE(t->started, true);
	hisi_dma_terminate_all(t->client);
}

static void hisi_dma_test_free(struct work_struct *work)
{
	struct hisi_dma_test *t = container_of(work, typeof(*t), work);

	WRITE_ONCE(t->started, true);
	hisi_dma_free_chan_resources(t->client);
}

/* While a handler could be at work, does the action let the engine be? */
static void hisi_dma_test_expect_lock(struct kunit *test,
				      work_func_t action)
{
	struct hisi_dma_test *t = test->priv;
	unsigned long flags;
	bool early;
	int ms;

	if (num_online_cpus() < 2)
		kunit_skip(test, "who waits for a lock needs a second CPU");
	INIT_WORK(&t->work, action);
	spin_lock_irqsave(&t->chan->vc.lock, flags);
	queue_work_on(cpumask_any_but(cpu_online_mask, smp_processor_id()),
		      system_wq, &t->work);
	for (ms = 0; ms < 1000 && !READ_ONCE(t->started); ms++)
		mdelay(1);
	mdelay(10);
	early = !hisi_dma_test_enabled(t) ||
		hisi_dma_test_read(t, HISI_DMA_Q_CTRL1) &
		HISI_DMA_Q_CTRL1_QUEUE_RESET;
	spin_unlock_irqrestore(&t->chan->vc.lock, flags);
	flush_work(&t->work);
	KUNIT_EXPECT_TRUE(test, t->started);
	KUNIT_EXPECT_FALSE(test, early);
	KUNIT_EXPECT_NULL(test, hisi_dma_test_in_hand(t));
}

static void a_channel_is_terminated_under_its_lock(struct kunit *test)
{
	hisi_dma_test_fill(test);
	hisi_dma_test_expect_lock(test, hisi_dma_test_terminate);
}

/* Not by dma_release_channel(), which takes the lock before that too */
static void a_channel_is_released_under_its_lock(struct kunit *test)
{
	hisi_dma_test_fill(test);
	hisi_dma_test_expect_lock(test, hisi_dma_test_free);
}

/* --- what is refused and promised --- */

static void a_copy_that_no_descriptor_can_hold_is_refused(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;
	struct dma_async_tx_descriptor *tx;

	tx = hisi_dma_test_prep(t, U32_MAX);
	KUNIT_ASSERT_NOT_NULL(test, tx);
	dmaengine_submit(tx);
	dma_async_issue_pending(t->client);
	KUNIT_ASSERT_NOT_NULL(test, hisi_dma_test_in_hand(t));
	KUNIT_EXPECT_EQ(test, U32_MAX,
			le32_to_cpu(hisi_dma_test_in_hand(t)->length));
	if (sizeof(size_t) > sizeof(u32)) {
		u64 len = SZ_4G + SZ_4K;

		KUNIT_EXPECT_NULL(test, hisi_dma_test_prep(t, len));
	}
}

static void errors_are_promised_where_the_engine_goes_on(struct kunit *test)
{
	struct hisi_dma_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, t->hdma->dma_dev.reports_errors,
			t->hdma->pdev->revision == HISI_DMA_REVISION_HIP09A);
}

static const u8 hisi_dma_test_revisions[] = {
	HISI_DMA_REVISION_HIP08B, HISI_DMA_REVISION_HIP09A,
};

static void hisi_dma_test_describe(const u8 *revision, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "PCI revision %#x", *revision);
}

KUNIT_ARRAY_PARAM(hisi_dma_test, hisi_dma_test_revisions,
		  hisi_dma_test_describe);

#define HISI_DMA_TEST_CASE(name) \
	KUNIT_CASE_PARAM(name, hisi_dma_test_gen_params)

static struct kunit_case hisi_dma_test_cases[] = {
	HISI_DMA_TEST_CASE(what_the_engine_gets_is_what_was_asked_for),
	HISI_DMA_TEST_CASE(a_failed_copy_fails_and_the_next_is_started),
	HISI_DMA_TEST_CASE(the_second_interrupt_of_an_error_ends_nothing),
	HISI_DMA_TEST_CASE(an_early_interrupt_ends_nothing),
	HISI_DMA_TEST_CASE(the_engine_stops_when_a_channel_is_terminated),
	HISI_DMA_TEST_CASE(a_completion_ends_with_its_channel),
	HISI_DMA_TEST_CASE(who_terminates_hears_that_the_engine_hangs),
	HISI_DMA_TEST_CASE(the_engine_stops_when_a_channel_is_released),
	HISI_DMA_TEST_CASE(an_engine_that_hangs_loses_its_access_to_memory),
	HISI_DMA_TEST_CASE(a_client_that_has_left_is_not_called),
	HISI_DMA_TEST_CASE(a_channel_is_terminated_under_its_lock),
	HISI_DMA_TEST_CASE(a_channel_is_released_under_its_lock),
	HISI_DMA_TEST_CASE(a_copy_that_no_descriptor_can_hold_is_refused),
	HISI_DMA_TEST_CASE(errors_are_promised_where_the_engine_goes_on),
	{}
};

static struct kunit_suite hisi_dma_test_suite = {
	.name = "hisi_dma",
	.init = hisi_dma_test_init,
	.exit = hisi_dma_test_exit,
	.test_cases = hisi_dma_test_cases,
};

kunit_test_suite(hisi_dma_test_suite);
