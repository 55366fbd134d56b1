# SPDX-License-Identifier: GPL-2.0
"""Fit an emulated engine to the posted throughputs, by the design as it was posted: ./ferry server fit.

A folio's time is what the CPU needs for it plus the copy's. The fitted cells are measured with the
parameters that the profile has; what the copies do not explain is the CPU's; the new parameters are
those whose predicted ratios to vanilla differ least from the posted ones. Then all cells are measured
with the new ones, and what is left over is shown. Where the start was far off, a second fit finds more.
What registers, interrupts and the IOMMU cost is not fitted: these are the profile's.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ferry.bench.cell import Cell
from ferry.bench.sizes import parse_size
from ferry.errors import UsageError
from ferry.server.profile import Dma, Profile
from ferry.tables import experiments, runner

# Where the parameters are looked for.
BOUNDS = {
    "channel_mb_s": (100, 20_000),
    "path_mb_s": (100, 40_000),
    "total_mb_s": (1_000, 100_000),
    "descriptor_ns": (1, 100_000),
    "small_percent": (1, 100),
}

Key = tuple[str, int]  # folio, channels


def copy_ns(dma: Dma, folio_bytes: int, channels: int) -> float:
    """How long a folio's copy takes with this many channels at work: the mean over many folios."""
    on_path = min(channels, dma.channels_per_path)
    own = dma.channel_mb_s * (dma.small_percent / 100 if folio_bytes < dma.small_bytes else 1)
    rate = min(own, dma.path_mb_s / on_path, dma.total_mb_s / channels) / 1000
    return (dma.descriptor_ns + folio_bytes / rate) / channels


def predict(dma: Dma, folio: str, channels: int, vanilla_ns: float, rest_ns: float) -> float:
    """The ratio to vanilla, if all but the copy takes rest_ns per folio."""
    return vanilla_ns / max(1.0, rest_ns + copy_ns(dma, parse_size(folio), channels))


def search(shape: Dma, loss: Callable[[Dma], float]) -> Dma:
    """The parameters, within BOUNDS, with the least loss; the same for the same loss."""
    from scipy.optimize import differential_evolution  # type: ignore[import-untyped]

    def at(logs: Iterable[float]) -> Dma:
        dma = replace(shape, **{name: round(math.exp(x)) for name, x in zip(BOUNDS, logs, strict=True)})
        # What a path does not let through no figure can tell.
        return replace(dma, channel_mb_s=min(dma.channel_mb_s, dma.path_mb_s))

    ranges = [(math.log(least), math.log(most)) for least, most in BOUNDS.values()]
    best = differential_evolution(lambda logs: loss(at(logs)), ranges, seed=1, tol=1e-8, popsize=20)
    return at(best.x)


def posted_ratios(throughput: Mapping[str, Any]) -> dict[Key, float]:
    return {
        (folio, int(channels)): row[i] / throughput["vanilla"][i]
        for i, folio in enumerate(throughput["folios"])
        for channels, row in throughput["dma"].items()
    }


def run(server: Profile) -> tuple[Dma, list[dict[str, Any]]]:
    """Measure, fit, measure again. Returns the parameters, and cells that show what they leave over.

    Raises UsageError for a server that has another engine, or fewer channels, than the posted one.
    """
    throughput = experiments.published()["v5"]["throughput"]
    most = max(map(int, throughput["dma"]))
    if server.engine != "ptdma" or server.dma.channels < most:
        raise UsageError(
            f"profile {server.name} cannot be fitted: what was posted is of {most} channels of PTDMA"
        )
    posted = posted_ratios(throughput)
    vanilla = experiments.throughput_cells(throughput["folios"], [], ["vanilla"])
    base = {folio: ns for (folio, _), ns in _measure(server, vanilla).items()}
    channels = [int(number) for number in throughput["dma"]]
    cells = experiments.as_posted(experiments.throughput_cells(throughput["folios"], channels, ["dma"]))
    fitted = [cell for cell in cells if (cell.folio, cell.channels) in experiments.FITTED]
    rest = {
        (folio, n): ns - copy_ns(server.dma, parse_size(folio), n)
        for (folio, n), ns in _measure(server, fitted).items()
    }
    dma = search(server.dma, partial(_loss, posted, base, rest))
    real = _measure(replace(server, dma=dma), cells)
    return dma, [
        {"folio": folio, "engine": "dma", "channels": count, "ratio": base[folio] / real[folio, count]}
        | {"published_ratio": ratio, "fitted": (folio, count) in experiments.FITTED}
        for (folio, count), ratio in posted.items()
    ]


def _measure(server: Profile, cells: list[Cell]) -> dict[Key, float]:
    """Nanoseconds per folio."""
    measured, _ = runner.in_vms(cells, server.as_machine())
    return {
        (cell.folio, cell.channels): measurement.row.folio_kib * 1024 / measurement.row.gbps
        for cell, measurement in zip(cells, measured, strict=True)
    }


def _loss(
    posted: Mapping[Key, float], base: Mapping[str, float], rest: Mapping[Key, float], dma: Dma
) -> float:
    return sum(
        math.log(predict(dma, folio, n, base[folio], ns) / posted[folio, n]) ** 2
        for (folio, n), ns in rest.items()
    )
