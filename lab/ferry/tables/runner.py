# SPDX-License-Identifier: GPL-2.0
"""Measure the cells of a table in VMs of an emulated server, several at once.

Each cell has a boot of its own, so none depends on its neighbours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ferry.bench import cell as cell_job
from ferry.bench import migbench
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


def script(cell: Cell) -> str:
    """The job of a VM: one cell, so that it finds what no other cell has left."""
    return cell_job.script([(0, cell)])


def in_vms(
    cells: Sequence[Cell],
    machine: Machine,
    varied: Mapping[Varied, Machine] = MappingProxyType({}),
    store: Store | None = None,
) -> tuple[list[Measured], dict[str, str]]:
    """Measure cells on a machine, those of a varied server on its own machine. Returns them in order,
    and the kernels' releases. Raises FerryError at the first VM that fails."""
    programs = migbench.programs()
    all_boots = []
    for cell in cells:
        # What a VM may take for it on a busy host.
        limit_s = BOOT_S + CELL_S + cell.bytes / (1 << 30) * 3 * SECONDS_PER_GIB
        on = (varied[cell.varied] if cell.varied else machine).in_state(cell.state)
        job = qemu.Job(script(cell), limit_s, programs=programs)
        all_boots.append(Boot(replace(cell, state=0).title, cell.flavour, on, job))

    def parse(index: int, said: Said) -> Measured:
        measured = cell_job.parse(said.text, [cells[index]])
        if not measured:
            raise FerryError(f"the bench said nothing of {cells[index].title}")
        return replace(measured[0], row=replace(measured[0].row, records=(said.record,)))

    return boots.run(f"measure {len(cells)} cells, each in a VM ({machine.name})", all_boots, parse, store)
