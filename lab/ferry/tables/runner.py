# SPDX-License-Identifier: GPL-2.0
"""Measure the cells of a table in VMs of an emulated server, several at once.

Each cell has a boot of its own, so none depends on its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ferry.bench import cell, migbench
from ferry.bench.cell import Cell, Measured
from ferry.errors import FerryError
from ferry.vm import boots, qemu
from ferry.vm.boots import Boot, Said
from ferry.vm.machine import Machine
from ferry.vm.store import Store

BOOT_S = 180.0
CELL_S = 120.0
SECONDS_PER_GIB = 240.0

Varied = tuple[str, int | str]


def script(one: Cell) -> str:
    """The job of a VM: one cell, so that it finds what no other cell has left."""
    return "\n".join([*([f"perturb {one.state}"] if one.state else []), cell.script([(0, one)])])


def in_vms(
    cells: Sequence[Cell],
    machine: Machine,
    others: Mapping[Varied, Machine] = MappingProxyType({}),
    store: Store | None = None,
) -> tuple[list[Measured], dict[str, str]]:
    """Measure cells on a machine, those of a varied server on its own among others. Returns them in order,
    and the kernels' releases. Raises FerryError at the first VM that fails."""
    programs = migbench.programs()
    every = []
    for one in cells:
        # What a VM may take for it on a busy host.
        limit_s = BOOT_S + CELL_S + one.bytes / (1 << 30) * 3 * SECONDS_PER_GIB
        where = (others[one.varied] if one.varied else machine).in_state(one.state)
        job = qemu.Job(script(one), limit_s, programs=programs)
        every.append(Boot(one.title, one.flavour, where, job))

    def parse(index: int, said: Said) -> Measured:
        found = cell.parse(said.text, [cells[index]])
        if not found:
            raise FerryError(f"the bench said nothing of {cells[index].title}")
        return replace(found[0], row=replace(found[0].row, records=(said.record,)))

    return boots.run(f"measure {len(cells)} cells, each in a VM ({machine.name})", every, parse, store)
