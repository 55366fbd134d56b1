# SPDX-License-Identifier: GPL-2.0
"""README and docs have the figures of the kept results, and no others."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ferry import cli, paths
from ferry.commands import report as command
from ferry.errors import FerryError, UsageError
from ferry.results import figures, lines, page, picture
from ferry.results.figures import Kept
from ferry.suites import torture
from ferry.vm import store

README = paths.ROOT / "README.md"


@pytest.fixture
def kept() -> Kept:
    """The kept results, to be changed."""
    return Kept()


@pytest.mark.parametrize("path", figures.PAGES, ids=lambda path: path.name)
def test_pages_have_the_figures_of_the_kept_results(path: Path) -> None:
    text = path.read_text()
    assert figures.fill(text, Kept()) == text, "run: ./ferry report"


def test_every_kind_of_figures_is_on_a_page() -> None:
    text = "".join(path.read_text() for path in figures.PAGES)
    assert set(re.findall(r"<!-- figures: (\S+) -->", text)) == set(figures.BLOCKS)
    assert text.count("<!-- figures: ") == text.count("<!-- end of figures -->")


@pytest.mark.parametrize("path", figures.PAGES, ids=lambda path: path.name)
def test_no_column_is_empty(path: Path) -> None:
    """A column is found by its name, and another result may have one of the same name."""
    for table in re.findall(r"(?:^\|.*\n)+", path.read_text(), re.MULTILINE):
        head, _, *rows = ([each.strip() for each in line.split("|")[1:-1]] for line in table.splitlines())
        assert [name for name, *column in zip(head, *rows, strict=True) if not any(column)] == []


@pytest.mark.parametrize("path", figures.PAGES, ids=lambda path: path.name)
def test_a_line_is_in_its_block_or_alone(path: Path) -> None:
    text = path.read_text()
    blocks = 0
    for number, line in enumerate(text.splitlines(), 1):
        part, within = figures.part(text, number)
        assert part.splitlines()[within - 1] == line
        is_block = part.startswith("<!-- figures: ") and part.endswith("<!-- end of figures -->")
        assert is_block or part == f"{line}\n"
        blocks += is_block and within == 1
    assert blocks == text.count("<!-- figures: ")


def test_another_ratio_is_noticed(kept: Kept) -> None:
    result = kept[figures.LIKELY]
    best = next(cell for cell in result["cells"] if cell["engine"] == "ferry" and cell.get("channels") == 16)
    best["ratio"] += 0.1
    text = README.read_text()
    assert figures.fill(text, kept) != text


def test_a_cell_later_than_vanilla_is_said(kept: Kept) -> None:
    result = kept[figures.LIKELY]
    late = next(cell for cell in result["cells"] if cell["engine"] == "ferry")
    late["inaccessible_us"]["p99"] *= 100
    assert "In 35 of 36 measurements" in figures.BLOCKS["headline"](kept)


def test_the_headline_has_the_worst_of_what_was_tried(kept: Kept) -> None:
    result = kept["table-sensitivity"]
    alone = [cell for cell in result["cells"] if cell.get("parameter") != "several"]
    cells = [cell for cell in alone if cell["engine"] == "ferry" and cell["folio_kib"] == 2048]
    worst = min(cell["ratio"] for cell in cells)
    for find in ("headline", "range"):
        assert f"{worst:.1f}" in figures.BLOCKS[find](kept)
    cells[-1]["ratio"] = 0.1
    (dearest,) = [line for line in figures.BLOCKS["headline"](kept).splitlines() if "[highest" in line]
    assert dearest.endswith("| 0.1 | engine modelled |")


def test_the_earlier_design_is_shown_at_its_better_batch(kept: Kept) -> None:
    result = kept["table-sensitivity"]
    cells = [cell for cell in result["cells"] if cell["engine"] == "dma" and "parameter" not in cell]
    first, second = [cell for cell in cells if cell["folio_kib"] == 2048]
    for better, worse in ((first, second), (second, first)):
        better["ratio"], worse["ratio"] = 9.99, 1.11
        assert "9.99 /" in figures.BLOCKS["sensitivity"](kept)
        assert "1.11 /" not in figures.BLOCKS["sensitivity"](kept)


@pytest.fixture
def told() -> dict[str, Any]:
    """What results of tests have beside their outcomes."""
    kernels = {"debug": {"release": "1.0.1-debug"}}
    return {"provenance": {"date": "2026-01-02 03:04", "commit": "c0ffee", "kernels": kernels}}


def test_the_campaign_has_its_sums_and_says_what_was_not_there(kept: Kept, told: dict[str, Any]) -> None:
    moved = dict.fromkeys(torture.FIGURES, 1) | {"moved": 1500, "struck": 7}
    kept["torture"] = told | {
        "classes": [
            {"name": "fork", "figures": moved, "verdict": "passed"},
            {"name": "ksm", "figures": moved, "verdict": "passed"},
            {"name": "slab_fails", "figures": {}, "verdict": "not here: no faults"},
        ]
    }
    lines = figures.BLOCKS["campaign"](kept).splitlines()
    assert lines[0] == "2026-01-02, commit c0ffee, Linux 1.0.1; classes: 2 passed, 1 not here: no faults."
    assert lines[-4].startswith("| `fork` | 1 | 1,500 | 1 | 7 |")
    assert lines[-2].startswith("| `slab_fails` |  |  |")
    assert lines[-1].startswith("| all | 2 | 3,000 | 2 |  |")


def test_figures_that_nobody_makes_are_refused(kept: Kept) -> None:
    with pytest.raises(FerryError, match="no figures 'mine': there are headline"):
        figures.fill("<!-- figures: mine -->\n1.5\n<!-- end of figures -->", kept)


def test_what_is_missing_is_named_with_its_command(tmp_path: Path) -> None:
    with pytest.raises(FerryError, match=r"run '\./ferry table userspace'"):
        Kept(tmp_path)["table-userspace"]


def test_commands_of_kept_results_are_understood() -> None:
    for line in figures.COMMANDS.values():
        if line.startswith("./ferry"):
            cli.parse(line.split()[1:])


@pytest.mark.parametrize("path", sorted(figures.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_what_measures_a_result_again_is_of_the_same_linux(path: Path) -> None:
    result = json.loads(path.read_text())
    words = page.command(path.stem, result).split()
    release = result["provenance"]["kernels"].popitem()[1]["release"]
    assert release.startswith(f"{cli.parse(words[1:]).base}.")


@pytest.mark.parametrize("name", [name for name in figures.COMMANDS if name.endswith("-6.12")])
def test_a_kept_result_of_the_lts_is_written_where_it_is_kept_from(name: str) -> None:
    """Not into the folder of that base, of which report --keep takes nothing."""
    assert cli.parse(figures.COMMANDS[name].split()[1:]).json == f"out/{name}.json"


def test_page_of_tables_is_of_the_kept_results(tmp_path: Path) -> None:
    """But for the pictures, which differ with the version of the library that draws them."""
    *pictures, made = page.write(figures.FOLDER, tmp_path)
    assert made.read_text() == (paths.ROOT / "docs/tables.html").read_text(), "run: ./ferry report"
    assert all((paths.ROOT / "docs" / path.name).is_file() for path in pictures)


def test_page_has_each_kept_result_and_each_record() -> None:
    text = (paths.ROOT / "docs/tables.html").read_text()
    kept = sorted(figures.FOLDER.glob("*.json"))
    assert sorted(figures.results(figures.FOLDER)) == kept
    records = set(re.findall(r'"([0-9a-f]{16})"', "".join(path.read_text() for path in kept)))
    assert records
    assert all(record in text for record in records)


def _measured(out: Path, name: str, **more: Any) -> None:
    known = {"provenance": {"commit": "0123456789ab"}, **more}
    (out / f"{name}.json").write_text(json.dumps(known))


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty out/, and an empty folder of kept results beside it."""
    monkeypatch.setattr(paths, "OUT", tmp_path / "out")
    monkeypatch.setattr(figures, "FOLDER", tmp_path / "kept")
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_whole_results_of_each_own_server_are_kept(out: Path) -> None:
    _measured(out, "no-engine")
    _measured(out, "table-v5-batch", quick=False, profile="zen3")
    _measured(out, "table-v5-batch-quick", quick=True, profile="zen3")
    _measured(out, "table-v5-batch-cxl", quick=False, profile="cxl")
    _measured(out, "table-v5-throughput-zen3-likely", quick=False, profile="zen3-likely")
    _measured(out, "table-v1-cycles", quick=False, profile="v1")
    _measured(out, "redis-cxl", profile="cxl")
    command.keep()
    assert sorted(path.name for path in figures.FOLDER.glob("*.json")) == [
        "no-engine.json",
        "table-v1-cycles.json",
        "table-v5-batch.json",
        "table-v5-throughput-zen3-likely.json",
    ]


def test_results_of_no_commit_are_not_kept(out: Path) -> None:
    """Nor is any other then: half of them would be of another commit."""
    _measured(out, "demo")
    _measured(out, "redis", provenance={"commit": "0123456789ab-changed"})
    with pytest.raises(FerryError, match="changes that no commit has"):
        command.keep()
    assert not figures.FOLDER.exists()


@pytest.mark.parametrize(
    "more",
    [
        {"runs": [{"engine": "cpu", "records": ["c0ffee"]}, {"engine": "dcbm"}]},
        {"tables": [{"cells": [{"engine": "dcbm", "records": []}]}]},
        {"headline": {"cells": [{"engine": "dcbm"}]}},
    ],
)
def test_a_cell_without_its_records_is_not_kept(out: Path, more: dict[str, Any]) -> None:
    """Of a result, of a table within it, or of what demo has beside its own."""
    _measured(out, "redis")
    _measured(out, "demo", **more)
    with pytest.raises(FerryError, match="1 without records, first engine dcbm"):
        command.keep()
    assert not figures.FOLDER.exists()


def _recorded(name: str, said: str) -> None:
    store.Store({"date": "2026-11-30"}).keep(name, {"title": "none"}, said)


def test_records_are_kept_with_their_result(out: Path) -> None:
    """Also those that out/records has lost since they were kept."""
    _recorded("c0ffee", "a line")
    _recorded("beef", "another")
    _measured(out, "redis", runs=[{"engine": "cpu", "records": ["c0ffee"]}])
    command.keep()
    place = figures.FOLDER / "redis.json"
    assert lines.place(place) == figures.FOLDER / "records/redis.jsonl.xz"
    before = lines.place(place).read_bytes()
    (store.folder() / "c0ffee.json").unlink()
    command.keep()
    assert lines.place(place).read_bytes() == before
    _measured(out, "redis", runs=[{"engine": "cpu", "records": ["c0ffee", "beef"]}, {"records": ["beef"]}])
    command.keep()
    kept = {name: json.loads(line) for name, line in lines.kept(place).items()}
    assert {name: record["said"] for name, record in kept.items()} == {"beef": "another", "c0ffee": "a line"}
    assert kept["beef"]["date"] == "2026-11-30"


def test_a_result_whose_record_is_lost_is_not_kept(out: Path) -> None:
    _recorded("beef", "another")
    _measured(out, "demo", runs=[{"engine": "cpu", "records": ["beef"]}])
    _measured(out, "redis", runs=[{"engine": "cpu", "records": ["c0ffee"]}])
    with pytest.raises(FerryError, match="redis: record c0ffee is lost: measure it again"):
        command.keep()
    assert not figures.FOLDER.exists()


def test_kept_records_are_those_that_the_results_name() -> None:
    """None is kept for a result that has others, or that is not kept any more."""
    for path in (figures.FOLDER / lines.FOLDER).glob("*"):
        result = figures.FOLDER / f"{path.name.removesuffix(lines.SUFFIX)}.json"
        assert sorted(lines.kept(result)) == lines.names(json.loads(result.read_text())), path


def test_results_of_another_base_are_not_kept(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _measured(out, "demo")
    monkeypatch.setattr(paths, "BASE", "1.0")
    with pytest.raises(UsageError, match=f"--keep is for results of base {paths.DEFAULT_BASE}"):
        command.keep()
    assert not figures.FOLDER.exists()


def test_pictures_are_of_the_kept_results(kept: Kept) -> None:
    drawn = [picture.picture(kept[name]) for name in ("profile", "table-v5-batch")]
    assert all(data and data.startswith(b"\x89PNG") for data in (command._headline(kept), *drawn))
    assert picture.picture(kept["cost"]) is None
