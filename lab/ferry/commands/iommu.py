# SPDX-License-Identifier: GPL-2.0
"""count what freeing empty IOMMU page tables costs, and what is left of them"""

import argparse

from ferry import paths
from ferry.bench import iommu
from ferry.commands import options
from ferry.errors import UsageError
from ferry.results import provenance, report
from ferry.results.compare import Json
from ferry.results.grid import Grid
from ferry.vm import machine

# linux-iommu, "iommu/intel: Free empty page tables on unmaps", 2023-12-21 and 2024-04-26 (v2)
POSTED = Grid(
    "Posted: a pass over 16 TiB through VFIO, before and after",
    ("series", "s", "s after", "MiB left", "MiB left after"),
    (("RFC v1", "22.297", "23.388", "32,783", "0"), ("RFC v2", "36.074", "38.870", "32,847", "27")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--iova", type=int, default=64, metavar="GIB", help="addresses to pass over (default 64)"
    )
    only = parser.add_mutually_exclusive_group()
    options.add_flag(only, "no-smp", "leave out the runs with four CPUs")
    options.add_flag(only, "dma-api", "only what the DMA API leaves behind")
    options.add_measured(parser, "out/iommu.json")


def run(args: argparse.Namespace) -> int:
    """1 if a limit is exceeded."""
    if not 1 <= args.iova <= 16384:
        raise UsageError(f"{args.iova} GiB: choose 1 to 16384")
    if args.dma_api and (args.twice or args.states > 1):
        raise UsageError("--twice and --states are for what is counted: leave out --dma-api")
    output = report.output(args, paths.OUT / "iommu.json")
    found = options.measured(
        args,
        # Wall time has its range in any case, and is never the same twice.
        lambda store, state: iommu.measure(
            args.iova, not (args.no_smp or state or not store), not args.dma_api, store, state
        ),
        lambda found: [*found["costs"], *found["memory"]],
    )
    result = as_json(found, args.iova)
    output.tell(result, *([] if args.dma_api else [POSTED]))
    return 0 if result["passed"] else 1


def as_json(found: Json, iova_gib: int) -> Json:
    """What is counted, with what had four CPUs as tables within it, each with where it comes from."""
    titles = {
        "memory": f"KiB in page tables: {iova_gib} GiB of addresses",
        "speeds": "Maps and unmaps per ms, median (all turns)",
        "dma_api": "KiB that the DMA API leaves in page tables, after a tenth of a load / after all",
    }
    counted, with_four = (
        provenance.of_vms(machine.get(name), iommu.FLAVOURS) for name in ("iommu", "iommu-smp")
    )
    return {
        "provenance": counted,
        "title": "Instructions per map and unmap (icount, 1 CPU)",
        "iova_gib": iova_gib,
        "costs": found["costs"],
        "tables": [
            {"provenance": counted if name == "memory" else with_four, "title": title, "cells": found[name]}
            for name, title in titles.items()
            if found[name]
        ],
        "passed": iommu.passed(found),
    }
