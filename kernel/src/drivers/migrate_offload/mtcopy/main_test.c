// SPDX-License-Identifier: GPL-2.0-only
/*
 * mtcopy: tests of the queue and of its workers.
 *
 * Folios are real, the core is not: reports are recorded instead. What is not
 * tested here: that helpers make anything faster.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/kthread.h>

#define TEST_MAX_COPIES	24
#define TEST_WORKERS	4
/* Chosen CPUs have these numbers, which no machine has */
#define TEST_FIRST_CPU	100000

struct test_copy {
	struct migrate_copy copy;
	atomic_t reports;
	int error;
	/* How often each page was copied */
	atomic_t *pages;
};

struct mtcopy_test {
	struct mtcopy_queue queue;
	struct test_copy copies[TEST_MAX_COPIES];
	unsigned int nr;
	struct folio *poisoned;
	/* How many helpers were woken, and how many parts there were then */
	unsigned int woken;
	unsigned int parts_at_wake;
	unsigned int threads;	/* as it was */
	struct completion start;
	struct completion exited;
};

static struct test_copy *test_copy_of(const struct migrate_copy *copy)
{
	return container_of(copy, struct test_copy, copy);
}

static int fake_copy_part(const struct mtcopy_part *part)
{
	struct mtcopy_test *t = kunit_get_current_test()->priv;
	struct migrate_copy *copy = part->copy;
	size_t at;

	if (copy->src == t->poisoned)
		return -EHWPOISON;
	for (at = part->from; at < part->from + part->len; at += PAGE_SIZE)
		atomic_inc(&test_copy_of(copy)->pages[at >> PAGE_SHIFT]);
	memcpy(folio_address(copy->dst) + part->from,
	       folio_address(copy->src) + part->from, part->len);
	return 0;
}

static void fake_report(struct migrate_copy *copy, int error)
{
	struct test_copy *c = test_copy_of(copy);

	if (error)
		WRITE_ONCE(c->error, error);
	atomic_inc(&c->reports);
}

static void test_put_folio(void *folio)
{
	folio_put(folio);
}

static struct folio *test_folio(struct kunit *test, unsigned int order, u8 byte)
{
	struct folio *folio = folio_alloc(GFP_KERNEL, order);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, test_put_folio,
							   folio));
	memset(folio_address(folio), byte, folio_size(folio));
	return folio;
}

/* A copy whose source holds another byte than any other folio */
static struct migrate_copy *test_copy(struct kunit *test, unsigned int order,
				      size_t stripe)
{
	struct mtcopy_test *t = test->priv;
	struct test_copy *c = &t->copies[t->nr++];

	KUNIT_ASSERT_LE(test, t->nr, TEST_MAX_COPIES);
	c->copy.src = test_folio(test, order, t->nr);
	c->copy.dst = test_folio(test, order, 0xff);
	c->copy.stripe_bytes = stripe;
	c->pages = kunit_kcalloc(test, 1 << order, sizeof(*c->pages), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, c->pages);
	return &c->copy;
}

static void test_enqueue(struct kunit *test, unsigned int order, size_t stripe)
{
	struct mtcopy_test *t = test->priv;
	struct migrate_copy *copy = test_copy(test, order, stripe);

	mtcopy_enqueue(&t->queue, copy);
}

static void expect_copied_once(struct kunit *test, struct test_copy *c)
{
	size_t size = folio_size(c->copy.src), i;

	for (i = 0; i < size >> PAGE_SHIFT; i++)
		KUNIT_ASSERT_EQ(test, atomic_read(&c->pages[i]), 1);
	KUNIT_EXPECT_MEMEQ(test, folio_address(c->copy.dst),
			   folio_address(c->copy.src), size);
}

static void expect_all_copied_once(struct kunit *test)
{
	struct mtcopy_test *t = test->priv;
	unsigned int i;

	for (i = 0; i < t->nr; i++) {
		expect_copied_once(test, &t->copies[i]);
		KUNIT_EXPECT_EQ(test, t->copies[i].error, 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&t->copies[i].reports),
				atomic_read(&t->copies[i].copy.parts));
	}
	KUNIT_EXPECT_TRUE(test, list_empty(&t->queue.copies));
	KUNIT_EXPECT_EQ(test, t->queue.parts, 0);
	KUNIT_EXPECT_EQ(test, t->queue.bytes, 0);
}

static int mtcopy_test_init(struct kunit *test)
{
	struct mtcopy_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	mtcopy_init_queue(&t->queue);
	t->queue.owner = current;
	init_completion(&t->start);
	init_completion(&t->exited);
	test->priv = t;
	kunit_activate_static_stub(test, mtcopy_copy_part, fake_copy_part);
	kunit_activate_static_stub(test, mtcopy_report, fake_report);
	return 0;
}

static void parts_cover_a_folio_and_none_is_too_small(struct kunit *test)
{
	static const size_t stripes[] = {
		PAGE_SIZE, 3 * PAGE_SIZE, SZ_64K, SZ_128K, SZ_2M - PAGE_SIZE,
		SZ_2M, SZ_2M + PAGE_SIZE, SIZE_MAX & PAGE_MASK,
	};
	size_t size, from, len;
	unsigned int i, n;

	for (i = 0; i < ARRAY_SIZE(stripes); i++) {
		for (size = PAGE_SIZE; size <= SZ_2M; size *= 2) {
			n = 0;
			for (from = 0; from < size; from += len) {
				len = mtcopy_part_len(size, from, stripes[i]);
				KUNIT_ASSERT_GE(test, len, min(size, stripes[i]));
				n++;
			}
			KUNIT_EXPECT_EQ(test, from, size);
			KUNIT_EXPECT_EQ(test, n, mtcopy_nr_parts(size, stripes[i]));
		}
	}
}

static unsigned int test_claim(struct mtcopy_queue *q, struct mtcopy_part part[])
{
	return mtcopy_claim(q, current, part, MTCOPY_CLAIM_PARTS);
}

static void small_folios_are_claimed_together(struct kunit *test)
{
	static const unsigned int expected[] = { 16, 4, 1, 1, 2, 1, 0 };
	struct mtcopy_part part[MTCOPY_CLAIM_PARTS];
	struct mtcopy_test *t = test->priv;
	unsigned int i;

	for (i = 0; i < 20; i++)
		test_enqueue(test, 0, SZ_128K);
	test_enqueue(test, 6, SZ_128K);		/* two stripes, one by one */
	for (i = 0; i < 3; i++)			/* 128 KiB are enough */
		test_enqueue(test, 4, SZ_128K);
	for (i = 0; i < ARRAY_SIZE(expected); i++)
		KUNIT_EXPECT_EQ_MSG(test, test_claim(&t->queue, part),
				    expected[i], "claim %u", i);
}

/* Others that want its CPU, and RCU, wait for no more than that */
static void a_helper_takes_few_small_folios_at_a_time(struct kunit *test)
{
	struct mtcopy_test *t = test->priv;
	unsigned int i, nr = 0;

	for (i = 0; i < TEST_MAX_COPIES; i++)
		test_enqueue(test, 0, SZ_128K);
	while (mtcopy_helper_work(&t->queue, current)) {
		nr += MTCOPY_HELPER_PARTS;
		KUNIT_EXPECT_EQ(test, t->queue.parts, TEST_MAX_COPIES - nr);
	}
	expect_all_copied_once(test);
}

/* Bytes that callers and helpers have copied */
static u64 test_copied(void)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(mtcopy_caller_bytes, cpu) +
		       per_cpu(mtcopy_helper_bytes, cpu);
	return sum;
}

static int test_worker(void *data)
{
	struct kunit *test = data;
	struct mtcopy_test *t = test->priv;

	current->kunit_test = test;	/* the stubs hold for this task, too */
	wait_for_completion(&t->start);
	while (mtcopy_helper_work(&t->queue, t->queue.owner))
		cond_resched();
	current->kunit_test = NULL;
	kthread_complete_and_exit(&t->exited, 0);
}

static void concurrent_workers_copy_each_page_once(struct kunit *test)
{
	static const unsigned int orders[] = { 0, 9, 1, 5, 0, 7, 4, 0 };
	struct mtcopy_test *t = test->priv;
	struct task_struct *worker;
	unsigned int i, workers = 0;
	u64 bytes, before = test_copied();

	for (i = 0; i < TEST_MAX_COPIES; i++)
		test_enqueue(test, orders[i % ARRAY_SIZE(orders)], 3 * PAGE_SIZE);
	bytes = t->queue.bytes;
	for (i = 0; i < TEST_WORKERS; i++) {
		worker = kthread_run(test_worker, test, "mtcopy_test/%u", i);
		workers += !IS_ERR(worker);
	}
	complete_all(&t->start);
	while (mtcopy_work(&t->queue))
		cond_resched();
	for (i = 0; i < workers; i++)
		wait_for_completion(&t->exited);

	KUNIT_EXPECT_EQ(test, workers, TEST_WORKERS);
	expect_all_copied_once(test);
	KUNIT_EXPECT_EQ(test, test_copied() - before, bytes);
}

/* Three folios of one part, three of four parts; one is poisoned */
static void test_poison(struct kunit *test, unsigned int victim)
{
	struct mtcopy_test *t = test->priv;
	unsigned int i;

	for (i = 0; i < 6; i++)
		test_enqueue(test, i < 3 ? 0 : 6, SZ_64K);
	t->poisoned = t->copies[victim].copy.src;
	while (mtcopy_work(&t->queue))
		;
	for (i = 0; i < 6; i++) {
		KUNIT_EXPECT_EQ(test, atomic_read(&t->copies[i].reports),
				i < 3 ? 1 : 4);
		KUNIT_EXPECT_EQ(test, t->copies[i].error,
				i == victim ? -EHWPOISON : 0);
		if (i != victim)
			expect_copied_once(test, &t->copies[i]);
	}
}

static void a_poisoned_small_folio_fails_alone(struct kunit *test)
{
	test_poison(test, 1);
}

static void a_poisoned_large_folio_fails_alone(struct kunit *test)
{
	test_poison(test, 4);
}

static unsigned int no_idle_cpu(int *chosen, unsigned int max, int dst_nid,
				int src_nid)
{
	return 0;
}

static void test_submit(struct kunit *test, unsigned int order)
{
	struct mtcopy_test *t = test->priv;
	struct migrate_copy *copy = test_copy(test, order, SZ_128K);

	copy->call = &t->queue;
	KUNIT_EXPECT_EQ(test, mtcopy_submit(&mtcopy, copy), 0);
}

static void the_caller_copies_all_when_no_cpu_is_idle(struct kunit *test)
{
	unsigned int i, awake = atomic_read(&mtcopy_awake);
	struct mtcopy_test *t = test->priv;

	kunit_activate_static_stub(test, mtcopy_choose_cpus, no_idle_cpu);
	for (i = 0; i < 4; i++)
		test_submit(test, 9);
	KUNIT_EXPECT_EQ(test, mtcopy_flush(&mtcopy, &t->queue), !!awake);
	KUNIT_EXPECT_EQ(test, atomic_read(&mtcopy_awake), awake);
	for (i = 0; i < 4 * 16; i++)
		KUNIT_EXPECT_TRUE(test, mtcopy_help(&mtcopy, &t->queue));
	KUNIT_EXPECT_FALSE(test, mtcopy_help(&mtcopy, &t->queue));
	expect_all_copied_once(test);
}

static void each_call_has_a_queue_of_its_own(struct kunit *test)
{
	struct mtcopy_queue *q[MTCOPY_NR_QUEUES];
	unsigned int i, nr = 0;

	while ((q[nr] = mtcopy_begin_call(&mtcopy))) {
		KUNIT_EXPECT_PTR_EQ(test, q[nr]->owner, current);
		for (i = 0; i < nr; i++)
			KUNIT_ASSERT_PTR_NE(test, q[i], q[nr]);
		if (++nr == MTCOPY_NR_QUEUES)
			break;
	}
	KUNIT_EXPECT_EQ(test, nr, MTCOPY_NR_QUEUES);
	KUNIT_EXPECT_NULL(test, mtcopy_begin_call(&mtcopy));
	/* What a call has left the next one may have */
	mtcopy_end_call(&mtcopy, q[3]);
	KUNIT_EXPECT_NULL(test, q[3]->owner);
	KUNIT_EXPECT_PTR_EQ(test, mtcopy_begin_call(&mtcopy), q[3]);
	while (nr--)
		mtcopy_end_call(&mtcopy, q[nr]);
}

static void helpers_are_wanted_only_for_parts_that_can_be_shared(struct kunit *test)
{
	struct mtcopy_part part[MTCOPY_CLAIM_PARTS];
	struct mtcopy_test *t = test->priv;
	int dst, src;

	KUNIT_EXPECT_EQ(test, mtcopy_wanted(&t->queue, &dst, &src), 0);
	test_enqueue(test, 9, SZ_2M);		/* one part, however large */
	KUNIT_EXPECT_EQ(test, mtcopy_wanted(&t->queue, &dst, &src), 0);
	KUNIT_EXPECT_EQ(test, src, folio_nid(t->copies[0].copy.src));
	KUNIT_EXPECT_EQ(test, dst, folio_nid(t->copies[0].copy.dst));
	KUNIT_EXPECT_EQ(test, test_claim(&t->queue, part), 1);
	test_enqueue(test, 9, SZ_128K);
	KUNIT_EXPECT_EQ(test, mtcopy_wanted(&t->queue, &dst, &src), 15);
	KUNIT_EXPECT_EQ(test, test_claim(&t->queue, part), 1);
	KUNIT_EXPECT_EQ(test, mtcopy_wanted(&t->queue, &dst, &src), 14);
}

static void helpers_that_come_late_go_again(struct kunit *test)
{
	unsigned int awake = atomic_read(&mtcopy_awake);
	int cpu;

	cpus_read_lock();
	for_each_online_cpu(cpu)
		KUNIT_EXPECT_TRUE(test, mtcopy_wake(cpu, &mtcopy_queues[0],
						    current, UINT_MAX));
	cpus_read_unlock();
	flush_workqueue(mtcopy_wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&mtcopy_awake), awake);
}

static void no_more_helpers_are_woken_than_allowed(struct kunit *test)
{
	unsigned int awake = atomic_read(&mtcopy_awake);

	KUNIT_EXPECT_FALSE(test, mtcopy_wake(0, &mtcopy_queues[0],
					     current, 0));
	KUNIT_EXPECT_EQ(test, atomic_read(&mtcopy_awake), awake);
}

static unsigned int choose_as_many_as_wanted(int *chosen, unsigned int max,
					     int dst_nid, int src_nid)
{
	unsigned int i;

	for (i = 0; i < max; i++)
		chosen[i] = TEST_FIRST_CPU + i;
	return max;
}

/* While the caller looks for CPUs, helpers that were awake finish its work */
static unsigned int choose_too_late(int *chosen, unsigned int max, int dst_nid,
				    int src_nid)
{
	struct mtcopy_test *t = kunit_get_current_test()->priv;

	while (mtcopy_work(&t->queue))
		;
	return choose_as_many_as_wanted(chosen, max, dst_nid, src_nid);
}

/* The best CPUs come first. The helper stays awake, but does nothing. */
static bool fake_wake(int cpu, struct mtcopy_queue *q,
		      struct task_struct *task, unsigned int max)
{
	struct kunit *test = kunit_get_current_test();
	struct mtcopy_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, cpu, TEST_FIRST_CPU + t->woken);
	atomic_inc(&mtcopy_awake);
	t->woken++;
	t->parts_at_wake = q->parts;
	return true;
}

static void test_restore_threads(void *data)
{
	struct mtcopy_test *t = data;

	mtcopy_threads = t->threads;
	atomic_sub(t->woken, &mtcopy_awake);
}

/*
 * A task with two folios of 16 parts each, and @threads to copy them on the CPUs
 * of @choose
 */
static void test_flush(struct kunit *test, unsigned int threads,
		       typeof(mtcopy_choose_cpus) *choose)
{
	struct mtcopy_test *t = test->priv;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, atomic_read(&mtcopy_awake), 0);
	t->threads = mtcopy_threads;
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, test_restore_threads, t));
	mtcopy_threads = threads;
	kunit_activate_static_stub(test, mtcopy_choose_cpus, *choose);
	kunit_activate_static_stub(test, mtcopy_wake, fake_wake);
	for (i = 0; i < 2; i++)
		test_submit(test, 9);
	mtcopy_flush(&mtcopy, &t->queue);
}

/* As if a helper had started that was woken for the test's queue */
static void test_start_helper(struct mtcopy_test *t)
{
	struct mtcopy_helper helper = {
		.queue = &t->queue,
		.task = current,
	};

	atomic_inc(&mtcopy_awake);
	mtcopy_helper_fn(&helper.work);
}

static void the_caller_wakes_two_and_then_one_per_part(struct kunit *test)
{
	struct mtcopy_test *t = test->priv;
	unsigned int i;

	test_flush(test, 16, choose_as_many_as_wanted);
	KUNIT_EXPECT_EQ(test, t->woken, 2);
	for (i = 1; i <= 13; i++) {
		KUNIT_EXPECT_TRUE(test, mtcopy_help(&mtcopy, &t->queue));
		KUNIT_EXPECT_EQ(test, t->woken, 2 + i);
		/* It wakes before it copies */
		KUNIT_EXPECT_EQ(test, t->parts_at_wake, 32 - i + 1);
	}
	/* No helper has started, and nobody misses them */
	while (mtcopy_help(&mtcopy, &t->queue))
		;
	KUNIT_EXPECT_EQ(test, t->woken, 15);
	expect_all_copied_once(test);
}

static void a_helper_wakes_two_more_before_it_copies(struct kunit *test)
{
	struct mtcopy_test *t = test->priv;

	test_flush(test, 16, choose_as_many_as_wanted);
	test_start_helper(t);
	KUNIT_EXPECT_EQ(test, t->woken, 4);
	KUNIT_EXPECT_EQ(test, t->parts_at_wake, 32);
	while (mtcopy_help(&mtcopy, &t->queue))
		;
	expect_all_copied_once(test);
}

static void nobody_is_woken_for_the_wakers_own_part(struct kunit *test)
{
	struct mtcopy_part part[MTCOPY_CLAIM_PARTS];
	struct mtcopy_test *t = test->priv;
	struct mtcopy_queue *q = &t->queue;

	test_flush(test, 16, choose_as_many_as_wanted);
	while (q->parts > 2)
		KUNIT_ASSERT_EQ(test, test_claim(q, part), 1);
	mtcopy_wake_some(q, current, 1);
	KUNIT_EXPECT_EQ(test, t->woken, 3);
	KUNIT_ASSERT_EQ(test, test_claim(q, part), 1);
	mtcopy_wake_some(q, current, 1);
	KUNIT_EXPECT_EQ(test, t->woken, 3);
	KUNIT_EXPECT_TRUE(test, mtcopy_help(&mtcopy, &t->queue));
}

static void no_more_helpers_are_awake_than_threads_say(struct kunit *test)
{
	struct mtcopy_test *t = test->priv;

	test_flush(test, 4, choose_as_many_as_wanted);
	/* The third one is another task's */
	atomic_inc(&mtcopy_awake);
	KUNIT_EXPECT_TRUE(test, mtcopy_help(&mtcopy, &t->queue));
	mtcopy_wake_some(&t->queue, current, MTCOPY_FANOUT);
	KUNIT_EXPECT_EQ(test, t->woken, 2);
	/* It goes to sleep, and the CPU that was not woken is not lost */
	atomic_dec(&mtcopy_awake);
	KUNIT_EXPECT_TRUE(test, mtcopy_help(&mtcopy, &t->queue));
	KUNIT_EXPECT_EQ(test, t->woken, 3);
	while (mtcopy_help(&mtcopy, &t->queue))
		;
	KUNIT_EXPECT_EQ(test, t->woken, 3);
	expect_all_copied_once(test);
}

static void an_empty_queue_keeps_no_cpus(struct kunit *test)
{
	struct mtcopy_part part[MTCOPY_CLAIM_PARTS];
	struct mtcopy_test *t = test->priv;
	struct mtcopy_queue *q = &t->queue;

	test_flush(test, 16, choose_as_many_as_wanted);
	KUNIT_EXPECT_EQ(test, q->nr_cpus, 13);
	while (test_claim(q, part))
		;
	KUNIT_EXPECT_EQ(test, q->nr_cpus, 0);
	/* Neither for the next task nor by a helper that comes late */
	test_submit(test, 9);
	test_start_helper(t);
	KUNIT_EXPECT_EQ(test, t->woken, 2);
	while (test_claim(q, part))
		;
}

static void cpus_chosen_too_late_are_dropped(struct kunit *test)
{
	struct mtcopy_test *t = test->priv;

	test_flush(test, 16, choose_too_late);
	KUNIT_EXPECT_EQ(test, t->queue.nr_cpus, 0);
	KUNIT_EXPECT_EQ(test, t->woken, 0);
	expect_all_copied_once(test);
}

static void a_helper_works_for_who_chose_its_cpu(struct kunit *test)
{
	struct mtcopy_test *t = test->priv;
	struct mtcopy_queue *q = &t->queue;

	test_flush(test, 16, choose_as_many_as_wanted);
	q->owner = (struct task_struct *)test;
	test_start_helper(t);
	KUNIT_EXPECT_EQ(test, t->woken, 2);
	KUNIT_EXPECT_FALSE(test, mtcopy_helper_work(q, current));
	KUNIT_EXPECT_EQ(test, q->parts, 32);
	q->owner = current;
	KUNIT_EXPECT_TRUE(test, mtcopy_helper_work(q, current));
	while (mtcopy_help(&mtcopy, &t->queue))
		;
	expect_all_copied_once(test);
}

static void threads_outside_0_to_64_are_refused(struct kunit *test)
{
	static const char * const bad[] = { "65", "-1", "many", "", "1 2" };
	unsigned int threads = 7, i;
	const struct kernel_param kp = { .name = "threads", .arg = &threads };

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		KUNIT_EXPECT_EQ_MSG(test, mtcopy_set_threads(bad[i], &kp),
				    -EINVAL, "%s", bad[i]);
		KUNIT_EXPECT_EQ(test, threads, 7);
	}
	KUNIT_EXPECT_EQ(test, mtcopy_set_threads("0", &kp), 0);
	KUNIT_EXPECT_EQ(test, threads, 0);
	KUNIT_EXPECT_EQ(test, mtcopy_set_threads("64", &kp), 0);
	KUNIT_EXPECT_EQ(test, threads, 64);
}

static struct kunit_case mtcopy_cases[] = {
	KUNIT_CASE(parts_cover_a_folio_and_none_is_too_small),
	KUNIT_CASE(small_folios_are_claimed_together),
	KUNIT_CASE(a_helper_takes_few_small_folios_at_a_time),
	KUNIT_CASE(concurrent_workers_copy_each_page_once),
	KUNIT_CASE(a_poisoned_small_folio_fails_alone),
	KUNIT_CASE(a_poisoned_large_folio_fails_alone),
	KUNIT_CASE(the_caller_copies_all_when_no_cpu_is_idle),
	KUNIT_CASE(each_call_has_a_queue_of_its_own),
	KUNIT_CASE(helpers_are_wanted_only_for_parts_that_can_be_shared),
	KUNIT_CASE(helpers_that_come_late_go_again),
	KUNIT_CASE(no_more_helpers_are_woken_than_allowed),
	KUNIT_CASE(the_caller_wakes_two_and_then_one_per_part),
	KUNIT_CASE(a_helper_wakes_two_more_before_it_copies),
	KUNIT_CASE(nobody_is_woken_for_the_wakers_own_part),
	KUNIT_CASE(no_more_helpers_are_awake_than_threads_say),
	KUNIT_CASE(an_empty_queue_keeps_no_cpus),
	KUNIT_CASE(cpus_chosen_too_late_are_dropped),
	KUNIT_CASE(a_helper_works_for_who_chose_its_cpu),
	KUNIT_CASE(threads_outside_0_to_64_are_refused),
	{}
};

static struct kunit_suite mtcopy_suite = {
	.name = "mtcopy",
	.init = mtcopy_test_init,
	.test_cases = mtcopy_cases,
};

kunit_test_suite(mtcopy_suite);
