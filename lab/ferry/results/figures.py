# SPDX-License-Identifier: GPL-2.0
"""The figures of README and docs, written from kept results between two comments, never by hand.

A page says <!-- figures: NAME --> before such a block and <!-- end of figures --> after it; single figures
within sentences are inline's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferry import paths
from ferry.errors import FerryError
from ferry.results import inline, report

Json = dict[str, Any]

FOLDER = paths.ROOT / "docs/results"
PAGES = (paths.ROOT / "README.md", *sorted((paths.ROOT / "docs").glob("*.md")))
# Each result that is kept, and the command that measures it into out/.
NO_ENGINE = "bench --machine icount --folio 4K,16K,64K,256K,1M,2M --engine vanilla,none,cpu --runs 1"
PROFILE = "profile --folio 4K,16K,64K,1M --engine vanilla,none,dcbm"
TABLES = ("v5-throughput", "v5-batch", "userspace", "sensitivity")
COMMANDS = {
    "demo": "make demo",
    "cost": "./ferry cost --json out/cost.json",
    "no-engine": f"./ferry {NO_ENGINE} --json out/no-engine.json",
    "profile": f"./ferry {PROFILE} --json out/profile.json",
    "redis": "./ferry redis",
    **{f"table-{name}": f"./ferry table {name}" for name in TABLES},
}
_BLOCK = re.compile(r"(<!-- figures: ([a-z0-9-]+) -->\n).*?(\n?<!-- end of figures -->)", re.S)
MOST = 16  # channels of the emulated server


@dataclass(frozen=True)
class Kept:
    """The results of a folder."""

    folder: Path = FOLDER

    def load(self, name: str) -> Json:
        """A result by its name; raises FerryError that says how to measure it."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            raise FerryError(f"{path} is not there: run '{COMMANDS[name]}', then './ferry report --keep'")
        found: Json = json.loads(path.read_text())
        return found


def fill(text: str, kept: Kept) -> str:
    """A page with all its blocks and figures written anew. Raises FerryError for one that nobody knows."""

    def block(found: re.Match[str]) -> str:
        if found[2] not in BLOCKS:
            raise FerryError(f"no figures '{found[2]}': there are {', '.join(BLOCKS)}")
        return found[1] + BLOCKS[found[2]](kept) + "\n" + found[3].lstrip("\n")

    return inline.fill(_BLOCK.sub(block, text), kept.load)


# --- how figures are written ---


def _folio(kib: int) -> str:
    return f"{kib // 1024} MiB" if kib % 1024 == 0 else f"{kib} KiB"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _away(cell: Json) -> str:
    away = cell["inaccessible_us"]
    return f"{away['p50']:,.0f} / {away['p99']:,.0f}"


def _origin(result: Json) -> str:
    """When and of what: for the sentence beside a table."""
    known = result["provenance"]
    return f"{known['date'][:10]}, commit {known['commit']}"


def _release(result: Json) -> str:
    releases = (each["release"].partition("-")[0] for each in result["provenance"]["kernels"].values())
    return ", ".join(dict.fromkeys(releases))


# --- v5-throughput ---


def _throughput(kept: Kept, engine: str, channels: int | None = None) -> dict[int, Json]:
    """Cells of an engine by folio size, and of so many channels."""
    cells = kept.load("table-v5-throughput")["cells"]
    return {
        cell["folio_kib"]: cell
        for cell in cells
        if cell["engine"] == engine and (channels is None or cell.get("channels") == channels)
    }


def _is_later(cell: Json, vanilla: Json) -> bool:
    """Whether folios are inaccessible for longer."""
    return any(cell["inaccessible_us"][key] > vanilla["inaccessible_us"][key] for key in ("p50", "p99"))


def _defaults(kept: Kept) -> str:
    vanilla = _throughput(kept, "vanilla")
    few, many = _throughput(kept, "ferry", 1), _throughput(kept, "ferry", MOST)
    rows = [
        [report.size(kib), name, f"{cell['ratio']:.2f}", f"{cell['first_folio_us']:,.0f}", _away(cell)]
        for kib in vanilla
        for name, cell in (("vanilla", vanilla[kib]), ("1 channel", few[kib]), ("16 channels", many[kib]))
    ]
    head = ("folios", "engine", "ratio", "first folio, us", "inaccessible, median / 99th, us")
    return f"{_origin(kept.load('table-v5-throughput'))}:\n\n{_table(head, rows)}"


def _channels(kept: Kept) -> list[int]:
    cells = kept.load("table-v5-throughput")["cells"]
    return sorted({cell["channels"] for cell in cells if "channels" in cell})


def _fit(kept: Kept) -> str:
    channels = _channels(kept)
    dma = [_throughput(kept, "dma", each)[2048] for each in channels]
    ferry = [_throughput(kept, "ferry", each)[2048] for each in channels]
    rows = [
        ["posted", *(f"{cell['published_ratio']:.2f}" for cell in dma)],
        ["the same, emulated", *(f"{cell['ratio']:.2f}" for cell in dma)],
        ["residual", *(f"{(cell['ratio'] / cell['published_ratio'] - 1) * 100:+.0f} %" for cell in dma)],
        ["Ferry, emulated", *(f"{cell['ratio']:.2f}" for cell in ferry)],
    ]
    return _table(_by_channels("2M folios, ratio to vanilla", channels), rows)


def _by_channels(first: str, channels: Sequence[int]) -> list[str]:
    return [first, f"{channels[0]} channel", *map(str, channels[1:])]


def _ferry(kept: Kept) -> str:
    channels = _channels(kept)
    cpu = _throughput(kept, "cpu")
    rows = [
        [
            report.size(kib),
            *(f"{_throughput(kept, 'ferry', each)[kib]['ratio']:.2f}" for each in channels),
            f"{cell['ratio']:.2f}",
        ]
        for kib, cell in cpu.items()
    ]
    head = [*_by_channels("Ferry, emulated, ratio to vanilla", channels), "the CPU copies"]
    return _table(head, rows)


# --- v5-batch and userspace ---


def _batches(kept: Kept) -> str:
    cells = [
        cell
        for cell in kept.load("table-v5-batch")["cells"]
        if cell["folio_kib"] == 2048 and cell.get("channels") == MOST
    ]
    head = (
        "2M folios, 16 channels",
        "ratio",
        "posted",
        "first folio usable, us",
        "inaccessible, median / 99th, us",
    )
    rows = [
        [
            f"batches of {cell['batch_pages']:,} pages" if "batch_pages" in cell else "Ferry",
            f"{cell['ratio']:.2f}",
            f"{cell['published_ratio']:.2f}" if "published_ratio" in cell else "",
            f"{cell['first_folio_us']:,.0f}",
            _away(cell),
        ]
        for cell in cells
    ]
    return _table(head, rows)


def _userspace(kept: Kept) -> str:
    result = kept.load("table-userspace")
    by_count: dict[int, dict[str, float]] = {}
    for cell in result["cells"]:
        by_count.setdefault(cell["folios"], {})[cell["engine"]] = cell["ratio"]
    rows = [
        [f"{count:,}", *(f"{ratios[engine]:.2f}" for engine in ("dma", "cpu", "ferry"))]
        for count, ratios in by_count.items()
    ]
    head = ("pages in one call", "earlier design, 1 channel", "cpu", "Ferry, 1 channel")
    return f"{_origin(result)}:\n\n{_table(head, rows)}"


# --- sensitivity ---

# How each parameter is named, and what the profile has if not nothing.
VARIED = {
    "descriptor_ns": "a descriptor, ns",
    "register_ns": "each access to a register, ns",
    "interrupt_ns": "each interrupt, ns",
    "small_percent": "copies below 2 MiB, % of the rate",
    "iommu": "IOMMU",
}
Value = tuple[str, int | str]
PLAIN: Value = ("", "")
LARGE = 2048  # KiB, of the folios that are measured so


def _sensitive(kept: Kept) -> dict[Value, dict[int, dict[str, Json]]]:
    """Cells by what is varied, folio and engine; the profile's come first."""
    found: dict[Value, dict[int, dict[str, Json]]] = {PLAIN: {}}
    for cell in kept.load("table-sensitivity")["cells"]:
        if cell["engine"] in ("dma", "ferry"):
            varied = (cell["parameter"], cell["value"]) if "parameter" in cell else PLAIN
            found.setdefault(varied, {}).setdefault(cell["folio_kib"], {})[cell["engine"]] = cell
    return found


def _sensitivity(kept: Kept) -> str:
    result, found = kept.load("table-sensitivity"), _sensitive(kept)
    rows, before = [], ""
    for (name, value), by_folio in found.items():
        title = "the profile" if not name else VARIED[name] if name != before else ""
        if title and name == "descriptor_ns":
            title += f" (profile: {result['provenance'][name]:,})"
        shown = f"{value:,}" if isinstance(value, int) else value
        before = name
        pairs = [[each[name]["ratio"] for name in ("dma", "ferry")] for each in by_folio.values()]
        rows.append(
            [
                *(title, shown),
                *(f"{dma:.2f} / {ferry:.2f}" for dma, ferry in pairs),
                _away(by_folio[LARGE]["ferry"]),
            ]
        )
    head = [
        *("what", "value", *map(report.size, found[PLAIN])),
        f"{report.size(LARGE)} inaccessible, median / 99th, us: Ferry",
    ]
    said = f"{_origin(result)}, earlier design / Ferry:"
    return f"{said}\n\n{_table(head, rows)}"


# What README says of it: some prices of each parameter, the dearest among them.
SHOWN: tuple[tuple[str, Value], ...] = (
    ("as the profile has it", PLAIN),
    ("a descriptor costs 20,000 ns", ("descriptor_ns", 20000)),
    ("an access to a register costs 1,000 ns", ("register_ns", 1000)),
    ("an access to a register costs 3,000 ns", ("register_ns", 3000)),
    ("an interrupt costs 10,000 ns", ("interrupt_ns", 10000)),
    ("an interrupt costs 30,000 ns", ("interrupt_ns", 30000)),
    ("what is smaller than 2 MiB is copied at a third of the rate", ("small_percent", 33)),
    ("behind an IOMMU, strict", ("iommu", "strict")),
)


def _range(kept: Kept) -> str:
    found = _sensitive(kept)
    head = ["times as fast as an unchanged kernel", *map(_folio, found[PLAIN])]
    rows = [
        [
            title,
            *(
                f"{each['ferry']['ratio']:.1f} ({each['dma']['ratio']:.1f})"
                for each in found[varied].values()
            ),
        ]
        for title, varied in SHOWN
    ]
    return _table(head, rows)


def _least(kept: Kept) -> dict[int, float]:
    """The lowest ratio of all that was tried, by folio size."""
    found = _sensitive(kept)
    return {kib: min(each[kib]["ferry"]["ratio"] for each in found.values()) for kib in found[PLAIN]}


# --- README's first screen ---

HEADLINE = (4, 64, LARGE)  # KiB, the sizes of folio on README


def _headline(kept: Kept) -> str:
    """What one has, and what one gets; and whether folios are inaccessible for a shorter time."""
    least, vanilla = _least(kept), _throughput(kept, "vanilla")
    runs = {
        (row["folio_kib"], row["engine"]): row["ratio"]
        for name in ("no-engine", "demo")
        for row in kept.load(name)["runs"]
        if (name, row["engine"]) in (("no-engine", "none"), ("demo", "mtcopy"))
    }
    channels = _throughput(kept, "ferry", MOST)
    have: list[tuple[str, Callable[[int], float], str]] = [
        ("no copy engine", lambda kib: runs[kib, "none"], "instructions counted"),
        ("idle CPUs: `mtcopy`", lambda kib: runs[kib, "mtcopy"], "wall time of one run, emulated"),
        ("AMD EPYC's PTDMA: `dcbm`", lambda kib: channels[kib]["ratio"], "engine modelled"),
        (
            "the same, at the [highest cost modelled](docs/evidence.md#how-far-that-holds)",
            lambda kib: least[kib],
            "engine modelled",
        ),
    ]
    rows = [[name, *(f"{ratio(kib):.1f}" for kib in HEADLINE), origin] for name, ratio, origin in have]
    unmeasured = {
        "Intel Xeon's I/OAT: `dcbm`": "works on the modelled engine, not measured",
        "Intel DSA": "`dcbm` refuses its driver ([why](docs/hardware.md))",
    }
    rows += [[name, *("-" for _ in HEADLINE), state] for name, state in unmeasured.items()]
    head = ("what you have", *map(_folio, HEADLINE), "evidence")
    every = [cell for cell in kept.load("table-v5-throughput")["cells"] if cell["engine"] == "ferry"]
    later = [cell for cell in every if _is_later(cell, vanilla[cell["folio_kib"]])]
    where = f"In {len(every) - len(later)} of {len(every)}" if later else f"In all {len(every)}"
    return (
        f"Times as fast as on unchanged Linux, by size of folio:\n\n{_table(head, rows)}\n\n"
        f"{where} measurements with DMA channels, folios are inaccessible for a shorter time than on "
        "unchanged Linux, at the median and at the 99th percentile. "
        "[Which hardware works](docs/hardware.md)."
    )


# --- bench, demo, profile ---


def _no_engine(kept: Kept) -> str:
    result = kept.load("no-engine")
    by_folio: dict[int, dict[str, Json]] = {}
    for row in result["runs"]:
        by_folio.setdefault(row["folio_kib"], {})[row["engine"]] = row
    pages = 4096
    rows = [
        [
            _folio(kib),
            *(f"{pages / row[name]['gbps']:,.0f}" for name in ("vanilla", "none")),
            f"{row['none']['ratio']:.2f}",
            f"{row['cpu']['ratio']:.2f}",
            *(_away(row[name]) for name in ("vanilla", "none", "cpu")),
        ]
        for kib, row in by_folio.items()
    ]
    head = (
        *("folio", "instructions per page: vanilla", "Ferry, no engine", "ratio", "ratio with `cpu` active"),
        *("inaccessible, median / 99th, us: vanilla", "no engine", "`cpu` active"),
    )
    return f"{_origin(result)}, Linux {_release(result)}:\n\n{_table(head, rows)}"


def _cost(kept: Kept) -> str:
    result = kept.load("cost")
    by_cell: dict[tuple[str, int], dict[str, Json]] = {}
    for cost in result["costs"]:
        by_cell.setdefault((cost["case"], cost["folio_kib"]), {})[cost["engine"]] = cost
    rows = [
        [
            *(caller, _folio(kib), f"{engines['none']['vanilla']:,.0f}"),
            *(f"{cost['instructions']:,.0f} ({cost['percent']:+.1f} %)" for cost in engines.values()),
            f"{engines['none']['limit_percent']:+.1f} %, {engines['cpu']['limit_percent']:+.1f} %",
        ]
        for (caller, kib), engines in by_cell.items()
    ]
    head = ("caller", "folio", "vanilla", "Ferry, no engine", "`cpu` active", "limits")
    return f"{_origin(result)}, Linux {_release(result)}, instructions per folio:\n\n{_table(head, rows)}"


def _demo(kept: Kept) -> str:
    result = kept.load("demo")
    rows = [
        [
            _folio(row["folio_kib"]),
            report.engine_name(row["engine"], row["channels"]),
            f"{row['gbps']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['first_folio_us']:,.0f}",
            _away(row),
            f"{row['cpu_ns_per_page']:,.0f}",
        ]
        for row in result["runs"]
    ]
    head = (
        *("folio", "engine", "GB/s", "ratio", "first folio, us"),
        *("inaccessible, median / 99th, us", "caller's CPU, ns per page"),
    )
    rounds = result["runs"][0]["runs"]
    return (
        f"One `make demo` of {_origin(result)}, on {result['provenance']['cpus']} emulated CPUs, medians of "
        f"{rounds} boots of each kernel:\n\n{_table(head, rows)}"
    )


def _clients(kept: Kept) -> str:
    result = kept.load("redis")
    rows = [
        [
            cell["folio"],
            cell["engine"] if cell["engine"] != "dcbm" else f"dcbm x{MOST}",
            f"{cell['moved']['per_second']:,.0f}",
            f"{cell['lost_ms_per_move']:.1f}",
            f"{sum(move['us'] for move in cell['moves']) / len(cell['moves']) / 1e3:.1f}",
            *(f"{cell['moved'][key]:.2f}" for key in ("median_ms", "p99_ms", "longest_ms")),
        ]
        for cell in result["cells"]
    ]
    head = (
        *("pages", "engine", "requests/s", "lost by a move, ms", "a move, ms"),
        *("a request, median, ms", "99th", "longest"),
    )
    return f"{_origin(result)}:\n\n{_table(head, rows)}"


def _steps(kept: Kept) -> str:
    result = kept.load("profile")
    profiles = result["profiles"]
    vanilla = next(each for each in profiles if (each["folio_kib"], each["engine"]) == (4, "vanilla"))
    steps = sorted(vanilla["steps"].items(), key=lambda step: -step[1])
    parts = [f"{name} {count:,.0f}" for name, count in steps if count >= 1]
    whole = f"{vanilla['instructions']:,.0f} for a folio of 4 KiB"
    return f"{_origin(result)}, of vanilla's {whole}: {', '.join(parts)}."


def _profile(kept: Kept) -> str:
    """Instructions of each step, but for 16 KiB, for which a page has no room."""
    result = kept.load("profile")
    profiles = [each for each in result["profiles"] if each["folio_kib"] != 16]
    names = {"none": "no engine", "dcbm": f"{MOST} channels"}
    head = [
        "step",
        *(f"{_folio(each['folio_kib'])}: {names.get(each['engine'], each['engine'])}" for each in profiles),
    ]
    rows = [[step, *(f"{each['steps'][step]:,.0f}" for each in profiles)] for step in profiles[0]["steps"]]
    rows.append(["all", *(f"{each['instructions']:,.0f}" for each in profiles)])
    return f"{_origin(result)}, instructions per folio:\n\n{_table(head, rows)}"


BLOCKS: dict[str, Callable[[Kept], str]] = {
    "headline": _headline,
    "no-engine": _no_engine,
    "cost": _cost,
    "demo": _demo,
    "clients": _clients,
    "steps": _steps,
    "profile": _profile,
    "throughput-defaults": _defaults,
    "throughput-fit": _fit,
    "throughput-ferry": _ferry,
    "batches": _batches,
    "userspace": _userspace,
    "sensitivity": _sensitivity,
    "range": _range,
}
