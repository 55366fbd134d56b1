# SPDX-License-Identifier: GPL-2.0
"""count what freeing empty IOMMU page tables costs, and what is left of them"""

from __future__ import annotations

import argparse
import statistics
from typing import TYPE_CHECKING

from ferry import paths
from ferry.bench import iommu
from ferry.errors import UsageError
from ferry.results import provenance, report
from ferry.vm import machine

if TYPE_CHECKING:
    from rich.table import Table

# What was posted for a pass over 16 TiB: seconds and MiB left, before and after.
# linux-iommu, "iommu/intel: Free empty page tables on unmaps", 2023-12-21 and 2024-04-26 (v2)
PUBLISHED = (("RFC v1", 22.297, 23.388, 32783, 0), ("RFC v2", 36.074, 38.870, 32847, 27))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How far the pass goes, and where to put the figures."""
    parser.add_argument(
        "--iova", type=int, default=64, metavar="GIB", help="addresses to pass over (default 64)"
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--no-smp", action="store_true", help="leave out the runs with four CPUs")
    only.add_argument("--dma-api", action="store_true", help="only what the DMA API leaves behind")
    report.add_json_argument(parser, "out/iommu.json")
    report.add_anew_argument(parser)


def run(args: argparse.Namespace) -> int:
    """1 if a limit is exceeded."""
    if not 1 <= args.iova <= 16384:
        raise UsageError(f"{args.iova} GiB: choose 1 to 16384")
    output = report.Output(args.json or str(paths.OUT / "iommu.json"))
    output.check()
    result = iommu.measure(args.iova, not args.no_smp, not args.dma_api, provenance.store(args.anew))
    used = [machine.get(name) for name in ("iommu", "iommu-smp")]
    known = {where.name: provenance.of_vms(where, iommu.FLAVOURS) for where in used}
    output.write({"provenance": known, **result.as_json()})
    if not args.dma_api:
        output.show(_counts(result), _rest(result))
    if result.api:
        output.show(_api(result))
    return 0 if result.passed else 1


def _counts(result: iommu.Result) -> Table:
    table = report.new_table("Instructions per map and unmap (icount, 1 CPU)")
    table.add_column("loop")
    for name in ("vanilla", "ferry", "difference", "limit"):
        table.add_column(name, justify="right")
    for count in result.counts:
        limit = f"{count.loop.limit_percent:+.1f} %"
        limit += "" if count.passed else " exceeded"
        row = (f"{count.vanilla:,.0f}", f"{count.ferry:,.0f}", f"{count.percent:+.2f} %", limit)
        table.add_row(count.loop.what, *row)
    for name, base, fix, _, _ in PUBLISHED:
        times = (f"{base:.1f} s", f"{fix:.1f} s", f"{(fix / base - 1) * 100:+.1f} %")
        table.add_row(f"published: {name}, VFIO, 16 TiB, its machine", *times, "")
    return table


def _rest(result: iommu.Result) -> Table:
    table = report.new_table("Memory in page tables, and speed with 4 CPUs")
    table.add_column("what")
    for name in ("vanilla", "ferry"):
        table.add_column(name, justify="right")
    for case in result.memory["ferry"]:
        found = [result.memory[name][case] for name in iommu.FLAVOURS]
        cells = (f"{memory.left:,} KiB, peak {memory.peak:,}" for memory in found)
        table.add_row(f"left of {result.iova_gib} GiB: {case.replace('_', ', ')}", *cells)
    for name, _, _, base, fix in PUBLISHED:
        table.add_row(f"published: {name}, 16 TiB", f"{base:,} MiB", f"{fix:,} MiB")
    for workload in result.smp.get("ferry", {}):
        speeds = (_spread(result.smp[name][workload]) for name in iommu.FLAVOURS)
        table.add_row(f"4 threads, {workload}: pairs per ms, median (all)", *speeds)
    return table


def _api(result: iommu.Result) -> Table:
    table = report.new_table("KiB that the DMA API leaves in page tables: after a tenth of a load, after all")
    for name in ("load", "threads"):
        table.add_column(name)
    columns = [(mode, flavour) for mode in iommu.API_MODES for flavour in iommu.FLAVOURS]
    for mode, flavour in columns:
        table.add_column(f"{mode}, {flavour}", justify="right")
    for case in result.api[iommu.API_MODES[0]]["ferry"]:
        found = [result.api[mode][flavour][case] for mode, flavour in columns]
        load, threads = case.split()
        cells = (f"{left.early:,}, {left.late:,}" for left in found)
        what = iommu.API_LOADS.get(load, "reads of a disk of 4 KiB to 1 MiB")
        table.add_row(f"{what}: {found[0].pairs:,}", threads, *cells)
    return table


def _spread(speeds: list[float]) -> str:
    return f"{statistics.median(speeds):.1f} ({min(speeds):.1f} to {max(speeds):.1f})"
