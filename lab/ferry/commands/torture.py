# SPDX-License-Identifier: GPL-2.0
"""move memory all the time, and check it, while one class of trouble after the other strikes"""

import argparse
from typing import Any

from ferry.commands import options
from ferry.progress import note
from ferry.results import provenance, report
from ferry.server import profile
from ferry.suites import torture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    plan = torture.Plan()
    parser.add_argument(
        "--minutes", type=float, default=plan.minutes, metavar="N",
        help="for each class, half of it with folios unmapped in ranges (default: 1)",
    )  # fmt: skip
    options.add_repeated(parser, "class", "classes", "this one only; again for more")
    options.add_kernel(parser, plan.flavour)
    _add_engine_arguments(parser, plan)
    options.add_flag(parser, "one-boot", "all classes in one boot, each way: for a kernel that boots slowly")
    options.add_json(parser)
    options.examples(
        parser,
        "torture --minutes 5                   # each class of trouble, one after the other",
        "torture --class cpu_hotplug --engine mtcopy",
        "torture --class nothing --dsa error-at=50,error-every=50 --dsa lose-irq-at=9",
        "torture --class nothing --ptdma error-at=50,error-every=50,run=sticky,register-ns=3000",
    )


def _add_engine_arguments(parser: argparse.ArgumentParser, plan: torture.Plan) -> None:
    parser.add_argument(
        "--engine", default=plan.engine, metavar="NAME",
        help="cpu, mtcopy, or that of --module; default: dcbm on softdma, which all classes can strike",
    )  # fmt: skip
    parser.add_argument(
        "--module", default=plan.module, metavar="FILE",
        help="a .ko with that engine, built against build/BASE/kernel-FLAVOUR",
    )  # fmt: skip
    what = "dcbm on a {} of the emulated {} with these properties; again for more"
    for name, part in (("ptdma", "function"), ("ioat", "function"), ("dsa", "device")):
        options.add_repeated(parser, name, name, what.format(part, name.upper()), "NAME=VALUE,...")
    options.add_number(parser, "depth", plan.depth, "for --ptdma: copies at once in the ring of each")
    parser.add_argument(
        "--deadline", type=int, default=plan.deadline_ms, metavar="MS",
        help="deadline_ms, with --engine or a modelled one (default: a patient one, as the host may be busy)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """1 if a class did not pass; one that cannot run here is no failure, but is shown."""
    lists = {"classes": tuple(args.classes)}
    lists |= {name: tuple(getattr(args, name)) for name in profile.ENGINES}
    plan = options.plan(torture.Plan, args, flavour=args.kernel, deadline_ms=args.deadline, **lists)
    plan.check()
    output = report.output(args)

    title = f"Memory that moves while trouble strikes ({plan.flavour} kernel)"

    def result(outcomes: list[torture.Outcome]) -> dict[str, Any]:
        origin = provenance.of_vms(plan.machine, [plan.flavour])
        return {"provenance": origin, "title": title, **torture.as_json(plan, outcomes)}

    def tell(outcomes: list[torture.Outcome]) -> None:
        note(f"{outcomes[-1].name}: {outcomes[-1].verdict}")
        # A long campaign may be ended before its end.
        if output.path:
            output.write(result(outcomes))

    outcomes = torture.run(plan, tell, provenance.store())
    output.tell(result(outcomes))
    wrong = [
        f"{outcome.name}: {line}" for outcome in outcomes for line in (*outcome.mistakes, *outcome.complaints)
    ]
    for line in wrong:
        note(line)
    return 1 if wrong else 0
