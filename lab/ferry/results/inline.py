# SPDX-License-Identifier: GPL-2.0
"""A kept figure within a sentence: the comment that follows it says which one it is.

5.91<!-- = table-v5-throughput: 64K ferry x16 ratio --> is the ratio of that cell, with as many decimals as
stand there. With "than" and a second cell it is by how many percent the figure is less or more than there,
with "over" how many times as much.
"""

import re
from collections.abc import Mapping
from typing import Any

from ferry.errors import FerryError
from ferry.results import compare, present
from ferry.results.compare import Json

MARK = "<!-- = "
_FIGURE = re.compile(r"(?<![\d.,])(\d[\d,]*(?:\.\d+)?)((?: %)?<!-- = ([a-z0-9-]+): ([^>]+) -->)")


def fill(text: str, kept: Mapping[str, Json]) -> str:
    """A text with all such figures written anew. Raises FerryError for one that is in no result."""

    def figure(match: re.Match[str]) -> str:
        decimals = len(match[1].partition(".")[2])
        return f"{_value(kept[match[3]], match[4]):,.{decimals}f}{match[2]}"

    filled, count = _FIGURE.subn(figure, text)
    if count != text.count(MARK):
        raise FerryError(f"a comment '{MARK}' follows no figure, or does not say 'RESULT: CELL FIGURE'")
    return filled


def _value(result: Json, said: str) -> float:
    first, how, second = re.fullmatch(r"(.*?)(?: (than|over) (.*))?", said).groups()  # type: ignore[union-attr]
    value = _of_cell(result, first)
    ratio = value / _of_cell(result, second) if how else 1.0
    return {None: value, "over": ratio, "than": abs(ratio - 1) * 100}[how]


def _of_cell(result: Json, said: str) -> float:
    """Of the plainest cell that has all the words before the last, which is the figure's name."""
    *words, name = said.split()
    cells = [cell for cell in compare.cells(result) if set(words) <= _words(cell)]
    if not cells:
        raise FerryError(f"no cell '{' '.join(words)}' in the kept result")
    value: Any = min(cells, key=lambda cell: len(_words(cell)))
    for key in name.split("."):
        value = value[key]
    return float(value)


def _words(cell: Json) -> set[str]:
    """What a cell is called by: its folios, engine and channels, what is varied or set, who calls."""
    words = {present.folio(cell), cell["engine"]}
    words |= {f"x{cell['channels']}"} if cell.get("channels") else set()
    words |= set((cell.get("case") or cell.get("caller", "")).replace(",", "").split())
    words |= {f"{name}={value}" for name, value in present.set_up(cell).items()}
    words |= {f"batch={cell['batch_pages']}"} if cell.get("batch_pages") else set()
    words |= {f"write_rate={cell['write_rate']}"} if "write_rate" in cell else set()
    # As in "register_ns=300", or "several=register_ns=300 iommu=lazy".
    words |= set(f"{cell['parameter']}={cell['value']}".split()) if "parameter" in cell else set()
    return words
