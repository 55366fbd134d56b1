// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: whose channels may copy pages
 *
 * A driver that reports no result has success reported for it by dmaengine; one
 * that sleeps in prep does so while folios are unmapped. Only a driver that says
 * of itself that it does neither, by &dma_device.reports_errors, is used, or one
 * that the administrator answers for. The channels of a slave controller would be
 * missing elsewhere.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/string.h>

#include "dcbm.h"

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
 * dcbm_trusts - is the result of each copy of a device to be relied on?
 * @device: of dmaengine; its device has a driver
 * @allow: names of drivers that the administrator answers for, or NULL
 *
 * Return: true if the driver promises it, or the administrator does.
 */
bool dcbm_trusts(const struct dma_device *device, const char *allow)
{
	return device->reports_errors ||
	       dcbm_listed(allow, device->dev->driver->name);
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
	else if (!dcbm_trusts(chan->device, dcbm_allow))
		*why = "it does not set reports_errors; dcbm.allow=DRIVER uses it at your own risk";
	if (!*why && dcbm_bounces(dmaengine_get_dma_device(chan)))
		*why = "what it copies would go through bounce buffers";
	return !*why;
}
