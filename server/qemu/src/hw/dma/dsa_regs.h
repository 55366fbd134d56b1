/*
 * Intel DSA 1.0: its registers, descriptors, completion records and codes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_DMA_DSA_REGS_H
#define HW_DMA_DSA_REGS_H

#include "qemu/units.h"
#include "hw/registerfields.h"

#define DSA_DEVICE_SPR      0x0b25
#define DSA_DEVICE_GNRD     0x11fb

#define DSA_QUEUES          8
#define DSA_GROUPS          4
#define DSA_ENGINES         4
#define DSA_ENTRIES         128     /* of all queues together */
#define DSA_VECTORS         (1 + DSA_QUEUES)
#define DSA_READ_BUFFERS    96
#define DSA_IN_PROGRESS     64      /* descriptors of an engine */
#define DSA_MAX_XFER_SHIFT  31
#define DSA_MAX_BATCH_SHIFT 10

#define DSA_BAR_SIZE        (64 * KiB)
#define DSA_MSIX_TABLE      0x2000
#define DSA_MSIX_PBA        0x3000
#define DSA_MSIX_CAP        0x80
#define DSA_PCIE_CAP        0x40

/* BAR 2: four pages of portals for each queue */
#define DSA_PORTALS_BAR     2
#define DSA_PORTALS_SIZE    (DSA_QUEUES * 16 * KiB)

/* The registers, of 32 or 64 bits */
#define DSA_REGS_SIZE       0x500
#define A_VERSION           0x00
#define  VERSION_1_0        0x100
#define A_GENCAP            0x10
#define A_WQCAP             0x20
#define A_GRPCAP            0x30
#define A_ENGCAP            0x38
#define A_OPCAP             0x40
#define A_TABLES            0x60
#define A_GENCFG            0x80
#define A_GENCTRL           0x88
#define  GENCTRL_ERROR      0x1
#define  GENCTRL_HALT       0x2
REG32(GENSTS, 0x90)
    FIELD(GENSTS, STATE, 0, 2)
    FIELD(GENSTS, RESET, 2, 2)
#define A_INTCAUSE          0x98
#define  INTCAUSE_ERROR     0x01
#define  INTCAUSE_COMMAND   0x02
#define  INTCAUSE_HALT      0x10
REG32(CMD, 0xa0)
    FIELD(CMD, OPERAND, 0, 20)
    FIELD(CMD, CODE, 20, 5)
    FIELD(CMD, INTERRUPT, 31, 1)
#define A_CMDSTS            0xa8
#define  CMDSTS_ACTIVE      0x80000000
#define A_SWERR             0xc0
REG64(SWERR0, 0xc0)
    FIELD(SWERR0, VALID, 0, 1)
    FIELD(SWERR0, OVERFLOW, 1, 1)
    FIELD(SWERR0, DESCRIPTOR, 2, 1)
    FIELD(SWERR0, QUEUE, 3, 1)
    FIELD(SWERR0, BATCH, 4, 1)
    FIELD(SWERR0, ERROR, 8, 8)
    FIELD(SWERR0, QUEUE_INDEX, 16, 8)
    FIELD(SWERR0, OPCODE, 32, 8)
#define A_MSIXPERM          0x200
#define A_GRPCFG            0x300
#define GRPCFG_SIZE         64
#define GRPCFG_ENGINES      32
#define GRPCFG_FLAGS        40
#define  GRPCFG_FLAGS_RESET (DSA_READ_BUFFERS << 20)
#define A_WQCFG             0x400
#define WQCFG_SIZE          32
/* Its words */
#define WQCFG_ENTRIES       0x00
#define WQCFG_THRESHOLD     0x04
REG32(WQCFG_MODE, 0x08)
    FIELD(WQCFG_MODE, DEDICATED, 0, 1)
    FIELD(WQCFG_MODE, BLOCK_ON_FAULT, 1, 1)
    FIELD(WQCFG_MODE, PRIORITY, 4, 4)
    FIELD(WQCFG_MODE, PASID, 28, 1)
REG32(WQCFG_LIMITS, 0x0c)
    FIELD(WQCFG_LIMITS, XFER, 0, 5)
    FIELD(WQCFG_LIMITS, BATCH, 5, 4)
REG32(WQCFG_STATE, 0x18)
    FIELD(WQCFG_STATE, OCCUPANCY, 0, 16)
    FIELD(WQCFG_STATE, MODES, 29, 1)
    FIELD(WQCFG_STATE, STATE, 30, 2)

#define GENCAP_PRODUCTION   0x40915f0107ULL
#define WQCAP_PRODUCTION    0x3f000000080080ULL
#define GRPCAP_PRODUCTION   0x36004ULL

/* Commands */
enum {
    DSA_ENABLE = 1,
    DSA_DISABLE,
    DSA_DRAIN_ALL,
    DSA_ABORT_ALL,
    DSA_RESET,
    DSA_ENABLE_QUEUE,
    DSA_DISABLE_QUEUE,
    DSA_DRAIN_QUEUE,
    DSA_ABORT_QUEUE,
    DSA_RESET_QUEUE,
    DSA_DRAIN_PASID,
    DSA_ABORT_PASID,
};

/* Errors in CMDSTS */
enum {
    DSA_BAD_COMMAND = 0x01,
    DSA_BAD_QUEUE = 0x02,
    DSA_HARDWARE = 0x03,
    DSA_IS_ENABLED = 0x10,
    DSA_NO_BUS_MASTER = 0x12,
    DSA_TOO_MANY_ENTRIES = 0x14,
    DSA_GROUP_OF_QUEUE = 0x15,
    DSA_GROUP_OF_ENGINE = 0x16,
    DSA_GROUP_OF_NOBODY = 0x17,
    DSA_IS_OFF = 0x20,
    DSA_QUEUE_IS_ENABLED = 0x21,
    DSA_QUEUE_ENTRIES = 0x22,
    DSA_QUEUE_PRIORITY = 0x23,
    DSA_QUEUE_MODE = 0x24,
    DSA_QUEUE_PASID = 0x26,
    DSA_QUEUE_BATCH = 0x27,
    DSA_QUEUE_XFER = 0x28,
    DSA_IS_DISABLED = 0x31,
    DSA_QUEUE_IS_OFF = 0x32,
};

/* A descriptor: little-endian */
#define DSA_DESC_SIZE       64
REG64(DESC, 0x00)
    FIELD(DESC, FENCE, 32, 1)
    FIELD(DESC, BLOCK_ON_FAULT, 33, 1)
    FIELD(DESC, RECORD_VALID, 34, 1)
    FIELD(DESC, RECORD_WANTED, 35, 1)
    FIELD(DESC, INTERRUPT, 36, 1)
    FIELD(DESC, OPCODE, 56, 8)
#define DSA_DESC_RECORD     0x08
#define DSA_DESC_SRC        0x10    /* or the pattern, or the list */
#define DSA_DESC_DST        0x18
#define DSA_DESC_LENGTH     0x20    /* or how many are in the list */
#define DSA_DESC_HANDLE     0x24

enum {
    DSA_NOOP,
    DSA_BATCH,
    DSA_DRAIN,
    DSA_MEMMOVE,
    DSA_FILL,
    DSA_NR_OPCODES,
};

/* A completion record */
#define DSA_RECORD_SIZE     32
#define DSA_RECORD_DONE     0x04
#define DSA_RECORD_ADDRESS  0x08

/* Its status, and the error in SWERR */
enum {
    DSA_SUCCESS = 0x01,
    DSA_PAGE_FAULT = 0x03,
    DSA_BATCH_FAILED = 0x05,
    DSA_BATCH_FAULT = 0x06,
    DSA_BAD_OPCODE = 0x10,
    DSA_BAD_FLAGS = 0x11,
    DSA_BAD_SIZE = 0x13,
    DSA_BAD_COUNT = 0x14,
    DSA_BAD_LIST = 0x18,
    DSA_BAD_HANDLE = 0x19,
    DSA_RECORD_FAULT = 0x1a,
    DSA_BAD_RECORD = 0x1b,
    DSA_HARDWARE_ERROR = 0x20,
    DSA_TRANSLATION = 0x22,
    DSA_STATUS_WRITE = 0x80,        /* what failed was a write */
    /* Of SWERR alone; the numbers are this model's own */
    DSA_QUEUE_OFF = 0x50,
    DSA_QUEUE_FULL = 0x51,
    DSA_BUS_MASTER_OFF = 0x52,
};

#endif
