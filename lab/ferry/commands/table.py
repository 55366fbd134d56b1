# SPDX-License-Identifier: GPL-2.0
"""repeat a published experiment on the emulated server: a table, JSON, a plot, an HTML report"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from ferry import emulator, paths, profile, report, runner, tablereport, tables
from ferry.errors import FerryError, UsageError
from ferry.progress import elapsed, note

MOST_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which table, where, and how much of it."""
    parser.add_argument("name", metavar="NAME", help=", ".join(tables.TABLES))
    parser.add_argument("--profile", default="zen3", metavar="NAME", help=f"{', '.join(profile.names())}")
    parser.add_argument("--quick", action="store_true", help="fewer cells: minutes instead of half an hour")
    parser.add_argument("--twice", action="store_true", help="measure twice; fail unless all is the same")
    parser.add_argument(
        "--here", action="store_true", help="measure this machine itself, which runs a Ferry kernel; no VM"
    )


def run(args: argparse.Namespace) -> int:
    """Print the table, write out/table-NAME.json, out/table-NAME.png and out/tables.html."""
    table = tables.get(args.name)
    server = profile.load(args.profile)
    if args.twice and (args.here or table.wall_time):
        raise UsageError(
            f"--twice is for virtual time: wall time, here of {table.name}, is never the same twice"
        )
    output = paths.OUT / f"table-{table.name}.json"
    report.check_writable(output)
    begin = time.monotonic()
    result = _measure(table, server, args)
    if args.twice:
        _compare(result, _measure(table, server, args))
    note(f"{table.name}: {elapsed(time.monotonic() - begin)}" + (", two runs the same" * args.twice))
    report.write_json(output, result)
    report.show(tablereport.as_table(result))
    for path in (output, *tablereport.write()):
        print(path)
    return 0


def _compare(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Raise FerryError, naming what differs, unless two results are the same."""
    differ = [
        f"{cell['folio_kib']} KiB, {tablereport.engine(cell)}: {key} {cell.get(key)} and {twin.get(key)}"
        for cell, twin in zip(one["cells"], other["cells"], strict=True)
        for key in cell | twin
        if cell.get(key) != twin.get(key)
    ]
    if differ or one != other:
        shown = "".join(f"\n  {line}" for line in differ[:MOST_SHOWN])
        raise FerryError(
            f"two runs differ in {len(differ)} figures: something in the VM depends on the host{shown}"
        )


def _measure(table: tables.Table, server: profile.Profile, args: argparse.Namespace) -> dict[str, Any]:
    cells = table.cells(tables.published()[table.source], args.quick)
    lacking = [each.channels for each in cells if each.channels > server.dma.channels]
    if args.here:
        found, kernels = runner.here(cells)
        where = {"machine": "this machine", "cpus": os.cpu_count()}
    elif lacking:
        raise UsageError(
            f"table {table.name} needs {max(lacking)} channels, but profile {server.name} has "
            f"{server.dma.channels}: raise dma.channels in server/{server.name}.toml"
        )
    else:
        emulator.build()
        machine = server.as_threads() if table.wall_time else server.as_machine()
        found, kernels = runner.in_vms(cells, machine)
        where = {"machine": server.summary, "qemu": emulator.version(), **server.parameters()}
    return {
        "table": table.name,
        "title": table.title,
        "note": table.note,
        "profile": "here" if args.here else server.name,
        "quick": args.quick,
        "parameters": where,
        "kernels": kernels,
        "source": {
            key: tables.published()[table.source][key] for key in ("title", "author", "link", "machine")
        },
        "cells": [each.as_json() for each in tables.compare(table, found)],
    }
