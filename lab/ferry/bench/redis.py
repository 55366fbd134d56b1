# SPDX-License-Identifier: GPL-2.0
"""Move a running redis-server under load between nodes: is its data the same, how long did a client wait."""

from __future__ import annotations

import shlex
import statistics
from dataclasses import dataclass
from typing import Any

from ferry import packages
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.progress import Step
from ferry.vm import qemu, records
from ferry.vm.machine import Machine

PACKAGES = ("redis-server", "redis-tools", "numactl")
TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Experiment:
    """How much data, how often forth and back, and which engine Ferry uses."""

    mib: int = 64
    round_trips: int = 4
    engine: str = "mtcopy"
    channels: int = 4


def script(what: Experiment, flavour: str) -> str:
    """The job for a guest on the host's root."""
    job = shlex.quote(str(qemu.GUEST / "redis_job.py"))
    lines = [
        f"step redis on {flavour}",
        # The pages of redis-server are 4K: it turns huge pages off for itself, as Debian ships it.
        f"/usr/bin/python3 -u {job} {what.mib} {what.round_trips} || fail 'the redis job failed: see above'",
    ]
    if flavour != "vanilla":
        lines.insert(0, f"use_engine {what.engine} {what.channels}")
    return "\n".join(lines)


def run(what: Experiment, machine: Machine, *, kvm: bool = False) -> dict[str, Any]:
    """The "redis" object of out/demo.json. Raises FerryError if a byte of the dataset or a write is lost."""
    packages.ensure(PACKAGES)
    found = {flavour: _on(what, machine, flavour, kvm) for flavour in ("vanilla", "ferry")}
    ferry = found["ferry"]
    return {
        "engine": what.engine,
        "digest_before": ferry["digest_before"],
        "digest_after": ferry["digest_after"],
        "moved_bytes": ferry["moved_bytes"],
        "max_stall_ms": {name: max(each["stalls_ms"]) for name, each in found.items()},
        "median_stall_ms": {name: statistics.median(each["stalls_ms"]) for name, each in found.items()},
        "max_stall_without_move_ms": {name: each["stall_without_move_ms"] for name, each in found.items()},
        "move_seconds": {name: each["move_seconds"] for name, each in found.items()},
    }


def _on(what: Experiment, machine: Machine, flavour: str, kvm: bool) -> dict[str, Any]:
    kernel = kbuild.build(flavour)
    job = qemu.Job(script(what, flavour), TIMEOUT_S, host_root=True)
    with Step(f"redis on {flavour} ({machine.name})") as progress:
        name = f"redis on {flavour}"
        said = qemu.measure(kernel, machine, job, name, kvm=kvm, on_output=progress.update)
        return check(records.of(said, "redis"), flavour)


def check(found: dict[str, Any], flavour: str) -> dict[str, Any]:
    """The guest's answer, if the data is whole and memory moved. Raises FerryError otherwise."""
    if found["digest_before"] != found["digest_after"]:
        raise FerryError(f"redis on {flavour}: the dataset's digest changed by the move: {found}")
    if found["lost_writes"]:
        raise FerryError(f"redis on {flavour}: a client lost writes: {found['lost_writes'][:3]}")
    if found["moved_bytes"] <= 0 or not found["probe_trips"]:
        raise FerryError(f"redis on {flavour}: nothing moved, or nobody watched: {found}")
    return found
