/*
 * Intel DSA 1.0: what the parts of its model share
 *
 * dsa.c          the function: registers, portals, interrupts, errors, halt
 * dsa_command.c  what is written to CMD
 * dsa_work.c     the life of descriptors, from a queue to their records
 *
 * See docs/specs/dsa.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_DMA_DSA_H
#define HW_DMA_DSA_H

#include "qemu/bswap.h"
#include "qemu/queue.h"
#include "hw/pci/pci.h"
#include "copy_channel.h"
#include "dsa_regs.h"

#define TYPE_DSA "intel-dsa"
OBJECT_DECLARE_SIMPLE_TYPE(DSAState, DSA)

typedef struct DSAWork DSAWork;

typedef enum {
    DSA_DISABLED,
    DSA_ENABLED,
    DSA_DRAINING,
    DSA_HALTED,
} DSAStatus;

/* A descriptor that somebody has submitted, or one of a batch */
struct DSAWork {
    QTAILQ_ENTRY(DSAWork) next;     /* of its queue; not for one of a batch */
    QTAILQ_ENTRY(DSAWork) next_ending;
    DSAState *device;
    unsigned queue;
    unsigned engine;        /* that took it */
    uint64_t number;        /* in the order of submission */
    uint8_t desc[DSA_DESC_SIZE];

    /* What its record will say */
    uint8_t status;
    uint32_t done;          /* bytes or descriptors */
    uint64_t fault;
    bool irq_lost;
    bool halts;             /* the device, as this one would end */
    CopyDelay delay;        /* until then */

    /* One of a batch: the batch, and which one */
    DSAWork *batch;
    unsigned index;
    /* A batch: its list, and what came of those that were begun */
    uint8_t *list;
    unsigned count;
    unsigned begun;
    unsigned ended;
    bool failed;
};

typedef struct DSAQueue {
    bool enabled;
    int group;              /* -1: none */
    unsigned nr_waiting;
    QTAILQ_HEAD(, DSAWork) waiting;
    QTAILQ_HEAD(, DSAWork) running;
} DSAQueue;

typedef struct DSAEngine {
    CopyChannel channel;
    DSAState *device;
    unsigned number;
    int group;              /* -1: none */
    DSAWork *work;          /* in hand: it has the channel, or waits for others */
    DSAWork *batch;         /* whose descriptors it takes before any others */
    unsigned nr_ending;     /* that it has done, and whose records are to come */
} DSAEngine;

struct DSAState {
    PCIDevice parent_obj;

    MemoryRegion bar;
    MemoryRegion mmio;
    MemoryRegion portals;
    uint8_t regs[DSA_REGS_SIZE];
    uint8_t writable[DSA_REGS_SIZE];    /* the bits that keep what is written */

    /* What has come of a descriptor so far, in stores of 8 bytes */
    uint8_t gathered[DSA_DESC_SIZE];
    hwaddr gathered_at;
    unsigned nr_gathered;

    DSAStatus status;
    DSAQueue queues[DSA_QUEUES];
    DSAEngine engines[DSA_ENGINES];
    QTAILQ_HEAD(, DSAWork) ending;
    unsigned last_queue;    /* that an engine took from */
    uint64_t nr_submitted;

    /* The command in hand, if CMDSTS is active */
    uint32_t command;
    uint32_t command_queues;
    uint64_t command_before;    /* it waits for descriptors of lower numbers */
    CopyDelay command_delay;

    /* Properties */
    uint16_t device_id;
    uint32_t latency_ns;
    uint32_t command_ns;
    uint32_t command_error_at;
    uint32_t command_error_code;
    uint32_t lose_command_irq_at;
    uint32_t halt_at;
    uint32_t halt_type;
    bool fault_is_page;     /* what an untranslated address is reported as */
};

/* --- registers, as they are stored --- */

static inline uint32_t dsa_get32(const DSAState *s, unsigned at)
{
    return ldl_le_p(s->regs + at);
}

static inline uint64_t dsa_get64(const DSAState *s, unsigned at)
{
    return ldq_le_p(s->regs + at);
}

static inline void dsa_set32(DSAState *s, unsigned at, uint32_t value)
{
    stl_le_p(s->regs + at, value);
}

static inline void dsa_set64(DSAState *s, unsigned at, uint64_t value)
{
    stq_le_p(s->regs + at, value);
}

static inline uint32_t dsa_queue_word(const DSAState *s, unsigned queue,
                                      unsigned word)
{
    return dsa_get32(s, A_WQCFG + queue * WQCFG_SIZE + word);
}

static inline const char *dsa_name(DSAState *s)
{
    return DEVICE(s)->canonical_path;
}

/* The channel that has the device's properties */
static inline CopyChannel *dsa_channel(DSAState *s)
{
    return &s->engines[0].channel;
}

/* --- dsa.c --- */

void dsa_set_status(DSAState *s, DSAStatus status);
void dsa_set_queue(DSAState *s, unsigned queue, bool enabled);
/* Show in WQCFG what the queue is, and how much waits in it */
void dsa_show_queue(DSAState *s, unsigned queue);
/* Tell the guest, by vector 0, unless this message is to be lost */
void dsa_raise(DSAState *s, uint32_t cause, bool lost);
/* An error that no record can tell; @w may be NULL */
void dsa_software_error(DSAState *s, unsigned queue, uint8_t error,
                        const DSAWork *w, uint64_t address);
/* Forget all descriptors; @reset is what the guest has to do */
void dsa_halt(DSAState *s, unsigned reset);
/* As the command, and that of the function */
void dsa_clear(DSAState *s);

/* --- dsa_command.c --- */

void dsa_command(DSAState *s, uint32_t command);
/* A descriptor has ended, or a time: the command may be over */
void dsa_command_step(DSAState *s);
/* The command is over; @error is what CMDSTS says of it, 0: none */
void dsa_command_end(DSAState *s, uint8_t error);
/* For instance_init */
void dsa_command_init(DSAState *s);

/* --- dsa_work.c --- */

extern const CopyChannelOps dsa_channel_ops;

/* What came through a portal of an enabled queue */
void dsa_submit(DSAState *s, unsigned queue, const uint8_t *desc);
/* Let all engines take what they can */
void dsa_start(DSAState *s);
/* Forget the descriptors of these queues, wherever they are */
void dsa_forget(DSAState *s, uint32_t queues);
/* Returns: whether none with a lower number is left in these queues */
bool dsa_drained(const DSAState *s, uint32_t queues, uint64_t before);

#endif
