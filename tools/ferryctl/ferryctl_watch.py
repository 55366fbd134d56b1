# SPDX-License-Identifier: GPL-2.0
"""What moves now: a screen that is drawn again and again, or lines where nobody looks at a screen."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

from ferryctl_machine import NONE, System
from ferryctl_status import CAUSES, big, held_bytes, show_channels, show_histogram, show_stuck, status

CLEAR = "\x1b[H\x1b[2J"
SERVICE = {True: "in service", False: "OUT OF SERVICE", None: "none active"}


def watch(system: System, interval: float, count: int | None, as_json: bool) -> None:
    """Until it is interrupted, or as often as was asked."""
    before, then = status(system), time.monotonic()
    screen = sys.stdout.isatty() and not as_json
    if not as_json and not screen and system.get("inaccessible_enabled") == "0":
        print(UNMEASURED, file=sys.stderr)
    shown = 0
    try:
        while count is None or shown < count:
            time.sleep(interval)
            state, clock = status(system), time.monotonic()
            print(_text(rates(before, state, clock - then), state, as_json, screen), flush=True)
            before, then, shown = state, clock, shown + 1
    except KeyboardInterrupt:
        pass


UNMEASURED = "inaccessible time is not measured: ferryctl set inaccessible_enabled=1"


def _text(moved: Mapping[str, Any], state: Mapping[str, Any], as_json: bool, screen: bool) -> str:
    if as_json:
        return json.dumps(moved)
    if not screen:
        return show_rates(moved)
    rows = shutil.get_terminal_size().lines - 1
    return CLEAR + "\n".join(show_screen(moved, state)[:rows])


def since(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """How much counters have grown; one that is new, or began anew, counts from zero."""
    return {key: n - before.get(key, 0) if n >= before.get(key, 0) else n for key, n in now.items()}


def rates(before: Mapping[str, Any], now: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """What happened between two statuses, and how the engine is at the second."""
    engines = {
        name: since(before["engines"].get(name, {}), counters).get("bytes", 0) / 1e9 / seconds
        for name, counters in now["engines"].items()
    }
    stats = since(before["stats"], now["stats"])
    return {
        "time": now["time"],
        "seconds": round(seconds, 3),
        "active": now["active"],
        "in_service": now["in_service"],
        "overdue": now["overdue"],
        "quarantined_bytes": now["stats"].get("quarantined_bytes", 0),
        "held_bytes": held_bytes(now),
        "gbps": {name: round(rate, 3) for name, rate in engines.items()},
        "calls": stats.get("calls", 0),
        "folios": stats.get("folios", 0),
        "not_by_engine": {name: stats[name] for name in CAUSES if name in stats},
        "inaccessible_us": since(before["inaccessible_us"], now["inaccessible_us"]),
    }


def show_rates(interval: Mapping[str, Any]) -> str:
    """One interval, in lines that begin with the time."""
    speeds = "  ".join(f"{name} {rate:.2f} GB/s" for name, rate in interval["gbps"].items())
    state = "" if interval["in_service"] in (None, True) else " OUT OF SERVICE"
    head = f"{interval['time']} engine {interval['active']}{state}:"
    out = [f"{head} {interval['calls']:,} calls, {interval['folios']:,} folios   {speeds}"]
    out += [f"  {name} {count:,}" for name, count in interval["not_by_engine"].items() if count]
    out += [f"  {line}" for line in show_stuck(interval["overdue"], interval["held_bytes"])]
    return "\n".join([*out, *show_histogram(interval["inaccessible_us"])])


def show_screen(moved: Mapping[str, Any], state: Mapping[str, Any]) -> list[str]:
    """One interval as a screen: what moves, and the state of the engine and its channels."""
    active = state["active"]
    out = [
        f"ferryctl watch   {state['time']}   kernel {state['kernel']}   every {moved['seconds']:.1f} s",
        "",
        f"engine    {active} ({SERVICE[state['in_service']] if active != NONE else SERVICE[None]})",
        *(f"channels  {line}" for line in show_channels(state["channels"])),
        *(f"stuck     {line}" for line in show_stuck(moved["overdue"], moved["held_bytes"])),
        "",
        f"moved     {moved['calls']:,} calls, {moved['folios']:,} folios",
        *(
            f"  {name:<12} {rate:8.2f} GB/s   {big(state['engines'][name].get('bytes', 0))} in all"
            for name, rate in moved["gbps"].items()
        ),
    ]
    left = [f"  {name:<16} {count:,}" for name, count in moved["not_by_engine"].items() if count]
    out += ["", "not copied by the engine (ferryctl causes)", *left] if left else []
    if state["settings"].get("inaccessible_enabled") == "0":
        return [*out, "", UNMEASURED]
    return [*out, "", *show_histogram(moved["inaccessible_us"])]
