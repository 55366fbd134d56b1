# SPDX-License-Identifier: GPL-2.0
"""How a result is shown: the tables that its JSON makes, whichever command has measured it.

There is one list of columns for all results. A table has those that say something about one of its cells.
"""

import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from ferry.bench.rows import PERCENTILES, RANGED
from ferry.bench.steps import STEPS
from ferry.progress import elapsed
from ferry.results import compare
from ferry.results.compare import Json
from ferry.results.grid import Grid
from ferry.tables import experiments

Show = Callable[[Json], str]

# What the others are compared with: an unchanged kernel, or with --here Ferry's without an engine.
BASES = ("vanilla", "none")
ACCESSES = ("uncached", "cached", "post_move")


def at(cell: Json, path: str) -> Any:
    """What a cell has at the end of a path; None if it has not."""
    value: Any = cell
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def number(path: str, form: str = ",.0f", unit: str = "", times: float = 1) -> Show:

    def shown(cell: Json) -> str:
        value = at(cell, path)
        return "" if value is None else f"{value * times:{form}}{unit}"

    return shown


def several(path: str, keys: Sequence[str], form: str = ",.0f") -> Show:
    """Figures of one object beside each other, or nothing where it has none of them."""

    def shown(cell: Json) -> str:
        values = [at(cell, f"{path}.{key}") for key in keys]
        if all(value is None for value in values):
            return ""
        return " / ".join("-" if value is None else f"{value:{form}}" for value in values)

    return shown


def words(path: str) -> Show:
    return lambda cell: str(at(cell, path) or "")


def size(kib: int) -> str:
    """A folio size as users write it."""
    if kib % (1 << 20) == 0:
        return f"{kib >> 20}G"
    return f"{kib // 1024}M" if kib % 1024 == 0 else f"{kib}K"


def folio(cell: Json) -> str:
    return size(cell["folio_kib"]) if "folio_kib" in cell else str(cell.get("folio", ""))


def set_up(cell: Json) -> Json:
    """What of an engine is other than usual: the kernel that it is on, and its settings."""
    kernel = {"kernel": cell["kernel"]} if "kernel" in cell else {}
    return {**kernel, **cell.get("settings", {})}


def on_usual_kernels(cells: Sequence[Json]) -> list[Json]:
    """The cells without those that stand beside them for another flavour of Ferry's kernel."""
    return [cell for cell in cells if "kernel" not in cell]


def engine(cell: Json) -> str:
    """An engine, of how many channels or threads if it has any, and with which settings."""
    many = cell.get("channels") or ("ratio" in cell and "call" not in cell and cell.get("threads"))
    settings = "".join(f", {name}={value}" for name, value in set_up(cell).items())
    return f"{cell.get('engine', '')}{f' x{many}' if many else ''}{settings}"


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


def residuals(cells: Sequence[Json]) -> dict[str, str]:
    """The misfits of a table, of fitted cells, of predicted ones and of vanilla's, each by itself."""
    groups: dict[str, list[float]] = {}
    for cell in cells:
        if (percent := _residual(cell)) is not None:
            kind = "fitted" if cell.get("fitted") else "predicted"
            groups.setdefault(cell["engine"] if cell["engine"] in BASES else kind, []).append(percent)
    return {
        f"residuals, {kind}": f"{len(misfits)} cells, half within "
        f"{statistics.median(map(abs, misfits)):.0f} %, from {min(misfits):+.0f} to {max(misfits):+.0f} %"
        for kind, misfits in sorted(groups.items())
    }


def _posted(cell: Json) -> str:
    deviation = f" ± {cell['published_ratio_sd']:.2f}" if "published_ratio_sd" in cell else ""
    return number("published_ratio", ".2f", "x")(cell) + deviation


def _range(least: str, most: str) -> Show:
    def shown(cell: Json) -> str:
        return f"{at(cell, least):.2f}-{at(cell, most):.2f}" if at(cell, least) is not None else ""

    return shown


_FORMS = dict(zip(RANGED, (".2f", "+.2f", ".1f", ",.0f", ".3f"), strict=True))


def _of_all_starts(cell: Json) -> str:
    """The least and the greatest figure of machines that began otherwise."""
    ends = [(form, cell.get(f"{name}_range", ())) for name, form in _FORMS.items()]
    return "".join(" - ".join(f"{end:{form}}" for end in some) for form, some in ends)


def mean_move(cell: Json) -> str:
    """How long a move took, in milliseconds."""
    moves = cell.get("moves")
    return f"{sum(move['us'] for move in moves) / len(moves) / 1e3:.1f}" if moves else ""


def _count(name: str) -> Show:
    """How many things a list has."""
    return lambda cell: str(len(cell[name])) if isinstance(cell.get(name), list | tuple) else ""


def _spread(name: str) -> Show:
    """The median of what was measured several times, and the least and the greatest."""

    def shown(cell: Json) -> str:
        each = cell.get(name)
        return f"{statistics.median(each):,.1f} ({min(each):,.1f} to {max(each):,.1f})" if each else ""

    return shown


# Headings, and how a cell shows what is below them. What is measured comes first, in words.
WORDS: tuple[tuple[str, Show], ...] = (
    ("test", words("test")),
    ("class", words("name")),
    ("step", words("step")),
    ("caller", lambda cell: str(cell.get("caller") or cell.get("case", ""))),
    ("folio", folio),
    ("engine", engine),
    ("varied", varied),
)
MOVES: tuple[tuple[str, Show], ...] = (
    ("writes a second", number("write_rate", ",")),
    ("batch, pages", number("batch_pages", ",")),
    ("folios", lambda cell: "" if "name" in cell else number("folios", ",")(cell)),
    ("GB/s", number("gbps", ".3f")),
    ("min-max", _range("gbps_min", "gbps_max")),
    ("ratio", number("ratio", ".2f", "x")),
    ("of all starts", _of_all_starts),
    ("published", _posted),
    ("residual", residual),
    ("migrate_pages, cycles/page", number("migrate_cycles_per_page")),
    ("copies, cycles/page", number("copy_cycles_per_page")),
    ("share", number("copy_share", ".0f", " %", 100)),
    ("published", number("published_copy_share", ".0f", " %", 100)),
    ("first folio us", number("first_folio_us")),
    ("published", number("published_first_folio_us")),
    ("inaccessible us p50 / p99 / max", several("inaccessible_us", PERCENTILES)),
    ("writes made", lambda cell: f"{cell['writes']:,}" if cell.get("writes") else ""),
    ("writers' waits us p50 / p99 / max", several("write_wait_us", PERCENTILES, ",.1f")),
    ("faults us p50 / p99 / max", several("fault_us", PERCENTILES, ",.1f")),
    ("CPU ns/page", number("cpu_ns_per_page")),
    ("read a page, cycles: uncached / cached / moved", several("access_cycles_per_page", ACCESSES)),
    ("published", several("published_access_cycles_per_page", ACCESSES)),
    ("verified MiB", number("verified_bytes", times=1 / (1 << 20))),
)
_more = number("limit_percent", "+.1f", " %")
COUNTS: tuple[tuple[str, Show], ...] = (
    ("instructions", number("instructions")),
    ("on vanilla", number("vanilla")),
    ("difference", number("percent", "+.2f", " %")),
    ("limit", lambda cell: _more(cell) + " exceeded" * (not cell.get("passed", True))),
    *((step, number(f"steps.{step}")) for step in STEPS),
)
PAGE_TABLES: tuple[tuple[str, Show], ...] = (
    ("left on vanilla, KiB", several("vanilla_kib", ("left",))),
    ("left, KiB", several("kib", ("left",))),
    ("peak on vanilla, KiB", several("vanilla_kib", ("peak",))),
    ("peak, KiB", several("kib", ("peak",))),
    ("on vanilla, KiB", several("vanilla_kib", ("early", "late"))),
    ("KiB", several("kib", ("early", "late"))),
    ("on vanilla, pairs/ms", _spread("vanilla_pairs_per_ms")),
    ("pairs/ms", _spread("pairs_per_ms")),
)
CLIENTS: tuple[tuple[str, Show], ...] = (
    ("requests/s", number("moved.per_second")),
    ("lost by a move, ms", number("lost_ms_per_move", ".1f")),
    ("median, ms", number("moved.median_ms", ".3f")),
    ("99th, ms", number("moved.p99_ms", ".3f")),
    ("longest, ms", number("moved.longest_ms", ".3f")),
    ("a move, ms", mean_move),
)
TIERS: tuple[tuple[str, Show], ...] = (
    ("gains", words("gain")),
    ("requests/s", lambda cell: "" if cell.get("moves") else number("per_second")(cell)),
    ("99.9th, us", number("us.p99_9", ",.1f")),
    ("longest, us", number("us.max", ",.1f")),
    ("promoted", number("promoted")),
    ("demoted", number("demoted")),
    ("CPU in moves, ms", number("move_ms", ",.1f")),
    ("kswapd's CPU, ms", number("kswapd_ms", ",.1f")),
    ("DAMON's CPU, ms", number("kdamond_ms", ",.1f")),
    ("CPU a folio moved, us", number("move_us_per_folio", ",.2f")),
    ("pages a call", number("pages_per_call", ",.1f")),
)
TESTS: tuple[tuple[str, Show], ...] = (
    ("s", number("figures.seconds")),
    ("folios moved", number("figures.moved")),
    ("by engine", number("figures.folios")),
    ("pages moved", number("figures.pages")),
    ("struck", number("figures.struck")),
    ("MiB verified", number("figures.bytes", times=1 / (1 << 20))),
    *((name, number(f"figures.{name}")) for name in ("kind", "refs", "busy", "error", "left")),
    ("KiB kept", number("figures.quarantined", times=1 / 1024)),
    ("complaints", _count("complaints")),
    ("passed", lambda cell: str(cell["passed"]) if "test" in cell else ""),
    ("failed", _count("failed")),
    ("skipped", _count("skipped")),
    ("tries", number("tries")),
    ("time", lambda cell: elapsed(cell["seconds"]) if "seconds" in cell else ""),
    ("verdict", words("verdict")),
)
COLUMNS = (*WORDS, *MOVES, *COUNTS, *PAGE_TABLES, *CLIENTS, *TIERS, *TESTS)


def columns(cells: Sequence[Json]) -> list[tuple[str, Show]]:
    """Those that say something about at least one cell."""
    return [column for column in COLUMNS if any(column[1](cell) for cell in cells)]


def grid(title: str, cells: Sequence[Json]) -> Grid:
    """Cells below each other, those that are alike in the first column together."""
    chosen = columns(cells)
    lines = [[show(cell) for _, show in chosen] for cell in cells]
    left = sum(column in WORDS for column in chosen)
    firsts = [line[0] for line in lines]
    several_alike = len(set(firsts)) < len(firsts)
    ends = [i for i, pair in enumerate(itertools.pairwise(firsts)) if several_alike and pair[0] != pair[1]]
    return Grid(title, [name for name, _ in chosen], lines, left, ends)


def grids(result: Json, name: str = "") -> list[tuple[Grid, list[Json]]]:
    """The tables of a result, each with its cells. name: its title, if it is older than titles."""
    lists = [(title(part) or name, cells) for part in compare.parts(result) for cells in compare.lists(part)]
    return [(grid(heading, cells), cells) for heading, cells in lists]


def title(result: Json) -> str:
    """What, and of a published table on what."""
    if "table" not in result:
        return str(result.get("title", ""))
    origin = result["provenance"]
    where = origin["machine"] if is_here(result) else f"emulated {result['profile']}"
    cpus = f"{origin['cpus']} CPU{'s' * (origin['cpus'] != 1)}"
    part = ", a part of it" if result["quick"] else ""
    return f"{result['table']}: {result['title']} ({where}, {cpus}{part})"


def is_here(result: Json) -> bool:
    """Whether a machine itself was measured, not an emulated one."""
    return bool(result.get("profile") == experiments.HERE)
