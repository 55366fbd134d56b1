# SPDX-License-Identifier: GPL-2.0
"""Which Linux Ferry stands on: the source package that Debian serves, and what is known of it."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ferry import packages, paths, proc
from ferry.errors import FerryError
from ferry.progress import note


@dataclass(frozen=True)
class Base:
    """A source package as kernel/base.toml describes it and dpkg has it."""

    package: str
    version: str
    tarball: Path
    sha256: str | None  # None: nobody tested the patches on this version
    known: str = ""  # the versions on which somebody did
    archive: str = ""  # where these are when mirrors have moved on

    @property
    def identity(self) -> str:
        """Changes whenever the tarball does."""
        stat = self.tarball.stat()
        return f"{self.package} {self.version} {stat.st_size} {int(stat.st_mtime)}"


def find(path: Path = paths.KERNEL / "base.toml") -> Base:
    """Install the source package and say which version it is."""
    table = tomllib.loads(path.read_text())
    package, series = table["package"], table["version"]
    packages.ensure([package])
    version = proc.output(["dpkg-query", "-W", "-f", "${Version}", package])
    if not version.startswith(f"{series}."):
        raise FerryError(
            f"{package} is version {version}, but Ferry's patches are for {series}.y, which is at "
            + table["archive"]
        )
    known = table["sha256"]
    return Base(
        package, version, Path(table["tarball"]), known.get(version), ", ".join(known), table["archive"]
    )


def verify(base: Base) -> None:
    """Compare the tarball with the checksum of its version; an unknown version is only noted."""
    if base.sha256 is None:
        note(f"note: {base.package} {base.version} is new to Ferry, which knows {base.known}")
        return
    with base.tarball.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != base.sha256:
        raise FerryError(
            f"{base.tarball} is damaged: SHA-256 {found}, expected {base.sha256}; "
            f"run: apt-get install --reinstall {base.package}"
        )
