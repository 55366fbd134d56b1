# SPDX-License-Identifier: GPL-2.0
"""Linux's idxd driver on the DSA device: unchanged, then as Ferry mends it, and dcbm over that."""

import re
from dataclasses import replace

import pytest

from ferry.server import profile
from ferry.suites import kselftest
from ferry.vm import emulator, machine, records
from tests import guest

pytestmark = pytest.mark.vm

QUEUES = 4
_SUMMARY = re.compile(r"dmatest: dma0chan(\d+)-copy\d+: summary (\d+) tests, (\d+) failures")

QUEUES_STATE = """
record queues state "$(cat $DSA/devices/dsa0/state)" each "$(cat $DSA/devices/wq0.*/state | tr '\\n' ' ')"
"""
DMATEST = """
modprobe dmatest timeout=3000 iterations={iterations} test_buf_size={length} {more} run=1 || fail "no dmatest"
cat /sys/module/dmatest/parameters/wait; sleep 1
grep -E '0000:00:0*{slot:x}' /proc/interrupts | output interrupts
"""
# The device stays: idxd of 6.12.117 dereferences NULL in idxd_device_evl_free() where there is no event log.
UNDO = """
rmmod dmatest || fail "dmatest does not go"
for i in {queues}; do echo wq0.$i >$DSA/drivers/dmaengine/unbind || fail "wq0.$i does not go"; done
record unbound each "$(cat $DSA/devices/wq0.*/state | tr '\\n' ' ')"
dmesg | output log
"""


def _server(*devices: str, iommu: bool = False) -> machine.Machine:
    """Two CPUs, and a device of DSA per text, which has its properties."""
    there = replace(machine.get("smp"), program=tuple(emulator.command()), iommu=iommu)
    each = [text for text in devices for _ in range(profile.DSA_QUEUES)]
    return replace(there, devices=profile.ENGINES["dsa"].devices(*each))


def _say(flavour: str, where: machine.Machine, script: str) -> str:
    return guest.says(script, where, flavour=flavour, limit_s=400.0)


def _run(more: str = "", iommu: bool = False, length: int = 65536, iterations: int = 20) -> tuple[str, str]:
    """The kernel's log of dmatest on all channels, and which interrupts there were."""
    queues = " ".join(str(i) for i in range(QUEUES))
    script = f"use_queues {QUEUES}\n{QUEUES_STATE}"
    script += DMATEST.format(iterations=iterations, length=length, more="", slot=profile.FIRST_SLOT)
    script += UNDO.format(queues=queues)
    said = _say("vanilla", _server(more, iommu=iommu), script)
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
    log, interrupts = _run(f"device-id={device:#x},latency-ns=2000", iommu, 2_000_000, iterations)
    assert _summaries(log) == [(iterations, 0)] * QUEUES, log
    assert "idxd" in log
    each = [line.split() for line in interrupts.splitlines() if "idxd-portal" in line]
    assert [sum(map(int, words[1:3])) for words in each] == [iterations] * QUEUES, interrupts


def test_each_error_is_one_copy_that_fails() -> None:
    """dmatest compares bytes: the driver's status does not tell it."""
    log, _ = _run("error-at=5,error-every=11")
    tests = _summaries(log)
    assert sum(count for count, _ in tests) == 80
    assert sum(failures for _, failures in tests) == 7, log


# What each device does while folios move by all of them. One that halts forgets what it had, and has to be
# configured, or reset, by an administrator.
FAULTS = (
    "",
    "error-at=5,error-every=7",
    "error-at=6,error-every=7,error-code=34",
    "lose-irq-at=5",
    "descriptor-ns=1000000",
    "halt-at=4",
    "halt-at=6,halt-type=1",
)
TAKE = """
use_queues {queues}; modprobe dcbm timeout_ms=5000 || fail 'no dcbm'
echo 60000 >$OFFLOAD/deadline_ms; echo 1 >$OFFLOAD/engine_always; echo dcbm >$OFFLOAD/active
record taken live: $(grep -c live /sys/kernel/debug/dcbm/channels)
"""
COUNT = """
dmesg | output log
cd $OFFLOAD/stats; kept=$(cat quarantined_bytes); overdue=$(cat $OFFLOAD/migrators/dcbm/overdue)
record counted failed: $(cat fallback_error) moved: $(cat bytes) kept: $kept overdue: $overdue; cd /
"""
LEAVE = "echo none >$OFFLOAD/active; rmmod dcbm && rmmod idxd || fail 'the driver does not go'\n"


@pytest.mark.parametrize("iommu", [False, True])
def test_dcbm_moves_by_devices_that_fail(iommu: bool) -> None:
    """It takes them without being asked to; migbench verifies what the CPU has copied instead, too."""
    queues = 2 * len(FAULTS)
    script = TAKE.format(queues=queues) + "bench faulty --folio 2M --bytes 64M --runs 3\n" + COUNT + LEAVE
    said = _say("ferry", _server(*FAULTS, iommu=iommu), script)
    found, counted = records.of(said, "migbench")["found"], records.of(said, "counted")
    log = kselftest.outputs(said)["log"]
    assert found["passed"]
    assert found["verified_bytes"] >= 3 * 64 << 20
    assert records.of(said, "taken")["live"] == queues
    assert counted["failed"] > 0
    assert (counted["kept"], counted["overdue"]) == (0, 0)
    assert counted["moved"] > 64 << 20
    # Queues that take nothing more are given up, or the CPU would copy a part of each folio: both of the
    # device that halts first. Those of the other are asked again only if the CPU is not cheaper by then.
    assert len(set(re.findall(r"0000:00:0d\.0: dcbm: (\S+) (?:is idle|retired)", log))) == 2
    assert len(re.findall(r"idxd 0000:00:..\.0: idxd halted", log)) == 2


# Folios that do not adjoin, without an IOMMU that would show them as one range.
SCATTERED = "bench dcbm --folio 4K --bytes 16M --runs 3 --order scattered"
FOLIOS = 4 * 4096
SUBMITTED = "record submitted descriptors: $(awk 'NR > 1 { n += $4 } END { print n }' $CHANNELS)\n"


@pytest.mark.parametrize("most", [32, 16])
def test_folios_that_lie_anywhere_share_a_descriptor(most: int) -> None:
    """Unless the batches of one of the device's queues are configured to be too short for them. The device is
    slow, so several wait."""
    script = (
        "modprobe idxd || fail 'no idxd'; CHANNELS=/sys/kernel/debug/dcbm/channels\n"
        f"echo {most} >$DSA/devices/wq0.1/max_batch_size || fail 'no batches'\n"
        + TAKE.format(queues=2)
        + f"{SCATTERED}\n{SUBMITTED}{COUNT}{LEAVE}"
    )
    said = _say("debug", _server("descriptor-ns=20000"), script)
    counted = records.of(said, "counted")
    assert records.of(said, "migbench")["found"]["passed"]
    assert (counted["failed"], counted["kept"], counted["overdue"]) == (0, 0, 0)
    # What the queues have no room for the CPU copies.
    assert FOLIOS - FOLIOS // 8 < counted["moved"] // 4096 <= FOLIOS
    descriptors = records.of(said, "submitted")["descriptors"]
    assert descriptors < FOLIOS // 8 if most == 32 else descriptors > FOLIOS // 2


def test_batch_of_which_one_copy_fails_is_copied_by_the_cpu() -> None:
    """As on devices that lose the message of a batch, or halt within one."""
    faults = ("", "error-at=50,error-every=97", "error-at=64,error-every=64", "lose-irq-at=3", "halt-at=150")
    queues = 2 * len(faults)
    script = TAKE.format(queues=queues) + f"{SCATTERED}\n{COUNT}{LEAVE}"
    said = _say("ferry", _server(*faults), script)
    found, counted = records.of(said, "migbench")["found"], records.of(said, "counted")
    log = kselftest.outputs(said)["log"]
    assert found["passed"]
    assert found["verified_bytes"] >= 3 * 16 << 20
    assert counted["failed"] > 32
    assert (counted["kept"], counted["overdue"]) == (0, 0)
    assert counted["moved"] > 4 << 20
    assert not re.search(r"idxd .* err\[0\]", log), "each entry that fails has a record"


def test_queue_that_is_disabled_ends_its_copies() -> None:
    """Its client has a channel that takes nothing more; the queue can be enabled again, and taken."""
    script = (
        TAKE.format(queues=4) + "bench before --folio 2M --bytes 32M --runs 1\n"
        "( while [ ! -e $WORK/stop ]; do\n"
        "	migbench --folio 2M --bytes 32M --runs 1 --json $WORK/loop >/dev/null || touch $WORK/bad\n"
        "done; touch $WORK/ended ) &\n"
        "for round in 1 2 3 4 5 6; do for queue in wq0.0 wq0.1; do\n"
        "	cd $DSA/devices/$queue; sleep 0.5; echo $queue >$DSA/drivers/dmaengine/unbind\n"
        "	echo dedicated >mode && echo 10 >priority &&\n"
        "	echo kernel >type && echo dmaengine >driver_name && echo again >name &&\n"
        "	echo $queue >$DSA/drivers/dmaengine/bind || fail $queue $(cat $DSA/devices/dsa0/cmd_status)\n"
        "done; done; touch $WORK/stop; while [ ! -e $WORK/ended ]; do sleep 0.2; done\n"
        "[ ! -e $WORK/bad ] || fail 'a wrong byte'\n"
        "grep -c live /sys/kernel/debug/dcbm/channels; cd /\n"
        "echo none >$OFFLOAD/active; echo dcbm >$OFFLOAD/active\n"
        "record again live: $(grep -c live /sys/kernel/debug/dcbm/channels)\n"
        "bench after --folio 2M --bytes 32M --runs 1\n"
        # The client has channels of the device until after it is gone
        "echo dsa0 >$DSA/drivers/idxd/unbind\n" + COUNT + LEAVE
    )
    said = _say("debug", _server("descriptor-ns=100000"), script)
    counted = records.of(said, "counted")
    assert records.of(said, "taken")["live"] == records.of(said, "again")["live"] == 4
    assert (counted["kept"], counted["overdue"]) == (0, 0)
    assert counted["moved"] > 32 << 20


def test_client_that_does_not_wait_is_forgotten() -> None:
    """dmatest gives its channel back with a copy in flight, and is unloaded."""
    script = (
        "use_queues 2\n"
        "modprobe dmatest timeout=500 iterations=4 test_buf_size=65536 run=1 || fail 'no dmatest'\n"
        "cat /sys/module/dmatest/parameters/wait; rmmod dmatest || fail 'dmatest does not go'\n"
        "for queue in 0 1; do echo wq0.$queue >$DSA/drivers/dmaengine/unbind; done\n"
        "dmesg | output log; rmmod idxd || fail 'idxd does not go'\n"
    )
    log = kselftest.outputs(_say("debug", _server("stall-at=3"), script))["log"]
    tests = _summaries(log)
    assert len(tests) == 2, log
    assert sum(failures for _, failures in tests) > 0, log
    assert "timed out" in log


def test_stuck_device_gives_its_pages_back_when_its_driver_leaves() -> None:
    """Its channels are disowned, and told to stop."""
    script = (
        TAKE.format(queues=4).replace("timeout_ms=5000", "timeout_ms=300")
        + "bench stuck --folio 2M --bytes 32M --runs 1 --allow-partial\n"
        "sleep 1; record stuck kept: $(cat $OFFLOAD/stats/quarantined_bytes)\n"
        f"echo 0000:00:{profile.FIRST_SLOT:02x}.0 >/sys/bus/pci/drivers/idxd/unbind; sleep 2\n"
        + COUNT
        + LEAVE
    )
    said = _say("debug", _server("stall-at=9", ""), script)
    assert records.of(said, "stuck")["kept"] > 0
    assert records.of(said, "counted")["overdue"] == 0
