# SPDX-License-Identifier: GPL-2.0
"""Measure the cells of a table in VMs of an emulated server, several at once.

Each cell has a boot of its own, so none depends on its neighbours. Under icount a VM's figures then depend
on nothing but the cell, never on how many CPUs the host has or how busy they are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ferry import paths
from ferry.bench import cell, migbench
from ferry.bench.cell import Cell, Found
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.progress import Step
from ferry.vm import parallel, qemu
from ferry.vm.machine import Machine

BOOT_S = 180.0
CELL_S = 120.0
SECONDS_PER_GIB = 240.0

Varied = tuple[str, int | str]


def limit_s(one: Cell) -> float:
    """The time that a VM may take for a cell on a busy host."""
    return BOOT_S + CELL_S + one.bytes / (1 << 30) * 3 * SECONDS_PER_GIB


def script(index: int, one: Cell) -> str:
    """The job of a VM: one cell, so that it finds what no other cell has left."""
    return "\n".join([*([f"perturb {one.state}"] if one.state else []), cell.script([(index, one)])])


def in_vms(
    cells: Sequence[Cell], machine: Machine, others: Mapping[Varied, Machine] = MappingProxyType({})
) -> tuple[list[Found], dict[str, str]]:
    """Measure cells on a machine, those of a varied server on its own among others. Returns them in order,
    and the kernels' releases.

    As many VMs run at a time as the host has CPUs, but one alone if it is wall time that they measure.
    Raises FerryError at the first VM that fails; no other is left running.
    """
    kernels = {name: kbuild.build(name) for name in dict.fromkeys(each.flavour for each in cells)}
    program = migbench.build_migbench()
    found: dict[int, Found] = {}
    # The longest first, so that all end at about one time.
    order = sorted(range(len(cells)), key=lambda i: -cells[i].bytes)
    with Step(f"measure {len(cells)} cells, each in a VM ({machine.name})") as step:

        def measure(index: int, cancelled: threading.Event) -> dict[int, Found]:
            one = cells[index]
            job = qemu.Job(
                script(index, one), limit_s(one), programs={"bin/migbench": program}, name=f"console-{index}"
            )
            where = (others[one.varied] if one.varied else machine).in_state(one.state)
            said = qemu.measure(kernels[one.flavour], where, job, one.title, cancelled=cancelled)
            return cell.parse(said, cells)

        for part in parallel.run(measure, order, len(os.sched_getaffinity(0)) if machine.icount else 1):
            found |= part
            step.update(f"{len(found)}/{len(cells)}")
    missing = [each.title for i, each in enumerate(cells) if i not in found]
    if missing:
        raise FerryError(f"the bench said nothing of {missing[0]}; see {paths.LOGS}/console-*.log")
    return [found[i] for i in range(len(cells))], {name: each.release for name, each in kernels.items()}
