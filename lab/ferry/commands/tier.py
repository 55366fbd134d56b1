# SPDX-License-Identifier: GPL-2.0
"""applications whose memory has two tiers, on the emulated server: what they gain, counted"""

import argparse

from ferry import paths
from ferry.bench import tier
from ferry.commands import options
from ferry.errors import UsageError, choose
from ferry.results import provenance, report
from ferry.server import profile

# With a node without CPUs, which ACPI calls slower.
SERVER = "cxl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_list(parser, "application", tier.APPLICATIONS, tier.APPLICATIONS)
    options.add_list(parser, "engine", tier.ENGINES, tier.ENGINES)
    options.add_list(parser, "tiering", tier.tierings(paths.BASE), tier.TIERINGS)
    options.add_measured(parser, "out/tier.json, or tier-part for fewer")
    parser.description = f"{__doc__}. {tier.DISTANCE}"
    options.examples(
        parser,
        "tier                        # all of it, in a quarter of an hour",
        "tier --application pool     # a buffer pool that moves its own buffers",
        "tier --application redis --engine vanilla,none",
        "tier --tiering damon        # what DAMON moves, instead of NUMA balancing and reclaim",
    )


def run(args: argparse.Namespace) -> int:
    choose("application", args.applications, tier.APPLICATIONS)
    choose("engine", args.engines, tier.ENGINES)
    choose("tiering", args.tierings, tier.TIERINGS)
    cells = tier.cells(tier.Plan(), args.applications, args.engines, args.tierings)
    if not cells:
        raise UsageError(f"DAMON moves nothing of {args.applications[0]}: choose pool or redis")
    whole = len(cells) == len(
        tier.cells(tier.Plan(), tier.APPLICATIONS, tier.ENGINES, tier.tierings(paths.BASE))
    )
    output = report.output(args, paths.OUT / f"tier{'' if whole else '-part'}.json")
    server = profile.load(SERVER)
    computer = server.as_machine()
    measured, kernels = options.measured(
        args, lambda store, state: tier.measure(computer.in_state(state), cells, store)
    )
    output.tell(
        {
            "provenance": provenance.of_vms(computer, kernels),
            "title": f"two tiers on one CPU, virtual time. {tier.DISTANCE}",
            "profile": server.name,
            "cells": measured,
        }
    )
    return 0
