# SPDX-License-Identifier: GPL-2.0
"""Applications on the emulated server with two tiers: memory moves both ways, and every byte is right."""

import pytest

from ferry.bench import tier
from ferry.server import profile

pytestmark = pytest.mark.vm

PLAN = tier.Plan(
    pools=(tier.Pool("4K", 2048, 512, 256, 20000, 0), tier.Pool("2M", 16, 4, 2, 500, 0)),
    redis_requests=40000,  # fewer, and NUMA balancing has not looked twice
    redis_warmup=0,
    traced_requests=10000,
    left_pools=(tier.LeftPool("4K", 16384, 80, 2000000, 0, 200000),),
    arenas=(tier.Arena("4K", 16384, "memcpy"), tier.Arena("4K", 16384, "move_pages")),
    arena_moves=2,
)


def test_memory_moves_up_and_down_and_is_whole() -> None:
    """measure() fails if a byte is wrong, a page is not where the pool has it, or none went up or down."""
    cells = tier.cells(PLAN, tier.APPLICATIONS, ("vanilla", "dcbm"), (tier.BALANCING,))
    found, kernels = tier.measure(profile.load("cxl").as_machine(), cells)
    assert kernels.keys() == {"vanilla", "ferry"}
    by = {str(cell): each for cell, each in zip(cells, found, strict=True)}
    for batch, folio in ((256, "4K"), (2, "2M")):
        one, other = (by[f"pool, {batch} buffers a call, {folio}, {name}"] for name in ("vanilla", "dcbm"))
        assert one["promoted"] == other["promoted"] == one["demoted"]
        assert other["move_ns"] < one["move_ns"]
    copied, moved = (by[f"arena, {by_}, 4K, vanilla"]["us"]["max"] for by_ in ("memcpy", "move_pages"))
    assert copied < moved


@pytest.mark.long
def test_damon_moves_up_and_down() -> None:
    """It needs a second of load before it promotes."""
    cells = tier.cells(PLAN, ("pool",), ("vanilla", "dcbm"), (tier.DAMON,))
    found, _ = tier.measure(profile.load("cxl").as_machine(), cells)
    assert [each["tiering"] for each in found] == [tier.DAMON] * 2
    assert all(each["kdamond_ms"] > 0 for each in found)
