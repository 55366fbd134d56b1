# SPDX-License-Identifier: GPL-2.0
"""An initramfs in the cpio format "newc", written without root; equal input gives equal bytes."""

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ferry import packages, paths
from ferry.errors import FerryError

BUSYBOX = Path("/usr/bin/busybox")  # Debian: busybox-static
FILE, FOLDER, LINK = stat.S_IFREG | 0o755, stat.S_IFDIR | 0o755, stat.S_IFLNK | 0o777
CHARACTERS = stat.S_IFCHR | 0o600  # a device


@dataclass(frozen=True)
class Entry:
    """One member of an archive: path without a leading slash, type and permissions, contents or target."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _member(inode: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    # inode, mode, uid, gid, links, mtime, size, device, device of a device node, name's length, check
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08x" % value for value in fields)
    return _padded(header + name) + _padded(entry.data)


def cpio(entries: Iterable[Entry]) -> bytes:
    """The archive. Parents must come before what they contain."""
    members = [_member(inode, entry) for inode, entry in enumerate(entries, start=1)]
    return b"".join([*members, _member(0, Entry("TRAILER!!!", 0))])


def with_parents(entries: Iterable[Entry]) -> list[Entry]:
    """The entries in order of their names, each parent directory added once and before its contents."""
    by_name = {entry.name: entry for entry in entries}
    for name in list(by_name):
        for parent in PurePosixPath(name).parents:
            if str(parent) != ".":
                by_name.setdefault(str(parent), Entry(str(parent), FOLDER))
    return [by_name[name] for name in sorted(by_name, key=lambda name: PurePosixPath(name).parts)]


def modules(installed: Path) -> dict[str, Path]:
    """What make modules_install left in a folder, by path in the guest."""
    paths = (installed / "lib/modules").rglob("*")
    return {str(path.relative_to(installed)): path for path in paths if path.is_file()}


def busybox(arm64: bool = False) -> Path:
    """Debian's, which is installed; that for arm64 is fetched."""
    if not arm64:
        packages.ensure(["busybox-static"])
        return BUSYBOX
    suite = packages.own_suite()[1]
    root = packages.unpacked("busybox-static", suite, paths.BUILD / "arm64", "arm64")[1]
    return next(path for path in (root / "usr/bin/busybox", root / "bin/busybox") if path.is_file())


def root(init: str, programs: Mapping[str, Path], arm64: bool = False) -> bytes:
    """A root with busybox, a script as /init, and files of the host at given paths of the guest."""
    entries = [
        Entry("init", FILE, init.encode()),
        Entry("bin/busybox", FILE, busybox(arm64).read_bytes()),
        Entry("bin/sh", LINK, b"busybox"),
        Entry("dev/console", CHARACTERS, device=(5, 1)),
        *(Entry(name, FOLDER) for name in ("proc", "sys", "tmp")),
    ]
    for name, path in programs.items():
        if not path.is_file():
            raise FerryError(f"{path} is missing: build it first")
        entries.append(Entry(name.lstrip("/"), FILE, path.read_bytes()))
    return cpio(with_parents(entries))
