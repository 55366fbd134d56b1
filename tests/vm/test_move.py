# SPDX-License-Identifier: GPL-2.0
"""Memory moves in a VM, every byte of it is verified, and what it costs when nothing is active."""

import pytest

from ferry import bench, cost, kbuild, machine, vm
from ferry.errors import FerryError

pytestmark = pytest.mark.vm

SIZE = "16M"


@pytest.fixture(scope="session")
def measured() -> bench.Measured:
    """One boot of each kernel: three folio sizes with every engine."""
    plan = bench.Plan(size=SIZE, runs=2)
    return bench.measure(plan, machine.get("smp"))


@pytest.mark.parametrize("engine", ["vanilla", "cpu", "mtcopy", "dcbm"])
@pytest.mark.parametrize("folio_kib", [4, 64, 2048])
def test_engine_moves_every_byte(measured: bench.Measured, engine: str, folio_kib: int) -> None:
    """migbench fails if a byte differs or a page is on the wrong node; here the row must be there."""
    (row,) = [row for row in measured.rows if (row.engine, row.folio_kib) == (engine, folio_kib)]
    assert row.verified_bytes >= bench.parse_size(SIZE) * 2
    assert row.gbps > 0


def test_nothing_active_costs_nothing() -> None:
    """Under icount a nanosecond is an instruction, so this is not a timing."""
    costs, _ = cost.measure(machine.get("icount"))
    idle = [each for each in costs if each.engine == "none"]
    assert [each.folio_kib for each in idle] == [4, 2048]
    assert all(each.passed for each in idle), idle


def test_damon_moves_every_byte() -> None:
    """The caller that is no system call; on one CPU, so that no folio waits in another's LRU cache."""
    plan = bench.Plan(folios=("4K",), engines=("vanilla", "none"), size=SIZE, runs=1, call="damon")
    measured = bench.measure(plan, machine.get("icount"))
    assert [row.engine for row in measured.rows] == ["vanilla", "none"]
    assert all(row.verified_bytes >= bench.parse_size(SIZE) for row in measured.rows)


def test_kernel_without_ferry_is_named() -> None:
    """An engine on a vanilla kernel is one clear line."""
    job = vm.Job("use_engine cpu 1", 60.0)
    with pytest.raises(FerryError, match="without Ferry"):
        vm.run(kbuild.build("vanilla"), machine.get("smp"), job)


def test_panic_loses_the_vm() -> None:
    """A guest that dies is never taken for one that passed."""
    job = vm.Job("echo c >/proc/sysrq-trigger", 60.0)
    with pytest.raises(vm.LostVM):
        vm.run(kbuild.build("vanilla"), machine.get("smp"), job)
