/*
 * What models of DMA engines share; see copy_channel.h
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <math.h>
#include "qemu/module.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "hw/pci/msix.h"
#include "hw/qdev-properties.h"
#include "sysemu/cpu-timers.h"
#include "copy_channel.h"

/* Events per turn of a clock, so that no guest can keep it */
#define COPY_MAX_EVENTS     64

/* Longer copies are made in pieces, so that no event takes long */
#define COPY_PIECE          (4 * MiB)

/* --- time --- */

static int64_t copy_now(void)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static CopyClock *copy_clock(CopyChannel *c)
{
    CopyFabric *f = c->first->fabric;

    if (!f) {
        return &c->first->own_clock;
    }
    while (f->parent) {
        f = f->parent;
    }
    return &f->clock;
}

/* The delay that ends first, of several the one that began first */
static CopyDelay *copy_first_delay(const CopyClock *clock)
{
    CopyDelay *d, *first = NULL;

    QTAILQ_FOREACH(d, &clock->delays, next) {
        if (!first || d->due < first->due) {
            first = d;
        }
    }
    return first;
}

/* The channel to which something happens first; NULL: nothing will */
static CopyChannel *copy_first(const CopyClock *clock)
{
    CopyChannel *c, *first = NULL;

    QLIST_FOREACH(c, &clock->busy, next) {
        if (!c->stalled && (!first || c->due < first->due)) {
            first = c;
        }
    }
    return first;
}

static void copy_set_timer(CopyClock *clock)
{
    const CopyChannel *first = copy_first(clock);
    const CopyDelay *delay = copy_first_delay(clock);

    if (delay && (!first || delay->due <= first->due)) {
        timer_mod(&clock->timer, delay->due);
    } else if (first) {
        timer_mod(&clock->timer, first->due);
    } else {
        timer_del(&clock->timer);
    }
}

/* Bytes per nanosecond; 0: no limit */
static double copy_rate(const CopyChannel *c)
{
    const CopyChannel *of = c->first;
    double rate = of->bandwidth / 1e9;
    const CopyFabric *f;

    if (of->small_percent && c->length < of->small_bytes) {
        /* 100 % is exactly the rate */
        rate *= of->small_percent / 100.0;
    }
    for (f = of->fabric; f; f = f->parent) {
        double share = f->bandwidth / 1e9 / f->nr_moving;

        if (share && (!rate || share < rate)) {
            rate = share;
        }
    }
    return rate;
}

/* Plan the end of the piece in hand at today's rate */
static void copy_set_rate(CopyChannel *c, int64_t now)
{
    if (c->rate) {
        c->left = MAX(0, c->left - c->rate * (now - c->since));
    }
    c->since = now;
    c->rate = copy_rate(c);
    c->due = now + (c->rate ? ceil(c->left / c->rate) : 0);
}

/* One more, or one less, moves: the others get less or more from now on */
static void copy_count(CopyChannel *c, int change, int64_t now)
{
    CopyFabric *f;
    CopyChannel *other;

    for (f = c->first->fabric; f; f = f->parent) {
        f->nr_moving += change;
    }
    QLIST_FOREACH(other, &copy_clock(c)->busy, next) {
        if (other != c && other->phase == COPY_MOVING) {
            copy_set_rate(other, now);
        }
    }
}

void copy_channel_drop(CopyChannel *c)
{
    CopyPhase before = c->phase;

    if (before == COPY_IDLE) {
        return;
    }
    c->phase = COPY_IDLE;
    c->stalled = false;
    QLIST_REMOVE(c, next);
    if (before == COPY_MOVING) {
        copy_count(c, -1, copy_now());
    }
}

void copy_channel_settle(CopyChannel *c)
{
    copy_set_timer(copy_clock(c));
}

/* --- the life of a descriptor --- */

void copy_channel_start(CopyChannel *c, uint64_t length)
{
    c->planned_error = 0;
    c->stalled = false;
    c->irq_lost = false;
    c->phase = COPY_SETUP;
    c->length = length;
    c->offset = 0;
    c->due = copy_now() + c->first->descriptor_ns;
    QLIST_INSERT_HEAD(&copy_clock(c)->busy, c, next);
}

bool copy_channel_countdown(uint32_t *countdown)
{
    return *countdown && --*countdown == 0;
}

void copy_channel_take_faults(CopyChannel *c)
{
    CopyChannel *of = c->first;

    if (copy_channel_countdown(&of->error_at)) {
        c->planned_error = of->error_code;
        of->error_at = of->error_every;
    }
    c->stalled = copy_channel_countdown(&of->stall_at);
    c->irq_lost = copy_channel_countdown(&of->lose_irq_at);
}

static void copy_start_piece(CopyChannel *c, int64_t now)
{
    c->piece = MIN(c->length - c->offset, COPY_PIECE);
    c->left = c->piece;
    c->rate = 0;
    copy_set_rate(c, now);
}

static void copy_end_piece(CopyChannel *c)
{
    uint32_t code = c->planned_error ? c->planned_error : c->ops->move(c);

    c->offset += c->piece;
    if (!code && c->offset < c->length) {
        copy_start_piece(c, copy_now());
    } else {
        copy_channel_drop(c);
        c->ops->finish(c, code);
    }
}

static void copy_event(CopyChannel *c, int64_t now)
{
    if (c->phase == COPY_SETUP) {
        c->phase = COPY_MOVING;
        copy_count(c, 1, now);
        copy_start_piece(c, now);
    } else {
        copy_end_piece(c);
    }
}

static void copy_delay_end(CopyClock *clock, CopyDelay *d)
{
    d->pending = false;
    QTAILQ_REMOVE(&clock->delays, d, next);
}

void copy_delay_start(CopyChannel *c, CopyDelay *d, int64_t ns)
{
    d->due = copy_now() + ns;
    d->pending = true;
    QTAILQ_INSERT_TAIL(&copy_clock(c)->delays, d, next);
}

void copy_delay_drop(CopyChannel *c, CopyDelay *d)
{
    if (d->pending) {
        copy_delay_end(copy_clock(c), d);
    }
}

static void copy_timer(void *opaque)
{
    CopyClock *clock = opaque;
    int64_t now = copy_now();
    CopyChannel *c;
    CopyDelay *d;
    int i;

    for (i = 0; i < COPY_MAX_EVENTS; i++) {
        c = copy_first(clock);
        d = copy_first_delay(clock);
        if (d && d->due <= now && (!c || d->due <= c->due)) {
            copy_delay_end(clock, d);
            d->end(d);
        } else if (c && c->due <= now) {
            copy_event(c, now);
        } else {
            break;
        }
    }
    copy_set_timer(clock);
}

static void copy_clock_init(CopyClock *clock)
{
    QLIST_INIT(&clock->busy);
    QTAILQ_INIT(&clock->delays);
    timer_init_ns(&clock->timer, QEMU_CLOCK_VIRTUAL, copy_timer, clock);
}

/* --- what a guest sees of it --- */

void copy_channel_notify(CopyChannel *c, PCIDevice *pci)
{
    if (!c->irq_lost) {
        copy_channel_message(c, pci, 0);
    }
    c->irq_lost = false;
}

void copy_channel_message(CopyChannel *c, PCIDevice *pci, unsigned vector)
{
    if (msix_enabled(pci)) {
        msix_notify(pci, vector);
        c->first->irq_unpaid = true;
    }
}

static void copy_channel_stall(CopyChannel *c, int64_t ns, bool handler_begins)
{
    if (c->irq_unpaid && handler_begins) {
        c->irq_unpaid = false;
        ns += c->interrupt_ns;
    }
    icount_stall(ns);
}

void copy_channel_stall_read(CopyChannel *c, bool handler_begins)
{
    copy_channel_stall(c, c->register_ns, handler_begins);
}

void copy_channel_stall_write(CopyChannel *c, bool handler_begins)
{
    int64_t ns = c->register_ns * (int64_t)c->write_percent / 100;

    copy_channel_stall(c, ns, handler_begins);
}

uint32_t copy_channel_config_read(CopyChannel *c, PCIDevice *pci, uint32_t at,
                                  int size)
{
    return c->gone ? UINT32_MAX : pci_default_read_config(pci, at, size);
}

void copy_channel_config_write(CopyChannel *c, PCIDevice *pci, uint32_t at,
                               uint32_t value, int size)
{
    if (!c->gone) {
        pci_default_write_config(pci, at, value, size);
    }
}

/* --- properties, which may change while the machine runs --- */

static void copy_get_stalled(Object *obj, Visitor *v, const char *name,
                             void *opaque, Error **errp)
{
    const CopyChannel *c;
    bool stalled = false;

    for (c = opaque; c; c = c->sibling) {
        stalled |= c->stalled;
    }
    visit_type_bool(v, name, &stalled, errp);
}

static void copy_set_stalled(Object *obj, Visitor *v, const char *name,
                             void *opaque, Error **errp)
{
    CopyChannel *c;
    bool stalled, busy = false;

    if (!visit_type_bool(v, name, &stalled, errp)) {
        return;
    }
    for (c = opaque; c; c = c->sibling) {
        if (c->phase != COPY_IDLE) {
            busy = true;
            c->stalled = stalled;
            /* What was held back happens now */
            c->due = MAX(c->due, copy_now());
        }
    }
    if (stalled && !busy) {
        error_setg(errp, "no descriptor is in hand that could stall");
        return;
    }
    copy_channel_settle(opaque);
}

static void copy_get_gone(Object *obj, Visitor *v, const char *name,
                          void *opaque, Error **errp)
{
    visit_type_bool(v, name, &((CopyChannel *)opaque)->gone, errp);
}

static void copy_set_gone(Object *obj, Visitor *v, const char *name,
                          void *opaque, Error **errp)
{
    CopyChannel *first = opaque, *c;

    if (visit_type_bool(v, name, &first->gone, errp) && first->gone) {
        for (c = first; c; c = c->sibling) {
            copy_channel_drop(c);
        }
        copy_channel_settle(first);
    }
}

void copy_channel_set_guess(bool *guess, const char *name, const char *value,
                            const char *const words[2], Error **errp)
{
    if (strcmp(value, words[0]) && strcmp(value, words[1])) {
        error_setg(errp, "%s must be %s or %s", name, words[0], words[1]);
        return;
    }
    *guess = !strcmp(value, words[0]);
}

void copy_channel_init(CopyChannel *c, Object *obj, const CopyChannelOps *ops)
{
    const struct {
        const char *name;
        uint32_t *value;
    } numbers[] = {
        { "descriptor-ns", &c->descriptor_ns },
        { "small-bytes", &c->small_bytes },
        { "small-percent", &c->small_percent },
        { "register-ns", &c->register_ns },
        { "write-percent", &c->write_percent },
        { "interrupt-ns", &c->interrupt_ns },
        { "error-at", &c->error_at },
        { "error-every", &c->error_every },
        { "stall-at", &c->stall_at },
        { "lose-irq-at", &c->lose_irq_at },
    };
    int i;

    c->ops = ops;
    c->first = c;
    c->write_percent = 100;
    object_property_add_uint64_ptr(obj, "bandwidth", &c->bandwidth,
                                   OBJ_PROP_FLAG_READWRITE);
    for (i = 0; i < ARRAY_SIZE(numbers); i++) {
        object_property_add_uint32_ptr(obj, numbers[i].name, numbers[i].value,
                                       OBJ_PROP_FLAG_READWRITE);
    }
    object_property_add(obj, "stalled", "bool", copy_get_stalled,
                        copy_set_stalled, NULL, c);
    object_property_add(obj, "gone", "bool", copy_get_gone, copy_set_gone,
                        NULL, c);
    copy_clock_init(&c->own_clock);
}

void copy_channel_init_sibling(CopyChannel *c, CopyChannel *first)
{
    c->ops = first->ops;
    c->first = first;
    c->sibling = first->sibling;
    first->sibling = c;
    copy_clock_init(&c->own_clock);
}

void copy_channel_realize(CopyChannel *c)
{
    c->buffer = g_malloc(COPY_PIECE);
}

void copy_channel_exit(CopyChannel *c)
{
    copy_channel_drop(c);
    copy_channel_settle(c);
    timer_del(&c->own_clock.timer);
    g_free(c->buffer);
}

void copy_channel_reset(CopyChannel *c)
{
    copy_channel_drop(c);
    copy_channel_settle(c);
    c->irq_lost = false;
    c->irq_unpaid = false;
}

/* --- fabric --- */

static void copy_fabric_realize(DeviceState *dev, Error **errp)
{
    CopyFabric *fabric = COPY_FABRIC(dev);

    if (fabric->parent && !DEVICE(fabric->parent)->realized) {
        error_setg(errp, "a fabric's parent must be there before it");
        return;
    }
    copy_clock_init(&fabric->clock);
}

static Property copy_fabric_properties[] = {
    DEFINE_PROP_LINK("parent", CopyFabric, parent, TYPE_COPY_FABRIC,
                     CopyFabric *),
    DEFINE_PROP_END_OF_LIST(),
};

static void copy_fabric_init(Object *obj)
{
    CopyFabric *fabric = COPY_FABRIC(obj);

    object_property_add_uint64_ptr(obj, "bandwidth", &fabric->bandwidth,
                                   OBJ_PROP_FLAG_READWRITE);
}

static void copy_fabric_class_init(ObjectClass *class, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);

    dc->desc = "What channels of DMA engines share on their way to memory";
    dc->realize = copy_fabric_realize;
    dc->user_creatable = true;
    dc->hotpluggable = false;
    device_class_set_props(dc, copy_fabric_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
}

static const TypeInfo copy_fabric_type[] = {
    {
        .name = TYPE_COPY_FABRIC,
        .parent = TYPE_DEVICE,
        .instance_size = sizeof(CopyFabric),
        .instance_init = copy_fabric_init,
        .class_init = copy_fabric_class_init,
    },
};

DEFINE_TYPES(copy_fabric_type)
