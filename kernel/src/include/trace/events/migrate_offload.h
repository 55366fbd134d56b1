/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM migrate_offload

#if !defined(_TRACE_MIGRATE_OFFLOAD_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_MIGRATE_OFFLOAD_H

#include <linux/mm.h>
#include <linux/tracepoint.h>

TRACE_DEFINE_ENUM(STAT_FALLBACK_KIND);
TRACE_DEFINE_ENUM(STAT_FALLBACK_REFS);
TRACE_DEFINE_ENUM(STAT_FALLBACK_BUSY);
TRACE_DEFINE_ENUM(STAT_FALLBACK_ERROR);

#define show_migrate_offload_cause(cause)			\
	__print_symbolic(cause,					\
		{ STAT_FALLBACK_KIND,	"kind" },		\
		{ STAT_FALLBACK_REFS,	"refs" },		\
		{ STAT_FALLBACK_BUSY,	"busy" },		\
		{ STAT_FALLBACK_ERROR,	"error" })

/* A call of migrate_pages() uses a migrator */
TRACE_EVENT(migrate_offload_begin,

	TP_PROTO(const char *migrator, int reason),

	TP_ARGS(migrator, reason),

	TP_STRUCT__entry(
		__string(migrator, migrator)
		__field(int, reason)
	),

	TP_fast_assign(
		__assign_str(migrator);
		__entry->reason = reason;
	),

	TP_printk("migrator=%s reason=%d", __get_str(migrator), __entry->reason)
);

/* Its last window is closed; nr_succeeded is in base pages */
TRACE_EVENT(migrate_offload_end,

	TP_PROTO(const char *migrator, int reason, int nr_succeeded),

	TP_ARGS(migrator, reason, nr_succeeded),

	TP_STRUCT__entry(
		__string(migrator, migrator)
		__field(int, reason)
		__field(int, nr_succeeded)
	),

	TP_fast_assign(
		__assign_str(migrator);
		__entry->reason = reason;
		__entry->nr_succeeded = nr_succeeded;
	),

	TP_printk("migrator=%s reason=%d nr_succeeded=%d",
		  __get_str(migrator), __entry->reason, __entry->nr_succeeded)
);

/*
 * migrator: who copies the chunk; window_pages: unmapped at this moment, this
 * chunk included; quota: how much may be
 */
DECLARE_EVENT_CLASS(migrate_offload_chunk,

	TP_PROTO(const char *migrator, unsigned int chunk,
		 unsigned int nr_folios, unsigned long nr_pages,
		 unsigned long window_pages, unsigned long quota),

	TP_ARGS(migrator, chunk, nr_folios, nr_pages, window_pages, quota),

	TP_STRUCT__entry(
		__string(migrator, migrator)
		__field(unsigned int, chunk)
		__field(unsigned int, nr_folios)
		__field(unsigned long, nr_pages)
		__field(unsigned long, window_pages)
		__field(unsigned long, quota)
	),

	TP_fast_assign(
		__assign_str(migrator);
		__entry->chunk = chunk;
		__entry->nr_folios = nr_folios;
		__entry->nr_pages = nr_pages;
		__entry->window_pages = window_pages;
		__entry->quota = quota;
	),

	TP_printk("migrator=%s chunk=%u nr_folios=%u nr_pages=%lu window_pages=%lu quota=%lu",
		  __get_str(migrator), __entry->chunk, __entry->nr_folios, __entry->nr_pages,
		  __entry->window_pages, __entry->quota)
);

/* The chunk is unmapped and its copies are with the migrator */
DEFINE_EVENT(migrate_offload_chunk, migrate_offload_submit,
	TP_PROTO(const char *migrator, unsigned int chunk,
		 unsigned int nr_folios, unsigned long nr_pages,
		 unsigned long window_pages, unsigned long quota),
	TP_ARGS(migrator, chunk, nr_folios, nr_pages, window_pages, quota));

/* All its copies are complete; its folios are about to be remapped */
DEFINE_EVENT(migrate_offload_chunk, migrate_offload_remap,
	TP_PROTO(const char *migrator, unsigned int chunk,
		 unsigned int nr_folios, unsigned long nr_pages,
		 unsigned long window_pages, unsigned long quota),
	TP_ARGS(migrator, chunk, nr_folios, nr_pages, window_pages, quota));

/* A folio is not copied by the engine */
TRACE_EVENT(migrate_offload_fallback,

	TP_PROTO(struct folio *src, int cause, int error),

	TP_ARGS(src, cause, error),

	TP_STRUCT__entry(
		__field(unsigned long, pfn)
		__field(unsigned int, order)
		__field(int, cause)
		__field(int, error)
	),

	TP_fast_assign(
		__entry->pfn = folio_pfn(src);
		__entry->order = folio_order(src);
		__entry->cause = cause;
		__entry->error = error;
	),

	TP_printk("pfn=0x%lx order=%u cause=%s error=%d", __entry->pfn,
		  __entry->order, show_migrate_offload_cause(__entry->cause),
		  __entry->error)
);

#endif /* _TRACE_MIGRATE_OFFLOAD_H */

#include <trace/define_trace.h>
