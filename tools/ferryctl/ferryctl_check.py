# SPDX-License-Identifier: GPL-2.0
"""Is all well? If not, what is wrong and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ferryctl_boot as boot
from ferryctl_conf import load_conf
from ferryctl_machine import FAILED, NO_FERRY, NONE, WELL, Problem, System
from ferryctl_settings import parse, same
from ferryctl_status import big, held_bytes, lost_channels, status

# Each problem that there can be, in the order of what to mend first.
NO_KERNEL = "no_ferry"
PROBLEMS = {
    NO_KERNEL: "this kernel is without Ferry",
    "engine_out_of_service": "the active engine takes no copies",
    "copies_overdue": "copies have missed the deadline and have not ended",
    "engine_not_as_configured": "another engine is active than /etc/ferry.conf says",
    "channels_lost": "dcbm has channels that do not serve",
    "setting_unknown": "/etc/ferry.conf has a setting that this kernel does not have, or refuses",
    "conf_unreadable": "/etc/ferry.conf cannot be understood",
    "next_boot_without_ferry": "the boot loader starts a kernel without Ferry next",
    "memory_given_up": "a stuck engine may still write to memory, which is not used until it lets go",
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    problem: str
    what: str
    do: str


def check(system: System) -> list[Finding]:
    """What is wrong; nothing if all is well."""
    if not system.has_ferry:
        return [Finding(NO_KERNEL, f"kernel {system.release} is without Ferry", _boot_ferry(system))]
    found = [*engine(status(system)), *_configured(system), *_next_boot(system)]
    return sorted(found, key=lambda finding: list(PROBLEMS).index(finding.problem))


def code(findings: list[Finding]) -> int:
    """The exit status."""
    if any(finding.problem == NO_KERNEL for finding in findings):
        return NO_FERRY
    return FAILED if findings else WELL


def _boot_ferry(system: System) -> str:
    if system.in_container():
        return "this is a container, whose kernel is its host's: ask on the host"
    mine = [release for release in boot.installed(system) if boot.has_ferry(system, release)]
    if mine:
        return f"boot {mine[-1]}, which is installed; see KERNEL UPDATES in ferryctl(8)"
    return "install one that has it; see KERNEL UPDATES in ferryctl(8)"


def engine(state: Mapping[str, Any]) -> list[Finding]:
    """What a status tells."""
    name, out = state["active"], []
    if state["in_service"] is False:
        do = "see dmesg; 'ferryctl use none', then 'ferryctl use NAME' begins anew, or choose another engine"
        out.append(
            Finding("engine_out_of_service", f"engine {name} is out of service, and the kernel copies", do)
        )
    if state["overdue"]:
        what = f"{state['overdue']} copies have missed the deadline and have not ended"
        out.append(Finding("copies_overdue", what, "see dmesg; the device may be stuck"))
    lost = lost_channels(state)
    if lost and name == "dcbm":
        names = ", ".join(f"{channel.get('channel')} ({channel.get('state')})" for channel in lost)
        what = f"{len(lost)} of {len(state['channels'])} DMA channels do not serve: {names}"
        do = "see dmesg; 'ferryctl use none', then 'ferryctl use dcbm' tries them again"
        out.append(Finding("channels_lost", what, do))
    given_up = held_bytes(state)
    if given_up:
        what = f"{big(given_up)} of memory were given up since boot, and a stuck engine may still write there"
        do = "see dmesg; they are used again once the engine has ended its copies, or after a reboot"
        out.append(Finding("memory_given_up", what, do))
    return out


def _configured(system: System) -> list[Finding]:
    """Whether /etc/ferry.conf could be done."""
    try:
        conf = load_conf(system)
    except Problem as problem:
        return [Finding("conf_unreadable", str(problem), "mend the file, then 'ferryctl apply'")]
    out, settings = [], system.settings()
    wanted, active = conf.pop("engine", NONE), system.get("active") or NONE
    if wanted not in (NONE, active):
        what = f"/etc/ferry.conf says engine = {wanted}, and {active} is active"
        out.append(Finding("engine_not_as_configured", what, "'ferryctl apply'; it says why if it cannot"))
    for name, value in conf.items():
        if "." not in name and (why := _refused(settings, name, value)):
            do = "this version's settings are in ferry.conf(5); the line may stay, it does no harm"
            out.append(Finding("setting_unknown", f"/etc/ferry.conf: {name} = {value}: {why}", do))
    return out


def _refused(settings: Mapping[str, str], name: str, value: str) -> str | None:
    """Why a line of the file has no effect; a setting that was changed since by hand is no fault."""
    if name not in settings:
        return "this kernel has no such setting"
    try:
        parse(name, value)
    except Problem as problem:
        return str(problem)
    return None


def next_boot(system: System) -> tuple[str, list[Finding]]:
    """What boots next, in words, and what is wrong with it; on any kernel."""
    coming, found = boot.following(system), _next_boot(system)
    if found:
        return f"next boot: {found[0].what}; {found[0].do}", found
    return f"next boot: {f'{coming.release}, with Ferry' if coming else 'not known: no GRUB'}", found


def _next_boot(system: System) -> list[Finding]:
    coming = boot.following(system)
    if coming is None or coming.has_ferry:
        return []
    what = f"the boot loader starts {coming.release} next, which is without Ferry"
    do = "build packages for the newer Linux, or have GRUB start this one: KERNEL UPDATES in ferryctl(8)"
    return [Finding("next_boot_without_ferry", what, do)]


def unsaved(system: System) -> dict[str, str]:
    """Settings that are otherwise in the file than in the kernel: no fault, and worth a word."""
    conf, there = load_conf(system), system.settings()
    return {
        name: value
        for name, value in conf.items()
        if name in there and not _refused(there, name, value) and not same(name, value, there[name])
    }


def show(system: System, findings: list[Finding]) -> str:
    """One line: well, or what is wrong first and what to do; how many more."""
    if not findings:
        active = system.get("active") or NONE
        has = "no engine is active" if active == NONE else f"engine {active} is in service"
        return f"well: kernel {system.release} has Ferry, {has}"
    first, more = findings[0], len(findings) - 1
    word = "no Ferry" if first.problem == NO_KERNEL else "degraded"
    rest = f" ({more} more: {', '.join(each.problem for each in findings[1:])})" if more else ""
    return f"{word}: {first.what}; {first.do}{rest}"
