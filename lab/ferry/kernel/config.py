# SPDX-License-Identifier: GPL-2.0
"""Kernel configuration: fragments are merged, given to Kconfig, and what came out is compared."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ferry.errors import FerryError

Options = dict[str, str]  # CONFIG_NAME -> value; "n" stands for not set

_SET = re.compile(r"(CONFIG_\w+)=(.*)")
_UNSET = re.compile(r"# (CONFIG_\w+) is not set")
_DEFINED = re.compile(r"^\s*(?:menu)?config (\w+)\s*$", re.MULTILINE)


def parse(text: str) -> Options:
    """The options of a fragment or a .config."""
    options: Options = {}
    for line in text.splitlines():
        if option := _SET.fullmatch(line.strip()):
            options[option[1]] = option[2]
        elif option := _UNSET.fullmatch(line.strip()):
            options[option[1]] = "n"
    return options


def merge(fragments: Iterable[Path]) -> Options:
    """The options of several fragments; a later one wins."""
    options: Options = {}
    for path in fragments:
        options |= parse(path.read_text())
    return options


def render(options: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in options.items())


def verify(wanted: Mapping[str, str], got: Mapping[str, str]) -> None:
    """Raise FerryError naming each option that Kconfig did not leave as it was asked for."""
    lost = [
        f"{name}={value} (is {got.get(name, 'n')})"
        for name, value in wanted.items()
        if got.get(name, "n") != value
    ]
    if lost:
        raise FerryError(
            f"Kconfig lost {', '.join(lost)}; add what these depend on to kernel/config, or drop them"
        )


def defined(texts: Iterable[str]) -> set[str]:
    return {f"CONFIG_{name}" for text in texts for name in _DEFINED.findall(text)}


def added(patch: str) -> str:
    return "".join(line[1:] for line in patch.splitlines(keepends=True) if line.startswith("+"))


def verify_same(vanilla: Mapping[str, str], ferry: Mapping[str, str], of_ferry: set[str]) -> None:
    """Raise FerryError if two kernels that are to be compared differ in more than Ferry's options."""
    names = (vanilla.keys() | ferry.keys()) - of_ferry
    differ = sorted(n for n in names if vanilla.get(n, "n") != ferry.get(n, "n"))
    if differ:
        raise FerryError(
            f"the vanilla and the ferry kernel differ in {', '.join(differ)}: a comparison would not "
            "be fair; set these in kernel/config/common.config"
        )
