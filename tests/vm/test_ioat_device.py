# SPDX-License-Identifier: GPL-2.0
"""The I/OAT device without a guest: registers, bytes, time, interrupts, commands, and faults on command."""

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferry.vm import emulator
from tests.ioat import (
    ACTIVE,
    ARMED,
    ATTNSTATUS,
    BAR,
    CBVER,
    CDAR,
    CHAINADDR,
    CHANCMD,
    CHANCMP,
    CHANCTRL,
    CHANERR,
    CHANERRMSK,
    CHANSTS,
    DMACAP,
    DMACOUNT,
    DONE,
    ECAM,
    FILL,
    GUARD,
    HALTED,
    INTERRUPT,
    INTRCTRL,
    LTR_ACTIVE,
    NOWHERE,
    NULL,
    ONES,
    RESET,
    RESUME,
    RING,
    RUN,
    SAY,
    SLOT,
    SOURCE,
    SUSPEND,
    SUSPENDED,
    TARGET,
    WRITE_BACK,
    XFERCAP,
    Channel,
)
from tests.qtest import Qtest

pytestmark = pytest.mark.vm


def _machine(folder: Path, *devices: str) -> Qtest:
    emulator.build()
    return Qtest(folder, "-M", "q35", *(word for device in devices for word in ("-device", device)))


def _ioat(number: int = 0, more: str = "") -> str:
    return f"{emulator.IOAT},id=dma{number},addr={SLOT + number:#x}{more}"


@pytest.fixture
def dma(tmp_path: Path) -> Iterator[Channel]:
    """A channel of 1 byte per ns that takes 1 us for each descriptor."""
    with _machine(tmp_path, _ioat(more=",bandwidth=1000000000,descriptor-ns=1000")) as qtest:
        yield Channel(qtest)


def _check_copy(dma: Channel, length: int) -> None:
    """Every byte arrives, and none beside them."""
    data = bytes((i * 7 + (i >> 8)) % 251 for i in range(length))
    dma.q.write(SOURCE, data)
    dma.q.write(TARGET - GUARD, b"\xee" * (length + 2 * GUARD))
    dma.submit(length)
    dma.q.step(1000 + length)
    assert dma.reg(CHANSTS) == dma.written_back() == dma.place() | DONE
    assert dma.q.read(TARGET - GUARD, length + 2 * GUARD) == b"\xee" * GUARD + data + b"\xee" * GUARD


def test_silent_at_reset(dma: Channel) -> None:
    assert [dma.reg(at, 1) for at in (0, XFERCAP, INTRCTRL, CBVER)] == [1, 20, 0, 0x32]
    assert dma.reg(DMACAP, 4) == 0x40
    assert dma.reg(CHANSTS) == HALTED
    dma.set_reg(DMACOUNT, 1, 2)
    dma.q.step(10**9)
    assert dma.reg(CHANSTS) == HALTED
    assert dma.reg(CHANERR, 4) == 0


@pytest.mark.parametrize(("device", "version", "kept"), [(0x2021, 0x32, 0), (0x0B00, 0x34, 0x8800)])
def test_two_devices(tmp_path: Path, device: int, version: int, kept: int) -> None:
    with _machine(tmp_path, _ioat(more=f",device-id={device:#x}")) as qtest:
        dma = Channel(qtest)
        assert dma.reg(CBVER, 1) == version
        dma.set_reg(LTR_ACTIVE, 0x8800, 4)
        assert dma.reg(LTR_ACTIVE, 4) == kept
        qtest.outl(0xCF8, 0x80000060)
        qtest.outl(0xCFC, ECAM | 1)
        function = ECAM + (SLOT << 15)
        assert qtest.readl(function) == device << 16 | 0x8086
        qtest.writel(function + 0x180, 0x12345678)  # CHANERR_INT
        assert qtest.readl(function + 0x180) == 0x12345678


@pytest.mark.parametrize(
    ("machine", "own", "why"),
    [
        ("q35", ",device-id=0x2020", "device-id must be 0x2021 or 0xb00"),
        ("q35", ",xfercap=11", "xfercap must be 12 to 31"),
        ("pc", "", "needs a PCI Express bus"),
    ],
)
def test_impossible_device_is_refused(machine: str, own: str, why: str) -> None:
    emulator.build()
    command = [*emulator.command(), "-M", machine, "-nodefaults", "-display", "none", "-S"]
    done = subprocess.run(
        [*command, "-device", _ioat(more=own)], timeout=60, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert why in done.stderr


@pytest.mark.parametrize("length", [1, 63, 4096, 1 << 20])
def test_copies_every_byte(dma: Channel, length: int) -> None:
    dma.start()
    _check_copy(dma, length)


def test_pieces_of_a_large_copy(tmp_path: Path) -> None:
    with _machine(tmp_path, _ioat(more=",bandwidth=1000000000,descriptor-ns=1000,xfercap=31")) as qtest:
        dma = Channel(qtest)
        dma.start()
        _check_copy(dma, (9 << 20) - 1)


@pytest.mark.parametrize("length", [8, 50, 89, 4096])
def test_fills(dma: Channel, length: int) -> None:
    dma.start()
    pattern = 0xFEDCBA9876543210
    dma.q.write(TARGET, b"\xee" * (length + GUARD))
    dma.submit(length, src=pattern, ctl=SAY | FILL)
    dma.q.step(1000 + length)
    wanted = (pattern.to_bytes(8, "little") * (length // 8 + 1))[:length]
    assert dma.q.read(TARGET, length + GUARD) == wanted + b"\xee" * GUARD


def test_takes_exactly_the_modelled_time(dma: Channel) -> None:
    dma.start()
    for length in (1, 4096, 1 << 20):
        dma.submit(length)
        dma.q.step(1000 + length - 1)
        assert dma.state == ACTIVE
        dma.q.step(1)
        assert dma.state == DONE


def test_chain_is_done_in_order(dma: Channel) -> None:
    """Only who asks for it is written back, or told by a message."""
    dma.start()
    assert dma.state == ARMED
    dma.q.write(SOURCE, b"ab")
    dma.write(1, ctl=WRITE_BACK)
    first = dma.place()
    dma.submit(1, SOURCE + 1, ctl=INTERRUPT)
    dma.q.step(1001)
    assert dma.q.read(TARGET, 1) == b"a"
    assert dma.reg(CHANSTS) == dma.written_back() == first | ACTIVE
    assert dma.reg(CDAR) == dma.place()
    assert not dma.messages()
    dma.q.step(1001)
    assert dma.q.read(TARGET, 1) == b"b"
    assert dma.reg(CHANSTS) == dma.place() | DONE
    assert dma.written_back() == first | ACTIVE
    assert dma.messages()


def test_the_count_wraps(dma: Channel) -> None:
    """Of 65,537 null descriptors, in a ring."""
    dma.start()
    dma.set("descriptor-ns", 0)
    dma.write(1, ctl=NULL | WRITE_BACK, next_=dma.ring)
    for count in (0xFFFF, 1):
        dma.set_reg(DMACOUNT, count, 2)
        for _ in range(0x10000 // 64 + 2):
            dma.q.step(1)
        assert dma.state == DONE


def test_null_descriptor_says_that_it_was_there(dma: Channel) -> None:
    dma.start()
    dma.set("error-at", 1)  # of those that copy
    dma.submit(1, src=NOWHERE, dst=NOWHERE, ctl=SAY | NULL)
    dma.q.step(1000)
    assert dma.written_back() == dma.place() | DONE
    assert dma.messages()


@pytest.mark.parametrize(
    ("bit", "bad"),
    [
        (0, {"src": NOWHERE}),
        (1, {"dst": NOWHERE}),
        (10, {"ctl": SAY | 0x87 << 24}),
        (11, {"length": 0}),
        (11, {"length": (1 << 20) + 1}),
    ],
)
def test_bad_descriptor_halts_the_channel(dma: Channel, bit: int, bad: dict[str, int]) -> None:
    """What the guest is shown is the last good descriptor; only a reset helps."""
    dma.start()
    _check_copy(dma, 64)
    good = dma.place()
    assert dma.messages()
    dma.rearm()
    dma.submit(**{"length": 64, **bad})
    dma.q.step(1064)
    assert dma.reg(CHANERR, 4) == 1 << bit
    assert dma.reg(CHANSTS) == dma.written_back() == good | HALTED
    assert dma.messages()
    dma.submit(64)
    dma.q.step(10**6)
    assert dma.reg(CHANSTS) == good | HALTED
    dma.set_reg(CHANERR, 1 << bit, 4)
    assert dma.reg(CHANERR, 4) == 0
    dma.recover()
    assert dma.reg(CHANSTS) == ARMED
    _check_copy(dma, 64)


@pytest.mark.parametrize(
    ("bit", "first", "after"),
    [(2, 0, NOWHERE), (3, 0, RING + 32), (4, NOWHERE, 0), (4, RING + 8, 0)],
)
def test_chain_that_leads_nowhere(dma: Channel, bit: int, first: int, after: int) -> None:
    dma.start()
    if first:
        dma.set_reg(CHAINADDR, first, 8)
    dma.write(64, next_=after)
    dma.submit(64)
    dma.q.step(2000)
    assert dma.reg(CHANERR, 4) == 1 << bit
    assert dma.state == HALTED


def test_completion_that_cannot_be_written(dma: Channel) -> None:
    dma.start()
    dma.set_reg(CHANCMP, NOWHERE, 8)
    dma.submit(64)
    dma.q.step(1064)
    assert dma.reg(CHANERR, 4) == 1 << 12
    assert dma.state == HALTED
    assert dma.messages()


def test_errors_are_told_as_far_as_is_wanted(dma: Channel) -> None:
    """CHANCTRL chooses the write-back and the message."""
    dma.start()
    dma.set_reg(CHANCTRL, 0x8, 2)
    dma.submit(0)
    assert dma.state == HALTED
    assert dma.written_back() == 0
    assert not dma.messages()


def test_a_message_comes_once_until_it_is_rearmed(dma: Channel) -> None:
    dma.start()
    for _ in range(3):
        dma.submit(1)
        dma.q.step(1001)
        assert dma.reg(CHANCTRL, 2) == RUN
        assert dma.reg(ATTNSTATUS, 4) == 1
        assert dma.reg(INTRCTRL, 1) == 0xF
    assert dma.messages()
    assert not dma.messages()
    dma.rearm()  # what has ended since is told now
    assert dma.messages()
    dma.rearm()
    assert not dma.messages()
    assert dma.reg(CHANCTRL, 2) == RUN - 1
    assert dma.reg(ATTNSTATUS, 4) == 0
    assert dma.reg(INTRCTRL, 1) == 9


def test_what_ends_before_the_rearm_may_be_told_to_nobody(dma: Channel) -> None:
    dma.start()
    dma.set("rearm", "drop")
    for _ in range(2):
        dma.submit(1)
        dma.q.step(1001)
    assert dma.messages()
    dma.rearm()
    assert not dma.messages()
    with pytest.raises(AssertionError, match="rearm must be drop or tell"):
        dma.set("rearm", "keep")


def test_no_message_before_it_is_enabled(dma: Channel) -> None:
    dma.start()
    dma.set_reg(INTRCTRL, 8, 1)
    dma.submit(1)
    dma.q.step(1001)
    assert not dma.messages()
    dma.set_reg(INTRCTRL, 9, 1)
    assert dma.messages()


def test_suspended_at_the_end_of_the_copy_in_hand(dma: Channel) -> None:
    dma.start()
    dma.write(1000)
    first = dma.place()
    dma.submit(1000)
    dma.q.step(1500)
    dma.set_reg(CHANCMD, SUSPEND, 1)
    assert dma.state == ACTIVE
    dma.q.step(10**6)
    assert dma.reg(CHANSTS) == first | SUSPENDED
    dma.set_reg(CHANCMD, RESUME, 1)
    assert dma.state == ACTIVE
    dma.q.step(2000)
    assert dma.reg(CHANSTS) == dma.place() | DONE
    dma.set_reg(CHANCMD, SUSPEND, 1)
    assert dma.state == SUSPENDED


def test_reset_forgets_the_copy_in_hand(dma: Channel) -> None:
    dma.start()
    dma.q.write(SOURCE, b"new")
    dma.q.write(TARGET, b"old")
    dma.submit(3)
    dma.set_reg(CHANCMD, RESET, 1)
    assert dma.reg(CHANCMD, 1) == 0
    dma.q.step(10**6)
    assert dma.q.read(TARGET, 3) == b"old"
    assert dma.reg(CHANSTS) == HALTED
    assert dma.reg(DMACOUNT, 2) == dma.reg(CHAINADDR) == dma.reg(CHANCMP) == 0
    dma.recover()
    _check_copy(dma, 64)


def test_until_a_reset_ends_the_channel_goes_on(dma: Channel) -> None:
    dma.start()
    dma.set("reset-ns", 5000)
    dma.q.write(SOURCE, b"new")
    dma.submit(3)
    dma.submit(1 << 20)
    dma.set_reg(CHANCMD, RESET, 1)
    dma.q.step(4999)
    assert dma.reg(CHANCMD, 1) == RESET
    assert dma.q.read(TARGET, 3) == b"new"
    dma.set_reg(CHAINADDR, 0, 8)  # is lost
    dma.q.step(1)
    assert dma.reg(CHANCMD, 1) == 0
    assert dma.reg(CHANSTS) == HALTED


def test_reset_of_the_machine(dma: Channel) -> None:
    dma.start()
    dma.q.write(TARGET, b"old")
    dma.submit(3)
    dma.q.qmp("system_reset")
    dma.q.step(10**6)
    assert dma.q.read(TARGET, 3) == b"old"
    again = Channel(dma.q)
    assert again.reg(CHANSTS) == HALTED
    assert again.reg(CHANCTRL, 2) == again.reg(INTRCTRL, 1) == 0
    again.start()
    _check_copy(again, 64)


@pytest.mark.parametrize("code", [1 << 9, 1 << 8 | 1 << 9, 1 << 6])
def test_each_nth_copy_fails(dma: Channel, code: int) -> None:
    """With any bits of CHANERR, and copies nothing."""
    dma.start()
    dma.set("error-at", 1)
    dma.set("error-every", 2)
    dma.set("error-code", code)
    dma.q.write(SOURCE, b"new")
    failed = []
    for number in range(5):
        dma.q.write(TARGET, b"old")
        dma.submit(3)
        dma.q.step(1003)
        if dma.state == HALTED:
            assert dma.reg(CHANERR, 4) == code
            assert dma.q.read(TARGET, 3) == b"old"
            failed.append(number)
            dma.recover()
    assert failed == [0, 2, 4]
    with pytest.raises(AssertionError, match="error-code must be bits of CHANERR"):
        dma.set("error-code", 0)


def test_nth_copy_stalls_until_released(dma: Channel) -> None:
    dma.start()
    dma.set("stall-at", 1)
    dma.submit(64)
    dma.q.step(10**9)
    assert dma.state == ACTIVE
    dma.set("stalled", False)
    dma.q.step(64)
    assert dma.state == DONE


def test_nth_message_is_lost(dma: Channel) -> None:
    """And no other is sent before the guest re-arms."""
    dma.start()
    dma.set("lose-irq-at", 1)
    for _ in range(2):
        dma.submit(1)
        dma.q.step(1001)
        assert not dma.messages()
    assert dma.written_back() == dma.place() | DONE
    dma.rearm()
    assert dma.messages()


def test_function_falls_off_the_bus(dma: Channel) -> None:
    dma.start()
    dma.q.write(TARGET, b"old")
    dma.submit(3)
    dma.set("gone", True)
    dma.set_reg(CHANERRMSK, 5, 4)
    dma.q.step(10**6)
    assert dma.q.read(TARGET, 3) == b"old"
    assert dma.reg(CHANSTS) == ONES
    dma.set("gone", False)
    assert dma.reg(CHANERRMSK, 4) == 0


def test_shares_a_fabric_with_another_kind_of_engine(tmp_path: Path) -> None:
    """Alone 1 byte per ns, and half of it while a function of PTDMA moves as many."""
    ptdma = f"{emulator.DEVICE},id=ptdma,addr=0x14,fabric=all"
    with _machine(tmp_path, "copy-fabric,id=all,bandwidth=1000000000", _ioat(more=",fabric=all"), ptdma) as q:
        dma = Channel(q)
        dma.start()
        other = BAR + 0x100000
        for offset, value in ((0x18, other), (4, 0x6)):
            q.outl(0xCF8, 0x80000000 | 0x14 << 11 | offset)
            q.outl(0xCFC, value)
        q.write(RING + 0x8000, struct.pack("<8I", 0x500012, 4096, SOURCE, 0, TARGET + 0x10000, 0, 0, 0))
        for register, value in ((8, RING + 0x8000), (4, RING + 0x8020), (0, 0x21)):
            q.writel(other + 0x1000 + register, value)
        dma.submit(4096)
        q.step(2 * 4096 - 1)
        assert dma.state == ACTIVE
        q.step(1)
        assert dma.state == DONE
        dma.submit(4096)
        q.step(4096)
        assert dma.state == DONE
