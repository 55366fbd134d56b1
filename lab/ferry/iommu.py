# SPDX-License-Identifier: GPL-2.0
"""What the IOMMU's page tables cost, and what is left of them: vanilla against Ferry."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ferry import kbuild, machine, packages, paths, proc, vm
from ferry.errors import FerryError
from ferry.kbuild import Kernel
from ferry.progress import Step

FLAVOURS = ("vanilla", "ferry")
MODULE = "bench/iommu_bench.ko"
STRESS = "bin/iova_stress"
TABLE_MIB = 2  # addresses under one table of 4 KiB pages
LEFT_LIMIT_KIB = 64
RATIO_LIMIT = 0.98
COUNT_S = 900.0
SMP_S = 900.0
SMP_ROUNDS = 5
SMP_PAIRS = 20000
SMP_CPUS = 4


@dataclass(frozen=True)
class Loop:
    """A loop that is counted: its name in the result, how it is run, what it may cost."""

    name: str
    what: str
    workload: str  # of iommu_bench; empty: through VFIO, by iova_stress
    pairs: int  # 0: as many as the pass needs
    limit_percent: float


LOOPS = (
    Loop("driver_4k", "iommu_map, 4 KiB, one place", "same_4k", 20000, 2.0),
    Loop("driver_4k_pass", "iommu_map, 4 KiB, fresh addresses", "pass_4k", 0, 2.0),
    Loop("driver_2m", "iommu_map, 2 MiB, one place", "same_2m", 20000, 0.5),
    Loop("driver_range", "iommu_map, 512 x 4 KiB", "range_4k", 1000, 0.5),
    Loop("vfio_4k", "VFIO, 4 KiB, one place", "", 10000, 0.5),
    Loop("vfio_4k_pass", "VFIO, 4 KiB, fresh addresses", "", 0, 0.5),
)


@dataclass(frozen=True)
class Count:
    """Instructions per map and unmap, on both kernels."""

    loop: Loop
    vanilla: float
    ferry: float

    @property
    def percent(self) -> float:
        """More than vanilla, in percent."""
        return (self.ferry / self.vanilla - 1) * 100

    @property
    def passed(self) -> bool:
        """Whether this is within the limit."""
        return self.percent <= self.loop.limit_percent

    def as_json(self) -> dict[str, Any]:
        """The count as JSON."""
        limit = self.loop.limit_percent
        figures = {"vanilla": round(self.vanilla, 1), "ferry": round(self.ferry, 1)}
        return figures | {"percent": round(self.percent, 3), "limit_percent": limit, "passed": self.passed}


@dataclass(frozen=True)
class Seen:
    """What one kernel showed in one boot."""

    insn: dict[str, float] = field(default_factory=dict)  # by the loop's name
    left_kib: int = 0
    speed: dict[str, list[float]] = field(default_factory=dict)  # pairs per ms, by workload


@dataclass(frozen=True)
class Result:
    """Both kernels beside each other."""

    iova_gib: int
    counts: list[Count]
    left_kib: dict[str, int]
    smp_ratio: dict[str, float]
    kernels: dict[str, str]

    @property
    def passed(self) -> bool:
        """Whether all limits are met."""
        slow = [name for name, ratio in self.smp_ratio.items() if name == "disjoint" and ratio < RATIO_LIMIT]
        return not slow and self.left_kib["ferry"] <= LEFT_LIMIT_KIB and all(c.passed for c in self.counts)

    def as_json(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "kernels": self.kernels,
            "iova_gib": self.iova_gib,
            "left_kib": self.left_kib,
            "insn_per_map_unmap": {count.loop.name: count.as_json() for count in self.counts},
            "smp_ratio": {name: round(ratio, 3) for name, ratio in self.smp_ratio.items()},
            "passed": self.passed,
        }


def build_module(kernel: Kernel) -> Path:
    """The bench's kernel module for a kernel. Its sources are copied, so that kernels do not mix."""
    folder = paths.BUILD / f"iommu_bench-{kernel.flavour}"
    shutil.copytree(paths.ROOT / "bench/iommu", folder, dirs_exist_ok=True)
    kbuild.make(kernel.build_dir, f"M={folder}", "modules", title=f"build iommu_bench for {kernel.flavour}")
    return folder / "iommu_bench.ko"


def build_stress() -> Path:
    """bench/iova_stress, made if it is out of date."""
    packages.ensure(["gcc", "libc6-dev", "make"])
    folder = paths.ROOT / "bench/iova_stress"
    proc.run(["make", "-C", folder], title="build iova_stress")
    return folder / "iova_stress"


def script(lines: Sequence[str]) -> str:
    """A job with the functions of guest/iommu.sh."""
    return "\n".join([(vm.GUEST / "iommu.sh").read_text(), *lines])


def count_script(iova_gib: int) -> str:
    """The job that counts every loop, and what the driver's pass leaves."""
    lines = ["load_bench"]
    for loop in LOOPS:
        pairs = loop.pairs or iova_gib * 1024 // TABLE_MIB
        if loop.workload and loop.pairs:
            lines.append(f"measure {loop.workload} 1 {pairs}")
        elif loop.workload:
            lines += ["tables before", f"measure {loop.workload} 1 {pairs}", "tables after"]
    lines += ["rmmod iommu_bench", "bind_vfio", "stress -n 500", "stress -n 10000", f"stress -s {iova_gib}"]
    return script(lines)


def smp_script() -> str:
    """The job that runs a thread per CPU, on places of their own and in one table."""
    lines = ["load_bench"]
    for _ in range(SMP_ROUNDS):
        lines += [f"measure {name} {SMP_CPUS} {SMP_PAIRS}" for name in ("same_4k", "shared_4k")]
    return script(lines)


def parse(records: Sequence[str]) -> Seen:
    """What the records of a job say. Raises FerryError if the bench found an error."""
    seen = Seen()
    tables: dict[str, int] = {}
    vfio: list[dict[str, Any]] = []
    names = {loop.workload: loop.name for loop in LOOPS if loop.workload}
    for record in records:
        kind, _, rest = record.partition(" ")
        if kind == "bench":
            workload, _threads, *words = rest.split()
            found = {key: int(value) for key, value in (word.split("=") for word in words)}
            if found["errors"]:
                raise FerryError(f"{workload}: {found['errors']} maps or unmaps went wrong")
            seen.speed.setdefault(workload, []).append(found["pairs"] / found["ns"] * 1e6)
            if workload in names:
                seen.insn[names[workload]] = found["ns"] / found["pairs"]
        elif kind == "tables":
            name, kib = rest.split()
            tables[name] = int(kib)
        elif kind == "vfio":
            vfio.append(json.loads(rest))
    for row in vfio:  # the last of each kind: the first is to warm up
        seen.insn["vfio_4k_pass" if row["iova_gib"] else "vfio_4k"] = row["ns"] / row["pairs"]
    left = max([0, *(row["iommu_kib"] for row in vfio)])
    return Seen(seen.insn, max(left, tables.get("after", 0) - tables.get("before", 0)), seen.speed)


def _boot(kernel: Kernel, where: machine.Machine, job: str, limit_s: float) -> Seen:
    programs = {MODULE: build_module(kernel), STRESS: build_stress()}
    with Step(f"measure {kernel.flavour} ({where.name})") as progress:
        result = vm.run(kernel, where, vm.Job(job, limit_s, programs=programs), on_output=progress.update)
    if result.status:
        raise FerryError(f"the job on {kernel.flavour} ended early: {result.output.strip()[-200:]}")
    return parse(result.records)


def measure(iova_gib: int = 64, smp: bool = True) -> Result:
    """Boot both kernels, under icount and with four CPUs, and compare."""
    kernels = {name: kbuild.build(name) for name in FLAVOURS}
    counted = {
        name: _boot(kernel, machine.get("iommu"), count_script(iova_gib), COUNT_S)
        for name, kernel in kernels.items()
    }
    counts = [
        Count(loop, counted["vanilla"].insn[loop.name], counted["ferry"].insn[loop.name]) for loop in LOOPS
    ]
    ratios = {}
    if smp:
        where = machine.get("iommu-smp")
        fast = {name: _boot(kernel, where, smp_script(), SMP_S).speed for name, kernel in kernels.items()}
        for name, workload in (("disjoint", "same_4k"), ("shared", "shared_4k")):
            pairs = [statistics.median(fast[flavour][workload]) for flavour in ("ferry", "vanilla")]
            ratios[name] = pairs[0] / pairs[1]
    left = {name: seen.left_kib for name, seen in counted.items()}
    return Result(iova_gib, counts, left, ratios, {name: k.release for name, k in kernels.items()})
