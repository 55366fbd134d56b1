# SPDX-License-Identifier: GPL-2.0
"""A picture of a table: what is plotted follows from what its cells differ in."""

from __future__ import annotations

import io
import itertools
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ferry.results import provenance, report
from ferry.tables import show
from ferry.tables.show import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Its title, and what draws it.
Panel = tuple[str, Callable[["Axes"], None]]
LETTERS_PER_INCH = 11


def picture(result: Json) -> bytes:
    """A PNG: what is plotted follows from what the cells differ in."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    sweeps = result["table"] == "sensitivity"
    grid = _sweeps(result) if sweeps else [_panels(result)]
    size = (max(6.0, 3.2 * len(grid[0])), 1 + 3 * len(grid))
    figure, axes = pyplot.subplots(
        len(grid),
        len(grid[0]),
        figsize=size,
        layout="constrained",
        sharey="row" if sweeps else "none",
        squeeze=False,
    )
    for row, panels in zip(axes, grid, strict=True):
        for part, (name, draw) in zip(row, panels, strict=True):
            draw(part)
            part.set_title(name)
            part.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel(f"throughput, {'none' if show.is_here(result) else 'vanilla'} = 1")
    figure.supxlabel(provenance.small_print(result["provenance"]), fontsize="x-small", color="grey")
    # A machine without channels may have no line to name.
    if names := _names([row[-1] for row in axes]):
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        axes[0][-1].legend(names.values(), names, fontsize="small", **place)
    width = int(figure.get_figwidth() * LETTERS_PER_INCH)
    figure.suptitle(textwrap.fill(show.title(result), width), fontsize="medium")
    out = io.BytesIO()
    # No version of the library in the file: equal figures, equal bytes.
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return out.getvalue()


def _names(every: Sequence[Axes]) -> dict[str, Any]:
    """Each line that has a name in one of the panels."""
    lines = itertools.chain(*(zip(*axes.get_legend_handles_labels(), strict=True) for axes in every))
    return {name: line for line, name in lines}


def _panels(result: Json) -> list[Panel]:
    """A panel for each folio size."""
    draw = _plot_channels
    if result["table"] == "v5-batch":
        draw = _plot_batches
    elif result["table"] == "callers":
        draw = _plot_callers
    elif result["table"] in ("mtcopy", "userspace", "v1-cycles"):
        draw = _plot_folios
    where = "here" if show.is_here(result) else "emulated"
    return [
        (f"{report.size(folio)} folios{_fitted(cells)}", partial(draw, cells=cells, where=where))
        for folio, cells in _by_folio(result)
    ]


def _fitted(cells: list[Json]) -> str:
    return ", fitted" if any(cell.get("fitted") for cell in cells) else ""


def _sweeps(result: Json) -> list[list[Panel]]:
    """A row of panels for each folio size, with one for each parameter."""
    names = list(dict.fromkeys(cell["parameter"] for cell in result["cells"] if "parameter" in cell))
    return [
        [
            (
                f"{report.size(folio)} folios, {name}",
                partial(_plot_values, cells=cells, name=name, base=result["provenance"].get(name)),
            )
            for name in names
        ]
        or [(f"{report.size(folio)} folios", partial(_plot_channels, cells=cells, where="here"))]
        for folio, cells in _by_folio(result)
    ]


def _by_folio(result: Json) -> list[tuple[int, list[Json]]]:
    """The cells that have a ratio."""
    sizes = dict.fromkeys(cell["folio_kib"] for cell in result["cells"])
    return [
        (size, [cell for cell in result["cells"] if cell["folio_kib"] == size and "ratio" in cell])
        for size in sizes
    ]


def _plot_values(axes: Axes, cells: list[Json], name: str, base: Any) -> None:
    """Ratio by the values of a parameter; a cell without one has what the profile says."""
    mine = [cell for cell in cells if cell.get("parameter", name) == name]
    values = list(dict.fromkeys([base, *(cell["value"] for cell in mine if "value" in cell)]))
    if not any(isinstance(value, str) for value in values):
        values.sort()
    for i, title in enumerate(dict.fromkeys(show.engine(cell) for cell in mine if "channels" in cell)):
        points = [(values.index(c.get("value", base)), c["ratio"]) for c in mine if show.engine(c) == title]
        style = "-s" if title.startswith("ferry") else "--o"
        label = title.replace(", ", ",\n")  # settings are long
        axes.plot(*zip(*sorted(points), strict=True), f"C{i}{style}", label=label, markersize=4)
    for cell in (c for c in mine if c["engine"] == "cpu"):
        axes.axhline(cell["ratio"], color="grey", linewidth=0.8, linestyle=":", label="the CPU copies")
    axes.axhline(1.0, color="grey", linewidth=0.8)
    labels = [value if isinstance(value, str) else f"{value:,}" for value in values]
    axes.set_xticks(range(len(values)), labels, fontsize="small")
    axes.set_ylim(bottom=0)


def _plot_channels(axes: Axes, cells: list[Json], where: str) -> None:
    """Ratio by channels: posted, measured, Ferry's."""
    dma = [cell for cell in cells if cell["engine"] == "dma"]
    lines = (
        ("posted", [(c["channels"], c["published_ratio"]) for c in dma if "published_ratio" in c], "k--x"),
        (f"the same, {where}", [(c["channels"], c["ratio"]) for c in dma], "C0-o"),
        (f"Ferry, {where}", [(c["channels"], c["ratio"]) for c in cells if c["engine"] == "ferry"], "C1-s"),
    )
    for label, points, style in lines:
        if points:
            axes.plot(*zip(*points, strict=True), style, label=label, markersize=4)
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set_xlabel("channels")
    axes.set_ylim(bottom=0)


def _plot_batches(axes: Axes, cells: list[Json], where: str) -> None:
    """Ratio by first-folio latency: the trade that batches make, and where Ferry is."""
    for i, count in enumerate(dict.fromkeys(c["channels"] for c in cells if "channels" in c)):
        mine = [cell for cell in cells if cell.get("channels") == count]
        batches = [(c["first_folio_us"], c["ratio"]) for c in mine if c["engine"] == "dma"]
        if batches:
            axes.plot(
                *zip(*batches, strict=True), f"C{i}-o", label=f"batches, x{count}, {where}", markersize=4
            )
        for cell in (c for c in mine if c["engine"] == "ferry"):
            axes.plot(
                cell["first_folio_us"],
                cell["ratio"],
                f"C{i}*",
                label=f"Ferry, x{count}, {where}",
                markersize=11,
            )
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter("")  # its labels would lie on each other
    axes.set_xlabel("first folio usable after, us")
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set_ylim(bottom=0)


def _plot_callers(axes: Axes, cells: list[Json], where: str) -> None:
    """Ratio by who moves."""
    callers = list(dict.fromkeys(cell["caller"] for cell in cells))
    names = [name for name in dict.fromkeys(map(show.engine, cells)) if name != "vanilla"]
    for i, name in enumerate(names):
        points = [(callers.index(c["caller"]), c["ratio"]) for c in cells if show.engine(c) == name]
        axes.plot(*zip(*points, strict=True), f"C{i}o", label=f"{name}, {where}", markersize=5)
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set_xticks(range(len(callers)), callers, fontsize="small", rotation=30, ha="right")
    axes.set_ylim(bottom=0)


def _plot_folios(axes: Axes, cells: list[Json], where: str) -> None:
    """Ratio by folios per call, measured and posted."""
    names = [name for name in dict.fromkeys(show.engine(cell) for cell in cells) if name not in show.BASES]
    for i, name in enumerate(names):
        mine = [cell for cell in cells if show.engine(cell) == name]
        axes.plot(
            [c["folios"] for c in mine],
            [c["ratio"] for c in mine],
            f"C{i}-o",
            label=f"{name}, {where}",
            markersize=4,
        )
        posted = [(c["folios"], c["published_ratio"]) for c in mine if "published_ratio" in c]
        if posted:
            axes.plot(*zip(*posted, strict=True), f"C{i}--x", label=f"{name}, posted", markersize=4)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("folios per call")
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set_ylim(bottom=0)
