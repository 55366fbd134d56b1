# SPDX-License-Identifier: GPL-2.0
"""Faults and rates of the PTDMA channels of an emulated server that runs, by QEMU's QMP socket."""

from __future__ import annotations

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
U32, U64 = (1 << 32) - 1, (1 << 64) - 1
# What server/qemu/src/docs/specs says can be changed: least and greatest value, and what it does.
NUMBERS = {
    "bandwidth": (0, U64, "bytes per second; 0: no limit"),
    "descriptor-ns": (0, U32, "time that each descriptor takes before its bytes"),
    "register-ns": (0, U32, "time that each access to a register takes of the CPU"),
    "interrupt-ns": (0, U32, "time that each interrupt takes of the CPU"),
    "small-bytes": (0, U32, "descriptors of less than that are small"),
    "small-percent": (0, 100, "rate of small ones, percent; 0: as others"),
    "error-at": (0, U32, "the n-th descriptor from now on fails; 0: none"),
    "error-every": (0, U32, "and each n-th after it; 0: none"),
    "error-code": (1, 63, "with this code"),
    "stall-at": (0, U32, "the n-th descriptor from now on does not end; 0: none"),
    "lose-irq-at": (0, U32, "the n-th descriptor from now on sends no interrupt; 0: none"),
    "ones-at": (0, U32, "the n-th read of INT_STATUS from now on gives all ones; 0: none"),
}
SWITCHES = {
    "stalled": "false lets a descriptor that stalls go on",
    "gone": "true: the function has fallen off the bus",
}
# What nobody has said of the real function: the words that its property may have.
GUESSES = {"head": ("end", "fetch"), "run": ("auto", "sticky")}
NAMES = (*NUMBERS, *SWITCHES, *GUESSES)
Value = int | bool | str


@dataclass(frozen=True)
class Running:
    """A VM with a socket: its name is that of its folder in build, without "vm-"."""

    name: str
    path: Path


def running(folder: Path | None = None) -> list[Running]:
    """The emulated servers that run now, of this checkout. One that was killed has left its socket only."""
    found = []
    for path in sorted((folder or paths.BUILD).glob(f"{qemu.FOLDER_PREFIX}*/{qemu.CONTROL}")):
        try:
            with socket.socket(socket.AF_UNIX) as test:
                test.connect(str(path))
        except OSError:
            continue
        found.append(Running(path.parent.name.removeprefix(qemu.FOLDER_PREFIX), path))
    return found


def choose(found: list[Running], name: str | None) -> Running:
    """The one that is meant. Raises FerryError if there is none, UsageError if there are several."""
    if not found:
        raise FerryError("no emulated server runs: start one with ./ferry vm --profile zen3")
    there = ", ".join(each.name for each in found)
    if name is None:
        if len(found) > 1:
            raise UsageError(f"{len(found)} emulated servers run: say with --vm which of {there}")
        return found[0]
    for each in found:
        if each.name == name:
            return each
    raise UsageError(f"no VM '{name}': those that run are {there}")


def parse(words: list[str]) -> dict[str, Value]:
    """NAME=VALUE words. Raises UsageError for a property that is unknown, or a value out of its range."""
    found: dict[str, Value] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if name not in NAMES or not equals:
            raise UsageError(f"'{word}' is not NAME=VALUE with a name of {', '.join(NAMES)}")
        if name in SWITCHES:
            if text not in ("true", "false"):
                raise UsageError(f"{word}: must be true or false")
            found[name] = text == "true"
            continue
        if name in GUESSES:
            if text not in GUESSES[name]:
                raise UsageError(f"{word}: must be {' or '.join(GUESSES[name])}")
            found[name] = text
            continue
        least, most, _ = NUMBERS[name]
        if not re.fullmatch(r"\d{1,20}", text) or not least <= int(text) <= most:
            raise UsageError(f"{word}: must be a number from {least} to {most}")
        found[name] = int(text)
    return found


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
        """The numbers of the device's channels."""
        names = [each["name"] for each in self.run("qom-list", path=TOP)]
        return sorted(int(name[3:]) for name in names if re.fullmatch(r"dma\d+", name))


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


def wanted(there: list[int], channel: int | None) -> list[int]:
    """The channels that are meant: one, or all. Raises UsageError for one that is not there."""
    if channel is None:
        return there
    if channel not in there:
        raise UsageError(f"no channel {channel}: there are {there[0]} to {there[-1]}")
    return [channel]


def change(monitor: Qmp, channel: int | None, values: Mapping[str, Value]) -> None:
    """Set properties of a channel, or of all."""
    for number in wanted(monitor.channels(), channel):
        for name, value in values.items():
            monitor.run("qom-set", path=f"{TOP}/dma{number}", property=name, value=value)


def listed(monitor: Qmp, channel: int | None) -> dict[int, dict[str, Value]]:
    """The properties of each channel now."""
    return {
        number: {name: monitor.run("qom-get", path=f"{TOP}/dma{number}", property=name) for name in NAMES}
        for number in wanted(monitor.channels(), channel)
    }
