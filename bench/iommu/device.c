// SPDX-License-Identifier: GPL-2.0
/* QEMU's edu device in a domain of its own. */
#include <linux/dma-mapping.h>

#include "iommu_bench.h"

#define EDU_VENDOR	0x1234
#define EDU_DEVICE	0x11e8
#define TARGET_ORDER	get_order(SZ_4M)

int device_open(struct bench *bench)
{
	struct pci_dev *pdev = pci_get_device(EDU_VENDOR, EDU_DEVICE, NULL);
	int ret = -ENODEV;

	if (!pdev) {
		pr_err("iommu_bench: no edu device: start QEMU with -device edu\n");
		return ret;
	}
	ret = pci_enable_device(pdev);
	if (ret)
		goto put;
	pci_set_master(pdev);
	ret = dma_set_mask(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		goto disable;
	ret = -ENOMEM;
	bench->regs = pci_ioremap_bar(pdev, 0);
	if (!bench->regs)
		goto disable;
	bench->target = alloc_pages(GFP_KERNEL | __GFP_ZERO, TARGET_ORDER);
	if (!bench->target)
		goto unmap;
	bench->target_phys = page_to_phys(bench->target);
	bench->domain = iommu_paging_domain_alloc(&pdev->dev);
	if (IS_ERR(bench->domain)) {
		ret = PTR_ERR(bench->domain);
		goto free;
	}
	ret = iommu_attach_device(bench->domain, &pdev->dev);
	if (ret)
		goto free_domain;
	bench->pdev = pdev;
	return 0;

free_domain:
	iommu_domain_free(bench->domain);
free:
	__free_pages(bench->target, TARGET_ORDER);
unmap:
	iounmap(bench->regs);
disable:
	pci_disable_device(pdev);
put:
	pci_dev_put(pdev);
	return ret;
}

void device_close(struct bench *bench)
{
	struct pci_dev *pdev = bench->pdev;

	iommu_detach_device(bench->domain, &pdev->dev);
	iommu_domain_free(bench->domain);
	__free_pages(bench->target, TARGET_ORDER);
	iounmap(bench->regs);
	pci_disable_device(pdev);
	pci_dev_put(pdev);
}
