# SPDX-License-Identifier: GPL-2.0
"""What guests have said, a file with one line of JSON for each boot, named by what determines it.

So what was interrupted goes on where it ended, and what has not changed is not measured again. A name is
a digest of the kernel, the emulator, the machine, the job and its programs. Wall time depends on the host
besides: what is of wall time only serves to go on. What a guest on the host's root depends on nobody can
say: its record only serves to be looked at, and is named by what it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ferry import files, paths

LETTERS = 16


def folder() -> Path:
    """Where they are."""
    return paths.OUT / "records"


def load(name: str) -> dict[str, Any] | None:
    """A record by its name: its title, where it comes from, and what the guest said. None if it is lost.

    Those of another base are in a folder of that base; a page may show both.
    """
    found = [folder() / f"{name}.json", *paths.OUT.glob(f"*/records/{name}.json")]
    text = next((text for path in found if (text := files.read(path))), None)
    record: dict[str, Any] | None = json.loads(text) if text else None
    return record


@dataclass(frozen=True)
class Store:
    """The records of boots. origin: what a record says of when and where it was made."""

    origin: Mapping[str, str] = field(default_factory=dict)
    anew: bool = False  # nothing that was measured before counts

    def name(self, identity: str, turn: int, wall_time: bool) -> str:
        """What the record of a boot is called; turn: which of several that are alike."""
        host = self.origin.get("host", "") if wall_time else ""
        return files.digest(identity, str(turn), host)[:LETTERS]

    def name_of(self, title: str, said: str) -> str:
        """What the record of a boot is called of which nobody can say what determines it."""
        return files.digest(title, said)[:LETTERS]

    def find(self, name: str) -> str | None:
        """What a guest has said before."""
        record = None if self.anew else load(name)
        return record["said"] if record else None

    def forget(self, names: Iterable[str]) -> None:
        """Remove records, so that what replaces them can go on where it is interrupted."""
        for name in names:
            (folder() / f"{name}.json").unlink(missing_ok=True)

    def keep(self, name: str, about: Mapping[str, str], said: str) -> None:
        """Write a record."""
        line = json.dumps({"name": name, **about, **self.origin, "said": said})
        files.write(folder() / f"{name}.json", f"{line}\n")
