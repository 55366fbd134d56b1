# SPDX-License-Identifier: GPL-2.0
"""A running server that is moved: nothing counts unless its data is whole, and all of it came."""

from pathlib import Path

import pytest

from ferry.bench import clients
from ferry.cli import main
from ferry.errors import FerryError
from tests.unit.said import record

PLAN = clients.Plan(keys=1000, value_bytes=4096, requests=1000, trips=1)
CELL = clients.Cell("4K", "dcbm")
STILL = (1000.00, 0.066, 0.032, 0.063, 0.111, 0.119, 0.279)
MOVED = (800.00, 0.107, 0.032, 0.071, 0.111, 1.367, 5.967)


def said(huge: int = 0, last: tuple[int, ...] = (990,), digest: str = "0f") -> str:
    """What a guest says, or something else in a place of it; last: the pages of moves after the first."""
    return "".join(
        (
            record("digest", hex="0f") + record("huge", kib=huge),
            *(record("move", us=20000, requests=requests, pages=0) for requests in (10, 11)),
            record("load", of="still", figures=STILL) + record("move", us=100000, requests=50, pages=1000),
            *(record("move", us=90000, requests=40, pages=pages) for pages in last),
            record("load", of="moved", figures=MOVED) + record("digest", hex=digest),
        )
    )


def test_load_and_moves_are_read() -> None:
    measured = clients.parse(said(), CELL, PLAN)
    names = ("per_second", "median_ms", "p99_ms", "longest_ms")
    assert measured["still"] == dict(zip(names, (1000, 0.063, 0.119, 0.279), strict=True))
    assert measured["moved"] == dict(zip(names, (800, 0.071, 1.367, 5.967), strict=True))
    assert measured["moves"] == [
        {"us": 100000, "requests": 50, "bytes": 4096000},
        {"us": 90000, "requests": 40, "bytes": 4055040},
    ]
    # 1000 requests took 1 s, and 1.25 s with two moves
    assert measured["lost_ms_per_move"] == pytest.approx(125)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (said(digest="0e"), "digest was"),
        (said(last=(700,)), "not all was moved"),
        (said(last=()), "not all was moved"),
        (said(huge=2048), "2048 KiB of it are huge"),
    ],
)
def test_what_was_not_moved_right_counts_for_nothing(text: str, why: str) -> None:
    with pytest.raises(FerryError, match=why):
        clients.parse(text, CELL, PLAN)


def test_libraries_come_with_their_programs() -> None:
    found = clients.with_libraries(["bash"])
    assert found["usr/bin/bash"] == Path("/usr/bin/bash").resolve()
    assert any(name.endswith("/libc.so.6") for name in found)
    assert all(path.is_file() for path in found.values())


@pytest.mark.parametrize("option", ["--folio=8K", "--engine=vanilla,fast"])
def test_unknown_names_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["redis", option]) == 2
    assert "choose from" in capsys.readouterr().err
