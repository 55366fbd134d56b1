# SPDX-License-Identifier: GPL-2.0
"""The posted figures are those of the mails: all of them, digit by digit.

Each digest is of a table as it was posted: its figures, or their deviations, separated by spaces, a line
for each row. They were made from the mails, not from published.toml.
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ferry import paths
from ferry.results import figures
from ferry.tables import experiments

Figures = dict[str, Any]
Rows = Iterable[Iterable[object]]

POSTED = {
    "v5 throughput": "959dfebdf7fdb213",
    "v5 throughput, deviations": "7cbf690ac431e506",
    "v5 vanilla 4K": "f240c3bf9c097133",
    "v5 vanilla 2M": "48905cd41d1cedc9",
    "v5 batch 4K": "3ef6f227cc4b9f91",
    "v5 batch 2M": "6abe2e390c00523a",
    "v1": "599fd1cb6d2c208b",
    "v1, deviations": "7bba4d3cde1e99d5",
    "userspace": "3665acd913384d0b",
    "userspace, deviations": "8aa2be3bd944ff0c",
    "mtcopy 64K": "770f7c733864eec5",
    "mtcopy 2M": "c273133e9e082df4",
}
ENGINES = ("vanilla", "cpu", "dma")


def _throughput(posted: Figures) -> Rows:
    return _by_channels(posted["v5"]["throughput"])


def _by_channels(throughput: Figures) -> Rows:
    return [throughput["vanilla"], *([channels, *row] for channels, row in throughput["dma"].items())]


def _vanilla(folio: str) -> Callable[[Figures], Rows]:
    def rows(posted: Figures) -> Rows:
        part = posted["v5"]["vanilla"][folio]
        return zip(part["folios"], part["gbps"], part["first_us"], strict=True)

    return rows


def _batch(folio: str) -> Callable[[Figures], Rows]:
    def rows(posted: Figures) -> Rows:
        part = posted["v5"]["batch"][folio]
        columns = [column for n in part["gbps"] for column in (part["gbps"][n], part["first_us"][n])]
        return zip(part["pages"], *columns, strict=True)

    return rows


def _v1(posted: Figures) -> Rows:
    part = posted["v1"]
    return [
        pair
        for engine in ENGINES
        for pair in zip(part["migrate_pages"][engine], part["copy_share"][engine], strict=True)
    ]


def _userspace(posted: Figures) -> Rows:
    part = posted["userspace"]
    reads = ("uncached", "cached", "post_move")
    return [
        row
        for engine in ENGINES
        for row in zip(part[engine], *(part[name][engine] for name in reads), strict=True)
    ]


def _mtcopy(folio: str) -> Callable[[Figures], Rows]:
    def rows(posted: Figures) -> Rows:
        part = posted["mtcopy"][folio]
        return zip(part["folios"], part["vanilla"], *part["threads"].values(), strict=True)

    return rows


AS_POSTED: dict[str, Callable[[Figures], Rows]] = {
    "v5 throughput": _throughput,
    "v5 throughput, deviations": lambda posted: _by_channels(posted["v5"]["throughput"]["sd"]),
    "v5 vanilla 4K": _vanilla("4K"),
    "v5 vanilla 2M": _vanilla("2M"),
    "v5 batch 4K": _batch("4K"),
    "v5 batch 2M": _batch("2M"),
    "v1": _v1,
    "v1, deviations": lambda posted: posted["v1"]["migrate_pages_sd"].values(),
    "userspace": _userspace,
    "userspace, deviations": lambda posted: posted["userspace"]["sd"].values(),
    "mtcopy 64K": _mtcopy("64K"),
    "mtcopy 2M": _mtcopy("2M"),
}


def _digest(rows: Rows) -> str:
    text = "\n".join(" ".join(str(figure) for figure in row) for row in rows)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.fixture
def posted() -> Figures:
    """The figures as they are written: 3.20 is not 3.2."""
    text = Path(paths.ROOT / "lab/ferry/tables/published.toml").read_text()
    return tomllib.loads(text, parse_float=str)


@pytest.mark.parametrize("path", sorted(figures.FOLDER.glob("table-*.json")), ids=lambda path: path.stem)
def test_kept_tables_link_the_mail_that_has_the_figures(path: Path) -> None:
    result = json.loads(path.read_text())
    posted = experiments.get(result["table"]).posted_figures
    assert result["source"] == {key: posted[key] for key in result["source"]}


@pytest.mark.parametrize("name", POSTED)
def test_figures_are_those_of_the_mail(posted: Figures, name: str) -> None:
    assert _digest(AS_POSTED[name](posted)) == POSTED[name]
