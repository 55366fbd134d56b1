# SPDX-License-Identifier: GPL-2.0
"""Pictures of results, made from their JSON alone."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferry import files
from ferry.bench.rows import Row
from ferry.bench.steps import STEPS
from ferry.results import provenance, report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Json = dict[str, Any]


def demo_title(result: Json) -> str:
    """What a demo was measured on."""
    known = result["provenance"]
    each, release = result["runs"][0]["bytes"] >> 20, known["kernels"]["ferry"]["release"]
    return f"{known['cpus']} emulated CPUs, {each} MiB per run, Linux {release}"


def demo(result: Json, path: Path) -> None:
    """Write a PNG with two groups of bars per folio size, a bar per engine."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    rows = [Row(**row) for row in result["runs"]]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    _bars(left, rows, lambda row: row.ratio)
    left.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
    left.set_ylabel("throughput, vanilla = 1")
    _bars(right, rows, lambda row: row.inaccessible_us["p50"])
    right.set_ylabel("inaccessible time, median [us]")
    bars, names = left.get_legend_handles_labels()
    figure.legend(bars, names, loc="outside right center", frameon=False)
    _save(figure, path, demo_title(result), result)


def _save(figure: Figure, path: Path, title: str, result: Json) -> None:
    """With its title above, and below, in small print, where the figures come from."""
    from matplotlib import pyplot

    figure.suptitle(title)
    figure.supxlabel(provenance.small_print(result["provenance"]), fontsize="x-small", color="grey")
    out = io.BytesIO()
    # No version of the library in the file: equal figures, equal bytes.
    figure.savefig(out, format="png", dpi=120, metadata={"Software": None})
    pyplot.close(figure)
    files.write_bytes(path, out.getvalue())


def _bars(axes: Axes, rows: Sequence[Row], value: Callable[[Row], float | None]) -> None:
    folios = sorted({row.folio_kib for row in rows})
    engines = list(dict.fromkeys(report.engine(row) for row in rows))
    width = 0.8 / len(engines)
    for i, engine in enumerate(engines):
        by_folio = {row.folio_kib: value(row) for row in rows if report.engine(row) == engine}
        places = [folios.index(folio) + i * width for folio in by_folio]
        axes.bar(places, [v or 0.0 for v in by_folio.values()], width, label=engine)
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(folios))], [report.size(f) for f in folios])
    axes.set_xlabel("folio size")
    axes.spines[["top", "right"]].set_visible(False)


def trade(result: Json, cells: Sequence[Json], path: Path, title: str) -> None:
    """Write a PNG with throughput over the 99th percentile of inaccessible time, a point per cell."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot, ticker

    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    kinds = (("vanilla", "unchanged Linux", "s"), ("dma", "RFC v5", "X"), ("ferry", "Ferry", "*"))
    for i, folio in enumerate(dict.fromkeys(cell["folio_kib"] for cell in cells)):
        here = {cell["engine"]: cell for cell in cells if cell["folio_kib"] == folio}
        points = {name: (here[name]["inaccessible_us"]["p99"], here[name]["ratio"]) for name, _, _ in kinds}
        for end in ("dma", "ferry"):
            style = "-" if end == "ferry" else ":"
            axes.plot(*zip(points["vanilla"], points[end], strict=True), f"C{i}{style}", linewidth=1)
        for name, _, marker in kinds:
            axes.scatter(*points[name], marker=marker, color=f"C{i}", s=160 if name == "ferry" else 60)
        where: dict[str, Any] = {"xytext": (-10, 4), "textcoords": "offset points", "ha": "right"}
        axes.annotate(report.size(folio), points["ferry"], color=f"C{i}", **where)
    for _, label, marker in kinds:
        axes.scatter([], [], marker=marker, color="black", s=60, label=label)
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("inaccessible time, 99th percentile [us]: better to the left")
    axes.set_ylabel("throughput, unchanged Linux = 1: better upwards")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", frameon=False)
    _save(figure, path, title, result)


def steps(result: Json, path: Path) -> None:
    """Write a PNG with a stacked bar per folio size and engine: its instructions by step."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    plan, found = result["plan"], result["profiles"]
    folios = list(dict.fromkeys(each["folio_kib"] for each in found))
    figure, panels = pyplot.subplots(
        1, len(folios), figsize=(2 + 3.2 * len(folios), 4.8), layout="constrained", squeeze=False
    )
    colors = pyplot.get_cmap("tab20").colors  # type: ignore[attr-defined]
    for axes, kib in zip(panels[0], folios, strict=True):
        here = [each for each in found if each["folio_kib"] == kib]
        names = [report.engine_name(each["engine"], each["channels"]) for each in here]
        below = [0.0] * len(here)
        for number, step in enumerate(STEPS):
            heights = [each["steps"][step] for each in here]
            axes.bar(names, heights, 0.7, bottom=below, label=step, color=colors[number])
            below = [low + height for low, height in zip(below, heights, strict=True)]
        axes.set_title(f"{report.size(kib)} folios")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("instructions per folio")
    bars, names = panels[0][0].get_legend_handles_labels()
    figure.legend(bars[::-1], names[::-1], loc="outside right center", frameon=False)
    how = ", folios one by one" if plan["one_by_one"] else ""
    _save(figure, path, f"Instructions per folio, {plan['call']}, {plan['size']}{how}", result)
