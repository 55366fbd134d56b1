/*
 * What models of DMA engines share: the time that copies take, the ways to
 * memory that channels share, and faults on command
 *
 * A copy takes virtual time and no time of a virtual CPU. Under -icount this
 * makes a machine whose every run is the same. See docs/specs/copy-channel.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_DMA_COPY_CHANNEL_H
#define HW_DMA_COPY_CHANNEL_H

#include "qemu/queue.h"
#include "qemu/timer.h"
#include "hw/pci/pci.h"

#define TYPE_COPY_FABRIC "copy-fabric"
OBJECT_DECLARE_SIMPLE_TYPE(CopyFabric, COPY_FABRIC)

typedef struct CopyChannel CopyChannel;
typedef struct CopyDelay CopyDelay;

/*
 * What happens next to channels that influence each other. There is one timer
 * for all of them, and it is set last: under -icount with sleep=off, to set a
 * timer while all CPUs are idle makes time jump to it at once.
 */
typedef struct CopyClock {
    QEMUTimer timer;
    QLIST_HEAD(, CopyChannel) busy;
    QTAILQ_HEAD(, CopyDelay) delays;
} CopyClock;

/* Something else that a device does later, by its channel's clock */
struct CopyDelay {
    QTAILQ_ENTRY(CopyDelay) next;
    int64_t due;
    void (*end)(CopyDelay *d);
    bool pending;
};

/*
 * A part of the way to memory, which channels share, and on to its parent,
 * which this fabric shares with others
 */
struct CopyFabric {
    DeviceState parent_obj;

    CopyFabric *parent;
    CopyClock clock;        /* used if there is no parent */
    uint64_t bandwidth;     /* bytes per second; 0: no limit */
    unsigned nr_moving;     /* channels, also those of fabrics below */
};

typedef enum {
    COPY_IDLE,
    COPY_SETUP,         /* the time that each descriptor takes */
    COPY_MOVING,        /* the time that its bytes take */
} CopyPhase;

typedef struct CopyChannelOps {
    /* Really move the piece in hand. Returns: the device's code, 0: it moved */
    uint32_t (*move)(CopyChannel *c);
    /* The channel has nothing in hand any more; it may be given the next */
    void (*finish)(CopyChannel *c, uint32_t code);
} CopyChannelOps;

struct CopyChannel {
    const CopyChannelOps *ops;

    /* The channels of a function are a list; the first has the properties */
    CopyChannel *first;
    CopyChannel *sibling;

    /* The descriptor in hand */
    CopyPhase phase;
    QLIST_ENTRY(CopyChannel) next;
    int64_t due;            /* when the phase, or the piece, ends */
    uint64_t length;
    uint64_t offset;        /* of the piece in hand */
    uint64_t piece;         /* its length */
    double left;            /* bytes of it that still need time */
    double rate;            /* bytes per nanosecond, since @since */
    int64_t since;
    uint32_t planned_error;
    bool irq_lost;
    uint8_t *buffer;        /* for a piece */

    /* Properties: the model */
    CopyFabric *fabric;
    CopyClock own_clock;    /* used if there is no fabric */
    uint64_t bandwidth;     /* bytes per second; 0: no limit */
    uint32_t descriptor_ns;
    uint32_t small_bytes;   /* copies of less have small_percent of the rate */
    uint32_t small_percent; /* 0: all of it */

    /* Properties: what the guest's CPU waits for */
    uint32_t register_ns;
    uint32_t write_percent; /* of register_ns; a write may be posted */
    uint32_t interrupt_ns;
    bool irq_unpaid;        /* the CPU has yet to wait for a message */

    /* Properties: faults, counted down by each descriptor; 0: never */
    uint32_t error_at;
    uint32_t error_every;   /* what error_at is set to when it has struck */
    uint32_t error_code;    /* a property of the device */
    uint32_t stall_at;
    uint32_t lose_irq_at;
    bool stalled;
    bool gone;              /* from the bus */
};

/* For a device's instance_init, realize and exit */
void copy_channel_init(CopyChannel *c, Object *obj, const CopyChannelOps *ops);
void copy_channel_realize(CopyChannel *c);
void copy_channel_exit(CopyChannel *c);
/*
 * For a function of several channels: @c is another one beside @first, which
 * copy_channel_init() has seen, and whose properties count for both. Faults
 * count the descriptors of all of them.
 */
void copy_channel_init_sibling(CopyChannel *c, CopyChannel *first);
/* For its reset; what was in hand is forgotten */
void copy_channel_reset(CopyChannel *c);

static inline bool copy_channel_busy(const CopyChannel *c)
{
    return c->phase != COPY_IDLE;
}

/*
 * Take a descriptor of @length bytes in hand. Whoever does so, or drops it,
 * calls copy_channel_settle() when all that happens at this moment has.
 */
void copy_channel_start(CopyChannel *c, uint64_t length);
/* After copy_channel_start(): this descriptor is one of those that may fail */
void copy_channel_take_faults(CopyChannel *c);
/* Forget the descriptor in hand, if any */
void copy_channel_drop(CopyChannel *c);
void copy_channel_settle(CopyChannel *c);

/* Send a message by MSI-X vector 0, unless it is to be lost */
void copy_channel_notify(CopyChannel *c, PCIDevice *pci);
/* Send a message by this vector */
void copy_channel_message(CopyChannel *c, PCIDevice *pci, unsigned vector);

/*
 * Have @d->end() called in @ns. Whoever starts or drops a delay calls
 * copy_channel_settle() as for a descriptor.
 */
void copy_delay_start(CopyChannel *c, CopyDelay *d, int64_t ns);
void copy_delay_drop(CopyChannel *c, CopyDelay *d);

/*
 * A CPU waits for its access. What an interrupt costs it is added where its
 * handler begins: there is no other way to learn what came of a message.
 */
void copy_channel_stall_read(CopyChannel *c, bool handler_begins);
void copy_channel_stall_write(CopyChannel *c, bool handler_begins);

/* Returns: whether it has come to 0 */
bool copy_channel_countdown(uint32_t *countdown);

/* Configuration accesses to a device that has a channel */
uint32_t copy_channel_config_read(CopyChannel *c, PCIDevice *pci, uint32_t at,
                                  int size);
void copy_channel_config_write(CopyChannel *c, PCIDevice *pci, uint32_t at,
                               uint32_t value, int size);

/*
 * A property for what nobody has said of the real device: one of two words;
 * the second is the default, false
 */
void copy_channel_set_guess(bool *guess, const char *name, const char *value,
                            const char *const words[2], Error **errp);

#endif
