# SPDX-License-Identifier: GPL-2.0
"""Which kernel the boot loader starts next, and whether it has Ferry.

A distribution's update installs its kernel beside Ferry's, and GRUB starts the one with the highest
version: Ferry would be gone, and nobody told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ferryctl_machine import System

GRUB = ("boot/grub/grub.cfg", "boot/grub2/grub.cfg")
GRUBENV = ("boot/grub/grubenv", "boot/grub2/grubenv")


@dataclass(frozen=True)
class Kernel:
    """One that is installed."""

    release: str
    has_ferry: bool


@dataclass(frozen=True)
class Entry:
    """Of GRUB's menu: how it may be named, and the kernel that it starts."""

    names: tuple[str, ...]
    release: str


def has_ferry(system: System, release: str) -> bool:
    """Whether a kernel that is installed was built with it."""
    return "\nCONFIG_MIGRATE_OFFLOAD=y" in "\n" + (system.read(f"boot/config-{release}") or "")


def installed(system: System) -> list[str]:
    """The releases of all kernels in /boot."""
    return sorted(path.name.removeprefix("vmlinuz-") for path in (system.root / "boot").glob("vmlinuz-*"))


def following(system: System) -> Kernel | None:
    """What boots next, as far as GRUB's files say; None if they say nothing."""
    text = next((found for name in GRUB if (found := system.read(name))), None)
    entries = _entries(text) if text else []
    if not text or not entries:
        return None
    wanted = _default(text, next((found for name in GRUBENV if (found := system.read(name))), ""))
    release = _named(entries, wanted).release
    return Kernel(release, has_ferry(system, release))


def _default(text: str, environment: str) -> str:
    """GRUB's default: a place in the menu, or a name."""
    kept = dict(line.split("=", 1) for line in environment.splitlines() if "=" in line)
    once = kept.get("next_entry")
    if once:
        return once
    found: list[str] = re.findall(r"^\s*set default=\"?([^\"\n]*)\"?", text, re.MULTILINE)
    # 10_linux writes several; the one of next_entry was dealt with above
    for value in reversed(found):
        if value == "${saved_entry}":
            return kept.get("saved_entry") or "0"
        if "$" not in value:
            return value
    return "0"


def _entries(text: str) -> list[tuple[str, Entry]]:
    """The menu: each entry with its place, as 0, or 1>2 in a submenu."""
    entries: list[tuple[str, Entry]] = []
    place, names = [0], list[tuple[str, ...]]()
    inside: str | None = None
    for line in text.splitlines():
        if re.match(r"\s*submenu\s", line):
            names.append(_names(line))
            place.append(0)
        elif re.match(r"\s*menuentry\s", line):
            inside = line
        elif inside and (kernel := re.match(r"\s*linux\w*\s+\S*/vmlinuz-(\S+)", line)):
            where = ">".join(map(str, place))
            chain = [">".join((*names_of_one,)) for names_of_one in _chains([*names, _names(inside)])]
            entries.append((where, Entry(tuple(chain), kernel[1])))
        elif re.match(r"\s*}\s*$", line):
            if inside:
                inside = None
                place[-1] += 1
            elif len(place) > 1:
                place.pop()
                names.pop()
                place[-1] += 1
    return entries


def _names(line: str) -> tuple[str, ...]:
    """Title and identifier of an entry."""
    title = re.search(r"['\"]([^'\"]*)['\"]", line)
    identifier = re.search(r"\$menuentry_id_option ['\"]([^'\"]*)['\"]", line)
    return tuple(each[1] for each in (title, identifier) if each)


def _chains(levels: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """An entry of a submenu is named with it: MENU>ENTRY."""
    chains: list[tuple[str, ...]] = [()]
    for level in levels:
        chains = [(*chain, name) for chain in chains for name in level]
    return chains


def _named(entries: list[tuple[str, Entry]], default: str) -> Entry:
    """As GRUB looks: a submenu stands for its first entry, and so does the menu for a name that it lacks."""
    for name in (default, default.partition(">")[0]):
        for place, entry in entries:
            if any(title == name or title.startswith(f"{name}>") for title in (place, *entry.names)):
                return entry
    return entries[0][1]
