# SPDX-License-Identifier: GPL-2.0
"""Who moves memory between tiers, and in which order of addresses: vanilla, Ferry's kernel, all channels."""

from __future__ import annotations

from ferry.bench.cell import Cell
from ferry.bench.sizes import parse_size
from ferry.tables import sensitivity

BYTES = 64 << 20
# Call, order, folio sizes, and how many moves come before the one that is counted. What compaction moves
# depends on what is free where, which settles after three.
CALLERS = (
    ("move_pages", "random", ("4K", "16K", "64K"), 1),
    ("move_pages", "scattered", ("4K", "16K"), 1),
    ("promote", "random", ("4K", "64K"), 1),
    ("promote", "up", ("2M",), 1),
    ("demote", "random", ("4K", "16K", "64K"), 1),
    ("demote", "up", ("2M",), 1),
    ("compact", "up", ("4K",), 3),
)
# Each page in its fault, or several at once.
PROMOTE_WAYS: tuple[tuple[tuple[str, int], ...], ...] = ((), (("vm.migrate_promote_batch", 16),))
ENGINES = (("vanilla", 0), ("none", 0), ("ferry", sensitivity.CHANNELS))


def cells(size: int, runs: int, quick: bool) -> list[Cell]:
    """So many bytes of each, or some of them alone."""
    return [
        Cell(
            *(engine, folio, size // parse_size(folio), channels),
            runs=runs,
            latency=call == "move_pages",
            call=call,
            order=order,
            warmup=warmup,
            settings=way,
        )
        for call, order, folios, warmup in (CALLERS[:: len(CALLERS) // 2] if quick else CALLERS)
        for folio in folios
        for engine, channels in ENGINES
        for way in (PROMOTE_WAYS if (call, folio) == ("promote", "4K") and engine != "vanilla" else ((),))
    ]
