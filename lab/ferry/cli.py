# SPDX-License-Identifier: GPL-2.0
"""The command line: a row of modules, one per subcommand."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Protocol

from ferry.commands import bench, cost, demo, iommu, kernel, lint, server, table, test, vm
from ferry.errors import FerryError


class Command(Protocol):
    """What a module in ferry/commands has. The first line of its docstring is its help."""

    __name__: str
    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


COMMANDS: tuple[Command, ...] = (
    demo,
    bench,
    cost,
    table,
    iommu,
    vm,
    kernel,
    server,
    test,
    lint,
)


def make_parser() -> argparse.ArgumentParser:
    """The parser for all of ./ferry."""
    parser = argparse.ArgumentParser(
        prog="./ferry", description="Move memory between NUMA nodes by copy engines: build, boot, measure."
    )
    table = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        text = (command.__doc__ or "").splitlines()[0]
        sub = table.add_parser(
            command.__name__.rpartition(".")[2], help=text, description=text, allow_abbrev=False
        )
        sub.set_defaults(run=command.run, takes_rest=False)
        command.add_arguments(sub)
    return parser


def _terminated(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str]) -> int:
    """Run one subcommand; the exit code is its own, or that of its error."""
    parser = make_parser()
    args, rest = parser.parse_known_args(argv)
    args.rest = rest
    if rest and not args.takes_rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code: int = args.run(args)
        return code
    except FerryError as err:
        print(f"ferry: {err}", file=sys.stderr)
        return err.exit_code
    except KeyboardInterrupt:
        print("ferry: interrupted; nothing unfinished will be trusted", file=sys.stderr)
        return 128 + signal.SIGINT
