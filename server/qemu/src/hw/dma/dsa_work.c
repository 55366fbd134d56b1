/*
 * Intel DSA 1.0: the life of descriptors, from a queue to their records
 *
 * A descriptor waits in its queue, until an engine of the queue's group takes
 * it. Its bytes move in the time of the engine's channel. Its record is written
 * after the device's latency, while the engine does others.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/log.h"
#include "dsa.h"
#include "trace.h"

#define DSA_PAGE            4096

/* --- what a descriptor says --- */

static uint64_t dsa_q0(const DSAWork *w)
{
    return ldq_le_p(w->desc);
}

static unsigned dsa_opcode(const DSAWork *w)
{
    return FIELD_EX64(dsa_q0(w), DESC, OPCODE);
}

static uint32_t dsa_length(const DSAWork *w)
{
    return ldl_le_p(w->desc + DSA_DESC_LENGTH);
}

static uint64_t dsa_source(const DSAWork *w)
{
    return ldq_le_p(w->desc + DSA_DESC_SRC);
}

static uint64_t dsa_record(const DSAWork *w)
{
    return ldq_le_p(w->desc + DSA_DESC_RECORD);
}

static unsigned dsa_handle(const DSAWork *w)
{
    return lduw_le_p(w->desc + DSA_DESC_HANDLE);
}

static bool dsa_copies(const DSAWork *w)
{
    return dsa_opcode(w) == DSA_MEMMOVE || dsa_opcode(w) == DSA_FILL;
}

/* Returns: a status, 0: the descriptor can be begun */
static uint8_t dsa_check_common(const DSAState *s, const DSAWork *w)
{
    uint32_t mode = dsa_queue_word(s, w->queue, A_WQCFG_MODE);
    unsigned opcode = dsa_opcode(w);
    uint64_t q0 = dsa_q0(w);

    if (opcode >= DSA_NR_OPCODES ||
        (w->batch && (opcode == DSA_BATCH || opcode == DSA_DRAIN))) {
        return DSA_BAD_OPCODE;
    }
    if (FIELD_EX64(q0, DESC, RECORD_WANTED) &&
        !FIELD_EX64(q0, DESC, RECORD_VALID)) {
        return DSA_BAD_FLAGS;
    }
    if (FIELD_EX64(q0, DESC, BLOCK_ON_FAULT) &&
        !FIELD_EX32(mode, WQCFG_MODE, BLOCK_ON_FAULT)) {
        return DSA_BAD_FLAGS;
    }
    if (FIELD_EX64(q0, DESC, RECORD_VALID) &&
        dsa_record(w) % DSA_RECORD_SIZE) {
        return DSA_BAD_RECORD;
    }
    if (FIELD_EX64(q0, DESC, INTERRUPT) &&
        (!dsa_handle(w) || dsa_handle(w) >= DSA_VECTORS)) {
        return DSA_BAD_HANDLE;
    }
    return 0;
}

/* Returns: a status, 0: the descriptor can be begun */
static uint8_t dsa_check(const DSAState *s, const DSAWork *w)
{
    uint32_t limits = dsa_queue_word(s, w->queue, A_WQCFG_LIMITS);
    uint32_t length = dsa_length(w);
    uint8_t status = dsa_check_common(s, w);

    if (status) {
        return status;
    }
    if (dsa_copies(w)) {
        return !length || length > 1ULL << FIELD_EX32(limits, WQCFG_LIMITS, XFER) ?
               DSA_BAD_SIZE : 0;
    }
    if (dsa_opcode(w) == DSA_BATCH) {
        if (length < 2 || length > 1U << FIELD_EX32(limits, WQCFG_LIMITS, BATCH)) {
            return DSA_BAD_COUNT;
        }
        return dsa_source(w) % DSA_DESC_SIZE ? DSA_BAD_LIST : 0;
    }
    return 0;
}

/* --- its bytes --- */

/*
 * Returns: how many bytes were moved; if not all, @w->fault is the page that
 * could not be accessed
 */
static uint64_t dsa_access(DSAWork *w, dma_addr_t at, uint8_t *buffer,
                           uint64_t length, DMADirection direction)
{
    PCIDevice *pci = PCI_DEVICE(w->device);
    uint64_t done = 0, step;

    if (!pci_dma_rw(pci, at, buffer, length, direction,
                    MEMTXATTRS_UNSPECIFIED)) {
        return length;
    }
    while (done < length) {
        step = MIN(length - done, DSA_PAGE - (at + done) % DSA_PAGE);
        if (pci_dma_rw(pci, at + done, buffer + done, step, direction,
                       MEMTXATTRS_UNSPECIFIED)) {
            w->fault = at + done;
            break;
        }
        done += step;
    }
    return done;
}

static uint8_t dsa_fault(const DSAState *s, bool write)
{
    if (!s->fault_is_page) {
        return DSA_TRANSLATION;
    }
    return DSA_PAGE_FAULT | (write ? DSA_STATUS_WRITE : 0);
}

/* Returns: a status, 0: the piece in hand has moved */
static uint8_t dsa_move_piece(DSAEngine *e, DSAWork *w)
{
    CopyChannel *c = &e->channel;
    uint64_t src = dsa_source(w), at = c->offset, got = c->piece, put, i;
    uint64_t dst = ldq_le_p(w->desc + DSA_DESC_DST);

    if (dsa_opcode(w) == DSA_FILL) {
        /* A piece begins at a multiple of the pattern's length */
        for (i = 0; i < got; i++) {
            c->buffer[i] = src >> i % 8 * 8;
        }
    } else {
        if (dst > src && dst - src < c->length) {
            /* From the end, or a piece would overwrite the next one's source */
            at = c->length - c->offset - c->piece;
        }
        got = dsa_access(w, src + at, c->buffer, c->piece,
                         DMA_DIRECTION_TO_DEVICE);
    }
    put = dsa_access(w, dst + at, c->buffer, got, DMA_DIRECTION_FROM_DEVICE);
    w->done = c->offset + put;
    if (put < c->piece) {
        return dsa_fault(e->device, put < got);
    }
    return 0;
}

static uint32_t dsa_move(CopyChannel *c)
{
    DSAEngine *e = container_of(c, DSAEngine, channel);
    DSAWork *w = e->work;

    if (w->status) {
        return w->status;
    }
    if (dsa_copies(w)) {
        return dsa_move_piece(e, w);
    }
    if (dsa_opcode(w) == DSA_BATCH) {
        w->count = dsa_length(w);
        w->list = g_malloc(w->count * DSA_DESC_SIZE);
        if (pci_dma_read(PCI_DEVICE(e->device), dsa_source(w), w->list,
                         w->count * DSA_DESC_SIZE)) {
            w->fault = dsa_source(w);
            return DSA_BATCH_FAULT;
        }
    }
    return 0;
}

/* --- its end --- */

static void dsa_free(DSAWork *w)
{
    g_free(w->list);
    g_free(w);
}

/* Returns: whether the record could be written */
static bool dsa_write_record(DSAWork *w)
{
    PCIDevice *pci = PCI_DEVICE(w->device);
    uint8_t record[DSA_RECORD_SIZE] = { };

    stl_le_p(record + DSA_RECORD_DONE, w->done);
    stq_le_p(record + DSA_RECORD_ADDRESS, w->fault);
    if (pci_dma_write(pci, dsa_record(w), record, sizeof(record))) {
        return false;
    }
    /* The guest may believe the rest as soon as it sees the status */
    smp_wmb();
    return !pci_dma_write(pci, dsa_record(w), &w->status, 1);
}

static void dsa_tell(DSAWork *w)
{
    DSAState *s = w->device;
    uint64_t q0 = dsa_q0(w);
    bool failed = w->status != DSA_SUCCESS;
    bool valid = FIELD_EX64(q0, DESC, RECORD_VALID) &&
                 w->status != DSA_BAD_RECORD;

    trace_dsa_end(dsa_name(s), w->queue, dsa_record(w), w->status);
    if (failed && !valid) {
        dsa_software_error(s, w->queue, w->status, w, w->fault);
        return;
    }
    if ((failed || FIELD_EX64(q0, DESC, RECORD_WANTED)) &&
        !dsa_write_record(w)) {
        dsa_software_error(s, w->queue, DSA_RECORD_FAULT, w, dsa_record(w));
        return;
    }
    if (FIELD_EX64(q0, DESC, INTERRUPT) && w->status != DSA_BAD_HANDLE) {
        trace_dsa_interrupt(dsa_name(s), dsa_handle(w), w->irq_lost);
        if (!w->irq_lost) {
            copy_channel_message(dsa_channel(s), PCI_DEVICE(s), dsa_handle(w));
        }
    }
}

static void dsa_end(DSAWork *w)
{
    DSAState *s = w->device;
    DSAWork *batch = w->batch;

    if (!dsa_channel(s)->gone) {
        dsa_tell(w);
    }
    if (!batch) {
        QTAILQ_REMOVE(&s->queues[w->queue].running, w, next);
        dsa_free(w);
        return;
    }
    batch->ended++;
    batch->failed |= w->status != DSA_SUCCESS;
    dsa_free(w);
}

/* Returns: whether the batch has ended; then its record is written */
static bool dsa_end_batch(DSAWork *batch)
{
    if (batch->begun < batch->count || batch->ended < batch->begun) {
        return false;
    }
    batch->status = batch->failed ? DSA_BATCH_FAILED : DSA_SUCCESS;
    batch->done = batch->ended;
    dsa_end(batch);
    return true;
}

static void dsa_latency_ends(CopyDelay *d)
{
    DSAWork *w = container_of(d, DSAWork, delay);
    DSAState *s = w->device;
    DSAWork *batch = w->batch;

    QTAILQ_REMOVE(&s->ending, w, next_ending);
    s->engines[w->engine].nr_ending--;
    dsa_end(w);
    if (batch) {
        dsa_end_batch(batch);
    }
    dsa_start(s);
    dsa_command_step(s);
}

/* The engine has done it, and can take another */
static void dsa_end_later(DSAEngine *e, DSAWork *w)
{
    DSAState *s = e->device;

    e->work = NULL;
    e->nr_ending++;
    w->delay.end = dsa_latency_ends;
    QTAILQ_INSERT_TAIL(&s->ending, w, next_ending);
    copy_delay_start(&e->channel, &w->delay, s->latency_ns);
}

/* --- engines --- */

static void dsa_finish(CopyChannel *c, uint32_t code)
{
    DSAEngine *e = container_of(c, DSAEngine, channel);
    DSAWork *w = e->work;

    w->irq_lost = c->irq_lost;
    c->irq_lost = false;
    if (w->halts) {
        dsa_halt(e->device, e->device->halt_type);
        return;
    }
    w->status = code ? code : DSA_SUCCESS;
    if (code || dsa_opcode(w) != DSA_DRAIN) {
        e->work = NULL;
        if (!code && dsa_opcode(w) == DSA_BATCH) {
            e->batch = w;
        } else {
            dsa_end_later(e, w);
        }
    }
    dsa_start(e->device);
}

const CopyChannelOps dsa_channel_ops = {
    .move = dsa_move,
    .finish = dsa_finish,
};

/* Take a descriptor in hand */
static void dsa_begin(DSAEngine *e, DSAWork *w)
{
    DSAState *s = e->device;

    e->work = w;
    w->engine = e->number;
    w->status = dsa_check(s, w);
    trace_dsa_take(dsa_name(s), e->number, w->queue, dsa_q0(w), dsa_record(w));
    if (w->status) {
        qemu_log_mask(LOG_GUEST_ERROR, "%s: bad descriptor in queue %u: status "
                      "0x%x\n", TYPE_DSA, w->queue, w->status);
    }
    if (w->status || !dsa_copies(w)) {
        copy_channel_start(&e->channel, 0);
        return;
    }
    copy_channel_start(&e->channel, dsa_length(w));
    copy_channel_take_faults(&e->channel);
    w->halts = copy_channel_countdown(&s->halt_at);
}

/* The queue of this group that is served next; NULL: none has anything */
static DSAQueue *dsa_choose(DSAState *s, int group)
{
    unsigned best = 0, priority, i, n, chosen = 0;
    DSAQueue *q, *found = NULL;

    for (i = 1; i <= DSA_QUEUES; i++) {
        n = (s->last_queue + i) % DSA_QUEUES;
        q = &s->queues[n];
        priority = FIELD_EX32(dsa_queue_word(s, n, A_WQCFG_MODE), WQCFG_MODE,
                              PRIORITY);
        if (q->group == group && q->nr_waiting && (!found || priority > best)) {
            found = q;
            best = priority;
            chosen = n;
        }
    }
    if (found) {
        s->last_queue = chosen;
    }
    return found;
}

static void dsa_begin_of_queue(DSAEngine *e)
{
    DSAState *s = e->device;
    DSAQueue *q = dsa_choose(s, e->group);
    DSAWork *w;

    if (!q) {
        return;
    }
    w = QTAILQ_FIRST(&q->waiting);
    QTAILQ_REMOVE(&q->waiting, w, next);
    QTAILQ_INSERT_TAIL(&q->running, w, next);
    q->nr_waiting--;
    dsa_show_queue(s, w->queue);
    dsa_begin(e, w);
}

/* Take the next descriptor of the engine's batch, unless it has to wait */
static void dsa_begin_of_batch(DSAEngine *e)
{
    DSAWork *batch = e->batch, *w;
    const uint8_t *desc = batch->list + batch->begun * DSA_DESC_SIZE;

    if (FIELD_EX64(ldq_le_p(desc), DESC, FENCE)) {
        if (batch->ended < batch->begun) {
            return;
        }
        if (batch->failed) {
            /* What is behind this fence is not attempted */
            batch->count = batch->begun;
        }
    }
    if (batch->begun == batch->count) {
        e->batch = NULL;
        dsa_end_batch(batch);
        dsa_begin_of_queue(e);
        return;
    }
    w = g_new0(DSAWork, 1);
    memcpy(w->desc, desc, sizeof(w->desc));
    w->device = e->device;
    w->queue = batch->queue;
    w->batch = batch;
    w->index = batch->begun++;
    if (batch->begun == batch->count) {
        e->batch = NULL;
    }
    dsa_begin(e, w);
}

static void dsa_engine_next(DSAEngine *e)
{
    DSAState *s = e->device;

    if (e->group < 0 || copy_channel_busy(&e->channel) || dsa_channel(s)->gone) {
        return;
    }
    if (e->work) {
        /* A drain ends when all before it in its queue have */
        if (dsa_opcode(e->work) != DSA_DRAIN ||
            QTAILQ_FIRST(&s->queues[e->work->queue].running) != e->work) {
            return;
        }
        dsa_end_later(e, e->work);
    }
    if (e->nr_ending >= DSA_IN_PROGRESS) {
        return;
    }
    if (e->batch) {
        dsa_begin_of_batch(e);
    } else {
        dsa_begin_of_queue(e);
    }
}

void dsa_start(DSAState *s)
{
    unsigned i;

    for (i = 0; i < DSA_ENGINES; i++) {
        dsa_engine_next(&s->engines[i]);
    }
}

/* --- queues --- */

void dsa_submit(DSAState *s, unsigned queue, const uint8_t *desc)
{
    DSAQueue *q = &s->queues[queue];
    DSAWork *w = g_new0(DSAWork, 1);

    w->device = s;
    w->queue = queue;
    memcpy(w->desc, desc, sizeof(w->desc));
    trace_dsa_submit(dsa_name(s), queue, dsa_q0(w), dsa_source(w),
                     ldq_le_p(desc + DSA_DESC_DST), dsa_length(w));
    if (!q->enabled || q->nr_waiting >= dsa_queue_word(s, queue, WQCFG_ENTRIES)) {
        dsa_software_error(s, queue, q->enabled ? DSA_QUEUE_FULL : DSA_QUEUE_OFF,
                           w, 0);
        dsa_free(w);
        return;
    }
    w->number = s->nr_submitted++;
    QTAILQ_INSERT_TAIL(&q->waiting, w, next);
    q->nr_waiting++;
    dsa_show_queue(s, queue);
    dsa_start(s);
}

bool dsa_drained(const DSAState *s, uint32_t queues, uint64_t before)
{
    unsigned i;

    for (i = 0; i < DSA_QUEUES; i++) {
        const DSAQueue *q = &s->queues[i];
        const DSAWork *w = QTAILQ_FIRST(&q->running);

        if (!w) {
            w = QTAILQ_FIRST(&q->waiting);
        }
        if (queues & 1 << i && w && w->number < before) {
            return false;
        }
    }
    return true;
}

static void dsa_forget_queue(DSAState *s, unsigned queue)
{
    DSAQueue *q = &s->queues[queue];
    DSAWork *w;

    while ((w = QTAILQ_FIRST(&q->waiting))) {
        QTAILQ_REMOVE(&q->waiting, w, next);
        dsa_free(w);
    }
    while ((w = QTAILQ_FIRST(&q->running))) {
        QTAILQ_REMOVE(&q->running, w, next);
        dsa_free(w);
    }
    q->nr_waiting = 0;
    dsa_show_queue(s, queue);
}

void dsa_forget(DSAState *s, uint32_t queues)
{
    DSAWork *w, *after;
    DSAEngine *e;
    unsigned i;

    QTAILQ_FOREACH_SAFE(w, &s->ending, next_ending, after) {
        if (queues & 1 << w->queue) {
            copy_delay_drop(dsa_channel(s), &w->delay);
            QTAILQ_REMOVE(&s->ending, w, next_ending);
            s->engines[w->engine].nr_ending--;
            if (w->batch) {
                dsa_free(w);
            }
        }
    }
    for (i = 0; i < DSA_ENGINES; i++) {
        e = &s->engines[i];
        if (e->work && queues & 1 << e->work->queue) {
            copy_channel_drop(&e->channel);
            if (e->work->batch) {
                dsa_free(e->work);
            }
            e->work = NULL;
        }
        if (e->batch && queues & 1 << e->batch->queue) {
            e->batch = NULL;
        }
    }
    for (i = 0; i < DSA_QUEUES; i++) {
        if (queues & 1 << i) {
            dsa_forget_queue(s, i);
        }
    }
}
