# SPDX-License-Identifier: GPL-2.0
"""build the emulated server (QEMU with a model of AMD's PTDMA), fit it to published figures, break it"""

import argparse
from dataclasses import asdict

from ferry.commands import options
from ferry.results import grid, present
from ferry.results.grid import Grid
from ferry.server import faults, profile
from ferry.tables import experiments, fit
from ferry.vm import emulator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    verb = verbs.add_parser("build", help="build QEMU with the PTDMA device")
    verb.set_defaults(run=_build)

    verb = verbs.add_parser("fit", help="find the engine's parameters that fit the posted throughputs")
    options.add_profile(verb, experiments.FITTED_SERVER)
    options.add_flag(verb, "write", "put them into server/NAME.toml")
    verb.set_defaults(run=_fit, needs=options.DEVELOPS)

    what = "see or set the faults and rates of the channels of a server that runs (vm --profile)"
    verb = verbs.add_parser("fault", help=what)
    verb.add_argument(
        "values", nargs="*", metavar="NAME=VALUE", help=f"{', '.join(faults.NAMES)}; without: list them"
    )
    verb.add_argument("--channel", type=int, metavar="N", help="default: all")
    verb.add_argument("--vm", metavar="ID", help="default: the one that runs")
    verb.set_defaults(run=_fault)


def _build(args: argparse.Namespace) -> int:
    program = emulator.build()
    print(f"{emulator.version()}\n{program}")
    return 0


def _fit(args: argparse.Namespace) -> int:
    server = profile.load(args.profile)
    dma, cells = fit.run(server)
    grid.show(present.grid("Ratios to vanilla, the earlier design as it was posted", cells))
    for kind, misfits in present.residuals(cells).items():
        print(f"{kind}: {misfits}")
    for key, value in asdict(dma).items():
        print(f"{key} = {value}")
    if args.write:
        profile.store_dma(server.name, dma)
    return 0


def _fault(args: argparse.Namespace) -> int:
    values = faults.parse(args.values)
    vm = faults.choose(faults.running(), args.vm)
    with faults.connected(vm) as monitor:
        faults.change(monitor, args.channel, values)
        channels = faults.listed(monitor, args.channel)
    lines = [
        [str(number), *(str(value).lower() for value in values_now.values())]
        for number, values_now in channels.items()
    ]
    grid.show(Grid(f"Channels of VM {vm.name}", ("channel", *next(iter(channels.values()))), lines))
    return 0
