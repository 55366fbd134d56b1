# SPDX-License-Identifier: GPL-2.0
"""count instructions per moved folio of every caller, vanilla against Ferry: nothing may be dearer"""

from __future__ import annotations

import argparse
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
    report.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """1 if a limit is exceeded, or a case cannot be counted."""
    where = machine.get(cost.MACHINE)
    output = report.Output(args.json)
    output.check()
    if args.unbatched:
        found = cost.measure(cost.UNBATCHED_CASES, cost.UNBATCHED_LIMITS, "unbatched")
    else:
        found = cost.measure()
    known = provenance.of_vms(where, found.kernels)
    output.write({"provenance": known, **found.as_json()})
    output.show(_table(found.costs), *([_failures(found.failures)] if found.failures else []))
    return 0 if found.passed else 1


def _failures(failures: list[cost.Failure]) -> Table:
    from rich.text import Text

    table = report.new_table("Not counted")
    for name in ("caller", "kernel", "why"):
        table.add_column(name)
    for each in failures:
        table.add_row(each.case, each.kernel, Text(each.why))
    return table


def _table(costs: list[cost.Cost]) -> Table:
    table = report.new_table("Instructions per moved folio (icount)")
    for name in ("caller", "folio", "ferry, active engine"):
        table.add_column(name)
    for name in ("vanilla", "ferry", "difference", "limit"):
        table.add_column(name, justify="right")
    for each in costs:
        table.add_row(
            each.case,
            report.size(each.folio_kib),
            each.engine,
            f"{each.vanilla:,.0f}",
            f"{each.instructions:,.0f}",
            f"{each.percent:+.2f} %",
            f"{each.limit_percent:+.1f} %" + ("" if each.passed else " exceeded"),
        )
    return table
