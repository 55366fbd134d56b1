# SPDX-License-Identifier: GPL-2.0
"""Applications on two tiers: nothing counts unless all bytes are right and memory has moved both ways."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferry import paths
from ferry.bench import rows, tier
from ferry.cli import main
from ferry.errors import FerryError
from ferry.results import blocks, figures
from ferry.vm import records
from tests.unit.said import SHELLS, by_job, record

PLAN = tier.Plan()
FOUND: dict[str, Any] = {
    **{"requests": 1000, "per_second": 500.0, "promoted": 30, "demoted": 20, "move_ns": 100000},
    **{"mismatches": 0, "misplaced": 0, "left": 0, "verified_bytes": 4096},
}
POOL, REDIS, ARENA = (
    tier.cells(PLAN, (name,), tier.ENGINES, (tier.BALANCING,)) for name in tier.APPLICATIONS
)
LEFT = tier.cells(PLAN, tier.APPLICATIONS, tier.ENGINES, (tier.DAMON,))  # to DAMON


def said(**other: Any) -> str:
    """What a guest says, or something else of it."""
    return record("tier", found=FOUND | other)


def test_each_application_has_each_engine() -> None:
    for cells in (POOL, REDIS, ARENA, LEFT):
        assert cells[0].engine == rows.VANILLA
        assert {cell.engine for cell in cells} == set(tier.ENGINES)
        assert all((cell.channels > 0) == (cell.engine == "dcbm") for cell in cells)
    names = [str(cell) for cell in (*POOL, *REDIS, *ARENA, *LEFT)]
    assert len(set(names)) == len(names)
    assert {cell.settings for cell in REDIS if cell.engine == rows.VANILLA} == {()}


def test_a_pool_is_read() -> None:
    found = tier.parse(said(), POOL[0], "name")
    assert found["move_us_per_folio"] == 2
    (cell,) = tier.with_ratios(POOL[:1], [found])
    assert (cell["ratio"], cell["records"]) == (1, ["name"])
    assert "gain" not in cell


def test_migrations_of_a_server_are_those_traced() -> None:
    traced = record("migration", found={"ns": 8000, "calls": 2, "pages": 4})
    found = tier.parse(said(kswapd_ns=3000000) + traced, REDIS[0])
    assert [found[name] for name in ("move_us_per_folio", "pages_per_call", "kswapd_ms")] == [2, 2, 3]
    with pytest.raises(FerryError, match="nothing has moved while"):
        tier.parse(said(kswapd_ns=1) + traced.replace('"pages": 4', '"pages": 0'), REDIS[0])
    with pytest.raises(FerryError, match="0 records 'migration'"):
        tier.parse(said(kswapd_ns=3000000), REDIS[0])


def test_an_arena_is_compared_with_vanillas_move_pages() -> None:
    by = {(cell.case, cell.engine): cell for cell in ARENA if cell.folio == "4K"}
    keys = [("arena, move_pages", "vanilla"), ("arena, memcpy", "vanilla"), ("arena, move_pages", "cpu")]
    times = (30, 20, 29.9)
    found = [tier.parse(said(moves=[{"us": us}] * 2), by[key]) for key, us in zip(keys, times, strict=True)]
    cells = tier.with_ratios([by[key] for key in keys], found)
    assert [cell["ratio"] for cell in cells] == pytest.approx([1, 1.5, 30 / 29.9])
    assert [cell.get("gain") for cell in cells] == [None, "+50.0 %", "nothing (+0.3 %)"]


@pytest.mark.parametrize(
    ("application", "cells"),
    [*zip((*tier.APPLICATIONS, "damon"), (POOL, REDIS, ARENA, LEFT), strict=True)],
)
def test_the_docs_have_a_line_for_each_cell(application: str, cells: list[tier.Cell], tmp_path: Path) -> None:
    traced = record("migration", found={"ns": 8000, "calls": 2, "pages": 4}) + record("large", folios=1 << 20)
    moves = [{"us": 5}] if application == "arena" else []
    found = [tier.parse(said(kswapd_ns=1, kdamond_ns=1, moves=moves) + traced, cell) for cell in cells]
    known = {"date": "2026-11-28", "commit": "0123", "kernels": {"vanilla": {"release": "6.12.1-vanilla"}}}
    result = {
        "provenance": known,
        "cells": [*tier.with_ratios(cells, found), {"case": "another", "engine": "cpu"}],
    }
    (tmp_path / "tier.json").write_text(json.dumps(result))
    told, _, table = figures.BLOCKS[f"tier-{application}"](figures.Kept(tmp_path)).partition("\n\n")
    assert told == "2026-11-28, commit 0123, Linux 6.12.1:"
    head, _, *lines = table.splitlines()
    assert len(lines) == len(cells)
    assert head.count("|") == len(blocks.TIER_COLUMNS[application]) + 1


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"mismatches": 1}, "'mismatches': 1"),
        ({"misplaced": 3}, "'misplaced': 3"),
        ({"left": 2}, "'left': 2"),
        ({"verified_bytes": 0}, "0 bytes verified"),
        ({"promoted": 0}, "0 promoted"),
        ({"demoted": 0}, "0 demoted"),
    ],
)
def test_what_went_wrong_counts_for_nothing(other: dict[str, int], why: str) -> None:
    with pytest.raises(FerryError, match=why):
        tier.parse(said(**other), POOL[0])


@pytest.mark.parametrize(("moved", "enough"), [((3, 0), True), ((0, 3), True), ((0, 0), False)])
def test_damon_may_find_one_of_hot_and_cold(moved: tuple[int, int], enough: bool) -> None:
    cell = next(cell for cell in POOL if cell.tiering == tier.BALANCING)
    left = replace(cell, application="redis", tiering=tier.DAMON)
    text = said(promoted=moved[0], demoted=moved[1], kdamond_ns=5) + record(
        "migration", found={"ns": 10, "calls": 1, "pages": 3}
    )
    if enough:
        assert tier.parse(text, left)["promoted"] == moved[0]
        return
    with pytest.raises(FerryError, match="0 promoted, 0 demoted"):
        tier.parse(text, left)


def test_a_buffer_must_be_a_folio() -> None:
    large = next(cell for cell in POOL if cell.folio != "4K")
    tier.parse(said() + record("large", folios=large.folios), large)
    with pytest.raises(FerryError, match="large folios instead of"):
        tier.parse(said() + record("large", folios=large.folios - 1), large)
    with pytest.raises(FerryError, match="0 records 'large'"):
        tier.parse(said(), large)


SWITCH = "[000] d.... {}: sched_switch: prev_comm=a prev_pid={} ==> next_comm=b next_pid={}"
TRACE = f"""# tracer: nop
 redis-server-9 [000] ..... 100: mm_migrate_pages_start: mode=
 redis-server-9 {SWITCH.format(150, 9, 35)}
 kswapd0-35 [000] ..... 200: mm_migrate_pages_start: mode=
 kswapd0-35 {SWITCH.format(260, 35, 9)}
 redis-server-9 [000] ..... 300: mm_migrate_pages: nr_succeeded=3 nr_failed=0
 redis-server-9 {SWITCH.format(310, 9, 35)}
 kswapd0-35 [000] ..... 330: mm_migrate_pages: nr_succeeded=32 nr_failed=0
"""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("lost", [0, 1])
def test_who_waits_is_not_in_migrate_pages(shell: str, lost: int, tmp_path: Path) -> None:
    (tmp_path / "given").write_text(TRACE)
    script = f"""
TRACE=$WORK/trace
mkdir() {{
	for one in migrate/mm_migrate_pages_start migrate/mm_migrate_pages sched/sched_switch; do
		command mkdir -p "$TRACE/events/$one"
	done
	command mkdir -p "$TRACE/per_cpu/cpu0"
	echo "overrun: {lost}" >"$TRACE/per_cpu/cpu0/stats"
	cp given "$TRACE/trace"
}}
rmdir() {{ :; }}
migration_time true"""
    status, text = by_job(tmp_path, script, shell=shell, libraries=("redis.sh", "tier.sh"))
    if lost:
        assert "not whole" in records.of(text, "error")["text"]
    else:
        assert status == 0
        found = {"ns": 50 + 60 + 40 + 20, "calls": 2, "pages": 35}
        assert records.of(text, "migration")["found"] == found


def test_damon_moves_what_would_not_move_itself() -> None:
    assert {(cell.application, cell.folio) for cell in LEFT} == {
        ("redis", "4K"),
        ("pool", "4K"),
        ("pool", "2M"),
    }
    assert {cell.engine for cell in LEFT} == set(tier.ENGINES)
    assert "damon_tiering()" in tier.script(LEFT[0])
    assert "damon" not in tier.script(POOL[0])
    large = next(cell for cell in LEFT if cell.folio == "2M")
    traced = record("migration", found={"ns": 8000, "calls": 2, "pages": 1024}) + record("large", folios=256)
    found = tier.parse(said(kdamond_ns=3000000) + traced, large)
    assert [found[name] for name in ("tiering", "move_us_per_folio", "kdamond_ms")] == ["damon", 4, 3]
    assert "kswapd_ms" not in found


def test_a_base_whose_damon_has_no_goals_is_measured_without() -> None:
    assert tier.tierings("6.12") == ("balancing",)
    assert tier.tierings(paths.DEFAULT_BASE) == ("balancing", "damon")


ZONES = """\
Node 0, zone      DMA
  pages free     3840
        high     100
        spanned  4095
        managed  4000
  start_pfn:           1
Node 0, zone    DMA32
        high     150
        spanned  258048
        managed  240000
  start_pfn:           4096
Node 0, zone   Device
        spanned  0
Node 1, zone    DMA32
        high     900
        spanned  262144
        managed  250000
  start_pfn:           262144
"""


def damon(folder: Path, shell: str, script: str) -> tuple[int, str]:
    """What a job does that DAMON's part begins, where its files are those of a folder."""
    (folder / "zones").write_text(ZONES)
    there = "KDAMONDS=$WORK/kdamonds ZONEINFO=$WORK/zones\nuname() { echo 7.3.4; }\n"
    return by_job(folder, there + script, shell=shell, libraries=("redis.sh", "tier.sh", "damon.sh"))


@pytest.mark.parametrize("shell", SHELLS)
def test_damon_is_told_what_to_do(shell: str, tmp_path: Path) -> None:
    (tmp_path / "kdamonds").mkdir()
    (tmp_path / "kdamonds/nr_kdamonds").touch()
    script = 'tell() { mkdir -p "$KDAMONDS/${1%/*}" && echo "$2" >"$KDAMONDS/$1"; }\ndamon_tiering'
    status, _ = damon(tmp_path, shell, script)
    assert status == 0
    told = {
        (thread, name): (tmp_path / f"kdamonds/{thread}/contexts/0/{name}").read_text().strip()
        for thread in (0, 1)
        for name in (
            *("operations", "targets/0/regions/0/start", "targets/0/regions/0/end", "schemes/0/action"),
            *("schemes/0/target_nid", "schemes/0/quotas/goals/0/target_metric"),
            *("schemes/0/quotas/goals/0/target_value", "schemes/0/ops_filters/0/allow"),
        )
    }
    # 250 of 244,000 pages are 10.2 hundredths of a percent.
    cold = ["paddr", "4096", str(262144 * 4096), "migrate_cold", "1", "node_mem_free_bp", "211", "N"]
    far = [str(262144 * 4096), str(524288 * 4096)]
    hot = ["paddr", *far, "migrate_hot", "0", "node_mem_used_bp", "9989", "Y"]
    assert list(told.values()) == [*cold, *hot]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_kernel_whose_damon_cannot_is_named(shell: str, tmp_path: Path) -> None:
    status, text = damon(tmp_path, shell, "damon_tiering")
    assert status == 1
    assert "kernel 7.3.4 has no " in (why := records.of(text, "error")["text"])
    assert "CONFIG_DAMON_SYSFS" in why
    (tmp_path / "kdamonds/0/contexts/0/schemes/0/quotas").mkdir(parents=True)
    (tmp_path / "kdamonds/nr_kdamonds").touch()
    status, text = damon(tmp_path, shell, "tell 0/contexts/0/schemes/0/quotas/goals/0/nid 0")
    assert status == 1
    assert (
        records.of(text, "error")["text"]
        == "DAMON of kernel 7.3.4 does not take '0' as schemes/0/quotas/goals/0/nid"
    )


@pytest.mark.parametrize("option", ["--application=mysql", "--engine=vanilla,fast", "--tiering=memtis"])
def test_unknown_names_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tier", option]) == 2
    assert "choose from" in capsys.readouterr().err


def test_what_damon_does_not_move_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tier", "--application=arena", "--tiering=damon"]) == 2
    assert "DAMON moves nothing of arena: choose pool or redis" in capsys.readouterr().err


@pytest.fixture(scope="module")
def tierbench(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program, built elsewhere."""
    program = tmp_path_factory.mktemp("bench") / "tierbench"
    sources = [*(paths.ROOT / "bench/tierbench").glob("*.c"), paths.ROOT / "bench/common.c"]
    names = ('-DPROGRAM="tierbench"', '-DVERSION="1.2"')
    subprocess.run(["gcc", "-O1", *names, "-o", program, *sources, "-lm", "-pthread"], check=True)
    return str(program)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "no such mode"),
        (["swim"], "no such mode"),
        (["pool", "--pages", "1"], "not understood"),
        (["pool", "--items", "x"], "not understood"),
        (["pool", "--items"], "not understood"),
        (["pool", "--page", "5000"], "power of two"),
        (["pool", "--near", "16384"], "--near must be"),
        (["pool", "--batch", "3000"], "--batch at most"),
        (["load", "--socket", "nowhere"], "cannot connect"),
        (["fill"], "--socket must"),
    ],
)
def test_the_program_says_what_is_wrong(tierbench: str, args: list[str], why: str) -> None:
    done = subprocess.run([tierbench, *args], capture_output=True, text=True, check=False)
    assert done.returncode == (4 if "connect" in why else 2)
    assert done.stderr.startswith("tierbench: ")
    assert why in done.stderr


def test_the_program_says_its_version(tierbench: str) -> None:
    assert (
        subprocess.run([tierbench, "--version"], capture_output=True, text=True).stdout == "tierbench 1.2\n"
    )


REDIS_LIKE = """
import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(1)
print("ready", flush=True)
kept = {}
for _ in range(2):
    stream = server.accept()[0].makefile("rwb", buffering=0)
    stream = __import__("io").BufferedRWPair(stream, stream)
    while count := stream.readline():
        words = []
        for _ in range(int(count[1:])):
            words.append(stream.read(int(stream.readline()[1:])))
            stream.readline()
        if words[0] == b"SET":
            kept[words[1]] = words[2]
            stream.write(b"+OK\\r\\n")
        else:
            value = kept[words[1]]
            if len(sys.argv) > 2 and words[1] == sys.argv[2].encode():
                value = value[:-1] + bytes([value[-1] ^ 1])
            stream.write(b"$%d\\r\\n%s\\r\\n" % (len(value), value))
        stream.flush()
"""


@pytest.mark.parametrize("broken", ["", "key:0000000003"])
def test_the_load_notices_a_wrong_byte(tierbench: str, tmp_path: Path, broken: str) -> None:
    where = str(tmp_path / "socket")
    command = ["python3", "-c", REDIS_LIKE, where, *filter(None, [broken])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        server.stdout.readline()
        args = ["--socket", where, "--items", "8"]
        subprocess.run([tierbench, "fill", *args], check=True)
        words = [tierbench, "load", *args, "--requests", "400", "--warmup", "10"]
        text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found = json.loads(text)
    assert found["requests"] == 400
    assert found["verified_bytes"] == 410 * 4096
    assert (found["mismatches"] > 0) == bool(broken)
    assert found["us"]["p50"] <= found["us"]["p99_9"] <= found["us"]["max"]
