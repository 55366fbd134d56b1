# SPDX-License-Identifier: GPL-2.0
"""A tree that looks like the sysfs of a kernel with Ferry, and refuses what the kernel refuses."""

import errno
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ferryctl
from ferryctl_machine import System
from ferryctl_settings import REASONS
from ferryctl_status import LARGE_FOLIOS

ALL = " ".join(REASONS)
# As mm/migrate_offload/sysfs.c has them: tests/unit/test_ferryctl.py compares.
ROOT_FILES = {
    "active": "none", "reasons": ALL, "min_bytes": "0", "target_us": "0", "window_pages": "0",
    "chunk_pages": "0", "stripe_bytes": "0", "deadline_ms": "0", "engine_always": "0",
    "inaccessible_enabled": "0",
}  # fmt: skip
STATS = {
    "calls": "3", "folios": "1000", "bytes": "4096000", "fallback_kind": "0", "fallback_refs": "2",
    "fallback_busy": "0", "fallback_error": "0", "left": "7", "quarantined_bytes": "0",
    "window_max_pages": "128",
}  # fmt: skip
# Of folios of 64 KiB and of 2 MiB; as mm/huge_memory.c has them with the kernel's patches
MAPPED = {
    "hugepages-64kB": {"migrate_mapped": "90", "migrate_void": "10", "migrate_given_up": "1"},
    "hugepages-1024kB": {"migrate_mapped": "0", "migrate_void": "0", "migrate_given_up": "0"},
    "hugepages-2048kB": {"migrate_mapped": "5", "migrate_void": "0", "migrate_given_up": "0"},
}
COUNTERS = {"folios": "1000", "bytes": "4096000", "errors": "0", "overdue": "0"}
ONLY_READ = {
    "available": "cpu", "in_service": "0", "inaccessible_us": " ".join(["0", "0", "10", "5", *["0"] * 20]),
    **{f"stats/{name}": text for name, text in STATS.items()},
    **{f"migrators/cpu/{name}": text for name, text in COUNTERS.items()},
}  # fmt: skip
MOST = {"target_us": 1000000, "window_pages": 262144, "chunk_pages": 262144, "deadline_ms": 60000,
        "engine_always": 1}  # fmt: skip
CHANNELS = "channel device node submitted completed errors in_flight state\n"


@dataclass(frozen=True)
class Machine(System):
    """A machine whose kernel knows which values make no sense, and whose modprobe adds an engine."""

    loaded: list[Sequence[str]] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    without_device: list[str] = field(default_factory=list)  # engines that find nothing to copy with

    def store(self, file: int, name: str, value: str) -> None:
        """What the kernel does in write(2)."""
        kept = self._taken(name, value)
        self.writes.append(f"{name}={value}")
        os.ftruncate(file, 0)
        os.write(file, f"{kept}\n".encode())
        if name == "active":
            self.says("in_service", "0" if value == "none" else "1")

    def _taken(self, name: str, value: str) -> str:
        """A value as it can be read afterwards."""
        if name == "active":
            if value not in ("none", *(self.get("available") or "").split()):
                raise OSError(errno.ENOENT, "No such file or directory")
            if value in self.without_device:
                raise OSError(errno.ENODEV, "No such device")
            return value
        if name == "reasons":
            words = [] if value == "none" else value.split()
            if not set(words) <= {*REASONS, "all"}:
                raise OSError(errno.EINVAL, "Invalid argument")
            return ALL if "all" in words else " ".join(word for word in REASONS if word in words) or "none"
        return self._number(name, value)

    def _number(self, name: str, value: str) -> str:
        if not value.isdigit():
            raise OSError(errno.EINVAL, "Invalid argument")
        now = {each: int(text) for each, text in self.settings().items() if text.isdigit()} | {
            name: int(value)
        }
        wrong = now["window_pages"] and now["chunk_pages"] > now["window_pages"]
        if wrong or int(value) > MOST.get(name, 1 << 64) or now["stripe_bytes"] % 4096:
            raise OSError(errno.EINVAL, "Invalid argument")
        return value

    def says(self, name: str, text: str) -> None:
        """From now on a file of Ferry's says this."""
        path = self.offload / name
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o444
        path.unlink(missing_ok=True)
        path.write_text(f"{text}\n")
        path.chmod(mode)


def machine_in(folder: Path) -> Machine:
    """A machine with Ferry below an empty folder, nothing active."""
    loaded: list[Sequence[str]] = []

    def modprobe(args: Sequence[str]) -> int:
        loaded.append(list(args))
        if "broken=1" in args:
            return 1
        names = (system.get("available") or "").split()
        there = [name for name in names if name != args[-1]] if args[0] == "-r" else [*names, args[0]]
        system.says("available", " ".join(there))
        return 0

    # dcbm can be loaded anywhere; it looks for channels when it is chosen
    system = Machine(folder, modprobe, loaded, without_device=["dcbm"])
    for name, text in {**ROOT_FILES, **ONLY_READ}.items():
        path = system.offload / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
        path.chmod(0o644 if name in ROOT_FILES else 0o444)
    for size, counts in MAPPED.items():
        stats = folder / LARGE_FOLIOS / size / "stats"
        stats.mkdir(parents=True)
        for name, text in counts.items():
            (stats / name).write_text(f"{text}\n")
    (folder / "etc").mkdir(parents=True)
    return system


def run(system: System, *words: str) -> int:
    """ferryctl's exit status there."""
    return ferryctl.main(words, system)


class Terminal(io.StringIO):
    """Somebody who looks at a screen, or can be asked."""

    def isatty(self) -> bool:
        return True
