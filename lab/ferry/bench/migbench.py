# SPDX-License-Identifier: GPL-2.0
"""Run migbench in VMs: all configurations of a kernel in one boot, in as many rounds as are asked for."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ferry import packages, paths, proc
from ferry.bench import rows
from ferry.bench.sizes import UNITS, parse_size
from ferry.errors import FerryError, UsageError
from ferry.vm import boots, qemu, records
from ferry.vm.boots import Boot, Said
from ferry.vm.machine import Machine
from ferry.vm.store import Store

# vanilla is the kernel without Ferry; none is Ferry's kernel with nothing active.
ENGINES = (rows.VANILLA, "none", "cpu", "mtcopy", "dcbm")
# What migbench can make of an x86 page table.
ORDERS = ("up", "random", "scattered")  # of addresses; scattered: of their frames as well
FOLIOS = ("4K", "16K", "32K", "64K", "128K", "256K", "512K", "1M", "2M")
CALLS = ("move_pages", "migrate_pages", "mbind", "damon", "promote", "demote", "compact")
# From a slow node to that of the CPUs, and back.
TIERING = ("promote", "demote")
DEVICE = "/dev/loop0"
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
    more: tuple[str, ...] = ()  # further arguments for migbench
    direct: bool = False  # who writes to the memory does so by direct reads
    ferry: str = "ferry"  # the flavour that all engines but vanilla run on

    def check(self, machine: Machine) -> None:
        """Raise UsageError for what can be known to fail without a boot."""
        check_engines(self.engines)
        for folio in self.folios:
            if folio not in FOLIOS:
                raise UsageError(f"no folio size '{folio}': choose from {', '.join(FOLIOS)}")
        if not self.folios or not self.engines:
            raise UsageError("nothing to measure: name a folio size and an engine")
        for what, count in (("rounds", self.rounds), ("runs", self.runs)):
            if count < 1:
                raise UsageError(f"{count} {what}: at least one is needed to measure anything")
        if not 1 <= self.channels <= 64:
            raise UsageError(f"{self.channels} channels: softdma has 1 to 64")
        if machine.nodes < 2:
            raise UsageError(f"machine {machine.name} has no second node to move memory to")
        if self.call in TIERING and not machine.slow_nodes:
            raise UsageError(
                f"--call {self.call}: machine {machine.name} has no slow node, cxl and cxl-icount do"
            )
        size, free = parse_size(self.size), machine.node_mib << 20
        if size > free * 3 // 4:
            raise UsageError(
                f"{self.size} do not fit: a node of machine {machine.name} has {machine.node_mib} MiB, "
                f"choose at most {machine.node_mib * 3 // 4}M"
            )

    def on(self, flavour: str) -> list[str]:
        """The engines to be measured on a kernel."""
        return [engine for engine in self.engines if (engine == rows.VANILLA) == (flavour == "vanilla")]


@dataclass(frozen=True)
class Measured:
    """The rows of a plan, the kernels they come from by flavour, and the machine as it was booted."""

    rows: list[rows.Row]
    kernels: dict[str, str]
    machine: Machine


def nodes(call: str) -> dict[str, int]:
    """migbench's options that name nodes, and the nodes: compaction stays on one."""
    source, target = (1, 0) if call == "promote" else (0, 1)
    return {"--from": source} | ({} if call == "compact" else {"--to": target})


def check_engines(names: Iterable[str]) -> None:
    """Raise UsageError for one that is unknown."""
    for name in names:
        if name not in ENGINES:
            raise UsageError(f"no engine '{name}': choose from {', '.join(ENGINES)}")


def build_migbench() -> Path:
    """bench/migbench, made if it is out of date."""
    packages.ensure(["gcc", "libc6-dev", "make", "libnuma-dev"])
    proc.run(["make", "-C", paths.ROOT / "bench"], title="build migbench")
    return paths.ROOT / "bench/migbench"


def script(plan: Plan, flavour: str) -> str:
    """The job that measures all that a kernel is to show, a record per row."""
    lines = [f"loop_device {DEVICE} {plan.size}"] if plan.direct else []
    more = [*plan.more, *(["--direct-from", DEVICE, "--allow-partial"] if plan.direct else [])]
    for folio in plan.folios:
        for engine in plan.on(flavour):
            args = ["--call", plan.call, "--memory", plan.memory, "--folio", folio, "--bytes", plan.size]
            args += ["--runs", str(plan.runs), *(["--latency"] if plan.latency else []), *more]
            args += ["--file", "/tmp/migbench.data"] if plan.memory == "file" else []
            if engine != rows.VANILLA:
                lines.append(f"use_engine {engine} {plan.channels}")
            lines += [
                f"step {folio} {engine}",
                f"bench {engine} {shlex.join(args)}",
            ]
    return "\n".join(lines)


def measure(plan: Plan, machine: Machine, *, kvm: bool = False, store: Store | None = None) -> Measured:
    """Boot what the plan needs, vanilla first, and measure. Raises FerryError if a byte is lost."""
    plan.check(machine)
    programs = {"bin/migbench": build_migbench()}
    every = [
        Boot(
            f"the bench on {flavour}{f', round {turn + 1} of {plan.rounds}' * (plan.rounds > 1)}",
            plan.ferry if flavour == "ferry" else flavour,
            machine,
            qemu.Job(script(plan, flavour), _limit_s(plan, flavour), programs=programs),
            turn,
        )
        for turn in range(plan.rounds)
        for flavour in ("vanilla", "ferry")
        if plan.on(flavour)
    ]

    def parsed(index: int, said: Said) -> list[rows.Row]:
        found = parse(said.text, plan)
        count = len(plan.folios) * len(plan.on("vanilla" if every[index].flavour == "vanilla" else "ferry"))
        if len(found) < count:
            raise FerryError(f"{every[index].title} has {len(found)} of {count} rows")
        return [replace(row, records=(said.record,)) for row in found]

    title = f"move memory in {len(every)} VMs ({machine.name})"
    found, kernels = boots.run(title, every, parsed, store, kvm=kvm)
    return Measured(rows.with_ratios(rows.over_rounds(itertools.chain(*found))), kernels, machine)


def _limit_s(plan: Plan, flavour: str) -> float:
    count = len(plan.folios) * len(plan.on(flavour))
    return BOOT_S + count * (ROW_S + parse_size(plan.size) / UNITS["G"] * plan.runs * SECONDS_PER_GIB)


def parse(said: str, plan: Plan) -> list[rows.Row]:
    """The rows of a job."""
    return [
        rows.from_migbench(each["found"], each["of"], plan.channels if each["of"] == "dcbm" else 0)
        for each in records.every(said, "migbench")
    ]
