# SPDX-License-Identifier: GPL-2.0
"""Sizes of memory: as users write them, and in bytes."""

import re

from ferry.errors import UsageError

PAGE = 4096
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Bytes of "64K", "2M" or "1G"."""
    size = re.fullmatch(r"([1-9]\d*)([KMG])", text)
    if not size:
        raise UsageError(f"'{text}' is no size: write a number and K, M or G, as in 64K")
    return int(size[1]) * UNITS[size[2]]
