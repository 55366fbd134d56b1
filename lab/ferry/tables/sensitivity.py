# SPDX-License-Identifier: GPL-2.0
"""What of the emulated server is varied, one thing at a time, and how far.

descriptor_ns is fitted, all others are off in the profiles, because nobody has posted them. Times are the
emulated machine's, whose CPU is 4.4 times slower than the posted one: 3000 ns here are 680 there. Posted
folios of up to 1 MiB were copied at about a third of the rate of those of 2 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence

# One channel would tell less, and the earlier design would wait for its batches for longer than the kernel
# waits for an engine.
CHANNELS = 16

VALUES: dict[str, Sequence[int | str]] = {
    "descriptor_ns": (300, 2500, 5000, 10000, 20000),
    "register_ns": (100, 300, 1000, 3000),
    "interrupt_ns": (1000, 3000, 10000, 30000),
    "small_percent": (66, 33),
    "iommu": ("lazy", "strict"),
}


def values(quick: bool) -> list[tuple[str, int | str]]:
    """Each parameter with each of its values, or the last alone."""
    return [(name, value) for name, every in VALUES.items() for value in (every[-1:] if quick else every)]


def folios(quick: bool) -> list[str]:
    """The sizes that are measured."""
    return ["64K", "2M"] if quick else ["4K", "64K", "2M"]
