# SPDX-License-Identifier: GPL-2.0
"""A picture of a result: ratio to vanilla, and how long pages were out of reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ferry import report
from ferry.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(rows: Sequence[Row], path: Path, title: str) -> None:
    """Write a PNG with two groups of bars per folio size, a bar per engine."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    _bars(left, rows, lambda row: row.ratio)
    left.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
    left.set_ylabel("throughput, vanilla = 1")
    _bars(right, rows, lambda row: row.inaccessible_us["p50"])
    right.set_ylabel("inaccessible time, median [us]")
    figure.suptitle(title)
    bars, names = left.get_legend_handles_labels()
    figure.legend(bars, names, loc="outside lower center", ncols=len(names), frameon=False)
    scratch = path.with_name(f"{path.name}.new")
    figure.savefig(scratch, format="png", dpi=120)
    pyplot.close(figure)
    scratch.replace(path)


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
