# SPDX-License-Identifier: GPL-2.0
"""--json of every command: what has "-" is stdout, and nothing else is written there."""

import argparse
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ferry import cli
from ferry.bench import clients, cost, iommu, migbench, steps, tier
from ferry.commands import compare as compare_command
from ferry.commands import day as day_command
from ferry.commands import table as table_command
from ferry.suites import day, mmtests, torture
from ferry.vm import emulator
from ferry.vm.records import Record


def _said(where: Any, kvm: bool, write: Callable[[str], None], made: Any) -> tuple[list[Any], dict[str, str]]:
    write("what is typed in the guest\n")
    return [], {}


def _pairs(plan: mmtests.Plan) -> Iterator[tuple[str, str]]:
    return itertools.product(plan.tests, plan.engines)


def _outcome(test: str, engine: str) -> Record:
    how = {"status": 0, "tries": 1, "passed": 1, "failed": [], "verdict": "ok"}
    return {"test": test, "engine": engine, **how}


TABLE = {"table": "v5-throughput", "profile": "zen3", "quick": False, "note": "", "cells": [], "missing": []}
IOMMU: dict[str, list[Record]] = {"costs": [], "memory": [], "speeds": [], "dma_api": []}
# Each command that has --json, and what measures for it.
MEASURE: dict[str, tuple[ModuleType, str, Any]] = {
    "bench": (migbench, "measure", lambda *_, **__: ([], {})),
    "compare a b": (compare_command, "_load", lambda _: {"cells": [{"engine": "cpu", "gbps": 1.0}]}),
    "cost": (cost, "measure", lambda *_, **__: ({"costs": [], "failures": []}, {})),
    "day": (day, "run", _said),
    "iommu": (iommu, "measure", lambda *_: IOMMU),
    "mmtests": (mmtests, "run", lambda plan, store: ([_outcome(*pair) for pair in _pairs(plan)], {})),
    "profile": (steps, "measure", lambda *_: ([], {})),
    "redis": (clients, "measure", lambda *_: ([], {})),
    "table v5-throughput": (
        table_command, "_measure", lambda *_: dict(TABLE),
    ),
    "tier": (tier, "measure", lambda *_: ([], {})),
    "torture": (torture, "run", lambda *_: []),
}  # fmt: skip


@pytest.fixture
def faked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, no_vms: Path) -> list[str]:
    """A command's words, with nothing to measure and no folder but a new one."""
    place, name, fake = MEASURE[request.param]
    monkeypatch.setattr(place, name, fake)
    monkeypatch.setattr(emulator, "build", lambda: None)
    monkeypatch.setattr(day, "guest_machine", lambda _: SimpleNamespace())
    for log in ("LOG", "JSON"):
        monkeypatch.setattr(day_command, log, no_vms / f"day.{log}")
    words: list[str] = request.param.split()
    return words


def test_every_command_with_json_is_tried() -> None:
    commands = set()
    for name, module in cli.COMMANDS.items():
        parser = argparse.ArgumentParser()
        module.add_arguments(parser)
        text = " ".join(parser.format_help().split())
        if "--json" in text:
            assert "write JSON to FILE, or to stdout instead of a table (-)" in text, name
            commands.add(name)
    assert commands == {name.split()[0] for name in MEASURE}


@pytest.mark.parametrize("faked", MEASURE, indirect=True)
def test_a_dash_is_stdout_and_json_alone(
    faked: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main([*faked, "--json", "-"]) == 0
    json.loads(capsys.readouterr().out)
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("faked", MEASURE, indirect=True)
def test_a_file_is_written_beside_the_table(faked: list[str], tmp_path: Path) -> None:
    assert cli.main([*faked, "--json", "new/it.json"]) == 0
    json.loads((tmp_path / "new/it.json").read_text())
