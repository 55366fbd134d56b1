# SPDX-License-Identifier: GPL-2.0
"""Results for people (a table) and for programs (JSON, replaced as a whole)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ferry import files
from ferry.bench.rows import PERCENTILES, VANILLA, Row
from ferry.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

STDOUT = "-"
FIGURES = (
    *("GB/s", "min-max", "ratio", "first folio us", "inaccessible us p50 / p99"),
    *("CPU ns/page", "verified MiB"),
)


def check_writable(path: Path) -> None:
    """Raise UsageError if a result could not be written; to be called before the long work."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise UsageError(f"cannot make {folder}: {err.strerror}; choose another place") from err
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {path}: no permission; choose another place")
    scratch = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
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
        """The file, if it is one."""
        return None if self.name in (None, STDOUT) else Path(str(self.name))

    @property
    def is_stdout(self) -> bool:
        """Whether tables have to keep off stdout."""
        return self.name == STDOUT

    def check(self) -> None:
        """Raise UsageError if a result could not be written; to be called before the long work."""
        if self.path:
            check_writable(self.path)

    def write(self, data: Mapping[str, Any]) -> None:
        """Write a result, if it is asked for."""
        if self.name is not None:
            write_json(self.path, data)

    def show(self, *tables: Table) -> None:
        """Print tables, unless stdout is for the result."""
        for each in () if self.is_stdout else tables:
            show(each)


def add_json_argument(parser: argparse.ArgumentParser, default: str = "") -> None:
    """--json of every command; default: where it is written unless it is said."""
    where = f" (default: {default})" if default else ""
    parser.add_argument(
        "--json", metavar="FILE", help=f"write JSON to FILE, or to stdout instead of a table (-){where}"
    )


def add_anew_argument(parser: argparse.ArgumentParser) -> None:
    """--anew of every command that keeps records."""
    parser.add_argument(
        "--anew", action="store_true", help="measure again what was measured before and has not changed"
    )


def size(kib: int) -> str:
    """A folio size as users write it."""
    return f"{kib // 1024}M" if kib % 1024 == 0 else f"{kib}K"


def engine(row: Row) -> str:
    """An engine as the table names it."""
    return engine_name(row.engine, row.channels)


def engine_name(name: str, channels: int) -> str:
    """An engine, and of how many channels if it has any."""
    return f"{name} x{channels}" if channels else name


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def new_table(title: str) -> Table:
    """An empty table. Imported here, because help is given before anything is installed."""
    from rich.table import Table

    return Table(title=title, title_justify="left")


def grid(title: str, head: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1) -> Table:
    """Lines under a head; all columns but the first ones are of figures."""
    from rich.text import Text

    found = new_table(title)
    for number, name in enumerate(head):
        found.add_column(name, justify="left" if number < left else "right")
    for line in lines:
        found.add_row(*map(Text, line))
    return found


def table(rows: Sequence[Row], title: str) -> Table:
    """The rows beside each other, a rule between folio sizes."""
    found = new_table(title)
    for name in ("folio", "engine"):
        found.add_column(name)
    written = any(row.writes for row in rows)
    for name in (*FIGURES, *(["writers' waits p50 / p99 / max, us"] if written else [])):
        found.add_column(name, justify="right")
    for i, row in enumerate(rows):
        waits = " / ".join(_us(row.write_wait_us[key]) for key in PERCENTILES)
        found.add_row(
            size(row.folio_kib),
            engine(row),
            f"{row.gbps:.3f}",
            f"{row.gbps_min:.2f}-{row.gbps_max:.2f}",
            "-" if row.ratio is None else f"{row.ratio:.2f}x",
            _us(row.first_folio_us),
            f"{_us(row.inaccessible_us['p50'])} / {_us(row.inaccessible_us['p99'])}",
            f"{row.cpu_ns_per_page:,.0f}",
            f"{row.verified_bytes >> 20:,}",
            *([waits] if written else []),
            style=None if row.engine == VANILLA else "bold",
            end_section=i + 1 < len(rows) and rows[i + 1].folio_kib != row.folio_kib,
        )
    return found


def show(what: Table, file: TextIO | None = None) -> None:
    """Print a table; never narrower than it needs, so that a log has whole lines."""
    from rich.console import Console

    console = Console(file=file or sys.stdout)
    console.width = max(console.width, Console(width=1000).measure(what).maximum)
    console.print(what)
