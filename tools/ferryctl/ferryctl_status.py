# SPDX-License-Identifier: GPL-2.0
"""Everything that there is to see of Ferry on this machine, for programs and as text."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ferryctl_machine import NONE, System
from ferryctl_settings import SETTINGS

CHANNELS = "sys/kernel/debug/dcbm/channels"
LARGE_FOLIOS = "sys/kernel/mm/transparent_hugepage"
# What the kernel counts of large folios that it copies while they are mapped.
MAPPED = {
    "migrate_mapped": "copied while mapped",
    "migrate_void": "written to meanwhile and copied again",
    "migrate_given_up": "given up for a second, since many were written to",
}
# Why the engine did not copy a folio, and what one can do about it.
CAUSES = {
    "fallback_kind": (
        "a kind of memory that is not safe to copy early: hugetlb, buffer heads, a file system's own way",
        "nothing to do: Linux copied it; xfs and others on iomap have no buffer heads",
    ),
    "fallback_refs": (
        "somebody held the folio: direct I/O, pinned memory (RDMA, VFIO), or a busy page cache",
        "move again when the I/O is over; long pins end with the program that has them",
    ),
    "fallback_busy": (
        "the engine's queue was full, or too many calls moved memory at once",
        "give dcbm more channels (dcbm.channels, dcbm.queue_depth), or move from fewer threads",
    ),
    "fallback_error": (
        "the engine failed, or was too late",
        "see dmesg and 'ferryctl status' for channels that are retired; choose another engine if it goes on",
    ),
    "left": (
        "locked, under writeback or otherwise in use when the engine's call came by",
        "nothing to do: Linux tried again by its own path; many mean that the memory is busy with I/O",
    ),
}


def status(system: System) -> dict[str, Any]:
    """What there is."""
    system.need_ferry()
    active = system.get("active") or NONE
    names = sorted(path.name for path in (system.offload / "migrators").glob("*"))
    engines = {name: system.folder(f"migrators/{name}") for name in names}
    in_service = system.get("in_service")
    return {
        "time": now(),
        "kernel": system.release,
        "active": active,
        "available": (system.get("available") or "").split(),
        "in_service": None if in_service is None or active == NONE else in_service == "1",
        "overdue": sum(counters.get("overdue", 0) for counters in engines.values()),
        "channels": channels(system),
        "settings": system.settings(),
        "stats": system.folder("stats"),
        "engines": engines,
        "inaccessible_us": histogram(system),
        "copied_mapped": copied_mapped(system),
    }


def now() -> str:
    """The time, with its zone."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def channels(system: System) -> list[dict[str, str]] | None:
    """dcbm's DMA channels: none if it is not loaded; None if they cannot be read."""
    text = system.read(CHANNELS)
    if text is None:
        return None if "dcbm" in (system.get("available") or "").split() else []
    lines = text.splitlines()
    return [dict(zip(lines[0].split(), line.split(), strict=False)) for line in lines[1:]]


def copied_mapped(system: System) -> dict[str, dict[str, int]]:
    """Large folios that were copied while they were mapped: by size in KiB, what the kernel counts."""
    out = {}
    for folder in (system.root / LARGE_FOLIOS).glob("hugepages-*kB"):
        counts = {name: system.read(f"{LARGE_FOLIOS}/{folder.name}/stats/{name}") for name in MAPPED}
        counted = {name: int(text) for name, text in counts.items() if text}
        if any(counted.values()):
            out[folder.name.removeprefix("hugepages-").removesuffix("kB")] = counted
    return dict(sorted(out.items(), key=lambda item: int(item[0])))


def histogram(system: System) -> dict[str, int]:
    """Folios by inaccessible time: upper bound in us, and how many."""
    counts = [int(count) for count in (system.get("inaccessible_us") or "").split()]
    bounds = [str(1 << i) for i in range(len(counts) - 1)]
    return dict(zip([*bounds, "inf"], counts, strict=True)) if counts else {}


# --- for people ---


def big(count: float) -> str:
    """Bytes."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"


def show_status(state: Mapping[str, Any]) -> str:
    """A status as text."""
    out = [f"kernel    {state['kernel']}, with Ferry"]
    fault = "" if state["in_service"] in (None, True) else ", OUT OF SERVICE: the kernel copies; see dmesg"
    copies = "Linux copies as it always did" if state["active"] == NONE else "copies"
    out.append(f"engine    {state['active']} ({copies}{fault}); loaded: {' '.join(state['available'])}")
    out += [f"channels  {line}" for line in show_channels(state["channels"])]
    out.append("settings")
    width = max(map(len, state["settings"]), default=0)
    for name, value in state["settings"].items():
        setting = SETTINGS.get(name)
        out.append(f"  {name:<{width}}  {value or '(empty)'}")
        out.append(f"  {'':<{width}}  {setting.means if setting else 'see the documentation of this kernel'}")
    stats = state["stats"]
    out.append("since boot")
    out.append(
        f"  {stats.get('folios', 0):,} folios ({big(stats.get('bytes', 0))}) moved by engines"
        f" in {stats.get('calls', 0):,} calls"
    )
    for name, counters in state["engines"].items():
        figures = ", ".join(f"{key} {count:,}" for key, count in counters.items())
        out.append(f"  {name}: {figures}")
    for size, counters in state["copied_mapped"].items():
        figures = "; ".join(f"{MAPPED[name]}: {count:,}" for name, count in counters.items() if count)
        out.append(f"  folios of {int(size):,} KiB: {figures}")
    out += show_causes(stats)
    out += [f"  {line}" for line in show_stuck(state["overdue"], held_bytes(state))]
    out += show_histogram(state["inaccessible_us"])
    return "\n".join(out)


def show_channels(listed: Sequence[Mapping[str, str]] | None) -> list[str]:
    """How many serve, and each that does not."""
    if listed is None:
        why = "needs root" if os.geteuid() else "debugfs is not mounted on /sys/kernel/debug"
        return [f"those of dcbm: {why}"]
    if not listed:
        return []
    live = sum(channel.get("state") == "live" for channel in listed)
    broken = [channel for channel in listed if channel.get("state") != "live"]
    return [
        f"{live} DMA channels of {len(listed)} serve dcbm",
        *(
            f"{channel.get('channel')} of {channel.get('device')} is {channel.get('state')}:"
            f" {channel.get('errors', '?')} errors, {channel.get('in_flight', '?')} copies in flight"
            for channel in broken
        ),
    ]


def lost_channels(state: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """The channels of a status that do not serve, where that can be seen."""
    return [channel for channel in state["channels"] or [] if channel.get("state") != "live"]


def held_bytes(state: Mapping[str, Any]) -> int:
    """What memory was given up since boot, if a stuck engine may hold some of it still.

    The counter only grows, and an engine that has ended its copies holds none any more.
    """
    unseen = state["channels"] is None and state["in_service"] is False
    stuck = state["overdue"] or lost_channels(state) or unseen
    given_up: int = state["stats"].get("quarantined_bytes", 0)
    return given_up if stuck else 0


def show_stuck(overdue: int, quarantined: int) -> list[str]:
    """Copies that have missed the deadline, and memory that was given up for them."""
    out = []
    if overdue:
        out.append(f"{overdue:,} copies have missed the deadline and have not ended")
    if quarantined:
        out.append(
            f"{big(quarantined)} given up since boot, until the stuck engine ends its copies; see dmesg"
        )
    return out


def show_causes(stats: Mapping[str, int]) -> list[str]:
    """What the engine did not copy, why, and what to do."""
    out = []
    for name, (why, remedy) in CAUSES.items():
        if stats.get(name):
            out += [f"  {name} {stats[name]:,}: {why}", f"    -> {remedy}"]
    return ["not copied by an engine", *out] if out else []


def show_histogram(buckets: Mapping[str, int]) -> list[str]:
    """Bars, of the buckets between the first and the last that have something."""
    filled = [i for i, count in enumerate(buckets.values()) if count]
    if not filled:
        return []
    most = max(buckets.values())
    shown = list(buckets.items())[filled[0] : filled[-1] + 1]
    bars = [f"  < {bound:>8} us  {count:>10,}  {'#' * round(40 * count / most)}" for bound, count in shown]
    return ["folios by inaccessible time", *bars]
