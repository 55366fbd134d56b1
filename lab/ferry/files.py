# SPDX-License-Identifier: GPL-2.0
"""Files that are either whole or not there, and locks between two ./ferry."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from ferry.progress import note


def write(path: Path, text: str) -> bool:
    """Replace a file by rename, only if its text changed. Returns whether it did."""
    return write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> bool:
    """The same for bytes. Two ./ferry may do this at once, so each has a scratch file of its own."""
    if path.is_file() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{os.getpid()}.new")
    scratch.write_bytes(data)
    scratch.replace(path)
    return True


def read(path: Path) -> str | None:
    """The text of a file, None if there is no such file."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def link(place: Path, target: Path) -> None:
    """A relative link to a file, made unless it is there."""
    relative = os.path.relpath(target, place.parent)
    if not place.is_symlink() or str(place.readlink()) != relative:
        place.unlink(missing_ok=True)
        place.symlink_to(relative)


def made_folder(place: Path, key: str, make: Callable[[Path], object]) -> Path:
    """A folder that was made of what its key names, and is made anew for another key, whole or not at all."""
    with locked(place.with_name(f"{place.name}.lock")):
        if read(place / "key") != key:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            make(place)
            write(place / "key", key)
    return place


def digest(*parts: str | bytes | Path) -> str:
    """SHA-256 over texts and the contents of files, in this order."""
    total = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part
        data = data.encode() if isinstance(data, str) else data
        total.update(b"%d:" % len(data) + data)
    return total.hexdigest()


def contents(path: Path) -> str:
    """SHA-256 of a file, which is read again only if it has changed; "" if there is none."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return ""
    return _contents(path, stat.st_ino, stat.st_size, stat.st_mtime_ns)


@cache
def _contents(path: Path, *version: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; says so if it has to wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"another ./ferry works in {path.parent}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
