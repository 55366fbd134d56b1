# SPDX-License-Identifier: GPL-2.0
"""repeat a published experiment on the emulated server: a table, JSON, a plot, an HTML report"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ferry import paths
from ferry.bench import rows
from ferry.bench.cell import Cell
from ferry.commands import options
from ferry.errors import UsageError
from ferry.progress import elapsed, note
from ferry.results import compare, page, present, provenance, report
from ferry.server import profile
from ferry.tables import experiments, here, runner
from ferry.vm.machine import Machine
from ferry.vm.store import Store

ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=f"{', '.join(experiments.TABLES)}, or {ALL}")
    usual = {table.name: table.profile for table in experiments.TABLES.values()}
    others = [f"{profile} for {name}" for name, profile in usual.items() if profile != options.PROFILE]
    options.add_profile(parser, None, f"default: {', '.join([*others, options.PROFILE])}; ")
    options.add_flag(parser, "quick", "fewer cells: minutes instead of half an hour")
    options.add_flag(parser, "here", "measure this machine itself, which runs a Ferry kernel; no VM")
    options.add_one_by_one(parser)
    options.add_measured(parser)
    options.examples(
        parser,
        "table v5-throughput --quick --twice   # a part of it; not one digit may differ",
        "table sensitivity --states 3          # where the gain ends, from three starts of the machine",
        "table mtcopy --here                   # on this machine, which runs a kernel with Ferry",
    )


def run(args: argparse.Namespace) -> int:
    """Print each table and write it into out/, with a plot; then the page with all of them."""
    tables = list(experiments.TABLES.values()) if args.name == ALL else [experiments.get(args.name)]
    servers = [profile.load(args.profile or table.profile) for table in tables]
    wall = [table.name for table in tables if args.here or table.wall_time]
    _check(args, wall, all_wall=len(wall) == len(tables))
    if args.here:
        here.check()
    output = report.output(args)
    for table, server in zip(tables, servers, strict=True):
        report.check_writable(place(_about(table, server, args)))
    results = [
        _run_table(table, server, args, twice=args.twice and table.name not in wall)
        for table, server in zip(tables, servers, strict=True)
    ]
    if args.twice and wall:
        note(f"not compared: {', '.join(wall)}: wall time is never the same twice")
    output.write(results[0] if args.name != ALL else {"tables": results})
    if not output.is_stdout:
        for written in (*map(place, results), *page.write()):
            print(written)
    return 0


def place(result: dict[str, Any]) -> Path:
    """The file of a result: another machine's, or a part of the cells, never replaces the table itself."""
    usual = experiments.get(result["table"]).profile
    profile = "" if result["profile"] == usual else f"-{result['profile']}"
    return paths.OUT / f"table-{result['table']}{profile}{'-quick' if result['quick'] else ''}.json"


def _check(args: argparse.Namespace, wall: list[str], all_wall: bool) -> None:
    """Raise UsageError for what cannot be asked of wall time, or of this machine."""
    if args.twice and all_wall:
        raise UsageError(
            f"--twice is for virtual time: wall time, here of {wall[0]}, is never the same twice"
        )
    options.check_states(args, *wall[:1])
    if args.here and args.one_by_one:
        raise UsageError("--one-by-one is for VMs: here, say 'sysctl vm.migrate_ranges=0' before")


def _run_table(
    table: experiments.Table, server: profile.Profile, args: argparse.Namespace, twice: bool
) -> dict[str, Any]:
    """Measure a table, keep it, and show it."""
    begin = time.monotonic()
    result = _measure(table, server, args, provenance.store(args.anew))
    if twice:
        compare.must_be_same(result["cells"], _measure(table, server, args, None)["cells"])
    note(f"{table.name}: {elapsed(time.monotonic() - begin)}" + (", two runs the same" * twice))
    report.write_json(place(result), result)
    report.Output(args.json).show(result)
    note(f"{table.name}: {result['note'].strip()}")
    for kind, misfits in present.residuals(result["cells"]).items():
        note(f"{table.name}: {kind}: {misfits}")
    for lacking in result["missing"]:
        note(f"not measured: {lacking}")
    return result


def _about(table: experiments.Table, server: profile.Profile, args: argparse.Namespace) -> dict[str, Any]:
    """What a result says beside its figures."""
    foreign = not args.here and server.name not in (table.profile, experiments.FITTED_SERVER)
    return {
        "table": table.name,
        "title": table.title,
        "note": table.note + f" Nobody has posted figures of {server.name}: there are none here." * foreign,
        "profile": experiments.HERE
        if args.here
        else server.name + (experiments.ONE_BY_ONE if args.one_by_one else ""),
        "quick": args.quick,
        "states": args.states,
        "source": {
            key: table.posted_figures[key] for key in ("title", "author", "link", "machine") if table.source
        },
    }


def _measure(
    table: experiments.Table, server: profile.Profile, args: argparse.Namespace, store: Store | None
) -> dict[str, Any]:
    as_posted = server.name == experiments.FITTED_SERVER and not args.here and not args.one_by_one
    scale = experiments.Scale(args.quick, args.here, as_posted, server.engine)
    cells = table.cells(table.posted_figures, scale)
    if args.here:
        (measured, missing), origin = here.measure(cells), provenance.of_here()
    else:
        cells, missing = _on_channels(table, cells, server)

        def booted(computer: Machine) -> Machine:
            return computer.one_by_one() if args.one_by_one else computer

        machine = booted(server.as_threads() if table.wall_time else server.as_machine())
        varied = {
            cell.varied: booted(server.varied(*cell.varied).as_machine()) for cell in cells if cell.varied
        }
        all_cells = [replace(cell, state=state) for state in range(args.states) for cell in cells]
        measured, kernels = runner.in_vms(all_cells, machine, varied, store)
        origin = provenance.of_vms(machine, kernels) | {"server": server.summary, **server.parameters()}
    count = len(measured) // args.states
    by_state = [
        experiments.compare(table, measured[at : at + count], experiments.HERE if args.here else server.name)
        for at in range(0, len(measured), count)
    ]
    compared = [rows.with_range(same) for same in zip(*by_state, strict=True)]
    return {
        **_about(table, server, args),
        "provenance": origin,
        "missing": missing,
        "cells": [here.named(cell) for cell in compared] if args.here else compared,
    }


def _on_channels(
    table: experiments.Table, cells: list[Cell], server: profile.Profile
) -> tuple[list[Cell], list[str]]:
    """The cells that a server has channels for, and what it has not. Raises UsageError if it has none."""
    possible = [cell for cell in cells if cell.channels <= server.dma.channels]
    others = sorted({cell.channels for cell in cells} - {cell.channels for cell in possible})
    if others and not any(cell.channels for cell in possible):
        raise UsageError(
            f"table {table.name} needs {others[0]} channels, but profile {server.name} has "
            f"{server.dma.channels}: raise dma.channels in server/{server.name}.toml"
        )
    return possible, [
        f"{count} channels: profile {server.name} has {server.dma.channels}" for count in others
    ]
