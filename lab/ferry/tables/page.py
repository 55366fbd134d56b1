# SPDX-License-Identifier: GPL-2.0
"""Tables for people: on the terminal, as a plot each, and all of them in one HTML page.

They are made from the JSON files in out/ alone, so a report can be made again without measuring.
"""

from __future__ import annotations

import base64
import html
import io
import json
import statistics
import textwrap
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferry import files, paths
from ferry.results import provenance, report
from ferry.tables import experiments

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

Json = dict[str, Any]
# Its title, and what draws it.
Panel = tuple[str, Callable[["Axes"], None]]

# Heading and how a cell shows it.
COLUMNS: tuple[tuple[str, Callable[[Json], str]], ...] = (
    ("folio", lambda cell: report.size(cell["folio_kib"])),
    ("engine", lambda cell: engine(cell)),
    ("varied", lambda cell: varied(cell)),
    ("batch, pages", lambda cell: f"{cell['batch_pages']:,}" if "batch_pages" in cell else ""),
    ("folios", lambda cell: f"{cell['folios']:,}"),
    ("GB/s", lambda cell: f"{cell['gbps']:.3f}"),
    ("ratio", lambda cell: _ratio(cell.get("ratio"))),
    ("published", lambda cell: _ratio(cell.get("published_ratio"))),
    ("residual", lambda cell: residual(cell)),
    ("migrate_pages, cycles/page", lambda cell: _us(cell.get("migrate_cycles_per_page"))),
    ("copies, cycles/page", lambda cell: _us(cell.get("copy_cycles_per_page"))),
    ("share", lambda cell: _percent(cell.get("copy_share"))),
    ("published", lambda cell: _percent(cell.get("published_copy_share"))),
    ("first folio us", lambda cell: _us(cell.get("first_folio_us"))),
    ("published", lambda cell: _us(cell.get("published_first_folio_us"))),
    ("inaccessible us p50 / p99 / max", lambda cell: _away(cell.get("inaccessible_us"))),
    (
        "read a page, cycles: uncached / cached / moved",
        lambda cell: _access(cell.get("access_cycles_per_page")),
    ),
    ("published", lambda cell: _access(cell.get("published_access_cycles_per_page"))),
)

LETTERS_PER_INCH = 11
ACCESSES = ("uncached", "cached", "post_move")
# What the others are compared with: an unchanged kernel, or with --here Ferry's without an engine.
BASES = ("vanilla", "none")


def engine(cell: Json) -> str:
    """An engine as the tables name it."""
    many = cell.get("channels") or cell.get("threads")
    return f"{cell['engine']} x{many}" if many else str(cell["engine"])


def varied(cell: Json) -> str:
    """What of the server is other than its profile says."""
    return f"{cell['parameter']} = {cell['value']}" if "parameter" in cell else ""


def residual(cell: Json) -> str:
    """How much more than published, and whether the engine was fitted to that."""
    percent = _residual(cell)
    return "" if percent is None else f"{percent:+.0f} %{' fitted' * cell.get('fitted', False)}"


def _residual(cell: Json) -> float | None:
    """In percent; None if nothing was published, or it is what all others are compared with."""
    if "published_ratio" not in cell or "ratio" not in cell:
        return None
    if cell["engine"] in BASES and cell["published_ratio"] == 1:
        return None
    return float(cell["ratio"] / cell["published_ratio"] - 1) * 100


def residuals(result: Json) -> dict[str, str]:
    """The misfits of a table, of fitted cells, of predicted ones and of vanilla's, each by itself."""
    groups: dict[str, list[float]] = {}
    for cell in result["cells"]:
        if (percent := _residual(cell)) is not None:
            kind = "fitted" if cell.get("fitted") else "predicted"
            groups.setdefault(cell["engine"] if cell["engine"] in BASES else kind, []).append(percent)
    return {
        f"residuals, {kind}": f"{len(found)} cells, half within {statistics.median(map(abs, found)):.0f} %, "
        f"from {min(found):+.0f} to {max(found):+.0f} %"
        for kind, found in sorted(groups.items())
    }


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value * 100:.0f} %"


def _away(value: dict[str, float] | None) -> str:
    return " / ".join(_us(value[key]) for key in ("p50", "p99", "max")) if value else ""


def _access(value: dict[str, float] | None) -> str:
    return " / ".join(_us(value.get(key)) or "-" for key in ACCESSES) if value else ""


def columns(result: Json) -> list[tuple[str, Callable[[Json], str]]]:
    """The columns that say something about at least one cell."""
    return [column for column in COLUMNS if any(column[1](cell) for cell in result["cells"])]


def title(result: Json) -> str:
    """What, and on what."""
    known = result["provenance"]
    where = known["machine"] if _here(result) else f"emulated {result['profile']}"
    part = ", a part of it" if result["quick"] else ""
    return f"{result['table']}: {result['title']} ({where}, {_cpus(known)}{part})"


def _cpus(known: Json) -> str:
    return f"{known['cpus']} CPU{'s' * (known['cpus'] != 1)}"


def place(result: Json, folder: Path = paths.OUT) -> Path:
    """The file of a result: another machine's, or a part of the cells, never replaces the whole of zen3's."""
    profile = "" if result["profile"] == "zen3" else f"-{result['profile']}"
    return folder / f"table-{result['table']}{profile}{'-quick' if result['quick'] else ''}.json"


def _here(result: Json) -> bool:
    return bool(result["profile"] == "here")


def as_table(result: Json) -> Table:
    """For the terminal."""
    found = report.new_table(title(result))
    for name, _ in columns(result):
        found.add_column(name, justify="left" if name in ("folio", "engine") else "right")
    cells = result["cells"]
    for i, cell in enumerate(cells):
        last = i + 1 == len(cells) or cells[i + 1]["folio_kib"] != cell["folio_kib"]
        found.add_row(*(show(cell) for _, show in columns(result)), end_section=last)
    return found


def write(
    folder: Path = paths.OUT, into: Path | None = None, pictures: Container[str] | None = None
) -> list[Path]:
    """The page with all results in a folder, and the plots of those that are named, or of all."""
    found = [path for name in experiments.TABLES for path in sorted(folder.glob(f"table-{name}*.json"))]
    made, parts = [], []
    for kept in found:
        result = json.loads(kept.read_text())
        picture = _picture(result)
        path = (into or folder) / f"{kept.stem}.png"
        if pictures is None or path.name in pictures:
            files.write_bytes(path, picture)
            made.append(path)
        parts.append(_section(result, picture))
    page = (into or folder) / "tables.html"
    files.write(page, _PAGE.replace("@BODY@", "\n".join(parts)))
    return [*made, page]


# --- plots ---


def _picture(result: Json) -> bytes:
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
        row[0].set_ylabel(f"throughput, {'none' if _here(result) else 'vanilla'} = 1")
    figure.supxlabel(provenance.short(result["provenance"]), fontsize="x-small", color="grey")
    axes[0][-1].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    width = int(figure.get_figwidth() * LETTERS_PER_INCH)
    figure.suptitle(textwrap.fill(title(result), width), fontsize="medium")
    out = io.BytesIO()
    # No version of the library in the file: equal figures, equal bytes.
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return out.getvalue()


def _panels(result: Json) -> list[Panel]:
    """A panel for each folio size."""
    draw = _plot_channels
    if result["table"] == "v5-batch":
        draw = _plot_batches
    elif result["table"] in ("mtcopy", "userspace", "v1-cycles"):
        draw = _plot_folios
    where = "here" if _here(result) else "emulated"
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
    found = {cell.get("value", base) for cell in mine}
    values = sorted(found, key=lambda value: (isinstance(value, str), value))
    for i, title in enumerate(dict.fromkeys(engine(cell) for cell in mine if "channels" in cell)):
        points = [(values.index(c.get("value", base)), c["ratio"]) for c in mine if engine(c) == title]
        style = "-s" if title.startswith("ferry") else "--o"
        axes.plot(*zip(*sorted(points), strict=True), f"C{i}{style}", label=title, markersize=4)
    for cell in (c for c in mine if c["engine"] == "cpu"):
        axes.axhline(cell["ratio"], color="grey", linewidth=0.8, linestyle=":", label="the CPU copies")
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set_xticks(range(len(values)), [f"{value:,}" if value != str(value) else value for value in values])
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


def _plot_folios(axes: Axes, cells: list[Json], where: str) -> None:
    """Ratio by folios per call, measured and posted."""
    names = [name for name in dict.fromkeys(engine(cell) for cell in cells) if name not in BASES]
    for i, name in enumerate(names):
        mine = [cell for cell in cells if engine(cell) == name]
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


# --- the page ---

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Ferry: published tables, repeated</title>
<style>
body { font: 15px/1.45 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px }
th, td { padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd }
th { border-bottom: 2px solid #888 } td:nth-child(-n+2), th:nth-child(-n+2) { text-align: left }
tr.vanilla, tr.none { background: #f2f2f2 } tr.ferry { font-weight: bold }
tr.first td { border-top: 2px solid #888 }
img { max-width: 100% } dl { display: grid; grid-template-columns: max-content auto; gap: 0 1em }
dt { color: #666 } dd { margin: 0 }
</style></head><body>
<h1>Ferry: published tables, repeated</h1>
<p>Each table says where it was measured, and whether its time is virtual or wall time. In virtual time,
on an emulated server, one instruction is one nanosecond, and a copy by the engine takes modelled time.
Compare ratios to vanilla, never GB/s, with another machine.
<b>dma</b> is the earlier design (unmap a batch, copy it all with whole folios for each channel, wait,
remap), made by Ferry's own kernel with such settings; <b>ferry</b> is Ferry as it is set by default;
<b>cpu</b> copies each batch with the CPU. A machine that was measured itself
has no vanilla: <b>none</b> is Ferry's kernel without an engine, which batches page tables.
"Residual" is how much the measured ratio exceeds the published one; where it says "fitted", the engine's
parameters were chosen to make it small, everywhere else it tests them.
Every byte that was moved was verified.</p>
@BODY@
</body></html>
"""


def _section(result: Json, picture: bytes) -> str:
    shown = columns(result)
    head = "".join(f"<th>{html.escape(name)}</th>" for name, _ in shown)
    rows, before = [], None
    for cell in result["cells"]:
        kind = f"{cell['engine']}{'' if cell['folio_kib'] == before else ' first'}"
        before = cell["folio_kib"]
        data = "".join(f"<td>{html.escape(show(cell))}</td>" for _, show in shown)
        rows.append(f'<tr class="{kind}">{data}</tr>')
    source = result["source"]
    link = f'<a href="{html.escape(source["link"])}">{html.escape(source["title"])}</a>'
    image = base64.b64encode(picture).decode()
    return (
        f"<h2>{html.escape(title(result))}</h2>\n"
        f"<p>Published: {link}, {html.escape(source['author'])}; {html.escape(source['machine'])}.</p>\n"
        f"<p>{_clock(result)} {html.escape(result['note'])}</p>\n"
        f'<img alt="plot of {result["table"]}" src="data:image/png;base64,{image}">\n'
        f"<table><tr>{head}</tr>\n" + "\n".join(rows) + "</table>\n" + _facts(result)
    )


def _clock(result: Json) -> str:
    if result["provenance"]["time"] == "virtual":
        return "Virtual time: every run gives these figures."
    return "Wall time: it differs from run to run."


def _facts(result: Json) -> str:
    """What a reader needs to measure it again."""
    flags = [("--quick", result["quick"]), ("--here", _here(result))]
    if not _here(result) and result["profile"] != "zen3":
        flags.append((f"--profile {result['profile']}", True))
    known = dict(result["provenance"])
    kernels = {
        f"kernel, {name}": f"{each['release']}, config {each['config']}, {each['compiler']}"
        for name, each in known.pop("kernels").items()
    }
    command = " ".join(["./ferry table", result["table"], *(flag for flag, given in flags if given)])
    facts = {
        "command": command,
        **kernels,
        **known,
        **residuals(result),
        "not measured": "; ".join(result["missing"]) or "nothing",
    }
    items = "".join(
        f"<dt>{html.escape(key)}</dt><dd>{html.escape(str(value))}</dd>" for key, value in facts.items()
    )
    return f"<dl>{items}</dl>"
