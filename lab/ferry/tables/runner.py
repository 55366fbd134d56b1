# SPDX-License-Identifier: GPL-2.0
"""Measure the cells of a table on emulated servers, each in a VM of its own, several VMs at once.

Cells that shared a boot would depend on each other: on what their neighbours left of free memory, and
where. Under icount a VM's figures depend on nothing but what it is given, not on how many run or how
busy the host is, so a cell has the same figures in a whole table and in a part of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from types import MappingProxyType

from ferry import paths
from ferry.bench import cell, migbench
from ferry.bench.cell import Cell, Found
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.progress import Step
from ferry.vm import qemu
from ferry.vm.machine import Machine

BOOT_S = 180.0
CELL_S = 120.0
SECONDS_PER_GIB = 240.0

Varied = tuple[str, int | str]


def limit_s(one: Cell) -> float:
    """The time that a VM may take for a cell, on a busy host."""
    return BOOT_S + CELL_S + one.bytes / (1 << 30) * 3 * SECONDS_PER_GIB


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
    with Step(f"measure {len(cells)} cells ({machine.name})") as step:

        def measure(number: int, cancelled: threading.Event) -> dict[int, Found]:
            one = cells[number]
            job = qemu.Job(
                cell.script([(number, one)]),
                limit_s(one),
                programs={"bin/migbench": program},
                name=f"console-{number}",
            )
            where = others[one.varied] if one.varied else machine
            result = qemu.run(kernels[one.flavour], where, job, cancelled=cancelled)
            if result.status:
                raise FerryError(f"{one.title}: the bench ended early: {result.output.strip()[-200:]}")
            return cell.parse(result.records, cells)

        at_once = len(os.sched_getaffinity(0)) if machine.icount else 1
        for part in _all(measure, _longest_first(cells), at_once):
            found |= part
            step.update(f"{len(found)}/{len(cells)}")
    missing = [each.title for i, each in enumerate(cells) if i not in found]
    if missing:
        raise FerryError(f"the bench said nothing of {missing[0]}; see {paths.LOGS}/console-*.log")
    return [found[i] for i in range(len(cells))], {name: each.release for name, each in kernels.items()}


def _longest_first(cells: Sequence[Cell]) -> list[int]:
    """The cells' numbers, so that all VMs end at about one time."""
    return sorted(range(len(cells)), key=lambda i: -cells[i].bytes)


def _all(
    measure: Callable[[int, threading.Event], dict[int, Found]], numbers: Sequence[int], at_once: int
) -> Iterator[dict[int, Found]]:
    """What each VM found, as they end. If one fails, or the user has enough, the others are ended."""
    cancelled = threading.Event()
    with ThreadPoolExecutor(at_once) as pool:
        waiting = {pool.submit(measure, number, cancelled) for number in numbers}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for each in done:
                    yield each.result()
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise
