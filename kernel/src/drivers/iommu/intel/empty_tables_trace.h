/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM intel_iommu_tables

#if !defined(_INTEL_IOMMU_EMPTY_TABLES_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _INTEL_IOMMU_EMPTY_TABLES_TRACE_H

#include <linux/tracepoint.h>

/* A table became empty, or a whole range over it was unmapped: it is freed. */
TRACE_EVENT(table_dies,
	TP_PROTO(const void *domain, unsigned long pfn, int level),

	TP_ARGS(domain, pfn, level),

	TP_STRUCT__entry(
		__field(const void *, domain)
		__field(u64, iova)
		__field(int, level)
	),

	TP_fast_assign(
		__entry->domain = domain;
		__entry->iova = (u64)pfn << 12;
		__entry->level = level;
	),

	TP_printk("domain=%p iova=0x%llx level=%d",
		  __entry->domain, __entry->iova, __entry->level)
);

#endif /* _INTEL_IOMMU_EMPTY_TABLES_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH ../../drivers/iommu/intel/
#define TRACE_INCLUDE_FILE empty_tables_trace
#include <trace/define_trace.h>
