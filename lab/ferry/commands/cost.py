# SPDX-License-Identifier: GPL-2.0
"""count instructions per moved folio of every caller, vanilla against Ferry: nothing may be dearer"""

import argparse
from typing import Any

from ferry.bench import cost
from ferry.commands import options
from ferry.results import provenance, report
from ferry.results.grid import Grid
from ferry.vm import machine
from ferry.vm.records import Record
from ferry.vm.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_flag(parser, "unbatched", "of Ferry's kernel with its batching compiled out")
    options.add_measured(parser)


def run(args: argparse.Namespace) -> int:
    """1 if a limit is exceeded, or a case cannot be counted."""
    output = report.output(args)
    what: dict[str, Any] = {}
    if args.unbatched:
        what = {"cases": cost.UNBATCHED_CASES, "limits": cost.UNBATCHED_LIMITS, "ferry": "unbatched"}
    failures: list[Record] = []

    def measure(store: Store | None, state: int) -> tuple[Record, dict[str, str]]:
        counted, kernels = cost.measure(**what, store=store, state=state)
        failures.extend(failure for failure in counted["failures"] if failure not in failures)
        return counted, kernels

    counted, kernels = options.measured(args, measure, lambda result: result[0]["costs"])
    counted |= {"failures": failures}  # of all states
    origin = provenance.of_vms(machine.get(cost.MACHINE), kernels)
    title = "Instructions per moved folio (icount)"
    lost = [(*failure.values(),) for failure in failures]
    table = [Grid("Not counted", ("caller", "kernel", "why"), lost, left=3)] if lost else []
    output.tell({"provenance": origin, "title": title, **counted}, *table)
    return 0 if cost.passed(counted) else 1
