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
    report.add_anew_argument(parser)


def run(args: argparse.Namespace) -> int:
    """1 if a limit is exceeded, or a case cannot be counted."""
    where = machine.get(cost.MACHINE)
    output = report.Output(args.json)
    output.check()
    store = provenance.store(args.anew)
    if args.unbatched:
        found = cost.measure(cost.UNBATCHED_CASES, cost.UNBATCHED_LIMITS, "unbatched", store)
    else:
        found = cost.measure(store=store)
    known = provenance.of_vms(where, found.kernels)
    output.write({"provenance": known, **found.as_json()})
    output.show(_table(found.costs))
    if found.failures:
        lines = [(each.case, each.kernel, each.why) for each in found.failures]
        output.show(report.grid("Not counted", ("caller", "kernel", "why"), lines, left=3))
    return 0 if found.passed else 1


def _table(costs: list[cost.Cost]) -> Table:
    head = ("caller", "folio", "ferry, active engine", "vanilla", "ferry", "difference", "limit")
    lines = [
        (
            each.case,
            report.size(each.folio_kib),
            each.engine,
            f"{each.vanilla:,.0f}",
            f"{each.instructions:,.0f}",
            f"{each.percent:+.2f} %",
            f"{each.limit_percent:+.1f} %" + ("" if each.passed else " exceeded"),
        )
        for each in costs
    ]
    return report.grid("Instructions per moved folio (icount)", head, lines, left=3)
