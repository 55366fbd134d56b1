/* SPDX-License-Identifier: GPL-2.0 */
/* As much of the kernel as the driver's files need, in user space. See model.c. */
#ifndef MODEL_SHIM_H
#define MODEL_SHIM_H

#define _GNU_SOURCE
#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef uint8_t u8;
typedef unsigned int gfp_t;
typedef struct { int counter; } atomic_t;
typedef struct { long counter; } atomic_long_t;

#define GFP_KERNEL	0
#define NUMA_NO_NODE	(-1)
#define EINVAL		22
#define ENOMEM		12
#define PAGE_SIZE	4096UL
#define SZ_1G		0x40000000UL
#define __percpu
#define __init
#define noinline	__attribute__((noinline))
#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define __releases(lock)
#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))
#define min_t(t, a, b)	((t)(a) < (t)(b) ? (t)(a) : (t)(b))
#define min(a, b)	((a) < (b) ? (a) : (b))
#define max(a, b)	((a) > (b) ? (a) : (b))
#define ilog2(n)	(31 - __builtin_clz(n))
#define hweight_long	__builtin_popcountl
#define __ffs		__builtin_ctzl
#define FIELD_PREP(mask, val)	((int)((unsigned int)(val) << __builtin_ctz(mask)))
#define FIELD_GET(mask, val)	(((unsigned int)(val) & (mask)) >> __builtin_ctz(mask))
#define IS_ALIGNED(x, a)	(!((x) & ((a) - 1)))
#define ALIGN(x, a)	(((x) + (a) - 1) & ~((a) - 1))
#define container_of(p, t, m)	((t *)((char *)(p) - offsetof(t, m)))
#define WARN_ON_ONCE(x)	({ bool w_ = (x); assert(!w_); w_; })
#define VM_WARN_ON_ONCE(x)	WARN_ON_ONCE(x)
#define READ_ONCE(x)	__atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define WRITE_ONCE(x, v)	__atomic_store_n(&(x), v, __ATOMIC_RELEASE)
#define smp_rmb()	do { } while (0)	/* all loads acquire here */

static inline u64 hash_64(u64 v, unsigned int bits)
{
	return v * 0x61C8864680B583EBull >> (64 - bits);
}

/* Atomics; now and then another thread runs before one: that is where races are. */
void maybe_yield(void);

#define atomic_read(a)		__atomic_load_n(&(a)->counter, __ATOMIC_SEQ_CST)
#define atomic_long_read	atomic_read
#define atomic_set(a, v)	__atomic_store_n(&(a)->counter, v, __ATOMIC_SEQ_CST)
#define atomic_inc(a)		__atomic_add_fetch(&(a)->counter, 1, __ATOMIC_SEQ_CST)
#define atomic_dec(a)		__atomic_sub_fetch(&(a)->counter, 1, __ATOMIC_SEQ_CST)
#define atomic_long_inc		atomic_inc
#define atomic_long_sub(v, a)	__atomic_sub_fetch(&(a)->counter, v, __ATOMIC_SEQ_CST)
#define atomic_add_negative(v, a) (maybe_yield(), __atomic_add_fetch(&(a)->counter, v, __ATOMIC_SEQ_CST) < 0)
#define atomic_sub_and_test(v, a) (maybe_yield(), !__atomic_sub_fetch(&(a)->counter, v, __ATOMIC_SEQ_CST))
#define atomic_andnot(v, a)	(maybe_yield(), __atomic_and_fetch(&(a)->counter, ~(v), __ATOMIC_SEQ_CST))
#define atomic_fetch_andnot(v, a) (maybe_yield(), \
	__atomic_fetch_and(&(a)->counter, ~(v), __ATOMIC_SEQ_CST))
#define atomic_xchg(a, v)	__atomic_exchange_n(&(a)->counter, v, __ATOMIC_SEQ_CST)
#define atomic_try_cmpxchg(a, old, new) (maybe_yield(), \
	__atomic_compare_exchange_n(&(a)->counter, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define try_cmpxchg64(p, old, new) (maybe_yield(), \
	__atomic_compare_exchange_n(p, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))

/* Lists */
struct list_head { struct list_head *next, *prev; };

#define LIST_HEAD(name)		struct list_head name = { &(name), &(name) }
#define list_entry		container_of
#define list_for_each_entry(p, head, m) \
	for (p = container_of((head)->next, typeof(*p), m); &p->m != (head); \
	     p = container_of(p->m.next, typeof(*p), m))
#define list_for_each_entry_safe(p, n, head, m) \
	for (p = container_of((head)->next, typeof(*p), m), n = container_of(p->m.next, typeof(*p), m); \
	     &p->m != (head); p = n, n = container_of(n->m.next, typeof(*p), m))
#define list_first_entry_or_null(head, t, m) \
	(list_empty(head) ? NULL : container_of((head)->next, t, m))

static inline void INIT_LIST_HEAD(struct list_head *l) { l->next = l->prev = l; }
static inline bool list_empty(const struct list_head *l) { return l->next == l; }
static inline void list_insert_(struct list_head *e, struct list_head *p, struct list_head *n)
{
	n->prev = e; e->next = n; e->prev = p; p->next = e;
}
static inline void list_add(struct list_head *e, struct list_head *h) { list_insert_(e, h, h->next); }
static inline void list_add_tail(struct list_head *e, struct list_head *h) { list_insert_(e, h->prev, h); }
static inline void list_del(struct list_head *e) { e->prev->next = e->next; e->next->prev = e->prev; }
static inline void list_splice_at_(struct list_head *l, struct list_head *p, struct list_head *n)
{
	if (list_empty(l))
		return;
	l->next->prev = p; p->next = l->next; l->prev->next = n; n->prev = l->prev;
	INIT_LIST_HEAD(l);
}
static inline void list_splice_init(struct list_head *l, struct list_head *h) { list_splice_at_(l, h, h->next); }
static inline void list_splice_tail_init(struct list_head *l, struct list_head *h) { list_splice_at_(l, h->prev, h); }
static inline void list_splice_tail(struct list_head *l, struct list_head *h) { list_splice_at_(l, h->prev, h); }
static inline void list_cut_position(struct list_head *to, struct list_head *from, struct list_head *last)
{
	INIT_LIST_HEAD(to);
	if (last == from)
		return;
	to->next = from->next; to->next->prev = to; to->prev = last;
	from->next = last->next; from->next->prev = from; last->next = to;
}

/* Locks; a grace period is the taking of a lock that all readers share. */
typedef pthread_mutex_t spinlock_t;
#define spin_lock_init(l)	pthread_mutex_init(l, NULL)
#define spin_lock_irqsave(l, f)	((void)((f) = 0), pthread_mutex_lock(l))
#define spin_unlock_irqrestore(l, f) ((void)(f), pthread_mutex_unlock(l))
#define spin_lock_irq		pthread_mutex_lock
#define spin_unlock_irq		pthread_mutex_unlock
#define DEFINE_MUTEX(m)		pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER
#define mutex_lock		pthread_mutex_lock
#define mutex_unlock		pthread_mutex_unlock
#define mutex_trylock(m)	(!pthread_mutex_trylock(m))

struct rcu_head { struct list_head node; void (*func)(struct rcu_head *rcu); };

void rcu_read_lock(void);
void rcu_read_unlock(void);
void call_rcu(struct rcu_head *rcu, void (*func)(struct rcu_head *rcu));
void rcu_barrier(void);

/* A thread is a CPU. */
#define NR_MODEL_CPUS	16
extern __thread int model_cpu;

#define alloc_percpu(t)		((t *)calloc(NR_MODEL_CPUS, sizeof(t)))
#define free_percpu		free
#define per_cpu_ptr(p, cpu)	((p) + (cpu))
#define raw_cpu_ptr(p)		((p) + model_cpu)
#define DECLARE_PER_CPU(t, n)	extern __thread t n
#define DEFINE_PER_CPU(t, n)	__thread t n
#define this_cpu_add(v, n)	((v) += (n))
#define this_cpu_inc(v)		((v)++)
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < NR_MODEL_CPUS; (cpu)++)
#define for_each_set_bit(i, p, n) for ((i) = 0; (i) < (n); (i)++) if (*(p) & BIT(i))

#define kzalloc(size, gfp)	calloc(1, size)
#define kfree			free

/* Pages */
struct page { struct list_head lru; atomic_t pt_frag_refcount; bool free; };

#define page_ptdesc(p)		(p)
struct page *pfn_to_page(unsigned long pfn);
struct page *virt_to_page(const void *virt);
void *page_address(struct page *page);
u64 page_to_phys(struct page *page);
void *phys_to_virt(u64 phys);
void *iommu_alloc_page_node(int nid, gfp_t gfp);
void __iommu_free_pages(struct page *page, int order);
#define clear_page(p)		memset(p, 0, PAGE_SIZE)
static inline void *memchr_inv(const void *p, int c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const u8 *)p)[i] != (u8)c)
			return (void *)((const u8 *)p + i);
	return NULL;
}

/* The driver's own header */
#define VTD_PAGE_SHIFT	12
#define VTD_PAGE_SIZE	(1UL << VTD_PAGE_SHIFT)
#define VTD_PAGE_MASK	((u64)-1 << VTD_PAGE_SHIFT)
#define VTD_STRIDE_SHIFT 9
#define VTD_STRIDE_MASK	((u64)-1 << VTD_STRIDE_SHIFT)
#define LEVEL_STRIDE	9
#define DMA_PTE_READ	1ULL
#define DMA_PTE_WRITE	2ULL
#define DMA_PTE_LARGE_PAGE BIT_ULL(7)
#define DMA_FL_PTE_US	BIT_ULL(2)
#define DMA_FL_PTE_ACCESS BIT_ULL(5)

struct dma_pte { u64 val; };
struct iommu_domain { int type; };
struct iommu_iotlb_gather {
	unsigned long start, end;
	size_t pgsize;
	struct list_head freelist;
	bool queued;
};
struct dmar_domain {
	int nid;
	bool iommu_coherency, use_first_level;
	struct empty_tables *empty_tables;
	struct dma_pte *pgd;
	int agaw, gaw;
	u64 max_addr;
	struct iommu_domain domain;
};

#define dma_pte_present(p)	(((p)->val & 3) != 0)
#define dma_pte_superpage(p)	((p)->val & DMA_PTE_LARGE_PAGE)
#define dma_pte_addr(p)		((p)->val & VTD_PAGE_MASK)
#define first_pte_in_page(p)	IS_ALIGNED((unsigned long)(p), VTD_PAGE_SIZE)
#define nr_pte_to_next_page(p) \
	(first_pte_in_page(p) ? 512 : \
	 (int)((struct dma_pte *)ALIGN((unsigned long)(p), VTD_PAGE_SIZE) - (p)))
#define agaw_to_level(agaw)	((agaw) + 2)
#define level_to_offset_bits(level) (((level) - 1) * LEVEL_STRIDE)
#define pfn_level_offset(pfn, level) ((int)((pfn) >> level_to_offset_bits(level) & 511))
#define level_mask(level)	((u64)-1 << level_to_offset_bits(level))
#define level_size(level)	(1UL << level_to_offset_bits(level))
#define clflush_cache_range(addr, size)	((void)(addr), (void)(size))
#define iommu_iotlb_gather_queued(g) ((g)->queued)
void iommu_iotlb_gather_add_page(struct iommu_domain *domain, struct iommu_iotlb_gather *gather,
				 unsigned long iova, size_t size);
void cache_tag_flush_range(struct dmar_domain *domain, unsigned long start, unsigned long end, int ih);

/* What is not modelled */
#define TRACE_EVENT(name, proto, ...)	static inline void trace_##name(proto) { }
#define TP_PROTO(...)	__VA_ARGS__
struct shrink_control;
struct shrinker {
	unsigned long (*count_objects)(struct shrinker *s, struct shrink_control *sc);
	unsigned long (*scan_objects)(struct shrinker *s, struct shrink_control *sc);
};
#define SHRINK_EMPTY	(~0UL - 1)
#define SHRINK_STOP	(~0UL)
#define shrinker_alloc(...)	((struct shrinker *)calloc(1, sizeof(struct shrinker)))
#define shrinker_register(s)	free(s)
struct seq_file { int unused; };
#define seq_printf(m, ...)	printf(__VA_ARGS__)
#define DEFINE_SHOW_ATTRIBUTE(name) \
	int name##_fops(struct seq_file *m); \
	int name##_fops(struct seq_file *m) { return name##_show(m, NULL); }
#define debugfs_create_file(...) ((void)0)
#define late_initcall(fn)	void model_##fn(void); void model_##fn(void) { (void)fn(); }

#endif
