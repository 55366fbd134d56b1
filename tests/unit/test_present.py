# SPDX-License-Identifier: GPL-2.0
"""One list of columns shows whatever a command has measured, and a table is the same wherever it is shown."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from ferry.bench import iommu
from ferry.results import compare, figures, grid, page, present
from ferry.results.grid import Grid
from ferry.suites import day, torture

COUNTED = dict.fromkeys(torture.FIGURES, 7) | {"bytes": 5 << 20, "quarantined": 3072}
TORTURE = [
    torture.Outcome("stall", COUNTED),
    torture.Outcome("fork", COUNTED, complaints=("[fork] BUG: bad",)),
    torture.Outcome("memory_unplug", skipped="no such memory"),
]
TEST = {"test": "cow", "engine": "dcbm", "status": 1, "tries": 3, "passed": 11, "verdict": "fail"}
STEPS = [day.outcome("Debian's kernel", None, 44.0), day.outcome("The packages", "none", 61.0)]


def _only(result: dict[str, Any]) -> Grid:
    """The one table of a result."""
    ((shown, cells),) = present.grids(result)
    assert cells in compare.lists(result)
    return shown


@pytest.mark.parametrize("path", sorted(figures.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_each_cell_of_each_kept_result_is_a_line(path: Path) -> None:
    result = json.loads(path.read_text())
    tables = present.grids(result, path.stem)
    assert [cell for _, cells in tables for cell in cells] == compare.cells(result)
    for shown, cells in tables:
        assert shown.title
        assert len(shown.lines) == len(cells)
        assert len(shown.head) > shown.left >= 1, "words alone, or none"
        assert all(line[0] for line in shown.lines)


def test_what_happened_while_trouble_struck() -> None:
    shown = _only(torture.as_json(torture.Plan(), TORTURE))
    lines = [dict(zip(shown.head, line, strict=True)) for line in shown.lines]
    assert [line["verdict"] for line in lines] == ["passed", "FAILED", "not here: no such memory"]
    assert [line["complaints"] for line in lines] == ["0", "1", "0"]
    assert (lines[0]["MiB verified"], lines[0]["KiB kept"], lines[0]["refs"]) == ("5", "3", "7")
    assert lines[2]["struck"] == ""


def test_what_linuxs_own_tests_said() -> None:
    shown = _only({"tests": [TEST | {"skipped": [], "failed": ["a", "b"]}]})
    assert shown.head == ["test", "engine", "passed", "failed", "skipped", "tries", "verdict"]
    assert shown.lines == [["cow", "dcbm", "11", "2", "0", "3", "fail"]]


def test_how_a_day_went() -> None:
    shown = _only({"title": "A first day", "steps": STEPS})
    assert shown.lines == [["Debian's kernel", "0:44", "passed"], ["The packages", "1:01", "failed: none"]]


def test_what_maps_cost() -> None:
    shown = _only({"costs": [iommu.cost(iommu.LOOPS[0], 1000.0, 1002.5)]})
    assert shown.lines[0][0] == iommu.LOOPS[0].title
    assert shown.lines[0][-3:] == ["1,000", "+0.25 %", "+0.2 % exceeded"]


def test_lines_that_begin_alike_stand_together() -> None:
    cells = [{"folio_kib": kib, "engine": name, "gbps": 1.0} for kib in (4, 64) for name in ("a", "b")]
    assert present.grid("", cells).ends == [1]
    assert present.grid("", cells[::2]).ends == []


def test_a_table_is_the_same_in_each_form() -> None:
    shown = Grid("a <title>", ("what", "x & y"), [["[bold]", "1"], ["b", "2"]], ends=[0])
    assert shown.markdown() == "| what | x & y |\n| --- | --- |\n| [bold] | 1 |\n| b | 2 |"
    assert "<th>x &amp; y</th>" in shown.html()
    assert shown.html().count("<tr class=end>") == 1
    assert "<td class=word>[bold]</td><td>1</td>" in shown.html()
    out = io.StringIO()
    grid.show(shown, out)
    assert all(text in out.getvalue() for text in ("a <title>", "x & y", "[bold]"))


def test_a_line_of_the_page_has_its_records() -> None:
    cells = [
        {"folio_kib": 4, "engine": "cpu", "records": ["c0ffee", "feed"]},
        {"folio_kib": 4, "engine": "b"},
    ]
    shown = page._with_records(present.grid("", cells), cells)
    assert (shown.head[-1], [line[-1] for line in shown.lines]) == ("record", ["c0ffee feed", ""])
    assert page._with_records(present.grid("", cells[1:]), cells[1:]).head == ["folio", "engine"]
