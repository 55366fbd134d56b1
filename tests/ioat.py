# SPDX-License-Identifier: GPL-2.0
"""A function of the I/OAT device, driven as a driver would, on a machine without a guest."""

import struct

from tests.qtest import Function, Qtest

# Where things are in the machine's 64 MiB.
RING, SOURCE, TARGET, MESSAGE, COMPLETION = 0x100000, 0x400000, 0x1800000, 0x200000, 0x201000
BAR, ECAM = 0xE0000000, 0xB0000000
NOWHERE = 0x40000000
SLOT = 16
MSIX_TABLE, MSIX_CAP = 0x2000, 0x80
INTRCTRL, ATTNSTATUS, CBVER, DMACAP, XFERCAP = 3, 4, 8, 0x10, 1
CHANCTRL, CHANCMD, DMACOUNT, CHANSTS, CHAINADDR, CHANCMP = 0x80, 0x84, 0x86, 0x88, 0x90, 0x98
CDAR, CHANERR, CHANERRMSK, LTR_ACTIVE = 0xA0, 0xA8, 0xAC, 0x140
RUN = 0x1D  # what Linux's driver writes to CHANCTRL: re-arm, and be told of errors in every way
SUSPEND, RESUME, RESET = 4, 0x10, 0x20
ACTIVE, DONE, SUSPENDED, HALTED, ARMED = range(5)
INTERRUPT, WRITE_BACK, NULL, FILL = 1, 8, 0x20, 1 << 24
SAY = INTERRUPT | WRITE_BACK
ONES = 0xFFFFFFFFFFFFFFFF
GUARD = 64


class Channel(Function):
    """A function of the device, driven as a driver would."""

    REGISTER_BYTES = 8

    def __init__(self, qtest: Qtest, number: int = 0) -> None:
        super().__init__(qtest, SLOT + number, BAR + number * 0x10000, f"/machine/peripheral/dma{number}")
        self.ring, self.message = RING + number * 0x10000, MESSAGE + number * 4
        self.completion = COMPLETION + number * 8
        self.index = self.count = 0
        for offset, value in ((0x10, self.bar), (0x14, 0), (4, 0x6)):
            self.config(offset, value)

    @property
    def state(self) -> int:
        return self.reg(CHANSTS) & 7

    def start(self) -> None:
        """The interrupt, whose message is written to memory; and the chain."""
        for i, word in enumerate((self.message, 0, 0x1234, 0)):
            self.q.writel(self.bar + MSIX_TABLE + 4 * i, word)
        self.config(MSIX_CAP, 0x80000000)
        self.set_reg(INTRCTRL, 9, 1)
        self.chain()

    def chain(self) -> None:
        """As after a reset: the next descriptor is the first of a chain."""
        self.set_reg(CHANCTRL, RUN, 2)
        self.set_reg(CHANCMP, self.completion, 8)
        self.set_reg(CHAINADDR, self._place(self.index) & 0xFFFFFFFF, 4)
        self.set_reg(CHAINADDR + 4, 0, 4)
        self.count = 0

    def _place(self, index: int) -> int:
        return self.ring + 64 * index

    def place(self) -> int:
        """The address of the descriptor that was written last."""
        return self._place(self.index - 1)

    def write(
        self, length: int, src: int = SOURCE, dst: int = TARGET, ctl: int = SAY, next_: int | None = None
    ) -> None:
        """A descriptor behind the last one; submit() tells the device of it."""
        place = self._place(self.index)
        self.index += 1
        after = self._place(self.index) if next_ is None else next_
        self.q.write(place, struct.pack("<IIQQQ32x", length, ctl, src, dst, after))
        self.count += 1

    def submit(self, *args: int, **fields: int) -> None:
        self.write(*args, **fields)
        self.set_reg(DMACOUNT, self.count, 2)

    def written_back(self) -> int:
        return int.from_bytes(self.q.read(self.completion, 8), "little")

    def messages(self) -> bool:
        came = self.q.readl(self.message) == 0x1234
        self.q.writel(self.message, 0)
        return came

    def rearm(self) -> None:
        self.set_reg(CHANCTRL, RUN, 2)

    def recover(self) -> None:
        """What a driver does with a channel that has halted."""
        self.set_reg(CHANERR, self.reg(CHANERR, 4), 4)
        self.set_reg(CHANCMD, RESET, 1)
        self.chain()
