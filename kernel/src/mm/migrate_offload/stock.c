// SPDX-License-Identifier: GPL-2.0-only
/*
 * The destinations of a call's next folios, which are got ahead of them.
 *
 * The caller's get_new_folio() may reclaim and compact, and nothing waits for
 * memory while folios are unmapped. If it can be asked not to wait, the next
 * chunk's destinations are got while the engine works; what it then has not,
 * and all from whoever cannot be asked, is got when the window is empty.
 */
#include <linux/mm.h>
#include <linux/sched.h>

#include "../internal.h"
#include "../migrate_mapped.h"
#include "eligible.h"
#include "hooks.h"
#include "internal.h"
#include "pipeline.h"

/* A stock that needs the window empty grows so fast, up to so much */
#define STOCK_GROWTH	4
#define STOCK_MAX_PAGES	(SZ_32M >> PAGE_SHIFT)
/* So many folios of a stock find no memory: then the next won't either */
#define MAX_NOMEM	8

static void pipeline_add_dst(struct migrate_pipeline *p, struct folio *dst)
{
	if (unlikely(folio_test_hugetlb(dst)))
		migrate_hugetlb_take(dst, &p->dsts);
	else
		list_add_tail(&dst->lru, &p->dsts);
}

void migrate_pipeline_put_dst(struct migrate_pipeline *p, struct folio *dst)
{
	if (unlikely(folio_test_hugetlb(dst))) {
		migrate_hugetlb_put(dst);
		return;
	}
	list_del(&dst->lru);
	if (p->call.put_new_folio)
		p->call.put_new_folio(dst, p->call.private);
	else
		folio_put(dst);
}

/* To migrate_pages() itself */
static void pipeline_leave(struct migrate_pipeline *p, struct folio *src)
{
	list_move_tail(&src->lru, &p->to_linux);
}

void migrate_pipeline_put_stock(struct migrate_pipeline *p)
{
	struct folio *dst, *next;

	list_for_each_entry_safe(dst, next, &p->dsts, lru)
		migrate_pipeline_put_dst(p, dst);
}

/*
 * To empty the window costs an engine that works on its own some time: so the
 * stock grows. The first one is small, for the sake of the first folio.
 */
static unsigned long pipeline_stock_limit(struct migrate_pipeline *p)
{
	unsigned long most = max(STOCK_MAX_PAGES, p->state->window_pages);

	if (p->engine_idle || p->target || p->call.mapped || !p->stock_pages)
		return max(pipeline_chunk_pages(p), p->flush_pages);
	return min(p->stock_pages * STOCK_GROWTH, most);
}

/* Is nothing unmapped? Then there may be a wait for memory. */
static bool pipeline_may_wait(struct migrate_pipeline *p)
{
	return pipeline_is_empty(p) || p->call.mapped;
}

/* With folios unmapped this does not wait, and may return NULL for that */
static struct folio *pipeline_get_dst(struct migrate_pipeline *p,
				      struct folio *src)
{
	struct folio *dst;
	bool nowait;

	if (pipeline_may_wait(p))
		return p->call.get_new_folio(src, p->call.private);
	nowait = p->target->nowait;
	p->target->nowait = true;
	dst = p->call.get_new_folio(src, p->call.private);
	p->target->nowait = nowait;
	p->starved = !dst;
	return dst;
}

/*
 * Get destinations for the next folios; none is left from before. Return: false
 * if there is nothing more to do, or not as long as folios are unmapped.
 */
bool migrate_pipeline_stock(struct migrate_pipeline *p)
{
	struct folio *src = p->next_src, *next, *dst;
	unsigned int nr_nomem = 0;
	unsigned long pages = 0;
	long pause;

	p->starved = false;
	p->stock_pages = pipeline_stock_limit(p);
	pause = min(p->stock_pages, RESCHED_PAGES);
	list_for_each_entry_safe_from(src, next, p->from, lru) {
		if (pause <= 0) {
			if (pages >= p->stock_pages || pipeline_superseded(p))
				break;
			cond_resched_tasks_rcu_qs();
			pause = min(p->stock_pages - pages, RESCHED_PAGES);
		}
		/* Given up meanwhile: what is written to is unmapped first */
		if (p->call.mapped && !migrate_mapped_fits(src)) {
			list_move_tail(&src->lru, p->call.failed);
			continue;
		}
		dst = NULL;
		/* A hugetlb folio flows only while it is mapped */
		if (migrate_offload_may_unmap(src) ||
		    (p->call.mapped && folio_test_hugetlb(src))) {
			dst = pipeline_get_dst(p, src);
			if (p->starved)
				break;
			nr_nomem += !dst;
		}
		if (likely(dst)) {
			if (!pages) {
				p->next_src = src;
				p->next_dst = dst;
			}
			pipeline_add_dst(p, dst);
			pages += folio_nr_pages(src);
			pause -= folio_nr_pages(src);
			continue;
		}
		/* Linux splits it, or knows that it cannot be moved */
		pipeline_leave(p, src);
		/* That it has no memory took long, or there are many like it */
		pause = 0;
		p->no_memory = nr_nomem == MAX_NOMEM;
		if (p->no_memory)
			break;
	}
	/* More than was wanted, if the folios are large: so does the next grow */
	p->stock_pages = pages;
	if (!pages)
		p->next_src = p->starved ? src :
			      list_entry(p->from, struct folio, lru);
	return pages;
}

/* With folios unmapped only from those who can be asked not to wait, once */
bool migrate_pipeline_can_stock(struct migrate_pipeline *p)
{
	if (p->stop || p->no_memory || pipeline_has_stock(p))
		return false;
	return pipeline_may_wait(p) || (p->target && !p->starved);
}
