# SPDX-License-Identifier: GPL-2.0
"""What Ferry costs when it does not help: instructions per moved folio, counted under icount."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ferry.bench import migbench, rows
from ferry.vm.machine import Machine

# Engine and the most that it may add to vanilla, in percent.
LIMITS = {"none": 0.5, "cpu": 2.0}


@dataclass(frozen=True)
class Cost:
    """Instructions per folio of one engine, beside vanilla's."""

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


def costs(measured: Sequence[rows.Row]) -> list[Cost]:
    """The rows but vanilla's, each compared with vanilla's of the same folio size."""
    base = {row.folio_kib: instructions(row) for row in measured if row.engine == rows.VANILLA}
    return [
        Cost(row.folio_kib, row.engine, instructions(row), base[row.folio_kib], LIMITS[row.engine])
        for row in measured
        if row.engine != rows.VANILLA
    ]


def measure(
    machine: Machine, folios: tuple[str, ...] = ("4K", "2M"), ferry: str = "ferry"
) -> tuple[list[Cost], dict[str, str]]:
    """Count on one virtual CPU; every run gives the same figures."""
    plan = migbench.Plan(folios=folios, engines=(rows.VANILLA, *LIMITS), latency=False, ferry=ferry)
    measured = migbench.measure(plan, machine)
    return costs(measured.rows), measured.kernels
