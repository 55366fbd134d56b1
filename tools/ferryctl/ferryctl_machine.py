# SPDX-License-Identifier: GPL-2.0
"""A machine with Ferry: what can be read from its sysfs, and how a file of it is written."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NONE = "none"
# The kernel's engines that are modules.
MODULES = ("mtcopy", "dcbm")

# A shell that 'su' has opened may have it not in its PATH.
SBIN = "/usr/sbin:/sbin"
# Exit status. 2 is argparse's: the arguments make no sense.
WELL, FAILED, USAGE, NO_FERRY, IN_PART = 0, 1, 2, 3, 4
INTERRUPTED = 130


class Problem(Exception):
    """One clear line for the administrator."""

    code = FAILED


class NoFerry(Problem):
    """This kernel has no Ferry."""

    code = NO_FERRY


class NoDevice(Problem):
    """The engine finds nothing to copy with; at boot it may yet come."""


def _modprobe(args: Sequence[str]) -> int:
    """In a group of its own: ^C, which ends ferryctl in its own time, does not end it halfway."""
    program = shutil.which("modprobe", path=f"{os.environ.get('PATH', os.defpath)}:{SBIN}")
    if not program:
        raise Problem("modprobe, which loads engines, is not on this machine: install the package kmod")
    return subprocess.run([program, *args], process_group=0).returncode


@dataclass(frozen=True)
class System:
    """A machine, below a folder; modprobe loads its modules."""

    root: Path = Path("/")
    modprobe: Callable[[Sequence[str]], int] = _modprobe

    @property
    def offload(self) -> Path:
        """Ferry's folder in sysfs."""
        return self.root / "sys/kernel/mm/migrate_offload"

    @property
    def release(self) -> str:
        """Of the kernel that runs."""
        return self.read("proc/sys/kernel/osrelease") or platform.release()

    def read(self, name: str) -> str | None:
        """A file below the root, without its last newline; None if it cannot be read."""
        try:
            return (self.root / name).read_text().rstrip("\n")
        except (OSError, UnicodeDecodeError):
            return None

    def get(self, name: str) -> str | None:
        """A file of Ferry's."""
        return self.read(f"sys/kernel/mm/migrate_offload/{name}")

    def store(self, file: int, name: str, value: str) -> None:
        """What the kernel looks at: it refuses a value in write(2), never in open(2)."""
        os.write(file, f"{value}\n".encode())

    def put(self, name: str, value: str) -> None:
        """Write one of Ferry's files. Raises Problem saying what the kernel did not like."""
        try:
            file = os.open(self.offload / name, os.O_WRONLY)
        except PermissionError as err:
            raise Problem(f"changing {name} needs root: use sudo{self.contained()}") from err
        except FileNotFoundError as err:
            raise Problem(
                f"this kernel has no setting '{name}'; it has: {', '.join(self.settings())}"
            ) from err
        except OSError as err:
            raise Problem(f"{name}: {err.strerror}{self.contained(err.errno == errno.EROFS)}") from err
        try:
            self.store(file, name, value)
        except OSError as err:
            raise self._refusal(name, value, err) from err
        finally:
            os.close(file)

    def _refusal(self, name: str, value: str, err: OSError) -> Problem:
        if err.errno == errno.ENODEV:
            return NoDevice(
                f"{name}={value}: it finds nothing to copy with: see 'ferryctl engines' and dmesg"
            )
        if err.errno == errno.ENOENT:
            there = (self.get("available") or "").split()
            return Problem(f"{name}={value}: there is no such engine; there are: {', '.join([NONE, *there])}")
        said = "the kernel refuses that value" if err.errno == errno.EINVAL else err.strerror
        return Problem(f"{name}={value}: {said}{self.contained()}")

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

    @property
    def has_ferry(self) -> bool:
        """Whether this kernel has it."""
        return self.offload.is_dir()

    def need_ferry(self) -> None:
        """Raise NoFerry on a kernel without Ferry."""
        if not self.has_ferry:
            raise NoFerry(
                f"kernel {self.release} is without Ferry: boot one that has it (CONFIG_MIGRATE_OFFLOAD)"
                f"{self.contained()}"
            )

    def in_container(self) -> bool:
        """Whether this is a container, whose kernel is the host's."""
        inside = any((self.root / name).exists() for name in (".dockerenv", "run/.containerenv"))
        return inside or self.read("run/systemd/container") is not None

    def contained(self, sure: bool = False) -> str:
        """What is to be said besides, in a container."""
        if self.in_container() or sure:
            return "; this is a container, whose kernel is its host's: run ferryctl on the host"
        return ""


# --- engines ---


def use(system: System, engine: str, parameters: Mapping[str, str] | None = None) -> None:
    """Load an engine, if it is not there as its parameters say, and let it copy; "none" lets Linux copy as
    it always did."""
    system.need_ferry()
    available = (system.get("available") or "").split()
    if engine in available and _has_others(system, engine, parameters or {}):
        active = system.get("active") or NONE
        if active == engine:
            system.put("active", NONE)
        if system.modprobe(["-r", engine]):
            system.put("active", active)
            raise Problem(f"{engine} is loaded with other parameters, and cannot be unloaded: it is in use")
        available.remove(engine)
    if engine != NONE and engine not in available:
        if engine not in MODULES:
            there = ", ".join([NONE, *available])
            raise Problem(f"no engine '{engine}'; there are: {there}, and to load: {_loadable(available)}")
        words = [f"{key}={value}" for key, value in (parameters or {}).items()]
        if system.modprobe([engine, *words]):
            raise Problem(f"cannot load the module {engine}{_loading(words)}; dmesg says more")
    system.put("active", engine)


def _loading(words: Sequence[str]) -> str:
    return f" with {' '.join(words)} (see /etc/ferry.conf)" if words else ""


def _has_others(system: System, engine: str, parameters: Mapping[str, str]) -> bool:
    """Whether the module is loaded with other parameters than these."""
    loaded = {key: system.read(f"sys/module/{engine}/parameters/{key}") for key in parameters}
    return any(value is not None and value != parameters[key] for key, value in loaded.items())


def _loadable(available: Sequence[str]) -> str:
    return ", ".join(name for name in MODULES if name not in available) or NONE
