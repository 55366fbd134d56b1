/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module parameters of softdma, most of them faults; part of softdma.c
 *
 * Faults are injected into every n-th descriptor that is prepared on any
 * channel, counted from the moment n is written to <fault>_every;
 * <fault>_injected counts them. All are off by default.
 *
 * read_error	the copy fails half way; the destination is left with new,
 *		wrong and old bytes
 * write_error	the same, reported as a failed write
 * residue	the same, reported as a success that left half of the bytes
 * lost_irq	all is copied, but nobody is told until stall_release is written;
 *		the channel is blocked meanwhile
 * stall	nothing is copied until stall_release is written; the channel
 *		is blocked meanwhile
 * late		nothing is copied for late_ms; then all is
 * swap		the descriptor completes after the one behind it; counts only
 *		those that have one behind them when their turn comes. While
 *		on, the devices declare DMA_COMPLETION_NO_ORDER
 * prep_null	preparing fails
 * ring_full	preparing fails until the channel completes a descriptor
 */
#ifndef _SOFTDMA_PARAMS_H
#define _SOFTDMA_PARAMS_H

#include <linux/atomic.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/sysfs.h>
#include <linux/wait.h>

#define SOFTDMA_MAX_CHANNELS	64
#define SOFTDMA_MAX_RING	4096

/* What a device is made of; its platform data */
struct softdma_config {
	unsigned int channels;
	unsigned int ring;
	bool private;
	bool reports_errors;
	bool lists;
};

static struct softdma_config softdma_config = {
	.channels = 4,
	.ring = 64,
	.private = true,
	.reports_errors = true,
	.lists = true,
};
module_param_named(channels, softdma_config.channels, uint, 0444);
MODULE_PARM_DESC(channels, "channels per device, 1 to 64 (default 4)");
module_param_named(ring, softdma_config.ring, uint, 0444);
MODULE_PARM_DESC(ring, "descriptors per channel, 1 to 4096 (default 64)");
module_param_named(private, softdma_config.private, bool, 0444);
MODULE_PARM_DESC(private, "private channels, to be requested one by one; else public ones (default Y)");
module_param_named(reports_errors, softdma_config.reports_errors, bool, 0444);
MODULE_PARM_DESC(reports_errors, "say what is true, that clients can rely on each result (default Y)");
module_param_named(lists, softdma_config.lists, bool, 0444);
MODULE_PARM_DESC(lists, "copy several buffers by one descriptor, if asked to (default Y)");

static bool softdma_per_node;
module_param_named(per_node, softdma_per_node, bool, 0444);
MODULE_PARM_DESC(per_node, "one device on each node with memory; else one device that is on no node (default N)");

static unsigned int softdma_mbps;
module_param_named(mbps, softdma_mbps, uint, 0644);
MODULE_PARM_DESC(mbps, "modelled bandwidth of a channel in 10^6 bytes per second; 0 is as fast as the CPU (default 0)");

static unsigned int softdma_latency_ns;
module_param_named(latency_ns, softdma_latency_ns, uint, 0644);
MODULE_PARM_DESC(latency_ns, "modelled time per descriptor in nanoseconds, for each of its buffers, added to that of its bytes (default 0)");

/* How long a copy takes, be the CPU ever so fast */
static ktime_t softdma_copy_time(size_t len, unsigned int buffers)
{
	unsigned int mbps = READ_ONCE(softdma_mbps);
	u64 ns = (u64)READ_ONCE(softdma_latency_ns) * buffers;

	if (mbps)
		ns += div_u64((u64)len * 1000, mbps);
	return ns_to_ktime(ns);
}

/* --- faults --- */

enum softdma_fault_id {
	SOFTDMA_READ_ERROR,
	SOFTDMA_WRITE_ERROR,
	SOFTDMA_RESIDUE,
	SOFTDMA_LOST_IRQ,
	SOFTDMA_STALL,
	SOFTDMA_LATE,
	SOFTDMA_SWAP,
	SOFTDMA_PREP_NULL,
	SOFTDMA_RING_FULL,
	SOFTDMA_NR_FAULTS,
};

struct softdma_fault {
	unsigned int every;
	atomic_t seen;
	atomic_t injected;
};

static struct softdma_fault softdma_faults[SOFTDMA_NR_FAULTS];

/* What stalls in one epoch is released by the next */
static atomic_t softdma_stall_epoch;
static DECLARE_WAIT_QUEUE_HEAD(softdma_unstall);

static unsigned int softdma_late_ms = 1000;

static void softdma_order_changed(void);

static bool softdma_inject(enum softdma_fault_id id)
{
	struct softdma_fault *fault = &softdma_faults[id];
	unsigned int every = READ_ONCE(fault->every);

	if (!every || (unsigned int)atomic_inc_return(&fault->seen) % every)
		return false;
	atomic_inc(&fault->injected);
	return true;
}

static void softdma_set_fault(struct softdma_fault *fault, unsigned int every)
{
	WRITE_ONCE(fault->every, 0);
	atomic_set(&fault->seen, 0);
	WRITE_ONCE(fault->every, every);
	if (fault == &softdma_faults[SOFTDMA_SWAP])
		softdma_order_changed();
}

static int softdma_stall_now(void)
{
	return atomic_read(&softdma_stall_epoch);
}

static bool softdma_unstalled(int epoch)
{
	return epoch != atomic_read(&softdma_stall_epoch);
}

static void softdma_release_stalled(void)
{
	atomic_inc(&softdma_stall_epoch);
	wake_up_all(&softdma_unstall);
}

static int softdma_every_set(const char *val, const struct kernel_param *kp)
{
	unsigned int every;
	int err;

	err = kstrtouint(val, 0, &every);
	if (!err)
		softdma_set_fault(kp->arg, every);
	return err;
}

static int softdma_every_get(char *buf, const struct kernel_param *kp)
{
	struct softdma_fault *fault = kp->arg;

	return sysfs_emit(buf, "%u\n", fault->every);
}

static int softdma_injected_get(char *buf, const struct kernel_param *kp)
{
	struct softdma_fault *fault = kp->arg;

	return sysfs_emit(buf, "%d\n", atomic_read(&fault->injected));
}

static int softdma_release_set(const char *val, const struct kernel_param *kp)
{
	softdma_release_stalled();
	return 0;
}

static const struct kernel_param_ops softdma_every_ops = {
	.set = softdma_every_set,
	.get = softdma_every_get,
};

static const struct kernel_param_ops softdma_injected_ops = {
	.get = softdma_injected_get,
};

static const struct kernel_param_ops softdma_release_ops = {
	.set = softdma_release_set,
};

#define SOFTDMA_EVERY(name, id, text)					\
	module_param_cb(name##_every, &softdma_every_ops,		\
			&softdma_faults[id], 0644);			\
	MODULE_PARM_DESC(name##_every, "every n-th descriptor " text	\
			 "; 0 is off (default 0)")

#define SOFTDMA_INJECTED(name, id)					\
	module_param_cb(name##_injected, &softdma_injected_ops,		\
			&softdma_faults[id], 0444);			\
	MODULE_PARM_DESC(name##_injected, "how many descriptors did so (read only)")

SOFTDMA_EVERY(read_error, SOFTDMA_READ_ERROR, "cannot read its source");
SOFTDMA_INJECTED(read_error, SOFTDMA_READ_ERROR);
SOFTDMA_EVERY(write_error, SOFTDMA_WRITE_ERROR, "cannot write its destination");
SOFTDMA_INJECTED(write_error, SOFTDMA_WRITE_ERROR);
SOFTDMA_EVERY(residue, SOFTDMA_RESIDUE, "copies half, and says success with a residue");
SOFTDMA_INJECTED(residue, SOFTDMA_RESIDUE);
SOFTDMA_EVERY(lost_irq, SOFTDMA_LOST_IRQ, "ends unheard until stall_release is written");
SOFTDMA_INJECTED(lost_irq, SOFTDMA_LOST_IRQ);
SOFTDMA_EVERY(stall, SOFTDMA_STALL, "blocks its channel until stall_release is written");
SOFTDMA_INJECTED(stall, SOFTDMA_STALL);
SOFTDMA_EVERY(late, SOFTDMA_LATE, "starts late_ms late");
SOFTDMA_INJECTED(late, SOFTDMA_LATE);
SOFTDMA_EVERY(swap, SOFTDMA_SWAP, "that has one behind it completes after that one");
SOFTDMA_INJECTED(swap, SOFTDMA_SWAP);
SOFTDMA_EVERY(prep_null, SOFTDMA_PREP_NULL, "cannot be prepared");
SOFTDMA_INJECTED(prep_null, SOFTDMA_PREP_NULL);
SOFTDMA_EVERY(ring_full, SOFTDMA_RING_FULL, "finds the ring full until another one completes");
SOFTDMA_INJECTED(ring_full, SOFTDMA_RING_FULL);

module_param_cb(stall_release, &softdma_release_ops, NULL, 0200);
MODULE_PARM_DESC(stall_release, "write anything to let all stalled descriptors go on (write only)");

module_param_named(late_ms, softdma_late_ms, uint, 0644);
MODULE_PARM_DESC(late_ms, "how late a late descriptor is, in milliseconds (default 1000)");

#endif /* _SOFTDMA_PARAMS_H */
