/*
 * Intel DSA 1.0, a PCI function that copies and fills memory
 *
 * Software stores descriptors to the portals of work queues; engines take them
 * and write a completion record for each. See docs/specs/dsa.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/log.h"
#include "qemu/module.h"
#include "qemu/range.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "hw/pci/msix.h"
#include "hw/pci/pcie.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "dsa.h"
#include "trace.h"

/* --- what registers show --- */

void dsa_set_status(DSAState *s, DSAStatus status)
{
    s->status = status;
    dsa_set32(s, A_GENSTS, status);
}

void dsa_show_queue(DSAState *s, unsigned queue)
{
    const DSAQueue *q = &s->queues[queue];
    uint32_t value = 0;

    value = FIELD_DP32(value, WQCFG_STATE, OCCUPANCY, q->nr_waiting);
    value = FIELD_DP32(value, WQCFG_STATE, STATE, q->enabled);
    dsa_set32(s, A_WQCFG + queue * WQCFG_SIZE + A_WQCFG_STATE, value);
}

void dsa_set_queue(DSAState *s, unsigned queue, bool enabled)
{
    s->queues[queue].enabled = enabled;
    dsa_show_queue(s, queue);
}

/* --- interrupts and errors --- */

void dsa_raise(DSAState *s, uint32_t cause, bool lost)
{
    uint32_t before = dsa_get32(s, A_INTCAUSE);

    dsa_set32(s, A_INTCAUSE, before | cause);
    if (before & cause) {
        return;
    }
    trace_dsa_interrupt(dsa_name(s), 0, lost);
    if (!lost) {
        copy_channel_message(dsa_channel(s), PCI_DEVICE(s), 0);
    }
}

void dsa_software_error(DSAState *s, unsigned queue, uint8_t error,
                        const DSAWork *w, uint64_t address)
{
    uint64_t q0 = dsa_get64(s, A_SWERR0);
    bool overflow = FIELD_EX64(q0, SWERR0, VALID);

    trace_dsa_software_error(dsa_name(s), queue, error, overflow);
    if (overflow) {
        dsa_set64(s, A_SWERR0, FIELD_DP64(q0, SWERR0, OVERFLOW, 1));
        return;
    }
    q0 = FIELD_DP64(0, SWERR0, VALID, 1);
    q0 = FIELD_DP64(q0, SWERR0, ERROR, error);
    if (w) {
        q0 = FIELD_DP64(q0, SWERR0, DESCRIPTOR, 1);
        q0 = FIELD_DP64(q0, SWERR0, QUEUE, 1);
        q0 = FIELD_DP64(q0, SWERR0, QUEUE_INDEX, queue);
        q0 = FIELD_DP64(q0, SWERR0, BATCH, w->batch != NULL);
        q0 = FIELD_DP64(q0, SWERR0, OPCODE,
                        FIELD_EX64(ldq_le_p(w->desc), DESC, OPCODE));
    }
    dsa_set64(s, A_SWERR0, q0);
    dsa_set64(s, A_SWERR + 8, w ? w->index : 0);
    dsa_set64(s, A_SWERR + 16, address);
    if (dsa_get32(s, A_GENCTRL) & GENCTRL_ERROR) {
        dsa_raise(s, INTCAUSE_ERROR, false);
    }
}

/* Nothing is left of descriptors, and nobody takes any */
static void dsa_stop(DSAState *s)
{
    unsigned i;

    dsa_forget(s, (1 << DSA_QUEUES) - 1);
    copy_delay_drop(dsa_channel(s), &s->command_delay);
    s->nr_gathered = 0;
    for (i = 0; i < DSA_QUEUES; i++) {
        dsa_set_queue(s, i, false);
    }
}

void dsa_halt(DSAState *s, unsigned reset)
{
    trace_dsa_halt(dsa_name(s), reset);
    dsa_stop(s);
    s->status = DSA_HALTED;
    dsa_set32(s, A_GENSTS, FIELD_DP32(DSA_HALTED, GENSTS, RESET, reset));
    if (dsa_get32(s, A_CMDSTS) & CMDSTS_ACTIVE) {
        dsa_command_end(s, DSA_HARDWARE);
    }
    if (dsa_get32(s, A_GENCTRL) & GENCTRL_HALT) {
        dsa_raise(s, INTCAUSE_HALT, false);
    }
}

void dsa_clear(DSAState *s)
{
    unsigned i;

    dsa_stop(s);
    dsa_set32(s, A_GENCFG, 0);
    dsa_set32(s, A_GENCTRL, 0);
    memset(s->regs + A_SWERR, 0, 32);
    memset(s->regs + A_GRPCFG, 0, DSA_GROUPS * GRPCFG_SIZE);
    memset(s->regs + A_WQCFG, 0, DSA_QUEUES * WQCFG_SIZE);
    for (i = 0; i < DSA_GROUPS; i++) {
        dsa_set64(s, A_GRPCFG + i * GRPCFG_SIZE + GRPCFG_FLAGS,
                  GRPCFG_FLAGS_RESET);
    }
    for (i = 0; i < DSA_QUEUES; i++) {
        s->queues[i].group = -1;
    }
    for (i = 0; i < DSA_ENGINES; i++) {
        s->engines[i].group = -1;
    }
    dsa_set_status(s, DSA_DISABLED);
}

/* --- registers --- */

/* Whether what is written there is dropped, as things are */
static bool dsa_locked(const DSAState *s, hwaddr at)
{
    unsigned word;

    if (at < A_WQCFG) {
        return s->status != DSA_DISABLED &&
               (ranges_overlap(at, 1, A_GENCFG, 4) || at >= A_GRPCFG);
    }
    word = (at - A_WQCFG) % WQCFG_SIZE & ~3;
    if (word == WQCFG_ENTRIES) {
        return s->status != DSA_DISABLED;
    }
    return word != WQCFG_THRESHOLD &&
           s->queues[(at - A_WQCFG) / WQCFG_SIZE].enabled;
}

static uint64_t dsa_read(void *opaque, hwaddr at, unsigned size)
{
    DSAState *s = opaque;
    CopyChannel *c = dsa_channel(s);

    copy_channel_stall_read(c, ranges_overlap(at, size, A_INTCAUSE, 4));
    return c->gone ? UINT64_MAX : ldn_le_p(s->regs + at, size);
}

/* What of an access is written to the 32 bits of this register */
static uint32_t dsa_written(hwaddr at, unsigned size, uint64_t value,
                            hwaddr reg)
{
    uint8_t bytes[8] = { };
    uint8_t part[4] = { };
    unsigned i;

    stn_le_p(bytes, size, value);
    for (i = 0; i < size; i++) {
        if (at + i >= reg && at + i < reg + 4) {
            part[at + i - reg] = bytes[i];
        }
    }
    return ldl_le_p(part);
}

static void dsa_write(void *opaque, hwaddr at, uint64_t value, unsigned size)
{
    DSAState *s = opaque;
    uint32_t bits;
    unsigned i;

    copy_channel_stall_write(dsa_channel(s), false);
    if (dsa_channel(s)->gone) {
        return;
    }
    for (i = 0; i < size; i++) {
        uint8_t mask = dsa_locked(s, at + i) ? 0 : s->writable[at + i];

        s->regs[at + i] = (s->regs[at + i] & ~mask) | (value >> i * 8 & mask);
    }
    bits = dsa_written(at, size, value, A_INTCAUSE);
    dsa_set32(s, A_INTCAUSE, dsa_get32(s, A_INTCAUSE) & ~bits);
    bits = dsa_written(at, size, value, A_SWERR);
    bits &= R_SWERR0_VALID_MASK | R_SWERR0_OVERFLOW_MASK;
    dsa_set32(s, A_SWERR, dsa_get32(s, A_SWERR) & ~bits);
    if (ranges_overlap(at, size, A_CMD, 4)) {
        dsa_command(s, dsa_written(at, size, value, A_CMD));
    }
    dsa_start(s);
    copy_channel_settle(dsa_channel(s));
}

static const MemoryRegionOps dsa_ops = {
    .read = dsa_read,
    .write = dsa_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 1,
    .valid.max_access_size = 8,
    .impl.min_access_size = 1,
    .impl.max_access_size = 8,
};

/* --- portals --- */

static uint64_t dsa_portal_read(void *opaque, hwaddr at, unsigned size)
{
    DSAState *s = opaque;

    copy_channel_stall_read(dsa_channel(s), false);
    return UINT64_MAX;
}

/*
 * A 64-byte store comes in eight, the first of them at the start of the block;
 * what comes otherwise is no descriptor
 */
static void dsa_portal_write(void *opaque, hwaddr at, uint64_t value,
                             unsigned size)
{
    DSAState *s = opaque;
    hwaddr block = at & ~(hwaddr)(DSA_DESC_SIZE - 1);

    if (at == block) {
        s->gathered_at = block;
        s->nr_gathered = 0;
    }
    if (size != 8 || at != s->gathered_at + s->nr_gathered) {
        s->nr_gathered = 0;
        qemu_log_mask(LOG_GUEST_ERROR, "%s: store of %u bytes to a portal at "
                      "0x%" HWADDR_PRIx "\n", TYPE_DSA, size, at);
        return;
    }
    stq_le_p(s->gathered + s->nr_gathered, value);
    s->nr_gathered += size;
    if (s->nr_gathered < DSA_DESC_SIZE) {
        return;
    }
    s->nr_gathered = 0;
    copy_channel_stall_write(dsa_channel(s), true);
    if (!dsa_channel(s)->gone && s->status != DSA_HALTED) {
        dsa_submit(s, at / (DSA_PORTALS_SIZE / DSA_QUEUES), s->gathered);
        copy_channel_settle(dsa_channel(s));
    }
}

static const MemoryRegionOps dsa_portal_ops = {
    .read = dsa_portal_read,
    .write = dsa_portal_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 1,
    .valid.max_access_size = 8,
    .impl.min_access_size = 1,
    .impl.max_access_size = 8,
};

/* --- device --- */

static uint32_t dsa_config_read(PCIDevice *pci, uint32_t at, int size)
{
    return copy_channel_config_read(dsa_channel(DSA(pci)), pci, at, size);
}

static void dsa_config_write(PCIDevice *pci, uint32_t at, uint32_t value,
                             int size)
{
    DSAState *s = DSA(pci);
    CopyChannel *c = dsa_channel(s);

    copy_channel_config_write(c, pci, at, value, size);
    if (c->gone) {
        return;
    }
    pcie_cap_flr_write_config(pci, at, value, size);
    if ((s->status == DSA_ENABLED || s->status == DSA_DRAINING) &&
        !(pci_get_word(pci->config + PCI_COMMAND) & PCI_COMMAND_MASTER)) {
        dsa_software_error(s, 0, DSA_BUS_MASTER_OFF, NULL, 0);
        dsa_halt(s, 1);
    }
    copy_channel_settle(c);
}

static void dsa_reset(DeviceState *dev)
{
    DSAState *s = DSA(dev);
    unsigned i;

    dsa_clear(s);
    for (i = 0; i < DSA_ENGINES; i++) {
        copy_channel_reset(&s->engines[i].channel);
    }
    dsa_set32(s, A_INTCAUSE, 0);
    dsa_set32(s, A_CMD, 0);
    dsa_set32(s, A_CMDSTS, 0);
    memset(s->regs + A_MSIXPERM, 0, DSA_VECTORS * 8);
    s->nr_submitted = 0;
    s->last_queue = 0;
    msix_reset(PCI_DEVICE(dev));
}

/* What the device can do; nothing of it ever changes */
static void dsa_init_capabilities(DSAState *s)
{
    dsa_set32(s, A_VERSION, VERSION_1_0);
    dsa_set64(s, A_GENCAP, GENCAP_PRODUCTION);
    dsa_set64(s, A_WQCAP, WQCAP_PRODUCTION);
    dsa_set64(s, A_GRPCAP, GRPCAP_PRODUCTION);
    dsa_set64(s, A_ENGCAP, DSA_ENGINES);
    dsa_set64(s, A_OPCAP, (1 << DSA_NR_OPCODES) - 1);
    dsa_set64(s, A_TABLES, A_GRPCFG >> 8 | A_WQCFG >> 8 << 16 |
                           (uint64_t)A_MSIXPERM >> 8 << 32);
}

/* Nothing is ever kept in the other bits */
static void dsa_init_writable(DSAState *s)
{
    uint8_t *at;
    unsigned i;

    memset(s->writable, 0, sizeof(s->writable));
    s->writable[A_GENCFG] = 0xff;
    s->writable[A_GENCTRL] = GENCTRL_ERROR | GENCTRL_HALT;
    for (i = 0; i < DSA_VECTORS; i++) {
        stl_le_p(s->writable + A_MSIXPERM + 8 * i, 0xfffff00c);
    }
    for (i = 0; i < DSA_GROUPS; i++) {
        at = s->writable + A_GRPCFG + i * GRPCFG_SIZE;
        at[0] = 0xff;
        at[GRPCFG_ENGINES] = 0xf;
        stl_le_p(at + GRPCFG_FLAGS, 0x0ff0ffbf);
    }
    for (i = 0; i < DSA_QUEUES; i++) {
        at = s->writable + A_WQCFG + i * WQCFG_SIZE;
        stw_le_p(at + WQCFG_ENTRIES, 0xffff);
        stw_le_p(at + WQCFG_THRESHOLD, 0xffff);
        stl_le_p(at + A_WQCFG_MODE, 0x3fffffff);
        stl_le_p(at + A_WQCFG_LIMITS, 0x1ff);
        memset(at + 0x10, 0xff, 8);
    }
}

/* Returns: whether the memory of its BARs and its vectors are there */
static bool dsa_init_bars(DSAState *s, Error **errp)
{
    PCIDevice *pci = PCI_DEVICE(s);
    const uint8_t kind = PCI_BASE_ADDRESS_SPACE_MEMORY |
                         PCI_BASE_ADDRESS_MEM_TYPE_64 |
                         PCI_BASE_ADDRESS_MEM_PREFETCH;
    unsigned i;

    memory_region_init(&s->bar, OBJECT(s), "dsa", DSA_BAR_SIZE);
    memory_region_init_io(&s->mmio, OBJECT(s), &dsa_ops, s, "dsa-registers",
                          DSA_REGS_SIZE);
    memory_region_add_subregion(&s->bar, 0, &s->mmio);
    memory_region_init_io(&s->portals, OBJECT(s), &dsa_portal_ops, s,
                          "dsa-portals", DSA_PORTALS_SIZE);
    if (msix_init(pci, DSA_VECTORS, &s->bar, 0, DSA_MSIX_TABLE, &s->bar, 0,
                  DSA_MSIX_PBA, DSA_MSIX_CAP, errp)) {
        return false;
    }
    for (i = 0; i < DSA_VECTORS; i++) {
        msix_vector_use(pci, i);
    }
    pci_register_bar(pci, 0, kind, &s->bar);
    pci_register_bar(pci, DSA_PORTALS_BAR, kind, &s->portals);
    return true;
}

static void dsa_realize(PCIDevice *pci, Error **errp)
{
    DSAState *s = DSA(pci);
    unsigned i;

    if (s->device_id != DSA_DEVICE_SPR && s->device_id != DSA_DEVICE_GNRD) {
        error_setg(errp, "device-id must be 0x%x or 0x%x", DSA_DEVICE_SPR,
                   DSA_DEVICE_GNRD);
        return;
    }
    if (!pci_bus_is_express(pci_get_bus(pci))) {
        error_setg(errp, "%s needs a PCI Express bus, as q35 has", TYPE_DSA);
        return;
    }
    pci_set_word(pci->config + PCI_DEVICE_ID, s->device_id);
    dsa_init_capabilities(s);
    dsa_init_writable(s);
    if (!dsa_init_bars(s, errp)) {
        return;
    }
    if (pcie_endpoint_cap_init(pci, DSA_PCIE_CAP) < 0) {
        error_setg(errp, "no place for the PCI Express capability");
        return;
    }
    pcie_cap_flr_init(pci);
    for (i = 0; i < DSA_ENGINES; i++) {
        copy_channel_realize(&s->engines[i].channel);
    }
}

static void dsa_exit(PCIDevice *pci)
{
    DSAState *s = DSA(pci);
    unsigned i;

    dsa_stop(s);
    for (i = 0; i < DSA_ENGINES; i++) {
        copy_channel_exit(&s->engines[i].channel);
    }
    pcie_cap_exit(pci);
    msix_unuse_all_vectors(pci);
    msix_uninit(pci, &s->bar, &s->bar);
}

/* --- properties --- */

static void dsa_get_error_code(Object *obj, Visitor *v, const char *name,
                               void *opaque, Error **errp)
{
    visit_type_uint32(v, name, &dsa_channel(DSA(obj))->error_code, errp);
}

static void dsa_set_error_code(Object *obj, Visitor *v, const char *name,
                               void *opaque, Error **errp)
{
    uint32_t code;

    if (!visit_type_uint32(v, name, &code, errp)) {
        return;
    }
    if ((code & ~DSA_STATUS_WRITE) <= DSA_SUCCESS || code > 0xff) {
        error_setg(errp, "%s must be a status of a record, 2 to 255", name);
        return;
    }
    dsa_channel(DSA(obj))->error_code = code;
}

static const char *const dsa_fault_words[] = { "page-fault", "translation" };

static char *dsa_get_fault(Object *obj, Error **errp)
{
    return g_strdup(dsa_fault_words[!DSA(obj)->fault_is_page]);
}

static void dsa_set_fault(Object *obj, const char *value, Error **errp)
{
    copy_channel_set_guess(&DSA(obj)->fault_is_page, "untranslated", value,
                           dsa_fault_words, errp);
}

static void dsa_init_numbers(DSAState *s)
{
    const struct {
        const char *name;
        uint32_t *value;
    } numbers[] = {
        { "latency-ns", &s->latency_ns },
        { "command-ns", &s->command_ns },
        { "command-error-at", &s->command_error_at },
        { "command-error-code", &s->command_error_code },
        { "lose-command-irq-at", &s->lose_command_irq_at },
        { "halt-at", &s->halt_at },
        { "halt-type", &s->halt_type },
    };
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(numbers); i++) {
        object_property_add_uint32_ptr(OBJECT(s), numbers[i].name,
                                       numbers[i].value,
                                       OBJ_PROP_FLAG_READWRITE);
    }
    s->command_error_code = DSA_HARDWARE;
}

static void dsa_instance_init(Object *obj)
{
    DSAState *s = DSA(obj);
    unsigned i;

    QTAILQ_INIT(&s->ending);
    for (i = 0; i < DSA_QUEUES; i++) {
        QTAILQ_INIT(&s->queues[i].waiting);
        QTAILQ_INIT(&s->queues[i].running);
    }
    copy_channel_init(dsa_channel(s), obj, &dsa_channel_ops);
    for (i = 0; i < DSA_ENGINES; i++) {
        s->engines[i].device = s;
        s->engines[i].number = i;
        if (i) {
            copy_channel_init_sibling(&s->engines[i].channel, dsa_channel(s));
        }
    }
    dsa_channel(s)->error_code = DSA_HARDWARE_ERROR;
    s->fault_is_page = true;
    dsa_init_numbers(s);
    dsa_command_init(s);
}

static Property dsa_properties[] = {
    DEFINE_PROP_LINK("fabric", DSAState, engines[0].channel.fabric,
                     TYPE_COPY_FABRIC, CopyFabric *),
    DEFINE_PROP_UINT16("device-id", DSAState, device_id, DSA_DEVICE_SPR),
    DEFINE_PROP_END_OF_LIST(),
};

/* A copy under way has no place in a saved machine */
static const VMStateDescription dsa_vmstate = {
    .name = TYPE_DSA,
    .unmigratable = 1,
};

static void dsa_class_init(ObjectClass *class, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(class);

    pc->realize = dsa_realize;
    pc->exit = dsa_exit;
    pc->config_read = dsa_config_read;
    pc->config_write = dsa_config_write;
    pc->vendor_id = PCI_VENDOR_ID_INTEL;
    pc->device_id = DSA_DEVICE_SPR;
    pc->class_id = PCI_CLASS_SYSTEM_OTHER;
    dc->desc = "Intel DSA 1.0: copies memory, in modelled time";
    dc->reset = dsa_reset;
    dc->vmsd = &dsa_vmstate;
    device_class_set_props(dc, dsa_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
    object_class_property_add(class, "error-code", "uint32",
                              dsa_get_error_code, dsa_set_error_code,
                              NULL, NULL);
    object_class_property_add_str(class, "untranslated", dsa_get_fault,
                                  dsa_set_fault);
}

static const TypeInfo dsa_types[] = {
    {
        .name = TYPE_DSA,
        .parent = TYPE_PCI_DEVICE,
        .instance_size = sizeof(DSAState),
        .instance_init = dsa_instance_init,
        .class_init = dsa_class_init,
        .interfaces = (InterfaceInfo[]) {
            { INTERFACE_PCIE_DEVICE },
            { },
        },
    },
};

DEFINE_TYPES(dsa_types)
