# SPDX-License-Identifier: GPL-2.0
"""Linux's idxd driver, unchanged, on the DSA device: sysfs configures queues, and dmatest copies by them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ferry.kernel import kbuild
from ferry.server import profile
from ferry.suites import kselftest
from ferry.vm import emulator, machine, qemu, records

pytestmark = pytest.mark.vm

QUEUES = 4
_SUMMARY = re.compile(r"dmatest: dma0chan(\d+)-copy\d+: summary (\d+) tests, (\d+) failures")

# What an administrator does: each queue is dedicated to the kernel, and has an engine and a group of its own.
CONFIGURE = """
modprobe idxd || fail "no idxd"
cd /sys/bus/dsa/devices || fail "no bus"
for i in {queues}; do
	echo $i >engine0.$i/group_id && echo $i >wq0.$i/group_id && echo dedicated >wq0.$i/mode &&
	echo 16 >wq0.$i/size && echo 10 >wq0.$i/priority && echo kernel >wq0.$i/type &&
	echo dmaengine >wq0.$i/driver_name && echo "channel$i" >wq0.$i/name || fail "queue $i: no"
done
echo dsa0 >/sys/bus/dsa/drivers/idxd/bind || fail "dsa0: $(cat dsa0/cmd_status)"
for i in {queues}; do
	echo wq0.$i >/sys/bus/dsa/drivers/dmaengine/bind || fail "wq0.$i: $(cat dsa0/cmd_status)"
done
record queues state "$(cat dsa0/state)" each "$(cat wq0.*/state | tr '\\n' ' ')"
"""
DMATEST = """
modprobe dmatest timeout=3000 iterations={iterations} test_buf_size={length} {more} run=1 || fail "no dmatest"
cat /sys/module/dmatest/parameters/wait; sleep 1
grep -E '0000:00:0*{slot:x}' /proc/interrupts | output interrupts
"""
# The device stays: idxd of 6.12.117 dereferences NULL in idxd_device_evl_free() where there is no event log.
UNDO = """
rmmod dmatest || fail "dmatest does not go"
for i in {queues}; do echo wq0.$i >/sys/bus/dsa/drivers/dmaengine/unbind || fail "wq0.$i does not go"; done
record unbound each "$(cat wq0.*/state | tr '\\n' ' ')"
dmesg | output log
"""


def _run(more: str = "", iommu: bool = False, length: int = 65536, iterations: int = 20) -> tuple[str, str]:
    """The kernel's log of dmatest on all channels, and which interrupts there were."""
    device = f"{emulator.DSA},id=dsa0,addr={profile.FIRST_SLOT:#x}{more}"
    where = replace(machine.get("smp"), program=tuple(emulator.command()), devices=("-device", device))
    where = replace(where, devices=("-machine", "q35", *where.devices), iommu=iommu)
    queues = " ".join(str(i) for i in range(QUEUES))
    script = CONFIGURE.format(queues=queues)
    script += DMATEST.format(iterations=iterations, length=length, more="", slot=profile.FIRST_SLOT)
    script += UNDO.format(queues=queues)
    said = qemu.run(kbuild.build("vanilla"), where, qemu.Job(script, 180.0)).said
    found = records.of(said, "queues")
    assert (found["state"], found["each"].split()) == ("enabled", ["enabled"] * QUEUES + ["disabled"] * 4)
    assert records.of(said, "unbound")["each"].split() == ["disabled"] * 8
    outputs = kselftest.outputs(said)
    return outputs["log"], outputs.get("interrupts", "")


def _summaries(log: str) -> list[tuple[int, int]]:
    """For each channel: how many tests, and how many of them failed."""
    return [(int(tests), int(failures)) for _, tests, failures in sorted(_SUMMARY.findall(log))]


@pytest.mark.parametrize(("device", "iommu"), [(0x0B25, False), (0x11FB, True)])
def test_unchanged_driver_drives_the_device(device: int, iommu: bool) -> None:
    """Each copy is told by a message of its own, by the vector of its queue."""
    iterations = 20
    log, interrupts = _run(f",device-id={device:#x},latency-ns=2000", iommu, 2_000_000, iterations)
    assert _summaries(log) == [(iterations, 0)] * QUEUES, log
    assert "idxd" in log
    each = [line.split() for line in interrupts.splitlines() if "idxd-portal" in line]
    assert [sum(map(int, words[1:3])) for words in each] == [iterations] * QUEUES, interrupts


def test_each_error_is_one_copy_that_fails() -> None:
    """dmatest compares bytes: the driver's status does not tell it."""
    log, _ = _run(",error-at=5,error-every=11")
    tests = _summaries(log)
    assert sum(count for count, _ in tests) == 80
    assert sum(failures for _, failures in tests) == 7, log
