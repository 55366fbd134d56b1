# SPDX-License-Identifier: GPL-2.0
"""Which kept figures, and which records, a line of README or docs is made of.

A line depends on what changes it: each kept figure is changed in turn, and the line is written with that.
So nobody has to say for each block where its figures come from, and nobody can say it wrong.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
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
    """A line of a page, and how that would be if a kept figure were another."""

    def __init__(self, text: str, number: int, kept: Kept) -> None:
        filled = figures.fill(text, kept)
        count = len(filled.splitlines())
        if not 0 < number <= count:
            raise UsageError(f"line {number}: the page has {count}")
        # No more is written anew each time than what has the line, of the results that it is made of.
        self.text, self.number = figures.part(filled, number)
        self.results = Kept(kept.folder)
        self.line = self._line()

    def _line(self) -> str:
        return figures.fill(self.text, self.results).splitlines()[self.number - 1]

    def changed(self, cell: Json, times: float, path: str = "") -> set[int] | None:
        """Which numbers of the line are others if a figure of a cell is, or if all are: by their places.
        None if no number is, and an empty set if the line is another altogether."""
        try:
            with _times(cell, times, path):
                line = self._line()
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
        for name in (name for name in figures.COMMANDS if name in self.results):
            for cell in compare.cells(self.results[name]):
                if self.changed(cell, times) is None:
                    continue
                for path, value in compare.figures(cell).items():
                    places = self.changed(cell, times, path)
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


@contextmanager
def _times(cell: Json, times: float, path: str) -> Iterator[None]:
    """Have a figure of a cell, or all of them, many times as large for a while."""
    before: list[tuple[Any, Any, float]] = []
    for name in [path] if path else compare.figures(cell):
        place: Any = cell
        *parents, last = name.split(".")
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        at = int(last) if isinstance(place, list) else last
        before.append((place, at, place[at]))
    try:
        for place, at, value in before:
            place[at] = value * times
        yield
    finally:
        for place, at, value in before:
            place[at] = value
