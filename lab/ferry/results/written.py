# SPDX-License-Identifier: GPL-2.0
"""How blocks of kept figures are written: what several of them share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ferry.results.compare import Json
from ferry.results.grid import Grid
from ferry.results.present import Show, number, several

Results = Mapping[str, Json]  # kept ones, by their names
Block = Callable[[Results], str]


def folio(kib: int) -> str:
    return f"{kib // 1024} MiB" if kib % 1024 == 0 else f"{kib} KiB"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return Grid("", head, rows).markdown()


ratio = number("ratio", ".2f")
first = number("first_folio_us")
away = several("inaccessible_us", ("p50", "p99"))


def lines(cells: Iterable[Json], columns: Mapping[str, Show]) -> str:
    """A table with a line for each cell."""
    return table([*columns], [[show(cell) for show in columns.values()] for cell in cells])


def by_engine(cells: Iterable[Json], *keys: str) -> dict[Any, dict[str, Json]]:
    """What engines have beside each other, by what else a cell has: one thing, or several."""
    groups: dict[Any, dict[str, Json]] = {}
    for cell in cells:
        values = tuple(cell[key] for key in keys)
        groups.setdefault(values if len(keys) > 1 else values[0], {})[cell["engine"]] = cell
    return groups


def origin(result: Json) -> str:
    """When, and of what Ferry and Linux: for the sentence beside a table."""
    made = result["provenance"]
    return f"{made['date'][:10]}, commit {made['commit']}, Linux {release(result)}"


def release(result: Json) -> str:
    releases = (kernel["release"].partition("-")[0] for kernel in result["provenance"]["kernels"].values())
    return ", ".join(dict.fromkeys(releases))
