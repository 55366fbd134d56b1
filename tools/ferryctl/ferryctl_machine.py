# SPDX-License-Identifier: GPL-2.0
"""A machine with Ferry: what can be read, what can be changed, and /etc/ferry.conf."""

from __future__ import annotations

import errno
import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CONF = "etc/ferry.conf"
# The kernel's engines that are modules.
MODULES = ("mtcopy", "dcbm")
NONE = "none"

DEFAULTS = {"reasons": "all"}


class Problem(Exception):
    """One clear line for the administrator."""


def _modprobe(args: Sequence[str]) -> int:
    """In a group of its own: ^C, which ends ferryctl in its own time, does not end it halfway."""
    return subprocess.run(["modprobe", *args], process_group=0).returncode


@dataclass(frozen=True)
class System:
    """A machine, below a folder; modprobe loads its modules."""

    root: Path = Path("/")
    modprobe: Callable[[Sequence[str]], int] = _modprobe

    @property
    def offload(self) -> Path:
        """Ferry's folder in sysfs."""
        return self.root / "sys/kernel/mm/migrate_offload"

    def read(self, name: str) -> str | None:
        """A file below the root, without its last newline; None if it cannot be read."""
        try:
            return (self.root / name).read_text().rstrip("\n")
        except OSError:
            return None

    def get(self, name: str) -> str | None:
        """A file of Ferry's."""
        return self.read(f"sys/kernel/mm/migrate_offload/{name}")

    def put(self, name: str, value: str) -> None:
        """Write one of Ferry's files. Raises Problem saying what the kernel did not like."""
        try:
            file = os.open(self.offload / name, os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(file, f"{value}\n".encode())
            finally:
                os.close(file)
        except PermissionError as err:
            raise Problem(f"changing {name} needs root: use sudo{self._contained()}") from err
        except FileNotFoundError as err:
            raise Problem(
                f"this kernel has no setting '{name}'; it has: {', '.join(self.settings())}"
            ) from err
        except OSError as err:
            why = {
                errno.EINVAL: "the kernel refuses that value",
                errno.ENOENT: "there is no such engine",
                errno.ENODEV: "it finds nothing to copy with; dmesg says more",
            }
            said = why.get(err.errno or 0, err.strerror)
            raise Problem(f"{name}={value}: {said}{self._contained(err.errno == errno.EROFS)}") from err

    def settings(self) -> dict[str, str]:
        """What can be set, and its value: the files that their owner may write."""
        if not self.offload.is_dir():
            return {}
        names = [path.name for path in sorted(self.offload.iterdir()) if path.is_file()]
        can = [name for name in names if (self.offload / name).stat().st_mode & 0o200 and name != "active"]
        return {name: self.get(name) or "" for name in can}

    def folder(self, name: str) -> dict[str, int]:
        """The counters in a folder of Ferry's."""
        path = self.offload / name
        found = {
            file.name: self.get(f"{name}/{file.name}") for file in sorted(path.glob("*")) if file.is_file()
        }
        return {key: int(text) for key, text in found.items() if text and text.lstrip("-").isdigit()}

    def need_ferry(self) -> None:
        """Raise Problem on a kernel without Ferry."""
        if not self.offload.is_dir():
            release = self.read("proc/sys/kernel/osrelease") or platform.release()
            raise Problem(
                f"kernel {release} is without Ferry: boot one that has it (CONFIG_MIGRATE_OFFLOAD)"
                f"{self._contained()}"
            )

    def in_container(self) -> bool:
        """Whether this is a container, whose kernel is the host's."""
        inside = any((self.root / name).exists() for name in (".dockerenv", "run/.containerenv"))
        return inside or self.read("run/systemd/container") is not None

    def _contained(self, sure: bool = False) -> str:
        if self.in_container() or sure:
            return "; this is a container, whose kernel is its host's: run ferryctl on the host"
        return ""


# --- what is changed ---


def use(system: System, engine: str, parameters: Mapping[str, str] | None = None) -> None:
    """Load an engine, if it is not there as its parameters say, and let it copy; "none" lets Linux copy as
    it always did."""
    system.need_ferry()
    known = (system.get("available") or "").split()
    if engine in known and _has_others(system, engine, parameters or {}):
        active = system.get("active") or NONE
        if active == engine:
            system.put("active", NONE)
        if system.modprobe(["-r", engine]):
            system.put("active", active)
            raise Problem(f"{engine} is loaded with other parameters, and cannot be unloaded: it is in use")
        known.remove(engine)
    if engine != NONE and engine not in known:
        if engine not in MODULES:
            raise Problem(
                f"no engine '{engine}'; there are: {', '.join([NONE, *known])}, and to load: {_more(known)}"
            )
        words = [f"{key}={value}" for key, value in (parameters or {}).items()]
        if system.modprobe([engine, *words]):
            hint = (
                ": is there a DMA engine with free channels? See /sys/class/dma" if engine == "dcbm" else ""
            )
            raise Problem(f"cannot load {engine}{hint}; dmesg says more")
    system.put("active", engine)


def _has_others(system: System, engine: str, parameters: Mapping[str, str]) -> bool:
    """Whether the module is loaded with other parameters than these."""
    loaded = {key: system.read(f"sys/module/{engine}/parameters/{key}") for key in parameters}
    return any(value is not None and value != parameters[key] for key, value in loaded.items())


def _more(known: Sequence[str]) -> str:
    return ", ".join(name for name in MODULES if name not in known) or NONE


def change(system: System, settings: Mapping[str, str]) -> None:
    """Change settings, all or none: what was changed before a refusal is put back."""
    system.need_ferry()
    before = system.settings()
    for name in settings:
        if name not in before:
            raise Problem(f"this kernel has no setting '{name}'; it has: {', '.join(before)}")
    try:
        for name, value in _writes(settings):
            system.put(name, value)
    except Problem:
        for name, value in _writes({name: before[name] for name in settings}):
            system.put(name, value)
        raise


def _writes(settings: Mapping[str, str]) -> list[tuple[str, str]]:
    """A chunk must fit into the window, and any fits into one of 0: so that comes first, the window last."""
    both = {"chunk_pages", "window_pages"} <= settings.keys()
    ordered = sorted(settings.items(), key=lambda pair: (pair[0] == "window_pages", pair[0]))
    return [("window_pages", "0"), *ordered] if both else ordered


def reset(system: System) -> None:
    """As after boot: no engine, every setting the kernel's own choice."""
    system.need_ferry()
    system.put("active", NONE)
    change(system, {name: DEFAULTS.get(name, "0") for name in system.settings()})


# --- /etc/ferry.conf ---


def load_conf(system: System) -> dict[str, str]:
    """NAME = VALUE lines. Raises Problem naming the line that is none."""
    found: dict[str, str] = {}
    for number, line in enumerate((system.read(CONF) or "").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", name):
            raise Problem(f"/{CONF}, line {number}: '{text}' is not NAME = VALUE")
        found[name] = value
    return found


def save_conf(system: System, values: Mapping[str, str]) -> None:
    """Write values into the file; its comments and other lines stay."""
    lines = (system.read(CONF) or "").splitlines()
    for name, value in values.items():
        place = next(
            (i for i, line in enumerate(lines) if re.match(rf"\s*{re.escape(name)}\s*=", line)), None
        )
        if place is None:
            lines.append(f"{name} = {value}")
        else:
            lines[place] = f"{name} = {value}"
    path = system.root / CONF
    scratch = path.with_name(f"{path.name}.new")
    try:
        scratch.write_text("".join(f"{line}\n" for line in lines))
        scratch.replace(path)
    except OSError as err:
        raise Problem(f"cannot write /{CONF}: {err.strerror}; it needs root") from err


def parameters(conf: Mapping[str, str], engine: str) -> dict[str, str]:
    """What the file has for the module of an engine."""
    prefix = f"{engine}."
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def apply(system: System) -> None:
    """Do what the file says: settings first, then the engine, with the parameters of its module."""
    conf = load_conf(system)
    engine = conf.pop("engine", NONE)
    change(system, {key: value for key, value in conf.items() if "." not in key})
    use(system, engine, parameters(conf, engine))
