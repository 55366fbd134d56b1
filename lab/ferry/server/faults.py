# SPDX-License-Identifier: GPL-2.0
"""Faults and rates of the engines of an emulated server that runs, by QEMU's QMP socket.

A channel here is a device of the model: a function, or of DSA all four channels of a device.
"""

import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ferry import paths
from ferry.errors import FerryError, UsageError
from ferry.vm import qemu

ANSWER_S = 10.0
TOP = "/machine/peripheral"
U32, U64 = range(1 << 32), range(1 << 64)
# What may be set, and to what: server/qemu/src/docs/specs says what each is.
VALUES: dict[str, range | tuple[str, ...]] = {
    "bandwidth": U64,
    **dict.fromkeys(("descriptor-ns", "register-ns", "interrupt-ns", "small-bytes"), U32),
    **dict.fromkeys(("write-percent", "small-percent"), range(101)),
    **dict.fromkeys(("error-at", "error-every"), U32),
    "error-code": range(1, 1 << 32),  # bits of a register of I/OAT; PTDMA and DSA refuse what they have not
    **dict.fromkeys(("stall-at", "lose-irq-at"), U32),
    **dict.fromkeys(("stalled", "gone"), ("true", "false")),
    # Of PTDMA; the last two are what nobody has said of the real function.
    "ones-at": U32,
    **{"head": ("end", "fetch"), "run": ("auto", "sticky")},
    # Of I/OAT, and of DSA.
    "reset-ns": U32,
    "rearm": ("drop", "tell"),
    **dict.fromkeys(("latency-ns", "command-ns", "command-error-at"), U32),
    "command-error-code": range(1, 256),  # DSA would cut off what is above, and 0 is none
    **dict.fromkeys(("lose-command-irq-at", "halt-at"), U32),
    "halt-type": range(4),
    "untranslated": ("page-fault", "translation"),
}
NAMES = tuple(VALUES)
Value = int | bool | str


@dataclass(frozen=True)
class Running:
    """A VM with a socket: its name is that of its folder in build, without "vm-"."""

    name: str
    path: Path


def running() -> list[Running]:
    """The emulated servers that run now, of this checkout. One that was killed has left its socket only."""
    servers = []
    for path in sorted(paths.BUILD.glob(f"{qemu.FOLDER_PREFIX}*/{qemu.CONTROL}")):
        try:
            with socket.socket(socket.AF_UNIX) as test:
                test.connect(str(path))
        except OSError:
            continue
        servers.append(Running(path.parent.name.removeprefix(qemu.FOLDER_PREFIX), path))
    return servers


def choose(servers: list[Running], name: str | None) -> Running:
    """The one that is meant. Raises FerryError if there is none, UsageError if there are several."""
    if not servers:
        raise FerryError("no emulated server runs: start one with ./ferry vm --profile zen3")
    by_name = {vm.name: vm for vm in servers}
    if name is None and len(servers) > 1:
        raise UsageError(f"{len(servers)} emulated servers run: say with --vm which of {', '.join(by_name)}")
    if name is not None and name not in by_name:
        raise UsageError(f"no VM '{name}': those that run are {', '.join(by_name)}")
    return by_name[name] if name is not None else servers[0]


def parse(words: list[str]) -> dict[str, Value]:
    """NAME=VALUE words. Raises UsageError for a property that is unknown, or a value out of its range."""
    values: dict[str, Value] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if name not in NAMES or not equals:
            raise UsageError(f"'{word}' is not NAME=VALUE with a name of {', '.join(NAMES)}")
        allowed = VALUES[name]
        if not isinstance(allowed, range):
            if text not in allowed:
                raise UsageError(f"{word}: must be {' or '.join(allowed)}")
            values[name] = {"true": True, "false": False}.get(text, text)
        elif re.fullmatch(r"\d{1,20}", text) and int(text) in allowed:
            values[name] = int(text)
        else:
            raise UsageError(f"{word}: must be a number from {allowed.start} to {allowed.stop - 1}")
    return values


class Qmp:
    """QEMU's monitor, one command after the other."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def run(self, command: str, **arguments: Any) -> Any:
        """What the command returns. Raises FerryError with what QEMU says against it."""
        try:
            self._stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
            self._stream.flush()
            while line := self._stream.readline():
                answer = json.loads(line)
                if "error" in answer:
                    raise FerryError(f"QEMU refuses {command} {arguments}: {answer['error']['desc']}")
                if "return" in answer:
                    return answer["return"]
        except OSError as err:
            raise FerryError(f"QEMU does not answer {command}: {err}") from err
        raise FerryError(f"the VM has ended before it answered {command}")

    def channels(self) -> list[int]:
        names = [child["name"] for child in self.run("qom-list", path=TOP)]
        return sorted(int(name[3:]) for name in names if re.fullmatch(r"dma\d+", name))

    def properties(self, number: int) -> list[str]:
        """Those of NAMES that a channel has, which depends on the engine."""
        names = {entry["name"] for entry in self.run("qom-list", path=f"{TOP}/dma{number}")}
        return [name for name in NAMES if name in names]


@contextmanager
def connected(vm: Running) -> Iterator[Qmp]:
    """A monitor that takes commands. Raises FerryError if another has it, or the VM has just ended."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(ANSWER_S)
        try:
            link.connect(str(vm.path))
        except OSError as err:
            raise FerryError(f"VM {vm.name} has just ended") from err
        with link.makefile("rw") as stream:
            monitor = Qmp(stream)
            # The greeting is no answer, and passed over with the events.
            monitor.run("qmp_capabilities")
            yield monitor


def chosen(channels: list[int], channel: int | None) -> list[int]:
    """The channels that are meant: one, or all. Raises UsageError for one that is not there."""
    if channel is None:
        return channels
    if channel not in channels:
        raise UsageError(f"no channel {channel}: there are {channels[0]} to {channels[-1]}")
    return [channel]


def change(monitor: Qmp, channel: int | None, values: Mapping[str, Value]) -> None:
    """Set properties of a channel, or of all. Raises UsageError for one that its engine has not."""
    for number in chosen(monitor.channels(), channel):
        properties = monitor.properties(number)
        if lacking := [name for name in values if name not in properties]:
            raise UsageError(f"channel {number} has no {lacking[0]}: it has {', '.join(properties)}")
        for name, value in values.items():
            monitor.run("qom-set", path=f"{TOP}/dma{number}", property=name, value=value)


def listed(monitor: Qmp, channel: int | None) -> dict[int, dict[str, Value]]:
    """The properties of each channel now."""
    return {
        number: {
            name: monitor.run("qom-get", path=f"{TOP}/dma{number}", property=name)
            for name in monitor.properties(number)
        }
        for number in chosen(monitor.channels(), channel)
    }
