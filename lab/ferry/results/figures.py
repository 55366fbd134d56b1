# SPDX-License-Identifier: GPL-2.0
"""The figures of README and docs, written from kept results between two comments, never by hand.

A page says <!-- figures: NAME --> before such a block and <!-- end of figures --> after it; single figures
within sentences are inline's.
"""

import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path

from ferry import paths
from ferry.errors import FerryError
from ferry.results import blocks, inline, present
from ferry.results.blocks import Block, Results
from ferry.results.compare import Json
from ferry.results.present import Show, number
from ferry.tables import experiments

FOLDER = paths.ROOT / "docs/results"
PAGES = (paths.ROOT / "README.md", *sorted((paths.ROOT / "docs").glob("*.md")))
# Each result that is kept, and the command that measures it into out/.
NO_ENGINE = "bench --machine icount --folio 4K,16K,64K,256K,1M,2M --engine vanilla,none,cpu --runs 1"
PROFILE = "profile --folio 4K,16K,64K,1M --engine vanilla,none,dcbm"
SERVERS = ("zen3-likely", "xeon-ioat", "xeon-dsa")
FITTED = "zen3-likely-6.12"
# Results of another base are in a folder of their own: these are written beside those that are kept.
LTS = "./ferry --base 6.12 table v5-throughput"
COMMANDS = {
    "demo": "./ferry demo",
    "cost": "./ferry cost --json out/cost.json",
    "no-engine": f"./ferry {NO_ENGINE} --json out/no-engine.json",
    "profile": f"./ferry {PROFILE} --json out/profile.json",
    "redis": "./ferry redis",
    "tier": "./ferry tier",
    blocks.IOMMU: f"./ferry --base 7.3 iommu --no-smp --json out/{blocks.IOMMU}.json",
    "torture": "./ferry torture --one-boot --minutes 0.4 --json out/torture.json",
    **{f"table-{name}": f"./ferry table {name}" for name in experiments.TABLES},
    **{f"table-v5-throughput-{name}": f"./ferry table v5-throughput --profile {name}" for name in SERVERS},
    # By these the engines of zen3 and zen3-likely were fitted.
    "table-v5-throughput-6.12": f"{LTS} --json out/table-v5-throughput-6.12.json",
    f"table-v5-throughput-{FITTED}": (
        f"{LTS} --profile {SERVERS[0]} --json out/table-v5-throughput-{FITTED}.json"
    ),
    **{f"table-sensitivity-{name}": f"./ferry table sensitivity --profile {name}" for name in SERVERS[1:]},
}
_BLOCK = re.compile(r"(<!-- figures: ([a-z0-9-]+) -->\n).*?(\n?<!-- end of figures -->)", re.S)
MOST_CHANNELS = blocks.MOST_CHANNELS
MOST_IOAT = 8  # of a socket's I/OAT
LARGEST_KIB = 2048  # KiB, its largest folios


class Kept(dict[str, Json]):
    """Results by their names, each read from its file when it is first asked for."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder

    def __missing__(self, name: str) -> Json:
        """Raises FerryError that says how to measure it."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            raise FerryError(f"{path} is not there: run '{COMMANDS[name]}', then './ferry report --keep'")
        self[name] = json.loads(path.read_text())
        return self[name]


def results(folder: Path) -> list[Path]:
    """The files in a folder that are one of these; a published table may be of another machine, too."""
    names = [f"{name}*" if name.startswith("table-") else name for name in COMMANDS]
    return [*dict.fromkeys(path for name in names for path in sorted(folder.glob(f"{name}.json")))]


def fill(text: str, kept: Results) -> str:
    """A page with all its blocks and figures written anew. Raises FerryError for one that nobody knows."""

    def block(match: re.Match[str]) -> str:
        if match[2] not in BLOCKS:
            raise FerryError(f"no figures '{match[2]}': there are {', '.join(BLOCKS)}")
        return match[1] + BLOCKS[match[2]](kept) + "\n" + match[3].lstrip("\n")

    return inline.fill(_BLOCK.sub(block, text), kept)


def part(text: str, number: int) -> tuple[str, int]:
    """The block that a line of a page is in, and its number there; a line that is in none is the part."""
    for block in _BLOCK.finditer(text):
        before, lines = (len(some.splitlines()) for some in (text[: block.start()], block[0]))
        if before < number <= before + lines:
            return block[0], number - before
    return text.splitlines(keepends=True)[number - 1], 1


# --- v5-throughput ---


# The server that was posted, where the engine costs the CPU nothing, and those where it costs what is likely.
FREE, LIKELY, IOAT, DSA = (f"table-v5-throughput{server}" for server in ("", *(f"-{s}" for s in SERVERS)))


def _throughput(kept: Results, name: str = FREE) -> dict[tuple[str, int], dict[int, Json]]:
    """Cells by engine and number of channels, which is 0 where there are none, and then by folio size."""
    cells: dict[tuple[str, int], dict[int, Json]] = {}
    for cell in present.on_usual_kernels(kept[name]["cells"]):
        cells.setdefault((cell["engine"], cell.get("channels", 0)), {})[cell["folio_kib"]] = cell
    return cells


def _defaults(kept: Results) -> str:
    cells = _throughput(kept)
    shown = [cells[key] for key in (("vanilla", 0), ("ferry", 1), ("ferry", MOST_CHANNELS))]
    columns = {
        "folios": present.folio,
        "engine": lambda cell: _channel_count(cell["channels"]) if "channels" in cell else "vanilla",
        **{
            "ratio": blocks.ratio,
            "first folio, us": blocks.first,
            "inaccessible, median / 99th, us": blocks.away,
        },
    }
    lines = blocks.lines([by_folio[kib] for kib in shown[0] for by_folio in shown], columns)
    return f"{blocks.origin(kept['table-v5-throughput'])}:\n\n{lines}"


def _likely(kept: Results, name: str, count: int) -> str:
    cells = _throughput(kept, name)
    ways = {"vanilla": ("vanilla", 0), "earlier design": ("dma", count), "Ferry": ("ferry", count)}
    head = ["folios", "Ferry, 1 channel", f"Ferry, {count}", f"earlier design, {count}"]
    head += [f"{way}, inaccessible, median / 99th, us" for way in ways]
    shown = ("ferry", 1), ways["Ferry"], ways["earlier design"]
    rows = [
        [present.size(kib), *(blocks.ratio(cells[key][kib]) for key in shown)]
        + [blocks.away(cells[key][kib]) for key in ways.values()]
        for kib in cells["vanilla", 0]
    ]
    return f"{blocks.origin(kept[name])}, ratio to vanilla:\n\n{blocks.table(head, rows)}"


def _channel_count(count: int) -> str:
    return f"{count} channel{'s' * (count != 1)}"


def _fit(kept: Results) -> str:
    """How well the model says what was posted: all that was, with what took part in the fit marked."""
    result = kept[f"table-v5-throughput-{FITTED}"]
    cells = {(cell["folio_kib"], cell["channels"]): cell for cell in result["cells"] if "kernel" in cell}
    sizes, channels = (sorted({key[i] for key in cells}) for i in (0, 1))

    def shown(cell: Json) -> str:
        star = "*" * cell.get("fitted", False)
        off = present.residual(cell).removesuffix(" fitted")
        return f"{blocks.ratio(cell)}{star} ({number('published_ratio', '.2f')(cell)}), {off}"

    rows = [[present.size(kib), *(shown(cells[kib, count]) for count in channels)] for kib in sizes]
    misfits = present.residuals(result["cells"])
    told = " ".join(f"{kind.capitalize()}: {words}." for kind, words in misfits.items())
    head = _by_channels("ratio to vanilla, emulated (posted), residual", channels)
    return f"{blocks.origin(result)}; * fitted. {told}\n\n{blocks.table(head, rows)}"


def _by_channels(first: str, channels: Sequence[int]) -> list[str]:
    return [first, _channel_count(channels[0]), *map(str, channels[1:])]


def _ferry(kept: Results) -> str:
    cells = _throughput(kept)
    channels = sorted({count for _, count in cells if count})
    columns = [*(cells["ferry", count] for count in channels), cells["cpu", 0]]
    rows = [[present.size(kib), *(blocks.ratio(column[kib]) for column in columns)] for kib in columns[-1]]
    head = [*_by_channels("Ferry, emulated, ratio to vanilla", channels), "the CPU copies"]
    return blocks.table(head, rows)


# --- v5-batch and userspace ---


def _batches(kept: Results) -> str:
    cells = [
        cell
        for cell in kept["table-v5-batch"]["cells"]
        if cell["folio_kib"] == LARGEST_KIB and cell.get("channels") == MOST_CHANNELS
    ]
    batch = number("batch_pages", ",", " pages")
    columns: dict[str, Show] = {
        "2M folios, 16 channels": lambda cell: f"batches of {batch(cell)}" if batch(cell) else "Ferry",
        **{"ratio": blocks.ratio, "posted": number("published_ratio", ".2f")},
        **{"first folio usable, us": blocks.first, "inaccessible, median / 99th, us": blocks.away},
    }
    return blocks.lines(cells, columns)


def _userspace(kept: Results) -> str:
    result = kept["table-userspace"]
    rows = [
        [f"{count:,}", *(blocks.ratio(engines[engine]) for engine in ("dma", "cpu", "ferry"))]
        for count, engines in blocks.by_engine(result["cells"], "folios").items()
    ]
    head = ("pages in one call", "earlier design, 1 channel", "cpu", "Ferry, 1 channel")
    return f"{blocks.origin(result)}:\n\n{blocks.table(head, rows)}"


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


def _sensitive(kept: Results, name: str = "table-sensitivity") -> dict[Value, dict[int, dict[str, Json]]]:
    """Cells by what is varied, folio and engine; the profile's come first. Of the earlier design's batches
    the best."""
    groups: dict[Value, dict[int, dict[str, Json]]] = {PLAIN: {}}
    for cell in kept[name]["cells"]:
        if cell["engine"] in ("dma", "ferry"):
            varied = (cell["parameter"], cell["value"]) if "parameter" in cell else PLAIN
            of_folio = groups.setdefault(varied, {}).setdefault(cell["folio_kib"], {})
            best = of_folio.setdefault(cell["engine"], cell)
            if cell["ratio"] > best["ratio"]:
                of_folio[cell["engine"]] = cell
    return groups


def _sensitivity(kept: Results) -> str:
    result, groups = kept["table-sensitivity"], _sensitive(kept)
    rows, before = [], ""
    for (name, value), by_folio in groups.items():
        title = "the profile" if not name else VARIED[name] if name != before else ""
        if title and name == "descriptor_ns":
            title += f" (profile: {result['provenance'][name]:,})"
        shown = f"{value:,}" if isinstance(value, int) else value
        before = name
        pairs = [(cells["dma"]["ratio"], cells["ferry"]["ratio"]) for cells in by_folio.values()]
        ratios = (f"{dma:.2f} / {ferry:.2f}" for dma, ferry in pairs)
        rows.append([title, shown, *ratios, blocks.away(by_folio[LARGEST_KIB]["ferry"])])
    last = f"{present.size(LARGEST_KIB)} inaccessible, median / 99th, us: Ferry"
    head = ["what", "value", *map(present.size, groups[PLAIN]), last]
    return f"{blocks.origin(result)}, earlier design / Ferry:\n\n{blocks.table(head, rows)}"


# What the evidence says of it: the dearest of each parameter, and of all.
SHOWN: tuple[tuple[str, Value], ...] = (
    ("as the profile has it", PLAIN),
    ("a descriptor costs 20,000 ns", ("descriptor_ns", 20000)),
    ("an access to a register costs 3,000 ns", ("register_ns", 3000)),
    ("an interrupt costs 30,000 ns", ("interrupt_ns", 30000)),
    ("what is smaller than 2 MiB is copied at a third of the rate", ("small_percent", 33)),
    ("behind an IOMMU, strict", ("iommu", "strict")),
)


# What nobody has said of I/OAT; a cost is 4.4 times as high as on the server that it is meant for.
SHOWN_OF_IOAT: tuple[tuple[str, Value], ...] = (
    ("the profile", PLAIN),
    ("a descriptor takes 1 us", ("descriptor_ns", 4400)),
    ("a descriptor takes 3 us", ("descriptor_ns", 13200)),
    ("a read of a register costs 1.8 us", ("register_ns", 7920)),
    ("an interrupt costs 6.8 us", ("interrupt_ns", 30000)),
    ("the IOMMU is strict", ("iommu", "strict")),
    ("a channel has 5.9 GB/s", (AT_ONCE, "channel_mb_s=1329 path_mb_s=1329 total_mb_s=10632")),
    ("the socket has 15.6 GB/s", ("total_mb_s", 3544)),
    ("the socket has 7.8 GB/s", ("total_mb_s", 1772)),
)


def _range(kept: Results) -> str:
    groups = _sensitive(kept)
    all_of_them = [varied for varied in groups if varied[0] == AT_ONCE][-1]
    last = "all of these, and an invalidation costs 2,200 ns", all_of_them
    return _varied("times as fast as an unchanged kernel", groups, (*SHOWN, last))


def _range_of_ioat(kept: Results) -> str:
    name = f"table-sensitivity-{SERVERS[1]}"
    groups = _sensitive(kept, name)
    all_of_them = [varied for varied in groups if varied[0] == AT_ONCE][-1]
    last = "3 us, 15.6 GB/s, registers and interrupts dear, strict", all_of_them
    told = "times as fast as an unchanged kernel, in brackets the earlier design at the better of two batches"
    table = _varied(f"{MOST_IOAT} channels", groups, (*SHOWN_OF_IOAT, last))
    return f"{blocks.origin(kept[name])}, {told}:\n\n{table}"


def _varied(
    first: str, groups: dict[Value, dict[int, dict[str, Json]]], shown: Sequence[tuple[str, Value]]
) -> str:
    """A table with a line for each thing that is varied: Ferry's ratios, and those of the earlier design."""
    rows = []
    for title, varied in shown:
        pairs = [(cells["ferry"]["ratio"], cells["dma"]["ratio"]) for cells in groups[varied].values()]
        rows.append([title, *(f"{ferry:.1f} ({dma:.1f})" for ferry, dma in pairs)])
    return blocks.table([first, *map(blocks.folio, groups[PLAIN])], rows)


def _lowest_ratios(kept: Results) -> dict[int, float]:
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


def _headline(kept: Results) -> str:
    """What one has, and what one gets; and whether folios are inaccessible for a shorter time."""
    runs: dict[str, dict[int, float]] = {
        engine: {row["folio_kib"]: row["ratio"] for row in kept[name]["runs"] if row["engine"] == engine}
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
    head = ("what you have", *map(blocks.folio, HEADLINE), "evidence")
    return (
        f"Times as fast as on unchanged Linux, by size of folio:\n\n{blocks.table(head, rows)}\n\n"
        f"In {_in_how_many(_throughput(kept, LIKELY))} with PTDMA on the likely server, folios are "
        "inaccessible for a shorter time than on unchanged Linux, at the median and at the 99th percentile. "
        "[Which hardware works](docs/hardware.md)."
    )


BLOCKS: dict[str, Block] = {
    "headline": _headline,
    "likely": functools.partial(_likely, name=LIKELY, count=MOST_CHANNELS),
    "ioat": functools.partial(_likely, name=IOAT, count=MOST_IOAT),
    "dsa": functools.partial(_likely, name=DSA, count=MOST_CHANNELS),
    **blocks.BLOCKS,
    "throughput-defaults": _defaults,
    "throughput-fit": _fit,
    "throughput-ferry": _ferry,
    "batches": _batches,
    "userspace": _userspace,
    "sensitivity": _sensitivity,
    "range": _range,
    "range-ioat": _range_of_ioat,
}
