# SPDX-License-Identifier: GPL-2.0
"""count where the instructions of a migration go: by step and by kernel function, vanilla beside Ferry"""

import argparse
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

from ferry import files
from ferry.bench import migbench, steps
from ferry.bench.sizes import parse_size
from ferry.commands import options
from ferry.results import picture, present, provenance, report
from ferry.results.compare import Json
from ferry.results.grid import Grid

MOST_FUNCTIONS = 12  # are shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    plan = steps.Plan()
    options.add_list(parser, "folio", plan.folios, steps.FOLIOS)
    options.add_list(parser, "engine", plan.engines, steps.ENGINES)
    options.add_number(parser, "channels", plan.channels, "for dcbm")
    options.add_bytes(parser, plan.size, "moved by the call")
    parser.add_argument("--call", default=plan.call, choices=steps.CALLS)
    parser.add_argument("--order", default=plan.order, choices=migbench.ORDERS, help="of addresses")
    options.add_profile(parser)
    options.add_one_by_one(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw the steps to FILE, a PNG")
    options.add_measured(parser)


def run(args: argparse.Namespace) -> int:
    """A table of steps, and one of functions for each folio size."""
    plan = options.plan(steps.Plan, args, server=args.profile)
    plan.check()
    output = report.output(args)
    place = Path(args.plot) if args.plot else None
    if place:
        report.check_writable(place)
    profiles, kernels = options.measured(
        args, lambda store, state: steps.measure(replace(plan, state=state), store)
    )
    result = {"provenance": provenance.of_vms(plan.machine, kernels), **as_json(plan, profiles)}
    if place:
        files.write_bytes(place, picture.picture(result) or b"")
    functions = [
        _functions(
            f"Instructions per folio of {folio}, by function",
            [profile for profile in profiles if profile["folio_kib"] == parse_size(folio) // 1024],
        )
        for folio in plan.folios
    ]
    output.tell(result, *functions)
    return 0


def as_json(plan: steps.Plan, profiles: list[Json]) -> Json:
    how = f", {plan.order} order" * (plan.order != "up") + ", folios one by one" * plan.one_by_one
    title = f"Instructions per folio, by step (icount, 1 CPU{how})"
    return {"title": title, "plan": asdict(plan), "profiles": profiles}


def _functions(title: str, profiles: list[Json]) -> Grid:
    """The dearest functions, beside each other."""
    columns = [steps.by_function(profile) for profile in profiles]
    counts = {name: [column.get(name, 0.0) for column in columns] for name in chain(*columns)}
    dearest = sorted(counts, key=lambda name: -max(counts[name]))[:MOST_FUNCTIONS]
    lines = [(name, *(f"{count:,.0f}" for count in counts[name])) for name in dearest]
    return Grid(title, ("function", *map(present.engine, profiles)), lines)
