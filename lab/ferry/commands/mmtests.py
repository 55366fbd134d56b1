# SPDX-License-Identifier: GPL-2.0
"""run Linux's own tests of memory management with a copy engine active, beside an unchanged kernel"""

import argparse

from ferry.bench import migbench, rows
from ferry.commands import options
from ferry.progress import note
from ferry.results import provenance, report
from ferry.suites import mmtests


def add_arguments(parser: argparse.ArgumentParser) -> None:
    plan = mmtests.Plan()
    options.add_repeated(parser, "test", "tests", "this one only; again for more")
    options.add_list(parser, "engine", plan.engines, migbench.ENGINES)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """1 if something fails with Ferry that does not on the unchanged kernel."""
    plan = mmtests.Plan(tuple(args.tests) or mmtests.TESTS, args.engines)
    plan.check()
    output = report.output(args)
    outcomes, copied = mmtests.run(plan, provenance.store())
    worse = mmtests.worse(outcomes)
    flavours = ["vanilla"] * (rows.VANILLA in plan.engines) + ["ferry"] * (plan.engines != (rows.VANILLA,))
    output.tell(
        {
            "provenance": provenance.of_vms(plan.machine, flavours),
            "title": "Linux's own tests of mm, and how many of their cases passed, failed, were skipped",
            "tests": outcomes,
            "copied": copied,
        }
    )
    for engine, folios in copied.items():
        note(f"{engine} copied {folios:,} folios")
    for line in worse:
        note(f"not so on vanilla: {line}")
    return 1 if worse else 0
