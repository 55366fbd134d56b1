# SPDX-License-Identifier: GPL-2.0
"""Debian packages: install what is missing, and only that."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ferry import files, paths, proc
from ferry.errors import CommandFailed, FerryError

# Of the package debian-archive-keyring.
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
APT_ENV = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}


def is_installed(name: str) -> bool:
    """Whether dpkg has the package, configured."""
    try:
        status = proc.output(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\n", name])
    except CommandFailed:
        return False
    return any(line.startswith(("ii", "hi")) for line in status.splitlines())


def candidate(name: str) -> str | None:
    """The version of a package that apt would install, as far as its lists say; None: it could not."""
    policy = proc.output(["apt-cache", "policy", name], env=APT_ENV)
    version = re.search(r"Candidate: (?!\(none\))(\S+)", policy)
    return version[1] if version else None


def _as_root(args: Sequence[str], names: Sequence[str]) -> list[str]:
    """The command line that runs args as root; asks for sudo's password if there is a terminal."""
    if os.geteuid() == 0:
        return list(args)
    by_hand = f"run as root, or first: apt-get install {' '.join(names)}"
    if not shutil.which("sudo"):
        raise FerryError(f"packages are missing and there is no sudo; {by_hand}")
    ask = ["sudo", "-v"] if sys.stdin.isatty() else ["sudo", "-n", "-v"]
    if subprocess.run(ask).returncode:
        raise FerryError(f"packages are missing and sudo refuses; {by_hand}")
    return ["sudo", "-n", "env", *(f"{k}={v}" for k, v in APT_ENV.items()), *args]


def mirrors() -> list[str]:
    """Address, suite and component of each of Debian's lists that the system uses."""
    asked = ["--format", "$(ORIGIN)|$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    lines = proc.output(["apt-get", "indextargets", *asked], env=APT_ENV).splitlines()
    places = [line.removeprefix("Debian|") for line in lines if line.startswith("Debian|")]
    if not places:
        raise FerryError(
            "apt knows no mirror of Debian; check /etc/apt/sources.list, then run apt-get update"
        )
    return list(dict.fromkeys(places))


def apart(folder: Path, kind: str, places: Sequence[str]) -> list[str]:
    """apt's options for lists and a cache in a folder, beside the system's own; kind: deb, or deb-src."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    listing = folder / "sources.list"
    files.write(listing, "".join(f"{kind} [signed-by={KEYRING}] {place}\n" for place in places))
    settings = {
        **{"Dir::Etc::SourceList": listing, "Dir::Etc::SourceParts": "/dev/null"},
        **{"Dir::State::Lists": folder / "lists", "Dir::Cache": folder / "cache"},
        **{"Acquire::Languages": "none", "APT::Sandbox::User": "root"},
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def own_suite() -> tuple[str, str]:
    """The address and the name of the suite of Debian that the system is of."""
    address, suite = next(at.split()[:2] for at in mirrors() if "-security" not in at)
    return address, suite


def fetch(name: str, suite: str, folder: Path, architecture: str = "amd64") -> Path:
    """Download a package of another suite or architecture into a folder; nothing of the system's is changed.

    apt keeps the suite's lists in the folder, and checks them by Debian's key. Raises FerryError.
    """
    ensure(["debian-archive-keyring"])
    place = f"{own_suite()[0]} {suite} main"
    foreign = ("-o", f"APT::Architecture={architecture}", "-o", f"APT::Architectures={architecture}")
    apt = ["apt-get", "-q", *apart(folder / "apt", "deb", [place]), *foreign]
    try:
        proc.run([*apt, "update", "--error-on=any"], title=f"list {suite}", env=APT_ENV)
        proc.run([*apt, "download", name], title=f"fetch {name} of {suite}", cwd=folder, env=APT_ENV)
    except CommandFailed as err:
        raise FerryError(f"apt cannot fetch {name} of {suite}; is there a network?\n{err}") from err
    return max(folder.glob(f"{name}_*.deb"))


def unpacked(name: str, suite: str, folder: Path, architecture: str = "amd64") -> tuple[str, Path]:
    """The version of a package that was fetched into a folder, and its files; once, until it is removed."""
    with files.locked(folder / "package.lock"):
        place = folder / "package"
        debs = sorted(place.glob(f"{name}_*.deb"))
        if not debs:
            debs = [fetch(name, suite, place, architecture)]
        version = proc.output(["dpkg-deb", "-f", debs[-1], "Version"]).strip()
        root = debs[-1].with_suffix("")
        if not root.is_dir():
            scratch = place / "unpacked.new"
            shutil.rmtree(scratch, ignore_errors=True)
            proc.run(["dpkg-deb", "-x", debs[-1], scratch], title=f"unpack {debs[-1].name}")
            scratch.rename(root)
        return version, root


def ensure(names: Sequence[str]) -> None:
    """Install the Debian packages among names that are not installed yet.

    Raises FerryError naming the packages if apt does not know or cannot fetch them.
    """
    if all(is_installed(name) for name in names):
        return
    # dpkg does not wait for another that installs.
    with files.locked(paths.BUILD / "packages.lock"):
        missing = [name for name in dict.fromkeys(names) if not is_installed(name)]
        if missing:
            _install(missing)


def _install(missing: Sequence[str]) -> None:
    if not shutil.which("apt-get"):
        raise FerryError(f"no apt-get here; install the equivalent of: {' '.join(missing)}")
    what = " ".join(missing)
    if not all(map(candidate, missing)):
        # --error-on=any: without it apt-get update says success even when the network is down.
        update = ["apt-get", "update", "-q", "--error-on=any"]
        try:
            proc.run(_as_root(update, missing), title="apt-get update", env=APT_ENV)
        except CommandFailed as err:
            raise FerryError(
                f"cannot fetch apt's package lists, needed for: {what}; "
                f"check the network and /etc/apt/sources.list\n{err}"
            ) from err
    unknown = [name for name in missing if not candidate(name)]
    if unknown:
        raise FerryError(
            f"apt has no package {', '.join(unknown)}; Ferry expects Debian 12 (bookworm): "
            "check /etc/apt/sources.list"
        )
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    try:
        proc.run(_as_root(install, missing), title=f"install {what}", log="apt-install", env=APT_ENV)
    except CommandFailed as err:
        raise FerryError(f"apt could not install {what}; is there a network?\n{err}") from err
