# SPDX-License-Identifier: GPL-2.0
"""move a running redis-server on the emulated server: what its clients notice, counted"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ferry import paths
from ferry.bench import clients
from ferry.errors import UsageError
from ferry.results import provenance, report
from ferry.server import profile
from ferry.vm import emulator

if TYPE_CHECKING:
    from rich.table import Table


PROFILE = "zen3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which servers, which engines, and where to put the figures."""
    parser.add_argument("--profile", default=PROFILE, choices=profile.names(), help=f"default: {PROFILE}")
    parser.add_argument(
        "--folio", default=",".join(clients.FOLIOS), metavar="LIST",
        help="of 4K, THP (default: both)",
    )  # fmt: skip
    parser.add_argument(
        "--engine", default=",".join(clients.ENGINES), metavar="LIST",
        help=f"of {', '.join(clients.ENGINES)} (default: all)",
    )  # fmt: skip
    report.add_json_argument(parser, "out/redis.json, or redis-NAME for another profile, -part for fewer")
    report.add_anew_argument(parser)


def run(args: argparse.Namespace) -> int:
    """A table, and JSON."""
    folios = _chosen("--folio", args.folio, clients.FOLIOS)
    engines = _chosen("--engine", args.engine, clients.ENGINES)
    part = "" if args.profile == PROFILE else f"-{args.profile}"
    part += "" if len(folios) * len(engines) == len(clients.FOLIOS) * len(clients.ENGINES) else "-part"
    output = report.Output(args.json or str(paths.OUT / f"redis{part}.json"))
    output.check()
    plan = clients.Plan()
    emulator.build()
    where = profile.load(args.profile).as_machine()
    cells = [clients.Cell(folio, engine) for folio in folios for engine in engines]
    found, kernels = clients.measure(plan, where, cells, provenance.store(args.anew))
    result = {
        "provenance": provenance.of_vms(where, kernels),
        "profile": args.profile,
        "requests": plan.requests,
        "cells": [each.as_json(plan) for each in found],
    }
    output.write(result)
    output.show(_table(found, plan))
    return 0


def _chosen(option: str, text: str, known: tuple[str, ...]) -> list[str]:
    words = text.split(",")
    for word in words:
        if word not in known:
            raise UsageError(f"{option} {text}: '{word}' is none of {', '.join(known)}")
    return words


def _table(found: list[clients.Found], plan: clients.Plan) -> Table:
    what = f"moved {2 * plan.trips} times: {plan.requests:,} requests, virtual time"
    table = report.new_table(f"redis-server under load on one CPU, {what}")
    for name in ("pages", "engine"):
        table.add_column(name)
    for name in ("requests/s", "lost by a move, ms", "median, ms", "99th, ms", "longest, ms", "a move, ms"):
        table.add_column(name, justify="right")
    for each in found:
        load = (f"{ms:.3f}" for ms in (each.moved.median_ms, each.moved.p99_ms, each.moved.longest_ms))
        rate, lost = f"{each.moved.per_second:,.0f}", f"{each.lost_ms(plan.requests):.1f}"
        mean = sum(move.us for move in each.moves) / len(each.moves) / 1e3
        table.add_row(each.cell.folio, each.cell.engine, rate, lost, *load, f"{mean:.1f}")
    return table
