# SPDX-License-Identifier: GPL-2.0
"""Arguments that several commands have. Each is said here once, so that it means the same in all of them."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import Any, TypeVar

from ferry.bench import rows
from ferry.errors import UsageError
from ferry.kernel import kbuild
from ferry.progress import note
from ferry.results import compare, provenance
from ferry.results.compare import Json
from ferry.server import profile
from ferry.vm import machine
from ferry.vm.store import Store

# What a command needs of PyPI: lists of packages in lab/. Where it says that this is nothing, as what builds
# kernels and packages does, no environment is made.
RUNS = ("requirements.txt",)
DEVELOPS = (*RUNS, "requirements-dev.txt")

PROFILE = "zen3"
MACHINE = "smp"
MOST_STATES = 32
Plan = TypeVar("Plan")
Result = TypeVar("Result")


def plan(kind: type[Plan], args: argparse.Namespace, **others: Any) -> Plan:
    """A plan, a dataclass, of the arguments that are called as its fields are, and of others."""
    names = [field.name for field in fields(kind) if hasattr(args, field.name)]  # type: ignore[arg-type]
    return kind(**{name: getattr(args, name) for name in names} | others)


def examples(parser: argparse.ArgumentParser, *lines: str) -> None:
    """Let a command's help end with examples, each on a line of its own."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["examples:", *(f"  ./ferry {line}" for line in lines)])


def _several(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def add_list(
    parser: argparse.ArgumentParser, name: str, default: Sequence[str], choices: Sequence[str]
) -> None:
    """Several words with commas between them: --folio and --engine, whose values are folios and engines."""
    parser.add_argument(
        f"--{name}", type=_several, default=tuple(default), metavar="LIST",
        dest=f"{name}s", help=f"of {', '.join(choices)} (default: {','.join(default)})",
    )  # fmt: skip


def add_repeated(
    parser: argparse.ArgumentParser, name: str, dest: str, what: str, metavar: str = "NAME"
) -> None:
    """One that may stand there several times; dest has all its values."""
    parser.add_argument(f"--{name}", action="append", default=[], dest=dest, metavar=metavar, help=what)


def add_flag(parser: argparse._ActionsContainer, name: str, what: str) -> None:
    """One without a value."""
    parser.add_argument(f"--{name}", action="store_true", help=what)


def add_number(parser: argparse.ArgumentParser, name: str, default: int, what: str) -> None:
    """A whole number."""
    told = f"{what} (default: {default})"
    parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=told)


def add_bytes(parser: argparse.ArgumentParser, default: str, what: str) -> None:
    """--bytes, whose value is size: how much is moved."""
    told = f"{what} (default: {default})"
    parser.add_argument("--bytes", dest="size", default=default, metavar="SIZE", help=told)


def add_machine(parser: argparse.ArgumentParser) -> None:
    """--machine, --cpus, --kvm."""
    parser.add_argument("--machine", default=MACHINE, metavar="NAME", help=", ".join(machine.MACHINES))
    parser.add_argument("--cpus", type=int, metavar="N", help="default: what the machine has")
    add_kvm(parser)


def add_kvm(parser: argparse.ArgumentParser) -> None:
    """--kvm of every command that runs guests in wall time."""
    add_flag(parser, "kvm", "use /dev/kvm; default: emulate (TCG)")


def add_kernel(parser: argparse.ArgumentParser, default: str) -> None:
    """--kernel of every command that lets one choose among those of its machines; default: its own choice."""
    choices = [name for name, row in kbuild.FLAVOURS.items() if row.arch is kbuild.X86]
    parser.add_argument(
        "--kernel", default=default, choices=choices, metavar="FLAVOUR",
        help=f"{', '.join(choices)} (default: {default})",
    )  # fmt: skip


def add_profile(parser: argparse.ArgumentParser, default: str | None = PROFILE, what: str = "") -> None:
    """--profile of every command that runs on an emulated server."""
    told = f"{what}{', '.join(profile.names())}" + (f" (default: {default})" if default else "")
    parser.add_argument("--profile", default=default, metavar="NAME", help=told)


def add_one_by_one(parser: argparse.ArgumentParser) -> None:
    """--one-by-one of every command that moves memory in VMs."""
    add_flag(parser, "one-by-one", "with vm.migrate_ranges=0 on Ferry's kernel; for VMs")


def add_json(parser: argparse.ArgumentParser, default: str = "") -> None:
    """--json of every command; default: where it is written unless it is said."""
    where = f" (default: {default})" if default else ""
    parser.add_argument(
        "--json", metavar="FILE", help=f"write JSON to FILE, or to stdout instead of a table (-){where}"
    )


def add_measured(parser: argparse.ArgumentParser, default: str = "") -> None:
    """--states, --json, --anew and --twice of every command that keeps records."""
    parser.add_argument(
        "--states", type=int, default=1, metavar="N",
        help="measure each cell N times, on machines that begin otherwise, and show the range",
    )  # fmt: skip
    add_json(parser, default)
    add_flag(parser, "anew", "measure again what was measured before and has not changed")
    add_flag(parser, "twice", "measure twice what has virtual time; fail unless it is the same")


def check_states(args: argparse.Namespace, wall: str = "") -> None:
    """Raise UsageError if there can be no such states; wall: what has wall time, if anything has."""
    if not 1 <= args.states <= MOST_STATES:
        raise UsageError(f"--states {args.states}: choose 1 to {MOST_STATES}")
    if args.states > 1 and wall:
        raise UsageError(f"--states is for virtual time: wall time, here of {wall}, has a range in any case")


def measured(
    args: argparse.Namespace,
    measure: Callable[[Store | None, int], Result],
    cells: Callable[[Any], list[Json]] = itemgetter(0),
) -> Result:
    """What is measured, of which the store may have a part, in each of --states; the cells of the first have
    the range of all states that have them. With --twice all of it once more, and the cells of both have to be
    the same. Cells are the first of two things that are measured, where cells() does not say otherwise."""
    check_states(args)

    def in_states(store: Store | None) -> Result:
        results = [measure(store, state) for state in range(args.states)]
        states = [{compare.name(cell): cell for cell in cells(result)} for result in results]
        for name, cell in states[0].items():
            cell.update(rows.with_range([state[name] for state in states if name in state]))
        return results[0]

    result = in_states(provenance.store(args.anew))
    if args.twice:
        compare.must_be_same(cells(result), cells(in_states(None)))
        note("two runs the same")
    return result
