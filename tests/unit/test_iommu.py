# SPDX-License-Identifier: GPL-2.0
"""What the records of the IOMMU bench say, and when a limit is exceeded."""

import pytest

from ferry import iommu, machine
from ferry.errors import FerryError

BENCH = "bench {} 1 pairs=10 ns={} errors=0 transfers=0 faults=0"
VFIO = '{{"dma_size_kib": 4, "iova_gib": {}, "iommu_kib": {}, "free_drop_kib": 0, "pairs": {}, "ns": {}}}'


def test_insn_are_ns_per_pair() -> None:
    """Under icount a nanosecond is an instruction."""
    seen = iommu.parse([BENCH.format("same_4k", 13000), BENCH.format("same_2m", 9000)])
    assert seen.insn == {"driver_4k": 1300.0, "driver_2m": 900.0}


def test_what_is_left_is_the_larger_of_driver_and_vfio() -> None:
    """Tables before and after the pass, and what iova_stress saw."""
    records = ["tables before 100", "tables after 400", "vfio " + VFIO.format(64, 200, 4, 8)]
    assert iommu.parse(records).left_kib == 300
    assert iommu.parse([*records, "vfio " + VFIO.format(64, 900, 4, 8)]).left_kib == 900


def test_last_vfio_row_of_a_kind_counts() -> None:
    """The first is to warm up."""
    rows = ["vfio " + VFIO.format(gib, 0, 2, ns) for gib, ns in ((0, 50), (0, 40), (64, 60))]
    assert iommu.parse(rows).insn == {"vfio_4k": 20.0, "vfio_4k_pass": 30.0}


def test_error_of_the_bench_is_no_result() -> None:
    """A wrong translation is never a figure."""
    with pytest.raises(FerryError, match="same_4k: 3 maps"):
        iommu.parse([BENCH.format("same_4k", 1).replace("errors=0", "errors=3")])


@pytest.mark.parametrize(("ferry", "passed"), [(1019.9, True), (1020.1, False), (900.0, True)])
def test_limit_in_percent(ferry: float, passed: bool) -> None:
    """At most two percent for the driver's loop."""
    assert iommu.Count(iommu.LOOPS[0], 1000.0, ferry).passed is passed


@pytest.mark.parametrize(("left", "ratio", "passed"), [(64, 0.98, True), (65, 1.0, False), (0, 0.979, False)])
def test_limits_of_memory_and_speed(left: int, ratio: float, passed: bool) -> None:
    """At most 64 KiB left; four CPUs not slower than 0.98 of vanilla."""
    left_kib = {"vanilla": 131072, "ferry": left}
    result = iommu.Result(64, [], left_kib, {"disjoint": ratio, "shared": 0.5}, {})
    assert result.passed is passed
    assert result.as_json()["left_kib"] == left_kib


def test_pass_covers_the_addresses() -> None:
    """One pair per table of 2 MiB."""
    assert "measure pass_4k 1 32768" in iommu.count_script(64)


def test_iommu_machine_has_a_device_behind_an_iommu() -> None:
    """q35, because the default machine cannot have Intel's IOMMU."""
    args = " ".join(machine.MACHINES["iommu"].qemu_args())
    assert "q35" in args
    assert "intel-iommu" in args
    assert "edu" in args
    assert "intel-iommu" not in " ".join(machine.MACHINES["smp"].qemu_args())
