/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A benchmark and a stress test of iommu_map() and iommu_unmap(), for any IOMMU
 * driver. It takes QEMU's edu device for itself.
 */
#ifndef IOMMU_BENCH_H
#define IOMMU_BENCH_H

#include <linux/completion.h>
#include <linux/iommu.h>
#include <linux/pci.h>
#include <linux/sizes.h>

#define MAX_THREADS	64
#define PROT		(IOMMU_READ | IOMMU_WRITE)

struct bench {
	struct pci_dev *pdev;
	void __iomem *regs;
	struct iommu_domain *domain;
	struct page *target;	/* 4 MiB: what is mapped */
	phys_addr_t target_phys;
};

struct result {
	u64 pairs;
	u64 ns;
	u64 errors;
	u64 transfers;
	u64 unmapped;		/* transfers to where nothing is mapped */
	u64 freed;
};

/* A run of all threads: each calls fn with its number, they start together. */
struct crew {
	struct bench *bench;
	const void *work;
	unsigned int nr;
	u64 pairs;		/* of each thread */
	u64 (*fn)(struct crew *crew, unsigned int number);	/* errors */
	struct completion start;
	struct completion done;
	atomic_t left;
	atomic64_t errors;
	bool stop;
	void *shadow;
};

int device_open(struct bench *bench);
void device_close(struct bench *bench);

int crew_run(struct crew *crew, struct result *result);
int crew_start(struct crew *crew);
void crew_finish(struct crew *crew, struct result *result);

int workload_run(struct bench *bench, const char *name, unsigned int threads,
		 u64 pairs, struct result *result);
int api_run(struct bench *bench, const char *name, unsigned int threads, u64 pairs,
	    struct result *result);
int stress_run(struct bench *bench, const char *name, unsigned int threads,
	       u64 pairs, struct result *result);
int stress_start(struct crew *crew);
void stress_finish(struct crew *crew, struct result *result);
/* A page of the window, by its index; both return the number of errors. */
u64 stress_map(struct crew *crew, unsigned int page, phys_addr_t physical);
u64 stress_unmap(struct crew *crew, unsigned int page);
int dma_run(struct bench *bench, const char *name, unsigned int threads,
	    u64 pairs, struct result *result);

/* The stress test's threads own pages by their index; dma_run() is one more. */
#define STRESS_IOVA	SZ_4G
#define STRESS_TABLES	4
#define STRESS_PAGES	(STRESS_TABLES * 512)

#endif
