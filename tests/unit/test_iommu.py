# SPDX-License-Identifier: GPL-2.0
"""What the records of the IOMMU bench say, and when a limit is exceeded."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ferry import paths
from ferry.bench import iommu
from ferry.cli import main
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.results import provenance, report
from ferry.vm import boots, emulator
from ferry.vm.boots import Said
from ferry.vm.records import Record
from tests.unit.said import record


def bench(workload: str, ns: int, errors: int = 0) -> str:
    """What iommu_bench has found."""
    return record("bench", workload=workload, pairs=10, ns=ns, errors=errors)


def stress(name: str, iommu_kib: int, peak_kib: int, pairs: int, ns: int) -> str:
    """What iova_stress has found."""
    found = {"iommu_kib": iommu_kib, "peak_kib": peak_kib, "pairs": pairs, "ns": ns}
    return record("stress", of=name, found=found)


def test_insn_are_ns_per_pair() -> None:
    """Under icount a nanosecond is an instruction."""
    seen = iommu.parse(bench("same_4k", 13000) + stress("vfio_4k", 0, -1, 2, 12000))
    assert seen.insn == pytest.approx({"driver_4k": 1300.0, "vfio_4k": 6000.0})


def test_memory_has_a_name() -> None:
    """What is left, and the peak, by the interface and the order."""
    seen = iommu.parse(stress("memory:vfio_up", 16, 131072, 2, 8))
    assert seen.memory == {"vfio_up": {"left": 16, "peak": 131072}}


def test_error_of_the_bench_is_no_result() -> None:
    """A wrong translation is never a figure."""
    with pytest.raises(FerryError, match="same_4k: 3 maps"):
        iommu.parse(bench("same_4k", 1, errors=3))


@pytest.mark.parametrize(("ferry", "passed"), [(1001.9, True), (1002.1, False), (900.0, True)])
def test_limit_in_percent(ferry: float, passed: bool) -> None:
    """Below VFIO the freeing costs nothing."""
    assert iommu.cost(iommu.LOOPS[0], 1000.0, ferry)["passed"] is passed


@pytest.mark.parametrize(("left", "passed"), [(64, True), (65, False)])
def test_limit_of_memory(left: int, passed: bool) -> None:
    """At most 64 KiB left, in every order."""
    memory = [{"kib": {"left": kib, "peak": 131072}} for kib in (0, left)]
    assert iommu.passed({"costs": [], "memory": memory}) is passed


def test_every_loop_is_run_by_name() -> None:
    """A loop that the job does not run would end in a KeyError after minutes."""
    job = iommu.count_script(64)
    for loop in iommu.LOOPS:
        assert (f"measure {loop.workload} 1" if loop.by_module else f" {loop.name} -") in job


def test_version_is_that_of_the_emulator_which_ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With one CPU, instructions are counted by Debian's; four CPUs are the lab's own."""
    asked: list[str] = []

    def version(program: str) -> str:
        asked.append(program)
        return "QEMU"

    nothing: dict[str, list[Record]] = {"costs": [], "memory": [], "speeds": [], "dma_api": []}
    own, debian = tmp_path / "own-qemu", tmp_path / "qemu-system-x86_64"
    own.touch(0o755)
    debian.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(provenance, "_built", lambda folder: {})
    monkeypatch.setattr(emulator, "BINARY", own)
    monkeypatch.setattr(emulator, "version", version)
    monkeypatch.setattr(iommu, "measure", lambda *args: nothing)
    monkeypatch.setattr(report, "write_json", lambda *args: None)
    assert main(["iommu", "--json", "-"]) == 0
    assert [Path(program).name for program in asked] == ["qemu-system-x86_64", own.name]


def test_what_the_dma_api_leaves_is_above_the_start() -> None:
    """By load and threads: maps and unmaps, KiB after a tenth of them, KiB after all."""
    seen = iommu.parse(
        record("start", kib=100)
        + record("left", load="api_ring", threads=4, pairs=1000, early=132, late=140)
        + record("left", load="disk", threads=4, pairs=50, early=140, late=140)
    )
    assert seen.left == {
        "api_ring 4": {"pairs": 1000, "early": 32, "late": 40},
        "disk 4": {"pairs": 50, "early": 40, "late": 40},
    }


def test_every_load_of_the_dma_api_is_one_of_the_module() -> None:
    """One that the module does not know would end in an error after minutes."""
    source = (paths.ROOT / "bench/iommu/api.c").read_text()
    job = iommu.api_script()
    for load in iommu.API_LOADS:
        assert f'"{load}"' in source
        assert f"api {load} 4 " in job


def test_median_of_a_loop_counts() -> None:
    """A run with a timer's tick more or less is not what the loop takes."""
    seen = iommu.parse(bench("range_4k", 13402) + bench("range_4k", 13999) + bench("range_4k", 13450))
    assert seen.insn == {"driver_range": pytest.approx(1345)}


def test_each_cell_has_the_records_that_it_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kernels' boots, or all turns of both."""
    counted = "".join(
        bench(loop.workload, 7000) if loop.by_module else stress(loop.name, 0, -1, 2, 8)
        for loop in iommu.LOOPS
    )
    counted += stress("memory:vfio_up", 16, 128, 2, 8) + bench("shared_4k", 7000)
    counted += record("start", kib=8) + record("left", load="disk", threads=1, pairs=9, early=9, late=10)

    def run(title: str, all_boots: Any, parse: Any, store: Any) -> Any:
        said = [Said(counted, f"{boot.flavour} {boot.turn}") for boot in all_boots]
        return [parse(index, each) for index, each in enumerate(said)], {}

    monkeypatch.setattr(boots, "run", run)
    monkeypatch.setattr(kbuild, "build", lambda name: SimpleNamespace(flavour=name, release="7.0"))
    monkeypatch.setattr(iommu, "_programs", lambda kernel: {})
    found = iommu.measure(64)
    once = ["vanilla 0", "ferry 0"]
    assert [cell["records"] for cell in found["costs"]] == [once] * len(iommu.LOOPS)
    assert found["memory"] == [
        {"case": "vfio, up", "engine": "none", "records": once}
        | {name: {"left": 16, "peak": 128} for name in ("vanilla_kib", "kib")}
    ]
    left = [(cell["case"], cell["kib"], cell["records"]) for cell in found["dma_api"]]
    of_disk = f"{iommu.API_DISK}, 1 thread", {"pairs": 9, "early": 1, "late": 2}, once
    assert left == [(f"{mode}: {of_disk[0]}", *of_disk[1:]) for mode in iommu.API_MODES]
    assert {len(cell["records"]) for cell in found["speeds"]} == {2 * iommu.SMP_ROUNDS}
    assert iommu.measure(64, smp=False) == found | {"speeds": [], "dma_api": []}
    assert iommu.measure(64, counted=False) == found | {"costs": [], "memory": [], "speeds": []}
