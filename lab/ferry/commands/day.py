# SPDX-License-Identifier: GPL-2.0
"""go through a first day with Ferry in a Debian guest: install, move a service, measure, remove"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ferry import paths
from ferry.errors import UsageError
from ferry.progress import elapsed
from ferry.results import provenance, report
from ferry.suites import day
from ferry.vm import qemu

if TYPE_CHECKING:
    from rich.table import Table

LOG, JSON = paths.OUT / "day.log", paths.OUT / "day.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The guest, and where to write."""
    parser.add_argument("--cpus", type=int, default=2, metavar="N", help="of the guest (default: 2)")
    parser.add_argument("--kvm", action="store_true", help="use /dev/kvm; default: emulate (TCG)")
    parser.add_argument(
        "--debs", type=Path, metavar="DIR",
        help="install the packages of this folder, as make deb leaves them in out/deb (default: make some)",
    )  # fmt: skip
    report.add_json_argument(parser, "out/day.json")
    parser.add_argument(
        "--log", metavar="FILE", help="and all that was typed and said (default: out/day.log)"
    )


def run(args: argparse.Namespace) -> int:
    """The transcript, a table of steps, and JSON; 1 if a step failed."""
    where = day.where(args.cpus)
    if args.kvm and not qemu.KVM.exists():
        raise UsageError(f"{qemu.KVM} is missing: leave out --kvm")
    made = day.given(args.debs) if args.debs else ()
    log, output = Path(args.log or LOG), report.Output(args.json or str(JSON))
    report.check_writable(log)
    output.check()
    with log.open("w") as file:
        outcomes, kernels = day.run(where, args.kvm, lambda text: _write(text, file, output), made)
        table = _table(outcomes)
        report.show(table, file)
    output.show(table)
    known = provenance.of_vms(where, (), kvm=args.kvm) | {"booted": kernels}
    output.write({"provenance": known, "steps": [asdict(each) for each in outcomes]})
    return 1 if any(each.wrong for each in outcomes) else 0


def _write(text: str, file: TextIO, output: report.Output) -> None:
    """To the user and to the log, at once."""
    if not output.is_stdout:
        print(text, end="", flush=True)
    file.write(text)
    file.flush()


def _table(outcomes: list[day.Outcome]) -> Table:
    table = report.new_table("A first day")
    table.add_column("step")
    table.add_column("time", justify="right")
    table.add_column("passed")
    for each in outcomes:
        table.add_row(each.step, elapsed(each.seconds), f"no: {each.wrong}" if each.wrong else "yes")
    return table
