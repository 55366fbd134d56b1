# SPDX-License-Identifier: GPL-2.0
"""Pictures of results, made from their JSON alone: what is plotted follows from what the cells differ in."""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ferry.bench.steps import STEPS
from ferry.results import present, provenance
from ferry.results.compare import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A part of a picture: its title, and what draws it.
Panel = tuple[str, Callable[["Axes"], None]]
Points = Sequence[tuple[Any, float]]
LETTERS_PER_INCH = 11


def picture(result: Json) -> bytes | None:
    """Of a result, as a PNG. None of one that is told by a table alone."""
    if "profiles" in result:
        plan = result["plan"]
        how = ", folios one by one" if plan["one_by_one"] else ""
        title = f"Instructions per folio, {plan['call']}, {plan['size']}{how}"
        return _png(result, title, [_steps(result)], "instructions per folio", height=4.3, upwards=True)
    if "table" not in result:
        return None
    base = "none" if present.is_here(result) else "vanilla"
    sweeps = result["table"] == "sensitivity"
    grid = _sweeps(result) if sweeps else [_panels(result)]
    return _png(result, present.title(result), grid, f"throughput, {base} = 1", sharey=sweeps)


def trade(result: Json, cells: Sequence[Json], title: str) -> bytes:
    """A PNG with throughput over the 99th percentile of inaccessible time, a point per cell."""
    draw = partial(_trade, cells=cells)
    label = "throughput, unchanged Linux = 1: better upwards"
    return _png(result, title, [[("", draw)]], label, width=10.5, height=4.5)


def _png(
    result: Json,
    title: str,
    grid: Sequence[Sequence[Panel]],
    label: str,
    *,
    width: float = 3.2,
    height: float = 3,
    sharey: bool = False,
    upwards: bool = False,
) -> bytes:
    """Panels with a title above, names of lines beside, and below, in small print, where all comes from.
    Width and height are of a panel; names are upwards where what they name is stacked."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(grid),
        len(grid[0]),
        figsize=(max(6.0, width * len(grid[0])), 1 + height * len(grid)),
        layout="constrained",
        sharey="row" if sharey else "none",
        squeeze=False,
    )
    for row, panels in zip(axes, grid, strict=True):
        for part, (name, draw) in zip(row, panels, strict=True):
            draw(part)
            part.set_title(name)
            part.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel(label)
    figure.supxlabel(provenance.small_print(result["provenance"]), fontsize="x-small", color="grey")
    # A machine without channels may have no line to name.
    if names := _names([panel for row in axes for panel in row[::-1]]):
        order = list(names)[::-1] if upwards else list(names)
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        axes[0][-1].legend([names[name] for name in order], order, fontsize="small", **place)
    letters = int(figure.get_figwidth() * LETTERS_PER_INCH)
    figure.suptitle(textwrap.fill(title, letters), fontsize="medium")
    out = io.BytesIO()
    # No version of the library in the file: equal figures, equal bytes.
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return out.getvalue()


def _names(panels: Sequence[Axes]) -> dict[str, Any]:
    """Each line that has a name in one of the panels."""
    lines = itertools.chain(*(zip(*axes.get_legend_handles_labels(), strict=True) for axes in panels))
    return {name: line for line, name in lines}


def _plot(axes: Axes, points: Points, style: str, label: str, size: int = 4) -> None:
    """A line, if it has a point."""
    if points:
        axes.plot(*zip(*points, strict=True), style, label=label, markersize=size)


def _from_base(axes: Axes, label: str = "") -> None:
    """Ratios begin at 0, and a line says where what they are of is."""
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(label)


def _panels(result: Json) -> list[Panel]:
    """A panel for each folio size."""
    by_folios = dict.fromkeys(("mtcopy", "userspace", "v1-cycles"), _plot_folios)
    by_table = {"v5-batch": _plot_batches, "callers": _plot_callers} | by_folios
    draw = by_table.get(result["table"], _plot_channels)
    where = "here" if present.is_here(result) else "emulated"
    return [
        (
            f"{present.size(folio)} folios" + ", fitted" * any(cell.get("fitted") for cell in cells),
            partial(draw, cells=cells, where=where),
        )
        for folio, cells in _by_folio(result)
    ]


def _sweeps(result: Json) -> list[list[Panel]]:
    """A row of panels for each folio size, with one for each parameter."""
    names = list(dict.fromkeys(cell["parameter"] for cell in result["cells"] if "parameter" in cell))
    return [
        [
            (
                f"{present.size(folio)} folios, {name}",
                partial(_plot_values, cells=cells, name=name, base=result["provenance"].get(name, "none")),
            )
            for name in names
        ]
        or [(f"{present.size(folio)} folios", partial(_plot_channels, cells=cells, where="here"))]
        for folio, cells in _by_folio(result)
    ]


def _by_folio(result: Json) -> list[tuple[int, list[Json]]]:
    """The cells that have a ratio."""
    sizes = dict.fromkeys(cell["folio_kib"] for cell in result["cells"])
    return [
        (size, [cell for cell in result["cells"] if cell["folio_kib"] == size and "ratio" in cell])
        for size in sizes
    ]


def _by_engine(cells: Sequence[Json]) -> dict[str, list[Json]]:
    """The cells of each engine, by its name, in the order in which they come."""
    names = dict.fromkeys(map(present.engine, cells))
    return {name: [cell for cell in cells if present.engine(cell) == name] for name in names}


def _plot_values(axes: Axes, cells: list[Json], name: str, base: Any) -> None:
    """Ratio by the values of a parameter; a cell without one has what the profile says."""
    varied = [cell for cell in cells if cell.get("parameter", name) == name]
    values = list(dict.fromkeys([base, *(cell["value"] for cell in varied if "value" in cell)]))
    if not any(isinstance(value, str) for value in values):
        values.sort()
    on_channels = [cell for cell in varied if "channels" in cell]
    for i, (title, alike) in enumerate(_by_engine(on_channels).items()):
        best: dict[int, float] = {}  # of the batches that the earlier design was measured with
        for cell in alike:
            place = values.index(cell.get("value", base))
            best[place] = max(best.get(place, 0.0), cell["ratio"])
        style = "-s" if title.startswith("ferry") else "--o"
        _plot(axes, sorted(best.items()), f"C{i}{style}", title.replace(", ", ",\n"))  # settings are long
    for cell in (cell for cell in varied if cell["engine"] == "cpu"):
        axes.axhline(cell["ratio"], color="grey", linewidth=0.8, linestyle=":", label="the CPU copies")
    # Joint corners have their places in the table.
    labels = [
        f"{value:,}" if isinstance(value, int) else str(i) if " " in value else value
        for i, value in enumerate(values)
    ]
    axes.set_xticks(range(len(values)), labels, fontsize="small")
    _from_base(axes)


def _plot_channels(axes: Axes, cells: list[Json], where: str) -> None:
    """Ratio by channels: posted, measured, Ferry's."""

    def points(engine: str, figure: str) -> Points:
        usual = present.on_usual_kernels(cells)
        alike = [cell for cell in usual if cell["engine"] == engine and figure in cell]
        return [(cell["channels"], cell[figure]) for cell in alike]

    _plot(axes, points("dma", "published_ratio"), "k--x", "posted")
    _plot(axes, points("dma", "ratio"), "C0-o", f"the same, {where}")
    _plot(axes, points("ferry", "ratio"), "C1-s", f"Ferry, {where}")
    _plot(axes, points("ferry", "published_most_ratio"), "k:", "the most GB/s posted")
    _from_base(axes, "channels")


def _plot_batches(axes: Axes, cells: list[Json], where: str) -> None:
    """Ratio by first-folio latency: the trade that batches make, and where Ferry is."""
    for i, count in enumerate(dict.fromkeys(cell["channels"] for cell in cells if "channels" in cell)):
        for engine, name, mark, size in (("dma", "batches", "-o", 4), ("ferry", "Ferry", "*", 11)):
            alike = [cell for cell in cells if (cell["engine"], cell.get("channels")) == (engine, count)]
            points = [(cell["first_folio_us"], cell["ratio"]) for cell in alike]
            _plot(axes, points, f"C{i}{mark}", f"{name}, x{count}, {where}", size)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter("")  # its labels would lie on each other
    _from_base(axes, "first folio usable after, us")


def _plot_callers(axes: Axes, cells: list[Json], where: str) -> None:
    """Ratio by who moves."""
    callers = list(dict.fromkeys(cell["caller"] for cell in cells))
    for i, (name, alike) in enumerate(_by_engine([c for c in cells if c["engine"] != "vanilla"]).items()):
        # Beside each other, as many are alike; the same engine has the same color in each panel.
        points = [(callers.index(cell["caller"]) + 0.15 * i, cell["ratio"]) for cell in alike]
        color = "C1" if alike[0]["engine"] == "ferry" else "C0"
        _plot(axes, points, f"{color}{'^' if alike[0].get('settings') else 'o'}", f"{name}, {where}")
    axes.set_xticks(range(len(callers)), callers, fontsize="small", rotation=30, ha="right")
    _from_base(axes)


def _plot_folios(axes: Axes, cells: list[Json], where: str) -> None:
    """Ratio by folios per call, measured and posted."""
    for i, (name, alike) in enumerate(
        _by_engine([c for c in cells if c["engine"] not in present.BASES]).items()
    ):
        _plot(axes, [(cell["folios"], cell["ratio"]) for cell in alike], f"C{i}-o", f"{name}, {where}")
        posted = [(cell["folios"], cell["published_ratio"]) for cell in alike if "published_ratio" in cell]
        _plot(axes, posted, f"C{i}--x", f"{name}, posted")
    axes.set_xscale("log", base=2)
    _from_base(axes, "folios per call")


def _trade(axes: Axes, cells: Sequence[Json]) -> None:
    """For each size of folio a line from unchanged Linux to RFC v5, and one to Ferry."""
    from matplotlib import ticker

    kinds = (("vanilla", "unchanged Linux", "s"), ("dma", "RFC v5", "X"), ("ferry", "Ferry", "*"))
    for i, kib in enumerate(dict.fromkeys(cell["folio_kib"] for cell in cells)):
        by_engine = {cell["engine"]: cell for cell in cells if cell["folio_kib"] == kib}
        points = {
            name: (by_engine[name]["inaccessible_us"]["p99"], by_engine[name]["ratio"])
            for name, _, _ in kinds
        }
        for end, style in (("dma", ":"), ("ferry", "-")):
            axes.plot(*zip(points["vanilla"], points[end], strict=True), f"C{i}{style}", linewidth=1)
        for name, _, marker in kinds:
            axes.scatter(*points[name], marker=marker, color=f"C{i}", s=160 if name == "ferry" else 60)
        most = by_engine["ferry"].get("published_most_ratio", math.inf)
        if most < points["ferry"][1]:
            axes.scatter(points["ferry"][0], most, marker="_", color=f"C{i}", s=400)
        where: dict[str, Any] = {"xytext": (-10, 4), "textcoords": "offset points", "ha": "right"}
        axes.annotate(present.size(kib), points["ferry"], color=f"C{i}", **where)
    for _, label, marker in (*kinds, ("", "most GB/s posted", "_")):
        axes.scatter([], [], marker=marker, color="black", s=60, label=label)
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("inaccessible time, 99th percentile [us]: better to the left")


def _steps(result: Json) -> list[Panel]:
    """A panel for each folio size, with a stacked bar for each engine: its instructions by step."""
    by_size: dict[str, list[Json]] = {}
    for profile in result["profiles"]:
        by_size.setdefault(f"{present.size(profile['folio_kib'])} folios", []).append(profile)
    return [(title, partial(_stack, profiles=profiles)) for title, profiles in by_size.items()]


def _stack(axes: Axes, profiles: Sequence[Json]) -> None:
    from matplotlib import pyplot

    colors = pyplot.get_cmap("tab20").colors  # type: ignore[attr-defined]
    below = [0.0] * len(profiles)
    for step, color in zip(STEPS, colors, strict=False):
        heights = [profile["steps"][step] for profile in profiles]
        axes.bar([*map(present.engine, profiles)], heights, 0.7, bottom=below, label=step, color=color)
        below = [low + height for low, height in zip(below, heights, strict=True)]
