# SPDX-License-Identifier: GPL-2.0
"""The DSA device without a guest: registers, commands, portals, and faults on command."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ferry.vm import emulator
from tests import dsa as d

pytestmark = pytest.mark.vm

ONES = 0xFFFFFFFF


def test_silent_at_reset(cold: d.Device) -> None:
    assert cold.reg(d.VERSION) == 0x100
    assert cold.reg(d.GENCAP, 8) == 0x40915F0107
    assert cold.reg(d.WQCAP, 8) == 0x3F000000080080
    assert [cold.reg(at, 8) for at in (d.GRPCAP, d.ENGCAP, d.OPCAP)] == [0x36004, 4, 0x1F]
    assert cold.reg(d.TABLES, 8) == 0x2_0004_0003
    assert cold.reg(d.GRPCFG + 40, 8) >> 20 & 0xFF == 96
    assert cold.state == d.DISABLED
    assert [cold.reg(at) for at in (d.INTCAUSE, d.CMDSTS, d.GENCTRL, d.GENCFG)] == [0, 0, 0, 0]
    cold.submit(length=64)
    cold.q.step(10**9)
    assert cold.record()[0] == 0


@pytest.mark.parametrize("device", [0x0B25, 0x11FB])
def test_two_devices(tmp_path: Path, device: int) -> None:
    with d.machine(tmp_path, d.device(f",device-id={device:#x}")) as qtest:
        qtest.outl(0xCF8, 0x80000000 | d.SLOT << 11)
        assert qtest.readl(d.BAR) != 0x100
        d.Device(qtest)
        assert qtest.readl(d.BAR) == 0x100
        qtest.outl(0xCF8, 0x80000060)
        qtest.outl(0xCFC, d.ECAM | 1)
        function = d.ECAM + (d.SLOT << 15)
        assert qtest.readl(function) == device << 16 | 0x8086
        assert qtest.readl(function + 8) >> 16 == 0x0880


@pytest.mark.parametrize(
    ("bad", "told"),
    [("device-id=0x0cfe", "device-id must be 0xb25 or 0x11fb"), ("bus=pci", "needs a PCI Express bus")],
)
def test_refuses_what_it_cannot_be(bad: str, told: str) -> None:
    emulator.build()
    machine = "pc" if "bus" in bad else "q35"
    command = [*emulator.command(), "-M", machine, "-nodefaults", "-display", "none", "-device"]
    option = emulator.DSA if "bus" in bad else f"{emulator.DSA},{bad}"
    done = subprocess.run([*command, option], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert told in done.stderr


def test_configuration_is_locked_while_it_is_in_use(dsa: d.Device) -> None:
    """Linux writes it again before it enables a queue, the state that it has read included."""
    for at, locked in (
        (d.GENCFG, True),
        (d.GRPCFG, True),
        (d.WQCFG, True),  # its entries
        (d.WQCFG + 4, False),  # the threshold
        (d.WQCFG + 8, True),
        (d.WQCFG + 24, True),
        (d.WQCFG + 32, True),  # of another queue, which is disabled
        (d.WQCFG + 32 + 8, False),
    ):
        before = dsa.reg(at)
        dsa.set_reg(at, before ^ 3)
        assert (dsa.reg(at) == before) == locked, hex(at)
    dsa.set_reg(d.WQCFG + 32 + 24, 1 << 30)
    assert dsa.queue_state(1) == (0, 0)


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (0x14, lambda dsa: (dsa.queue(0, 100), dsa.queue(1, 29))),
        (0x15, lambda dsa: dsa.queue(2, 1)),
        (0x15, lambda dsa: dsa.group(1, 1, 2)),
        (0x16, lambda dsa: dsa.group(1, 0, 1)),
        (0x17, lambda dsa: dsa.group(1, 4, 0)),
        (0x12, lambda dsa: dsa.config(4, 2)),
    ],
)
def test_device_is_not_enabled(cold: d.Device, error: int, change: Callable[[d.Device], object]) -> None:
    cold.group(0, 3, 1)
    cold.queue(0)
    change(cold)
    assert cold.command(d.ENABLE) == error
    assert cold.state == d.DISABLED


@pytest.mark.parametrize(
    ("error", "config"),
    [
        (0x22, {"entries": 0}),
        (0x23, {"priority": 0}),
        (0x24, {"mode": 0}),
        (0x26, {"mode": 1 | 1 << 28}),
        (0x27, {"limits": 0x175}),
    ],
)
def test_queue_is_not_enabled(cold: d.Device, error: int, config: dict[str, int]) -> None:
    cold.group(0, 1, 1)
    cold.queue(0, **config)
    assert cold.command(d.ENABLE_WQ) == 0x20
    assert cold.command(d.ENABLE) == 0
    assert cold.command(d.ENABLE_WQ) == error
    assert cold.queue_state() == (0, 0)


def test_commands_that_make_no_sense(dsa: d.Device) -> None:
    assert dsa.command(31) == dsa.command(13) == 1
    assert dsa.command(d.ENABLE_WQ, 8) == dsa.command(d.DISABLE_WQ, 1 << 8) == dsa.command(d.DRAIN_WQ, 0) == 2
    assert dsa.command(d.DRAIN_WQ, 1 | 1 << 16) == 2
    assert dsa.command(d.ENABLE) == 0x10
    assert dsa.command(d.ENABLE_WQ) == 0x21
    assert dsa.command(d.DRAIN_WQ, 2) == 0x32
    assert dsa.command(d.DISABLE) == 0
    assert dsa.command(d.DISABLE) == 0x31
    assert not dsa.messages()


def test_end_of_a_command_is_told(dsa: d.Device) -> None:
    """Once, until the guest has cleared the cause."""
    for messages in ([0], []):
        assert dsa.command(d.DRAIN_ALL, interrupt=True) == 0
        assert dsa.reg(d.INTCAUSE) == d.COMMAND
        assert dsa.messages() == messages
    dsa.set_reg(d.INTCAUSE, d.COMMAND)
    assert dsa.reg(d.INTCAUSE) == 0
    dsa.command(d.DRAIN_ALL, interrupt=True)
    assert dsa.messages() == [0]


@pytest.mark.parametrize("command", [d.DISABLE, d.DRAIN_ALL, d.DISABLE_WQ, d.DRAIN_WQ])
def test_waits_for_what_is_in_the_queue(dsa: d.Device, command: int) -> None:
    dsa.submit(length=1000)
    dsa.submit(length=1000)
    operand = 1 if command in (d.DISABLE_WQ, d.DRAIN_WQ) else 0
    assert dsa.command(command, operand, interrupt=True) == d.ACTIVE
    assert dsa.state == (d.DRAINING if command == d.DISABLE else d.ENABLED)
    dsa.q.step(3999)
    assert dsa.reg(d.CMDSTS) == d.ACTIVE
    dsa.set_reg(d.CMD, d.RESET << 20)  # another one is dropped
    dsa.q.step(1)
    assert dsa.reg(d.CMDSTS) == 0
    assert dsa.record()[0] == d.OK
    assert dsa.messages() == [0, 1]
    assert dsa.queue_state()[0] == (command in (d.DRAIN_ALL, d.DRAIN_WQ))


def test_drain_does_not_wait_for_later_ones(dsa: d.Device) -> None:
    dsa.submit(length=1000)
    assert dsa.command(d.DRAIN_WQ, 1) == d.ACTIVE
    dsa.submit(length=1000)
    dsa.q.step(2000)
    assert dsa.reg(d.CMDSTS) == 0
    assert dsa.record()[0] == 0


@pytest.mark.parametrize("command", [d.ABORT_ALL, d.ABORT_WQ, d.RESET_WQ, d.RESET])
def test_forgets_what_is_in_the_queue(dsa: d.Device, command: int) -> None:
    dsa.q.write(d.TARGET, b"old")
    dsa.submit(length=3)
    dsa.submit(length=3)
    assert dsa.command(command, 1) == 0
    dsa.q.step(10**6)
    assert dsa.q.read(d.TARGET, 3) == b"old"
    assert dsa.record()[0] == 0
    assert dsa.queue_state() == (command in (d.ABORT_ALL, d.ABORT_WQ), 0)
    assert dsa.state == (d.DISABLED if command == d.RESET else d.ENABLED)
    # A queue's reset clears what can be set again while the device is enabled.
    assert (dsa.reg(d.WQCFG) == 0) == (command == d.RESET)
    assert (dsa.reg(d.WQCFG + 8) == 0) == (command in (d.RESET, d.RESET_WQ))
    if command == d.RESET:
        dsa.start()
    elif command == d.RESET_WQ:
        dsa.queue(0)
        assert dsa.command(d.ENABLE_WQ) == 0
    dsa.check_copy(64)


def test_reset_of_the_machine_and_of_the_function(dsa: d.Device) -> None:
    for reset in ("machine", "function"):
        dsa.q.write(d.TARGET, b"old")
        dsa.submit(length=3)
        dsa.command(d.DRAIN_ALL)
        if reset == "machine":
            dsa.q.qmp("system_reset")
        else:
            dsa.config(0x48, 0x8000)  # PCI Express: device control
        dsa.q.step(10**6)
        assert dsa.q.read(d.TARGET, 3) == b"old"
        again = d.Device(dsa.q)
        assert again.state == d.DISABLED
        assert [again.reg(at) for at in (d.CMDSTS, d.INTCAUSE, d.GENCTRL, d.WQCFG)] == [0, 0, 0, 0]
        again.start()
        again.check_copy(64)


@pytest.mark.parametrize("code", [d.HARDWARE, 0x21, d.PAGE_FAULT | d.WAS_WRITE])
def test_each_nth_copy_fails(dsa: d.Device, code: int) -> None:
    """With any status but success, and copies nothing; copies of all engines count."""
    dsa.set("error-at", 1)
    dsa.set("error-every", 2)
    dsa.set("error-code", code)
    dsa.q.write(d.SOURCE, b"new")
    for number in range(5):
        dsa.q.write(d.TARGET, b"old")
        dsa.submit(length=3)
        dsa.q.step(d.DESCRIPTOR_NS + 3)
        failed = number % 2 == 0
        assert dsa.record() == ((code, 0, 0) if failed else (d.OK, 3, 0))
        assert dsa.q.read(d.TARGET, 3) == (b"old" if failed else b"new")
        assert dsa.messages() == [1]
    for bad in (0, 1, 0x81, 256):
        with pytest.raises(AssertionError, match="error-code must be a status of a record"):
            dsa.set("error-code", bad)


@pytest.mark.parametrize("number", [0, 1])
def test_nth_copy_stalls_until_released(cold: d.Device, number: int) -> None:
    """On whichever engine it is; the other goes on."""
    cold.start(engines=3)
    cold.set("stall-at", number + 1)
    cold.submit(length=64)
    cold.submit(length=64)
    cold.q.step(10**9)
    assert [cold.record(i)[0] for i in (number, 1 - number)] == [0, d.OK]
    assert cold.q.qmp("qom-get", path=cold.path, property="stalled")
    cold.set("stalled", False)
    cold.q.step(64)
    assert cold.record(number)[0] == d.OK


def test_messages_are_lost(dsa: d.Device) -> None:
    dsa.set("lose-irq-at", 1)
    dsa.set("lose-command-irq-at", 1)
    dsa.submit(length=1)
    dsa.q.step(d.DESCRIPTOR_NS + 1)
    assert dsa.record()[0] == d.OK
    assert dsa.command(d.DRAIN_ALL, interrupt=True) == 0
    assert dsa.reg(d.INTCAUSE) == d.COMMAND
    assert not dsa.messages()
    dsa.check_copy(64)


def test_commands_fail_or_take_time(dsa: d.Device) -> None:
    dsa.set("command-error-at", 2)
    dsa.set("command-ns", 5000)
    for error in (0, 3):
        dsa.command(d.DISABLE_WQ, 1)
        dsa.q.step(4999)
        assert dsa.reg(d.CMDSTS) == (error or d.ACTIVE)
        dsa.q.step(1)
        assert dsa.reg(d.CMDSTS) == error


@pytest.mark.parametrize("kind", [0, 1])
def test_halt_forgets_all(dsa: d.Device, kind: int) -> None:
    """Only a reset helps, of the kind that GENSTS says; a command that waits fails."""
    dsa.set("halt-at", 2)
    dsa.set("halt-type", kind)
    for _ in range(3):
        dsa.submit(length=64)
    dsa.command(d.DRAIN_ALL, interrupt=True)
    dsa.q.step(10**6)
    assert [dsa.record(i)[0] for i in range(3)] == [d.OK, 0, 0]
    assert dsa.reg(d.GENSTS) == d.HALTED | kind << 2
    assert dsa.reg(d.INTCAUSE) == d.COMMAND | d.HALT
    assert dsa.reg(d.CMDSTS) == 3
    assert dsa.messages() == [0, 1]
    dsa.submit(length=64)
    dsa.q.step(10**6)
    assert dsa.record()[0] == 0
    assert dsa.command(d.ENABLE) == 3
    if kind:
        assert dsa.command(d.RESET) == 3
        dsa.config(0x48, 0x8000)
        dsa = d.Device(dsa.q)
    else:
        assert dsa.command(d.RESET) == 0
        dsa.set_reg(d.INTCAUSE, ONES)
    dsa.start()
    dsa.check_copy(64)


def test_halts_without_its_bus(dsa: d.Device) -> None:
    dsa.submit(length=64)
    dsa.config(4, 2)
    assert dsa.reg(d.GENSTS) == d.HALTED | 1 << 2
    assert dsa.reg(d.INTCAUSE) == d.ERROR | d.HALT
    assert dsa.error()[:2] == (1, 0x52)
    dsa.config(4, 6)
    dsa.q.step(10**6)
    assert dsa.record()[0] == 0


def test_function_falls_off_the_bus(dsa: d.Device) -> None:
    dsa.q.write(d.TARGET, b"old")
    dsa.submit(length=3)
    dsa.submit(length=3)
    dsa.set("gone", True)
    dsa.set_reg(d.WQCFG + 4, 5)
    dsa.q.step(10**6)
    assert dsa.q.read(d.TARGET, 3) == b"old"
    assert dsa.reg(d.GENSTS) == ONES
    assert not dsa.messages()
    dsa.set("gone", False)
    assert dsa.reg(d.WQCFG + 4) == 0
    assert [dsa.record(i)[0] for i in range(2)] == [0, 0]
