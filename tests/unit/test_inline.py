# SPDX-License-Identifier: GPL-2.0
"""A kept figure within a sentence is written from the result that its comment names, never by hand."""

from typing import Any

import pytest

from ferry.errors import FerryError
from ferry.results import inline

CELLS = [
    {"folio_kib": 2048, "engine": "ferry", "channels": 16, "parameter": "iommu", "value": "lazy", "ratio": 5},
    {"folio_kib": 2048, "engine": "ferry", "channels": 16, "ratio": 6.614, "away": {"p50": 1234.4}},
    {"folio_kib": 2048, "engine": "vanilla", "ratio": 1.0, "away": {"p50": 2000.0}},
    {"folio_kib": 64, "engine": "dma", "parameter": "several", "value": "small=9 iommu=off", "ratio": 4},
    {"folio_kib": 64, "engine": "dma", "batch_pages": 512, "ratio": 3},
    {"folio_kib": 64, "engine": "dma", "batch_pages": 8192, "ratio": 2},
]


def _fill(text: str) -> str:
    results: dict[str, dict[str, Any]] = {"table-a": {"cells": CELLS}}
    return inline.fill(text, results)


@pytest.mark.parametrize(
    ("wrong", "said", "right"),
    [
        ("6.59", "2M ferry x16 ratio", "6.61"),
        ("6", "2M ferry ratio", "7"),
        ("4.9", "2M ferry iommu=lazy ratio", "5.0"),
        ("99", "2M ferry away.p50", "1,234"),
        ("9.9", "64K dma several=small=9 iommu=off ratio", "4.0"),
        ("9.9", "64K dma batch=8192 ratio", "2.0"),
        ("9.99", "2M vanilla away.p50 over 2M ferry away.p50", "1.62"),
        ("1 %", "2M ferry away.p50 than 2M vanilla away.p50", "38 %"),
    ],
)
def test_figure_is_that_of_the_cell(wrong: str, said: str, right: str) -> None:
    """With as many decimals as stand there; the plainest cell is meant if several are called so."""
    assert _fill(f"is {wrong}<!-- = table-a: {said} --> so") == f"is {right}<!-- = table-a: {said} --> so"


def test_figure_of_a_caller_is_that_of_its_plainest_case() -> None:
    cell = {"folio_kib": 4, "engine": "cpu", "instructions": 5918.6}
    cases = ("promote", "move_pages, random order, 2 CPUs", "move_pages, random order")
    costs = [cell | {"case": case, "vanilla": 6000 + n} for n, case in enumerate(cases)]
    text = "1<!-- = cost: 4K cpu move_pages random vanilla -->"
    assert inline.fill(text, {"cost": {"costs": costs}}) == text.replace("1", "6,002", 1)


def test_cell_that_is_not_there_is_named() -> None:
    with pytest.raises(FerryError, match="no cell '64K ferry'"):
        _fill("1.0<!-- = table-a: 64K ferry ratio -->")


@pytest.mark.parametrize(
    "text", ["much<!-- = table-a: 2M ferry ratio -->", "1<!-- = table-a 2M ferry ratio -->"]
)
def test_comment_that_fills_nothing_is_refused(text: str) -> None:
    with pytest.raises(FerryError, match="follows no figure"):
        _fill(text)
