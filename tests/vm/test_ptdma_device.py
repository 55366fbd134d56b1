# SPDX-License-Identifier: GPL-2.0
"""The PTDMA device without a guest: registers, bytes, time, interrupts, and faults on command."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferry.vm import emulator
from tests.qtest import Function, Qtest

pytestmark = pytest.mark.vm

# Where things are in the machine's 64 MiB.
RING, SOURCE, TARGET, MESSAGE = 0x100000, 0x400000, 0x1800000, 0x200000
BAR, MSIX_BAR = 0xE0000000, 0xE8000000
NOWHERE = 0x40000000
QUEUE = 0x1000
CONTROL, TAIL, HEAD, INT_ENABLE, INT_STATUS, STATUS, INT_STATUS_COPY = 0, 4, 8, 12, 16, 0x100, 0x104
RUN, SIZE_32 = 1, 4 << 3
COMPLETION, ERROR, STOPPED, EMPTY = 1, 2, 4, 8
HALT = 2
ONES = 0xFFFFFFFF
COMMAND = 0x500012
GUARD = 64


class Engine(Function):
    """One function of the device, driven as a driver would."""

    def __init__(self, qtest: Qtest, number: int = 0) -> None:
        bar = BAR + number * 0x10000
        super().__init__(qtest, 16 + number, bar + QUEUE, f"/machine/peripheral/dma{number}")
        self.msix = MSIX_BAR + number * 0x1000
        self.ring = RING + number * 0x1000
        self.message = MESSAGE + number * 4
        self.index = 0
        for offset, value in ((0x18, bar), (0x20, self.msix), (4, 0x6)):
            self.config(offset, value)

    def enable(self) -> None:
        """The ring and the interrupt, whose message is written to memory."""
        self.set_reg(TAIL, self.ring)
        self.set_reg(HEAD, self.ring)
        self.set_reg(CONTROL, SIZE_32)
        for i, word in enumerate((self.message, 0, 0x1234, 0)):
            self.q.writel(self.msix + 4 * i, word)
        self.config(self._msix_capability(), 0x80000000)
        self.set_reg(INT_ENABLE, COMPLETION | ERROR)

    def _msix_capability(self) -> int:
        return 0x40

    def submit(
        self, length: int, src: int = SOURCE, dst: int = TARGET, command: int = COMMAND, memory: int = 0
    ) -> None:
        words = (command, length, src, memory << 16, dst, 0, 0, 0)
        self.q.write(self.ring + 32 * self.index, struct.pack("<8I", *words))
        self.index = (self.index + 1) % 32
        self.set_reg(TAIL, self.ring + 32 * self.index)
        self.set_reg(CONTROL, SIZE_32 | RUN)

    def done(self) -> int:
        """The interrupt's status, acknowledged, and its message, taken away."""
        status = self.reg(INT_STATUS)
        self.set_reg(INT_STATUS, status)
        return status

    def messages(self) -> bool:
        came = self.q.readl(self.message) == 0x1234
        self.q.writel(self.message, 0)
        return came

    def recover(self) -> None:
        self.set_reg(HEAD, self.ring + 32 * self.index)


def _machine(folder: Path, count: int, *more: str) -> Qtest:
    emulator.build()
    args: list[str] = list(more)
    for i in range(count):
        args += ["-device", f"amd-ptdma,id=dma{i},addr={16 + i:#x}" + (",fabric=all" if more else "")]
    return Qtest(folder, *args)


@pytest.fixture
def dma(tmp_path: Path) -> Iterator[Engine]:
    """A function of 1 byte per ns that takes 1 us for each descriptor."""
    with _machine(tmp_path, 1) as qtest:
        function = Engine(qtest)
        function.set("bandwidth", 10**9)
        function.set("descriptor-ns", 1000)
        yield function


def _pattern(length: int) -> bytes:
    return bytes((i * 7 + (i >> 8)) % 251 for i in range(length))


def _check_copy(dma: Engine, length: int) -> None:
    """Every byte arrives, and none beside them."""
    data = _pattern(length)
    dma.q.write(SOURCE, data)
    dma.q.write(TARGET - GUARD, b"\xee" * (length + 2 * GUARD))
    dma.submit(length)
    dma.q.step(1000 + length)
    assert dma.done() == COMPLETION | EMPTY
    assert dma.q.read(TARGET - GUARD, length + 2 * GUARD) == b"\xee" * GUARD + data + b"\xee" * GUARD


def test_silent_at_reset(dma: Engine) -> None:
    for offset in (CONTROL, TAIL, HEAD, INT_ENABLE, INT_STATUS, STATUS, INT_STATUS_COPY):
        assert dma.reg(offset) == 0
    assert dma.q.readl(BAR + 0x10) == 5 | 1 << 15
    dma.q.step(10**9)
    assert dma.reg(INT_STATUS) == 0


@pytest.mark.parametrize("length", [1, 63, 4096, 4 << 20, (4 << 20) + 1, (9 << 20) - 1])
def test_copies_every_byte(dma: Engine, length: int) -> None:
    dma.enable()
    _check_copy(dma, length)


def test_takes_exactly_the_modelled_time(dma: Engine) -> None:
    dma.enable()
    for length in (1, 4096, (9 << 20) + 5):
        dma.submit(length)
        dma.q.step(1000 + length - 1)
        assert dma.reg(INT_STATUS) == 0
        dma.q.step(1)
        assert dma.done() & COMPLETION


def test_ring_wraps(dma: Engine) -> None:
    dma.enable()
    for _ in range(40):
        _check_copy(dma, 64)
    assert dma.reg(HEAD) == dma.ring + 32 * 8


def test_queue_is_done_in_order(dma: Engine) -> None:
    dma.enable()
    dma.q.write(SOURCE, b"ab")
    dma.submit(1, SOURCE, TARGET)
    dma.submit(1, SOURCE + 1, TARGET)
    dma.q.step(1001)
    assert dma.q.read(TARGET, 1) == b"a"
    assert dma.reg(INT_STATUS) == COMPLETION
    dma.q.step(1001)
    assert dma.q.read(TARGET, 1) == b"b"
    assert dma.reg(INT_STATUS) == COMPLETION | EMPTY


@pytest.mark.parametrize(
    ("code", "bad"),
    [
        (1, {"command": 0x100012}),
        (3, {"command": COMMAND | 1 << 5}),
        (9, {"length": 0}),
        (12, {"memory": 1}),
        (19, {"src": NOWHERE}),
        (38, {"dst": NOWHERE}),
    ],
)
def test_bad_descriptor_is_an_error_and_the_queue_goes_on(
    dma: Engine, code: int, bad: dict[str, int]
) -> None:
    dma.enable()
    dma.submit(**{"length": 64, **bad})
    dma.q.step(1064)
    assert dma.reg(STATUS) == code
    assert dma.reg(INT_STATUS_COPY) == ERROR | STOPPED
    assert dma.messages()
    assert dma.done() == ERROR | STOPPED
    assert not dma.reg(CONTROL) & RUN
    assert dma.reg(HEAD) == dma.ring
    dma.recover()
    _check_copy(dma, 64)


def test_descriptor_that_cannot_be_read_is_an_error(dma: Engine) -> None:
    dma.enable()
    dma.set_reg(HEAD, NOWHERE)
    dma.set_reg(TAIL, NOWHERE + 32)
    dma.set_reg(CONTROL, SIZE_32 | RUN)
    assert dma.reg(STATUS) == 19
    assert dma.done() == ERROR | STOPPED


def test_interrupt_comes_once_and_is_acknowledged(dma: Engine) -> None:
    dma.enable()
    dma.submit(1)
    dma.q.step(1001)
    assert dma.messages()
    dma.submit(1)
    dma.q.step(1001)
    assert not dma.messages()  # the first was not acknowledged
    assert dma.done() == COMPLETION | EMPTY
    assert dma.reg(INT_STATUS) == 0
    dma.submit(1)
    dma.q.step(1001)
    assert dma.messages()


def test_interrupt_waits_until_it_is_enabled(dma: Engine) -> None:
    dma.enable()
    dma.set_reg(INT_ENABLE, 0)
    dma.submit(1)
    dma.q.step(1001)
    assert not dma.messages()
    dma.set_reg(INT_ENABLE, COMPLETION)
    assert dma.messages()


def test_nth_descriptor_fails(dma: Engine) -> None:
    dma.enable()
    dma.set("error-at", 2)
    dma.set("error-code", 41)
    _check_copy(dma, 64)
    dma.q.write(TARGET, bytes(64))
    dma.submit(64)
    dma.q.step(1064)
    assert dma.reg(STATUS) == 41
    assert dma.q.read(TARGET, 64) == bytes(64)
    dma.done()
    dma.recover()
    _check_copy(dma, 64)


def test_each_nth_descriptor_fails(dma: Engine) -> None:
    dma.enable()
    dma.set("error-at", 1)
    dma.set("error-every", 2)
    failed = []
    for number in range(5):
        dma.submit(64)
        dma.q.step(1064)
        if dma.done() & ERROR:
            failed.append(number)
            dma.recover()
    assert failed == [0, 2, 4]


def test_head_may_run_ahead_of_the_copies(dma: Engine) -> None:
    dma.enable()
    dma.set("head", "fetch")
    dma.q.write(SOURCE, b"new")
    dma.q.write(TARGET, b"old")
    dma.submit(3)
    assert dma.reg(HEAD) == dma.ring + 32
    assert dma.q.read(TARGET, 3) == b"old"
    dma.q.step(1003)
    assert dma.q.read(TARGET, 3) == b"new"
    assert dma.reg(HEAD) == dma.ring + 32
    dma.set("error-at", 1)
    dma.submit(3)
    dma.q.step(1003)
    assert dma.done() & ERROR
    assert dma.reg(HEAD) == dma.ring + 64


def test_run_may_stay_and_halt_be_set(dma: Engine) -> None:
    """At the end of the ring, and after an error; TAIL alone does not wake it."""
    dma.enable()
    dma.set("run", "sticky")
    dma.submit(64)
    assert dma.reg(CONTROL) & (RUN | HALT) == RUN
    dma.q.step(1064)
    assert dma.reg(CONTROL) & (RUN | HALT) == RUN | HALT
    dma.done()
    dma.set_reg(TAIL, dma.ring + 64)
    dma.q.step(10**6)
    assert dma.reg(INT_STATUS) == 0
    dma.set_reg(TAIL, dma.ring + 32)
    dma.set("error-at", 1)
    dma.submit(64)
    dma.q.step(1064)
    assert dma.done() == ERROR | STOPPED
    assert dma.reg(CONTROL) & (RUN | HALT) == RUN | HALT
    dma.recover()
    _check_copy(dma, 64)


def test_a_guess_is_one_of_two_words(dma: Engine) -> None:
    with pytest.raises(AssertionError, match="head must be fetch or end"):
        dma.set("head", "tail")
    dma.set("run", "auto")
    assert dma.q.qmp("qom-get", path=dma.path, property="head") == "end"


def test_nth_read_of_the_status_is_lost(dma: Engine) -> None:
    dma.enable()
    dma.set("ones-at", 2)
    assert [dma.reg(INT_STATUS) for _ in range(3)] == [0, ONES, 0]


def test_function_falls_off_the_bus(dma: Engine) -> None:
    dma.enable()
    dma.q.write(SOURCE, b"new")
    dma.q.write(TARGET, b"old")
    dma.submit(3)
    dma.set("gone", True)
    dma.set_reg(INT_ENABLE, 0)
    dma.q.step(10**6)
    assert dma.q.read(TARGET, 3) == b"old"
    assert dma.reg(HEAD) == dma.reg(INT_STATUS) == ONES
    dma.set("gone", False)
    assert dma.reg(INT_ENABLE) == COMPLETION | ERROR


@pytest.mark.parametrize("code", [0, 64])
def test_impossible_error_code_is_refused(dma: Engine, code: int) -> None:
    with pytest.raises(AssertionError, match="error-code must be 1 to 63"):
        dma.set("error-code", code)


def test_nth_descriptor_stalls_until_released(dma: Engine) -> None:
    dma.enable()
    dma.set("stall-at", 1)
    dma.submit(64)
    dma.q.step(10**9)
    assert dma.reg(INT_STATUS) == 0
    assert dma.q.qmp("qom-get", path=dma.path, property="stalled")
    dma.set("stalled", False)
    dma.q.step(64)
    assert dma.done() == COMPLETION | EMPTY
    with pytest.raises(AssertionError, match="no descriptor is in hand"):
        dma.set("stalled", True)


def test_nth_interrupt_is_lost(dma: Engine) -> None:
    dma.enable()
    dma.set("lose-irq-at", 1)
    dma.submit(1)
    dma.q.step(1001)
    assert not dma.messages()
    assert dma.done() == COMPLETION | EMPTY
    dma.submit(1)
    dma.q.step(1001)
    assert dma.messages()


def test_reset_forgets_the_copy_in_hand(dma: Engine) -> None:
    dma.enable()
    dma.q.write(SOURCE, b"new")
    dma.q.write(TARGET, b"old")
    dma.submit(3)
    dma.q.qmp("system_reset")
    dma.q.step(10**6)
    assert dma.q.read(TARGET, 3) == b"old"
    again = Engine(dma.q)
    assert again.reg(CONTROL) == again.reg(HEAD) == again.reg(INT_STATUS) == 0
    again.enable()
    _check_copy(again, 64)


def test_unplugged_with_a_copy_in_hand(dma: Engine) -> None:
    dma.enable()
    dma.submit(1 << 20)
    dma.q.step(5000)
    dma.q.qmp("device_del", id="dma0")
    dma.q.outl(0xAE08, 1 << dma.slot)  # what a guest's ACPI does to let it go
    dma.q.step(10**9)
    with pytest.raises(AssertionError, match="not found"):
        dma.set("stall-at", 1)


def test_functions_share_the_fabric(tmp_path: Path) -> None:
    """Alone 1 byte per ns; two at once half of it each, from the moment that the second joins."""
    with _machine(tmp_path, 2, "-device", "copy-fabric,id=all,bandwidth=1000000000") as qtest:
        one, two = Engine(qtest, 0), Engine(qtest, 1)
        for function in (one, two):
            function.enable()
        one.submit(4096)
        qtest.step(1024)
        two.submit(4096)
        qtest.step(2 * 3072 - 1)
        assert one.reg(INT_STATUS) == 0
        qtest.step(1)
        assert one.done() == COMPLETION | EMPTY
        qtest.step(1023)  # two has 1024 bytes left, and all of the fabric again
        assert two.reg(INT_STATUS) == 0
        qtest.step(1)
        assert two.done() == COMPLETION | EMPTY


def test_fabrics_nest(tmp_path: Path) -> None:
    """Two functions share 2 bytes per ns, and with a third one elsewhere 3."""
    fabrics = (
        "copy-fabric,id=top,bandwidth=3000000000",
        "copy-fabric,id=all,parent=top,bandwidth=2000000000",
    )
    more = [word for fabric in fabrics for word in ("-device", fabric)]
    third = ("-device", "amd-ptdma,id=dma2,addr=0x12,fabric=top")
    with _machine(tmp_path, 2, *more, *third) as qtest:
        functions = [Engine(qtest, i) for i in range(3)]
        for function in functions:
            function.enable()
        for function in functions[:2]:
            function.submit(4096)
        qtest.step(1024)
        functions[2].submit(1024)  # all three: 1 byte per ns each
        qtest.step(1023)
        assert functions[2].reg(INT_STATUS) == 0
        qtest.step(1)
        assert functions[2].done() == COMPLETION | EMPTY
        qtest.step(2048)
        assert [function.done() for function in functions[:2]] == [COMPLETION | EMPTY] * 2


def test_own_bandwidth_limits_a_share(tmp_path: Path) -> None:
    with _machine(tmp_path, 1, "-device", "copy-fabric,id=all,bandwidth=8000000000") as qtest:
        function = Engine(qtest)
        function.enable()
        function.set("bandwidth", 2 * 10**9)
        function.submit(4096)
        qtest.step(2047)
        assert function.reg(INT_STATUS) == 0
        qtest.step(1)
        assert function.done() == COMPLETION | EMPTY


def test_small_copies_have_a_part_of_the_rate(dma: Engine) -> None:
    dma.enable()
    dma.set("small-bytes", 4096)
    dma.set("small-percent", 25)
    for length, took in ((4095, 4 * 4095), (4096, 4096)):
        dma.submit(length)
        dma.q.step(1000 + took - 1)
        assert dma.reg(INT_STATUS) == 0
        dma.q.step(1)
        assert dma.done() & COMPLETION


def test_small_copies_are_slow_in_their_channel_alone(tmp_path: Path) -> None:
    """What they leave of a share of the fabric is not reduced a second time."""
    with _machine(tmp_path, 1, "-device", "copy-fabric,id=all,bandwidth=1000000000") as qtest:
        function = Engine(qtest)
        function.enable()
        for name, value in (("bandwidth", 2 * 10**9), ("small-bytes", 8192), ("small-percent", 50)):
            function.set(name, value)
        function.submit(4096)
        qtest.step(4095)
        assert function.reg(INT_STATUS) == 0
        qtest.step(1)
        assert function.done() == COMPLETION | EMPTY


def test_only_a_cpu_waits_for_registers(dma: Engine) -> None:
    """A test is none: the clock moves when it says so, whatever it reads and writes."""
    dma.set("register-ns", 1000)
    dma.set("interrupt-ns", 1000)
    dma.enable()
    dma.submit(4096)
    dma.q.step(1000 + 4095)
    assert dma.reg(INT_STATUS) == 0
    dma.q.step(1)
    assert dma.done() & COMPLETION
