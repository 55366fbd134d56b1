# SPDX-License-Identifier: GPL-2.0
"""A table that was killed goes on where it ended, and comes out as if nothing had happened."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KILLED = 6


class Clone:
    """./ferry table in a clone, whose guests take no time."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root, self.boots = root, scratch / "boots"
        for name in ("build", "out"):
            shutil.rmtree(root / name, ignore_errors=True)

    def table(self, *words: str, killed: int = 0) -> int:
        """Its exit status."""
        self.boots.unlink(missing_ok=True)
        here = {"PYTHONPATH": str(self.root / "lab"), "PATH": "/usr/bin:/bin"}
        told = {"FERRY_BOOTS": str(self.boots), "FERRY_KILLED": str(killed)}
        command = [
            sys.executable,
            str(self.root / "tests/unit/fresh.py"),
            "table",
            "v5-throughput",
            "--quick",
        ]
        done = subprocess.run(
            [*command, *words], cwd=self.root, env={**os.environ, **here, **told}, capture_output=True
        )
        return done.returncode

    def booted(self) -> int:
        """How many guests the last one had."""
        return len(self.boots.read_text().split())

    def records(self) -> int:
        """How many boots are kept."""
        return len(list((self.root / "out/records").glob("*.json")))

    def cells(self) -> list[dict[str, Any]]:
        """What came out."""
        found: list[dict[str, Any]] = json.loads(
            (self.root / "out/table-v5-throughput-quick.json").read_text()
        )["cells"]
        return found


@pytest.fixture
def clone(fresh_clone: Path, tmp_path: Path) -> Clone:
    return Clone(fresh_clone, tmp_path)


def test_a_killed_table_goes_on(clone: Clone) -> None:
    assert clone.table(killed=KILLED) == -signal.SIGKILL
    kept = clone.records()
    assert 0 < kept < KILLED == clone.booted()
    assert not (clone.root / "out/table-v5-throughput-quick.json").exists()
    assert clone.table() == 0
    cells = clone.cells()
    assert clone.booted() == len(cells) - kept
    assert clone.table("--anew") == 0
    assert clone.booted() == len(cells) == clone.records()
    assert clone.cells() == cells
    assert clone.table() == 0
    assert not clone.boots.exists()
