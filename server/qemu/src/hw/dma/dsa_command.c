/*
 * Intel DSA 1.0: what is written to CMD
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/log.h"
#include "dsa.h"
#include "trace.h"

#define DSA_ALL_QUEUES      ((1 << DSA_QUEUES) - 1)

static unsigned dsa_code(const DSAState *s)
{
    return FIELD_EX32(s->command, CMD, CODE);
}

static uint32_t dsa_operand(const DSAState *s)
{
    return FIELD_EX32(s->command, CMD, OPERAND);
}

/* --- what is configured --- */

/* Returns: how many groups have it; @group is the last one */
static unsigned dsa_groups_of(const DSAState *s, unsigned at, unsigned number,
                              int *group)
{
    unsigned i, n = 0;

    *group = -1;
    for (i = 0; i < DSA_GROUPS; i++) {
        if (dsa_get64(s, A_GRPCFG + i * GRPCFG_SIZE + at) & 1ULL << number) {
            *group = i;
            n++;
        }
    }
    return n;
}

/* Returns: an error of CMDSTS, 0: none */
static uint8_t dsa_check_device(DSAState *s)
{
    unsigned i, entries, total = 0, n;
    int group;

    if (s->status != DSA_DISABLED) {
        return DSA_IS_ENABLED;
    }
    if (!(pci_get_word(PCI_DEVICE(s)->config + PCI_COMMAND) &
          PCI_COMMAND_MASTER)) {
        return DSA_NO_BUS_MASTER;
    }
    for (i = 0; i < DSA_ENGINES; i++) {
        if (dsa_groups_of(s, GRPCFG_ENGINES, i, &group) > 1) {
            return DSA_GROUP_OF_ENGINE;
        }
    }
    for (i = 0; i < DSA_QUEUES; i++) {
        entries = dsa_queue_word(s, i, WQCFG_ENTRIES);
        total += entries;
        n = dsa_groups_of(s, 0, i, &group);
        if (n > 1 || (entries && !n)) {
            return DSA_GROUP_OF_QUEUE;
        }
        if (n && !dsa_get64(s, A_GRPCFG + group * GRPCFG_SIZE +
                               GRPCFG_ENGINES)) {
            return DSA_GROUP_OF_NOBODY;
        }
    }
    return total > DSA_ENTRIES ? DSA_TOO_MANY_ENTRIES : 0;
}

/* Returns: an error of CMDSTS, 0: none */
static uint8_t dsa_check_queue(const DSAState *s, uint32_t queue)
{
    uint32_t mode, limits;

    if (queue >= DSA_QUEUES) {
        return DSA_BAD_QUEUE;
    }
    mode = dsa_queue_word(s, queue, A_WQCFG_MODE);
    limits = dsa_queue_word(s, queue, A_WQCFG_LIMITS);
    if (s->status != DSA_ENABLED) {
        return DSA_IS_OFF;
    }
    if (s->queues[queue].enabled) {
        return DSA_QUEUE_IS_ENABLED;
    }
    if (!dsa_queue_word(s, queue, WQCFG_ENTRIES)) {
        return DSA_QUEUE_ENTRIES;
    }
    if (!FIELD_EX32(mode, WQCFG_MODE, PRIORITY)) {
        return DSA_QUEUE_PRIORITY;
    }
    if (!FIELD_EX32(mode, WQCFG_MODE, DEDICATED)) {
        return DSA_QUEUE_MODE;
    }
    if (FIELD_EX32(mode, WQCFG_MODE, PASID)) {
        return DSA_QUEUE_PASID;
    }
    if (FIELD_EX32(limits, WQCFG_LIMITS, BATCH) > DSA_MAX_BATCH_SHIFT) {
        return DSA_QUEUE_BATCH;
    }
    return FIELD_EX32(limits, WQCFG_LIMITS, XFER) > DSA_MAX_XFER_SHIFT ?
           DSA_QUEUE_XFER : 0;
}

/* --- the life of a command --- */

/* Returns: an error of CMDSTS, 0: these are queues of the operand */
static uint8_t dsa_take_queues(DSAState *s, bool all_enabled)
{
    uint32_t operand = dsa_operand(s), queues = operand & 0xffff;
    unsigned i;

    if (!queues || operand >> 16 || queues & ~DSA_ALL_QUEUES) {
        return DSA_BAD_QUEUE;
    }
    for (i = 0; i < DSA_QUEUES; i++) {
        if (all_enabled && queues & 1 << i && !s->queues[i].enabled) {
            return DSA_QUEUE_IS_OFF;
        }
    }
    s->command_queues = queues;
    return 0;
}

/* From now on these queues take nothing */
static void dsa_close(DSAState *s, uint32_t queues)
{
    unsigned i;

    for (i = 0; i < DSA_QUEUES; i++) {
        if (queues & 1 << i) {
            s->queues[i].enabled = false;
        }
    }
}

/*
 * Check the command, and say which queues' descriptors it waits for.
 * Returns: an error of CMDSTS, 0: none
 */
static uint8_t dsa_begin_command(DSAState *s)
{
    unsigned code = dsa_code(s);
    uint8_t error;

    s->command_queues = 0;
    s->command_before = s->nr_submitted;
    if (s->status == DSA_HALTED &&
        (code != DSA_RESET ||
         FIELD_EX32(dsa_get32(s, A_GENSTS), GENSTS, RESET))) {
        return DSA_HARDWARE;
    }
    switch (code) {
    case DSA_ENABLE:
        return dsa_check_device(s);
    case DSA_DISABLE:
        if (s->status != DSA_ENABLED) {
            return DSA_IS_DISABLED;
        }
        s->command_queues = DSA_ALL_QUEUES;
        dsa_close(s, DSA_ALL_QUEUES);
        dsa_set_status(s, DSA_DRAINING);
        return 0;
    case DSA_DRAIN_ALL:
        s->command_queues = DSA_ALL_QUEUES;
        return 0;
    case DSA_ABORT_ALL:
    case DSA_RESET:
    case DSA_DRAIN_PASID:
    case DSA_ABORT_PASID:
        return 0;
    case DSA_ENABLE_QUEUE:
        return dsa_check_queue(s, dsa_operand(s));
    case DSA_DISABLE_QUEUE:
        error = dsa_take_queues(s, true);
        dsa_close(s, s->command_queues);
        return error;
    case DSA_DRAIN_QUEUE:
    case DSA_ABORT_QUEUE:
        return dsa_take_queues(s, true);
    case DSA_RESET_QUEUE:
        return dsa_take_queues(s, false);
    default:
        return DSA_BAD_COMMAND;
    }
}

static void dsa_enable(DSAState *s)
{
    unsigned i;

    for (i = 0; i < DSA_ENGINES; i++) {
        dsa_groups_of(s, GRPCFG_ENGINES, i, &s->engines[i].group);
    }
    for (i = 0; i < DSA_QUEUES; i++) {
        dsa_groups_of(s, 0, i, &s->queues[i].group);
    }
    dsa_set_status(s, DSA_ENABLED);
}

static void dsa_switch_off(DSAState *s, bool clear)
{
    unsigned i;

    for (i = 0; i < DSA_QUEUES; i++) {
        if (s->command_queues & 1 << i) {
            if (clear) {
                /* Its entries are the device's, which stays as it is */
                memset(s->regs + A_WQCFG + i * WQCFG_SIZE + WQCFG_THRESHOLD, 0,
                       WQCFG_SIZE - WQCFG_THRESHOLD);
            }
            dsa_set_queue(s, i, false);
        }
    }
}

/* Nothing is left that it has to wait for */
static void dsa_do_command(DSAState *s)
{
    switch (dsa_code(s)) {
    case DSA_ENABLE:
        dsa_enable(s);
        break;
    case DSA_DISABLE:
        dsa_switch_off(s, false);
        dsa_set_status(s, DSA_DISABLED);
        break;
    case DSA_ABORT_ALL:
        dsa_forget(s, DSA_ALL_QUEUES);
        break;
    case DSA_RESET:
        dsa_clear(s);
        break;
    case DSA_ENABLE_QUEUE:
        dsa_set_queue(s, dsa_operand(s), true);
        break;
    case DSA_DISABLE_QUEUE:
        dsa_switch_off(s, false);
        break;
    case DSA_ABORT_QUEUE:
        dsa_forget(s, s->command_queues);
        break;
    case DSA_RESET_QUEUE:
        dsa_forget(s, s->command_queues);
        dsa_switch_off(s, true);
        break;
    default:
        break;
    }
}

void dsa_command_end(DSAState *s, uint8_t error)
{
    bool lost;

    dsa_set32(s, A_CMDSTS, error);
    trace_dsa_command_end(dsa_name(s), error);
    if (FIELD_EX32(s->command, CMD, INTERRUPT)) {
        lost = copy_channel_countdown(&s->lose_command_irq_at);
        dsa_raise(s, INTCAUSE_COMMAND, lost);
    }
}

/* Whether the command has to wait until descriptors have ended */
static bool dsa_command_waits(const DSAState *s)
{
    switch (dsa_code(s)) {
    case DSA_DISABLE:
    case DSA_DRAIN_ALL:
    case DSA_DISABLE_QUEUE:
    case DSA_DRAIN_QUEUE:
        return !dsa_drained(s, s->command_queues, s->command_before);
    default:
        return false;
    }
}

void dsa_command_step(DSAState *s)
{
    if (!(dsa_get32(s, A_CMDSTS) & CMDSTS_ACTIVE) || s->command_delay.pending ||
        dsa_command_waits(s)) {
        return;
    }
    dsa_do_command(s);
    dsa_command_end(s, 0);
}

static void dsa_command_delay_ends(CopyDelay *d)
{
    dsa_command_step(container_of(d, DSAState, command_delay));
}

void dsa_command_init(DSAState *s)
{
    s->command_delay.end = dsa_command_delay_ends;
}

void dsa_command(DSAState *s, uint32_t command)
{
    uint8_t error;

    trace_dsa_command(dsa_name(s), command);
    if (dsa_get32(s, A_CMDSTS) & CMDSTS_ACTIVE) {
        qemu_log_mask(LOG_GUEST_ERROR, "%s: command 0x%x while another is "
                      "active\n", TYPE_DSA, command);
        return;
    }
    s->command = command;
    dsa_set32(s, A_CMD, command);
    if (copy_channel_countdown(&s->command_error_at)) {
        error = s->command_error_code;
    } else {
        error = dsa_begin_command(s);
    }
    if (error) {
        dsa_command_end(s, error);
        return;
    }
    dsa_set32(s, A_CMDSTS, CMDSTS_ACTIVE);
    if (s->command_ns) {
        copy_delay_start(dsa_channel(s), &s->command_delay, s->command_ns);
    }
    dsa_command_step(s);
}
