# SPDX-License-Identifier: GPL-2.0
"""The command line: each command with its arguments, and what a value must be."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

import ferryctl_tune as tune
from ferryctl_conf import CONF
from ferryctl_machine import MODULES, NONE
from ferryctl_settings import SETTINGS, UNITS


def _number(least: int, most: int, why: str = "") -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is no whole number from {least} to {most}{why}")
        return int(text)

    return parse


def _real(least: float, most: float, unit: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is no number of {unit} from {least:g} to {most:g}")
        return value

    return parse


def _rate(text: str) -> int:
    found = re.fullmatch(r"([1-9]\d*)([KMG]?)", text)
    if not found or int(found[1]) * UNITS[found[2]] < 1 << 20:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no rate: bytes per second, at least 1M, as in 500M or 2G"
        )
    return int(found[1]) * UNITS[found[2]]


_rounds = _number(3, 1000, ": with fewer nobody knows by how much they differ")
_node = _number(0, 1023)


def make_parser(version: str) -> argparse.ArgumentParser:
    """The commands."""
    parser = argparse.ArgumentParser(
        prog="ferryctl",
        description="See and choose what copies the memory that Linux moves between NUMA nodes."
        " Without a command: status.",
    )
    parser.add_argument("--version", action="version", version=f"ferryctl {version}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="for programs")
    save = argparse.ArgumentParser(add_help=False)
    save.add_argument("--save", action="store_true", help=f"also in /{CONF}, for the next boot")
    verbs = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)

    def verb(name: str, text: str, *more: Any) -> Any:
        return verbs.add_parser(name, help=text, description=text, parents=[common, *more])

    verb("status", "kernel, engine, channels, settings and what they mean, counters")
    verb(
        "check", "one line: well, or what is wrong and what to do; exit status 0, 1 degraded, 3 no Ferry"
    ).add_argument(
        "--next-boot", action="store_true", help="only whether the kernel that boots next has Ferry"
    )
    _watch(verb("watch", "what moves now: GB/s by engine, what was left to Linux, inaccessible time"))
    _metrics(verb("metrics", "all counters as OpenMetrics text, for node_exporter"))
    verb("engines", "the DMA devices of this machine: whether dcbm can use each, and what it takes")
    verb("causes", "why an engine does not copy something, and what to do about it")
    verb("use", "let an engine copy; none: Linux as it always was", save).add_argument(
        "engine", metavar="ENGINE", help=f"{NONE}, cpu, {', '.join(MODULES)}, or another that is loaded"
    )
    verb("set", "change settings, all or none", save).add_argument(
        "settings", nargs="+", metavar="NAME=VALUE", help=f"{', '.join(SETTINGS)}; bytes also as in 1M"
    )
    _move(verb("move", "move the memory of a process or of a cgroup to a node, at a pace"))
    _tune(verb("tune", "measure the engines of this machine, and say which to choose"))
    verb("apply", f"do what /{CONF} says; done at boot by ferry.service").add_argument(
        "--wait", type=_real(0, 600, "seconds"), default=0.0, metavar="S",
        help="so long for the engine's device to come (default: 0)",
    )  # fmt: skip
    verb("reset", "no engine, and every setting the kernel's own choice", save)
    return parser


def _watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval", type=_real(0.01, 3600, "seconds"), default=1.0, metavar="S", help="seconds (default: 1)"
    )
    parser.add_argument(
        "--count", type=_number(0, 10**9), metavar="N", help="end after N intervals (default: never)"
    )


def _metrics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", metavar="FILE", help="write it there, in one step (default: print it)")


def _move(parser: argparse.ArgumentParser) -> None:
    whom = parser.add_mutually_exclusive_group(required=True)
    whom.add_argument("--pid", type=_number(1, 1 << 22), metavar="N", help="a process")
    whom.add_argument("--cgroup", metavar="PATH", help="all processes of a cgroup v2 and of those below it")
    parser.add_argument("--to", type=_node, required=True, dest="node_to", metavar="NODE", help="where to")
    parser.add_argument(
        "--from", type=_node, dest="node_from", metavar="NODE", help="only what is there (default: any other)"
    )
    parser.add_argument(
        "--max-ms", type=_real(0.1, 10000, "milliseconds"), default=20.0, metavar="MS",
        help="aim at so long a call, which decides how much each moves (default: 20)",
    )  # fmt: skip
    parser.add_argument("--rate", type=_rate, metavar="BYTES", help="no more in a second, as in 500M")
    parser.add_argument("--shared", action="store_true", help="also pages that other processes have (root)")


def _tune(parser: argparse.ArgumentParser) -> None:
    plan = tune.Plan()
    parser.add_argument("--yes", action="store_true", help="consent; else it is asked for")
    parser.add_argument("--write", action="store_true", help=f"write what is recommended into /{CONF}")
    parser.add_argument("--engines-only", action="store_true", help="leave the settings as they are")
    parser.add_argument("--engine", metavar="E,...", help="compare these with none (default: all)")
    parser.add_argument(
        "--folio", default=",".join(plan.folios), metavar="SIZE,...", help="default: 4K,64K,2M"
    )
    parser.add_argument("--bytes", default=plan.size, metavar="SIZE", help="of each move (default: 64M)")
    parser.add_argument("--rounds", type=_rounds, default=plan.rounds, metavar="N", help="default: 5")
    parser.add_argument("--from", type=_node, dest="node_from", metavar="NODE", help="default: the first")
    parser.add_argument("--to", type=_node, dest="node_to", metavar="NODE", help="default: the second")
    parser.add_argument("--target-us", type=_number(0, 10**6), metavar="US", help="default: as it is set")
