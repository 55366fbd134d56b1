# SPDX-License-Identifier: GPL-2.0
"""show what differs between two results: kernels, hosts, cells and figures; 1 if a figure does"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ferry.commands import options
from ferry.errors import UsageError
from ferry.progress import note
from ferry.results import compare, report
from ferry.results.grid import Grid


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="A", type=Path, help="a result, as --json writes it")
    parser.add_argument("second", metavar="B", type=Path, help="another one, of the same command")
    parser.add_argument(
        "--within", type=float, default=0.0, metavar="PERCENT", help="pass over what differs by less"
    )
    options.add_json(parser)
    options.examples(
        parser,
        "compare docs/results/no-engine.json out/no-engine.json",
        "compare --within 0.5 docs/results/table-v5-batch.json out/table-v5-batch.json",
    )


def run(args: argparse.Namespace) -> int:
    """Tables of what differs; like diff, 1 if something does."""
    if not args.within >= 0:
        raise UsageError(f"--within {args.within:g}: choose 0 percent or more")
    output = report.output(args)
    first, second = _load(args.first), _load(args.second)
    cells = compare.cells(first), compare.cells(second)
    both = len(cells[0]) - len(compare.only(*cells))
    if not both:
        raise UsageError(f"{args.first} and {args.second} have no cell in common: are they of one command?")
    differences = [
        difference
        for difference in compare.differences(*cells)
        if difference.percent is None or abs(difference.percent) > args.within
    ]
    alone = {"A": compare.only(*cells), "B": compare.only(*reversed(cells))}
    origins = compare.origins(first, second)
    tables = [Grid("Where they come from", ("", "A", "B"), origins)]
    if differences:
        tables.append(Grid("Figures", ("cell", "figure", "A", "B", ""), _rows(differences), left=2))
    output.write(
        {
            "provenance": [dict(zip(("what", "a", "b"), origin, strict=True)) for origin in origins],
            "cells": both,
            "only": alone,
            "differences": [asdict(difference) for difference in differences],
        }
    )
    output.show({}, *tables)
    extra = "".join(f"; only {name} has {len(names)} more" for name, names in alone.items() if names)
    told = f"{both} cells that both have: {len(differences)} figures differ{extra}"
    note(f"{args.first} (A), {args.second} (B): {told}")
    return 1 if differences or any(alone.values()) else 0


def _load(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_text())
    except (OSError, ValueError) as err:
        raise UsageError(f"{path} is no result: {err}") from err
    try:
        named = [compare.name(cell) for cell in compare.cells(result)]
    except (AttributeError, TypeError):
        named = []
    if not named:
        raise UsageError(f"{path} is no result: it has no cells, as what --json writes does")
    return dict(result)


def _rows(differences: list[compare.Difference]) -> list[tuple[str, ...]]:
    shown, before = [], ""
    for difference in differences:
        percent = "" if difference.percent is None else f"{difference.percent:+.2f} %"
        values = ("-" if value is None else f"{value:,.6g}" for value in (difference.a, difference.b))
        shown.append(
            (difference.cell if difference.cell != before else "", difference.figure, *values, percent)
        )
        before = difference.cell
    return shown
