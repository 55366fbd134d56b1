# SPDX-License-Identifier: GPL-2.0
"""Which Linux Ferry stands on: the source package that Debian serves, and what is known of it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ferry import files, packages, proc
from ferry.errors import FerryError
from ferry.progress import note


@dataclass(frozen=True)
class Base:
    """A source package as a base.toml describes it and dpkg has it."""

    package: str
    version: str
    tarball: Path
    sha256: str | None  # None: nobody tested the patches on this version
    tested: str = ""  # the versions on which somebody did
    archive: str = ""  # where these are when mirrors have moved on
    suite: str | None = None  # of Debian, where it is not the system's own

    @property
    def identity(self) -> str:
        """Changes whenever the tarball does."""
        stat = self.tarball.stat()
        return f"{self.package} {self.version} {stat.st_size} {int(stat.st_mtime)}"


def find(path: Path, folder: Path) -> Base:
    """Get the source package and say which version it is.

    One of the system's own suite is installed. One of another suite is fetched into the
    folder: what apt knows of the system stays as it is.
    """
    table = tomllib.loads(path.read_text())
    if "suite" in table:
        version, root = packages.unpacked(table["package"], table["suite"], folder)
        tarball = root / table["tarball"].lstrip("/")
    else:
        packages.ensure([table["package"]])
        version = proc.output(["dpkg-query", "-W", "-f", "${Version}", table["package"]])
        tarball = Path(table["tarball"])
    if not version.startswith(f"{table['version']}."):
        raise FerryError(
            f"{table['package']} is version {version}, but Ferry's patches are for {table['version']}.y, "
            f"which is at {table['archive']}"
        )
    digests = table["sha256"]
    return Base(
        *(table["package"], version, tarball, digests.get(version), ", ".join(digests), table["archive"]),
        suite=table.get("suite"),
    )


def config_folder(path: Path, folder: Path) -> Path:
    """Get the package of Debian's configs of this Linux, as find() its source; returns where they are."""
    table = tomllib.loads(path.read_text())
    package = f"linux-config-{table['version']}"
    if "suite" in table:
        return packages.unpacked(package, table["suite"], folder)[1] / "usr/src" / package
    packages.ensure([package])
    return Path("/usr/src") / package


def verify(base: Base) -> None:
    """Compare the tarball with the checksum of its version; an unknown version is only noted."""
    if base.sha256 is None:
        note(f"note: {base.package} {base.version} is new to Ferry, which knows {base.tested}")
        return
    digest = files.contents(base.tarball)
    if digest != base.sha256:
        again = f"apt-get install --reinstall {base.package}"
        if base.suite:
            again = f"rm -r {base.tarball.parents[3]}"
        raise FerryError(f"{base.tarball} is damaged: SHA-256 {digest}, expected {base.sha256}; run: {again}")
