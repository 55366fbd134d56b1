# SPDX-License-Identifier: GPL-2.0
"""What of the emulated server is varied, one thing at a time and several at once, and how far.

descriptor_ns is fitted, all others are off in the profiles, because nobody has posted them. Times are the
emulated machine's, whose CPU is 4.4 times slower than the posted one: 3000 ns here are 680 there. Posted
folios of up to 1 MiB were copied at about a third of the rate of those of 2 MiB.
"""

from collections.abc import Sequence
from dataclasses import replace

from ferry.bench.cell import Cell

# One channel would tell less, and the earlier design would wait for its batches for longer than the kernel
# waits for an engine.
CHANNELS = 16
OF_IOAT = 8  # a socket has no more

# By engine. Of all but PTDMA on likely servers: what nobody has said of them.
VALUES: dict[str, dict[str, Sequence[int | str]]] = {
    "ptdma": {
        "descriptor_ns": (300, 2500, 5000, 10000, 20000),
        "register_ns": (100, 300, 1000, 3000),
        "interrupt_ns": (1000, 3000, 10000, 30000),
        "small_percent": (66, 33),
        "iommu": ("lazy", "strict"),
        # Joint corners, as in server.Profile.varied(); the last has the dearest of everything.
        "several": (
            "iommu=strict invalidation_ns=2200",
            "register_ns=3000 interrupt_ns=30000",
            "small_percent=33 iommu=strict invalidation_ns=2200",
            "register_ns=3000 interrupt_ns=30000 iommu=strict invalidation_ns=2200",
            "descriptor_ns=20000 small_percent=33 register_ns=3000 interrupt_ns=30000"
            " iommu=strict invalidation_ns=2200",
        ),
    },
    "ioat": {
        "descriptor_ns": (4400, 13200),
        "total_mb_s": (3544, 1772),
        "register_ns": (7920,),
        "interrupt_ns": (30000,),
        "iommu": ("strict",),
        "several": (
            "channel_mb_s=1329 path_mb_s=1329 total_mb_s=10632",
            "descriptor_ns=13200 total_mb_s=3544 register_ns=7920 interrupt_ns=30000 iommu=strict",
        ),
    },
    "dsa": {
        "descriptor_ns": (880,),
        "latency_ns": (0, 15400),
        "total_mb_s": (7136,),
        "register_ns": (7920,),
        "interrupt_ns": (30000,),
        "iommu": ("strict",),
        "several": ("descriptor_ns=880 latency_ns=15400 register_ns=7920 interrupt_ns=30000 iommu=strict",),
    },
}
# Batches of the earlier design besides the largest, in pages: which is best depends on what is dear.
BATCH_PAGES = 8192


def channels(engine: str) -> int:
    return OF_IOAT if engine == "ioat" else CHANNELS


def values(quick: bool, engine: str = "ptdma") -> list[tuple[str, int | str]]:
    """Each parameter with each of its values, or the last alone."""
    return [
        (name, value) for name, every in VALUES[engine].items() for value in (every[-1:] if quick else every)
    ]


def folios(quick: bool, engine: str = "ptdma") -> list[str]:
    if quick:
        return ["64K", "2M"]
    return ["4K", "16K", "64K", "256K", "1M", "2M"] if engine == "ptdma" else ["4K", "64K", "2M"]


def smaller_batches(cells: Sequence[Cell]) -> list[Cell]:
    """Those of the earlier design whose batch is larger than BATCH_PAGES, in batches of so many."""
    batched = [cell for cell in cells if cell.engine == "dma" and cell.batch_pages > BATCH_PAGES]
    return [replace(cell, batch_pages=BATCH_PAGES) for cell in batched]
