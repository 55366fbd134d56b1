# SPDX-License-Identifier: GPL-2.0
"""count instructions per moved folio, vanilla against Ferry: what Ferry costs when it does not help"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ferry.bench import cost
from ferry.results import provenance, report
from ferry.vm import machine

if TYPE_CHECKING:
    from rich.table import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of which kernel, and where to put the figures."""
    parser.add_argument(
        "--unbatched", action="store_true", help="of Ferry's kernel with its batching compiled out"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write JSON to FILE, or to stdout instead of a table (-)"
    )


def run(args: argparse.Namespace) -> int:
    """1 if a limit is exceeded."""
    where = machine.get("icount")
    path = Path(args.json) if args.json and args.json != "-" else None
    if path:
        report.check_writable(path)
    costs, kernels = cost.measure(where, ferry="unbatched" if args.unbatched else "ferry")
    if args.json:
        known = provenance.of_vms(where, kernels)
        found = {"provenance": known, "costs": [each.as_json() for each in costs]}
        report.write_json(path, found)
    if args.json != "-":
        report.show(_table(costs))
    return 0 if all(each.passed for each in costs) else 1


def _table(costs: list[cost.Cost]) -> Table:
    table = report.new_table("Instructions per moved folio (icount, 1 CPU)")
    for name in ("folio", "ferry, active engine"):
        table.add_column(name)
    for name in ("vanilla", "ferry", "difference", "limit"):
        table.add_column(name, justify="right")
    for each in costs:
        table.add_row(
            report.size(each.folio_kib),
            each.engine,
            f"{each.vanilla:,.0f}",
            f"{each.instructions:,.0f}",
            f"{each.percent:+.2f} %",
            f"{each.limit_percent:+.1f} %" + ("" if each.passed else " exceeded"),
        )
    return table
