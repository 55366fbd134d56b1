# SPDX-License-Identifier: GPL-2.0
"""count instructions per moved folio of every caller, vanilla against Ferry: nothing may be dearer"""

import argparse
from typing import Any

from ferry.bench import cost
from ferry.commands import options
from ferry.results import provenance, report
from ferry.results.grid import Grid
from ferry.vm import machine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_flag(parser, "unbatched", "of Ferry's kernel with its batching compiled out")
    options.add_measured(parser)


def run(args: argparse.Namespace) -> int:
    """1 if a limit is exceeded, or a case cannot be counted."""
    output = report.output(args)
    what: dict[str, Any] = {}
    if args.unbatched:
        what = {"cases": cost.UNBATCHED_CASES, "limits": cost.UNBATCHED_LIMITS, "ferry": "unbatched"}
    counted, kernels = options.measured(
        args,
        lambda store, state: cost.measure(**what, store=store, state=state),
        lambda result: result[0]["costs"],
    )
    origin = provenance.of_vms(machine.get(cost.MACHINE), kernels)
    title = "Instructions per moved folio (icount)"
    lost = [(*failure.values(),) for failure in counted["failures"]]
    failures = [Grid("Not counted", ("caller", "kernel", "why"), lost, left=3)] if lost else []
    output.tell({"provenance": origin, "title": title, **counted}, *failures)
    return 0 if cost.passed(counted) else 1
