# SPDX-License-Identifier: GPL-2.0
"""move memory with every engine, and by 16 DMA channels: a table, out/demo.json, out/tables.html"""

import argparse
from typing import Any

from ferry import paths
from ferry.bench import migbench
from ferry.commands.bench import as_json
from ferry.kernel import kbuild
from ferry.results import page, provenance, report
from ferry.server import profile
from ferry.tables import experiments, runner
from ferry.vm import machine

# The kernels take turns: a shared host has better and worse seconds.
PLAN = migbench.Plan(rounds=5, runs=1)
SERVER = "zen3-likely"
FOLIOS = ("64K", "2M")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing: one command shows it."""


def run(args: argparse.Namespace) -> int:
    """Build, boot, move, tell."""
    computer = machine.get("smp")
    target = paths.OUT / "demo.json"
    report.check_writable(target)
    for flavour in ("vanilla", "ferry"):
        kbuild.build(flavour)
    measured, kernels = migbench.measure(PLAN, computer, store=provenance.store())
    title = f"{computer.cpus} emulated CPUs, {PLAN.size} per run from node 0 to node 1"
    origin = provenance.of_vms(computer, kernels)
    result = as_json([row.as_json() for row in measured], origin, f"{title}, Linux {kernels['ferry']}") | {
        "headline": _on_the_server()
    }
    report.Output(str(target)).tell(result)
    *_, written = page.write()
    print(f"{target}\n{written}")
    return 0


def _on_the_server() -> dict[str, Any]:
    """What the channels of the emulated server give: a part of v5-throughput, in virtual time."""
    server, table = profile.load(SERVER), experiments.get("v5-throughput")
    cells = experiments.throughput_cells(FOLIOS, [server.dma.channels], ("vanilla", "dma", "ferry"))
    computer = server.as_machine()
    measured, kernels = runner.in_vms(cells, computer, store=provenance.store())
    return {
        "table": "headline",
        "title": "the earlier design (dma) and Ferry on the server's engine",
        "profile": server.name,
        "quick": False,
        "provenance": provenance.of_vms(computer, kernels) | server.parameters(),
        "cells": experiments.compare(table, measured, server.name),
    }
