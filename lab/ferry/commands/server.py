# SPDX-License-Identifier: GPL-2.0
"""build the emulated server: QEMU with a model of AMD's PTDMA engine"""

from __future__ import annotations

import argparse

from ferry import emulator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of ./ferry server."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    verb = verbs.add_parser("build", help="build QEMU with the PTDMA device")
    verb.set_defaults(verb=_build)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    code: int = args.verb(args)
    return code


def _build(args: argparse.Namespace) -> int:
    program = emulator.build()
    print(f"{emulator.version()}\n{program}")
    return 0
