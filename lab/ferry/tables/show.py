# SPDX-License-Identifier: GPL-2.0
"""How a table's cells are shown, and the table on the terminal. All of it comes from the result's JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferry import paths
from ferry.results import report
from ferry.tables import experiments

if TYPE_CHECKING:
    from rich.table import Table

Json = dict[str, Any]

# Heading and how a cell shows it.
COLUMNS: tuple[tuple[str, Callable[[Json], str]], ...] = (
    ("folio", lambda cell: report.size(cell["folio_kib"])),
    ("caller", lambda cell: cell.get("caller", "")),
    ("engine", lambda cell: engine(cell)),
    ("varied", lambda cell: varied(cell)),
    ("writes a second", lambda cell: f"{cell['write_rate']:,}" if "write_rate" in cell else ""),
    ("batch, pages", lambda cell: f"{cell['batch_pages']:,}" if "batch_pages" in cell else ""),
    ("folios", lambda cell: f"{cell['folios']:,}"),
    ("GB/s", lambda cell: f"{cell['gbps']:.3f}"),
    ("ratio", lambda cell: _ratio(cell.get("ratio"))),
    ("of all starts", lambda cell: _range(cell.get("ratio_range"))),
    ("published", lambda cell: _posted(cell)),
    ("residual", lambda cell: residual(cell)),
    ("migrate_pages, cycles/page", lambda cell: _us(cell.get("migrate_cycles_per_page"))),
    ("copies, cycles/page", lambda cell: _us(cell.get("copy_cycles_per_page"))),
    ("share", lambda cell: _percent(cell.get("copy_share"))),
    ("published", lambda cell: _percent(cell.get("published_copy_share"))),
    ("first folio us", lambda cell: _us(cell.get("first_folio_us"))),
    ("published", lambda cell: _us(cell.get("published_first_folio_us"))),
    ("inaccessible us p50 / p99 / max", lambda cell: _away(cell.get("inaccessible_us"))),
    ("writes made", lambda cell: f"{cell['writes']:,}" if "writes" in cell else ""),
    ("writers' waits us p50 / p99 / max", lambda cell: _waits(cell.get("write_wait_us"))),
    (
        "read a page, cycles: uncached / cached / moved",
        lambda cell: _access(cell.get("access_cycles_per_page")),
    ),
    ("published", lambda cell: _access(cell.get("published_access_cycles_per_page"))),
)

ACCESSES = ("uncached", "cached", "post_move")
# What the others are compared with: an unchanged kernel, or with --here Ferry's without an engine.
BASES = ("vanilla", "none")


def engine(cell: Json) -> str:
    """An engine as the tables name it."""
    many = cell.get("channels") or cell.get("threads")
    settings = "".join(f", {name}={value}" for name, value in cell.get("settings", {}).items())
    return f"{cell['engine']}{f' x{many}' if many else ''}{settings}"


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


def _range(ends: list[float] | None) -> str:
    return "" if ends is None else f"{ends[0]:.2f} - {ends[1]:.2f}"


def _posted(cell: Json) -> str:
    deviation = f" ± {cell['published_ratio_sd']:.2f}" if "published_ratio_sd" in cell else ""
    return _ratio(cell.get("published_ratio")) + deviation


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value * 100:.0f} %"


def _away(value: dict[str, float] | None) -> str:
    return " / ".join(_us(value[key]) for key in ("p50", "p99", "max")) if value else ""


def _waits(value: dict[str, float] | None) -> str:
    return " / ".join(f"{value[key]:,.1f}" for key in ("p50", "p99", "max")) if value else ""


def _access(value: dict[str, float] | None) -> str:
    return " / ".join(_us(value.get(key)) or "-" for key in ACCESSES) if value else ""


def columns(result: Json) -> list[tuple[str, Callable[[Json], str]]]:
    """The columns that say something about at least one cell."""
    return [column for column in COLUMNS if any(column[1](cell) for cell in result["cells"])]


def title(result: Json) -> str:
    """What, and on what."""
    known = result["provenance"]
    where = known["machine"] if is_here(result) else f"emulated {result['profile']}"
    part = ", a part of it" if result["quick"] else ""
    return f"{result['table']}: {result['title']} ({where}, {_cpus(known)}{part})"


def _cpus(known: Json) -> str:
    return f"{known['cpus']} CPU{'s' * (known['cpus'] != 1)}"


def place(result: Json) -> Path:
    """The file of a result: another machine's, or a part of the cells, never replaces the table itself."""
    profile = "" if result["profile"] == experiments.get(result["table"]).profile else f"-{result['profile']}"
    return paths.OUT / f"table-{result['table']}{profile}{'-quick' if result['quick'] else ''}.json"


def is_here(result: Json) -> bool:
    """Whether a machine itself was measured, not an emulated one."""
    return bool(result["profile"] == experiments.HERE)


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
