# SPDX-License-Identifier: GPL-2.0
"""Memory moves in a VM, every byte of it is verified, and what it costs when nothing is active."""

from dataclasses import replace

import pytest

from ferry.bench import cost, migbench, rows
from ferry.bench.sizes import parse_size
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.vm import machine, qemu, records
from tests import guest

pytestmark = pytest.mark.vm

SIZE = "16M"


@pytest.fixture(scope="session")
def measured() -> list[rows.Row]:
    """One boot of each kernel: three folio sizes with every engine."""
    plan = migbench.Plan(size=SIZE, runs=2)
    return migbench.measure(plan, machine.get("smp"))[0]


@pytest.mark.parametrize("engine", ["vanilla", "cpu", "mtcopy", "dcbm"])
@pytest.mark.parametrize("folio_kib", [4, 64, 2048])
def test_engine_moves_every_byte(measured: list[rows.Row], engine: str, folio_kib: int) -> None:
    """migbench fails if a byte differs or a page is on the wrong node; here the row must be there."""
    (row,) = [row for row in measured if (row.engine, row.folio_kib) == (engine, folio_kib)]
    assert row.verified_bytes >= parse_size(SIZE) * 2


@pytest.mark.parametrize(
    ("engine", "load"),
    [
        ("dcbm", "modprobe softdma channels=4 && modprobe dcbm timeout_ms=60000"),
        ("mtcopy", "modprobe mtcopy"),
        ("cpu", ":"),
    ],
)
def test_a_page_of_1g_is_copied_by_the_engine_while_it_is_mapped(engine: str, load: str) -> None:
    """A page that takes an engine longer than a stuck one is waited for, and more than any window has."""
    pages = "/sys/kernel/mm/hugepages/hugepages-1048576kB"
    script = (
        f"{load} || fail 'cannot load {engine}'\n"
        # Its channels are threads of a host that may be busy
        f"echo 60000 >$OFFLOAD/deadline_ms; echo 1 >$OFFLOAD/engine_always; echo {engine} >$OFFLOAD/active\n"
        "bench page --memory hugetlb --folio 1G --bytes 1G --runs 1\n"
        f"record counted by_engine: $(cat $OFFLOAD/stats/folios) mapped: $(cat {pages}/migrate_mapped)\n"
    )
    said = guest.says(script, replace(machine.get("smp"), node_mib=4096))
    assert records.of(said, "migbench")["found"]["passed"]
    counted = records.of(said, "counted")
    assert counted["by_engine"] > 0
    assert counted["mapped"] == counted["by_engine"]


def test_nothing_active_costs_nothing() -> None:
    """Under icount a nanosecond is an instruction, so this is not a timing."""
    found, _ = cost.measure((cost.Case("move_pages", ("4K", "2M")),))
    idle = [each for each in found["costs"] if each["engine"] == "none"]
    assert [each["folio_kib"] for each in idle] == [4, 2048]
    assert all(each["passed"] for each in idle), idle


@pytest.mark.parametrize("call", ["damon", "promote", "demote", "compact"])
def test_the_kernel_moves_every_byte(call: str) -> None:
    """The callers that are no system calls; on one CPU, so that no folio waits in another's LRU cache.

    migbench fails if a page is not where it is to be, or if compaction has moved none.
    """
    more = [str(word) for pair in migbench.nodes(call).items() for word in pair]
    plan = migbench.Plan(("4K",), ("vanilla", "none"), size=SIZE, runs=1, call=call, extra=tuple(more))
    measured, _ = migbench.measure(plan, machine.get("cxl-icount"))
    assert [row.engine for row in measured] == ["vanilla", "none"]
    assert all(row.verified_bytes >= parse_size(SIZE) for row in measured)


def test_promotion_with_two_cpus_is_counted() -> None:
    """NUMA balancing goes by a clock that only one of the two virtual CPUs counts."""
    found, _ = cost.measure((cost.Case("promote", ("4K",), cpus=2),))
    assert not found["failures"]
    assert {each["engine"] for each in found["costs"]} == {"none", "cpu"}
    assert all(each["instructions"] > 1000 for each in found["costs"]), found


def test_kernel_without_ferry_is_named() -> None:
    """An engine on a vanilla kernel is one clear line."""
    job = qemu.Job("use_engine cpu 1", 60.0)
    with pytest.raises(FerryError, match="without Ferry"):
        qemu.run(kbuild.build("vanilla"), machine.get("smp"), job)


def test_panic_loses_the_vm() -> None:
    """A guest that dies is never taken for one that passed."""
    job = qemu.Job("echo c >/proc/sysrq-trigger", 60.0)
    with pytest.raises(qemu.LostVM):
        qemu.run(kbuild.build("vanilla"), machine.get("smp"), job)
