/*
 * AMD PTDMA, a PCI function that copies memory
 *
 * One function is one channel: it takes descriptors from a ring in memory, one
 * at a time and in order. See docs/specs/ptdma.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/log.h"
#include "qemu/module.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci.h"
#include "hw/qdev-properties.h"
#include "hw/register.h"
#include "migration/vmstate.h"
#include "copy_channel.h"
#include "trace.h"

#define TYPE_PTDMA "amd-ptdma"
OBJECT_DECLARE_SIMPLE_TYPE(PTDMAState, PTDMA)

#define PTDMA_DEVICE_ID     0x1498
#define PTDMA_BAR           2
#define PTDMA_MSIX_BAR      4
#define PTDMA_BAR_SIZE      (64 * KiB)

/* The registers of the function, from the start of the BAR */
REG32(QUEUE_PRIO, 0x00)
REG32(REQID_CONFIG, 0x04)
REG32(TIMEOUT, 0x08)
REG32(VERSION, 0x10)
    FIELD(VERSION, NUMBER, 0, 6)
    FIELD(VERSION, QUEUES, 15, 4)
#define PTDMA_FUNCTION_SIZE 0x14

/* The registers of its one queue */
#define PTDMA_QUEUE         0x1000
REG32(CONTROL, 0x000)
    FIELD(CONTROL, RUN, 0, 1)
    FIELD(CONTROL, HALT, 1, 1)
    FIELD(CONTROL, SIZE, 3, 5)
    FIELD(CONTROL, BASE_HI, 16, 16)
REG32(TAIL, 0x004)
REG32(HEAD, 0x008)
REG32(INT_ENABLE, 0x00c)
REG32(INT_STATUS, 0x010)
    FIELD(INT_STATUS, COMPLETION, 0, 1)
    FIELD(INT_STATUS, ERROR, 1, 1)
    FIELD(INT_STATUS, STOPPED, 2, 1)
    FIELD(INT_STATUS, EMPTY, 3, 1)
REG32(STATUS, 0x100)
REG32(INT_STATUS_COPY, 0x104)
REG32(CONFIG, 0x120)
#define PTDMA_QUEUE_SIZE    0x124

#define PTDMA_CLOCK         0x6004
REG32(CLOCK_GATE, 0x00)
#define PTDMA_CLOCK_SIZE    0x04

/* A descriptor: eight little-endian words */
#define PTDMA_DESC_SIZE     32
REG32(DESC_COMMAND, 0x00)
    FIELD(DESC_COMMAND, INTERRUPT, 1, 1)
    FIELD(DESC_COMMAND, FUNCTION, 5, 15)
    FIELD(DESC_COMMAND, ENGINE, 20, 4)
REG32(DESC_LENGTH, 0x04)
REG32(DESC_SRC_LO, 0x08)
REG32(DESC_SRC_HI, 0x0c)
    FIELD(DESC_SRC_HI, ADDRESS, 0, 16)
    FIELD(DESC_SRC_HI, MEMORY, 16, 2)
REG32(DESC_DST_LO, 0x10)
REG32(DESC_DST_HI, 0x14)
    FIELD(DESC_DST_HI, ADDRESS, 0, 16)
    FIELD(DESC_DST_HI, MEMORY, 16, 2)

#define PTDMA_ENGINE_PASSTHROUGH 5

/* Codes for the STATUS register */
enum {
    PTDMA_OK = 0,
    PTDMA_ILLEGAL_ENGINE = 1,
    PTDMA_ILLEGAL_FUNCTION = 3,
    PTDMA_ILLEGAL_LENGTH = 9,
    PTDMA_ILLEGAL_MEMORY = 12,
    PTDMA_READ_FAILED = 19,
    PTDMA_WRITE_FAILED = 38,
    PTDMA_LAST_CODE = 63,
};

struct PTDMAState {
    PCIDevice parent_obj;

    MemoryRegion bar;
    RegisterInfoArray *blocks[3];
    RegisterInfo function_info[PTDMA_FUNCTION_SIZE / 4];
    RegisterInfo queue_info[PTDMA_QUEUE_SIZE / 4];
    RegisterInfo clock_info[PTDMA_CLOCK_SIZE / 4];
    uint32_t function_regs[PTDMA_FUNCTION_SIZE / 4];
    uint32_t regs[PTDMA_QUEUE_SIZE / 4];
    uint32_t clock_regs[PTDMA_CLOCK_SIZE / 4];
    bool irq_level;

    CopyChannel channel;

    /* The descriptor in hand */
    uint32_t at;            /* low half of its address */
    uint32_t desc[PTDMA_DESC_SIZE / 4];

    /* Properties: what nobody has said of the real function */
    bool head_at_fetch;     /* HEAD moves as a descriptor is taken */
    bool run_sticky;        /* RUN stays when it stops, and HALT says so */

    uint32_t ones_at;       /* fault: counted down by each read of INT_STATUS */
};

static void ptdma_start_next(PTDMAState *s);

/* --- interrupts --- */

static void ptdma_update_irq(PTDMAState *s)
{
    bool level = s->regs[R_INT_STATUS] & s->regs[R_INT_ENABLE];

    if (level && !s->irq_level) {
        trace_ptdma_irq(DEVICE(s)->canonical_path, s->regs[R_INT_STATUS],
                        s->channel.irq_lost);
        copy_channel_notify(&s->channel, PCI_DEVICE(s));
    }
    s->irq_level = level;
}

static void ptdma_raise(PTDMAState *s, uint32_t status)
{
    s->regs[R_INT_STATUS] |= status;
    ptdma_update_irq(s);
}

/* --- the life of a descriptor --- */

static bool ptdma_running(const PTDMAState *s)
{
    return FIELD_EX32(s->regs[R_CONTROL], CONTROL, RUN) &&
           !FIELD_EX32(s->regs[R_CONTROL], CONTROL, HALT);
}

/* The descriptor after the one at @at; the ring is aligned to its size */
static uint32_t ptdma_successor(const PTDMAState *s, uint32_t at)
{
    unsigned size = FIELD_EX32(s->regs[R_CONTROL], CONTROL, SIZE);
    uint64_t mask = (2ULL * PTDMA_DESC_SIZE << size) - 1;

    return (at & ~mask) | ((at + PTDMA_DESC_SIZE) & mask);
}

/* How the guest sees that nothing is taken until it writes to CONTROL */
static void ptdma_stop(PTDMAState *s)
{
    uint32_t control = s->regs[R_CONTROL];

    s->regs[R_CONTROL] = s->run_sticky ?
                         FIELD_DP32(control, CONTROL, HALT, 1) :
                         FIELD_DP32(control, CONTROL, RUN, 0);
}

/* Say how the descriptor ended, and take the next */
static void ptdma_finish(CopyChannel *c, uint32_t code)
{
    PTDMAState *s = container_of(c, PTDMAState, channel);
    uint32_t status = 0;

    trace_ptdma_finish(DEVICE(s)->canonical_path, s->at, code);
    if (code) {
        s->regs[R_STATUS] = code;
        ptdma_stop(s);
        status |= R_INT_STATUS_ERROR_MASK | R_INT_STATUS_STOPPED_MASK;
    } else {
        if (!s->head_at_fetch) {
            s->regs[R_HEAD] = ptdma_successor(s, s->at);
        }
        if (FIELD_EX32(s->desc[R_DESC_COMMAND], DESC_COMMAND, INTERRUPT)) {
            status |= R_INT_STATUS_COMPLETION_MASK;
        }
        if (s->regs[R_HEAD] == s->regs[R_TAIL]) {
            status |= R_INT_STATUS_EMPTY_MASK;
            if (s->run_sticky) {
                ptdma_stop(s);
            }
        }
    }
    ptdma_raise(s, status);
    ptdma_start_next(s);
}

static dma_addr_t ptdma_address(const PTDMAState *s, unsigned lo)
{
    /* The high halves of source and destination are alike */
    return (uint64_t)FIELD_EX32(s->desc[lo + 1], DESC_SRC_HI, ADDRESS) << 32 |
           s->desc[lo];
}

static uint32_t ptdma_copy(CopyChannel *c)
{
    PTDMAState *s = container_of(c, PTDMAState, channel);
    PCIDevice *pci = PCI_DEVICE(s);
    dma_addr_t src = ptdma_address(s, R_DESC_SRC_LO) + c->offset;
    dma_addr_t dst = ptdma_address(s, R_DESC_DST_LO) + c->offset;

    if (pci_dma_read(pci, src, c->buffer, c->piece)) {
        return PTDMA_READ_FAILED;
    }
    if (pci_dma_write(pci, dst, c->buffer, c->piece)) {
        return PTDMA_WRITE_FAILED;
    }
    return PTDMA_OK;
}

static const CopyChannelOps ptdma_channel_ops = {
    .move = ptdma_copy,
    .finish = ptdma_finish,
};

/* Returns: a code */
static uint8_t ptdma_check(const PTDMAState *s)
{
    uint32_t command = s->desc[R_DESC_COMMAND];

    if (FIELD_EX32(command, DESC_COMMAND, ENGINE) != PTDMA_ENGINE_PASSTHROUGH) {
        return PTDMA_ILLEGAL_ENGINE;
    }
    if (FIELD_EX32(command, DESC_COMMAND, FUNCTION)) {
        return PTDMA_ILLEGAL_FUNCTION;
    }
    if (!s->desc[R_DESC_LENGTH]) {
        return PTDMA_ILLEGAL_LENGTH;
    }
    if (FIELD_EX32(s->desc[R_DESC_SRC_HI], DESC_SRC_HI, MEMORY) ||
        FIELD_EX32(s->desc[R_DESC_DST_HI], DESC_DST_HI, MEMORY)) {
        return PTDMA_ILLEGAL_MEMORY;
    }
    return PTDMA_OK;
}

/* Returns: a code */
static uint8_t ptdma_fetch(PTDMAState *s)
{
    dma_addr_t base = FIELD_EX32(s->regs[R_CONTROL], CONTROL, BASE_HI);
    uint8_t code;
    int i;

    s->at = s->regs[R_HEAD];
    memset(s->desc, 0, sizeof(s->desc));
    if (pci_dma_read(PCI_DEVICE(s), base << 32 | s->at, s->desc,
                     sizeof(s->desc))) {
        return PTDMA_READ_FAILED;
    }
    for (i = 0; i < ARRAY_SIZE(s->desc); i++) {
        le32_to_cpus(&s->desc[i]);
    }
    trace_ptdma_fetch(DEVICE(s)->canonical_path, s->at,
                      ptdma_address(s, R_DESC_SRC_LO),
                      ptdma_address(s, R_DESC_DST_LO), s->desc[R_DESC_LENGTH]);
    code = ptdma_check(s);
    if (code) {
        qemu_log_mask(LOG_GUEST_ERROR, "%s: bad descriptor at 0x%x: error %d\n",
                      TYPE_PTDMA, s->at, code);
    }
    return code;
}

static void ptdma_start_next(PTDMAState *s)
{
    uint8_t code;

    if (copy_channel_busy(&s->channel) || !ptdma_running(s) ||
        s->regs[R_HEAD] == s->regs[R_TAIL]) {
        return;
    }
    code = ptdma_fetch(s);
    if (s->head_at_fetch) {
        s->regs[R_HEAD] = ptdma_successor(s, s->at);
    }
    if (code) {
        ptdma_finish(&s->channel, code);
        return;
    }
    copy_channel_start(&s->channel, s->desc[R_DESC_LENGTH]);
    copy_channel_take_faults(&s->channel);
}

/* --- registers --- */

static void ptdma_queue_written(RegisterInfo *reg, uint64_t value)
{
    PTDMAState *s = PTDMA(reg->opaque);

    ptdma_start_next(s);
    copy_channel_settle(&s->channel);
}

static void ptdma_irq_written(RegisterInfo *reg, uint64_t value)
{
    ptdma_update_irq(PTDMA(reg->opaque));
}

static uint64_t ptdma_read_int_status(RegisterInfo *reg, uint64_t value)
{
    return PTDMA(reg->opaque)->regs[R_INT_STATUS];
}

static uint64_t ptdma_read(void *opaque, hwaddr at, unsigned size)
{
    RegisterInfoArray *block = opaque;
    PTDMAState *s = PTDMA(block->r[0]->opaque);

    copy_channel_stall_read(&s->channel,
                            block == s->blocks[1] && at == A_INT_STATUS);
    if (s->channel.gone ||
        (block == s->blocks[1] && at == A_INT_STATUS &&
         copy_channel_countdown(&s->ones_at))) {
        return UINT32_MAX;
    }
    return register_read_memory(opaque, at, size);
}

static void ptdma_write(void *opaque, hwaddr at, uint64_t value, unsigned size)
{
    RegisterInfoArray *block = opaque;
    PTDMAState *s = PTDMA(block->r[0]->opaque);

    copy_channel_stall_write(&s->channel, false);
    if (!s->channel.gone) {
        register_write_memory(opaque, at, value, size);
    }
}

static const RegisterAccessInfo ptdma_function_info[] = {
    { .name = "QUEUE_PRIO", .addr = A_QUEUE_PRIO },
    { .name = "REQID_CONFIG", .addr = A_REQID_CONFIG },
    { .name = "TIMEOUT", .addr = A_TIMEOUT },
    { .name = "VERSION", .addr = A_VERSION, .ro = UINT32_MAX,
      .reset = 5 << R_VERSION_NUMBER_SHIFT | 1 << R_VERSION_QUEUES_SHIFT },
};

static const RegisterAccessInfo ptdma_queue_info[] = {
    { .name = "CONTROL", .addr = A_CONTROL, .ro = 0xff00, .rsvd = 0xff00,
      .post_write = ptdma_queue_written },
    { .name = "TAIL", .addr = A_TAIL, .ro = 0x1f, .rsvd = 0x1f,
      .post_write = ptdma_queue_written },
    { .name = "HEAD", .addr = A_HEAD, .ro = 0x1f, .rsvd = 0x1f,
      .post_write = ptdma_queue_written },
    { .name = "INT_ENABLE", .addr = A_INT_ENABLE,
      .ro = 0xfffffff0, .rsvd = 0xfffffff0, .post_write = ptdma_irq_written },
    { .name = "INT_STATUS", .addr = A_INT_STATUS, .w1c = 0xf,
      .ro = 0xfffffff0, .rsvd = 0xfffffff0, .post_write = ptdma_irq_written },
    { .name = "STATUS", .addr = A_STATUS, .ro = UINT32_MAX },
    { .name = "INT_STATUS_COPY", .addr = A_INT_STATUS_COPY, .ro = UINT32_MAX,
      .post_read = ptdma_read_int_status },
    { .name = "CONFIG", .addr = A_CONFIG },
};

static const RegisterAccessInfo ptdma_clock_info[] = {
    { .name = "CLOCK_GATE", .addr = A_CLOCK_GATE },
};

static const MemoryRegionOps ptdma_ops = {
    .read = ptdma_read,
    .write = ptdma_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 4,
    .valid.max_access_size = 4,
};

/* --- device --- */

static uint32_t ptdma_config_read(PCIDevice *pci, uint32_t at, int size)
{
    return copy_channel_config_read(&PTDMA(pci)->channel, pci, at, size);
}

static void ptdma_config_write(PCIDevice *pci, uint32_t at, uint32_t value,
                               int size)
{
    copy_channel_config_write(&PTDMA(pci)->channel, pci, at, value, size);
}

static void ptdma_reset(DeviceState *dev)
{
    PTDMAState *s = PTDMA(dev);
    int i, j;

    copy_channel_reset(&s->channel);
    for (i = 0; i < ARRAY_SIZE(s->blocks); i++) {
        for (j = 0; j < s->blocks[i]->num_elements; j++) {
            register_reset(s->blocks[i]->r[j]);
        }
    }
    s->irq_level = false;
    msix_reset(PCI_DEVICE(dev));
}

static void ptdma_init_registers(PTDMAState *s)
{
    DeviceState *dev = DEVICE(s);

    s->blocks[0] = register_init_block32(dev, ptdma_function_info,
                                         ARRAY_SIZE(ptdma_function_info),
                                         s->function_info, s->function_regs,
                                         &ptdma_ops, false,
                                         PTDMA_FUNCTION_SIZE);
    s->blocks[1] = register_init_block32(dev, ptdma_queue_info,
                                         ARRAY_SIZE(ptdma_queue_info),
                                         s->queue_info, s->regs,
                                         &ptdma_ops, false, PTDMA_QUEUE_SIZE);
    s->blocks[2] = register_init_block32(dev, ptdma_clock_info,
                                         ARRAY_SIZE(ptdma_clock_info),
                                         s->clock_info, s->clock_regs,
                                         &ptdma_ops, false, PTDMA_CLOCK_SIZE);
    memory_region_init(&s->bar, OBJECT(s), "ptdma", PTDMA_BAR_SIZE);
    memory_region_add_subregion(&s->bar, 0, &s->blocks[0]->mem);
    memory_region_add_subregion(&s->bar, PTDMA_QUEUE, &s->blocks[1]->mem);
    memory_region_add_subregion(&s->bar, PTDMA_CLOCK, &s->blocks[2]->mem);
}

static void ptdma_realize(PCIDevice *pci, Error **errp)
{
    PTDMAState *s = PTDMA(pci);

    if (msix_init_exclusive_bar(pci, 1, PTDMA_MSIX_BAR, errp)) {
        return;
    }
    msix_vector_use(pci, 0);
    pci_register_bar(pci, PTDMA_BAR, PCI_BASE_ADDRESS_SPACE_MEMORY, &s->bar);
    copy_channel_realize(&s->channel);
}

static void ptdma_exit(PCIDevice *pci)
{
    PTDMAState *s = PTDMA(pci);

    copy_channel_exit(&s->channel);
    msix_vector_unuse(pci, 0);
    msix_uninit_exclusive_bar(pci);
}

/* --- properties that may change while the machine runs --- */

static void ptdma_get_error_code(Object *obj, Visitor *v, const char *name,
                                 void *opaque, Error **errp)
{
    visit_type_uint32(v, name, &PTDMA(obj)->channel.error_code, errp);
}

static void ptdma_set_error_code(Object *obj, Visitor *v, const char *name,
                                 void *opaque, Error **errp)
{
    uint32_t code;

    if (!visit_type_uint32(v, name, &code, errp)) {
        return;
    }
    if (!code || code > PTDMA_LAST_CODE) {
        error_setg(errp, "%s must be 1 to %d", name, PTDMA_LAST_CODE);
        return;
    }
    PTDMA(obj)->channel.error_code = code;
}

static const char *const ptdma_head_words[] = { "fetch", "end" };
static const char *const ptdma_run_words[] = { "sticky", "auto" };

static char *ptdma_get_head(Object *obj, Error **errp)
{
    return g_strdup(ptdma_head_words[!PTDMA(obj)->head_at_fetch]);
}

static void ptdma_set_head(Object *obj, const char *value, Error **errp)
{
    copy_channel_set_guess(&PTDMA(obj)->head_at_fetch, "head", value,
                           ptdma_head_words, errp);
}

static char *ptdma_get_run(Object *obj, Error **errp)
{
    return g_strdup(ptdma_run_words[!PTDMA(obj)->run_sticky]);
}

static void ptdma_set_run(Object *obj, const char *value, Error **errp)
{
    copy_channel_set_guess(&PTDMA(obj)->run_sticky, "run", value,
                           ptdma_run_words, errp);
}

static void ptdma_instance_init(Object *obj)
{
    PTDMAState *s = PTDMA(obj);

    ptdma_init_registers(s);
    copy_channel_init(&s->channel, obj, &ptdma_channel_ops);
    s->channel.error_code = PTDMA_WRITE_FAILED;
    object_property_add_uint32_ptr(obj, "ones-at", &s->ones_at,
                                   OBJ_PROP_FLAG_READWRITE);
}

static void ptdma_instance_finalize(Object *obj)
{
    PTDMAState *s = PTDMA(obj);
    int i;

    for (i = 0; i < ARRAY_SIZE(s->blocks); i++) {
        register_finalize_block(s->blocks[i]);
    }
}

static Property ptdma_properties[] = {
    DEFINE_PROP_LINK("fabric", PTDMAState, channel.fabric, TYPE_COPY_FABRIC,
                     CopyFabric *),
    DEFINE_PROP_END_OF_LIST(),
};

/* A copy under way has no place in a saved machine */
static const VMStateDescription ptdma_vmstate = {
    .name = TYPE_PTDMA,
    .unmigratable = 1,
};

static void ptdma_class_init(ObjectClass *class, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(class);

    pc->realize = ptdma_realize;
    pc->exit = ptdma_exit;
    pc->config_read = ptdma_config_read;
    pc->config_write = ptdma_config_write;
    pc->vendor_id = PCI_VENDOR_ID_AMD;
    pc->device_id = PTDMA_DEVICE_ID;
    pc->class_id = PCI_CLASS_OTHERS;
    dc->desc = "AMD PTDMA: copies memory, in modelled time";
    dc->reset = ptdma_reset;
    dc->vmsd = &ptdma_vmstate;
    device_class_set_props(dc, ptdma_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
    object_class_property_add(class, "error-code", "uint32",
                              ptdma_get_error_code, ptdma_set_error_code,
                              NULL, NULL);
    object_class_property_add_str(class, "head", ptdma_get_head,
                                  ptdma_set_head);
    object_class_property_add_str(class, "run", ptdma_get_run, ptdma_set_run);
}

static const TypeInfo ptdma_types[] = {
    {
        .name = TYPE_PTDMA,
        .parent = TYPE_PCI_DEVICE,
        .instance_size = sizeof(PTDMAState),
        .instance_init = ptdma_instance_init,
        .instance_finalize = ptdma_instance_finalize,
        .class_init = ptdma_class_init,
        .interfaces = (InterfaceInfo[]) {
            { INTERFACE_CONVENTIONAL_PCI_DEVICE },
            { },
        },
    },
};

DEFINE_TYPES(ptdma_types)
