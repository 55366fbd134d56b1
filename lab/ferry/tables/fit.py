# SPDX-License-Identifier: GPL-2.0
"""Fit an emulated engine to the posted throughputs, with the earlier design: ./ferry server fit.

A folio's time is what the CPU needs for it plus the copy's. The fitted rows are measured with the
parameters that the profile has; what the copies do not explain is the CPU's; the new parameters are
those whose predicted ratios to vanilla differ least from the posted ones. Then all rows are measured
with the new ones, and what is left over is shown. Where the start was far off, a second fit finds more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ferry.bench.sizes import parse_size
from ferry.server.profile import Dma, Profile
from ferry.tables import experiments, runner

# The rows that are fitted, and how much each counts. A copy of such a folio is one descriptor for certain,
# and one of 2M is what the engine itself can do. What lies between seems to be cut into pages where it was
# posted; see docs/server.md.
WEIGHT = dict(zip(experiments.FITTED, (10.0, 1.0), strict=True))
# Where the parameters are looked for.
BOUNDS = {
    "channel_mb_s": (100, 20_000),
    "path_mb_s": (100, 40_000),
    "total_mb_s": (1_000, 100_000),
    "descriptor_ns": (1, 100_000),
}

Key = tuple[str, int]  # folio, channels


def copy_ns(dma: Dma, folio_bytes: int, channels: int) -> float:
    """How long a folio's copy takes with this many channels at work: the mean over many folios."""
    on_path = min(channels, dma.channels_per_path)
    rate = min(dma.channel_mb_s, dma.path_mb_s / on_path, dma.total_mb_s / channels) / 1000
    return (dma.descriptor_ns + folio_bytes / rate) / channels


def predict(dma: Dma, folio: str, channels: int, vanilla_ns: float, rest_ns: float) -> float:
    """The ratio to vanilla, if all but the copy takes rest_ns per folio."""
    return vanilla_ns / max(1.0, rest_ns + copy_ns(dma, parse_size(folio), channels))


def search(shape: Dma, loss: Callable[[Dma], float]) -> Dma:
    """The parameters, within BOUNDS, with the least loss; the same for the same loss."""
    from scipy.optimize import differential_evolution  # type: ignore[import-untyped]

    def at(logs: Iterable[float]) -> Dma:
        return replace(shape, **{name: round(math.exp(x)) for name, x in zip(BOUNDS, logs, strict=True)})

    ranges = [(math.log(least), math.log(most)) for least, most in BOUNDS.values()]
    found = differential_evolution(lambda logs: loss(at(logs)), ranges, seed=1, tol=1e-8, popsize=20)
    return at(found.x)


def posted_ratios(throughput: Mapping[str, Any]) -> dict[Key, float]:
    """What was posted, to vanilla."""
    return {
        (folio, int(channels)): row[i] / throughput["vanilla"][i]
        for i, folio in enumerate(throughput["folios"])
        for channels, row in throughput["dma"].items()
    }


def run(server: Profile) -> tuple[Dma, list[dict[str, Any]]]:
    """Measure, fit, measure again. Returns the parameters, and cells that show what they leave over."""
    throughput = experiments.published()["v5"]["throughput"]
    channels = [int(number) for number in throughput["dma"]]
    posted = posted_ratios(throughput)
    vanilla = _measure(server, throughput["folios"], [], "vanilla")
    base = {folio: ns for (folio, _), ns in vanilla.items()}
    earlier = _measure(server, list(WEIGHT), channels, "dma")
    rest = {(folio, n): ns - copy_ns(server.dma, parse_size(folio), n) for (folio, n), ns in earlier.items()}
    dma = search(server.dma, partial(_loss, posted, base, rest))
    real = _measure(replace(server, dma=dma), throughput["folios"], channels, "dma")
    return dma, [
        {"folio": folio, "engine": "dma", "channels": count, "ratio": base[folio] / real[folio, count]}
        | {"published_ratio": ratio, "fitted": folio in WEIGHT}
        for (folio, count), ratio in posted.items()
    ]


def _measure(server: Profile, folios: list[str], channels: list[int], engine: str) -> dict[Key, float]:
    """Nanoseconds per folio."""
    cells = experiments.throughput_cells(folios, channels, [engine])
    measured, _ = runner.in_vms(cells, server.as_machine())
    return {
        (cell.folio, cell.channels): measurement.row.folio_kib * 1024 / measurement.row.gbps
        for cell, measurement in zip(cells, measured, strict=True)
    }


def _loss(
    posted: Mapping[Key, float], base: Mapping[str, float], rest: Mapping[Key, float], dma: Dma
) -> float:
    return sum(
        WEIGHT[folio] * math.log(predict(dma, folio, n, base[folio], ns) / posted[folio, n]) ** 2
        for (folio, n), ns in rest.items()
    )
