# SPDX-License-Identifier: GPL-2.0
"""Linux's ptdma driver as Ferry mends it, and dcbm over it, on channels that fail on command."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ferry import bench, emulator, kbuild, ktap, machine, profile, vm

pytestmark = pytest.mark.vm

SLOTS = {"good": "", "failing": "error-at=1", "slow": "descriptor-ns=50000000", "losing": "lose-irq-at=1"}
CASES = (
    "copy_arrives_whole",
    "failed_copy_is_reported",
    "interrupt_descriptor_works_if_offered",
    "terminated_copy_is_waited_for",
    "terminated_copy_may_lose_its_interrupt",
    "copies_complete_once_while_polled",
)


def _server(*functions: str) -> machine.Machine:
    """Two CPUs and one PTDMA function per text, which has its properties."""
    emulator.build()
    devices = [
        word
        for i, properties in enumerate(functions)
        for word in (
            "-device",
            ",".join(filter(None, [f"{emulator.DEVICE},addr={profile.FIRST_SLOT + i:#x}", properties])),
        )
    ]
    return replace(machine.get("smp"), program=tuple(emulator.command()), devices=tuple(devices))


@pytest.fixture(scope="module", params=("ferry", "debug"))
def result(request: pytest.FixtureRequest) -> vm.Result:
    """The driver's KUnit tests, each on the function that has its fault; debug has KASAN and lockdep."""
    names = [f"{name}=0000:00:{profile.FIRST_SLOT + i:02x}.0" for i, name in enumerate(SLOTS)]
    script = (
        f"modprobe ptdma && modprobe ptdma_test {' '.join(names)} || fail 'cannot load the tests'\n"
        "sed 's/^/| /' /sys/kernel/debug/kunit/ptdma/results >&3\n"
    )
    job = vm.Job(script, 180.0, kernel_args=("kunit.enable=1",))
    return vm.run(kbuild.build(request.param), _server(*SLOTS.values()), job)


@pytest.mark.parametrize("name", CASES)
def test_client_is_told_the_truth(result: vm.Result, name: str) -> None:
    text = "\n".join(record[2:] for record in result.records)
    outcomes = {case.name: case.outcome for case in ktap.parse(text)}
    assert outcomes.get(name) == "ok", text


def test_error_is_named_by_its_code(result: vm.Result) -> None:
    """Code 38 is beyond the table of names that Linux 6.12 has."""
    assert "PTDMA error: ERR 38: ODMA0_AXI_SLVERR (0x26)" in result.console


@pytest.mark.parametrize(
    ("fault", "counter"),
    [
        ("error-at=5", "fallback_error"),
        ("stall-at=5", "quarantined_bytes"),
        ("lose-irq-at=5", "quarantined_bytes"),
    ],
)
def test_faulty_channel_loses_no_byte(fault: str, counter: str) -> None:
    """migbench verifies; the folio was copied by the CPU, or its pages are kept and counted."""
    script = (
        "modprobe ptdma && modprobe dcbm timeout_ms=500 || fail 'cannot load dcbm'\n"
        "echo dcbm >$OFFLOAD/active\n"
        "/bin/migbench --folio 2M --bytes 64M --runs 3 --json /tmp/row >/tmp/said ||"
        ' fail "$(tail -n 1 /tmp/said)"\n'
        f"echo \"$(tr -d '\\n' </tmp/row)\" >&3; cat $OFFLOAD/stats/{counter} $OFFLOAD/stats/bytes >&3\n"
    )
    where = _server("", fault, "", "")
    job = vm.Job(script, 180.0, programs={"bin/migbench": bench.build_migbench()})
    row, counted, moved = vm.run(kbuild.build("ferry"), where, job).records
    found = json.loads(row)
    assert found["passed"]
    assert found["verified_bytes"] >= 3 * 64 << 20
    assert int(counted) > 0
    assert int(moved) > 2 * 64 << 20  # the other channels went on
