# SPDX-License-Identifier: GPL-2.0
"""Measure the cells of a table in VMs of an emulated server, several at once.

Under icount a VM's figures depend on nothing but what it is given, so which VM measures which cell is
decided by the cells alone, never by how many CPUs the host has or how busy they are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ferry import paths
from ferry.bench import cell, migbench
from ferry.bench.cell import Cell, Found
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.progress import Step
from ferry.vm import parallel, qemu
from ferry.vm.machine import Machine

# A VM boots in seconds; more cells than that share its boot.
CELLS_PER_VM = 12
BOOT_S = 180.0
CELL_S = 120.0
SECONDS_PER_GIB = 240.0

Varied = tuple[str, int | str]


@dataclass(frozen=True)
class Shard:
    """Cells that one VM measures, by their numbers."""

    number: int
    flavour: str
    cells: tuple[tuple[int, Cell], ...]

    @property
    def varied(self) -> Varied | None:
        """What their server is other in."""
        return self.cells[0][1].varied

    @property
    def limit_s(self) -> float:
        """The time that it may take on a busy host."""
        work = sum(CELL_S + each.bytes / (1 << 30) * 3 * SECONDS_PER_GIB for _, each in self.cells)
        return BOOT_S + work


def shards(cells: Sequence[Cell], size: int = CELLS_PER_VM) -> list[Shard]:
    """The cells by kernel and server, like beside like; the longest first, so that all VMs end at about
    one time."""
    found: list[tuple[str, tuple[tuple[int, Cell], ...]]] = []
    for flavour, varied in sorted({(each.flavour, each.varied) for each in cells}, key=repr, reverse=True):
        mine = sorted(
            (i for i, each in enumerate(cells) if (each.flavour, each.varied) == (flavour, varied)),
            key=lambda i: cell.key(cells[i]),
        )
        found += [
            (flavour, tuple((i, cells[i]) for i in mine[start : start + size]))
            for start in range(0, len(mine), size)
        ]
    found.sort(key=lambda each: -sum(part.bytes for _, part in each[1]))
    return [Shard(number, *each) for number, each in enumerate(found)]


def in_vms(
    cells: Sequence[Cell], machine: Machine, others: Mapping[Varied, Machine] = MappingProxyType({})
) -> tuple[list[Found], dict[str, str]]:
    """Measure cells on a machine, those of a varied server on its own among others. Returns them in order,
    and the kernels' releases.

    As many VMs run at a time as the host has CPUs, but one alone if it is wall time that they measure.
    Raises FerryError at the first VM that fails; no other is left running.
    """
    plan = shards(cells)
    kernels = {name: kbuild.build(name) for name in dict.fromkeys(shard.flavour for shard in plan)}
    program = migbench.build_migbench()
    found: dict[int, Found] = {}
    with Step(f"measure {len(cells)} cells in {len(plan)} VMs ({machine.name})") as step:

        def measure(shard: Shard, cancelled: threading.Event) -> dict[int, Found]:
            job = qemu.Job(
                cell.script(shard.cells),
                shard.limit_s,
                programs={"bin/migbench": program},
                name=f"console-{shard.number}",
            )
            where = others[shard.varied] if shard.varied else machine
            result = qemu.run(kernels[shard.flavour], where, job, cancelled=cancelled)
            if result.status:
                raise FerryError(f"a bench ended early: {result.output.strip()[-200:]}")
            return cell.parse(result.records, cells)

        for part in parallel.run(measure, plan, len(os.sched_getaffinity(0)) if machine.icount else 1):
            found |= part
            step.update(f"{len(found)}/{len(cells)}")
    missing = [each.title for i, each in enumerate(cells) if i not in found]
    if missing:
        raise FerryError(f"the bench said nothing of {missing[0]}; see {paths.LOGS}/console-*.log")
    return [found[i] for i in range(len(cells))], {name: each.release for name, each in kernels.items()}
