# SPDX-License-Identifier: GPL-2.0
"""A redis-server under load on the emulated server: its data is whole after each move."""

import pytest

from ferry.bench import clients
from ferry.server import profile

pytestmark = pytest.mark.vm

PLAN = clients.Plan(keys=1024, requests=20000, trips=1)


def test_a_server_that_moves_serves_its_clients() -> None:
    """measure() fails if a byte has changed or something was left behind."""
    cells = [clients.Cell("4K", "vanilla"), clients.Cell("4K", "dcbm")]
    found, kernels = clients.measure(PLAN, profile.load("zen3").as_machine(), cells)
    assert [clients.Cell(row["folio"], row["engine"]) for row in found] == cells
    assert kernels.keys() == {"vanilla", "ferry"}
    assert all(move["requests"] > 0 for row in found for move in row["moves"])
    assert all(row["still"]["per_second"] > row["moved"]["per_second"] for row in found)
