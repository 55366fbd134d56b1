# SPDX-License-Identifier: GPL-2.0
"""A tree that looks like the sysfs of a kernel with Ferry, for ferryctl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ferryctl_machine import Problem, System

ROOT_FILES = {
    "active": "none", "reasons": "compaction damon", "min_bytes": "0", "window_pages": "0",
    "chunk_pages": "0", "stripe_bytes": "0", "inaccessible_enabled": "0",
}  # fmt: skip
ONLY_READ = {
    "available": "cpu", "inaccessible_us": "0 0 10 5 0",
    "stats/calls": "3", "stats/folios": "1000", "stats/bytes": "4096000", "stats/left": "7",
    "stats/fallback_kind": "0", "stats/fallback_refs": "2", "stats/quarantined_bytes": "0",
    "migrators/cpu/folios": "1000", "migrators/cpu/bytes": "4096000", "migrators/cpu/errors": "0",
}  # fmt: skip


@dataclass(frozen=True)
class Machine(System):
    """A machine whose kernel knows which values make no sense, and whose modprobe adds an engine."""

    loaded: list[Sequence[str]] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)

    def put(self, name: str, value: str) -> None:
        settings = {**self.settings(), name: value}
        chunk, window = (int(settings[key]) for key in ("chunk_pages", "window_pages"))
        if 0 < window < chunk or value == "junk":
            raise Problem(f"{name}={value}: the kernel refuses that value")
        self.writes.append(f"{name}={value}")
        super().put(name, value)


def machine_in(folder: Path) -> Machine:
    """A machine with Ferry below an empty folder, nothing active."""
    loaded: list[Sequence[str]] = []

    def modprobe(args: Sequence[str]) -> int:
        loaded.append(list(args))
        if args[0] == "dcbm":
            return 1
        (system.offload / "available").chmod(0o644)
        (system.offload / "available").write_text("cpu\n" if args[0] == "-r" else f"cpu {args[0]}\n")
        (system.offload / "available").chmod(0o444)
        return 0

    system = Machine(folder, modprobe, loaded)
    for name, text in {**ROOT_FILES, **ONLY_READ}.items():
        path = system.offload / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
        path.chmod(0o644 if name in ROOT_FILES else 0o444)
    (folder / "etc").mkdir(parents=True)
    return system
