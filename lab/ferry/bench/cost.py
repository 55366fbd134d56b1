# SPDX-License-Identifier: GPL-2.0
"""What Ferry costs where it does not help: instructions per moved folio of every caller, beside vanilla's.

They are counted under icount. Each case has a boot of its own, so none depends on what others have left.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ferry.bench import migbench, rows
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.progress import Step
from ferry.vm import machine, parallel, qemu

ENGINES = ("none", "cpu")
# The most that an engine may add to vanilla, in percent.
LIMITS = dict.fromkeys(ENGINES, 2.0)
UNBATCHED_LIMITS = {"none": 0.5, "cpu": 2.0}
MACHINE = "cxl-icount"
RUN_S = 900.0


@dataclass(frozen=True)
class Case:
    """Who moves what: each of its folio sizes is counted on vanilla, and with each engine."""

    call: str
    folios: tuple[str, ...]
    order: str = "up"
    cpus: int = 1  # and as many threads where the caller can have them
    per_call: int = 0

    @property
    def title(self) -> str:
        """For people, and for the JSON."""
        order = ", random order" if self.order == "random" else ""
        calls = f", {self.per_call} a call" if self.per_call else ""
        return f"{self.call}{order}{calls}" + (f", {self.cpus} CPUs" if self.cpus > 1 else "")

    def plan(self, engines: tuple[str, ...], ferry: str) -> migbench.Plan:
        """One run of each, after one to warm up."""
        more = [str(word) for pair in migbench.nodes(self.call).items() for word in pair]
        more += ["--order", self.order, "--per-call", str(self.per_call)]
        more += ["--threads", str(self.cpus)] if self.call in THREADED else []
        return migbench.Plan(
            self.folios, engines, runs=1, call=self.call, latency=False, more=tuple(more), ferry=ferry
        )


THREADED = ("move_pages", "mbind", "promote")
CASES = (
    Case("move_pages", ("4K", "16K", "64K", "2M")),
    Case("move_pages", ("4K", "16K", "64K"), "random"),
    Case("move_pages", ("4K", "64K"), per_call=1),
    Case("mbind", ("4K", "64K", "2M")),
    Case("migrate_pages", ("4K", "64K", "2M")),
    Case("damon", ("4K", "64K")),
    Case("promote", ("4K", "16K", "64K", "2M")),
    Case("promote", ("4K", "64K"), "random"),
    Case("demote", ("4K", "16K", "64K", "2M")),
    Case("demote", ("4K", "16K", "64K"), "random"),
    Case("compact", ("4K", "64K")),
    Case("move_pages", ("4K", "64K", "2M"), cpus=2),
    Case("move_pages", ("4K", "64K"), "random", cpus=2),
    Case("mbind", ("4K", "64K"), cpus=2),
    Case("migrate_pages", ("4K", "64K"), cpus=2),
    Case("promote", ("4K", "64K"), cpus=2),
    Case("demote", ("4K", "64K"), "random", cpus=2),
    Case("compact", ("4K",), cpus=2),
)
UNBATCHED_CASES = (Case("move_pages", ("4K", "2M")),)


@dataclass(frozen=True)
class Cost:
    """Instructions per folio of one engine, beside vanilla's."""

    case: str
    folio_kib: int
    engine: str
    instructions: float
    vanilla: float
    limit_percent: float

    @property
    def percent(self) -> float:
        """More than vanilla, in percent."""
        return (self.instructions / self.vanilla - 1) * 100

    @property
    def passed(self) -> bool:
        """Whether this is within the limit."""
        return self.percent <= self.limit_percent

    def as_json(self) -> dict[str, Any]:
        """The cost as JSON."""
        return asdict(self) | {"percent": round(self.percent, 3), "passed": self.passed}


def instructions(row: rows.Row) -> float:
    """Per folio: under icount an instruction takes a nanosecond."""
    return row.folio_kib * 1024 / row.gbps


def costs(case: Case, measured: Sequence[rows.Row], limits: dict[str, float]) -> list[Cost]:
    """The rows but vanilla's, each compared with vanilla's of the same folio size."""
    base = {row.folio_kib: instructions(row) for row in measured if row.engine == rows.VANILLA}
    return [
        Cost(
            case.title, row.folio_kib, row.engine, instructions(row), base[row.folio_kib], limits[row.engine]
        )
        for row in measured
        if row.engine != rows.VANILLA
    ]


def measure(
    cases: Sequence[Case] = CASES,
    limits: dict[str, float] = LIMITS,
    ferry: str = "ferry",
) -> tuple[list[Cost], dict[str, str]]:
    """Count on virtual CPUs; every run gives the same figures. Returns costs, and the kernels' releases."""
    engines = {"vanilla": (rows.VANILLA,), ferry: tuple(limits)}
    qemu.ensure_emulator(machine.get(MACHINE))
    kernels = {name: kbuild.build(name) for name in engines}
    program = migbench.build_migbench()
    parts = [(case, name) for case in cases for name in engines]
    found: dict[Case, list[rows.Row]] = {case: [] for case in cases}
    with Step(f"count {len(cases)} cases ({MACHINE})") as step:

        def count(part: tuple[Case, str], cancelled: threading.Event) -> tuple[Case, list[rows.Row]]:
            case, name = part
            plan = case.plan(engines[name], ferry)
            script = migbench.script(plan, "vanilla" if name == "vanilla" else "ferry")
            what = f"{case.title} on {name}"
            log = f"cost-{parts.index(part)}"
            job = qemu.Job(script, RUN_S, programs={"bin/migbench": program}, name=log)
            where = machine.get(MACHINE, case.cpus)
            said = qemu.measure(kernels[name], where, job, what, cancelled=cancelled)
            counted = migbench.parse(said, plan)
            if len(counted) < len(case.folios) * len(engines[name]):
                raise FerryError(f"{what} has {len(counted)} rows")
            return case, counted

        for done, (case, counted) in enumerate(parallel.run(count, parts, len(os.sched_getaffinity(0)))):
            found[case] += counted
            step.update(f"{done + 1}/{len(parts)}")
    every = [each for case in cases for each in costs(case, found[case], limits)]
    return every, {name: kernel.release for name, kernel in kernels.items()}
