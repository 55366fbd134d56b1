# SPDX-License-Identifier: GPL-2.0
"""go through a first day with Ferry in a Debian guest: install, move a service, measure, remove"""

import argparse
from pathlib import Path
from typing import TextIO

from ferry import paths
from ferry.commands import options
from ferry.errors import UsageError
from ferry.results import grid, present, provenance, report
from ferry.suites import day
from ferry.vm import qemu

LOG, JSON = paths.OUT / "day.log", paths.OUT / "day.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_number(parser, "cpus", 2, "of the guest")
    options.add_kvm(parser)
    parser.add_argument(
        "--debs", type=Path, metavar="DIR",
        help="install the packages of this folder, as make deb leaves them in out/deb (default: make some)",
    )  # fmt: skip
    options.add_json(parser, "out/day.json")
    parser.add_argument(
        "--log", metavar="FILE", help="and all that was typed and said (default: out/day.log)"
    )


def run(args: argparse.Namespace) -> int:
    """The transcript, a table of steps, and JSON; 1 if a step failed."""
    computer = day.guest_machine(args.cpus)
    if args.kvm and not qemu.KVM.exists():
        raise UsageError(f"{qemu.KVM} is missing: leave out --kvm")
    debs = day.packages_in(args.debs) if args.debs else ()
    log, output = Path(args.log or LOG), report.output(args, JSON)
    report.check_writable(log)
    with log.open("w") as file:
        outcomes, kernels = day.run(computer, args.kvm, lambda text: _write(text, file, output), debs)
        origin = provenance.of_vms(computer, (), kvm=args.kvm) | {"booted": kernels}
        result = {"provenance": origin, "title": "A first day", "steps": outcomes}
        for table, _ in present.grids(result):
            grid.show(table, file)
    output.tell(result)
    return 1 if any(outcome["wrong"] for outcome in outcomes) else 0


def _write(text: str, file: TextIO, output: report.Output) -> None:
    """To the user and to the log, at once."""
    if not output.is_stdout:
        print(text, end="", flush=True)
    file.write(text)
    file.flush()
