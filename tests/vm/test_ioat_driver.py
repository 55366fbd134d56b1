# SPDX-License-Identifier: GPL-2.0
"""Linux's ioatdma driver on the I/OAT device: unchanged, then as Ferry mends it, and dcbm over that."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from ferry.server import profile
from ferry.suites import kselftest
from ferry.vm import emulator, machine, records
from tests import guest

pytestmark = pytest.mark.vm

FUNCTIONS = 8
_SUMMARY = re.compile(r"dmatest: dma(\d+)chan0-copy\d+: summary (\d+) tests, (\d+) failures ([\d.]+) iops")
# The first copy of each function is that of the driver's own test.
THIRD_COPY = "error-at=4"
ADDRESS, DATA_INTEGRITY, READ, WRITE, LENGTH = 1 << 0, 1 << 6, 1 << 8, 1 << 9, 1 << 11
CODES = (WRITE, READ | WRITE, ADDRESS, DATA_INTEGRITY, LENGTH, ADDRESS | READ)


def _server(*functions: str, iommu: bool = False) -> machine.Machine:
    """Two CPUs, and a function of one I/OAT device per text, which has its properties."""
    devices = ["-machine", "q35"]
    for i, own in enumerate(functions):
        place = f"{emulator.IOAT},id=dma{i},addr={profile.FIRST_SLOT:#x}.{i},multifunction=on"
        devices += ["-device", ",".join(filter(None, [place, own]))]
    there = replace(machine.get("smp"), program=tuple(emulator.command()), devices=tuple(devices))
    return replace(there, iommu=iommu, kernel_args=(*there.kernel_args, "iommu.strict=1"))


def _dmatest(flavour: str, where: machine.Machine, more: str, iterations: int) -> str:
    """What dmatest has said of all channels, two seconds after it ended."""
    script = (
        "modprobe ioatdma || fail 'no ioatdma'\n"
        f"modprobe dmatest timeout=3000 iterations={iterations} {more} run=1 || fail 'no dmatest'\n"
        "cat /sys/module/dmatest/parameters/wait; sleep 2\n"
        "dmesg | output log\n"
        "rmmod dmatest && rmmod ioatdma || fail 'the driver does not go'\n"
    )
    return kselftest.outputs(guest.says(script, where, flavour=flavour, limit_s=180.0))["log"]


def _summaries(log: str) -> list[tuple[int, int]]:
    """For each channel: how many tests, and how many of them failed."""
    found = {int(n): (int(tests), int(failures)) for n, tests, failures, _ in _SUMMARY.findall(log)}
    return [found[number] for number in sorted(found)]


@pytest.mark.parametrize(("device", "iommu"), [(0x2021, False), (0x0B00, True)])
def test_unchanged_driver_drives_the_device(device: int, iommu: bool) -> None:
    """It tests the engine when it finds it; dmatest's copies need up to three descriptors each."""
    where = _server(*[f"device-id={device:#x}"] * FUNCTIONS, iommu=iommu)
    log = _dmatest("vanilla", where, "test_buf_size=2200000", 10)
    assert _summaries(log) == [(10, 0)] * FUNCTIONS, log
    assert "ioatdma" not in "\n".join(line for line in log.splitlines() if "rror" in line)


def test_each_error_is_told_at_once_and_once() -> None:
    """dmatest compares, and times out if nobody tells it; an idle channel is not reset again.

    One message that is lost delays one copy, by two seconds, and not all that follow.
    """
    where = _server("", *(f"{THIRD_COPY},error-code={code}" for code in CODES), "lose-irq-at=3")
    log = _dmatest("ferry", where, "test_buf_size=65536", 10)
    assert _summaries(log) == [(10, 0), *[(10, 1)] * len(CODES), (10, 0)], log
    assert "timed out" not in log
    assert "halted" not in log
    assert log.count("Reset channel") == len(CODES)
    rates = {int(number): float(rate) for number, _, _, rate in _SUMMARY.findall(log)}
    assert rates[FUNCTIONS - 1] > 1


# What each function does while folios move by all of them.
FAULTS = (
    "",
    f"error-at=5,error-every=7,error-code={WRITE}",
    f"error-at=6,error-every=7,error-code={READ | WRITE}",
    f"error-at=7,error-every=7,error-code={ADDRESS}",
    f"error-at=8,error-every=7,error-code={DATA_INTEGRITY}",
    "stall-at=9",  # until the driver resets the channel
    "lose-irq-at=5",
    "descriptor-ns=1000000",
)


@pytest.mark.parametrize("iommu", [False, True])
def test_dcbm_moves_by_channels_that_fail(iommu: bool) -> None:
    """It takes them without being asked to; migbench verifies what the CPU has copied instead, too."""
    script = (
        "modprobe ioatdma && modprobe dcbm timeout_ms=5000 || fail 'no dcbm'\n"
        "echo 60000 >$OFFLOAD/deadline_ms; echo 1 >$OFFLOAD/engine_always; echo dcbm >$OFFLOAD/active\n"
        f"live=$(grep -c 0000:00:{profile.FIRST_SLOT:02x} /sys/kernel/debug/dcbm/channels)\n"
        "bench faulty --folio 2M --bytes 64M --runs 3\n"
        "dmesg | output log\n"
        "cd $OFFLOAD/stats; record counted live: $live failed: $(cat fallback_error) moved: $(cat bytes) "
        "kept: $(cat quarantined_bytes)\n"
        "echo none >$OFFLOAD/active; rmmod dcbm && rmmod ioatdma || fail 'the driver does not go'\n"
    )
    said = guest.says(script, _server(*FAULTS, iommu=iommu))
    found, counted = records.of(said, "migbench")["found"], records.of(said, "counted")
    log = kselftest.outputs(said)["log"]
    assert found["passed"]
    assert found["verified_bytes"] >= 3 * 64 << 20
    assert counted["live"] == FUNCTIONS
    assert counted["failed"] > 0
    assert counted["kept"] == 0
    assert counted["moved"] > 64 << 20
    reset = Counter(re.findall(r"ioatdma 0000:00:08\.(\d): Reset channel", log))
    assert set(reset) == {"1", "2", "3", "4", "5"}


def test_idle_cpu_resets_a_channel_that_stalls() -> None:
    """No other CPU counts jiffies then, nor does the idle one: the channel's timer runs in a softirq."""
    script = (
        "modprobe ioatdma || fail 'no ioatdma'\n"
        "modprobe dmatest timeout=20000 iterations=20 test_buf_size=65536 run=1 || fail 'no dmatest'\n"
        "cat /sys/module/dmatest/parameters/wait\n"
        "dmesg | output log\n"
        "rmmod dmatest && rmmod ioatdma || fail 'the driver does not go'\n"
    )
    said = guest.says(script, _server("stall-at=9").with_cpus(1), limit_s=120.0)
    log = kselftest.outputs(said)["log"]
    assert _summaries(log) == [(20, 1)], log
    assert log.count("Reset channel") == 1
