# SPDX-License-Identifier: GPL-2.0
"""Tables: their cells, the posted figures beside them, and how both are shown."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from matplotlib import pyplot

from ferry import cli, paths
from ferry.bench import cell, rows
from ferry.bench.cell import Cell, Measured
from ferry.bench.sizes import parse_size
from ferry.commands import table as table_command
from ferry.errors import FerryError, UsageError
from ferry.results import compare, page, picture, present, report
from ferry.server import profile
from ferry.tables import experiments, here, runner, sensitivity
from ferry.tables.experiments import Scale
from tests.unit import said

ROW = rows.Row(
    call="move_pages", memory="anon", folio_kib=2048, engine="", channels=0, bytes=1, runs=1, threads=1,
    busy=0, folios_per_call=0, gbps=2.0, gbps_min=2.0, gbps_max=2.0, ratio=None, first_folio_us=None,
    inaccessible_us={"p50": None, "p99": None, "max": None}, cpu_ns_per_page=1.0, verified_bytes=1,
)  # fmt: skip


def _found(one: Cell, gbps: float) -> Measured:
    return Measured(one, rows.Row(**{**ROW.as_json(), "gbps": gbps}))


def _cells(name: str, quick: bool) -> list[Cell]:
    table = experiments.get(name)
    return table.cells(table.posted_figures, Scale(quick=quick))


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", experiments.TABLES)
def test_cells_are_sound(name: str, quick: bool) -> None:
    """None twice; each folio size has its vanilla; of as many folios; all fit into a node."""
    cells = _cells(name, quick)
    assert len(set(cells)) == len(cells)
    assert {each.folio for each in cells} == {each.folio for each in cells if each.engine == "vanilla"}
    assert max(each.bytes for each in cells) <= profile.load("zen3").computer.node_mib << 19
    compared = {(each.folio, each.folios) for each in cells if each.engine != "vanilla"}
    assert compared <= {(each.folio, each.folios) for each in cells if each.engine == "vanilla"}


@pytest.mark.parametrize("name", experiments.TABLES)
def test_quick_is_part_of_the_whole_experiment(name: str) -> None:
    quick, whole = _cells(name, True), _cells(name, False)
    assert len(quick) < len(whole)
    assert {each.engine for each in quick} == {each.engine for each in whole}


def test_posted_ratio_is_to_posted_vanilla() -> None:
    table = experiments.get("v5-throughput")
    figures = experiments.published()["v5"]
    assert table.published(figures, Cell("dma", "2M", 48, 16, 512)).published_ratio == pytest.approx(
        65.23 / 11.02
    )
    assert table.published(figures, Cell("vanilla", "4K", 48)).published_ratio == 1
    most = table.published(figures, Cell("ferry", "1M", 96, 1))
    assert most == experiments.Posted(published_most_ratio=65.23 / 7.13)
    batch = experiments.get("v5-batch")
    posted = batch.published(figures, Cell("dma", "2M", 48, 16, 8192))
    assert (posted.published_ratio, posted.published_first_folio_us) == (58.72 / 10.88, 470)
    assert batch.published(figures, Cell("vanilla", "2M", 999)) == experiments.NOTHING


@pytest.mark.parametrize("name", experiments.TABLES)
def test_each_cell_of_earlier_work_has_what_was_posted(name: str) -> None:
    table = experiments.get(name)
    found = experiments.compare(table, [_found(each, 1.0) for each in _cells(name, False)])
    assert any("published_ratio" in each for each in found) == bool(table.source), "nobody has posted these"


def test_posted_reads_are_those_of_the_engine() -> None:
    table, known = experiments.get("userspace"), experiments.published()["userspace"]
    vanilla, dma = (
        table.published(known, Cell("vanilla", "4K", 512)),
        table.published(known, Cell("dma", "4K", 512, 1)),
    )
    assert vanilla.published_access_cycles_per_page == {
        "uncached": 793.46,
        "cached": 208.59,
        "post_move": 181.34,
    }
    assert dma.published_ratio == 4930.36 / 15590.80
    assert dma.published_access_cycles_per_page == {"uncached": 799.36, "cached": 208.79, "post_move": 183.21}


def test_ratio_is_to_vanilla_of_as_many_folios() -> None:
    few, many = Cell("vanilla", "2M", 1), Cell("vanilla", "2M", 128)
    found = [_found(few, 1.0), _found(many, 2.0), _found(Cell("ferry", "2M", 128, 16), 6.0)]
    assert [each["ratio"] for each in experiments.compare(experiments.get("v5-batch"), found)] == [
        0.5,
        1.0,
        3.0,
    ]


def test_unknown_table_and_engine() -> None:
    with pytest.raises(UsageError, match="no table 'v6': choose from v5-throughput"):
        experiments.get("v6")
    with pytest.raises(FerryError, match="no engine 'warp'"):
        Cell("warp", "2M", 1)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["v6"], "no table 'v6'"),
        (["v5-batch", "--profile", "moon"], "no profile 'moon'"),
        (["v5-batch", "--profile", "cxl", "--here", "--twice"], "--twice is for virtual time"),
        (["mtcopy", "--twice"], "--twice is for virtual time"),
    ],
)
def test_bad_input_is_one_clear_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "in_vms", None)
    assert cli.main(["table", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"ferry: {why}")
    assert said.count("\n") == 1


def test_all_twice_compares_where_time_is_virtual(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures that are never the same twice are refused where they are all, and else left out."""
    count = itertools.count()

    def measure(table: experiments.Table, *rest: object) -> dict[str, Any]:
        cells = [one | {"gbps": next(count)} for one in _result()["cells"]]
        return _result() | {"table": table.name, "cells": cells if table.wall_time else _result()["cells"]}

    monkeypatch.setattr(table_command, "place", lambda result: tmp_path / f"{result['table']}.json")
    monkeypatch.setattr(table_command, "_measure", measure)
    monkeypatch.setattr(page, "write", list)
    assert cli.main(["table", "all", "--twice", "--json", str(tmp_path / "all.json")]) == 0
    said = capsys.readouterr().err
    assert "v5-batch: " in said
    virtual = [each for each in experiments.TABLES.values() if not each.wall_time]
    assert said.count("two runs the same") == len(virtual)
    assert "not compared: userspace, mtcopy: wall time is never the same twice" in said


def test_profile_with_too_few_channels_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = profile.load("zen3")
    small = replace(small, dma=replace(small.dma, channels=8))
    monkeypatch.setattr(profile, "load", lambda name: small)
    monkeypatch.setattr(paths, "OUT", tmp_path)
    with pytest.raises(UsageError, match=r"needs 16 channels, but profile zen3 has 8: raise dma\.channels"):
        table_command.run(cli.make_parser().parse_args(["table", "sensitivity", "--quick"]))


def test_what_a_profile_has_no_channels_for_is_left_out() -> None:
    table, server = experiments.get("v5-throughput"), profile.load("xeon-ioat")
    cells = table.cells(table.posted_figures, experiments.Scale())
    possible, missing = table_command._on_channels(table, cells, server)
    assert {cell.channels for cell in possible} == {0, 1, 2, 4, 8}
    assert missing == ["12 channels: profile xeon-ioat has 8", "16 channels: profile xeon-ioat has 8"]
    assert table_command._on_channels(table, cells, profile.load("zen3")) == (cells, [])


def test_script_sets_up_once_what_neighbours_share() -> None:
    cells = [Cell("dma", "2M", 4, 16, 512), Cell("dma", "2M", 8, 16, 512), Cell("dma", "2M", 8, 4, 512)]
    script = cell.script(list(enumerate(cells)))
    assert script.count("use_dma 16 256") == 1
    assert script.count("activate dcbm") == 3
    assert script.count("use_dma 4 256") == 1
    assert script.count("use_policy 512 2097152") == 2
    assert script.count(" --folio 2M") == 3


def test_earlier_design_never_lacks_descriptors() -> None:
    assert Cell("dma", "4K", 65536, 1, 65536).engine_lines() == ["use_dma 1 65536"]


def test_cycles_are_per_page() -> None:
    row = {**ROW.as_json(), "passed": True, "mismatched_bytes": 0, "per_call": 0, "runs": [1]}
    bench = said.record("migbench", of="0", found=row)
    cells = [Cell("dma", "4K", 512, 1, 512, cycles=True)]
    cycles = said.record("cycles", of="0", total=5120, moved=512, copies=1024)
    (found,) = cell.parse(bench + cycles, cells).values()
    assert found.cycles == (10.0, 2.0)
    assert found.as_json()["copy_share"] == 0.2
    with pytest.raises(FerryError, match="has moved 32 pages"):
        cell.parse(bench + cycles.replace("512", "32"), cells)


def test_vanilla_has_the_copies_of_the_same_batch() -> None:
    cells = [Cell(engine, "4K", count, cycles=True) for count in (1, 512) for engine in ("vanilla", "cpu")]
    cycles = [(10.0, 0.0), (9.0, 2.0), (8.0, 0.0), (7.0, 1.0)]
    found = [replace(_found(one, 1.0), cycles=each) for one, each in zip(cells, cycles, strict=True)]
    shares = [each["copy_share"] for each in experiments.compare(experiments.get("v1-cycles"), found)]
    assert shares == [0.2, 2.0 / 9.0, 0.125, 1.0 / 7.0]


def test_a_cell_is_alone_and_begins_as_its_state_says() -> None:
    """Nothing that a neighbour has left; another state is another machine, not another measurement."""
    one = Cell("ferry", "4K", 512, 16)
    script = runner.script(one)
    assert script.count(" --folio") == 1
    assert runner.script(replace(one, state=3)) == script.replace("x16", "x16, state 3")
    server = profile.load("zen3").computer
    assert server.in_state(0) == server
    assert server.in_state(3).command_line == (*server.command_line, "ferry_state=3")


def test_range_is_of_all_states_and_each_has_its_own_vanilla() -> None:
    table = experiments.get("v5-throughput")
    states = [
        experiments.compare(table, [_found(Cell("vanilla", "2M", 48), base), _found(THREE[2][0], gbps)])
        for base, gbps in ((2.0, 12.0), (2.5, 12.5), (2.0, 14.0))
    ]
    vanilla, ferry = (rows.with_range(same) for same in zip(*states, strict=True))
    assert ferry["ratio"] == 6.0
    assert ferry["ratio_range"] == (5.0, 7.0)
    assert vanilla["ratio_range"] == (1.0, 1.0)
    assert "ratio_range" not in rows.with_range(states[0][1:])


def test_posted_deviation_is_that_of_the_ratio() -> None:
    """65.23 +- 1.70 of 11.02 +- 0.17: sqrt((1.70 / 65.23)^2 + (0.17 / 11.02)^2) = 3.03 % of 5.92."""
    dma = _result()["cells"][1]
    assert dma["published_ratio_sd"] == pytest.approx(0.179, abs=0.001)
    (shown,) = (show for name, show in present.COLUMNS if name == "published" and "±" in show(dma))
    assert shown(dma) == "5.92x ± 0.18"


def test_no_batch_has_more_folios_than_the_kernel_collects() -> None:
    folder = paths.ROOT / "kernel/src/mm/migrate_bulk"
    assert "#define BLOCK_LARGE	MIGRATE_SORT_MAX	" in (folder / "move_pages.c").read_text()
    header = (folder / "migrate_bulk.h").read_text()
    assert f"#define MIGRATE_SORT_MAX	{experiments.LIST_FOLIOS}\n" in header
    for name in experiments.TABLES:
        for each in _cells(name, False):
            assert each.batch_pages * 4096 <= experiments.LIST_FOLIOS * parse_size(each.folio)


def test_one_thing_at_a_time_is_varied_around_the_profile() -> None:
    """None of the values is what the profile has: that would be measured twice."""
    server = profile.load("zen3")
    assert server not in [server.varied(*each) for each in sensitivity.values(quick=False)]
    cells = _cells("sensitivity", False)
    assert not [each for each in cells if each.varied and each.engine not in ("dma", "ferry")]
    plain = {replace(each, varied=None) for each in cells if each.varied}
    assert plain == {each for each in cells if each.channels and not each.varied}


def test_the_earlier_design_is_shown_at_its_best_batch() -> None:
    """Those whose batch is as large as can be have a smaller one beside it, wherever that is smaller."""
    cells = [each for each in _cells("sensitivity", False) if each.engine == "dma" and not each.varied]
    batches = {folio: [one.batch_pages for one in cells if one.folio == folio] for folio in ("4K", "2M")}
    assert batches == {"4K": [4096], "2M": [24576, 8192]}
    found = [_found(each, 2.0 + (each.batch_pages == 8192)) for each in cells if each.folio == "2M"]
    vanilla = _found(Cell("vanilla", "2M", 48), 1.0)
    compared = experiments.compare(experiments.get("sensitivity"), [vanilla, *found])
    axes = pyplot.figure().subplots()
    picture._plot_values(axes, compared, "register_ns", 0)
    lines = {line.get_label(): numpy.asarray(line.get_ydata()).tolist() for line in axes.get_lines()}
    assert lines["dma x16"] == [3.0]
    # What was varied together has no value in the profile.
    corner = _found(replace(cells[-1], varied=sensitivity.values(quick=True)[-1]), 2.5)
    result = _result() | {"table": "sensitivity"}
    result["cells"] = experiments.compare(experiments.get("sensitivity"), [vanilla, *found, corner])
    assert picture.picture(result)


def test_a_setting_may_be_a_sysctl() -> None:
    one = Cell("ferry", "2M", 48, 16, settings=(("vm.migrate_copy_mapped", 0),))
    assert one.policy_lines()[-1] == "echo 0 >/proc/sys/vm/migrate_copy_mapped"


def test_a_cell_may_be_on_another_flavour_of_ferrys_kernel() -> None:
    """It says so wherever a cell is named, and is no cell of the usual kernel."""
    one = Cell("dma", "2M", 48, 16, 512, kernel="unbatched", settings=(("ptdma.depth", 1),))
    assert one.flavour == "unbatched"
    assert one.engine_lines() == ["PTDMA_DEPTH=1", "use_dma 16 256"]
    assert one.policy_lines() == ["use_policy 512 2097152"]
    usual, other = experiments.compare(
        experiments.get("v5-throughput"), [_found(THREE[1][0], 1.0), _found(one, 1.0)]
    )
    how = "x16, kernel=unbatched, ptdma.depth=1"
    assert present.engine(other) == f"dma {how}"
    assert one.title == "48 x 2M, dma x16, batches of 512, kernel=unbatched, ptdma.depth=1"
    assert "kernel unbatched" in compare.name(other)
    assert usual["fitted"]
    assert other["fitted"]
    assert other["published_ratio"] == usual["published_ratio"]
    assert present.on_usual_kernels([usual, other]) == [usual]
    possible, lacking = here.split([one, THREE[1][0]], channels=16, free=1 << 30)
    assert (possible, len(lacking)) == ([THREE[1][0]], 1)
    for engine, kernel in (("vanilla", "unbatched"), ("dma", "vanilla")):
        with pytest.raises(UsageError, match=f"engine {engine} is not for kernel {kernel}"):
            Cell(engine, "2M", 48, kernel=kernel)
    with pytest.raises(UsageError, match="no kernel flavour 'moon'"):
        Cell("dma", "2M", 48, kernel="moon")


def test_who_moves_is_told_to_the_bench() -> None:
    """What is not as migbench has it by itself, and nothing else."""
    plain = Cell("none", "4K", 256).bench_lines(0)[-1]
    assert not [word for word in ("--call", "--order", "--warmup") if word in plain]
    line = Cell("none", "4K", 256, call="compact", warmup=3).bench_lines(0)[-1]
    assert "--call compact --from 0 --warmup 3" in line
    line = Cell("none", "4K", 256, call="promote", order="random").bench_lines(0)[-1]
    assert "--call promote --from 1 --to 0 --order random" in line


def test_settings_are_chosen_after_all_others_and_said() -> None:
    one = Cell("ferry", "2M", 48, 16, settings=(("stripe_bytes", 262144), ("window_pages", 2048)))
    assert one.policy_lines() == [
        "use_policy 0 0",
        "echo 262144 >$OFFLOAD/stripe_bytes",
        "echo 2048 >$OFFLOAD/window_pages",
    ]
    said = "ferry x16, stripe_bytes=262144, window_pages=2048"
    assert one.title == f"48 x 2M, {said}"
    assert present.engine(_found(one, 1.0).as_json()) == said


THREE = (
    (Cell("vanilla", "2M", 48), 2.0),
    (Cell("dma", "2M", 48, 16, 512), 11.0),
    (Cell("ferry", "2M", 48, 16), 12.0),
)


def _result() -> dict[str, Any]:
    found = [_found(one, gbps) for one, gbps in THREE]
    compared = experiments.compare(experiments.get("v5-throughput"), found)
    return {
        "table": "v5-throughput",
        "title": "a <title>",
        "profile": "zen3",
        "note": "",
        "quick": True,
        "states": 1,
        "provenance": {
            "kernels": {"vanilla": {"release": "6.12", "config": "c0ffee", "compiler": "gcc"}},
            **{
                "machine": "zen3",
                "cpus": 1,
                "time": "virtual",
                "commit": "abc",
                "date": "2026-11-22",
                "host": "here",
            },
        },
        "missing": [],
        "source": {"title": "posted", "author": "somebody", "link": "https://example.org", "machine": "big"},
        "cells": compared,
    }


def test_json_leaves_out_what_does_not_apply() -> None:
    vanilla, dma, ferry = _result()["cells"]
    assert "channels" not in vanilla
    assert dma["ratio"] == 5.5
    assert dma["published_ratio"] == pytest.approx(65.23 / 11.02)
    assert "published_ratio" not in ferry


def test_residual_is_shown_beside_the_posted_ratio() -> None:
    result = _result()
    dma = result["cells"][1]
    assert present.residual(dma) == "-7 % fitted"
    assert "residual" in present.grid("", result["cells"]).head
    assert "residual" not in present.grid("", result["cells"][2:]).head


def test_fitted_and_predicted_misfits_are_apart() -> None:
    def one(engine: str, ratio: float, **more: Any) -> dict[str, Any]:
        return {"engine": engine, "ratio": ratio, "published_ratio": 2.0, **more}

    cells = [one("dma", 2.1, fitted=True), one("dma", 1.0), one("dma", 3.0), one("vanilla", 1.8)]
    assert present.residuals(cells) == {
        "residuals, fitted": "1 cells, half within 5 %, from +5 to +5 %",
        "residuals, predicted": "2 cells, half within 50 %, from -50 to +50 %",
        "residuals, vanilla": "1 cells, half within 10 %, from -10 to -10 %",
    }


def test_only_the_rows_of_the_fit_are_fitted() -> None:
    table = experiments.get("v5-throughput")
    known = experiments.published()["v5"]
    fitted = {one.folio for one in _cells("v5-throughput", False) if table.published(known, one).fitted}
    assert fitted == set(experiments.FITTED_FREE)
    assert not table.published(known, Cell("vanilla", "2M", 48)).fitted
    batch = experiments.get("v5-batch")
    assert not any(batch.published(known, one).fitted for one in _cells("v5-batch", False))


def test_fitted_server_has_each_posted_cell_as_it_was_posted() -> None:
    table = experiments.get("v5-throughput")
    usual = table.cells(table.posted_figures, experiments.Scale())
    cells = table.cells(table.posted_figures, experiments.Scale(as_posted=True))
    added = [one for one in cells if one not in usual]
    assert len(added) == len(cells) - len(usual) == 36
    assert {(one.engine, one.flavour) for one in added} == {("dma", "unbatched")}
    posted = {(one.folio, one.channels): table.posted(one, experiments.FITTED_SERVER) for one in added}
    assert all(each.published_ratio for each in posted.values())
    assert {key for key, each in posted.items() if each.fitted} == set(experiments.FITTED)
    assert all(one.engine_lines()[:2] == ["PTDMA_DEPTH=1", "DCBM_SHARE_BYTES=65536"] for one in added)
    quick = table.cells(table.posted_figures, experiments.Scale(quick=True, as_posted=True))
    assert not any(one.kernel for one in quick)


@pytest.mark.parametrize(("where", "posted", "fitted"), [("zen3", 2, 1), ("here", 2, 0), ("cxl", 0, 0)])
def test_only_the_posted_server_has_posted_figures(where: str, posted: int, fitted: int) -> None:
    found = [_found(one, gbps) for one, gbps in THREE]
    cells = experiments.compare(experiments.get("v5-throughput"), found, where)
    assert sum("published_ratio" in cell for cell in cells) == posted
    assert sum("fitted" in cell for cell in cells) == fitted
    assert bool(present.residuals(cells)) == (posted > 0)


def test_table_of_another_profile_says_that_nothing_is_posted() -> None:
    args = cli.make_parser().parse_args(["table", "v5-throughput", "--profile", "cxl"])
    table = experiments.get("v5-throughput")
    said = table_command._about(table, profile.load("cxl"), args)["note"]
    assert said == f"{table.note} Nobody has posted figures of cxl: there are none here."
    assert table_command._about(table, profile.load("zen3"), args)["note"] == table.note


@pytest.mark.parametrize(
    "words",
    [["--profile", "cxl"], ["--quick"], ["--one-by-one"], ["--profile", "cxl", "--quick", "--one-by-one"]],
)
def test_page_has_the_command_that_measures_it_again(words: list[str]) -> None:
    line = ["table", "v5-throughput", *words]
    args = cli.make_parser().parse_args(line)
    server = profile.load(args.profile or "zen3")
    about = table_command._about(experiments.get("v5-throughput"), server, args)
    assert f">./ferry --base 6.12 {' '.join(line)}<" in page._facts("", _result() | about)


def test_page_has_all_tables_and_their_pictures(tmp_path: Path) -> None:
    report.write_json(tmp_path / "table-v5-throughput.json", _result())
    *pictures, written = page.write(tmp_path)
    text = written.read_text()
    assert [path.name for path in pictures] == ["table-v5-throughput.png"]
    assert "a &lt;title&gt;" in text
    assert 'src="table-v5-throughput.png"' in text
    assert 'src="http' not in text
    assert pictures[0].read_bytes().startswith(b"\x89PNG")


def test_varied_cells_are_shown_with_what_they_are_compared_to(tmp_path: Path) -> None:
    result = _result()
    varied = ("register_ns", 300)
    slow = _found(Cell("ferry", "2M", 48, 16, varied=varied), 6.0)
    every = [*(_found(one, gbps) for one, gbps in THREE), slow]
    compared = experiments.compare(experiments.get("sensitivity"), every)
    result |= {"table": "sensitivity", "cells": compared}
    result["provenance"]["register_ns"] = 0
    assert [present.varied(each) for each in result["cells"]] == ["", "", "", "register_ns = 300"]
    assert result["cells"][-1]["ratio"] == 3.0
    ((name, draw),) = picture._sweeps(result)[0]
    assert name == "2M folios, register_ns"
    axes = pyplot.figure().subplots()
    draw(axes)
    lines = {line.get_label(): numpy.asarray(line.get_ydata()).tolist() for line in axes.get_lines()}
    assert lines["dma x16"] == [5.5]
    assert lines["ferry x16"] == [6.0, 3.0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "300"]
    report.write_json(tmp_path / "table-sensitivity.json", result)
    drawn, written = page.write(tmp_path)
    assert drawn.name == "table-sensitivity.png"
    assert "register_ns = 300" in written.read_text()


def test_the_legend_names_what_one_panel_alone_has() -> None:
    first, second = pyplot.figure().subplots(2)
    first.plot([1], label="dma x16")
    for name in ("dma x16", "ferry x16"):
        second.plot([1], label=name)
    assert list(picture._names([first, second])) == ["dma x16", "ferry x16"]


def test_equal_results_give_equal_reports(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "table-v5-throughput.json").write_text(json.dumps(_result()))
        made.append([path.read_bytes() for path in page.write(folder)])
    assert made[0] == made[1]
