# SPDX-License-Identifier: GPL-2.0
"""Lines under a head: on a terminal, in Markdown, or in HTML. All tables that are shown are such grids."""

from __future__ import annotations

import html
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Grid:
    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    left: int = 1  # so many of the first columns are words, all others are figures
    ends: Collection[int] = ()  # lines that have a rule below them

    def terminal(self) -> Table:
        """For a terminal. Imported here, because help is given before anything is installed."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(self.title), title_justify="left")
        for number, name in enumerate(self.head):
            table.add_column(name, justify="left" if number < self.left else "right")
        for number, line in enumerate(self.lines):
            table.add_row(*map(Text, line), end_section=number in self.ends)
        return table

    def markdown(self) -> str:
        """For a page of docs, which has its own title."""
        lines = [self.head, ["---"] * len(self.head), *self.lines]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def html(self) -> str:
        """For a page that sorts by a click on the head."""
        rows = "\n".join(
            f"<tr{' class=end' * (number in self.ends)}>{self._cells('td', line)}</tr>"
            for number, line in enumerate(self.lines)
        )
        head = f"<thead><tr>{self._cells('th', self.head)}</tr></thead>"
        return f"<table>\n{head}\n<tbody>\n{rows}\n</tbody>\n</table>\n"

    def _cells(self, tag: str, line: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=word' * (number < self.left)}>{html.escape(text)}</{tag}>"
            for number, text in enumerate(line)
        )


def show(grid: Grid, file: TextIO | None = None) -> None:
    """Print a table; never narrower than it needs, so that a log has whole lines."""
    from rich.console import Console

    table = grid.terminal()
    console = Console(file=file or sys.stdout)
    console.width = max(console.width, Console(width=1000).measure(table).maximum)
    console.print(table)
