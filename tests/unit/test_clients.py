# SPDX-License-Identifier: GPL-2.0
"""A running server that is moved: nothing counts unless its data is whole, and all of it came."""

from pathlib import Path

import pytest

from ferry.bench import clients
from ferry.cli import main
from ferry.errors import FerryError

PLAN = clients.Plan(keys=1000, value_bytes=4096, requests=1000, trips=1)
CELL = clients.Cell("4K", "dcbm")
SAID = [
    "digest 0f",
    "huge_kib 0",
    "move 20000 10 0",
    "move 20000 11 0",
    'load still "GET key:__rand_int__","1000.00","0.066","0.032","0.063","0.111","0.119","0.279"',
    "move 100000 50 1000",
    "move 90000 40 990",
    'load moved "GET key:__rand_int__","800.00","0.107","0.032","0.071","0.111","1.367","5.967"',
    "digest 0f",
]


def but(old: str, new: str) -> list[str]:
    """What was said, with something else instead of a line."""
    assert old in SAID
    return [new if line == old else line for line in SAID]


def test_load_and_moves_are_read() -> None:
    found = clients.parse(SAID, CELL, PLAN)
    assert found.still == clients.Load(1000, 0.063, 0.119, 0.279)
    assert found.moved == clients.Load(800, 0.071, 1.367, 5.967)
    assert found.moves == (clients.Move(100000, 50, 4096000), clients.Move(90000, 40, 4055040))
    # 1000 requests took 1 s, and 1.25 s with two moves
    assert found.lost_ms(1000) == pytest.approx(125)
    assert found.as_json(PLAN)["lost_ms_per_move"] == pytest.approx(125)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("digest 0f", "digest", "digest was"),
        ("move 90000 40 990", "move 90000 40 700", "not all was moved"),
        ("move 90000 40 990", "", "not all was moved"),
        ("huge_kib 0", "huge_kib 2048", "2048 KiB of it are huge"),
    ],
)
def test_what_was_not_moved_right_counts_for_nothing(old: str, new: str, why: str) -> None:
    lines = but(old, new)
    if old == "digest 0f":
        lines = [*SAID[:-1], "digest 0e"]
    with pytest.raises(FerryError, match=why):
        clients.parse(lines, CELL, PLAN)


def test_libraries_come_with_their_programs() -> None:
    found = clients.with_libraries(["bash"])
    assert found["usr/bin/bash"] == Path("/usr/bin/bash").resolve()
    assert any(name.endswith("/libc.so.6") for name in found)
    assert all(path.is_file() for path in found.values())


@pytest.mark.parametrize("option", ["--folio=8K", "--engine=vanilla,fast"])
def test_unknown_names_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["redis", option]) == 2
    assert "is none of" in capsys.readouterr().err
