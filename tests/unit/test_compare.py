# SPDX-License-Identifier: GPL-2.0
"""Two results beside each other, and a line of a page beside the figures that it is made of."""

import copy
import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest

from ferry import paths
from ferry.cli import main
from ferry.commands import report as command
from ferry.errors import FerryError
from ferry.results import compare, figures, lines, trace
from ferry.results.figures import Kept

README = paths.ROOT / "README.md"


def _files(folder: Path, change: Any) -> list[str]:
    """A kept result, and the same with a change."""
    one = Kept()["no-engine"]
    other = copy.deepcopy(one)
    change(other)
    for name, result in (("a", one), ("b", other)):
        (folder / name).write_text(json.dumps(result))
    return [str(folder / "a"), str(folder / "b")]


@pytest.mark.parametrize("name", [path.stem for path in sorted(figures.FOLDER.glob("*.json"))])
def test_a_kept_result_has_no_cell_twice_and_is_itself(name: str) -> None:
    cells = compare.cells(Kept()[name])
    assert cells
    assert len({compare.name(cell) for cell in cells}) == len(cells)
    assert not compare.differences(cells, cells)


def test_what_differs_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def change(result: dict[str, Any]) -> None:
        result["provenance"]["kernels"]["ferry"]["config"] = "c0ffee"
        result["runs"][0]["inaccessible_us"]["p99"] *= 1.02
        del result["runs"][-1]

    names = _files(tmp_path, change)
    assert main(["compare", *names]) == 1
    shown = capsys.readouterr()
    said = shown.out + shown.err
    assert "c0ffee" in said
    assert "inaccessible_us.p99" in said
    assert "+2.00 %" in said
    assert "1 figures differ; only A has 1 more" in said
    assert main(["compare", *names, "--within", "3", "--json", "-"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["differences"]
    assert len(found["only"]["A"]) == 1


def test_within_is_a_limit(tmp_path: Path) -> None:
    names = _files(tmp_path, lambda result: result["runs"][0].update(gbps=result["runs"][0]["gbps"] * 1.004))
    assert main(["compare", *names]) == 1
    assert main(["compare", *names, "--within", "0.5"]) == 0


@pytest.mark.parametrize("text", ["", "[]", '{"cells": []}'])
def test_what_is_no_result_is_one_line(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text(text)
    assert main(["compare", str(tmp_path / "x"), str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def _line(start: str) -> int:
    return 1 + next(i for i, line in enumerate(README.read_text().splitlines()) if line.startswith(start))


def test_a_line_of_readme_is_traced_to_its_cells() -> None:
    kept = Kept()
    found = trace.sources(README.read_text(), _line("| AMD EPYC's PTDMA"), kept)
    assert [each.figure for each in found] == ["ratio"] * len(figures.HEADLINE)
    assert [each.shown for each in found] == [(f"{each.value:.1f}",) for each in found]
    assert {each.result for each in found} == {figures.LIKELY}
    assert all("engine ferry, channels 16" in each.cell for each in found)


def test_the_least_of_several_is_traced_to_that_one() -> None:
    """Or to each of those that might be it, if they look the same."""
    kept = Kept()
    sources = trace.sources(README.read_text(), _line("| PTDMA, with the"), kept)
    least = figures._lowest_ratios(kept)
    for kib in figures.HEADLINE:
        assert least[kib] in [each.value for each in sources if each.shown == (f"{least[kib]:.1f}",)]
    assert {each.figure for each in sources} == {"ratio"}
    sizes = [each.cell.partition(",")[0] for each in sources]
    assert [sizes.count(f"folio_kib {kib}") == 1 for kib in figures.HEADLINE] == [False, True, True]


def test_a_count_is_traced_to_all_that_were_counted() -> None:
    found = trace.sources(README.read_text(), _line("In every measurement"), Kept())
    cells = {each.cell for each in found}
    assert [sum(f"engine {name}" in cell for cell in cells) for name in ("ferry", "vanilla")] == [36, 6]
    assert {each.figure for each in found} == {"inaccessible_us.p50", "inaccessible_us.p99"}


def test_records_are_named(tmp_path: Path) -> None:
    for path in figures.FOLDER.glob("*.json"):
        result = json.loads(path.read_text())
        for cell in compare.cells(result):
            cell["records"] = [f"of {path.stem}"]
        (tmp_path / path.name).write_text(json.dumps(result))
    (found, *_) = trace.sources(README.read_text(), _line("| no copy engine"), Kept(tmp_path))
    assert found.records == ("of no-engine",)


@pytest.mark.parametrize("kept", [True, False])
def test_a_trace_says_where_the_records_are(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "docs/results"
    shutil.copytree(figures.FOLDER, folder, ignore=shutil.ignore_patterns("records"))
    monkeypatch.setattr(paths, "OUT", tmp_path / "out")
    monkeypatch.setenv("COLUMNS", "400")
    result = json.loads((folder / "no-engine.json").read_text())
    records = {name: json.dumps({"name": name}) for name in lines.names(result)}
    if kept:
        text = "".join(f"{line}\n" for line in records.values())
        lines.place(folder / "no-engine.json").parent.mkdir()
        lines.place(folder / "no-engine.json").write_bytes(lzma.compress(text.encode()))
    command._trace(f"{README}:{_line('| no copy engine')}", Kept(folder))
    where = "in docs/results/records/no-engine.jsonl.xz" if kept else "which nobody kept"
    said = capsys.readouterr().out
    assert any(f"record {name}, {where}" in said for name in records)


def test_a_figure_is_another_for_a_while() -> None:
    cell = {"folio_kib": 4, "engine": "none", "ratio": 1.5, "away": {"p50": 3, "all": [1, 2]}}
    before = copy.deepcopy(cell)
    with trace._times(cell, 10, "away.all.1"):
        assert cell == before | {"away": {"p50": 3, "all": [1, 20]}}
    with trace._times(cell, 10, ""):
        assert cell == before | {"ratio": 15.0, "away": {"p50": 30, "all": [10, 20]}}
    assert cell == before


def test_a_line_of_no_figure_is_said() -> None:
    with pytest.raises(FerryError, match="line 1 has no figure of docs/results: # Ferry"):
        trace.sources(README.read_text(), 1, Kept())
    with pytest.raises(FerryError, match="line 2 has no figure of docs/results: it is empty"):
        trace.sources(README.read_text(), 2, Kept())
