# SPDX-License-Identifier: GPL-2.0
"""run Linux's own tests of memory management with a copy engine active, beside an unchanged kernel"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ferry.bench import migbench, rows
from ferry.results import provenance, report
from ferry.suites import mmtests

if TYPE_CHECKING:
    from rich.table import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which tests with which engines, and where to put the results."""
    plan = mmtests.Plan()
    parser.add_argument(
        "--test",
        action="append",
        default=[],
        dest="tests",
        metavar="NAME",
        help="this one only; again for more",
    )
    parser.add_argument(
        "--engine", default=",".join(plan.engines), metavar="LIST",
        help=f"of {', '.join(migbench.ENGINES)} (default: {','.join(plan.engines)})",
    )  # fmt: skip
    report.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """1 if something fails with Ferry that does not on the unchanged kernel."""
    plan = mmtests.Plan(tuple(args.tests) or mmtests.TESTS, tuple(args.engine.split(",")))
    plan.check()
    output = report.Output(args.json)
    output.check()
    found, copied = mmtests.run(plan)
    worse = mmtests.worse(found)
    output.write(_as_json(plan, found, copied))
    output.show(_table(plan, found, copied))
    if not output.is_stdout:
        for line in worse:
            print(f"not so on vanilla: {line}")
    return 1 if worse else 0


def _table(plan: mmtests.Plan, found: list[mmtests.Outcome], copied: dict[str, int]) -> Table:
    table = report.new_table("Linux's own tests of mm: verdict, and cases that passed, failed, were skipped")
    table.add_column("test")
    for engine in plan.engines:
        table.add_column(engine)
    for test in plan.tests:
        here = {each.engine: each for each in found if each.test == test}
        table.add_row(test, *(_cell(here[engine]) for engine in plan.engines))
    table.add_section()
    table.add_row("folios that the engine copied", *(f"{copied.get(engine, 0):,}" for engine in plan.engines))
    return table


def _cell(each: mmtests.Outcome) -> str:
    counts = (each.passed, len(each.failed), len(each.skipped))
    words = [each.verdict, " / ".join(map(str, counts)) if any(counts) else ""]
    return "  ".join(filter(None, [*words, f"(try {each.tries})" if each.tries > 1 else ""]))


def _as_json(plan: mmtests.Plan, found: list[mmtests.Outcome], copied: dict[str, int]) -> dict[str, Any]:
    flavours = ["vanilla"] * (rows.VANILLA in plan.engines) + ["ferry"] * (plan.engines != (rows.VANILLA,))
    return {
        "provenance": provenance.of_vms(plan.machine, flavours),
        "tests": [{**asdict(each), "verdict": each.verdict} for each in found],
        "copied": copied,
    }
