# SPDX-License-Identifier: GPL-2.0
"""count where the instructions of a migration go: by step and by kernel function, vanilla beside Ferry"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ferry import files
from ferry.bench import migbench, steps
from ferry.bench.sizes import parse_size
from ferry.commands import options
from ferry.results import picture, present, provenance, report
from ferry.results.grid import Grid

MOST_FUNCTIONS = 12  # are shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to count, and where to put it."""
    plan = steps.Plan()
    options.add_list(parser, "folio", plan.folios, migbench.FOLIOS)
    options.add_list(parser, "engine", plan.engines, steps.ENGINES)
    options.add_number(parser, "channels", plan.channels, "for dcbm")
    options.add_bytes(parser, plan.size, "moved by the call")
    parser.add_argument("--call", default=plan.call, choices=steps.CALLS)
    parser.add_argument("--order", default=plan.order, choices=migbench.ORDERS, help="of addresses")
    options.add_profile(parser)
    options.add_one_by_one(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw the steps to FILE, a PNG")
    options.add_json(parser)
    options.add_anew(parser)


def run(args: argparse.Namespace) -> int:
    """A table of steps, and one of functions for each folio size."""
    plan = options.plan(steps.Plan, args, server=args.profile)
    plan.check()
    output = report.output(args)
    place = Path(args.plot) if args.plot else None
    if place:
        report.check_writable(place)
    breakdowns, kernels = steps.measure(plan, provenance.store(args.anew))
    result = {"provenance": provenance.of_vms(plan.machine, kernels), **as_json(plan, breakdowns)}
    if place:
        files.write_bytes(place, picture.picture(result) or b"")
    functions = [
        _functions(
            f"Instructions per folio of {folio}, by function",
            [breakdown for breakdown in breakdowns if breakdown.folio_kib == parse_size(folio) // 1024],
        )
        for folio in plan.folios
    ]
    output.tell(result, *functions)
    return 0


def as_json(plan: steps.Plan, breakdowns: list[steps.Breakdown]) -> dict[str, Any]:
    """All that was counted."""
    how = f", {plan.order} order" * (plan.order != "up") + ", folios one by one" * plan.one_by_one
    return {
        "title": f"Instructions per folio, by step (icount, 1 CPU{how})",
        "plan": asdict(plan),
        "profiles": [
            {
                "folio_kib": breakdown.folio_kib,
                "engine": breakdown.engine,
                "channels": breakdown.channels,
                "instructions": round(breakdown.total, 1),
                "records": breakdown.records,
                "steps": {step: round(count, 1) for step, count in breakdown.by_step().items()},
                "functions": [
                    {**asdict(count), "instructions": round(count.instructions, 2)}
                    for count in breakdown.counts
                ],
            }
            for breakdown in breakdowns
        ],
    }


def _functions(title: str, breakdowns: list[steps.Breakdown]) -> Grid:
    """The dearest functions, beside each other."""
    columns = [breakdown.by_function() for breakdown in breakdowns]
    dearest: dict[str, float] = {}
    for column in columns:
        for name, count in column.items():
            dearest[name] = max(dearest.get(name, 0.0), count)
    lines = [
        (name, *(f"{column.get(name, 0.0):,.0f}" for column in columns))
        for name in sorted(dearest, key=lambda name: -dearest[name])[:MOST_FUNCTIONS]
    ]
    return Grid(title, ("function", *(present.engine(asdict(breakdown)) for breakdown in breakdowns)), lines)
