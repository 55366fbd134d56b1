# SPDX-License-Identifier: GPL-2.0
"""build the emulated server (QEMU with a model of AMD's PTDMA), fit it to published figures, break it"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ferry.results import report
from ferry.server import faults, profile
from ferry.tables import fit
from ferry.vm import emulator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of ./ferry server."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    verb = verbs.add_parser("build", help="build QEMU with the PTDMA device")
    verb.set_defaults(verb=_build)

    verb = verbs.add_parser("fit", help="find the engine's parameters that fit the posted throughputs")
    verb.add_argument("--profile", default="zen3", metavar="NAME", help=", ".join(profile.names()))
    verb.add_argument("--write", action="store_true", help="put them into server/NAME.toml")
    verb.set_defaults(verb=_fit, develops=True)

    verb = verbs.add_parser(
        "fault",
        help="see or set the faults and rates of the channels of a server that runs (vm --profile)",
    )
    verb.add_argument(
        "values", nargs="*", metavar="NAME=VALUE", help=f"{', '.join(faults.NAMES)}; without: list them"
    )
    verb.add_argument("--channel", type=int, metavar="N", help="default: all")
    verb.add_argument("--vm", metavar="ID", help="default: the one that runs")
    verb.set_defaults(verb=_fault)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    code: int = args.verb(args)
    return code


def _build(args: argparse.Namespace) -> int:
    program = emulator.build()
    print(f"{emulator.version()}\n{program}")
    return 0


def _fit(args: argparse.Namespace) -> int:
    server = profile.load(args.profile)
    emulator.build()
    found = fit.run(server)
    table = report.new_table("Ratios to vanilla, the earlier design")
    for name in ("folio", "channels", "measured", "published", "residual"):
        table.add_column(name, justify="right")
    for each in found.residuals:
        ratios = (f"{each.ratio:.2f}x", f"{each.published:.2f}x", f"{each.percent:+.1f} %")
        table.add_row(each.folio, str(each.channels), *ratios)
    report.show(table)
    for key, value in asdict(found.dma).items():
        print(f"{key} = {value}")
    if args.write:
        profile.store_dma(server.name, found.dma)
    return 0


def _fault(args: argparse.Namespace) -> int:
    values = faults.parse(args.values)
    vm = faults.choose(faults.running(), args.vm)
    with faults.connected(vm) as monitor:
        faults.change(monitor, args.channel, values)
        found = faults.listed(monitor, args.channel)
    table = report.new_table(f"Channels of VM {vm.name}")
    for name in ("channel", *faults.NAMES):
        table.add_column(name, justify="right")
    for number, now in found.items():
        table.add_row(str(number), *(str(value).lower() for value in now.values()))
    report.show(table)
    return 0
