# SPDX-License-Identifier: GPL-2.0
"""count where the instructions of a migration go: by step and by kernel function, vanilla beside Ferry"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferry.bench import migbench, steps
from ferry.bench.sizes import parse_size
from ferry.results import plot, provenance, report
from ferry.server import profile

if TYPE_CHECKING:
    from rich.table import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to count, and where to put it."""
    plan = steps.Plan()
    parser.add_argument("--folio", default="4K", metavar="LIST", help="folio sizes (default: 4K)")
    parser.add_argument(
        "--engine", default=",".join(plan.engines), metavar="LIST",
        help=f"of {', '.join(steps.ENGINES)} (default: {','.join(plan.engines)})",
    )  # fmt: skip
    parser.add_argument("--channels", type=int, default=plan.channels, help="for dcbm (default: 16)")
    parser.add_argument("--bytes", default=plan.size, metavar="SIZE", help="moved by the call (default: 64M)")
    parser.add_argument("--call", default=plan.call, choices=steps.CALLS)
    parser.add_argument("--order", default=plan.order, choices=migbench.ORDERS, help="of addresses")
    parser.add_argument("--profile", default=plan.server, metavar="NAME", help=", ".join(profile.names()))
    parser.add_argument("--one-by-one", action="store_true", help="with vm.migrate_ranges=0")
    parser.add_argument("--functions", type=int, default=12, metavar="N", help="how many to show, default 12")
    parser.add_argument("--plot", metavar="FILE", help="draw the steps to FILE, a PNG")
    report.add_json_argument(parser)
    report.add_anew_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print a table of steps and one of functions per folio size unless JSON goes to stdout."""
    plan = steps.Plan(
        folios=tuple(args.folio.split(",")),
        engines=tuple(args.engine.split(",")),
        channels=args.channels,
        size=args.bytes,
        call=args.call,
        order=args.order,
        server=args.profile,
        one_by_one=args.one_by_one,
    )
    plan.check()
    output = report.Output(args.json)
    output.check()
    picture = Path(args.plot) if args.plot else None
    if picture:
        report.check_writable(picture)
    found, kernels = steps.measure(plan, provenance.store(args.anew))
    result = {"provenance": provenance.of_vms(plan.machine, kernels), **as_json(plan, found)}
    how = f", {plan.order} order" * (plan.order != "up") + ", folios one by one" * plan.one_by_one
    output.write(result)
    if picture:
        plot.steps(result, picture)
    for folio in plan.folios:
        kib = parse_size(folio) // 1024
        here = [each for each in found if each.folio_kib == kib]
        output.show(_steps(folio + how, here), _functions(folio + how, here, args.functions))
    return 0


def as_json(plan: steps.Plan, found: list[steps.Breakdown]) -> dict[str, Any]:
    """All that was counted."""
    return {
        "plan": asdict(plan),
        "profiles": [
            {
                "folio_kib": each.folio_kib,
                "engine": each.engine,
                "channels": each.channels,
                "instructions": round(each.total, 1),
                "records": each.records,
                "steps": {step: round(count, 1) for step, count in each.by_step().items()},
                "functions": [
                    {**asdict(count), "instructions": round(count.instructions, 2)} for count in each.counts
                ],
            }
            for each in found
        ],
    }


def _table(title: str, first: str, found: list[steps.Breakdown]) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for each in found:
        table.add_column(f"{each.engine} x{each.channels}" if each.channels else each.engine, justify="right")
    return table


def _steps(folio: str, found: list[steps.Breakdown]) -> Table:
    table = _table(f"Instructions per folio of {folio}, by step (icount, 1 CPU)", "step", found)
    columns = [each.by_step() for each in found]
    for step in steps.STEPS:
        if any(column[step] >= 1 for column in columns):
            table.add_row(step, *(f"{column[step]:,.0f}" for column in columns))
    table.add_section()
    table.add_row("all", *(f"{each.total:,.0f}" for each in found))
    return table


def _functions(folio: str, found: list[steps.Breakdown], most: int) -> Table:
    table = _table(f"Instructions per folio of {folio}, by function", "function", found)
    columns = [each.by_function() for each in found]
    dearest: dict[str, float] = {}
    for column in columns:
        for name, count in column.items():
            dearest[name] = max(dearest.get(name, 0.0), count)
    for name in sorted(dearest, key=lambda name: -dearest[name])[:most]:
        table.add_row(name, *(f"{column.get(name, 0.0):,.0f}" for column in columns))
    return table
