# SPDX-License-Identifier: GPL-2.0
"""--twice of every command that keeps records: figures that two runs do not share are named, and fail."""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ferry import cli, packages
from ferry.bench import clients, cost, iommu, migbench, steps, tier
from ferry.commands import options
from ferry.commands import table as table_command
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.results import compare
from ferry.vm import boots
from ferry.vm.boots import Boot
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

    def ended(name: str, *counts: float, how: str = "--twice") -> int:
        place, measure, result = COMMANDS[name]
        left = [result(count) for count in counts]
        monkeypatch.setattr(place, measure, lambda *_, **__: left.pop(0))
        code = cli.main([*name.split(), *how.split(), "--json", "it.json"])
        assert not left
        return code

    return ended


def test_every_command_that_keeps_records_has_it() -> None:
    found = set()
    for name, module in cli.COMMANDS.items():
        parser = argparse.ArgumentParser()
        module.add_arguments(parser)
        if "--anew" in parser.format_help():
            assert {"--twice", "--states"} <= set(re.findall("--[a-z]+", parser.format_help())), name
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


@pytest.mark.parametrize("how", ["--twice", "--states 2"])
@pytest.mark.parametrize("words", ["bench", "iommu --dma-api", "table mtcopy"])
def test_wall_time_is_never_the_same(words: str, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*words.split(), *how.split()]) == 2
    assert re.search("(--twice|--states) (is|and --states are) for ", capsys.readouterr().err)


# table measures all states at once: test_tables.py.
@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith("table")])
def test_a_cell_has_the_range_of_all_states(name: str, run: Callable[..., int], tmp_path: Path) -> None:
    assert run(name, 7.0, 9.0, 8.0, how="--states 3") == 0
    (cell,) = compare.cells(json.loads((tmp_path / "it.json").read_text()))
    ranges = [ends for key, ends in cell.items() if key.endswith("_range")]
    assert ranges == [[1, 1] if name.startswith("bench") else [7, 9]]


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith("table")])
def test_a_state_is_that_of_the_machines_that_boot(
    name: str, monkeypatch: pytest.MonkeyPatch, no_vms: Path
) -> None:
    booted: list[int] = []

    def boot(title: str, all_boots: Sequence[Boot], *_: object, **__: object) -> object:
        booted.extend(each.machine.state for each in all_boots)
        raise FerryError("seen")

    monkeypatch.setattr(boots, "run", boot)
    monkeypatch.setattr(options, "measured", lambda args, measure, *cells: measure(None, 3))
    for place, what in ((migbench, "programs"), (tier, "programs"), (iommu, "_programs")):
        monkeypatch.setattr(place, what, lambda *_: {})
    monkeypatch.setattr(clients, "with_libraries", lambda _: {})
    monkeypatch.setattr(packages, "ensure", lambda _: None)
    monkeypatch.setattr(steps, "build_plugin", lambda: Path("plugin"))
    monkeypatch.setattr(steps, "table", lambda *_: "")
    (no_vms / "System.map").touch()
    monkeypatch.setattr(kbuild, "build", lambda name: SimpleNamespace(flavour=name, build_dir=no_vms))
    assert cli.main([*name.split(), "--json", "it.json"]) == 1
    assert set(booted) == {3}


@pytest.mark.parametrize("count", ["0", "33"])
def test_states_out_of_bounds(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["redis", "--states", count]) == 2
    assert f"--states {count}: choose 1 to 32" in capsys.readouterr().err


def test_a_cell_of_one_run_alone_differs() -> None:
    cells, _ = _cells(7.0)
    with pytest.raises(FerryError, match="engine none: in one run alone"):
        compare.must_be_same(cells, [])
