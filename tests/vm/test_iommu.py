# SPDX-License-Identifier: GPL-2.0
"""The IOMMU's empty page tables are freed, under stress, DMA and every sanitizer that builds.

The emulated IOMMU has an IOTLB but no paging-structure cache: that a missing flush of inner
entries is noticed is not tested here.
"""

import re

import pytest

from ferry import iommu, kbuild, ktap, machine, vm

pytestmark = pytest.mark.vm

SANITIZED = ("iommu-kasan", "iommu-kcsan")
STRESS_OPS = {2: 200000, 4: 30000}  # per thread; two threads seldom meet a dead table
DMA_ROUNDS = 40
BOOT_S = 900.0
COUNTERS = "/sys/kernel/debug/intel_iommu_empty_tables"


def run(flavour: str, cpus: int, lines: list[str], kernel_args: tuple[str, ...] = ()) -> vm.Result:
    """A job with the bench's module in a kernel, on a machine with an IOMMU."""
    kernel = kbuild.build(flavour)
    programs = {iommu.MODULE: iommu.build_module(kernel), iommu.STRESS: iommu.build_stress()}
    script = iommu.script(["load_bench", *lines, "rmmod iommu_bench"])
    job = vm.Job(script, BOOT_S, programs=programs, kernel_args=kernel_args)
    return vm.run(kernel, machine.get("iommu-smp", cpus), job)


def words(result: vm.Result, kind: str) -> dict[str, int]:
    """The figures of the last record of a kind."""
    (*_, record) = [line for line in result.records if line.startswith(f"{kind} ")]
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", record)}


def test_memory_returns_to_its_level() -> None:
    """One GiB in steps of a table, then 4 CPUs in the same tables."""
    lines = ["tables before", "run pass_4k 1 512", "run shared_pass_4k 4 512", "tables after"]
    found = dict(line.split()[1:] for line in run("ferry", 4, lines).records if line.startswith("tables"))
    assert int(found["after"]) - int(found["before"]) <= 64


@pytest.mark.parametrize("cpus", [2, 4])
@pytest.mark.parametrize("flavour", SANITIZED)
def test_stress_with_shadow_model(flavour: str, cpus: int) -> None:
    """Every translation is as the shadow says, and the race was met."""
    lines = [
        f"echo stress $(run stress {cpus} {STRESS_OPS[cpus]}) >&3",
        f"echo counters $(sed 's/ /=/' {COUNTERS}) >&3",
    ]
    result = run(flavour, cpus, lines)
    assert words(result, "stress")["errors"] == 0
    counters = words(result, "counters")
    assert counters["freed"] > 0
    assert counters["retries"] > 0


def test_dma_sees_the_right_page_or_none() -> None:
    """The device reads and writes while its neighbours' pages come and go."""
    result = run("iommu-kasan", 4, [f"echo dma $(run dma 3 {DMA_ROUNDS}) >&3"])
    found = words(result, "dma")
    assert found["errors"] == 0
    assert found["transfers"] == 2 * DMA_ROUNDS
    assert found["faults"] > 0


@pytest.mark.parametrize("flavour", SANITIZED)
def test_kunit(flavour: str) -> None:
    """Counting, dying, keeping and reusing, in every format of tables."""
    kernel = kbuild.build(flavour)
    script = "sed 's/^/| /' </sys/kernel/debug/kunit/intel_iommu_empty_tables/results >&3"
    job = vm.Job(script, BOOT_S, kernel_args=("kunit.enable=1",))
    result = vm.run(kernel, machine.get("iommu-smp"), job)
    cases = ktap.parse("\n".join(line[2:] for line in result.records if line.startswith("|")))
    assert not ktap.failed(cases)
    assert len(cases) > 10
