# SPDX-License-Identifier: GPL-2.0
"""The DSA device, driven as a driver would, on a machine without a guest."""

import struct
from pathlib import Path

from ferry.vm import emulator
from tests.qtest import Function, Qtest

# Where things are in the machine's 64 MiB.
LIST, SOURCE, TARGET, MESSAGE, RECORDS = 0x100000, 0x400000, 0x1800000, 0x200000, 0x300000
BAR, PORTALS, ECAM = 0xE0000000, 0xE0100000, 0xB0000000
NOWHERE = 0x40000000
SLOT = 16
MSIX_TABLE, MSIX_CAP = 0x2000, 0x80
VERSION, GENCAP, WQCAP, GRPCAP, ENGCAP, OPCAP, TABLES = 0, 0x10, 0x20, 0x30, 0x38, 0x40, 0x60
GENCFG, GENCTRL, GENSTS, INTCAUSE, CMD, CMDSTS, SWERR = 0x80, 0x88, 0x90, 0x98, 0xA0, 0xA8, 0xC0
GRPCFG, WQCFG = 0x300, 0x400
ACTIVE = 1 << 31  # of CMDSTS
DISABLED, ENABLED, DRAINING, HALTED = range(4)  # of GENSTS
ERROR, COMMAND, HALT = 1, 2, 0x10  # of INTCAUSE
ENABLE, DISABLE, DRAIN_ALL, ABORT_ALL, RESET, ENABLE_WQ, DISABLE_WQ, DRAIN_WQ, ABORT_WQ, RESET_WQ = range(
    1, 11
)
NOOP, BATCH, DRAIN, MEMMOVE, FILL = range(5)
FENCE, BLOCK, CRAV, RCR, RCI = 1, 2, 4, 8, 0x10
SAY = CRAV | RCR | RCI  # what Linux's driver asks of each descriptor
OK, PAGE_FAULT, SOME_FAILED, LIST_FAULT, HARDWARE = 1, 3, 5, 6, 0x20
WAS_WRITE = 0x80
VECTORS = 9
GUARD = 64
# What the fixtures' device takes for each descriptor, beside 1 ns for each byte.
DESCRIPTOR_NS = 1000


def device(more: str = "") -> str:
    """For QEMU's option -device."""
    return f"{emulator.DSA},id=dsa0,addr={SLOT:#x}{more}"


def machine(folder: Path, *devices: str) -> Qtest:
    """With PCI Express."""
    emulator.build()
    return Qtest(folder, "-M", "q35", *(word for each in devices for word in ("-device", each)))


def pattern(length: int) -> bytes:
    """Bytes that are no others shifted."""
    return bytes((i * 7 + (i >> 8)) % 251 for i in range(length))


class Device(Function):
    """The function, with one group of one engine and a queue of 16 entries unless told otherwise."""

    def __init__(self, qtest: Qtest, number: int = 0) -> None:
        super().__init__(qtest, SLOT + number, BAR + number * 0x10000, f"/machine/peripheral/dsa{number}")
        self.portals = PORTALS + number * 0x20000
        self.index = 0
        for offset, value in ((0x10, self.bar), (0x14, 0), (0x18, self.portals), (0x1C, 0), (4, 0x6)):
            self.config(offset, value)

    @property
    def state(self) -> int:
        return self.reg(GENSTS) & 3

    def vectors(self) -> None:
        """Each message is written to a word of memory of its own."""
        for vector in range(VECTORS):
            for i, word in enumerate((MESSAGE + 4 * vector, 0, 0x1234, 0)):
                self.q.writel(self.bar + MSIX_TABLE + 16 * vector + 4 * i, word)
        self.config(MSIX_CAP, 0x80000000)
        self.set_reg(GENCTRL, 3)

    def messages(self) -> list[int]:
        """The vectors by which messages came since they were last asked for."""
        came = [v for v in range(VECTORS) if self.q.readl(MESSAGE + 4 * v) == 0x1234]
        for vector in came:
            self.q.writel(MESSAGE + 4 * vector, 0)
        return came

    def group(self, number: int, queues: int, engines: int) -> None:
        self.set_reg(GRPCFG + 64 * number, queues, 8)
        self.set_reg(GRPCFG + 64 * number + 32, engines, 8)

    def queue(
        self, number: int, entries: int = 16, mode: int = 1, priority: int = 10, limits: int = 0x155
    ) -> None:
        """The limits are log2 of the longest copy and, from bit 5 on, of the longest batch."""
        at = WQCFG + 32 * number
        self.set_reg(at, entries)
        self.set_reg(at + 8, mode | priority << 4)
        self.set_reg(at + 12, limits)

    def queue_state(self, number: int = 0) -> tuple[int, int]:
        """Its state and its occupancy."""
        word = self.reg(WQCFG + 32 * number + 24)
        return word >> 30, word & 0xFFFF

    def command(self, code: int, operand: int = 0, interrupt: bool = False) -> int:
        """What CMDSTS says at once."""
        self.set_reg(CMD, operand | code << 20 | interrupt << 31)
        return self.reg(CMDSTS)

    def start(self, engines: int = 1) -> None:
        """One queue, 0, and a group of these engines."""
        self.vectors()
        self.group(0, 1, engines)
        self.queue(0)
        assert self.command(ENABLE) == 0
        assert self.command(ENABLE_WQ) == 0

    def record_at(self, index: int | None = None) -> int:
        return RECORDS + 32 * (self.index - 1 if index is None else index)

    def record(self, index: int | None = None) -> tuple[int, int, int]:
        """Status, how much was done, and the address that failed, of the last descriptor."""
        status, _, _, done, fault = struct.unpack("<BBHIQ", self.q.read(self.record_at(index), 16))
        return status, done, fault

    def descriptor(
        self,
        opcode: int = MEMMOVE,
        length: int = 0,
        src: int = SOURCE,
        dst: int = TARGET,
        flags: int = SAY,
        record: int | None = None,
        handle: int = 1,
    ) -> bytes:
        """With a record of its own, which is empty."""
        self.index += 1
        at = self.record_at() if record is None else record
        self.q.write(self.record_at(), bytes(32))
        return struct.pack("<QQQQIHxx24x", flags << 32 | opcode << 56, at, src, dst, length, handle)

    def send(self, descriptor: bytes, queue: int = 0, page: int = 1) -> None:
        """What MOVDIR64B gives the device."""
        self.q.write(self.portals + 0x4000 * queue + 0x1000 * page + 64 * (self.index % 64), descriptor)

    def submit(self, *args: int, queue: int = 0, **fields: int) -> None:
        self.send(self.descriptor(*args, **fields), queue)

    def batch(self, elements: list[bytes], **fields: int) -> None:
        """A batch of these descriptors; its record is the last one."""
        self.q.write(LIST, b"".join(elements))
        self.submit(BATCH, len(elements), LIST, **fields)

    def error(self) -> tuple[int, int, int]:
        """SWERR: its flags, error and address; they are cleared."""
        first, address = self.reg(SWERR, 8), self.reg(SWERR + 16, 8)
        self.set_reg(SWERR, 3, 8)
        return first & 0xFF, first >> 8 & 0xFF, address

    def check_copy(self, length: int) -> None:
        """Every byte arrives, at its time, and none beside them."""
        data = pattern(length)
        self.q.write(SOURCE, data)
        self.q.write(TARGET - GUARD, b"\xee" * (length + 2 * GUARD))
        self.submit(length=length)
        self.q.step(DESCRIPTOR_NS + length - 1)
        assert self.record()[0] == 0
        self.q.step(1)
        assert self.record() == (OK, length, 0)
        assert self.messages() == [1]
        found = self.q.read(TARGET - GUARD, length + 2 * GUARD)
        assert found == b"\xee" * GUARD + data + b"\xee" * GUARD
