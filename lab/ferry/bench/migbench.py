# SPDX-License-Identifier: GPL-2.0
"""Run migbench in VMs: all configurations of a kernel in one boot, in as many rounds as are asked for."""

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from ferry import packages, paths, proc
from ferry.bench import rows
from ferry.bench.sizes import UNITS, parse_size
from ferry.errors import UsageError, choose
from ferry.vm import boots, qemu, records
from ferry.vm.boots import Boot, Said
from ferry.vm.machine import Machine
from ferry.vm.store import Store

# vanilla is the kernel without Ferry; none is Ferry's kernel with nothing active.
ENGINES = (rows.VANILLA, "none", "cpu", "mtcopy", "dcbm")
# What migbench can make of an x86 page table.
ORDERS = ("up", "random", "scattered")  # of addresses; scattered: of their frames as well
FOLIOS = ("4K", "16K", "32K", "64K", "128K", "256K", "512K", "1M", "2M", "1G")
MEMORY = ("anon", "shared", "weights", "file", "hugetlb")
HUGETLB = ("2M", "1G")
CALLS = ("move_pages", "migrate_pages", "mbind", "damon", "promote", "demote", "compact")
# From a slow node to that of the CPUs, and back.
TIERING = ("promote", "demote")
DEVICE = "/dev/loop0"
MOST_CHANNELS = 64  # of softdma
BOOT_S = 60.0
ROW_S = 60.0
SECONDS_PER_GIB = 60.0  # filled, moved and verified; a busy host under TCG


@dataclass(frozen=True)
class Plan:
    """What to measure: each folio size with each engine, all else alike."""

    folios: tuple[str, ...] = ("4K", "64K", "2M")
    engines: tuple[str, ...] = (rows.VANILLA, "cpu", "mtcopy", "dcbm")
    channels: int = 4
    size: str = "64M"
    runs: int = 5  # in each round
    rounds: int = 1  # boots of each kernel, in turns: all see the host's better and worse times
    call: str = "move_pages"
    memory: str = "anon"
    latency: bool = True
    extra: tuple[str, ...] = ()  # further arguments for migbench
    direct: bool = False  # who writes to the memory does so by direct reads
    ferry: str = "ferry"  # the flavour that all engines but vanilla run on

    def check(self, machine: Machine) -> None:
        """Raise UsageError for what can be known to fail without a boot."""
        choose("engine", self.engines, ENGINES)
        choose("folio size", self.folios, FOLIOS)
        if self.ferry == "vanilla" and self.engines != (rows.VANILLA,):
            raise UsageError(
                "a vanilla kernel has no engines: choose --engine vanilla, or leave out --kernel"
            )
        wrong = set(self.folios) - set(HUGETLB) if self.memory == "hugetlb" else {"1G"} & set(self.folios)
        if wrong:
            raise UsageError(
                f"{', '.join(sorted(wrong))} with --memory {self.memory}: hugetlb has folios of "
                f"{' and '.join(HUGETLB)}, and nothing else has 1G"
            )
        for what, count in (("rounds", self.rounds), ("runs", self.runs)):
            if count < 1:
                raise UsageError(f"{count} {what}: at least one is needed to measure anything")
        if not 1 <= self.channels <= MOST_CHANNELS:
            raise UsageError(f"{self.channels} channels: softdma has 1 to {MOST_CHANNELS}")
        if machine.nodes < 2:
            raise UsageError(f"machine {machine.name} has no second node to move memory to")
        if self.call in TIERING and not machine.slow_nodes:
            raise UsageError(
                f"--call {self.call}: machine {machine.name} has no slow node, cxl and cxl-icount do"
            )
        check_size(self.size, self.folios, machine)

    def parts(self) -> list[Self]:
        """What each kernel is to show, vanilla first."""
        parts = (
            replace(self, engines=tuple(name for name in self.engines if rows.flavour(name) == flavour))
            for flavour in ("vanilla", "ferry")
        )
        return [part for part in parts if part.engines]

    @property
    def flavour(self) -> str:
        """The kernel of a part."""
        return "vanilla" if self.engines == (rows.VANILLA,) else self.ferry

    @property
    def count(self) -> int:
        return len(self.folios) * len(self.engines)

    @property
    def limit_s(self) -> float:
        """The time that a boot may take for a part."""
        moved = parse_size(self.size) * self.runs / UNITS["G"]
        return BOOT_S + self.count * (ROW_S + moved * SECONDS_PER_GIB)


def check_size(size: str, folios: Sequence[str], machine: Machine) -> None:
    """Raise UsageError for what is not of whole folios, or does not fit."""
    if parts := [folio for folio in folios if parse_size(size) % parse_size(folio)]:
        raise UsageError(f"--bytes {size}: choose a multiple of {parts[0]}, the size of a folio")
    if parse_size(size) > (machine.node_mib << 20) * 3 // 4:
        raise UsageError(
            f"{size} do not fit: a node of machine {machine.name} has {machine.node_mib} MiB, "
            f"choose at most {machine.node_mib * 3 // 4}M"
        )


def nodes(call: str) -> dict[str, int]:
    """migbench's options that name nodes, and the nodes: compaction stays on one."""
    source, target = (1, 0) if call == "promote" else (0, 1)
    return {"--from": source} | ({} if call == "compact" else {"--to": target})


def of_memory(memory: str) -> list[str]:
    """migbench's options that say what is moved."""
    return ["--memory", memory, *(["--file", "/tmp/migbench.data"] if memory == "file" else [])]


def build_migbench() -> Path:
    """bench/migbench, made if it is out of date."""
    packages.ensure(["gcc", "libc6-dev", "make", "libnuma-dev"])
    proc.run(["make", "-C", paths.ROOT / "bench"], title="build migbench")
    return paths.ROOT / "bench/migbench"


def programs() -> dict[str, Path]:
    """What a guest that measures has."""
    return {"bin/migbench": build_migbench()}


def script(plan: Plan) -> str:
    """The job that measures all of a part, a record per row."""
    lines = [f"loop_device {DEVICE} {plan.size}"] if plan.direct else []
    extra = [*plan.extra, *(["--direct-from", DEVICE, "--allow-partial"] if plan.direct else [])]
    for folio in plan.folios:
        for engine in plan.engines:
            args = ["--call", plan.call, *of_memory(plan.memory), "--folio", folio, "--bytes", plan.size]
            args += ["--runs", str(plan.runs), *(["--latency"] if plan.latency else []), *extra]
            if engine != rows.VANILLA:
                lines.append(f"use_engine {engine} {plan.channels}")
            lines += [
                f"step {folio} {engine}",
                f"bench {engine} {shlex.join(args)}",
            ]
    return "\n".join(lines)


def measure(
    plan: Plan, machine: Machine, *, kvm: bool = False, store: Store | None = None
) -> tuple[list[rows.Row], dict[str, str]]:
    """Boot what the plan needs, vanilla first, and measure. Returns rows, and the kernels' releases.

    Raises FerryError if a byte is lost.
    """
    plan.check(machine)
    parts, used, all_boots = plan.parts() * plan.rounds, programs(), []
    for number, part in enumerate(parts):
        turn = number // len(plan.parts())
        title = f"the bench on {rows.flavour(part.engines[0])}"
        title += f", round {turn + 1} of {plan.rounds}" * (plan.rounds > 1)
        job = qemu.Job(script(part), part.limit_s, programs=used)
        all_boots.append(Boot(title, part.flavour, machine, job, turn))
    title = f"move memory in {len(all_boots)} VMs ({machine.name})"
    of_boots, kernels = boots.run(
        title, all_boots, lambda index, said: whole(said, parts[index]), store, kvm=kvm
    )
    return rows.with_ratios(rows.over_rounds(itertools.chain(*of_boots))), kernels


def whole(said: Said, plan: Plan) -> list[rows.Row]:
    """The rows of a part, with their record. Raises BadGuest if there are not all."""
    measured = parse(said.text, plan)
    if len(measured) < plan.count:
        raise qemu.BadGuest(f"there are {len(measured)} of {plan.count} rows", said.text)
    return [replace(row, records=(said.record,)) for row in measured]


def parse(said: str, plan: Plan) -> list[rows.Row]:
    return [
        rows.from_migbench(record["found"], record["of"], plan.channels if record["of"] == "dcbm" else 0)
        for record in records.every(said, "migbench")
    ]
