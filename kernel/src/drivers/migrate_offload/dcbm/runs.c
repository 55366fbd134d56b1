// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: small folios that adjoin each other make one part
 *
 * To map, prepare, submit and end a part costs the CPU nearly as much as to copy
 * 4 KiB. So a small folio waits in an open part of its channel, until the next
 * issue at the latest: if the folio after it lies beside it, in the old place
 * and in the new one alike, one descriptor copies both. With most engines it may
 * lie anywhere (scatter.c). Little is lost by the wait: most channels do not
 * begin before they are told to.
 *
 * A part belongs to no task: whoever issues sends what is open.
 */
#include <linux/percpu.h>

#include "dcbm.h"

/* Where the next small folio of this CPU goes; a hint */
struct dcbm_run {
	struct dcbm_chan *chan;
	int node;
	size_t left;
};

static DEFINE_PER_CPU(struct dcbm_run, dcbm_run);

/* No channel is to be used any more, and no call does */
void dcbm_forget_runs(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		per_cpu(dcbm_run, cpu).chan = NULL;
}

/* Others may use the same run at the same time: it is but a hint */
static struct dcbm_chan *dcbm_run_go_on(int node,
					const struct migrate_copy *copy)
{
	struct dcbm_run *run = raw_cpu_ptr(&dcbm_run);
	size_t left = min(READ_ONCE(run->left), dcbm_run_bytes(copy));
	size_t size = folio_size(copy->src);

	if (left < size || READ_ONCE(run->node) != node)
		return NULL;
	WRITE_ONCE(run->left, left - size);
	return READ_ONCE(run->chan);
}

static void dcbm_run_begin(struct dcbm_chan *c, int node,
			   const struct migrate_copy *copy)
{
	size_t left = dcbm_run_bytes(copy) - folio_size(copy->src);
	struct dcbm_run *run = raw_cpu_ptr(&dcbm_run);

	WRITE_ONCE(run->chan, c);
	WRITE_ONCE(run->node, node);
	WRITE_ONCE(run->left, left);
}

/**
 * dcbm_adjoin - do a folio's old and new place lie beside those of others?
 * @src: the first page frame that they are copied from; falls if the folio lies
 *	before them
 * @dst: the first that they are copied to, and likewise
 * @len: how many bytes they have
 * @copy: of the folio
 *
 * Return: true if it lies beside them in both places, and on the same side.
 */
bool dcbm_adjoin(unsigned long *src, unsigned long *dst, size_t len,
		 const struct migrate_copy *copy)
{
	unsigned long from = folio_pfn(copy->src), to = folio_pfn(copy->dst);

	if (from - *src != to - *dst)
		return false;
	if (from + folio_nr_pages(copy->src) == *src) {
		*src = from;
		*dst = to;
		return true;
	}
	return from == *src + (len >> PAGE_SHIFT);
}

/**
 * dcbm_append - make a folio's copy the business of a part, too
 * @part: of whole folios, and open
 * @copy: of a folio of less than dcbm_run_bytes()
 *
 * Return: false if the part would become too large, or if the folio does not
 * adjoin those that it has, and must.
 */
bool dcbm_append(struct dcbm_part *part, struct migrate_copy *copy)
{
	size_t size = folio_size(copy->src);

	/* What others have begun is not made larger than they wanted */
	if (part->len + size > min(part->limit, dcbm_run_bytes(copy)) ||
	    part->nr_copies == DCBM_RUN_FOLIOS)
		return false;
	if (!part->scatter &&
	    !dcbm_adjoin(&part->src, &part->dst, part->len, copy)) {
		part->scatter = dcbm_get_scatter(part->chan, size);
		if (!part->scatter)
			return false;
	}
	part->len += size;
	part->tell |= copy->tell;
	part->copies[part->nr_copies++] = copy;
	return true;
}

/* Return: false if the folio does not fit the open part */
static bool dcbm_join(struct dcbm_chan *c, struct migrate_copy *copy)
{
	bool joined;

	spin_lock(&c->submit_lock);
	joined = c->open && dcbm_append(c->open, copy);
	spin_unlock(&c->submit_lock);
	return joined;
}

/* The channel's open part from now on is @part; what was open is sent */
static void dcbm_open(struct dcbm_chan *c, struct dcbm_part *part)
{
	spin_lock(&c->submit_lock);
	if (c->open)
		dcbm_send(c->open);
	/* Who does not find the part that was open finds it unissued, or busy */
	smp_store_release(&c->open, part);
	spin_unlock(&c->submit_lock);
}

/**
 * dcbm_submit_small - take the copy of a folio that is not worth a descriptor
 * @copy: of a folio of less than dcbm_run_bytes()
 *
 * Return: as &migrator.submit.
 */
int dcbm_submit_small(struct migrate_copy *copy)
{
	DECLARE_BITMAP(tried, DCBM_MAX_CHANNELS) = { };
	size_t size = folio_size(copy->src);
	int node = folio_nid(copy->dst);
	struct dcbm_part *part = NULL;
	struct dcbm_chan *c;

	c = dcbm_run_go_on(node, copy);
	if (c && dcbm_join(c, copy))
		return 0;
	if (c)
		part = dcbm_get_part_of(c);
	if (!part) {
		part = dcbm_get_part(node, tried);
		if (!part)
			return atomic_read(&dcbm_nr_live) ? -EBUSY : -ENODEV;
		dcbm_run_begin(part->chan, node, copy);
	}
	dcbm_fill(part, copy, 0, size);
	dcbm_open(part->chan, part);
	dcbm_arm_watchdog();
	return 0;
}

/* Start what the channel was given so far, by whomever */
void dcbm_issue(struct dcbm_chan *c)
{
	/* Pairs with that of dcbm_open() */
	if (smp_load_acquire(&c->open))
		dcbm_open(c, NULL);
	dcbm_ring(c);
}
