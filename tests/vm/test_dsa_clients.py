# SPDX-License-Identifier: GPL-2.0
"""Clients of DSA that nobody here wrote: accel-config configures queues of Linux's driver, DPDK has its own.

docs/clients.txt keeps what they have said once.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from ferry import packages
from ferry.kernel import kbuild
from ferry.suites import kselftest
from ferry.vm import emulator, machine, qemu
from tests import dpdk

pytestmark = pytest.mark.vm

# As docs/operator.md has it.
CONFIGURE = """
accel-config config-engine dsa0/engine0.0 --group-id=0 &&
accel-config config-wq dsa0/wq0.0 --group-id=0 --mode=dedicated --wq-size=16 --priority=10 \\
	--type=kernel --name=ferry --driver-name=dmaengine --max-transfer-size=2097152 --block-on-fault=0 &&
accel-config enable-device dsa0 &&
accel-config enable-wq dsa0/wq0.0 || fail 'accel-config fails'
"""
LOAD = """
cat >/tmp/saved.conf <<'END'
@SAVED@
END
accel-config load-config -c /tmp/saved.conf -e || fail 'accel-config does not load'
"""
LOOK = """
accel-config list | output list
accel-config save-config -s /tmp/saved.conf && output saved </tmp/saved.conf
modprobe dmatest timeout=3000 iterations=20 test_buf_size=65536 run=1 || fail 'no dmatest'
cat /sys/module/dmatest/parameters/wait
dmesg | output log
rmmod dmatest && accel-config disable-wq dsa0/wq0.0 || fail 'the queue cannot be disabled'
[ "$(cat /sys/bus/dsa/devices/wq0.0/state)" = disabled ] || fail 'the queue is not disabled'
"""
WANTED = {
    **{"mode": "dedicated", "size": 16, "group_id": 0, "priority": 10, "block_on_fault": 0},
    **{"max_transfer_size": 2097152, "type": "kernel", "name": "ferry", "driver_name": "dmaengine"},
}


def _accel_config(script: str) -> dict[str, str]:
    """What is said by name, where a device was configured by this script. The host has the package, too."""
    packages.ensure(["accel-config"])
    device = ("-machine", "q35", "-device", f"{emulator.DSA},id=dsa0,addr={dpdk.SLOT:#x}")
    there = replace(machine.get("smp"), program=tuple(emulator.command()), devices=device)
    job = qemu.Job(f"modprobe idxd || fail 'no idxd'\n{script}{LOOK}", 180.0, host_root=True)
    return kselftest.outputs(qemu.run(kbuild.build("vanilla"), there, job).said)


def _queues(listed: str) -> list[dict[str, Any]]:
    return [
        queue for group in json.loads(listed)[0]["groups"] for queue in group.get("grouped_workqueues", [])
    ]


def test_accel_config_configures_saves_and_loads_a_queue() -> None:
    """What one guest has saved another loads: without patches Linux 6.12 dies where a device is disabled."""
    first = _accel_config(CONFIGURE)
    second = _accel_config(LOAD.replace("@SAVED@", first["saved"]))
    assert second["saved"] == first["saved"]
    for said in (first, second):
        assert json.loads(said["list"])[0]["state"] == "enabled"
        (queue,) = _queues(said["list"])
        assert {key: queue[key] for key in WANTED} == WANTED
        assert (queue["dev"], queue["state"]) == ("wq0.0", "enabled")
        assert re.search(r"dmatest: dma0chan0-copy0: summary 20 tests, 0 failures", said["log"])


DEVICE = f"{emulator.DSA},descriptor-ns=100"
QUEUES = 2


def test_dpdk_copies_fills_and_sees_each_error() -> None:
    """An address of 0 is refused by the IOMMU, and the record says so."""
    said = dpdk.autotest(DEVICE, f",max_queues={QUEUES}")
    assert said.passed, said.text
    for queue in range(QUEUES):
        parts = [dpdk.COPY, dpdk.BURST, dpdk.ERRORS, dpdk.FILL]
        assert said.parts[f"{dpdk.FUNCTION}-q{queue}"] == parts
    assert "fault addr 0x0 " in said.log


def test_dpdk_fails_where_one_copy_does() -> None:
    said = dpdk.autotest(f"{DEVICE},error-at=1000", ",max_queues=1")
    assert not said.passed
    assert said.parts == {f"{dpdk.FUNCTION}-q0": [dpdk.COPY]}
    assert "dma_err = 1" in said.text
