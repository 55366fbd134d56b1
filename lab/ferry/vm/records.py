# SPDX-License-Identifier: GPL-2.0
"""What a job writes to descriptor 3: lines, each of a kind, which is its first word. All are read here."""

from __future__ import annotations

from collections.abc import Iterable


def of(kind: str, lines: Iterable[str]) -> list[str]:
    """What the lines of a kind say after it."""
    return [rest for found, _, rest in (line.partition(" ") for line in lines) if found == kind]


def named(kind: str, lines: Iterable[str]) -> list[tuple[str, str]]:
    """The same where its first word is a name, and what follows it."""
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in of(kind, lines))]
