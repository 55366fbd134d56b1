# SPDX-License-Identifier: GPL-2.0
"""count what freeing empty IOMMU page tables costs, and what is left of them"""

import argparse
import statistics

from ferry import paths
from ferry.bench import iommu
from ferry.commands import options
from ferry.errors import UsageError
from ferry.results import compare, present, provenance, report
from ferry.results.compare import Json
from ferry.results.grid import Grid
from ferry.vm import machine

# What was posted for a pass over 16 TiB: seconds and MiB left, before and after.
# linux-iommu, "iommu/intel: Free empty page tables on unmaps", 2023-12-21 and 2024-04-26 (v2)
PUBLISHED = (("RFC v1", 22.297, 23.388, 32783, 0), ("RFC v2", 36.074, 38.870, 32847, 27))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--iova", type=int, default=64, metavar="GIB", help="addresses to pass over (default 64)"
    )
    only = parser.add_mutually_exclusive_group()
    options.add_flag(only, "no-smp", "leave out the runs with four CPUs")
    options.add_flag(only, "dma-api", "only what the DMA API leaves behind")
    options.add_json(parser, "out/iommu.json")
    options.add_store(parser)


def run(args: argparse.Namespace) -> int:
    """1 if a limit is exceeded."""
    if not 1 <= args.iova <= 16384:
        raise UsageError(f"{args.iova} GiB: choose 1 to 16384")
    if args.twice and args.dma_api:
        raise UsageError("--twice is for what is counted: leave out --dma-api")
    output = report.output(args, paths.OUT / "iommu.json")
    result = iommu.measure(args.iova, not args.no_smp, not args.dma_api, provenance.store(args.anew))
    if args.twice:
        compare.must_be_same(result["costs"], iommu.measure(args.iova, smp=False)["costs"])
    used = [machine.get(name) for name in ("iommu", "iommu-smp")]
    origins = {computer.name: provenance.of_vms(computer, iommu.FLAVOURS) for computer in used}
    passed = iommu.passed(result)
    tables = []
    if not args.dma_api:
        title = "Instructions per map and unmap (icount, 1 CPU)"
        tables = [present.grid(title, [*result["costs"], *_published()]), _rest(result)]
    if result["dma_api_kib"]:
        tables.append(_api(result["dma_api_kib"]))
    output.write({"provenance": origins, **result, "passed": passed})
    output.show({}, *tables)
    return 0 if passed else 1


def _published() -> list[Json]:
    """What was posted, in seconds, as cells beside those that are counted."""
    return [
        {"case": f"published: {name}, VFIO, 16 TiB, its machine, s", "engine": "none", "vanilla": vanilla}
        | {"instructions": ferry, "percent": (ferry / vanilla - 1) * 100}
        for name, vanilla, ferry, _, _ in PUBLISHED
    ]


def _rest(result: Json) -> Grid:
    lines = []
    for case in result["memory_kib"]["ferry"]:
        memories = [result["memory_kib"][name][case] for name in iommu.FLAVOURS]
        cells = (f"{memory['left']:,} KiB, peak {memory['peak']:,}" for memory in memories)
        lines.append((f"left of {result['iova_gib']} GiB: {case.replace('_', ', ')}", *cells))
    for name, _, _, vanilla, ferry in PUBLISHED:
        lines.append((f"published: {name}, 16 TiB", f"{vanilla:,} MiB", f"{ferry:,} MiB"))
    all_speeds = result["smp_pairs_per_ms"]
    for workload in all_speeds.get("ferry", {}):
        speeds = [all_speeds[name][workload] for name in iommu.FLAVOURS]
        spreads = (f"{statistics.median(some):.1f} ({min(some):.1f} to {max(some):.1f})" for some in speeds)
        lines.append((f"4 threads, {workload}: pairs per ms, median (all)", *spreads))
    return Grid("Memory in page tables, and speed with 4 CPUs", ("what", *iommu.FLAVOURS), lines)


def _api(left: Json) -> Grid:
    columns = [(mode, flavour) for mode in iommu.API_MODES for flavour in iommu.FLAVOURS]
    lines = []
    for case in left[iommu.API_MODES[0]]["ferry"]:
        lefts = [left[mode][flavour][case] for mode, flavour in columns]
        load, threads = case.split()
        what = iommu.API_LOADS.get(load, "reads of a disk of 4 KiB to 1 MiB")
        cells = (f"{kib['early']:,}, {kib['late']:,}" for kib in lefts)
        lines.append((f"{what}: {lefts[0]['pairs']:,}", threads, *cells))
    title = "KiB that the DMA API leaves in page tables: after a tenth of a load, after all"
    return Grid(title, ("load", "threads", *(f"{mode}, {flavour}" for mode, flavour in columns)), lines)
