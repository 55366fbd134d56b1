# SPDX-License-Identifier: GPL-2.0
"""move a running redis-server on the emulated server: what its clients notice, counted"""

import argparse

from ferry import paths
from ferry.bench import clients
from ferry.commands import options
from ferry.errors import choose
from ferry.results import provenance, report
from ferry.server import profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_profile(parser)
    options.add_list(parser, "folio", clients.FOLIOS, clients.FOLIOS)
    options.add_list(parser, "engine", clients.ENGINES, clients.ENGINES)
    options.add_measured(parser, "out/redis.json, or redis-NAME for another profile, -part for fewer")


def run(args: argparse.Namespace) -> int:
    server = profile.load(args.profile)
    choose("folio size", args.folios, clients.FOLIOS)
    choose("engine", args.engines, clients.ENGINES)
    cells = [clients.Cell(folio, engine) for folio in args.folios for engine in args.engines]
    part = "" if args.profile == options.PROFILE else f"-{args.profile}"
    part += "" if len(cells) == len(clients.FOLIOS) * len(clients.ENGINES) else "-part"
    output = report.output(args, paths.OUT / f"redis{part}.json")
    plan = clients.Plan()
    computer = server.as_machine()
    measured, kernels = options.measured(
        args, lambda store, state: clients.measure(plan, computer.in_state(state), cells, store)
    )
    what = f"moved {2 * plan.trips} times: {plan.requests:,} requests, virtual time"
    output.tell(
        {
            "provenance": provenance.of_vms(computer, kernels),
            "title": f"redis-server under load on one CPU, {what}",
            "profile": args.profile,
            "requests": plan.requests,
            "cells": measured,
        }
    )
    return 0
