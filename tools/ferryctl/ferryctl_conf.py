# SPDX-License-Identifier: GPL-2.0
"""/etc/ferry.conf: read, and written so that a crash leaves the old file or the new one."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ferryctl_machine import Problem, System

CONF = "etc/ferry.conf"


def load_conf(system: System) -> dict[str, str]:
    """NAME = VALUE lines. Raises Problem naming the line that is none."""
    settings: dict[str, str] = {}
    for number, line in enumerate(_read(system).splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", name):
            raise Problem(f"/{CONF}, line {number}: '{text}' is not NAME = VALUE")
        settings[name] = value
    return settings


def _read(system: System) -> str:
    """The file's text; nothing if there is none. One that cannot be read is no empty one."""
    try:
        return (system.root / CONF).read_text()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as err:
        raise Problem(f"cannot read /{CONF}: {getattr(err, 'strerror', None) or 'it is not text'}") from err


def save_conf(system: System, values: Mapping[str, str]) -> None:
    """Write values into the file; its comments and other lines stay."""
    lines = _read(system).splitlines()
    for name, value in values.items():
        place = next(
            (i for i, line in enumerate(lines) if re.match(rf"\s*{re.escape(name)}\s*=", line)), None
        )
        if place is None:
            lines.append(f"{name} = {value}")
        else:
            lines[place] = f"{name} = {value}"
    try:
        # Somebody who keeps the file elsewhere, and a link to it here, goes on doing so
        path = _target(system.root / CONF)
        replace_file(path, "".join(f"{line}\n" for line in lines), keep=True)
    except OSError as err:
        needs = "; it needs root" if isinstance(err, PermissionError) else ""
        raise Problem(f"cannot write /{CONF}: {err.strerror}{needs}") from err


def _target(path: Path) -> Path:
    """What is there after links; it need not exist yet. Raises OSError for links that go round."""
    try:
        return path.resolve(strict=True)
    except FileNotFoundError:
        return path.resolve()


def parameters(conf: Mapping[str, str], engine: str) -> dict[str, str]:
    """What the file has for the module of an engine."""
    prefix = f"{engine}."
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def replace_file(path: Path, text: str, *, keep: bool = False) -> None:
    """Write a file in one step: who reads it, or finds it after a crash, has the old text or the new.

    With keep, owner and mode stay those of the old file.
    """
    number, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
            if keep and path.exists():
                old = path.stat()
                with suppress(PermissionError):  # whoever may write the folder need not own the file
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
                os.fchmod(file.fileno(), old.st_mode & 0o7777)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            Path(scratch).unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
