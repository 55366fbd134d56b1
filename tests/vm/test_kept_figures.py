# SPDX-License-Identifier: GPL-2.0
"""A few cells of the kept results, counted again: a change that makes moves dearer, or docs wrong, fails.

Instructions are counted, so any host has the same figures. What is left between two builds is where the
linker has put the kernel, and with it a branch more or less.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from ferry.bench import migbench
from ferry.results.figures import NO_ENGINE, Kept
from ferry.server import profile
from ferry.tables import callers, experiments, runner
from ferry.vm import machine
from ferry.vm.machine import Machine

PERCENT = 0.5
# With an engine, how much is in flight follows from measured times: a few instructions may change more.
CHANNELS_PERCENT = 2.0


def differing(
    pairs: Iterable[tuple[dict[str, Any], dict[str, Any]]], percent_allowed: float = PERCENT
) -> list[str]:
    """The cells that are slower, or faster, than the kept ones beside them."""
    off = {
        f"{kept['folio_kib']} KiB": (measured["gbps"] / kept["gbps"] - 1) * 100 for measured, kept in pairs
    }
    return [f"{what}: {percent:+.2f} %" for what, percent in off.items() if abs(percent) > percent_allowed]


def beside(
    measured: list[dict[str, Any]], kept: list[dict[str, Any]], keys: tuple[str, ...]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each measured cell, and the one kept cell that has the same keys."""
    for cell in measured:
        (same,) = [kept_cell for kept_cell in kept if all(kept_cell.get(key) == cell[key] for key in keys)]
        yield cell, same


@pytest.mark.parametrize("percent", [-1, 1])
def test_another_figure_is_noticed(percent: int) -> None:
    kept = Kept()["no-engine"]["runs"][0]
    assert not differing([(kept, kept)])
    assert differing([(kept, kept | {"gbps": kept["gbps"] * (1 + percent / 100)})])


@pytest.mark.vm
def test_moves_without_an_engine_are_as_they_were_kept() -> None:
    plan = migbench.Plan(("4K", "64K"), ("none",), runs=1)
    assert "--machine icount" in NO_ENGINE
    measured = [row.as_json() for row in migbench.measure(plan, machine.get("icount"))[0]]
    kept = Kept()["no-engine"]["runs"]
    assert not differing(beside(measured, kept, ("folio_kib", "engine", "bytes")))


@pytest.mark.vm
def test_moves_by_channels_are_as_they_were_kept() -> None:
    cells = experiments.throughput_cells(["2M", "64K", "4K"], [16], ["ferry"])
    measured = [
        measurement.as_json() for measurement in runner.in_vms(cells, profile.load("zen3").as_machine())[0]
    ]
    kept = Kept()["table-v5-throughput"]["cells"]
    assert not differing(beside(measured, kept, ("folio_kib", "engine", "channels")), CHANNELS_PERCENT)


@pytest.mark.vm
def test_a_page_of_1_gib_is_moved_as_it_was_kept() -> None:
    """Whoever waits for its copy, 64 ms by 16 channels, must notice the end of it in time."""
    cells = [
        cell for cell in callers.cells(1 << 30, 1, quick=False) if (cell.folio, cell.channels) == ("1G", 16)
    ]
    server = profile.load("cxl")
    larger: dict[runner.Varied, Machine] = {callers.HUGE_NODE: server.varied(*callers.HUGE_NODE).as_machine()}
    measured = [measurement.as_json() for measurement in runner.in_vms(cells, server.as_machine(), larger)[0]]
    assert len(measured) == 1
    kept = [cell for cell in Kept()["table-callers"]["cells"] if cell.get("channels") == 16]
    assert not differing(beside(measured, kept, ("folio_kib", "engine", "channels")), CHANNELS_PERCENT)
