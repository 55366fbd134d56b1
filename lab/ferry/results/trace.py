# SPDX-License-Identifier: GPL-2.0
"""Which kept figures, and which records, a line of README or docs is made of.

A line depends on what changes it: each kept figure is changed in turn, and the page is written with that.
So nobody has to say for each block where its figures come from, and nobody can say it wrong.
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ferry.errors import FerryError, UsageError
from ferry.results import compare, figures
from ferry.results.compare import Json
from ferry.results.figures import Kept

# So much that no figure stays what it was, and none that was the least of several.
TIMES = 1000
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class Source:
    """A kept figure on which a line depends."""

    shown: tuple[str, ...]  # what of the line changes with it; nothing: more than a figure does
    result: str
    cell: str
    figure: str
    value: float
    records: tuple[str, ...]


class _Page:
    """A page, one of its lines, and how that would be if a kept figure were another."""

    def __init__(self, text: str, number: int, kept: Kept) -> None:
        names = [name for name in figures.COMMANDS if (kept.folder / f"{name}.json").is_file()]
        self.text, self.number = text, number
        self.results = {name: kept[name] for name in names}
        self.line = self._line(self.results)

    def _line(self, results: dict[str, Json]) -> str:
        filled = figures.fill(self.text, results).splitlines()
        if not 0 < self.number <= len(filled):
            raise UsageError(f"line {self.number}: the page has {len(filled)}")
        return filled[self.number - 1]

    def changed(self, name: str, index: int, times: float, path: str = "") -> set[int] | None:
        """Which numbers of the line are others if a figure of a cell is, or if all are: by their places.
        None if no number is, and an empty set if the line is another altogether."""
        try:
            line = self._line(self.results | {name: _times(self.results[name], index, times, path)})
        except (FerryError, LookupError, ValueError, ZeroDivisionError):
            return set()
        if line == self.line:
            return None
        one, other = (_NUMBER.findall(text) for text in (self.line, line))
        if len(one) != len(other):
            return set()
        return {place for place, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]}

    def sources(self, times: float, explained: set[int]) -> Iterator[tuple[set[int], Source]]:
        """What changes a number whose source is not known yet."""
        numbers = _NUMBER.findall(self.line)
        for name, result in self.results.items():
            for index, cell in enumerate(compare.cells(result)):
                if self.changed(name, index, times) is None:
                    continue
                for path, value in compare.figures(cell).items():
                    places = self.changed(name, index, times, path)
                    if places is not None and not places & explained:
                        shown = tuple(numbers[place] for place in sorted(places))
                        records = tuple(cell.get("records", ()))
                        yield places, Source(shown, name, compare.name(cell), path, value, records)


def sources(text: str, number: int, kept: Kept) -> list[Source]:
    """What a line of a page depends on. Raises FerryError if that is no kept figure."""
    page = _Page(text, number, kept)
    explained = list(page.sources(TIMES, set()))
    # The least of several that look the same: any of them would be, if it were less.
    explained += page.sources(1 / TIMES, {place for places, _ in explained for place in places})
    if not explained:
        raise FerryError(f"line {number} has no figure of docs/results: {page.line.strip() or 'it is empty'}")
    return [source for _, source in explained]


def _times(result: Json, index: int, times: float, path: str) -> Json:
    """A result with a figure of one of its cells, or with all of them, many times as large."""
    changed: Json = copy.deepcopy(result)
    cell = compare.cells(changed)[index]
    for name in [path] if path else compare.figures(cell):
        place: Any = cell
        *parents, last = name.split(".")
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        place[int(last) if isinstance(place, list) else last] *= times
    return changed
