# SPDX-License-Identifier: GPL-2.0
"""--twice of every command that keeps records: figures that two runs do not share are named, and fail."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ferry import cli
from ferry.bench import clients, cost, iommu, migbench, steps, tier
from ferry.commands import table as table_command
from ferry.errors import FerryError
from ferry.results import compare
from tests.unit.test_json import IOMMU, TABLE
from tests.unit.test_vm_side import row

Counted = Callable[[float], Any]
ORIGIN = {"machine": "zen3", "cpus": 1}


def _cells(count: float) -> tuple[list[dict[str, Any]], dict[str, str]]:
    return [{"folio_kib": 4, "engine": "none", "instructions": count, "steps": {}, "functions": []}], {}


def _cost(count: float) -> dict[str, Any]:
    return {"case": "up", "engine": "none", "instructions": count, "passed": True}


# Each command, what measures for it, and what that makes of a count.
COMMANDS: dict[str, tuple[ModuleType, str, Counted]] = {
    "bench --machine icount": (
        migbench,
        "measure",
        lambda count: ([replace(row("none", count), ratio=1.0)], {}),
    ),
    "cost": (cost, "measure", lambda count: ({"costs": [_cost(count)], "failures": []}, {})),
    "iommu": (iommu, "measure", lambda count: IOMMU | {"costs": [_cost(count)]}),
    "profile": (steps, "measure", _cells),
    "redis": (clients, "measure", _cells),
    "table v5-throughput": (
        *(table_command, "_measure"),
        lambda count: TABLE | {"title": "", "provenance": ORIGIN, "cells": _cells(count)[0]},
    ),
    "tier": (tier, "measure", _cells),
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, no_vms: Path) -> Callable[..., int]:
    """The exit status of a command whose runs count so much, one after the other."""

    def ended(name: str, *counts: float) -> int:
        place, measure, result = COMMANDS[name]
        left = [result(count) for count in counts]
        monkeypatch.setattr(place, measure, lambda *_, **__: left.pop(0))
        code = cli.main([*name.split(), "--twice", "--json", "it.json"])
        assert not left
        return code

    return ended


def test_every_command_that_keeps_records_has_it() -> None:
    found = set()
    for name, module in cli.COMMANDS.items():
        parser = argparse.ArgumentParser()
        module.add_arguments(parser)
        if "--anew" in parser.format_help():
            assert "--twice" in parser.format_help(), name
            found.add(name)
    assert found == {name.split()[0] for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_two_runs_are_compared(
    name: str, run: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(name, 7.0, 7.0) == 0
    assert (tmp_path / "it.json").is_file()
    capsys.readouterr()
    assert run(name, 7.0, 8.0) == 1
    error = capsys.readouterr().err
    assert "two runs differ in 1 figures" in error
    assert "7.0 and 8.0" in error


@pytest.mark.parametrize("words", [["bench"], ["iommu", "--dma-api"]])
def test_wall_time_is_never_the_same(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*words, "--twice"]) == 2
    assert "--twice is for " in capsys.readouterr().err


def test_a_cell_of_one_run_alone_differs() -> None:
    cells, _ = _cells(7.0)
    with pytest.raises(FerryError, match="engine none: in one run alone"):
        compare.must_be_same(cells, [])
