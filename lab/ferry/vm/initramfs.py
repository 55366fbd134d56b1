# SPDX-License-Identifier: GPL-2.0
"""An initramfs in the cpio format "newc", written without root; equal input gives equal bytes."""

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ferry import packages
from ferry.errors import FerryError

BUSYBOX = Path("/usr/bin/busybox")  # Debian: busybox-static


@dataclass(frozen=True)
class Entry:
    """One member of an archive: path without a leading slash, type and permissions, contents."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def directory(name: str) -> Entry:
    """A directory."""
    return Entry(name, stat.S_IFDIR | 0o755)


def file(name: str, data: bytes, mode: int = 0o755) -> Entry:
    """A regular file."""
    return Entry(name, stat.S_IFREG | mode, data)


def link(name: str, target: str) -> Entry:
    """A symbolic link."""
    return Entry(name, stat.S_IFLNK | 0o777, target.encode())


def char_device(name: str, major: int, minor: int) -> Entry:
    """A character device."""
    return Entry(name, stat.S_IFCHR | 0o600, device=(major, minor))


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
                by_name.setdefault(str(parent), directory(str(parent)))
    return [by_name[name] for name in sorted(by_name, key=lambda name: PurePosixPath(name).parts)]


def modules(installed: Path) -> dict[str, Path]:
    """What make modules_install left in a folder, by path in the guest."""
    found = (path for path in (installed / "lib/modules").rglob("*") if path.is_file())
    return {str(path.relative_to(installed)): path for path in found}


def root(init: str, programs: Mapping[str, Path]) -> bytes:
    """A root with busybox, a script as /init, and files of the host at given paths of the guest."""
    packages.ensure(["busybox-static"])
    entries = [
        file("init", init.encode()),
        file("bin/busybox", BUSYBOX.read_bytes()),
        link("bin/sh", "busybox"),
        char_device("dev/console", 5, 1),
        *(directory(name) for name in ("proc", "sys", "tmp")),
    ]
    for name, path in programs.items():
        if not path.is_file():
            raise FerryError(f"{path} is missing: build it first")
        entries.append(file(name.lstrip("/"), path.read_bytes()))
    return cpio(with_parents(entries))
