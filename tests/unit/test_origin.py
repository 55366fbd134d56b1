# SPDX-License-Identifier: GPL-2.0
"""A measured figure on a page is written from a kept result, or its sentence or table says its day."""

import re
from pathlib import Path

import pytest

from ferry import paths

PAGES = (paths.ROOT / "README.md", *sorted((paths.ROOT / "docs").glob("*.md")))
GENERATED = re.compile(r"<!-- figures: .*?<!-- end of figures -->", re.DOTALL)
# And those that the comment after them fills.
FILLED = re.compile(r"[\d.,]+(?: %)?<!-- = [^>]*-->")
# Ratios and rates; what is not 6.12, the name of a Linux.
MEASURED = re.compile(r"(?<![\w.,-])(?!6\.1\d\b)\d+\.\d\d(?![\d.])|\d[\d,]* instructions|\d(?:\.\d+)? GB/s")
# Or it links who has posted it.
DAY = re.compile(r"20\d\d-\d\d-\d\d|\]\(https://")
BEFORE = 3  # paragraphs that may say a table's day


def undated(text: str) -> list[str]:
    """Paragraphs, items of lists and tables that have a measured figure, and no day."""
    blocks = FILLED.sub("", GENERATED.sub("", text)).split("\n\n")
    blocks_without_day = []
    for i, block in enumerate(blocks):
        is_table = block.startswith("|")
        day = "\n".join(blocks[max(0, i - BEFORE) : i + 2]) if is_table else ""
        parts = [block] if is_table else re.split(r"\n(?:[-*]|\d+\.) ", block)
        blocks_without_day += [each for each in parts if MEASURED.search(each) and not DAY.search(each + day)]
    return blocks_without_day


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_measured_figures_have_an_origin(path: Path) -> None:
    assert not undated(path.read_text())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It has 1.37 of vanilla.", 1),
        ("It has 1.37 of vanilla (2026-11-22), on Linux 6.12.", 0),
        ("It has 1.37<!-- = no-engine: 4K none ratio --> of vanilla.", 0),
        ("<!-- figures: range -->\n1.37\n<!-- end of figures -->", 0),
        ("On 2026-11-22:\n\n| a | b |\n| 1.37 | 1.02 |", 0),
        ("It is at 11.02 where it was [posted](https://x.org/1.html).", 0),
        ("A table:\n\n| a | b |\n| 1.37 | 1.02 |", 1),
        ("- on 2026-11-22 it had 1.37\n- and then 1,245 instructions\n- now 0.3 GB/s", 2),
    ],
)
def test_a_figure_without_a_day_is_found(text: str, count: int) -> None:
    assert len(undated(text)) == count
