# SPDX-License-Identifier: GPL-2.0
"""Clients of DSA that nobody here wrote: accel-config configures queues of Linux's driver, DPDK has its own.

docs/clients.txt keeps what they have said once.
"""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from ferry import packages, paths
from ferry.suites import kselftest
from ferry.vm import emulator, machine
from tests import dpdk, guest

pytestmark = pytest.mark.vm

# As an operator types it.
OPERATOR = (paths.ROOT / "docs/operator.md").read_text()
CONFIGURE = "\n".join(re.findall(r"^    (accel-config (?:config|enable)-.*)$", OPERATOR, re.MULTILINE))
LOAD = """
cat >/tmp/saved.conf <<'END'
@SAVED@
END
accel-config load-config -c /tmp/saved.conf -e || fail 'accel-config does not load'
"""
LOOK = """
[ "$(cat /sys/bus/dsa/devices/wq0.0/state)" = enabled ] || fail 'the queue is not enabled'
accel-config list | output list
accel-config save-config -s /tmp/saved.conf && output saved </tmp/saved.conf
modprobe dmatest timeout=3000 iterations=20 test_buf_size=65536 run=1 || fail 'no dmatest'
cat /sys/module/dmatest/parameters/wait
dmesg | output log
rmmod dmatest && accel-config disable-wq dsa0/wq0.0 || fail 'the queue cannot be disabled'
[ "$(cat /sys/bus/dsa/devices/wq0.0/state)" = disabled ] || fail 'the queue is not disabled'
"""
WANTED = {
    **{"mode": "dedicated", "size": 32, "group_id": 0, "priority": 10, "block_on_fault": 0},
    **{"max_transfer_size": 2097152, "type": "kernel", "name": "ferry", "driver_name": "dmaengine"},
}


# Ferry's kernel refuses what cannot work, and its queues can be configured anew while it runs.
ANEW = """
ctl() { /usr/bin/python3 -B @CTL@ "$@"; }
accel-config config-engine dsa0/engine0.0 --group-id=1 && @QUEUE@ || fail 'accel-config fails'
accel-config enable-device dsa0 2>&1 | output refused
@CONFIGURE@
accel-config save-config -s /tmp/saved.conf || fail 'not saved'
ctl use dcbm && ctl set engine_always=1 min_bytes=4096 || fail 'dcbm cannot be used'
/usr/bin/python3 -c '
import time
memory = bytearray(b"ferry" * (8 << 20))
open("/tmp/ready", "w").close()
time.sleep(600)' &
until [ -e /tmp/ready ]; do sleep 0.1; done
ctl move --pid $! --to 0
ctl move --pid $! --to 1
ctl engines | output engines
cat $OFFLOAD/stats/bytes | output moved
kill $!
ctl use none
accel-config disable-wq dsa0/wq0.0 && accel-config disable-device dsa0 || fail 'not disabled'
accel-config load-config -c /tmp/saved.conf -e || fail 'not loaded'
"""


def _accel_config(script: str, kernel: str = "vanilla") -> dict[str, str]:
    """What is said by name in a guest with a device of which nothing is configured."""
    packages.ensure(["accel-config"])
    device = ("-machine", "q35", "-device", f"{emulator.DSA},id=dsa0,addr={dpdk.SLOT:#x}")
    there = replace(machine.get("smp"), program=tuple(emulator.command()), devices=device)
    script = f"modprobe idxd || fail 'no idxd'\n{script}"
    return kselftest.outputs(guest.says(script, there, flavour=kernel, limit_s=180.0, host_root=True))


def _queues(listed: str) -> list[dict[str, Any]]:
    return [
        queue for group in json.loads(listed)[0]["groups"] for queue in group.get("grouped_workqueues", [])
    ]


def test_accel_config_configures_saves_and_loads_a_queue() -> None:
    """What one guest has saved another loads: without patches Linux 6.12 dies where a device is disabled."""
    first = _accel_config(f"{CONFIGURE}\n{LOOK}")
    second = _accel_config(LOAD.replace("@SAVED@", first["saved"]) + LOOK)
    assert second["saved"] == first["saved"]
    for said in (first, second):
        assert json.loads(said["list"])[0]["state"] == "enabled"
        (queue,) = _queues(said["list"])
        assert {key: queue[key] for key in WANTED} == WANTED
        assert (queue["dev"], queue["state"]) == ("wq0.0", "enabled")
        assert re.search(r"dmatest: dma0chan0-copy0: summary 20 tests, 0 failures", said["log"])


def test_dcbm_copies_by_a_queue_of_accel_config() -> None:
    """In a group without an engine it is refused; mended, it serves dcbm, is disabled, and loaded again."""
    queue = next(line for line in CONFIGURE.splitlines() if "config-wq" in line)
    script = ANEW.replace("@QUEUE@", queue).replace("@CONFIGURE@", " &&\n".join(CONFIGURE.splitlines()))
    said = _accel_config(guest.with_paths(script) + LOOK, "ferry")
    assert "dsa0: Invalid group config: engine misconfigured" in said["refused"]
    assert "(idxd): 1 channels, 1 in use: works" in said["engines"]
    assert int(said["moved"]) > 32 << 20
    assert json.loads(said["list"])[0]["state"] == "enabled"
    assert re.search(r"dmatest: dma0chan0-copy0: summary 20 tests, 0 failures", said["log"])


@pytest.mark.long
def test_accel_config_passes_its_own_test() -> None:
    """It sets what can be configured, reads it back, and tries what is beyond the device's limits."""
    said = _accel_config("accel-config test 2>&1 | output test")["test"]
    assert re.findall(r"^(?:accfg-test\d .*|SUCCESS!|.*SKIP.*)$", said, re.MULTILINE) == [
        *(f"accfg-test{number} passed!" for number in range(4)),
        "SUCCESS!",
    ], said


DEVICE = f"{emulator.DSA},descriptor-ns=100"
QUEUES = 2


@pytest.mark.long
def test_dpdk_copies_fills_and_sees_each_error() -> None:
    """An address of 0 is refused by the IOMMU, and the record says so."""
    said = dpdk.autotest(DEVICE, f",max_queues={QUEUES}")
    assert said.passed, said.text
    for queue in range(QUEUES):
        parts = [dpdk.COPY, dpdk.BURST, dpdk.ERRORS, dpdk.FILL]
        assert said.parts[f"{dpdk.FUNCTION}-q{queue}"] == parts
    assert "fault addr 0x0 " in said.log


@pytest.mark.long
def test_dpdk_fails_where_one_copy_does() -> None:
    said = dpdk.autotest(f"{DEVICE},error-at=1000", ",max_queues=1")
    assert not said.passed
    assert said.parts == {f"{dpdk.FUNCTION}-q0": [dpdk.COPY]}
    assert "dma_err = 1" in said.text
