# SPDX-License-Identifier: GPL-2.0
"""Linux's ioatdma driver, unchanged, on the I/OAT device."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ferry.kernel import kbuild
from ferry.server import profile
from ferry.suites import kselftest
from ferry.vm import emulator, machine, qemu

pytestmark = pytest.mark.vm

FUNCTIONS = 8
_SUMMARY = re.compile(r"dmatest: dma(\d+)chan0-copy\d+: summary (\d+) tests, (\d+) failures ([\d.]+) iops")


def _server(*functions: str, iommu: bool = False) -> machine.Machine:
    """Two CPUs, and a function of one I/OAT device per text, which has its properties."""
    emulator.build()
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
    said = qemu.run(kbuild.build(flavour), where, qemu.Job(script, 180.0)).said
    return kselftest.outputs(said)["log"]


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
