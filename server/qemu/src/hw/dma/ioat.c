/*
 * Intel I/OAT (CBDMA), a PCI function that copies memory
 *
 * One function is one channel: it follows a chain of descriptors in memory, one
 * at a time and in order. See docs/specs/ioat.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/log.h"
#include "qemu/module.h"
#include "qemu/range.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "hw/pci/pcie.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "copy_channel.h"
#include "ioat_regs.h"
#include "trace.h"

#define TYPE_IOAT "intel-ioat"
OBJECT_DECLARE_SIMPLE_TYPE(IOATState, IOAT)

typedef enum {
    IOAT_ACTIVE,
    IOAT_DONE,
    IOAT_SUSPENDED,
    IOAT_HALTED,
    IOAT_ARMED,
} IOATStatus;

struct IOATState {
    PCIDevice parent_obj;

    MemoryRegion bar;
    MemoryRegion mmio;
    uint8_t regs[IOAT_REGS_SIZE];
    uint8_t writable[IOAT_REGS_SIZE];   /* the bits that keep what is written */
    QEMUTimer reset_timer;
    bool irq_waits;         /* there is something to tell once it is re-armed */

    CopyChannel channel;

    IOATStatus status;
    uint64_t completed;     /* address of the last descriptor that ended well */
    uint16_t count;         /* of descriptors that did */
    bool chained;           /* the next one is at CHAINADDR */
    bool suspending;        /* at the end of the one in hand */
    bool resetting;

    /* The descriptor in hand */
    uint8_t desc[IOAT_DESC_SIZE];

    /* Properties */
    uint16_t device_id;
    uint8_t xfercap;        /* log2 of the most bytes of a descriptor */
    uint32_t reset_ns;
    bool rearm_drops;       /* what ended since the message is told to nobody */
};

static void ioat_start_next(IOATState *s);

/* --- registers, as they are stored --- */

static uint16_t ioat_get16(const IOATState *s, unsigned at)
{
    return lduw_le_p(s->regs + at);
}

static uint32_t ioat_get32(const IOATState *s, unsigned at)
{
    return ldl_le_p(s->regs + at);
}

static uint64_t ioat_get64(const IOATState *s, unsigned at)
{
    return ldq_le_p(s->regs + at);
}

static void ioat_set_status(IOATState *s, IOATStatus status)
{
    s->status = status;
    stq_le_p(s->regs + A_CHANSTS, s->completed | status);
}

/* --- interrupts --- */

static void ioat_set_attention(IOATState *s, bool on)
{
    uint8_t control = s->regs[A_INTRCTRL] & ~(INTRCTRL_STATUS | INTRCTRL_INT);

    if (on) {
        control |= INTRCTRL_STATUS;
        control |= control & INTRCTRL_MASTER ? INTRCTRL_INT : 0;
    }
    s->regs[A_INTRCTRL] = control;
    s->regs[A_ATTNSTATUS] = on;
}

/* Send what waits, if the guest has re-armed and wants to be told */
static void ioat_update_irq(IOATState *s)
{
    uint16_t control = ioat_get16(s, A_CHANCTRL);

    if (!s->irq_waits || control & CHANCTRL_INT_SENT ||
        !(s->regs[A_INTRCTRL] & INTRCTRL_MASTER)) {
        return;
    }
    s->irq_waits = false;
    stw_le_p(s->regs + A_CHANCTRL, control | CHANCTRL_INT_SENT);
    ioat_set_attention(s, true);
    trace_ioat_irq(DEVICE(s)->canonical_path, ioat_get64(s, A_CHANSTS),
                   s->channel.irq_lost);
    copy_channel_notify(&s->channel, PCI_DEVICE(s));
}

static void ioat_raise(IOATState *s)
{
    if (s->rearm_drops && ioat_get16(s, A_CHANCTRL) & CHANCTRL_INT_SENT) {
        return;
    }
    s->irq_waits = true;
    ioat_update_irq(s);
}

/* --- the life of a descriptor --- */

static uint32_t ioat_ctl(const IOATState *s)
{
    return ldl_le_p(s->desc + A_DESC_CTL);
}

/* Returns: whether CHANSTS was written to where the guest wants it */
static bool ioat_write_back(IOATState *s)
{
    uint64_t image = cpu_to_le64(ioat_get64(s, A_CHANSTS));

    return !pci_dma_write(PCI_DEVICE(s), ioat_get64(s, A_CHANCMP), &image,
                          sizeof(image));
}

static void ioat_halt(IOATState *s, uint32_t error)
{
    uint16_t control = ioat_get16(s, A_CHANCTRL);

    stl_le_p(s->regs + A_CHANERR, ioat_get32(s, A_CHANERR) | error);
    s->suspending = false;
    ioat_set_status(s, IOAT_HALTED);
    if (control & CHANCTRL_ERR_WRITE && !(error & IOAT_COMPLETION_ADDRESS)) {
        ioat_write_back(s);
    }
    if (control & CHANCTRL_ERR_INT) {
        ioat_raise(s);
    }
}

/* Say how the descriptor ended, and take the next */
static void ioat_finish(CopyChannel *c, uint32_t error)
{
    IOATState *s = container_of(c, IOATState, channel);
    uint32_t ctl = ioat_ctl(s);

    trace_ioat_finish(DEVICE(s)->canonical_path, ioat_get64(s, A_CDAR), error);
    if (error) {
        ioat_halt(s, error);
        return;
    }
    s->completed = ioat_get64(s, A_CDAR);
    s->count++;
    if (s->suspending) {
        s->suspending = false;
        ioat_set_status(s, IOAT_SUSPENDED);
    } else {
        ioat_set_status(s, s->count == ioat_get16(s, A_DMACOUNT) ? IOAT_DONE :
                                                                   IOAT_ACTIVE);
    }
    /* The guest may believe what it finds there as soon as it is told */
    if (FIELD_EX32(ctl, DESC_CTL, WRITE_BACK) && !ioat_write_back(s)) {
        ioat_halt(s, IOAT_COMPLETION_ADDRESS);
        return;
    }
    if (FIELD_EX32(ctl, DESC_CTL, INTERRUPT)) {
        ioat_raise(s);
    }
    ioat_start_next(s);
}

static uint32_t ioat_move(CopyChannel *c)
{
    IOATState *s = container_of(c, IOATState, channel);
    PCIDevice *pci = PCI_DEVICE(s);
    uint64_t src = ldq_le_p(s->desc + IOAT_DESC_SRC);
    dma_addr_t dst = ldq_le_p(s->desc + IOAT_DESC_DST) + c->offset;
    uint64_t i;

    if (FIELD_EX32(ioat_ctl(s), DESC_CTL, OPERATION) == IOAT_OP_FILL) {
        /* A piece begins at a multiple of the pattern's length */
        for (i = 0; i < c->piece; i++) {
            c->buffer[i] = src >> i % 8 * 8;
        }
    } else if (pci_dma_read(pci, src + c->offset, c->buffer, c->piece)) {
        return IOAT_SOURCE_ADDRESS;
    }
    return pci_dma_write(pci, dst, c->buffer, c->piece) ? IOAT_DEST_ADDRESS : 0;
}

static const CopyChannelOps ioat_channel_ops = {
    .move = ioat_move,
    .finish = ioat_finish,
};

/* Returns: bits of CHANERR */
static uint32_t ioat_check(const IOATState *s)
{
    uint32_t size = ldl_le_p(s->desc + A_DESC_SIZE);
    unsigned operation = FIELD_EX32(ioat_ctl(s), DESC_CTL, OPERATION);

    if (operation != IOAT_OP_COPY && operation != IOAT_OP_FILL) {
        return IOAT_CONTROL;
    }
    return !size || size > 1ULL << s->xfercap ? IOAT_LENGTH : 0;
}

/* Returns: bits of CHANERR */
static uint32_t ioat_fetch(IOATState *s)
{
    uint64_t at = s->chained ? ioat_get64(s, A_CHAINADDR) :
                               ldq_le_p(s->desc + IOAT_DESC_NEXT);
    uint32_t error;

    stq_le_p(s->regs + A_CDAR, at);
    if (at & IOAT_DESC_MASK) {
        return s->chained ? IOAT_CHAIN_ADDRESS : IOAT_NEXT_ALIGNMENT;
    }
    if (pci_dma_read(PCI_DEVICE(s), at, s->desc, sizeof(s->desc))) {
        return s->chained ? IOAT_CHAIN_ADDRESS : IOAT_NEXT_ADDRESS;
    }
    s->chained = false;
    error = ioat_check(s);
    trace_ioat_fetch(DEVICE(s)->canonical_path, at,
                     ldq_le_p(s->desc + IOAT_DESC_SRC),
                     ldq_le_p(s->desc + IOAT_DESC_DST),
                     ldl_le_p(s->desc + A_DESC_SIZE), ioat_ctl(s));
    if (error) {
        qemu_log_mask(LOG_GUEST_ERROR, "%s: bad descriptor at 0x%" PRIx64
                      ": CHANERR 0x%x\n", TYPE_IOAT, at, error);
    }
    return error;
}

static void ioat_start_next(IOATState *s)
{
    uint32_t error;

    if (copy_channel_busy(&s->channel) || s->resetting ||
        s->status == IOAT_SUSPENDED || s->status == IOAT_HALTED ||
        s->count == ioat_get16(s, A_DMACOUNT)) {
        return;
    }
    error = ioat_fetch(s);
    if (error) {
        ioat_halt(s, error);
        return;
    }
    ioat_set_status(s, IOAT_ACTIVE);
    if (FIELD_EX32(ioat_ctl(s), DESC_CTL, NULL)) {
        copy_channel_start(&s->channel, 0);
        return;
    }
    copy_channel_start(&s->channel, ldl_le_p(s->desc + A_DESC_SIZE));
    copy_channel_take_faults(&s->channel);
}

/* --- commands --- */

/* What a reset and one of the whole function have in common */
static void ioat_clear(IOATState *s)
{
    copy_channel_reset(&s->channel);
    s->completed = 0;
    s->count = 0;
    s->chained = false;
    s->suspending = false;
    s->resetting = false;
    s->irq_waits = false;
    memset(s->desc, 0, sizeof(s->desc));
    ioat_set_status(s, IOAT_HALTED);
}

static void ioat_reset_ends(void *opaque)
{
    IOATState *s = opaque;

    ioat_clear(s);
    stw_le_p(s->regs + A_DMACOUNT, 0);
    stq_le_p(s->regs + A_CHAINADDR, 0);
    stq_le_p(s->regs + A_CHANCMP, 0);
    stq_le_p(s->regs + A_CDAR, 0);
    s->regs[A_CHANCMD] = 0;
    stw_le_p(s->regs + A_CHANCTRL,
             ioat_get16(s, A_CHANCTRL) & ~CHANCTRL_INT_SENT);
    ioat_set_attention(s, false);
}

static void ioat_command(IOATState *s, uint8_t command)
{
    trace_ioat_command(DEVICE(s)->canonical_path, command);
    switch (command) {
    case CHANCMD_RESET:
        if (!s->reset_ns) {
            ioat_reset_ends(s);
        } else if (!s->resetting) {
            s->resetting = true;
            s->regs[A_CHANCMD] = CHANCMD_RESET;
            timer_mod(&s->reset_timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) +
                                       s->reset_ns);
        }
        break;
    case CHANCMD_SUSPEND:
        if (copy_channel_busy(&s->channel)) {
            s->suspending = true;
        } else if (s->status != IOAT_HALTED) {
            ioat_set_status(s, IOAT_SUSPENDED);
        }
        break;
    case CHANCMD_RESUME:
        s->suspending = false;
        if (s->status == IOAT_SUSPENDED) {
            ioat_set_status(s, s->chained ? IOAT_ARMED : IOAT_DONE);
            ioat_start_next(s);
        }
        break;
    default:
        qemu_log_mask(LOG_UNIMP, "%s: command 0x%x\n", TYPE_IOAT, command);
    }
}

static void ioat_chain(IOATState *s)
{
    if (s->resetting) {
        return;
    }
    if (copy_channel_busy(&s->channel)) {
        qemu_log_mask(LOG_GUEST_ERROR, "%s: CHAINADDR of an active channel\n",
                      TYPE_IOAT);
        return;
    }
    s->chained = true;
    ioat_set_status(s, IOAT_ARMED);
}

/* --- accesses --- */

static uint64_t ioat_read(void *opaque, hwaddr at, unsigned size)
{
    IOATState *s = opaque;

    /* The driver's handler of MSI-X reads nothing: its tasklet re-arms */
    copy_channel_stall_read(&s->channel, false);
    return s->channel.gone ? UINT64_MAX : ldn_le_p(s->regs + at, size);
}

static void ioat_store(IOATState *s, hwaddr at, uint64_t value, unsigned size)
{
    unsigned i;

    for (i = 0; i < size; i++) {
        uint8_t mask = s->writable[at + i];

        s->regs[at + i] = (s->regs[at + i] & ~mask) | (value >> i * 8 & mask);
    }
}

static void ioat_write(void *opaque, hwaddr at, uint64_t value, unsigned size)
{
    IOATState *s = opaque;
    uint32_t bits;

    copy_channel_stall_write(&s->channel,
                             ranges_overlap(at, size, A_CHANCTRL, 1));
    if (s->channel.gone) {
        return;
    }
    ioat_store(s, at, value, size);
    if (ranges_overlap(at, size, A_INTRCTRL, 1)) {
        ioat_set_attention(s, s->regs[A_ATTNSTATUS]);
        ioat_update_irq(s);
    }
    if (ranges_overlap(at, size, A_CHANCTRL, 1) &&
        value >> (A_CHANCTRL - at) * 8 & CHANCTRL_INT_SENT) {
        s->regs[A_CHANCTRL] &= ~CHANCTRL_INT_SENT;
        ioat_set_attention(s, false);
        ioat_update_irq(s);
    }
    if (ranges_overlap(at, size, A_CHANERR, 4)) {
        bits = at < A_CHANERR ? value >> (A_CHANERR - at) * 8 :
                                value << (at - A_CHANERR) * 8;
        stl_le_p(s->regs + A_CHANERR, ioat_get32(s, A_CHANERR) & ~bits);
    }
    if (ranges_overlap(at, size, A_CHAINADDR, 8)) {
        ioat_chain(s);
    }
    if (ranges_overlap(at, size, A_CHANCMD, 1)) {
        ioat_command(s, value >> (A_CHANCMD - at) * 8);
    }
    ioat_start_next(s);
    copy_channel_settle(&s->channel);
}

static const MemoryRegionOps ioat_ops = {
    .read = ioat_read,
    .write = ioat_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 1,
    .valid.max_access_size = 8,
    .impl.min_access_size = 1,
    .impl.max_access_size = 8,
};

/* --- device --- */

static uint32_t ioat_config_read(PCIDevice *pci, uint32_t at, int size)
{
    return copy_channel_config_read(&IOAT(pci)->channel, pci, at, size);
}

static void ioat_config_write(PCIDevice *pci, uint32_t at, uint32_t value,
                              int size)
{
    copy_channel_config_write(&IOAT(pci)->channel, pci, at, value, size);
}

static void ioat_reset(DeviceState *dev)
{
    IOATState *s = IOAT(dev);

    timer_del(&s->reset_timer);
    memset(s->regs, 0, sizeof(s->regs));
    s->regs[A_CHANCNT] = 1;
    s->regs[A_XFERCAP] = s->xfercap;
    s->regs[A_CBVER] = s->device_id == IOAT_DEVICE_ICX ? 0x34 : 0x32;
    stl_le_p(s->regs + A_DMACAP, DMACAP_FILL);
    stw_le_p(s->regs + A_COMP, 1);
    ioat_clear(s);
    memset(PCI_DEVICE(s)->config + IOAT_CHANERR_INT, 0, 8);
    msix_reset(PCI_DEVICE(dev));
}

/* Nothing is ever kept in the other bits */
static void ioat_init_writable(IOATState *s)
{
    memset(s->writable, 0, sizeof(s->writable));
    s->writable[A_INTRCTRL] = INTRCTRL_MASTER | INTRCTRL_VECTORS;
    stw_le_p(s->writable + A_INTRDELAY, 0x3fff);
    s->writable[A_PREFETCH_LIMIT] = 0xff;
    stw_le_p(s->writable + A_CHANCTRL, 0xfffe);
    stw_le_p(s->writable + A_DMACOUNT, 0xffff);
    stq_le_p(s->writable + A_CHAINADDR, UINT64_MAX);
    stq_le_p(s->writable + A_CHANCMP, UINT64_MAX);
    stl_le_p(s->writable + A_CHANERRMSK, UINT32_MAX);
    stl_le_p(s->writable + A_DCACTRL, UINT32_MAX);
    if (s->device_id == IOAT_DEVICE_ICX) {
        stw_le_p(s->writable + A_DRSCTL, 0xffff);
        s->writable[A_LTR_SELECT] = 0xff;
        stl_le_p(s->writable + A_LTR_ACTIVE, UINT32_MAX);
        stl_le_p(s->writable + A_LTR_IDLE, UINT32_MAX);
    }
}

static void ioat_realize(PCIDevice *pci, Error **errp)
{
    IOATState *s = IOAT(pci);

    if (s->device_id != IOAT_DEVICE_SKX && s->device_id != IOAT_DEVICE_ICX) {
        error_setg(errp, "device-id must be 0x%x or 0x%x", IOAT_DEVICE_SKX,
                   IOAT_DEVICE_ICX);
        return;
    }
    if (s->xfercap < 12 || s->xfercap > 31) {
        error_setg(errp, "xfercap must be 12 to 31");
        return;
    }
    if (!pci_bus_is_express(pci_get_bus(pci))) {
        error_setg(errp, "%s needs a PCI Express bus, as q35 has", TYPE_IOAT);
        return;
    }
    pci_set_word(pci->config + PCI_DEVICE_ID, s->device_id);
    memset(pci->wmask + IOAT_CHANERR_INT, 0xff, 8);
    ioat_init_writable(s);
    memory_region_init(&s->bar, OBJECT(s), "ioat", IOAT_BAR_SIZE);
    memory_region_init_io(&s->mmio, OBJECT(s), &ioat_ops, s, "ioat-registers",
                          IOAT_REGS_SIZE);
    memory_region_add_subregion(&s->bar, 0, &s->mmio);
    if (msix_init(pci, 1, &s->bar, 0, IOAT_MSIX_TABLE, &s->bar, 0,
                  IOAT_MSIX_PBA, IOAT_MSIX_CAP, errp)) {
        return;
    }
    msix_vector_use(pci, 0);
    if (pcie_endpoint_cap_init(pci, IOAT_PCIE_CAP) < 0) {
        error_setg(errp, "no place for the PCI Express capability");
        return;
    }
    pci_register_bar(pci, 0, PCI_BASE_ADDRESS_SPACE_MEMORY |
                             PCI_BASE_ADDRESS_MEM_TYPE_64, &s->bar);
    copy_channel_realize(&s->channel);
}

static void ioat_exit(PCIDevice *pci)
{
    IOATState *s = IOAT(pci);

    timer_del(&s->reset_timer);
    copy_channel_exit(&s->channel);
    pcie_cap_exit(pci);
    msix_vector_unuse(pci, 0);
    msix_uninit(pci, &s->bar, &s->bar);
}

/* --- properties --- */

static void ioat_get_error_code(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    visit_type_uint32(v, name, &IOAT(obj)->channel.error_code, errp);
}

static void ioat_set_error_code(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    uint32_t code;

    if (!visit_type_uint32(v, name, &code, errp)) {
        return;
    }
    if (!code) {
        error_setg(errp, "%s must be bits of CHANERR", name);
        return;
    }
    IOAT(obj)->channel.error_code = code;
}

static const char *const ioat_rearm_words[] = { "drop", "tell" };

static char *ioat_get_rearm(Object *obj, Error **errp)
{
    return g_strdup(ioat_rearm_words[!IOAT(obj)->rearm_drops]);
}

static void ioat_set_rearm(Object *obj, const char *value, Error **errp)
{
    copy_channel_set_guess(&IOAT(obj)->rearm_drops, "rearm", value,
                           ioat_rearm_words, errp);
}

static void ioat_instance_init(Object *obj)
{
    IOATState *s = IOAT(obj);

    copy_channel_init(&s->channel, obj, &ioat_channel_ops);
    s->channel.error_code = IOAT_WRITE_DATA;
    object_property_add_uint32_ptr(obj, "reset-ns", &s->reset_ns,
                                   OBJ_PROP_FLAG_READWRITE);
    timer_init_ns(&s->reset_timer, QEMU_CLOCK_VIRTUAL, ioat_reset_ends, s);
}

static Property ioat_properties[] = {
    DEFINE_PROP_LINK("fabric", IOATState, channel.fabric, TYPE_COPY_FABRIC,
                     CopyFabric *),
    DEFINE_PROP_UINT16("device-id", IOATState, device_id, IOAT_DEVICE_SKX),
    DEFINE_PROP_UINT8("xfercap", IOATState, xfercap, 20),
    DEFINE_PROP_END_OF_LIST(),
};

/* A copy under way has no place in a saved machine */
static const VMStateDescription ioat_vmstate = {
    .name = TYPE_IOAT,
    .unmigratable = 1,
};

static void ioat_class_init(ObjectClass *class, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(class);

    pc->realize = ioat_realize;
    pc->exit = ioat_exit;
    pc->config_read = ioat_config_read;
    pc->config_write = ioat_config_write;
    pc->vendor_id = PCI_VENDOR_ID_INTEL;
    pc->device_id = IOAT_DEVICE_SKX;
    pc->revision = 4;
    pc->class_id = PCI_CLASS_SYSTEM_OTHER;
    dc->desc = "Intel I/OAT: copies memory, in modelled time";
    dc->reset = ioat_reset;
    dc->vmsd = &ioat_vmstate;
    device_class_set_props(dc, ioat_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
    object_class_property_add(class, "error-code", "uint32",
                              ioat_get_error_code, ioat_set_error_code,
                              NULL, NULL);
    object_class_property_add_str(class, "rearm", ioat_get_rearm,
                                  ioat_set_rearm);
}

static const TypeInfo ioat_types[] = {
    {
        .name = TYPE_IOAT,
        .parent = TYPE_PCI_DEVICE,
        .instance_size = sizeof(IOATState),
        .instance_init = ioat_instance_init,
        .class_init = ioat_class_init,
        .interfaces = (InterfaceInfo[]) {
            { INTERFACE_PCIE_DEVICE },
            { },
        },
    },
};

DEFINE_TYPES(ioat_types)
