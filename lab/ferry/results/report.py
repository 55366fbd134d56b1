# SPDX-License-Identifier: GPL-2.0
"""Results for people (a table) and for programs (JSON, replaced as a whole)."""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferry import files
from ferry.errors import UsageError
from ferry.results import grid, present
from ferry.results.compare import Json
from ferry.results.grid import Grid

STDOUT = "-"


def check_writable(path: Path) -> None:
    """Raise UsageError if a result could not be written; to be called before the long work."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file")
    scratch = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.touch()
        scratch.unlink()
    except OSError as err:
        raise UsageError(f"cannot write {path}: {err.strerror}; choose another place") from err


def write_json(path: Path | None, data: Mapping[str, Any]) -> None:
    """Write a result to a file, or to stdout if path is None."""
    text = json.dumps(data, indent=2) + "\n"
    if path is None:
        sys.stdout.write(text)
    else:
        files.write(path, text)


@dataclass(frozen=True)
class Output:
    """Where --json puts a result: nowhere, into a file, or to stdout, which then has nothing but that."""

    name: str | None

    @property
    def path(self) -> Path | None:
        return None if self.name in (None, STDOUT) else Path(str(self.name))

    @property
    def is_stdout(self) -> bool:
        """Whether tables have to keep off stdout."""
        return self.name == STDOUT

    def write(self, data: Mapping[str, Any]) -> None:
        """Write a result, if it is asked for."""
        if self.name is not None:
            write_json(self.path, data)

    def show(self, result: Json, *more: Grid) -> None:
        """Print the tables of a result, and more, unless stdout is for the result."""
        tables = [table for table, _ in present.grids(result)]
        for table in () if self.is_stdout else (*tables, *more):
            grid.show(table)

    def tell(self, result: Json, *more: Grid) -> None:
        """Both."""
        self.write(result)
        self.show(result, *more)


def output(args: argparse.Namespace, default: Path | None = None) -> Output:
    """What --json says. Raises UsageError if that could not be written; to be called before the long work."""
    chosen = Output(args.json or (str(default) if default else None))
    if chosen.path:
        check_writable(chosen.path)
    return chosen
