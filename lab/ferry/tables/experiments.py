# SPDX-License-Identifier: GPL-2.0
"""The published experiments: which cells each has, and the posted figures beside them."""

import itertools
import math
import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ferry.bench.cell import ON_CHANNELS, Cell, Measured
from ferry.bench.sizes import PAGE, parse_size
from ferry.errors import choose
from ferry.tables import callers, sensitivity

# What an emulated node has room for. 96M are 48 folios of 2M: as many for each of 1, 2, 4, 8, 12 or 16
# channels.
THROUGHPUT_BYTES = 96 << 20
BATCH_BYTES = 1 << 30
MTCOPY_BYTES = 256 << 20
CYCLES_PAGES = 262144
USERSPACE_PAGES = 131072
# Ferry's move_pages(2) goes through no more addresses at a time (kernel/src/mm/migrate_bulk/move_pages.c),
# so no batch of the earlier design on Ferry's kernel has more folios.
LIST_FOLIOS = 4096
# What was posted is of 1 GB or less (mtcopy: 2 GB), and where it is said, medians of 10 runs.
POSTED_BYTES = 1 << 30
POSTED_RUNS = 10
WALL_RUNS = 5
QUICK_RUNS = 3
# A second. Each on an even place is left out of a part.
WRITE_RATES = (0, 1000, 10000, 100000)
# A move takes a few ms: of 1,000 writes a second it sees a handful. By ten moves 10,000 a second cost 2 %
# more or less.
WRITE_RUNS = 50
# The settings of each way to move what is written to: copied while it is mapped, or unmapped first.
WRITE_WAYS: tuple[tuple[tuple[str, int], ...], ...] = ((), (("vm.migrate_copy_mapped", 0),))
# The earlier design as it was posted: a kernel without Ferry's batching, an engine that has one copy at a
# time, and descriptors of the 64 KiB that an IOMMU joins at most for a device that allows no more.
AS_POSTED: dict[str, Any] = {
    "kernel": "unbatched",
    "settings": (("ptdma.depth", 1), ("dcbm.share_bytes", 64 << 10)),
}
# The profile whose engine was fitted by it, and the cells of v5-throughput that this took (see fit.py): the
# rates are in those of 2M, what is lost in small pieces in that of 1M, a descriptor's time in that of 64K.
# All others are predicted.
FITTED_SERVER = "zen3-likely"
FITTED = (*(("2M", channels) for channels in (1, 2, 4, 8, 12, 16)), ("1M", 1), ("64K", 1))
# The rows to which zen3 was fitted, by the earlier design on Ferry's kernel as it was then.
FITTED_FREE = ("2M", "4K")
# In the place of a profile: a machine itself.
HERE = "here"
# After a profile's name: with vm.migrate_ranges=0.
ONE_BY_ONE = "-one-by-one"


@dataclass(frozen=True)
class Scale:
    """How much of an experiment: a part of its cells, or on a real machine, which has the room and noise."""

    quick: bool = False
    here: bool = False
    as_posted: bool = False  # with the cells that show how well the model predicts
    engine: str = "ptdma"  # of the server

    def bytes(self, emulated: int, posted: int = POSTED_BYTES) -> int:
        return posted if self.here and not self.quick else emulated

    def runs(self, emulated: int = 1) -> int:
        """How often: where time is virtual all runs are the same."""
        real = QUICK_RUNS if self.quick else POSTED_RUNS
        return real if self.here else emulated


@dataclass(frozen=True)
class Posted:
    """What was posted of a cell, by its names in the JSON."""

    published_ratio: float | None = None  # to vanilla
    published_ratio_sd: float | None = None  # its standard deviation, where those of both were posted
    fitted: bool | None = None  # the emulated engine's parameters were chosen so that this ratio comes out
    published_most_ratio: float | None = None  # of the most GB/s that were posted of this engine
    published_first_folio_us: float | None = None
    published_copy_share: float | None = None
    published_access_cycles_per_page: dict[str, float] | None = None


NOTHING = Posted()


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    source: str  # in published.toml; "": nobody has posted anything like it
    cells: Callable[[dict[str, Any], Scale], list[Cell]]
    published: Callable[[dict[str, Any], Cell], Posted]
    profile: str = "zen3"  # the server, unless one is named
    wall_time: bool = False  # real threads and caches instead of icount: ratios only
    note: str = ""

    @property
    def posted_figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = published().get(self.source, {})
        return figures

    def posted(self, cell: Cell, profile: str) -> Posted:
        """What was posted of a cell: beside the server that was posted, and a machine itself, which may be
        that. On the server that was fitted, beside the design as it was posted, and Ferry. Nobody has
        posted anything of another profile, and no machine itself was fitted."""
        comparable = cell.kernel or cell.engine == "ferry"
        if profile not in (self.profile, HERE) and not (profile == FITTED_SERVER and comparable):
            return NOTHING
        posted = self.published(self.posted_figures, cell)
        return replace(posted, fitted=None) if profile == HERE else posted


@cache
def published() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("published.toml").read_text())


def get(name: str) -> Table:
    """A table by its name; raises UsageError."""
    choose("table", [name], TABLES)
    return TABLES[name]


def compare(table: Table, measured: Sequence[Measured], profile: str | None = None) -> list[dict[str, Any]]:
    """Each cell as JSON, with what was posted, and its ratio to vanilla of equal folios and the most of them.

    profile is the one that was measured, if not the table's own, or HERE.
    """
    measured = [_with_copies(measurement, measured) for measurement in measured]
    vanillas = [measurement for measurement in measured if measurement.cell.engine == "vanilla"]
    largest: dict[tuple[str, str], Measured] = {}
    for vanilla in sorted(vanillas, key=lambda vanilla: vanilla.cell.folios, reverse=True):
        largest.setdefault(_moves(vanilla.cell), vanilla)
    compared = []
    for measurement in measured:
        cell = measurement.cell
        alike = [vanilla for vanilla in vanillas if _alike(vanilla.cell, cell)]
        base = alike[0] if alike and cell.engine != "vanilla" else largest.get(_moves(cell))
        ratio = measurement.speed / base.speed if base else None
        posted = table.posted(cell, profile or table.profile)
        compared.append(measurement.as_json(ratio=ratio, **asdict(posted)))
    return compared


def _deviation(speed: float, speed_sd: float, base: float, base_sd: float) -> float:
    """The standard deviation of speed / base, if they are independent and theirs are small."""
    return speed / base * math.hypot(speed_sd / speed, base_sd / base)


def _with_copies(measurement: Measured, measured: Sequence[Measured]) -> Measured:
    """Vanilla copies between other work, where no tracepoint sees it; cpu makes the same copies in a row."""
    if not measurement.cycles or measurement.cell.engine != "vanilla":
        return measurement
    for other in measured:
        if other.cycles and other.cell.engine == "cpu" and _alike(other.cell, measurement.cell):
            return replace(measurement, cycles=(measurement.cycles[0], other.cycles[1]))
    return measurement


def _alike(cell: Cell, other: Cell) -> bool:
    return (_moves(cell), cell.folios, cell.write_rate) == (_moves(other), other.folios, other.write_rate)


def _moves(cell: Cell) -> tuple[str, str]:
    """What is moved by whom: one vanilla is what all of that is compared with."""
    return cell.folio, cell.caller


def in_one_batch(folio: str, folios: int) -> int:
    """Pages of as many folios as the earlier design can have in a batch here."""
    return min(folios, LIST_FOLIOS) * parse_size(folio) // PAGE


# --- v5-throughput ---


def _each_engine(
    engines: Sequence[str], folio: str, count: int, channels: Sequence[int], **how: Any
) -> list[Cell]:
    """So many folios with each engine, on each number of channels where it has any, and if it is one that
    copies in batches, in one that is as large as can be."""
    batch = in_one_batch(folio, count)
    return [
        Cell(engine, folio, count, number, batch if engine in ("cpu", "dma") else 0, **how)
        for engine in engines
        for number in (channels if engine in ON_CHANNELS else (0,))
    ]


def throughput_cells(
    folios: Sequence[str],
    channels: Sequence[int],
    engines: Sequence[str] = ("vanilla", "cpu", "dma", "ferry"),
    scale: Scale = Scale(),
) -> list[Cell]:
    """Equal bytes in folios of each size with each engine; the earlier design takes what it can at once."""
    total, how = scale.bytes(THROUGHPUT_BYTES), {"latency": True, "runs": scale.runs()}
    return [
        cell
        for folio in folios
        for cell in _each_engine(engines, folio, total // parse_size(folio), channels, **how)
    ]


def as_posted(cells: Sequence[Cell]) -> list[Cell]:
    """The same cells of the earlier design, as it was posted."""
    return [replace(cell, **AS_POSTED) for cell in cells if cell.engine == "dma"]


def _throughput(posted: dict[str, Any], scale: Scale) -> list[Cell]:
    throughput = posted["throughput"]
    folios = ["4K", "64K", "2M"] if scale.quick else throughput["folios"]
    channels = (1, 4, 16) if scale.quick else [*map(int, throughput["dma"])]
    cells = throughput_cells(folios, channels, scale=scale)
    return cells + (as_posted(cells) if scale.as_posted and not scale.quick else [])


def _throughput_published(posted: dict[str, Any], cell: Cell) -> Posted:
    throughput = posted["throughput"]
    if cell.engine == "vanilla" and not cell.varied:
        return Posted(1.0)
    if cell.engine not in ON_CHANNELS or cell.varied:
        return NOTHING
    place, channels = throughput["folios"].index(cell.folio), str(cell.channels)
    base, base_sd = throughput["vanilla"][place], throughput["sd"]["vanilla"][place]
    if cell.engine == "ferry":
        most = max(itertools.chain(*throughput["dma"].values()))
        return Posted(published_most_ratio=most / base)
    speed, sd = throughput["dma"][channels][place], throughput["sd"]["dma"][channels][place]
    is_fitted = (cell.folio, cell.channels) in FITTED if cell.kernel else cell.folio in FITTED_FREE
    return Posted(speed / base, _deviation(speed, sd, base, base_sd), is_fitted or None)


# --- sensitivity ---


def _sensitivity(posted: dict[str, Any], scale: Scale) -> list[Cell]:
    """The same cells with each server, but vanilla, which does not use the engine, once."""
    folios, channels = sensitivity.folios(scale.quick, scale.engine), [sensitivity.channels(scale.engine)]
    cells = throughput_cells(folios, channels, scale=scale)
    cells += sensitivity.smaller_batches(cells)
    on_engine = [cell for cell in cells if cell.engine in ON_CHANNELS]
    values = sensitivity.values(scale.quick, scale.engine)
    cells += [replace(cell, varied=varied) for varied in values for cell in on_engine]
    return sorted(cells, key=lambda cell: folios.index(cell.folio))


# --- write-rates ---


def _write_rates(posted: dict[str, Any], scale: Scale) -> list[Cell]:
    """One size and number of channels, written to at each rate, in each way that the kernel has."""
    cells = throughput_cells(["2M"], [sensitivity.CHANNELS], ["vanilla", "ferry"], scale)
    rates = WRITE_RATES[1::2] if scale.quick else WRITE_RATES
    return [
        replace(
            cell,
            write_rate=rate,
            runs=scale.runs(WRITE_RUNS),
            latency=False,
            settings=way if cell.engine == "ferry" else (),
        )
        for rate in rates
        for cell in cells
        for way in (WRITE_WAYS if cell.engine == "ferry" else WRITE_WAYS[:1])
    ]


# --- v5-batch ---


def _batch(posted: dict[str, Any], scale: Scale) -> list[Cell]:
    cells = []
    total = scale.bytes(BATCH_BYTES >> (2 if scale.quick else 0))
    how: dict[str, Any] = {"latency": True, "runs": scale.runs()}
    for folio in ("4K", "2M"):
        pages = posted["batch"][folio]["pages"]
        channels = [*map(int, posted["batch"][folio]["gbps"])]
        counts = posted["vanilla"][folio]["folios"]
        if scale.quick:
            pages, counts, channels = pages[::3], counts[::3], [1, 16]
        count = total // parse_size(folio)
        pages = [batch for batch in pages if batch <= in_one_batch(folio, count)]
        counts = sorted({folios for folios in counts if folios <= count} | {count})
        cells += [Cell("vanilla", folio, folios, **how) for folios in counts]
        for number in channels:
            cells += [Cell("dma", folio, count, number, batch, **how) for batch in pages]
            cells.append(Cell("ferry", folio, count, number, **how))
    return cells


def _batch_published(posted: dict[str, Any], cell: Cell) -> Posted:
    vanilla = posted["vanilla"][cell.folio]
    if cell.engine == "vanilla":
        if cell.folios not in vanilla["folios"]:
            return NOTHING
        place = vanilla["folios"].index(cell.folios)
        ratio = vanilla["gbps"][place] / vanilla["gbps"][-1]
        return Posted(ratio, published_first_folio_us=vanilla["first_us"][place])
    if cell.engine != "dma":
        return NOTHING
    batches = posted["batch"][cell.folio]
    place = batches["pages"].index(cell.batch_pages)
    channels = str(cell.channels)
    ratio = batches["gbps"][channels][place] / vanilla["gbps"][-1]
    return Posted(ratio, published_first_folio_us=batches["first_us"][channels][place])


# --- v1-cycles ---


def _cycles(posted: dict[str, Any], scale: Scale) -> list[Cell]:
    """Base pages, as many in a batch as can be."""
    engines, how = ("vanilla", "cpu", "dma"), {"cycles": True, "runs": scale.runs()}
    pages = _pages(posted, scale, CYCLES_PAGES)
    return [cell for count in pages for cell in _each_engine(engines, "4K", count, (1,), **how)]


def _pages(posted: dict[str, Any], scale: Scale, emulated: int) -> list[int]:
    """The posted numbers of pages, as far as there is room; 1 and 512 are the quick ones."""
    most = 512 if scale.quick else scale.bytes(emulated * PAGE) // PAGE
    return [pages for pages in posted["pages"] if pages <= most]


def _cycles_published(posted: dict[str, Any], cell: Cell) -> Posted:
    place = posted["pages"].index(cell.folios)
    cycles = posted["migrate_pages"]
    share = posted["copy_share"][cell.engine][place]
    if cell.engine == "vanilla":
        return Posted(published_copy_share=share)
    slower = _slower(cycles, posted["migrate_pages_sd"], cell.engine, place)
    return Posted(*slower, published_copy_share=share)


def _slower(cycles: dict[str, Any], sd: dict[str, Any], engine: str, place: int) -> tuple[float, float]:
    """The ratio of speeds, and its deviation, where cycles were posted."""
    base, slower = cycles["vanilla"][place], cycles[engine][place]
    return base / slower, _deviation(base, sd["vanilla"][place], slower, sd[engine][place])


# --- userspace ---


def _userspace(posted: dict[str, Any], scale: Scale) -> list[Cell]:
    """One page, what fits into a cache, and what does not."""
    engines, how = ("vanilla", "cpu", "dma", "ferry"), {"access": True, "runs": scale.runs(WALL_RUNS)}
    pages = _pages(posted, scale, USERSPACE_PAGES)
    return [cell for count in pages for cell in _each_engine(engines, "4K", count, (1,), **how)]


def _userspace_published(posted: dict[str, Any], cell: Cell) -> Posted:
    if cell.engine not in ("vanilla", "cpu", "dma") or cell.folios not in posted["pages"]:
        return NOTHING
    place = posted["pages"].index(cell.folios)
    reads = {name: posted[name][cell.engine][place] for name in ("uncached", "cached", "post_move")}
    if cell.engine == "vanilla":
        return Posted(published_access_cycles_per_page=reads)
    slower = _slower(posted, posted["sd"], cell.engine, place)
    return Posted(*slower, published_access_cycles_per_page=reads)


# --- mtcopy ---


def _mtcopy(posted: dict[str, Any], scale: Scale) -> list[Cell]:
    """As many threads as there are CPUs; emulated ones are the host's."""
    cpus, runs = len(os.sched_getaffinity(0)), scale.runs(WALL_RUNS)
    cells = []
    for folio in ("64K", "2M"):
        threads = [int(number) for number in posted[folio]["threads"] if int(number) <= max(2, cpus)]
        counts = posted[folio]["folios"]
        most = (scale.bytes(MTCOPY_BYTES, 2 * POSTED_BYTES) >> (2 if scale.quick else 0)) // parse_size(folio)
        for count in [folios for folios in counts if folios <= most][:: 2 if scale.quick else 1]:
            cells.append(Cell("vanilla", folio, count, runs=runs))
            cells += [Cell("mtcopy", folio, count, threads=number, runs=runs) for number in threads]
    return cells


def _mtcopy_published(posted: dict[str, Any], cell: Cell) -> Posted:
    speeds = posted[cell.folio]
    place = speeds["folios"].index(cell.folios)
    row = speeds["vanilla"] if cell.engine == "vanilla" else speeds["threads"][str(cell.threads)]
    if cell.engine == "vanilla":
        return Posted(row[place] / row[-1])
    return Posted(row[place] / speeds["vanilla"][place])


COLLECTED = (
    f"The earlier design takes at most {LIST_FOLIOS:,} folios at once, which are as many as move_pages() of "
    "Ferry's kernel collects."
)

TABLES = {
    table.name: table
    for table in (
        Table(
            "v5-throughput",
            "Throughput by folio size and number of channels",
            "v5",
            _throughput,
            _throughput_published,
            note=COLLECTED,
        ),
        Table(
            "sensitivity",
            "Throughput by what is not known of the engine and of the way to it",
            "",
            _sensitivity,
            lambda posted, cell: NOTHING,
            note=COLLECTED
            + " One parameter at a time is other than the profile says, or several at once; a row without "
            "any has none. Vanilla does not use the engine, and was measured once.",
        ),
        Table(
            "write-rates",
            "Throughput and writers' waits by how often the memory is written to while it moves",
            "v5",
            _write_rates,
            lambda posted, cell: NOTHING if cell.write_rate else _throughput_published(posted, cell),
            note="One thread of SCHED_IDLE writes single words at random. On one CPU it runs when the mover "
            "waits, makes up for what was due meanwhile, and its waits include the mover's turns of the CPU.",
        ),
        Table(
            "callers",
            "Throughput of those who move memory between tiers, and in random order",
            "",
            lambda posted, scale: callers.cells(scale.bytes(callers.BYTES), scale.runs(), scale.quick),
            lambda posted, cell: NOTHING,
            profile="cxl",
            note="Scattered: in random order, and neighbours' frames do not adjoin. All of what a caller "
            "does is counted: a promotion with its hint fault, a demotion with reclaim's look at its folio.",
        ),
        Table(
            "v5-batch",
            "Throughput and first-folio latency by batch size",
            "v5",
            _batch,
            _batch_published,
            note=COLLECTED + " Larger batches of 4K folios were posted, and are left out.",
        ),
        Table(
            "v1-cycles",
            "Cycles of migrate_pages() per page, and the share of the copies",
            "v1",
            _cycles,
            _cycles_published,
            profile="v1",
            note=COLLECTED
            + " Vanilla's copies lie between other work, where no tracepoint sees them: what is shown is "
            "what cpu's took, which are the same copies, one after the other.",
        ),
        Table(
            "userspace",
            "What a move costs a program, and what reading a page costs before and after it",
            "userspace",
            _userspace,
            _userspace_published,
            wall_time=True,
            note=COLLECTED
            + " An emulated CPU has no caches: there, what a read costs says nothing. Use --here.",
        ),
        Table(
            "mtcopy",
            "Throughput by number of folios and copying threads",
            "mtcopy",
            _mtcopy,
            _mtcopy_published,
            wall_time=True,
            note="Wall time of an emulator on a host that may be busy: compare ratios only.",
        ),
    )
}
