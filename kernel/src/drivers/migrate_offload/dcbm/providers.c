// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: whose channels may copy pages
 *
 * dmaengine asks little of its drivers. A driver that reports no result has
 * success reported for it; one that sleeps in prep does so while folios are
 * unmapped; the channels of a slave controller are missing elsewhere. So each
 * driver in this table was read, as of Linux 6.12. One that is not in it is not
 * used, unless the administrator answers for it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/string.h>

#include "dcbm.h"

/**
 * struct dcbm_provider - a dmaengine driver that was read
 * @driver: its name
 * @good: a failed copy is reported as such, and preparing never sleeps
 * @why: what decided
 */
struct dcbm_provider {
	const char *driver;
	bool good;
	const char *why;
};

static const struct dcbm_provider dcbm_providers[] = {
	{ "plx_dma", true, "success, length and error are written back per descriptor" },
	{ "ptdma", true, "reports each descriptor since it was mended with this driver" },
	{ "softdma", true, "reports every fault; for tests" },

	{ "bcm-sba-raid", false, "reports no result" },
	{ "ccp", false, "knows of an error and reports no result" },
	{ "fsl-qdma", false, "waits up to 100 ms for a descriptor in prep" },
	{ "hidma", false, "may sleep in submit, to resume its device" },
	{ "hisi_dma", false, "never ends a copy that failed" },
	{ "ioatdma", false, "its watchdog drops what it was stuck at without a word" },
	{ "idxd", false, "sleeps in prep; a queue that is unbound takes its channel along" },
	{ "mv_xor", false, "reports no result" },
	{ "mv_xor_v2", false, "reports no result" },
	{ "sf-pdma", false, "reports no result when it has given up" },
	{ "xilinx-zynqmp-dma", false, "completes what was queued at an error without a result" },
};

/* Is @name one of the words of @list, which commas separate? */
static bool dcbm_listed(const char *list, const char *name)
{
	size_t len = strlen(name), word;

	while (list && *list) {
		word = strcspn(list, ",");
		if (len && word == len && !strncmp(list, name, len))
			return true;
		list += word;
		list += *list == ',';
	}
	return false;
}

/**
 * dcbm_refuses - may a driver's channels copy pages?
 * @driver: its name
 * @allow: names of others that the administrator answers for, or NULL
 *
 * Return: NULL if they may, else the reason.
 */
const char *dcbm_refuses(const char *driver, const char *allow)
{
	const struct dcbm_provider *p = dcbm_providers;

	for (; p < dcbm_providers + ARRAY_SIZE(dcbm_providers); p++)
		if (!strcmp(p->driver, driver))
			return p->good ? NULL : p->why;
	if (dcbm_listed(allow, driver))
		return NULL;
	return "not known to report errors; dcbm.allow=DRIVER uses it at your own risk";
}

/*
 * An untrusted device, one that cannot reach all memory, and any device of a
 * confidential guest: then the CPU copies twice what the engine copies once,
 * and the source not safe from machine checks.
 */
static bool dcbm_bounces(struct device *dev)
{
	return dma_max_mapping_size(dev) != SIZE_MAX;
}

/**
 * dcbm_may_use - may this channel copy pages?
 * @chan: a channel that can copy memory
 * @why: set to what the log should say of its device; NULL: not worth a word
 *
 * Return: true or false.
 */
bool dcbm_may_use(struct dma_chan *chan, const char **why)
{
	struct device *dev = chan->device->dev;

	*why = NULL;
	/* Somebody's audio or UART */
	if (dma_has_cap(DMA_SLAVE, chan->device->cap_mask) ||
	    dma_has_cap(DMA_CYCLIC, chan->device->cap_mask))
		return false;
	if (!dev->driver)
		*why = "it has no driver of its own";
	else if (!dcbm_hears_of_unbind(dev))
		*why = "its bus is not one that dcbm watches for drivers that leave";
	else
		*why = dcbm_refuses(dev->driver->name, dcbm_allow);
	if (!*why && dcbm_bounces(dmaengine_get_dma_device(chan)))
		*why = "what it copies would go through bounce buffers";
	return !*why;
}
