# SPDX-License-Identifier: GPL-2.0
"""Linux's ptdma driver as Ferry mends it, and dcbm over it, on channels that fail on command."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ferry.bench import migbench
from ferry.kernel import kbuild
from ferry.server import emulator, profile
from ferry.suites import kselftest, ktap
from ferry.vm import machine, qemu, records

pytestmark = pytest.mark.vm

SLOTS = {
    "good": "descriptor-ns=20000",
    "failing": "error-at=1",
    "erring": "error-at=41",
    "stopping": "error-at=1",
    "slow": "descriptor-ns=50000000",
    "losing": "lose-irq-at=1",
}
GROUP = 80  # copies that are issued at once
CASES = (
    "copy_arrives_whole",
    "failed_copy_is_reported",
    "each_copy_of_a_group_has_its_own_result",
    "failed_copy_is_not_taken_again",
    "terminated_group_is_waited_for",
    "paused_channel_can_be_terminated",
    "interrupt_descriptor_works_if_offered",
    "terminated_copy_is_waited_for",
    "terminated_copy_may_lose_its_interrupt",
    "copies_complete_once_while_polled",
    "callback_has_ended_once_terminated",
)


def _function(name: str) -> str:
    return f"0000:00:{profile.FIRST_SLOT + list(SLOTS).index(name):02x}.0"


def _server(*functions: str) -> machine.Machine:
    """Two CPUs and one PTDMA function per text, which has its properties."""
    devices = [
        word
        for i, properties in enumerate(functions)
        for word in (
            "-device",
            ",".join(filter(None, [f"{emulator.DEVICE},addr={profile.FIRST_SLOT + i:#x}", properties])),
        )
    ]
    return replace(machine.get("smp"), devices=tuple(devices))


@pytest.fixture(scope="module", params=("ferry", "debug"))
def result(request: pytest.FixtureRequest) -> qemu.Result:
    """The driver's KUnit tests, each on the function that has its fault; debug has KASAN and lockdep."""
    names = [f"{name}={_function(name)}" for name in SLOTS]
    script = (
        f"modprobe ptdma && modprobe ptdma_test {' '.join(names)} || fail 'cannot load the tests'\n"
        "output kunit </sys/kernel/debug/kunit/ptdma/results\n"
        f"stats=$(echo /sys/kernel/debug/dmaengine/{_function('erring')}*/stats)\n"
        "record stats interrupts: \"$(awk '/Interrupts/ { print $NF }' $stats)\"\n"
    )
    job = qemu.Job(script, 180.0, kernel_args=("kunit.enable=1",))
    return qemu.run(kbuild.build(request.param), _server(*SLOTS.values()), job)


@pytest.mark.parametrize("name", CASES)
def test_client_is_told_the_truth(result: qemu.Result, name: str) -> None:
    text = kselftest.outputs(result.said).get("kunit", "")
    outcomes = {case.name: case.outcome for case in ktap.parse(text)}
    assert outcomes.get(name) == "ok", text


def test_error_is_named_by_its_code(result: qemu.Result) -> None:
    """Code 38 is beyond the table of names that Linux 6.12 has."""
    assert "PTDMA error: ERR 38: ODMA0_AXI_SLVERR (0x26)" in result.console


def test_group_shares_interrupts(result: qemu.Result) -> None:
    """One after half a ring, one for the error, one for what is left: not one per copy."""
    assert 0 < records.of(result.said, "stats")["interrupts"] <= GROUP // 8


def test_driver_leaves_while_it_copies() -> None:
    """Functions are unbound while folios move by them, one and all; the CPU and the rest go on."""
    script = (
        "modprobe ptdma && modprobe dcbm timeout_ms=2000 && echo dcbm >$OFFLOAD/active || fail 'no dcbm'\n"
        # Not for a host that is busy
        "echo 60000 >$OFFLOAD/deadline_ms; echo 1 >$OFFLOAD/engine_always\n"
        "bench leaving --folio 2M --bytes 64M --runs 60 & bench=$!\n"
        "cd /sys/bus/pci/drivers/ptdma\n"
        "for round in 1 2 3; do\n"
        'for name in 0000:*; do sleep 0.3; echo $name >unbind; all="$all $name"; done\n'
        "record gone channels: $(grep -c gone /sys/kernel/debug/dcbm/channels)\n"
        "for name in $all; do echo $name >bind; done; all=\n"
        "echo none >$OFFLOAD/active; echo dcbm >$OFFLOAD/active || fail 'cannot choose dcbm anew'\n"
        "done\n"
        "kill -0 $bench || fail 'the bench ended before the drivers left'\n"
        "wait $bench || exit\n"
        "record counted moved: $(cat $OFFLOAD/stats/bytes) kept: $(cat $OFFLOAD/stats/quarantined_bytes)\n"
    )
    slow = "bandwidth=500000000"
    job = qemu.Job(script, 300.0, programs={"bin/migbench": migbench.build_migbench()})
    said = qemu.run(kbuild.build("ferry"), _server(slow, slow, slow, slow), job).said
    assert [each["channels"] for each in records.every(said, "gone")] == [4, 4, 4]
    assert records.of(said, "migbench")["found"]["passed"]
    counted = records.of(said, "counted")
    assert counted["moved"] > 0
    assert counted["kept"] == 0


def test_device_that_bounces_is_refused() -> None:
    """The CPU would copy twice what the engine copies once."""
    script = (
        "modprobe ptdma && modprobe dcbm || fail 'no dcbm'\n"
        "echo dcbm >$OFFLOAD/active && record taken\n"
        "exit 0\n"
    )
    job = qemu.Job(script, 120.0, kernel_args=("swiotlb=force",))
    result = qemu.run(kbuild.build("ferry"), _server(""), job)
    assert not records.every(result.said, "taken")
    assert "channels of ptdma are not used: what it copies would go through bounce buffers" in result.console


@pytest.mark.parametrize(
    ("fault", "counter", "option"),
    [
        ("error-at=5", "fallback_error", ""),
        ("stall-at=5", "quarantined_bytes", "--allow-partial"),
        ("lose-irq-at=5", "folios", ""),  # the watchdog asks the driver
    ],
)
def test_faulty_channel_loses_no_byte(fault: str, counter: str, option: str) -> None:
    """migbench verifies; the folio was copied by the CPU, or stays, as its pages are kept and counted."""
    script = (
        "modprobe ptdma && modprobe dcbm timeout_ms=500 || fail 'cannot load dcbm'\n"
        # dcbm is to notice, not the core, which would give the engine up
        "echo 60000 >$OFFLOAD/deadline_ms; echo 1 >$OFFLOAD/engine_always; echo dcbm >$OFFLOAD/active\n"
        f"bench faulty --folio 2M --bytes 64M --runs 3 {option}\n"
        f"cd $OFFLOAD/stats; record counted count: $(cat {counter}) moved: $(cat bytes)\n"
    )
    where = _server("", fault, "", "")
    job = qemu.Job(script, 180.0, programs={"bin/migbench": migbench.build_migbench()})
    said = qemu.run(kbuild.build("ferry"), where, job).said
    found, counted = records.of(said, "migbench")["found"], records.of(said, "counted")
    assert found["passed"]
    assert found["verified_bytes"] >= 3 * 64 << 20
    assert counted["count"] > 0
    assert counted["moved"] > 2 * 64 << 20  # the other channels went on
