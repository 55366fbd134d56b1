# SPDX-License-Identifier: GPL-2.0
"""Settings that may suit this machine better than those it has: which to try, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ferryctl_advice import WORTH_IT, Cell, Sample, cells, overall

AS_SET = "as set"
Settings = Mapping[str, str]
# Measures a folio size once: number of the round, a name, settings, folio size.
Once = Callable[[int, str, Settings, str], Sample | None]


@dataclass(frozen=True)
class Chosen:
    """The settings that are better, and why; none, and what else was seen."""

    settings: dict[str, str] = field(default_factory=dict)
    why: str = ""
    hints: tuple[str, ...] = ()


def candidates(engine: str, target_us: int) -> dict[str, dict[str, str]]:
    """What to try, by a name. Each is something that a measured cost of a machine may call for."""
    tried = [{"target_us": str(min(2 * target_us, 1000000))}]
    if engine != "cpu":
        tried.append({"engine_always": "1"})
        # Where a descriptor, a register or an interrupt of the device is dear
        tried.append({"stripe_bytes": "262144", "window_pages": "2048"})
    return {" ".join(f"{name}={value}" for name, value in settings.items()): settings for settings in tried}


def measure(engine: str, target_us: int, folios: Sequence[str], rounds: int, once: Once) -> list[Sample]:
    """Each in so many rounds; they take turns, and who begins changes."""
    tried = list({AS_SET: dict[str, str](), **candidates(engine, target_us)}.items())
    samples = []
    for number in range(rounds):
        first = number % len(tried)
        for folio in folios:
            for name, settings in (*tried[first:], *tried[:first]):
                sample = once(number, name, settings, folio)
                if sample:
                    samples.append(sample)
    return samples


def choose(samples: Sequence[Sample], engine: str, target_us: int) -> Chosen:
    """The fastest that was faster in every round, by enough, and keeps the target as well as the others."""
    ratios = overall(samples, AS_SET)
    table = cells(samples, target_us, AS_SET)
    ranked = sorted(ratios, key=lambda name: -ratios[name].median)
    better = [name for name in ranked if ratios[name].least > 1 and ratios[name].median >= WORTH_IT]
    hints: list[str] = []
    for name in better:
        longer = _longer(table, name, target_us)
        if not longer:
            why = f"{name}: {ratios[name]} times as fast as {engine} with its present settings."
            return Chosen(candidates(engine, target_us)[name], why, tuple(hints))
        hints.append(f"{name} would be {ratios[name]} times as fast, but {longer}")
    return Chosen(hints=tuple(hints))


def _longer(table: Sequence[Cell], name: str, target_us: int) -> str | None:
    """Where folios are inaccessible for longer than they are to be, and than they are now."""
    now = {cell.folio: cell.p99_us for cell in table if cell.engine == AS_SET}
    for cell in table:
        before = now.get(cell.folio)
        if cell.engine != name or cell.p99_us is None or before is None:
            continue
        if cell.p99_us > max(target_us, before):
            return (
                f"one folio of {cell.folio} in a hundred is inaccessible for {cell.p99_us:.0f} us or more,"
                f" and now for {before:.0f}"
            )
    return None
