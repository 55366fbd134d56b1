# SPDX-License-Identifier: GPL-2.0
"""Who moves memory between tiers, what, and in which order: vanilla, Ferry's kernel, all channels."""

from ferry.bench.cell import PROMOTE_BATCH, Cell
from ferry.bench.sizes import parse_size
from ferry.tables import sensitivity

BYTES = 64 << 20
# Call, order, what is moved, and its folio sizes.
CALLERS = (
    ("move_pages", "random", "anon", ("4K", "16K", "64K")),
    ("move_pages", "scattered", "anon", ("4K", "16K")),
    ("move_pages", "up", "shared", ("4K", "64K", "2M")),
    ("move_pages", "up", "weights", ("64K", "2M")),
    ("move_pages", "up", "file", ("4K",)),
    ("move_pages", "up", "hugetlb", ("2M", "1G")),
    ("promote", "random", "anon", ("4K", "64K")),
    ("promote", "up", "anon", ("2M",)),
    ("demote", "random", "anon", ("4K", "16K", "64K")),
    ("demote", "up", "anon", ("2M",)),
    ("compact", "up", "anon", ("4K",)),
)
# How many moves come before the one that is counted. What compaction moves depends on what is free where,
# which settles after three. Of demotion's small calls the CPU gets one, to show what it takes, in the second.
WARMUP = {"compact": 3, "demote": 2}
# The same goes for a folio that is a call. A node of 2 GiB has no room for it.
HUGE = "1G"
HUGE_NODE = ("node_mib", 4096)
# Reclaim isolates at most a 16th of what is inactive: of 64 MiB that is one or two of the largest folios.
MORE_DEMOTED = 4
# Each page in its fault, or several at once; small ones also as many as an engine copies faster than the CPU.
PROMOTE_WAYS: tuple[tuple[tuple[str, int], ...], ...] = ((), (PROMOTE_BATCH,))
PROMOTE_MANY = (PROMOTE_BATCH[0], 128)
ENGINES = (("vanilla", 0), ("none", 0), ("ferry", sensitivity.CHANNELS))


def cells(size: int, runs: int, quick: bool) -> list[Cell]:
    """So many bytes of each, or some of them alone."""
    return [
        Cell(
            *(engine, folio, _count(call, folio, size), channels),
            runs=runs,
            latency=call in ("move_pages", "promote"),
            call=call,
            order=order,
            memory=memory,
            warmup=2 if folio == HUGE else WARMUP.get(call, 1),
            varied=HUGE_NODE if folio == HUGE else None,
            settings=way,
        )
        for call, order, memory, folios in (CALLERS[:: len(CALLERS) // 2] if quick else CALLERS)
        for folio in folios
        for engine, channels in ENGINES
        for way in _ways(call, folio, engine)
    ]


def _count(call: str, folio: str, size: int) -> int:
    more = MORE_DEMOTED if call == "demote" and folio == "2M" else 1
    return max(1, more * size // parse_size(folio))


def _ways(call: str, folio: str, engine: str) -> tuple[tuple[tuple[str, int], ...], ...]:
    if call != "promote" or folio == "2M" or engine == "vanilla":
        return ((),)
    return (*PROMOTE_WAYS, (PROMOTE_MANY,)) if folio == "4K" else PROMOTE_WAYS
