# SPDX-License-Identifier: GPL-2.0
"""QEMU with models of DMA engines: Debian's source with server/qemu/patches and server/qemu/src on top.

build/qemu/apt      apt's lists and configuration for sources; the system's own are not touched
build/qemu/source   the source, patched; the files of server/qemu/src are linked in
build/qemu/out      where it is built

Each step is redone only if what it is made from has changed, and a step that was interrupted leaves
nothing that a later run takes for done.
"""

import json
import os
import re
import shutil
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ferry import files, packages, paths, proc
from ferry.errors import FerryError
from ferry.progress import note

HERE = paths.ROOT / "server/qemu"
PLACE = paths.BUILD / "qemu"
SOURCE = PLACE / "source"
OUT = PLACE / "out"
BINARY = OUT / "qemu-system-x86_64"
# Where Debian's packages keep what QEMU loads into the guest.
FIRMWARE = ("/usr/share/qemu", "/usr/share/seabios")
DEVICE = "amd-ptdma"
IOAT = "intel-ioat"
DSA = "intel-dsa"

PACKAGES = (
    "dpkg-dev", "debian-archive-keyring", "patch", "xz-utils", "gcc", "libc6-dev", "ccache", "pkg-config",
    "python3", "meson", "ninja-build", "libglib2.0-dev", "libpixman-1-dev", "libfdt-dev",
    "libcap-ng-dev",
)  # fmt: skip
FIRMWARE_PACKAGES = ("qemu-system-data", "seabios")

# Debian's own Python runs Debian's meson, whatever else is in the user's PATH. QEMU is compiled by absolute
# paths: ccache is to find what another checkout has compiled.
_ENV = {
    "LC_ALL": "C",
    "PATH": f"/usr/lib/ccache:/usr/bin:{os.environ['PATH']}",
    "CCACHE_BASEDIR": str(paths.BUILD),
    "CCACHE_NOHASHDIR": "1",
}
_STEP = re.compile(r"\[(\d+/\d+)\] (?:\S+ ){2,}?\S*?([\w.-]+)$")


@dataclass(frozen=True)
class Base:
    """What server/qemu/base.toml says."""

    package: str
    version: str
    configure: tuple[str, ...]
    sha256: dict[str, str]  # of the .dsc files of the versions that somebody tested
    archive: str  # where these are when mirrors have moved on


def base(path: Path = HERE / "base.toml") -> Base:
    """The emulator that the device is made for."""
    table = tomllib.loads(path.read_text())
    return Base(**table | {"configure": tuple(table["configure"])})


@cache
def build() -> Path:
    """Build the emulator unless it is up to date, which is looked at once; returns the program."""
    package = base()
    packages.ensure([*PACKAGES, *FIRMWARE_PACKAGES])
    with files.locked(paths.BUILD / "qemu.lock"):
        version = _source(package)
        own = sorted(path for path in (HERE / "src").rglob("*") if path.is_file())
        for path in own:
            files.link(SOURCE / path.relative_to(HERE / "src"), path)
        done = OUT / "ferry-built"
        fingerprint = files.digest(version, repr(package), *_parts(own))
        if files.read(done) != fingerprint or not BINARY.is_file():
            done.unlink(missing_ok=True)
            _configure(package, version)
            proc.run(["ninja", "-C", OUT, BINARY.name], title="build QEMU", env=_ENV, on_line=_progress)
            _check_device()
            files.write(done, fingerprint)
    return BINARY


def command() -> list[str]:
    return [str(BINARY), *(word for place in FIRMWARE for word in ("-L", place))]


def firmware() -> list[Path]:
    """What it, or another QEMU, may load into a guest."""
    return sorted(path for place in FIRMWARE for path in Path(place).glob("*.bin"))


def version(program: str | Path = BINARY) -> str:
    """What the built program, or another QEMU, says of itself."""
    return proc.output([program, "--version"]).splitlines()[0]


def _source(package: Base) -> str:
    """Bring the patched source up to date; returns its version."""
    stamp = SOURCE / "ferry-source.json"
    patches = sorted((HERE / "patches").glob("*.patch"))
    identity = files.digest(package.package, package.version, *_parts(patches))
    state = json.loads(files.read(stamp) or "{}")
    if state.get("identity") == identity:
        return str(state["version"])
    description = _download(package)
    scratch = PLACE / "source.new"
    shutil.rmtree(scratch, ignore_errors=True)
    _verify(package, description)
    # It compares the tarballs with the checksums in the description.
    release = _release(description)
    proc.run(["dpkg-source", "-x", description, scratch], title=f"unpack {description.stem}", env=_ENV)
    for patch in patches:
        apply: list[str | Path] = ["patch", "-d", scratch, "-p1", "--forward", "--batch", "-i", patch]
        proc.run(apply, title=f"apply {patch.stem}", env=_ENV)
    files.write(scratch / stamp.name, json.dumps({"identity": identity, "version": release}))
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.rmtree(OUT, ignore_errors=True)
    scratch.replace(SOURCE)
    return release


def _release(description: Path) -> str:
    """The version of a source package, without its epoch."""
    return description.stem.partition("_")[2]


def _verify(package: Base, description: Path) -> None:
    """Compare the .dsc file with the checksum of its version; an unknown version is only noted."""
    release, digest = _release(description), files.contents(description)
    if release not in package.sha256:
        note(f"note: {package.package} {release} is new to Ferry, which knows {', '.join(package.sha256)}")
    elif digest != package.sha256[release]:
        raise FerryError(
            f"{description} is not what Debian has: SHA-256 {digest}, expected {package.sha256[release]}"
        )


def _download(package: Base) -> Path:
    """Fetch the source package with apt, which checks it; returns the .dsc file."""
    target = PLACE / "download"
    options = packages.apart(PLACE / "apt", "deb-src", packages.mirrors())
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    fetch = ["source", "-q", "--download-only", package.package]
    for args, title in ((["update", "-q"], "update the list of sources"), (fetch, "fetch QEMU's source")):
        try:
            proc.run(["apt-get", *options, *args], title=title, cwd=target, env=packages.APT_ENV)
        except FerryError as err:
            raise FerryError(
                f"cannot fetch the source of {package.package}; is there a network?\n{err}"
            ) from err
    descriptions = list(target.glob("*.dsc"))
    if len(descriptions) != 1 or not descriptions[0].name.startswith(f"{package.package}_{package.version}"):
        names = ", ".join(path.name for path in descriptions) or "nothing"
        raise FerryError(
            f"apt gave {names} for {package.package}, but the device is for {package.version}: Ferry expects "
            f"Debian 12 (bookworm); what its mirrors no longer have is at {package.archive}"
        )
    return descriptions[0]


def _parts(listed: list[Path]) -> list[str | bytes | Path]:
    return [part for path in listed for part in (path.name, path)]


def _configure(package: Base, version: str) -> None:
    done = OUT / "ferry-configured"
    identity = files.digest(version, *package.configure)
    if files.read(done) == identity:
        return
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    tools = ["--meson=/usr/bin/meson", "--ninja=/usr/bin/ninja"]
    name = f"--with-pkgversion=Debian {version} with Ferry's PTDMA"
    args: list[str | Path] = [SOURCE / "configure", *package.configure, *tools, name]
    proc.run(args, title="configure QEMU", cwd=OUT, env=_ENV)
    files.write(done, identity)


def _progress(line: str) -> str | None:
    """For on_line: how many of how many steps, and the file at hand."""
    step = _STEP.match(line.rstrip())
    return f"{step[1]} {step[2]}" if step else None


def _check_device() -> None:
    devices = proc.output([BINARY, "-device", "help"])
    for name in (DEVICE, IOAT, DSA):
        if f'"{name}"' not in devices:
            raise FerryError(f"{BINARY} was built without the device {name}; see server/qemu/patches")
