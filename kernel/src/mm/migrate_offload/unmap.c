// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first stage of a chunk: unmap or protect its folios, flush the TLB, and give
 * the copies to whoever has the turn. What the engine does not take the CPU copies
 * at once, beside it.
 */
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/rmap.h>
#include <linux/timekeeping.h>
#include <trace/events/migrate_offload.h>

#include "../internal.h"
#include "../migrate_mapped.h"
#include "eligible.h"
#include "hooks.h"
#include "internal.h"
#include "pipeline.h"

/* Is there room for the next folio in a chunk that has so many pages? */
static bool pipeline_may_grow(struct migrate_pipeline *p, unsigned long pages)
{
	return pipeline_has_stock(p) && pages < pipeline_chunk_pages(p) &&
	       pipeline_has_room(p, pages, folio_nr_pages(p->next_src));
}

/*
 * Unmap the next folio, or several in one step, for a chunk that has @pages
 * already; or protect it. Return: how many are now in the @room slots from @slot on;
 * none if the next one cannot be unmapped.
 */
static unsigned int pipeline_unmap_step(struct migrate_pipeline *p,
					struct migrate_slot *slot,
					unsigned int room, unsigned long pages)
{
	struct folio *srcs[MIGRATE_OFFLOAD_STEP], *dsts[MIGRATE_OFFLOAD_STEP];
	unsigned int nr = 0, max = min(migrate_offload_step(), room), i;
	long nr_pages = folio_nr_pages(p->next_src);
	bool thp = folio_is_thp(p->next_src);
	u64 start_ns = 0;
	int done;

	if (p->alone || !migrate_is_in_range(p->next_src))
		max = 1;
	do {
		/* Our reference keeps it from being split since it got its dst */
		VM_WARN_ON_ONCE_FOLIO(folio_order(p->next_src) !=
				      folio_order(p->next_dst), p->next_src);
		srcs[nr] = p->next_src;
		dsts[nr++] = p->next_dst;
		pages += folio_nr_pages(p->next_src);
		p->next_src = list_next_entry(p->next_src, lru);
		p->next_dst = list_next_entry(p->next_dst, lru);
	} while (nr < max && pipeline_may_grow(p, pages));

	if (static_branch_unlikely(&migrate_offload_time_key))
		start_ns = ktime_get_ns();
	done = migrate_offload_unmap(&p->call, srcs, dsts, nr);
	for (i = 0; done > 0 && i < done; i++, slot++) {
		slot->start_ns = start_ns;
		slot->copy.src = srcs[i];
		slot->copy.dst = dsts[i];
	}
	/* What does not fit with others is not tried with them again */
	if (p->alone)
		p->alone--;
	else if (done <= 1)
		p->alone = nr - 1;
	i = max(done, 1);
	if (i < nr) {
		p->next_src = srcs[i];
		p->next_dst = dsts[i];
	}
	if (done > 0)
		return done;

	migrate_pipeline_put_dst(p, dsts[0]);
	if (!done) {
		/* Its last user had gone; it is freed */
		p->nr_succeeded += nr_pages;
		p->nr_thp_succeeded += thp;
	} else {
		list_move_tail(&srcs[0]->lru, p->call.failed);
	}
	return 0;
}

/* Fill the next chunk. Return: how many pages came to be unmapped. */
static unsigned long pipeline_unmap_chunk(struct migrate_pipeline *p)
{
	struct migrate_chunk *chunk = pipeline_chunk(p, p->tail);
	struct migrate_slot *slot = chunk->slots, *end;
	struct migrate_slot *last = slot + p->state->chunk_pages;
	unsigned long pages = 0, before;

	/* Many small folios may come to fewer pages than are wanted */
	while (slot < last && pipeline_may_grow(p, pages)) {
		if (!pages)
			chunk->start_ns = ktime_get_ns();
		before = pages;
		end = slot + pipeline_unmap_step(p, slot, last - slot, pages);
		for (; slot < end; slot++)
			pages += folio_nr_pages(slot->copy.src);
		pipeline_resched(p, max(pages - before, 1UL));
	}
	p->unmapped_pages += pages;
	p->mapped_pages -= min(pages, p->mapped_pages);
	p->stretch.pages += pages;
	p->stretch.pages_left -= min(pages, p->stretch.pages_left);
	chunk->nr_pages = pages;
	chunk->written = false;
	chunk->copied_folios = 0;
	chunk->copied_pages = 0;
	chunk->nr_folios = slot - chunk->slots;
	chunk->unmoved = chunk->slots;
	chunk->window_pages = p->unmapped_pages;
	p->tail += !!pages;
	return pages;
}

/* Nobody waits for the copy of what is mapped: so small folios share larger parts */
static size_t pipeline_stripe(const struct migrate_pipeline *p, size_t size)
{
	size_t stripe = p->state->stripe_bytes;

	if (p->stretch.deep)
		return max_t(size_t, size, SZ_2M);
	if (!p->call.mapped || p->state->m->copies_by_cpu || pipeline_cuts(p, size))
		return stripe;
	return 2 * stripe;
}

/* Return: true if the migrator has taken the copy */
static bool pipeline_submit_folio(struct migrate_pipeline *p,
				  struct migrator *m, struct migrate_copy *copy)
{
	int error;

	if (!migrate_offload_may_copy(m, copy->src)) {
		migrate_offload_count_fallback(copy->src, STAT_FALLBACK_KIND, 0);
		copy->chunk->unfit_pages += folio_nr_pages(copy->src);
		return false;
	}
	/*
	 * Whoever holds an extra reference, such as direct I/O in flight, may
	 * write to the folio. No new one can be made to write unnoticed: it is
	 * unmapped, or protected.
	 */
	if (p->call.mapped ? !migrate_protected_alone(copy->src) :
			     folio_ref_count(copy->src) !=
			     folio_expected_ref_count(copy->src) + 1) {
		migrate_offload_count_fallback(copy->src, STAT_FALLBACK_REFS, 0);
		copy->chunk->unfit_pages += folio_nr_pages(copy->src);
		return false;
	}

	copy->call = p->data;
	copy->stripe_bytes = pipeline_stripe(p, folio_size(copy->src));
	copy->cursor = 0;
	copy->error = 0;
	atomic_set(&copy->parts, 1);
	error = m->submit(m, copy);
	if (error) {
		migrate_offload_count_fallback(copy->src, STAT_FALLBACK_BUSY, error);
		p->engine_full = true;
		/* Out of service: all others would be unmapped for nothing */
		p->stop |= error == -ENODEV;
	}
	/* It had no room for a part of it */
	p->engine_full |= READ_ONCE(copy->error) == -EBUSY;
	return !error;
}

/* The CPU copies what the engine does not take, beside the engine */
static void pipeline_move_refused(struct migrate_pipeline *p,
				  struct migrate_chunk *chunk)
{
	struct migrate_slot *slot, *end = chunk->slots + chunk->nr_folios;

	for (slot = chunk->slots; slot < end; slot++)
		if (!slot->submitted)
			migrate_pipeline_move_folio(p, chunk, slot);
	migrate_offload_settle(&p->call);
}

/* Return: how many folios of the next chunk the migrator does not take */
static int pipeline_submit_chunk(struct migrate_pipeline *p, u64 start_ns)
{
	struct migrate_chunk *chunk = pipeline_chunk(p, p->next);
	struct migrate_slot *slot, *end = chunk->slots + chunk->nr_folios;
	struct migrator *m = p->turn.m;
	bool tell = m->look && READ_ONCE(p->state->waited_ns) > LOOK_NS;
	int nr_refused = 0;

	chunk->m = m;
	chunk->stats = m->stats;
	chunk->nr_ended = atomic_long_read(&m->stats->nr_ended);
	atomic_long_inc(&m->stats->nr_submitted);
	chunk->unfit_pages = 0;
	chunk->disowned = false;
	atomic_set(&chunk->pending, chunk->nr_folios + 1);
	reinit_completion(&chunk->told);
	reinit_completion(&chunk->done);
	for (slot = chunk->slots; slot < end; slot++) {
		slot->copy.tell = tell && slot == end - 1;
		slot->disowned = false;
		slot->submitted = pipeline_submit_folio(p, m, &slot->copy);
		nr_refused += !slot->submitted;
	}
	chunk->tell = tell && end[-1].submitted;
	p->engine_idle = !m->flush(m, p->data);
	/* Another call's chunk may have overtaken it until now */
	chunk->nr_before = atomic_long_read(&m->stats->nr_submitted) - 1;
	chunk->lost_ns = ktime_get_ns() - start_ns;
	migrate_pipeline_set_deadline(p, chunk);
	trace_migrate_offload_submit(m->name, p->next, chunk->nr_folios,
				     chunk->nr_pages, p->unmapped_pages,
				     p->quota);
	migrate_chunk_put(chunk, nr_refused + 1);
	p->next++;
	migrate_offload_count_window(p->unmapped_pages);
	return nr_refused;
}

/* A flush is as dear to the next call */
static void pipeline_set_flush_pages(struct migrate_pipeline *p,
				     unsigned long pages)
{
	p->flush_pages = pages;
	WRITE_ONCE(p->state->flush_pages, pages);
}

/*
 * Until now other CPUs could write to @pages through stale TLB entries. Return:
 * what time it is.
 */
static u64 pipeline_flush(struct migrate_pipeline *p, unsigned long pages)
{
	u64 unmap_ns = pipeline_chunk(p, p->next)->start_ns;
	u64 flush_ns = ktime_get_ns(), end_ns;

	try_to_unmap_flush();
	end_ns = ktime_get_ns();
	/* What is protected is not unmapped for it, so there is nothing to weigh */
	if (p->engine_small || p->call.mapped)
		return end_ns;
	pages = migrate_offload_flush_pages(p->state, pages, p->flush_pages,
					    flush_ns - unmap_ns,
					    end_ns - flush_ns);
	pipeline_set_flush_pages(p, pages);
	return end_ns;
}

bool migrate_pipeline_can_unmap(struct migrate_pipeline *p)
{
	unsigned long least = 0;

	/* Who unregisters the migrator waits for this window only */
	p->stop |= pipeline_superseded(p) ||
		   atomic_long_read(&p->state->m->stats->overdue);
	if (p->stop || !pipeline_has_stock(p))
		return false;
	/* What the engine has no room for would be inaccessible for nothing */
	if (p->engine_full || p->tail - p->head == p->state->nr_chunks)
		return false;
	if (!migrate_pipeline_take_stretch(p))
		return false;
	/* Nor is it worth a flush to fill every gap of the window */
	if (p->next == p->tail)
		least = max(pipeline_chunk_pages(p), p->flush_pages) / 2;
	return pipeline_has_room(p, 0, max(folio_nr_pages(p->next_src), least)) &&
	       migrate_pipeline_take_turn(p);
}

/* Unmap, flush the TLB, submit: a chunk, or as many as should share a flush */
void migrate_pipeline_advance(struct migrate_pipeline *p)
{
	unsigned int first = p->next;
	unsigned long pages = 0, more;
	int nr_refused;

	do {
		more = pipeline_unmap_chunk(p);
		pages += more;
	} while (more && pages < p->flush_pages && migrate_pipeline_can_unmap(p));
	if (!pages)
		return;
	nr_refused = pipeline_submit_chunk(p, pipeline_flush(p, pages));
	while (p->next != p->tail)
		nr_refused += pipeline_submit_chunk(p, ktime_get_ns());
	if (p->engine_full && p->next - first > 1) {
		p->engine_small = true;
		pipeline_set_flush_pages(p, 0);
	}
	for (; nr_refused && first != p->next; first++)
		pipeline_move_refused(p, pipeline_chunk(p, first));
}
