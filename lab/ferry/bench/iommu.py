# SPDX-License-Identifier: GPL-2.0
"""What the IOMMU's page tables cost, and what is left of them: vanilla against Ferry."""

import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path

from ferry import packages, paths, proc
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.kernel.kbuild import Kernel
from ferry.vm import boots, machine, qemu, records
from ferry.vm.boots import Boot
from ferry.vm.records import Record
from ferry.vm.store import Store

FLAVOURS = ("vanilla", "ferry")
MODULE = "bench/iommu_bench.ko"
STRESS = "bin/iova_stress"
TABLE_MIB = 2  # addresses under one table of 4 KiB pages
LEFT_LIMIT_KIB = 64
ORDERS = ("up", "down", "random")  # of the unmaps, when what is left is looked at
COUNT_S = 1800.0
# Of a loop of iommu_bench at one place, each shorter than the 4 ms from one timer tick to the next. Most of
# them have the same instructions but for a few; the median leaves out those that were interrupted.
COUNT_RUNS = 9
SMP_S = 900.0
SMP_ROUNDS = 9
SMP_PAIRS = 20000
SMP_CPUS = 4
# What the DMA API leaves behind: modes of its flushes, loads of bench/iommu/api.c, threads.
API_MODES = ("strict", "lazy")
API_LOADS = {
    "api_page": "a page at a time, as dma_map_benchmark",
    "api_ring": "rings of 1,024 pages",
    "api_mix": "256 buffers of 4 KiB to 1 MiB, in any order",
}
API_DISK = "reads of a disk, 4 KiB to 1 MiB"
API_THREADS = (1, 2, 4)
API_PAIRS = 300000  # of each thread
API_READS = 30000  # of each process, of 4 KiB
API_S = 1800.0
# Reads of it cost no time, and move no data.
DISK = (
    "-drive", "if=none,id=null,driver=null-co,size=64G",
    "-device", "virtio-blk-pci,drive=null,disable-legacy=on,iommu_platform=on",
)  # fmt: skip


@dataclass(frozen=True)
class Loop:
    """A loop that is counted: its name in the result, how it is run, what it may cost."""

    name: str
    title: str
    workload: str  # of iommu_bench, or iova_stress and its options
    pairs: int  # of iommu_bench; 0: as many as the pass needs
    limit_percent: float

    @property
    def by_module(self) -> bool:
        """Whether iommu_bench runs it, below VFIO and iommufd."""
        return not self.workload.startswith("-")


# Who links a table notes that it was written back (patch 0062, which mends a defect of Linux):
# about 10 instructions for each table. On 7.3, which has no such defect, it counts the table and looks for
# a spare one: 16 instructions. Loops that link a table each time may cost that more.
LOOPS = (
    Loop("driver_4k", "iommu_map, 4 KiB, one place", "same_4k", 1500, 0.2),
    Loop("driver_4k_pass", "iommu_map, 4 KiB, fresh addresses", "pass_4k", 0, 0.5),
    Loop("driver_2m", "iommu_map, 2 MiB, one place", "same_2m", 1500, 0.2),
    Loop("driver_range", "iommu_map, 512 x 4 KiB", "range_4k", 200, 0.3),
    Loop("driver_1g", "iommu_map, 1 GiB of 4 KiB pages", "range_1g", 4, 0.2),
    Loop("vfio_4k", "VFIO, 4 KiB, one place", "-n 10000", 0, 1.5),
    Loop("vfio_4k_turns", "VFIO, 4 KiB, two places in turns", "-a -n 10000", 0, 1.5),
    Loop("vfio_4k_pass", "VFIO, 4 KiB, fresh addresses", "-s {gib}", 0, 1.5),
    Loop("vfio_4k_random", "VFIO, 4 KiB, fresh addresses at random", "-o random -s {gib}", 0, 1.5),
    Loop("vfio_1g", "VFIO, 1 GiB of 4 KiB pages, one place", "-d 1048576 -n 3", 0, 1.5),
    Loop("vfio_1g_pass", "VFIO, 1 GiB of 4 KiB pages, fresh addresses", "-d 1048576 -s 4", 0, 1.5),
    Loop("iommufd_4k", "iommufd, 2 domains, 4 KiB, one place", "-n 10000", 0, 1.5),
    Loop("iommufd_4k_turns", "iommufd, 2 domains, 4 KiB, two places in turns", "-a -n 10000", 0, 1.5),
    Loop("iommufd_4k_pass", "iommufd, 2 domains, 4 KiB, fresh addresses", "-s {gib}", 0, 2.0),
)


def cost(loop: Loop, vanilla: float, ferry: float) -> Record:
    """Instructions per map and unmap, on both kernels, and whether that is within the limit."""
    percent = (ferry / vanilla - 1) * 100
    return {
        **{"case": loop.title, "engine": "none", "loop": loop.name},
        **{"vanilla": round(vanilla, 1), "instructions": round(ferry, 1)},
        **{"percent": round(percent, 3), "limit_percent": loop.limit_percent},
        "passed": percent <= loop.limit_percent,
    }


def passed(result: Record) -> bool:
    """Whether all limits are met."""
    left = (cell["kib"]["left"] for cell in result["memory"])
    return max(left, default=0) <= LEFT_LIMIT_KIB and all(cost["passed"] for cost in result["costs"])


@dataclass(frozen=True)
class Seen:
    """What one kernel showed in one boot, KiB above those of its start."""

    insn: dict[str, float] = field(default_factory=dict)  # by the loop's name
    # By "vfio up" and the like: in page tables when all is unmapped, and at the most on the way
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    speed: dict[str, list[float]] = field(default_factory=dict)  # pairs per ms, by workload
    # By a load of the DMA API and threads, "api_ring 4": maps and unmaps, or reads of the disk, and what is
    # left early, after a tenth of them, and late, after all
    left: dict[str, dict[str, int]] = field(default_factory=dict)
    record: str = ""


Turns = tuple[list[Seen], list[Seen]]  # all of vanilla, and of Ferry


def build_module(kernel: Kernel) -> Path:
    """The bench's kernel module for a kernel. Its sources are copied, so that kernels do not mix."""
    folder = kernel.source_dir.parent / f"iommu_bench-{kernel.flavour}"
    shutil.copytree(paths.ROOT / "bench/iommu", folder, dirs_exist_ok=True)
    kbuild.make(kernel.build_dir, f"M={folder}", "modules", title=f"build iommu_bench for {kernel.flavour}")
    return folder / "iommu_bench.ko"


def build_stress(kernel: Kernel) -> Path:
    """bench/iova_stress with a kernel's headers, made if it is out of date."""
    packages.ensure(["gcc", "libc6-dev", "make"])
    folder = paths.ROOT / "bench/iova_stress"
    headers = kernel.source_dir / "include/uapi/linux"
    proc.run(["make", "-C", folder, f"UAPI={headers}"], title="build iova_stress")
    return folder / "iova_stress"


def script(lines: Sequence[str]) -> str:
    """A job with the functions of vm/guest/iommu.sh."""
    return "\n".join([(qemu.GUEST / "iommu.sh").read_text(), *lines])


def count_script(iova_gib: int) -> str:
    """The job that counts every loop, and looks at the memory that is left and at its peak."""
    pass_pairs = iova_gib * 1024 // TABLE_MIB
    lines = [
        f"measure {loop.workload} 1 {loop.pairs or pass_pairs} {COUNT_RUNS}"
        for loop in LOOPS
        if loop.by_module
    ]
    lines.append("bind_vfio")
    for api in ("vfio", "iommufd"):
        lines.append(f"stress {api} warm -n 500")
        for loop in LOOPS:
            if not loop.by_module and loop.name.startswith(api):
                lines.append(f"stress {api} {loop.name} {loop.workload.format(gib=iova_gib)}")
        lines += [f"stress {api} memory:{api}_{order} -k -p -o {order} -s {iova_gib}" for order in ORDERS]
        lines.append(f"stress {api} memory:{api}_pairs -p -s {iova_gib}")
    return script(lines)


def smp_script() -> str:
    """The job that runs a thread per CPU, on places of their own and in one table; one round."""
    workloads = ("same_4k", "shared_4k")
    lines = [f"measure {name} {SMP_CPUS} {SMP_PAIRS}" for name in workloads]
    lines.append("bind_vfio")
    for api in ("vfio", "iommufd"):
        lines += [f"stress {api} {api}_threads -t {SMP_CPUS} -n 2000"]
    return script(lines)


def api_script() -> str:
    """The job that looks at what the DMA API leaves behind, load after load."""
    lines = ["load_bench", 'record start kib: "$(tables)"']
    lines += [f"api {load} {threads} {API_PAIRS}" for load in API_LOADS for threads in API_THREADS]
    return script([*lines, f"disk {API_READS}"])


def parse(said: str) -> Seen:
    """What a job has recorded. Raises FerryError if the bench found an error."""
    seen = Seen()
    names = {loop.workload: loop.name for loop in LOOPS if loop.by_module}
    for row in records.every(said, "bench"):
        workload = row["workload"]
        if row["errors"]:
            raise FerryError(f"{workload}: {row['errors']} maps or unmaps went wrong")
        seen.speed.setdefault(workload, []).append(row["pairs"] / row["ns"] * 1e6)
        if workload in names:
            seen.insn[names[workload]] = 1e6 / statistics.median(seen.speed[workload])
    for record in records.every(said, "stress"):
        row = record["found"]
        name, _, case = record["of"].partition(":")
        if case:
            seen.memory[case] = {"left": row["iommu_kib"], "peak": row["peak_kib"]}
        seen.insn[name] = row["ns"] / row["pairs"]
        seen.speed.setdefault(name, []).append(row["pairs"] / row["ns"] * 1e6)
    for record in records.every(said, "left"):
        start = records.of(said, "start")["kib"]
        left = {name: record[name] - start for name in ("early", "late")}
        seen.left[f"{record['load']} {record['threads']}"] = {"pairs": record["pairs"], **left}
    return seen


@cache
def _programs(kernel: Kernel) -> dict[str, Path]:
    return {MODULE: build_module(kernel), STRESS: build_stress(kernel)}


def _boot(
    kernel: Kernel, computer: machine.Machine, limit_s: float, text: str, turn: int = 0, mode: str = ""
) -> Boot:
    args = (f"iommu.strict={int(mode == 'strict')}",) if mode else ()
    job = qemu.Job(text, limit_s, programs=_programs(kernel), kernel_args=args)
    title = f"{kernel.flavour} ({' '.join((computer.name, *args))})"
    return Boot(title, kernel.flavour, computer, job, turn)


def _four_cpus(kernels: Sequence[Kernel], counted: bool) -> dict[str, list[Boot]]:
    """Threads that map and unmap, in turns, and what the DMA API leaves."""
    computer = machine.get("iommu-smp")
    disk = replace(computer, devices=(*computer.devices, *DISK))
    turns = range(SMP_ROUNDS if counted else 0)
    smp = [_boot(kernel, computer, SMP_S, smp_script(), turn) for turn in turns for kernel in kernels]
    return {"smp": smp} | {
        mode: [_boot(kernel, disk, API_S, api_script(), mode=mode) for kernel in kernels]
        for mode in API_MODES
    }


def _see(title: str, parts: Mapping[str, Sequence[Boot]], store: Store | None) -> dict[str, Turns]:
    """What the boots of each part show, which are in turns of vanilla and of Ferry."""
    all_boots = [*chain(*parts.values())]
    if not all_boots:
        return {}
    seen, _ = boots.run(
        title, all_boots, lambda _, said: replace(parse(said.text), record=said.record), store
    )
    left = iter(seen)
    of_parts = {name: [next(left) for _ in some] for name, some in parts.items()}
    return {name: (shown[::2], shown[1::2]) for name, shown in of_parts.items()}


def measure(
    iova_gib: int = 64,
    smp: bool = True,
    counted: bool = True,
    store: Store | None = None,
    state: int = 0,
) -> dict[str, list[Record]]:
    """Boot both kernels under icount, then in turns with four CPUs. Returns cells, of vanilla beside Ferry:
    what maps and unmaps cost, what memory they leave, how fast four CPUs are, what the DMA API leaves.

    Without smp only what is counted, without counted only what the DMA API leaves.
    """
    kernels = [kbuild.build(name) for name in FLAVOURS]
    where, job = machine.get("iommu").in_state(state), count_script(iova_gib)
    once = [_boot(kernel, where, COUNT_S, job) for kernel in kernels if counted]
    seen = _see("count maps and unmaps", {"count": once}, store)
    seen |= _see("map and unmap with four CPUs", _four_cpus(kernels, counted) if smp else {}, store)
    nothing: Turns = ([], [])
    count, of_four = seen.get("count", nothing), seen.get("smp", nothing)
    return {
        **{"costs": _costs(*count), "memory": _memory(*count), "speeds": _speeds(*of_four)},
        "dma_api": [cell for mode in API_MODES for cell in _dma_api(mode, *seen.get(mode, nothing))],
    }


def _made_of(*sources: Seen) -> Record:
    return {"records": names} if (names := [shown.record for shown in sources if shown.record]) else {}


def _costs(vanilla: list[Seen], ferry: list[Seen]) -> list[Record]:
    return [
        cost(loop, linux.insn[loop.name], own.insn[loop.name]) | _made_of(linux, own)
        for linux, own in zip(vanilla, ferry, strict=True)
        for loop in LOOPS
    ]


def _memory(vanilla: list[Seen], ferry: list[Seen]) -> list[Record]:
    """KiB in page tables when all is unmapped, and at the most on the way."""
    return [
        {"case": case.replace("_", ", "), "engine": "none", "vanilla_kib": linux.memory[case], "kib": kib}
        | _made_of(linux, own)
        for linux, own in zip(vanilla, ferry, strict=True)
        for case, kib in own.memory.items()
    ]


def _speeds(vanilla: list[Seen], ferry: list[Seen]) -> list[Record]:
    """Maps and unmaps per ms of all CPUs, a figure for each turn."""

    def each(turns: list[Seen], workload: str) -> list[float]:
        return [round(speed, 1) for turn in turns for speed in turn.speed[workload]]

    return [
        {"case": f"{workload}, {SMP_CPUS} threads", "engine": "none"}
        | {"vanilla_pairs_per_ms": each(vanilla, workload), "pairs_per_ms": each(ferry, workload)}
        | _made_of(*vanilla, *ferry)
        for workload in (ferry[0].speed if ferry else ())
    ]


def _dma_api(mode: str, vanilla: list[Seen], ferry: list[Seen]) -> list[Record]:
    """KiB that are left after a tenth of a load, and after all of it, by how addresses are flushed."""

    def case(load: str, threads: str) -> str:
        return f"{mode}: {API_LOADS.get(load, API_DISK)}, {threads} thread{'s' * (threads != '1')}"

    return [
        {"case": case(*load.split()), "engine": "none", "vanilla_kib": linux.left[load], "kib": left}
        | _made_of(linux, own)
        for linux, own in zip(vanilla, ferry, strict=True)
        for load, left in own.left.items()
    ]
