# SPDX-License-Identifier: GPL-2.0
"""One cell of a table: a configuration, the shell lines that measure it, and what they found."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ferry.bench import migbench, rows
from ferry.bench.sizes import PAGE, parse_size
from ferry.errors import FerryError
from ferry.vm import records

# dma is the earlier design, one big copy phase with whole folios for each channel; ferry is Ferry's own; none
# is Ferry's kernel with nothing active.
ENGINES = ("vanilla", "none", "cpu", "dma", "ferry", "mtcopy")
NO_ENGINE = ("vanilla", "none")
ON_CHANNELS = ("dma", "ferry")
# What the kernel calls them; "none" is Linux's own path.
ACTIVE = {"vanilla": "none", "none": "none", "cpu": "cpu", "dma": "dcbm", "ferry": "dcbm", "mtcopy": "mtcopy"}
MAX_DEPTH = 65536


@dataclass(frozen=True)
class Cell:
    """What to measure."""

    engine: str
    folio: str
    folios: int  # moved by one call, or by one run of another caller
    channels: int = 0
    batch_pages: int = 0  # unmapped at once; 0: the engine's own choice
    threads: int = 0  # that copy, for mtcopy
    latency: bool = False
    access: bool = False
    cycles: bool = False  # of migrate_pages() and of the copies in it
    write_rate: int | None = None  # of one writer, a second; None: nobody writes
    runs: int = 1  # more where they differ
    varied: tuple[str, int | str] | None = None  # what of the server is other than its profile says
    settings: tuple[tuple[str, int], ...] = ()  # of the kernel's, other than their defaults
    call: str = "move_pages"  # or another of migbench.CALLS
    order: str = "up"  # of migbench.ORDERS
    warmup: int = 1  # runs that are not counted
    state: int = 0  # in which the machine begins; each number is another

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise FerryError(f"no engine '{self.engine}': choose from {', '.join(ENGINES)}")

    @property
    def flavour(self) -> str:
        """The kernel that it runs on."""
        return "vanilla" if self.engine == rows.VANILLA else "ferry"

    @property
    def bytes(self) -> int:
        """How much is moved."""
        return parse_size(self.folio) * self.folios

    @property
    def caller(self) -> str:
        """Who moves, and in which order of addresses."""
        return self.call + (f", {self.order}" if self.order != "up" else "")

    @property
    def title(self) -> str:
        """For the progress."""
        many = self.channels or self.threads
        channels = f" x{many}" if many else ""
        batch = f", batches of {self.batch_pages}" if self.batch_pages else ""
        varied = f", {self.varied[0]} {self.varied[1]}" if self.varied else ""
        state = f", state {self.state}" if self.state else ""
        settings = "".join(f", {name}={value}" for name, value in self.settings)
        caller = f", {self.caller}" if self.caller != "move_pages" else ""
        writes = f", {self.write_rate} writes a second" if self.write_rate else ""
        how = f"{channels}{batch}{settings}{caller}{varied}{writes}{state}"
        return f"{self.folios} x {self.folio}, {self.engine}{how}"

    def engine_lines(self) -> list[str]:
        """Shell lines that load the engine, as it is to be."""
        if self.engine in ON_CHANNELS:
            # Without batches Ferry's own depth will do.
            depth = min(MAX_DEPTH, max(256, self.batch_pages * PAGE // parse_size(self.folio)))
            return [f"use_dma {self.channels} {depth}"]
        if self.engine in NO_ENGINE:
            return []
        threads = f"echo {self.threads} >/sys/module/mtcopy/parameters/threads"
        return [f"use_engine {self.engine} 0", *([threads] if self.threads else [])]

    def policy_lines(self) -> list[str]:
        """Shell lines that choose how much is in flight."""
        chosen = [f"echo {value} >{_setting(name)}" for name, value in self.settings]
        if self.engine in NO_ENGINE:
            return chosen
        stripe = max(PAGE, parse_size(self.folio)) if self.batch_pages else 0
        return [f"use_policy {self.batch_pages} {stripe}", *chosen]

    def bench_lines(self, index: int) -> list[str]:
        """Shell lines that choose the engine, measure, and write a record."""
        args = ["--folio", self.folio, "--bytes", str(self.bytes), "--runs", str(self.runs)]
        if self.caller != "move_pages":
            nodes = [str(word) for pair in migbench.nodes(self.call).items() for word in pair]
            args += ["--call", self.call, *nodes, "--order", self.order, "--warmup", str(self.warmup)]
        args += ["--latency"] if self.latency else []
        args += ["--access"] if self.access else []
        args += ["--writers", "1", "--write-rate", str(self.write_rate)] if self.write_rate else []
        lines = [
            f"step {shlex.quote(self.title)}",
            f"activate {ACTIVE[self.engine]}",
            f"bench {index} {shlex.join(args)}",
        ]
        if self.cycles:
            lines.append(f"cycles {index} migbench {shlex.join(args)} --warmup 0")
        return lines


def _setting(name: str) -> str:
    """The file of a setting of the copy offload's, or of a sysctl, such as vm.migrate_copy_mapped."""
    return f"/proc/sys/{name.replace('.', '/')}" if "." in name else f"$OFFLOAD/{name}"


@dataclass(frozen=True)
class Found:
    """A cell, measured."""

    cell: Cell
    row: rows.Row
    access: dict[str, float] | None = None  # cycles to read a page: uncached, cached, after the move
    cycles: tuple[float, float] | None = None  # of migrate_pages() per page; of the copies, 0 if not known
    ratio: float | None = None  # to vanilla, in the same run
    ratio_range: tuple[float, float] | None = None  # the least and the greatest, if it began otherwise, too
    published_ratio: float | None = None
    published_ratio_sd: float | None = None
    fitted: bool = False  # the engine was fitted to that ratio
    published_first_us: float | None = None
    published_share: float | None = None  # of the copies in migrate_pages()
    published_access: dict[str, float] | None = None  # some of what access has

    def as_json(self) -> dict[str, Any]:
        """The cell as JSON; keys that do not apply are left out."""
        away = {key: value for key, value in self.row.inaccessible_us.items() if value is not None}
        parameter, value = self.cell.varied or (None, None)
        known = {
            "parameter": parameter,
            "value": value,
            "folio_kib": self.row.folio_kib,
            "caller": self.cell.caller if self.cell.caller != "move_pages" else None,
            "engine": self.cell.engine,
            "channels": self.cell.channels or None,
            "threads": self.cell.threads or None,
            "batch_pages": self.cell.batch_pages or None,
            "settings": dict(self.cell.settings) or None,
            "write_rate": self.cell.write_rate,
            "writes": self.row.writes if self.cell.write_rate else None,
            "folios": self.cell.folios,
            "bytes": self.cell.bytes,
            "runs": self.row.runs,
            "gbps": self.row.gbps,
            "ratio": self.ratio,
            "ratio_range": self.ratio_range,
            "published_ratio": self.published_ratio,
            "published_ratio_sd": self.published_ratio_sd,
            "fitted": self.fitted or None,
            "first_folio_us": self.row.first_folio_us,
            "published_first_folio_us": self.published_first_us,
            "inaccessible_us": away or None,
            "write_wait_us": {key: each for key, each in self.row.write_wait_us.items() if each is not None}
            or None,
            "cpu_ns_per_page": self.row.cpu_ns_per_page,
            "access_cycles_per_page": self.access,
            "published_access_cycles_per_page": self.published_access,
            "migrate_cycles_per_page": self.cycles and round(self.cycles[0], 1),
            "copy_cycles_per_page": (self.cycles and round(self.cycles[1], 1)) or None,
            "copy_share": (self.cycles and self.cycles[1] / self.cycles[0]) or None,
            "published_copy_share": self.published_share,
            "verified_bytes": self.row.verified_bytes,
            "records": list(filter(None, self.row.records)) or None,
        }
        return {key: value for key, value in known.items() if value is not None}


def script(cells: Sequence[tuple[int, Cell]]) -> str:
    """The job that measures cells, each under its number; what two neighbours share is loaded once."""
    lines: list[str] = []
    engine: list[str] = []
    policy: list[str] = []
    for index, cell in cells:
        if cell.engine_lines() != engine:
            engine, policy = cell.engine_lines(), []
            lines += engine
        if cell.policy_lines() != policy:
            policy = cell.policy_lines()
            lines += policy
        lines += cell.bench_lines(index)
    return "\n".join(lines)


def parse(said: str, cells: Sequence[Cell]) -> dict[int, Found]:
    """What a job found, by the cells' numbers."""
    found = {}
    for each in records.every(said, "migbench"):
        number, cell = int(each["of"]), cells[int(each["of"])]
        row = rows.from_migbench(each["found"], cell.engine, cell.channels)
        found[number] = Found(cell, row, _access(each["found"]))
    for each in records.every(said, "cycles"):
        number, moved = int(each["of"]), each["moved"]
        cell = cells[number]
        if not moved or moved % (cell.bytes // PAGE):
            raise FerryError(f"{cell.title}: migrate_pages() says that it has moved {moved} pages")
        found[number] = replace(found[number], cycles=(each["total"] / moved, each["copies"] / moved))
    return found


def _access(row: records.Record) -> dict[str, float] | None:
    found = row.get("access")
    return {name.removesuffix("_cycles_per_page"): each for name, each in found.items()} if found else None


def key(cell: Cell) -> tuple[object, ...]:
    """An order in which neighbours have most in common."""
    return tuple(
        asdict(cell)[name] for name in ("engine", "channels", "threads", "batch_pages", "folio", "folios")
    )
