# SPDX-License-Identifier: GPL-2.0
"""move memory all the time, and check it, while one class of trouble after the other strikes"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ferry.help import examples
from ferry.progress import note
from ferry.results import provenance, report
from ferry.suites import torture

if TYPE_CHECKING:
    from rich.table import Table

MIB = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What strikes, for how long, and where to put the figures."""
    plan = torture.Plan()
    parser.add_argument(
        "--minutes", type=float, default=plan.minutes, metavar="N",
        help="for each class, half of it with folios unmapped in ranges (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--class",
        action="append",
        default=[],
        dest="classes",
        metavar="NAME",
        help="this one only; again for more",
    )
    parser.add_argument("--kernel", default=plan.flavour, metavar="FLAVOUR", help="default: debug")
    _add_engine_arguments(parser, plan)
    parser.add_argument(
        "--one-boot",
        action="store_true",
        help="all classes in one boot, each way: for a kernel that boots slowly",
    )
    report.add_json_argument(parser)
    examples(
        parser,
        "torture --minutes 5                   # each class of trouble, one after the other",
        "torture --class cpu_hotplug --engine mtcopy",
        "torture --class nothing --ptdma error-at=50,error-every=50,run=sticky,register-ns=3000",
    )


def _add_engine_arguments(parser: argparse.ArgumentParser, plan: torture.Plan) -> None:
    """Which engine moves the memory."""
    parser.add_argument(
        "--engine",
        default=plan.engine,
        metavar="NAME",
        help="cpu, mtcopy, or that of --module; default: dcbm on softdma, which all classes can strike",
    )
    parser.add_argument(
        "--module",
        default=plan.module,
        metavar="FILE",
        help="a .ko with that engine, built against build/kernel-FLAVOUR",
    )
    parser.add_argument(
        "--ptdma",
        action="append",
        default=[],
        metavar="NAME=VALUE,...",
        help="dcbm on a function of the emulated engine with these properties; again for more",
    )
    parser.add_argument(
        "--depth", type=int, default=plan.depth, metavar="N",
        help="for --ptdma: copies at once in the ring of each (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--deadline", type=int, default=plan.deadline_ms, metavar="MS",
        help="deadline_ms, with --engine or --ptdma (default: a patient one, as the host may be busy)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """1 if a class did not pass; one that cannot run here is no failure, but is shown."""
    engine = (args.engine, args.module)
    plan = torture.Plan(
        *(args.minutes, tuple(args.classes), args.kernel, *engine, args.one_boot),
        ptdma=tuple(args.ptdma),
        depth=args.depth,
        deadline_ms=args.deadline,
    )
    plan.check()
    output = report.Output(args.json)
    output.check()

    def tell(outcomes: list[torture.Outcome]) -> None:
        note(f"{outcomes[-1].name}: {outcomes[-1].verdict}")
        # A long campaign may be ended before its end.
        if output.path:
            output.write(_as_json(plan, outcomes))

    found = torture.run(plan, tell)
    output.write(_as_json(plan, found))
    output.show(_table(plan, found))
    if not output.is_stdout:
        for outcome in found:
            for line in (*outcome.mistakes, *outcome.complaints):
                print(f"{outcome.name}: {line}")
    return 1 if any(each.mistakes or each.complaints for each in found) else 0


def _table(plan: torture.Plan, found: list[torture.Outcome]) -> Table:
    table = report.new_table(f"Memory that moves while trouble strikes ({plan.flavour} kernel)")
    table.add_column("class")
    for name in ("s", "folios moved", "by engine", "pages moved", "struck", "MiB verified"):
        table.add_column(name, justify="right")
    for name in ("kind", "refs", "busy", "error", "left", "KiB kept", "complaints"):
        table.add_column(name, justify="right")
    table.add_column("")
    for each in found:
        had = each.figures
        cells = ["-"] * len(torture.FIGURES)
        if had:
            scaled = had | {"bytes": had["bytes"] // MIB, "quarantined": had["quarantined"] // 1024}
            cells = [f"{scaled[name]:,}" for name in torture.FIGURES]
        table.add_row(each.name, *cells, str(len(each.complaints)), each.verdict)
    return table


def _as_json(plan: torture.Plan, found: list[torture.Outcome]) -> dict[str, Any]:
    known = provenance.of_vms(plan.machine, [plan.flavour])
    return {"provenance": known, **torture.as_json(plan, found)}
