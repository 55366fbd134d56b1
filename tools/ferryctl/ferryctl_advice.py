# SPDX-License-Identifier: GPL-2.0
"""Which engine is worth it: medians over rounds, what they differ by, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from ferryctl_machine import NONE

# Less than this is nothing that one would feel, be it ever so sure.
WORTH_IT = 1.05
# An engine that copies less than this share has left the copies to the CPU.
MOST = 0.5


@dataclass(frozen=True)
class Sample:
    """What migbench said once: an engine, a folio size, in one round."""

    round: int
    engine: str
    folio: str
    gbps: float  # GB/s
    p50_us: float | None  # inaccessible time; None if it could not be measured
    p99_us: float | None
    cpu_ns_per_page: float  # of the task that moves, for 4 KiB
    by_engine: float | None = None  # share of the bytes that the engine itself copied; None for none
    left: int = 0  # 4 KiB pages that were not moved


@dataclass(frozen=True)
class Spread:
    """A figure over the rounds."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.most:.2f})"


@dataclass(frozen=True)
class Cell:
    """An engine with a folio size, over all rounds. A ratio is to none in the same round."""

    engine: str
    folio: str
    gbps: Spread
    ratio: Spread
    p50_us: float | None
    p99_us: float | None
    cpu_ns_per_page: float
    by_engine: float | None
    left: int
    over_target: bool  # an engine's p99 is more than target_us


@dataclass(frozen=True)
class Advice:
    """The engine to choose, and why."""

    engine: str
    why: str
    warnings: tuple[str, ...]


def cells(samples: Sequence[Sample], target_us: int, base: str = NONE) -> list[Cell]:
    """The table: a cell for each engine and folio size that was measured, in the order of the samples.

    Ratios are to the one that is named base.
    """
    keys = dict.fromkeys((sample.engine, sample.folio) for sample in samples)
    return [_cell(samples, engine, folio, target_us, base) for engine, folio in keys]


def _cell(samples: Sequence[Sample], engine: str, folio: str, target_us: int, base: str) -> Cell:
    of_cell = [sample for sample in samples if (sample.engine, sample.folio) == (engine, folio)]
    p99 = _median_of(of_cell, lambda sample: sample.p99_us)
    return Cell(
        engine,
        folio,
        _spread([sample.gbps for sample in of_cell]),
        _spread([sample.gbps / _base(samples, sample, base).gbps for sample in of_cell]),
        _median_of(of_cell, lambda sample: sample.p50_us),
        p99,
        median(sample.cpu_ns_per_page for sample in of_cell),
        _median_of(of_cell, lambda sample: sample.by_engine),
        sum(sample.left for sample in of_cell),
        engine != NONE and p99 is not None and p99 > target_us,
    )


def _base(samples: Sequence[Sample], like: Sample, base: str) -> Sample:
    """What that one did in the same round: the machine's better and worse times are everybody's."""
    return next(
        sample
        for sample in samples
        if (sample.engine, sample.folio, sample.round) == (base, like.folio, like.round)
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def _median_of(samples: Sequence[Sample], of: Callable[[Sample], float | None]) -> float | None:
    values = [value for sample in samples if (value := of(sample)) is not None]
    return median(values) if values else None


def overall(samples: Sequence[Sample], base: str = NONE) -> dict[str, Spread]:
    """Of each other the ratio to base over all folio sizes alike: a geometric mean for each round."""
    spreads = {}
    for engine in dict.fromkeys(sample.engine for sample in samples if sample.engine != base):
        by_round: dict[int, list[float]] = {}
        for sample in samples:
            if sample.engine == engine:
                ratio = sample.gbps / _base(samples, sample, base).gbps
                by_round.setdefault(sample.round, []).append(ratio)
        spreads[engine] = _spread([*map(_mean, by_round.values())])
    return spreads


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def advise(samples: Sequence[Sample], target_us: int) -> Advice:
    """The fastest engine, if it was faster in every round and by enough to be worth it; else none."""
    rounds = len({sample.round for sample in samples})
    ratios = overall(samples)
    ranked = sorted(ratios, key=lambda engine: -ratios[engine].median)
    table = cells(samples, target_us)
    good = [name for name in ranked if ratios[name].least > 1 and ratios[name].median >= WORTH_IT]
    if not good:
        return Advice(NONE, _no_engine(ranked, ratios, rounds), ())
    engine = good[0]
    why = (
        f"{engine} moves memory {ratios[engine].median:.2f} times as fast as Linux without an engine, over"
        f" all folio sizes, and was faster in each of {rounds} rounds ({ratios[engine].least:.2f} to"
        f" {ratios[engine].most:.2f})."
    )
    alike = [name for name in good[1:] if ratios[name].most >= ratios[engine].least]
    if alike:
        why += f" {' and '.join(alike)}: the rounds differ by more than these engines do."
    return Advice(engine, why, tuple(_warnings([cell for cell in table if cell.engine == engine], target_us)))


def _no_engine(ranked: Sequence[str], ratios: dict[str, Spread], rounds: int) -> str:
    if not ranked:
        return "No engine could be measured."
    best = ratios[ranked[0]]
    best_in_words = f"{ranked[0]}, the best engine, is {best} times as fast in {rounds} rounds"
    if best.most < 1:
        return f"Every engine is slower than Linux without one: {best_in_words}."
    if best.least <= 1:
        return f"The rounds differ by more than any engine from Linux without one: {best_in_words}."
    return f"No engine gains as much as {WORTH_IT:.2f}: {best_in_words}."


def _warnings(table: Sequence[Cell], target_us: int) -> list[str]:
    """What speaks against an engine."""
    warnings = [
        f"{cell.engine} is slower at {cell.folio}: {cell.ratio} times as fast as without an engine"
        for cell in table
        if cell.ratio.most < 1
    ]
    warnings += [
        f"{cell.engine} copied {100 * cell.by_engine:.0f} % of the bytes at {cell.folio}, the CPU the"
        " rest, as it was cheaper: the engine did not make the gain there"
        for cell in table
        if cell.by_engine is not None and cell.by_engine < MOST
    ]
    warnings += [
        f"target_us is exceeded at {cell.folio}: one folio in a hundred is inaccessible for"
        f" {cell.p99_us:.0f} us or more, and the target is {target_us}"
        for cell in table
        if cell.over_target
    ]
    return warnings


def as_json(cell: Cell) -> dict[str, Any]:
    """A cell for programs: GB/s, ratios, us, ns."""
    return asdict(cell)


HEAD = (
    "engine, or settings",
    "folio",
    "GB/s (least, most)",
    "ratio (least, most)",
    "p50 us",
    "p99 us",
    "CPU ns/page",
)
LAST = "by engine"


def show(table: Sequence[Cell]) -> list[str]:
    """The table as lines; ! is a p99 above target_us."""
    rows = [(*HEAD, LAST), *(_row(cell) for cell in table)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD) + 1)]
    return ["  ".join(_pad(i, text, widths[i]) for i, text in enumerate(row)).rstrip() for row in rows]


def _pad(column: int, text: str, width: int) -> str:
    return text.ljust(width) if column < 2 else text.rjust(width)


def _row(cell: Cell) -> tuple[str, ...]:
    return (
        cell.engine,
        cell.folio,
        f"{cell.gbps.median:.2f} ({cell.gbps.least:.2f}, {cell.gbps.most:.2f})",
        f"{cell.ratio.median:.2f} ({cell.ratio.least:.2f}, {cell.ratio.most:.2f})",
        _us(cell.p50_us),
        _us(cell.p99_us) + ("!" if cell.over_target else " "),
        f"{cell.cpu_ns_per_page:.0f}",
        "-" if cell.by_engine is None else f"{100 * cell.by_engine:.0f} %",
    )


def _us(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"


def report(
    table: Sequence[Cell],
    tried: Sequence[Cell],
    skipped: Mapping[str, str],
    advised: Advice,
    values: Mapping[str, str],
) -> str:
    """All that was found, and what follows from it."""
    left = sum(cell.left for cell in table)
    return "\n".join(
        [
            *show(table),
            *(["", "its settings: ratios are to the present ones", *show(tried)] if tried else []),
            *(f"not measured: {why}" for why in skipped.values()),
            *([f"{left:,} pages were not moved: other programs held them"] if left else []),
            "",
            f"recommended: {' '.join(f'{name}={value}' for name, value in values.items())}",
            f"  {advised.why}",
            *(f"  warning: {each}" for each in advised.warnings),
        ]
    )
