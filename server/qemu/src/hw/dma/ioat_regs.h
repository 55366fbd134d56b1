/*
 * Intel I/OAT (CBDMA): its registers, descriptors and errors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_DMA_IOAT_REGS_H
#define HW_DMA_IOAT_REGS_H

#include "qemu/units.h"
#include "hw/registerfields.h"

#define IOAT_DEVICE_SKX     0x2021
#define IOAT_DEVICE_ICX     0x0b00
#define IOAT_BAR_SIZE       (16 * KiB)
#define IOAT_MSIX_TABLE     0x2000
#define IOAT_MSIX_PBA       0x3000
#define IOAT_MSIX_CAP       0x80
#define IOAT_PCIE_CAP       0x90

/* Configuration space: copies of CHANERR and its mask, which stay what is written */
#define IOAT_CHANERR_INT    0x180

/* The registers of the function, of 8 to 64 bits */
#define IOAT_REGS_SIZE      0x148
#define A_CHANCNT           0x00
#define A_XFERCAP           0x01
#define A_INTRCTRL          0x03
#define  INTRCTRL_MASTER    0x01
#define  INTRCTRL_STATUS    0x02
#define  INTRCTRL_INT       0x04
#define  INTRCTRL_VECTORS   0x08
#define A_ATTNSTATUS        0x04
#define A_CBVER             0x08
#define A_INTRDELAY         0x0c
#define A_DMACAP            0x10
#define  DMACAP_FILL        0x40
#define A_PREFETCH_LIMIT    0x4c

/* Those of its channel */
#define A_CHANCTRL          0x80
#define  CHANCTRL_INT_SENT  0x0001  /* write 1: re-arm */
#define  CHANCTRL_ERR_WRITE 0x0004
#define  CHANCTRL_ERR_INT   0x0010
#define A_COMP              0x82
#define A_CHANCMD           0x84
#define  CHANCMD_RESET      0x20
#define  CHANCMD_RESUME     0x10
#define  CHANCMD_SUSPEND    0x04
#define A_DMACOUNT          0x86
#define A_CHANSTS           0x88
#define A_CHAINADDR         0x90
#define A_CHANCMP           0x98
#define A_CDAR              0xa0
#define A_CHANERR           0xa8
#define A_CHANERRMSK        0xac
#define A_DCACTRL           0xb0
/* Of 0b00 */
#define A_DRSCTL            0x136
#define A_LTR_SELECT        0x13c
#define A_LTR_ACTIVE        0x140
#define A_LTR_IDLE          0x144

/* A descriptor: little-endian */
#define IOAT_DESC_SIZE      64
#define IOAT_DESC_MASK      (IOAT_DESC_SIZE - 1)
REG32(DESC_SIZE, 0x00)
REG32(DESC_CTL, 0x04)
    FIELD(DESC_CTL, INTERRUPT, 0, 1)
    FIELD(DESC_CTL, WRITE_BACK, 3, 1)
    FIELD(DESC_CTL, NULL, 5, 1)
    FIELD(DESC_CTL, OPERATION, 24, 8)
#define IOAT_DESC_SRC       0x08
#define IOAT_DESC_DST       0x10
#define IOAT_DESC_NEXT      0x18

#define IOAT_OP_COPY        0
#define IOAT_OP_FILL        1

/* Bits of CHANERR */
enum {
    IOAT_SOURCE_ADDRESS = 1 << 0,
    IOAT_DEST_ADDRESS = 1 << 1,
    IOAT_NEXT_ADDRESS = 1 << 2,
    IOAT_NEXT_ALIGNMENT = 1 << 3,
    IOAT_CHAIN_ADDRESS = 1 << 4,
    IOAT_WRITE_DATA = 1 << 9,
    IOAT_CONTROL = 1 << 10,
    IOAT_LENGTH = 1 << 11,
    IOAT_COMPLETION_ADDRESS = 1 << 12,
};

#endif
