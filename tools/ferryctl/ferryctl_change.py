# SPDX-License-Identifier: GPL-2.0
"""Settings are changed: all or none by hand, each that can be at boot."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ferryctl_conf import load_conf, parameters
from ferryctl_machine import NONE, NoDevice, Problem, System, use
from ferryctl_settings import DEFAULTS, parse, range_of

POLL_S = 0.25
# Drivers bind one device after the other; so long without a new channel, and all are there.
QUIET_S = 1.0


def change(system: System, settings: Mapping[str, str]) -> None:
    """Change settings, all or none: what was changed before a refusal is put back."""
    system.need_ferry()
    before = system.settings()
    for name in settings:
        if name not in before:
            raise Problem(f"this kernel has no setting '{name}'; it has: {', '.join(before)}")
    wanted = {name: parse(name, value) for name, value in settings.items()}
    try:
        for name, value in _writes(wanted):
            _put(system, name, value)
    except Problem:
        for name, value in _writes({name: before[name] for name in settings}):
            system.put(name, value)
        raise


def _put(system: System, name: str, value: str) -> None:
    try:
        system.put(name, value)
    except Problem as problem:
        refused = "refuses that value" in str(problem)
        raise Problem(f"{problem}{range_of(name) if refused else ''}") from problem


def _writes(settings: Mapping[str, str]) -> list[tuple[str, str]]:
    """A chunk must fit into the window, and any fits into one of 0: so that comes first, the window last."""
    both = {"chunk_pages", "window_pages"} <= settings.keys()
    ordered = sorted(settings.items(), key=lambda pair: (pair[0] == "window_pages", pair[0]))
    return [("window_pages", "0"), *ordered] if both else ordered


def reset(system: System) -> None:
    """As after boot: no engine, every setting the kernel's own choice."""
    system.need_ferry()
    system.put("active", NONE)
    change(system, {name: DEFAULTS.get(name, "0") for name in system.settings()})


# --- what the file says ---


@dataclass
class Applied:
    """What came of /etc/ferry.conf."""

    left: dict[str, str] = field(default_factory=dict)  # by setting: why it is not as the file says


def apply(system: System, wait_s: float = 0.0) -> Applied:
    """Do what the file says: settings first, then the engine, with the parameters of its module.

    A setting that this kernel does not have, or refuses, does not keep the others from it: it is named in
    what is returned. Raises Problem if the engine cannot be used; wait_s is how long its device may yet
    need to come.
    """
    conf = load_conf(system)
    if not conf and not system.has_ferry:
        return Applied()  # nothing is asked of this kernel
    system.need_ferry()
    engine = conf.pop("engine", NONE)
    done = _apply_settings(system, {key: value for key, value in conf.items() if "." not in key})
    _use(system, engine, parameters(conf, engine), wait_s)
    return done


def _apply_settings(system: System, settings: Mapping[str, str]) -> Applied:
    done, there = Applied(), system.settings()
    for name in settings.keys() - there.keys():
        done.left[name] = f"kernel {system.release} has no setting '{name}'; it stays in the file"
    wanted = {}
    for name in settings.keys() & there.keys():
        try:
            wanted[name] = parse(name, settings[name])
        except Problem as problem:
            done.left[name] = str(problem)
    for name, value in _writes(wanted):
        try:
            _put(system, name, value)
        except Problem as problem:
            done.left[name] = str(problem)
    return done


def _use(system: System, engine: str, words: Mapping[str, str], wait_s: float) -> None:
    """Engines of DMA channels need a device, whose driver udev may load at the same time."""
    end = time.monotonic() + wait_s
    if engine == "dcbm" and wait_s:
        _wait_for_channels(system, end)
    while True:
        try:
            return use(system, engine, words)
        except NoDevice:
            if time.monotonic() >= end:
                raise
            time.sleep(POLL_S)


def _wait_for_channels(system: System, end: float) -> None:
    """Until there are DMA channels, and no more come; no longer than until an end."""
    seen, since = 0, time.monotonic()
    while (now := time.monotonic()) < end:
        count = sum(1 for _ in (system.root / "sys/class/dma").glob("*"))
        if count != seen:
            seen, since = count, now
        elif count and now - since >= QUIET_S:
            return
        time.sleep(POLL_S)
