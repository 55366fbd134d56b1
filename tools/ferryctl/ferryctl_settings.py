# SPDX-License-Identifier: GPL-2.0
"""What can be set: what each setting means, in which range it is, and how it may be written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ferryctl_machine import Problem

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Of the kernel's list: Documentation/ABI/testing/sysfs-kernel-mm-migrate-offload.
REASONS = (
    *("compaction", "memory_failure", "memory_hotplug", "syscall_or_cpuset", "mempolicy_mbind"),
    *("numa_misplaced", "contig_range", "longterm_pin", "demotion", "damon"),
)
ULONG_MAX = (1 << 64) - 1


@dataclass(frozen=True)
class Setting:
    """One file that can be written."""

    means: str
    most: int  # 0 is the least of each
    unit: str  # "words" is no number

    @property
    def range(self) -> str:
        """What it takes."""
        if self.unit == "words":
            return f"all, none, or some of: {' '.join(REASONS)}"
        if self.unit == "flag":
            return "0 or 1"
        if self.unit == "bytes":
            return "a number of bytes, also with K, M or G, as in 1M; 0: the kernel chooses"
        return f"0 to {self.most} ({self.unit}); 0: the kernel chooses"


SETTINGS = {
    "reasons": Setting(
        "which callers may use the engine: all, none, or a list such as 'syscall_or_cpuset demotion damon'",
        *(0, "words"),
    ),
    "min_bytes": Setting(
        "calls that move less are left to Linux's own path; 0: what the engine says, at least 256 KiB",
        *(ULONG_MAX, "bytes"),
    ),
    "target_us": Setting(
        "aim at this inaccessible time of a folio; the window follows from it; 0: 500",
        *(1000000, "microseconds"),
    ),
    "window_pages": Setting(
        "for experiments: pages that one call may have unmapped, whatever target_us is; 0: auto",
        *(262144, "pages of 4 KiB"),
    ),
    "chunk_pages": Setting(
        "most pages that are unmapped, copied and remapped together; 0: 128; at most window_pages",
        *(262144, "pages of 4 KiB"),
    ),
    "stripe_bytes": Setting(
        "large folios are cut into parts of at least this size, one for each channel, in whole pages of"
        " 4 KiB; 0: the engine chooses",
        *(ULONG_MAX, "bytes"),
    ),
    "deadline_ms": Setting(
        "how long a call waits for the copies of a chunk before it does without them; 0: 100",
        *(60000, "milliseconds"),
    ),
    "engine_always": Setting(
        "1: the engine copies even where it is measured to be slower than the CPU", *(1, "flag")
    ),
    "inaccessible_enabled": Setting(
        "1: measure the inaccessible time of each folio; costs a little", *(1, "flag")
    ),
}
DEFAULTS = {name: "all" if name == "reasons" else "0" for name in SETTINGS}


def range_of(name: str) -> str:
    """What a setting takes, after a refusal; nothing for one that this version does not know."""
    return f"; it takes {SETTINGS[name].range}" if name in SETTINGS else ""


def parse(name: str, text: str) -> str:
    """A value as the kernel reads it. Raises Problem, saying the range, for what is no such value."""
    setting = SETTINGS.get(name)
    if setting is None or setting.unit == "words":
        return text
    found = re.fullmatch(r"(0x[0-9a-f]+|\d+)(?:([KMG])(?:i?B)?)?", text.strip(), re.IGNORECASE)
    if not found or (found[2] and setting.unit != "bytes"):
        raise Problem(f"{name}={text}: it does not take that value{range_of(name)}")
    base = 16 if found[1].lower().startswith("0x") else 10
    return str(int(found[1], base) * UNITS[(found[2] or "").upper()])


def same(name: str, wanted: str, current: str) -> bool:
    """Whether the kernel has what was wanted, however it writes it."""
    if name == "reasons":
        words = set(current.split())
        return set(REASONS) <= words if wanted == "all" else set(wanted.split()) == words
    try:
        return parse(name, wanted) == parse(name, current)
    except Problem:
        return False


def differing(now: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Of what is wanted, what the kernel has otherwise."""
    return {name: value for name, value in wanted.items() if not same(name, value, now.get(name, ""))}
