# SPDX-License-Identifier: GPL-2.0
"""The figures of README and docs, written from kept results between two comments, never by hand.

A page says <!-- figures: NAME --> before such a block and <!-- end of figures --> after it; single figures
within sentences are inline's.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferry import paths
from ferry.errors import FerryError
from ferry.results import inline, present
from ferry.results.compare import Json
from ferry.results.grid import Grid
from ferry.results.present import Show, number, several
from ferry.tables import experiments

FOLDER = paths.ROOT / "docs/results"
PAGES = (paths.ROOT / "README.md", *sorted((paths.ROOT / "docs").glob("*.md")))
# Each result that is kept, and the command that measures it into out/.
NO_ENGINE = "bench --machine icount --folio 4K,16K,64K,256K,1M,2M --engine vanilla,none,cpu --runs 1"
PROFILE = "profile --folio 4K,16K,64K,1M --engine vanilla,none,dcbm"
SERVERS = ("zen3-likely", "xeon-ioat", "xeon-dsa")
COMMANDS = {
    "demo": "make demo",
    "cost": "./ferry cost --json out/cost.json",
    "no-engine": f"./ferry {NO_ENGINE} --json out/no-engine.json",
    "profile": f"./ferry {PROFILE} --json out/profile.json",
    "redis": "./ferry redis",
    "tier": "./ferry tier",
    **{f"table-{name}": f"./ferry table {name}" for name in experiments.TABLES},
    **{f"table-v5-throughput-{name}": f"./ferry table v5-throughput --profile {name}" for name in SERVERS},
    **{f"table-sensitivity-{name}": f"./ferry table sensitivity --profile {name}" for name in SERVERS[1:]},
}
_BLOCK = re.compile(r"(<!-- figures: ([a-z0-9-]+) -->\n).*?(\n?<!-- end of figures -->)", re.S)
MOST_CHANNELS = 16  # channels of the emulated server
MOST_IOAT = 8  # of a socket's I/OAT
LARGEST_KIB = 2048  # KiB, its largest folios


@dataclass(frozen=True)
class Kept:
    folder: Path = FOLDER

    def load(self, name: str) -> Json:
        """A result by its name; raises FerryError that says how to measure it."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            raise FerryError(f"{path} is not there: run '{COMMANDS[name]}', then './ferry report --keep'")
        result: Json = json.loads(path.read_text())
        return result


def results(folder: Path) -> list[Path]:
    """The files in a folder that are one of these; a published table may be of another machine, too."""
    names = [f"{name}*" if name.startswith("table-") else name for name in COMMANDS]
    return [*dict.fromkeys(path for name in names for path in sorted(folder.glob(f"{name}.json")))]


def fill(text: str, kept: Kept) -> str:
    """A page with all its blocks and figures written anew. Raises FerryError for one that nobody knows."""

    def block(match: re.Match[str]) -> str:
        if match[2] not in BLOCKS:
            raise FerryError(f"no figures '{match[2]}': there are {', '.join(BLOCKS)}")
        return match[1] + BLOCKS[match[2]](kept) + "\n" + match[3].lstrip("\n")

    return inline.fill(_BLOCK.sub(block, text), kept.load)


# --- how figures are written ---


def _folio(kib: int) -> str:
    return f"{kib // 1024} MiB" if kib % 1024 == 0 else f"{kib} KiB"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return Grid("", head, rows).markdown()


_ratio = number("ratio", ".2f")
_first = number("first_folio_us")
_away = several("inaccessible_us", ("p50", "p99"))


def _lines(cells: Iterable[Json], columns: Mapping[str, Show]) -> str:
    """A table with a line for each cell."""
    return _table([*columns], [[show(cell) for show in columns.values()] for cell in cells])


def _by_engine(cells: Iterable[Json], *keys: str) -> dict[Any, dict[str, Json]]:
    """What engines have beside each other, by what else a cell has: one thing, or several."""
    groups: dict[Any, dict[str, Json]] = {}
    for cell in cells:
        values = tuple(cell[key] for key in keys)
        groups.setdefault(values if len(keys) > 1 else values[0], {})[cell["engine"]] = cell
    return groups


def _origin(result: Json) -> str:
    """When and of what: for the sentence beside a table."""
    origin = result["provenance"]
    return f"{origin['date'][:10]}, commit {origin['commit']}"


def _release(result: Json) -> str:
    releases = (kernel["release"].partition("-")[0] for kernel in result["provenance"]["kernels"].values())
    return ", ".join(dict.fromkeys(releases))


# --- v5-throughput ---


# The server that was posted, where the engine costs the CPU nothing, and those where it costs what is likely.
FREE, LIKELY, IOAT, DSA = (f"table-v5-throughput{server}" for server in ("", *(f"-{s}" for s in SERVERS)))


def _throughput(kept: Kept, name: str = FREE) -> dict[tuple[str, int], dict[int, Json]]:
    """Cells by engine and number of channels, which is 0 where there are none, and then by folio size."""
    cells: dict[tuple[str, int], dict[int, Json]] = {}
    for cell in present.on_usual_kernels(kept.load(name)["cells"]):
        cells.setdefault((cell["engine"], cell.get("channels", 0)), {})[cell["folio_kib"]] = cell
    return cells


def _defaults(kept: Kept) -> str:
    cells = _throughput(kept)
    shown = [cells[key] for key in (("vanilla", 0), ("ferry", 1), ("ferry", MOST_CHANNELS))]
    columns = {
        "folios": present.folio,
        "engine": lambda cell: _channel_count(cell["channels"]) if "channels" in cell else "vanilla",
        **{"ratio": _ratio, "first folio, us": _first, "inaccessible, median / 99th, us": _away},
    }
    lines = _lines([by_folio[kib] for kib in shown[0] for by_folio in shown], columns)
    return f"{_origin(kept.load('table-v5-throughput'))}:\n\n{lines}"


def _likely(kept: Kept, name: str, count: int) -> str:
    cells = _throughput(kept, name)
    ways = {"vanilla": ("vanilla", 0), "earlier design": ("dma", count), "Ferry": ("ferry", count)}
    head = ["folios", "Ferry, 1 channel", f"Ferry, {count}", f"earlier design, {count}"]
    head += [f"{way}, inaccessible, median / 99th, us" for way in ways]
    shown = ("ferry", 1), ways["Ferry"], ways["earlier design"]
    rows = [
        [present.size(kib), *(_ratio(cells[key][kib]) for key in shown)]
        + [_away(cells[key][kib]) for key in ways.values()]
        for kib in cells["vanilla", 0]
    ]
    return f"{_origin(kept.load(name))}, ratio to vanilla:\n\n{_table(head, rows)}"


def _channel_count(count: int) -> str:
    return f"{count} channel{'s' * (count != 1)}"


def _fit(kept: Kept) -> str:
    """How well the model says what was posted: all that was, with what took part in the fit marked."""
    result = kept.load(LIKELY)
    cells = {(cell["folio_kib"], cell["channels"]): cell for cell in result["cells"] if "kernel" in cell}
    sizes, channels = (sorted({key[i] for key in cells}) for i in (0, 1))

    def shown(cell: Json) -> str:
        star = "*" * cell.get("fitted", False)
        off = present.residual(cell).removesuffix(" fitted")
        return f"{_ratio(cell)}{star} ({number('published_ratio', '.2f')(cell)}), {off}"

    rows = [[present.size(kib), *(shown(cells[kib, count]) for count in channels)] for kib in sizes]
    misfits = present.residuals(result["cells"])
    told = " ".join(f"{kind.capitalize()}: {words}." for kind, words in misfits.items())
    head = _by_channels("ratio to vanilla, emulated (posted), residual", channels)
    return f"{_origin(result)}; * fitted. {told}\n\n{_table(head, rows)}"


def _by_channels(first: str, channels: Sequence[int]) -> list[str]:
    return [first, _channel_count(channels[0]), *map(str, channels[1:])]


def _ferry(kept: Kept) -> str:
    cells = _throughput(kept)
    channels = sorted({count for _, count in cells if count})
    columns = [*(cells["ferry", count] for count in channels), cells["cpu", 0]]
    rows = [[present.size(kib), *(_ratio(column[kib]) for column in columns)] for kib in columns[-1]]
    head = [*_by_channels("Ferry, emulated, ratio to vanilla", channels), "the CPU copies"]
    return _table(head, rows)


# --- v5-batch and userspace ---


def _batches(kept: Kept) -> str:
    cells = [
        cell
        for cell in kept.load("table-v5-batch")["cells"]
        if cell["folio_kib"] == LARGEST_KIB and cell.get("channels") == MOST_CHANNELS
    ]
    batch = number("batch_pages", ",", " pages")
    columns: dict[str, Show] = {
        "2M folios, 16 channels": lambda cell: f"batches of {batch(cell)}" if batch(cell) else "Ferry",
        **{"ratio": _ratio, "posted": number("published_ratio", ".2f")},
        **{"first folio usable, us": _first, "inaccessible, median / 99th, us": _away},
    }
    return _lines(cells, columns)


def _userspace(kept: Kept) -> str:
    result = kept.load("table-userspace")
    rows = [
        [f"{count:,}", *(_ratio(engines[engine]) for engine in ("dma", "cpu", "ferry"))]
        for count, engines in _by_engine(result["cells"], "folios").items()
    ]
    head = ("pages in one call", "earlier design, 1 channel", "cpu", "Ferry, 1 channel")
    return f"{_origin(result)}:\n\n{_table(head, rows)}"


# --- sensitivity ---

AT_ONCE = "several"
# How each parameter is named, and what the profile has if not nothing.
VARIED = {
    "descriptor_ns": "a descriptor, ns",
    "register_ns": "each access to a register, ns",
    "interrupt_ns": "each interrupt, ns",
    "small_percent": "copies below 2 MiB, % of the rate",
    "iommu": "IOMMU",
    AT_ONCE: "several at once",
}
Value = tuple[str, int | str]
PLAIN: Value = ("", "")


def _sensitive(kept: Kept) -> dict[Value, dict[int, dict[str, Json]]]:
    """Cells by what is varied, folio and engine; the profile's come first. Of the earlier design's batches
    the best."""
    groups: dict[Value, dict[int, dict[str, Json]]] = {PLAIN: {}}
    for cell in kept.load("table-sensitivity")["cells"]:
        if cell["engine"] in ("dma", "ferry"):
            varied = (cell["parameter"], cell["value"]) if "parameter" in cell else PLAIN
            of_folio = groups.setdefault(varied, {}).setdefault(cell["folio_kib"], {})
            best = of_folio.setdefault(cell["engine"], cell)
            if cell["ratio"] > best["ratio"]:
                of_folio[cell["engine"]] = cell
    return groups


def _sensitivity(kept: Kept) -> str:
    result, groups = kept.load("table-sensitivity"), _sensitive(kept)
    rows, before = [], ""
    for (name, value), by_folio in groups.items():
        title = "the profile" if not name else VARIED[name] if name != before else ""
        if title and name == "descriptor_ns":
            title += f" (profile: {result['provenance'][name]:,})"
        shown = f"{value:,}" if isinstance(value, int) else value
        before = name
        pairs = [(cells["dma"]["ratio"], cells["ferry"]["ratio"]) for cells in by_folio.values()]
        ratios = (f"{dma:.2f} / {ferry:.2f}" for dma, ferry in pairs)
        rows.append([title, shown, *ratios, _away(by_folio[LARGEST_KIB]["ferry"])])
    last = f"{present.size(LARGEST_KIB)} inaccessible, median / 99th, us: Ferry"
    head = ["what", "value", *map(present.size, groups[PLAIN]), last]
    return f"{_origin(result)}, earlier design / Ferry:\n\n{_table(head, rows)}"


# What the evidence says of it: the dearest of each parameter, and of all.
SHOWN: tuple[tuple[str, Value], ...] = (
    ("as the profile has it", PLAIN),
    ("a descriptor costs 20,000 ns", ("descriptor_ns", 20000)),
    ("an access to a register costs 3,000 ns", ("register_ns", 3000)),
    ("an interrupt costs 30,000 ns", ("interrupt_ns", 30000)),
    ("what is smaller than 2 MiB is copied at a third of the rate", ("small_percent", 33)),
    ("behind an IOMMU, strict", ("iommu", "strict")),
)


def _range(kept: Kept) -> str:
    groups = _sensitive(kept)
    head = ["times as fast as an unchanged kernel", *map(_folio, groups[PLAIN])]
    rows = []
    all_of_them = [varied for varied in groups if varied[0] == AT_ONCE][-1]
    for title, varied in (*SHOWN, ("all of these, and an invalidation costs 2,200 ns", all_of_them)):
        pairs = [(cells["ferry"]["ratio"], cells["dma"]["ratio"]) for cells in groups[varied].values()]
        rows.append([title, *(f"{ferry:.1f} ({dma:.1f})" for ferry, dma in pairs)])
    return _table(head, rows)


def _lowest_ratios(kept: Kept) -> dict[int, float]:
    """The lowest ratio of all where one thing was varied, by folio size."""
    cells = [by_folio for (name, _), by_folio in _sensitive(kept).items() if name != AT_ONCE]
    return {kib: min(by_folio[kib]["ferry"]["ratio"] for by_folio in cells) for kib in cells[0]}


# --- README's first screen ---

HEADLINE = (4, 64, LARGEST_KIB)  # KiB, the sizes of folio on README


def _in_how_many(cells: dict[tuple[str, int], dict[int, Json]]) -> str:
    """Of Ferry's measurements those whose folios are not inaccessible for longer than vanilla's."""
    vanilla = cells["vanilla", 0]
    own = [pair for (engine, _), by_folio in cells.items() if engine == "ferry" for pair in by_folio.items()]
    times = [(cell["inaccessible_us"], vanilla[kib]["inaccessible_us"]) for kib, cell in own]
    good = sum(all(ferry[key] <= linux[key] for key in ("p50", "p99")) for ferry, linux in times)
    return "every measurement" if good == len(times) else f"{good} of {len(times)} measurements"


# Where each figure comes from: the title of its row, the result, and how many channels Ferry has there.
_CHANNELS = (
    (
        "AMD EPYC's PTDMA: `dcbm`, on a [likely server](docs/evidence.md#a-likely-server)",
        LIKELY,
        MOST_CHANNELS,
    ),
    ("the same, where registers, interrupts and IOMMU cost nothing", FREE, MOST_CHANNELS),
    ("[I/OAT](docs/evidence.md#ioat) of Intel Xeon: `dcbm`, likely server", IOAT, MOST_IOAT),
    ("[DSA](docs/evidence.md#dsa) of Intel Xeon: `dcbm`, likely server", DSA, MOST_CHANNELS),
)


def _headline(kept: Kept) -> str:
    """What one has, and what one gets; and whether folios are inaccessible for a shorter time."""
    runs: dict[str, dict[int, float]] = {
        engine: {row["folio_kib"]: row["ratio"] for row in kept.load(name)["runs"] if row["engine"] == engine}
        for name, engine in (("no-engine", "none"), ("demo", "mtcopy"))
    }
    channels = {
        title: {kib: cell["ratio"] for kib, cell in _throughput(kept, name)["ferry", count].items()}
        for title, name, count in _CHANNELS
    }
    dearest = "PTDMA, with the [highest of one cost](docs/evidence.md#how-far-that-holds)"
    ways: list[tuple[str, dict[int, float], str]] = [
        ("no copy engine", runs["none"], "instructions counted"),
        ("idle CPUs: `mtcopy`", runs["mtcopy"], "wall time of one run, emulated"),
        *((title, ratios, "engine modelled") for title, ratios in channels.items()),
    ]
    ways.insert(-2, (dearest, _lowest_ratios(kept), "engine modelled"))
    rows = [[name, *(f"{ratios[kib]:.1f}" for kib in HEADLINE), origin] for name, ratios, origin in ways]
    head = ("what you have", *map(_folio, HEADLINE), "evidence")
    return (
        f"Times as fast as on unchanged Linux, by size of folio:\n\n{_table(head, rows)}\n\n"
        f"In {_in_how_many(_throughput(kept, LIKELY))} with PTDMA on the likely server, folios are "
        "inaccessible for a shorter time than on unchanged Linux, at the median and at the 99th percentile. "
        "[Which hardware works](docs/hardware.md)."
    )


# --- bench, demo, profile ---


def _no_engine(kept: Kept) -> str:
    result = kept.load("no-engine")
    rows = [
        [
            _folio(kib),
            *(f"{4096 / engines[name]['gbps']:,.0f}" for name in ("vanilla", "none")),
            *(_ratio(engines[name]) for name in ("none", "cpu")),
            *(_away(engines[name]) for name in ("vanilla", "none", "cpu")),
        ]
        for kib, engines in _by_engine(result["runs"], "folio_kib").items()
    ]
    head = (
        *("folio", "instructions per page: vanilla", "Ferry, no engine", "ratio", "ratio with `cpu` active"),
        *("inaccessible, median / 99th, us: vanilla", "no engine", "`cpu` active"),
    )
    return f"{_origin(result)}, Linux {_release(result)}:\n\n{_table(head, rows)}"


def _cost(kept: Kept) -> str:
    result = kept.load("cost")
    rows = [
        [
            *(caller, _folio(kib), f"{engines['none']['vanilla']:,.0f}"),
            *(f"{cost['instructions']:,.0f} ({cost['percent']:+.1f} %)" for cost in engines.values()),
            f"{engines['none']['limit_percent']:+.1f} %, {engines['cpu']['limit_percent']:+.1f} %",
        ]
        for (caller, kib), engines in _by_engine(result["costs"], "case", "folio_kib").items()
    ]
    head = ("caller", "folio", "vanilla", "Ferry, no engine", "`cpu` active", "limits")
    return f"{_origin(result)}, Linux {_release(result)}, instructions per folio:\n\n{_table(head, rows)}"


def _demo(kept: Kept) -> str:
    result = kept.load("demo")
    columns = {
        **{"folio": lambda row: _folio(row["folio_kib"]), "engine": present.engine},
        **{"GB/s": number("gbps", ".2f"), "ratio": _ratio, "first folio, us": _first},
        "inaccessible, median / 99th, us": _away,
        "caller's CPU, ns per page": number("cpu_ns_per_page"),
    }
    rounds = result["runs"][0]["runs"]
    return (
        f"One `make demo` of {_origin(result)}, on {result['provenance']['cpus']} emulated CPUs, medians of "
        f"{rounds} boots of each kernel:\n\n{_lines(result['runs'], columns)}"
    )


def _clients(kept: Kept) -> str:
    result = kept.load("redis")
    columns = {
        "pages": present.folio,
        "engine": lambda cell: f"dcbm x{MOST_CHANNELS}" if cell["engine"] == "dcbm" else cell["engine"],
        "requests/s": number("moved.per_second"),
        "lost by a move, ms": number("lost_ms_per_move", ".1f"),
        "a move, ms": present.mean_move,
        "a request, median, ms": number("moved.median_ms", ".2f"),
        "99th": number("moved.p99_ms", ".2f"),
        "longest": number("moved.longest_ms", ".2f"),
    }
    return f"{_origin(result)}:\n\n{_lines(result['cells'], columns)}"


def _tier(kept: Kept, application: str) -> str:
    """The cells of one application, with what it has."""
    result = kept.load("tier")
    cells = [cell for cell in result["cells"] if cell["case"].partition(",")[0] == application]
    # Not of COLUMNS, where a step of a migration is called as the engine is
    columns = dict((*present.CLIENTS, *present.TIERS, *present.WORDS)) | {
        "buffers a call": lambda cell: cell["case"].partition(", ")[2].removesuffix(" buffers a call"),
        "moved by": lambda cell: cell["case"].partition(", ")[2],
        "ratio": _ratio,
    }
    shown = {name: columns[name] for name in TIER_COLUMNS[application]}
    return f"{_origin(result)}, Linux {_release(result)}:\n\n{_lines(cells, shown)}"


# What the docs say of each application.
TIER_COLUMNS = {
    "pool": (
        *("folio", "buffers a call", "engine", "requests/s", "ratio", "gains", "99.9th, us", "longest, us"),
        *("promoted", "demoted", "CPU in moves, ms", "CPU a folio moved, us"),
    ),
    "redis": (
        *("engine", "requests/s", "gains", "99.9th, us", "longest, us", "promoted", "demoted"),
        *("kswapd's CPU, ms", "CPU a folio moved, us", "pages a call"),
    ),
    "arena": ("folio", "moved by", "engine", "a move, ms", "ratio", "gains", "99.9th, us", "longest, us"),
}


def _steps(kept: Kept) -> str:
    result = kept.load("profile")
    profiles = result["profiles"]
    vanilla = next(
        profile for profile in profiles if (profile["folio_kib"], profile["engine"]) == (4, "vanilla")
    )
    steps = sorted(vanilla["steps"].items(), key=lambda step: -step[1])
    parts = [f"{name} {count:,.0f}" for name, count in steps if count >= 1]
    whole = f"{vanilla['instructions']:,.0f} for a folio of 4 KiB"
    return f"{_origin(result)}, of vanilla's {whole}: {', '.join(parts)}."


def _profile(kept: Kept) -> str:
    """Instructions of each step, but for 16 KiB, for which a page has no room."""
    result = kept.load("profile")
    profiles = [profile for profile in result["profiles"] if profile["folio_kib"] != 16]
    names = {"none": "no engine", "dcbm": f"{MOST_CHANNELS} channels"}
    head = [
        "step",
        *(
            f"{_folio(profile['folio_kib'])}: {names.get(profile['engine'], profile['engine'])}"
            for profile in profiles
        ),
    ]
    rows = [
        [step, *(f"{profile['steps'][step]:,.0f}" for profile in profiles)] for step in profiles[0]["steps"]
    ]
    rows.append(["all", *(f"{profile['instructions']:,.0f}" for profile in profiles)])
    return f"{_origin(result)}, instructions per folio:\n\n{_table(head, rows)}"


BLOCKS: dict[str, Callable[[Kept], str]] = {
    "headline": _headline,
    "likely": functools.partial(_likely, name=LIKELY, count=MOST_CHANNELS),
    "ioat": functools.partial(_likely, name=IOAT, count=MOST_IOAT),
    "dsa": functools.partial(_likely, name=DSA, count=MOST_CHANNELS),
    "no-engine": _no_engine,
    "cost": _cost,
    "demo": _demo,
    "clients": _clients,
    **{f"tier-{name}": functools.partial(_tier, application=name) for name in TIER_COLUMNS},
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
