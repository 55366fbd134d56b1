# SPDX-License-Identifier: GPL-2.0
"""One cell of a table: a configuration, the shell lines that measure it, and what they found."""

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ferry.bench import migbench, rows
from ferry.bench.sizes import PAGE, parse_size
from ferry.errors import FerryError, UsageError, choose
from ferry.kernel import kbuild
from ferry.vm import records

# dma is the earlier design, one big copy phase with whole folios for each channel; ferry is Ferry's own; none
# is Ferry's kernel with nothing active.
ENGINES = ("vanilla", "none", "cpu", "dma", "ferry", "mtcopy")
NO_ENGINE = ("vanilla", "none")
ON_CHANNELS = ("dma", "ferry")
# What the kernel calls them; "none" is Linux's own path.
ACTIVE = {"vanilla": "none", "none": "none", "cpu": "cpu", "dma": "dcbm", "ferry": "dcbm", "mtcopy": "mtcopy"}
MAX_DEPTH = 65536
# What NUMA balancing finds misplaced moves several pages at once.
PROMOTE_BATCH = ("vm.migrate_promote_batch", 16)
WARMUP = 1  # migbench's own
# Settings that take effect when their module is loaded, and the guest's words for them.
OF_MODULES = {"ptdma.depth": "PTDMA_DEPTH", "dcbm.share_bytes": "DCBM_SHARE_BYTES"}


@dataclass(frozen=True)
class Cell:
    """What to measure."""

    engine: str
    folio: str
    folios: int  # moved by one call, or by one run of another caller
    channels: int = 0
    batch_pages: int = 0  # unmapped at once; 0: the engine's own choice
    threads: int = 0  # that copy, for mtcopy
    latency: bool = False  # how long folios are inaccessible, or a promotion's faults take
    access: bool = False
    cycles: bool = False  # of migrate_pages() and of the copies in it
    write_rate: int | None = None  # of one writer, a second; None: nobody writes
    runs: int = 1  # more where they differ
    varied: tuple[str, int | str] | None = None  # what of the server is other than its profile says
    settings: tuple[tuple[str, int], ...] = ()  # of the kernel's, other than their defaults
    call: str = "move_pages"  # or another of migbench.CALLS
    order: str = "up"  # of migbench.ORDERS
    memory: str = "anon"  # of migbench.MEMORY
    warmup: int = WARMUP  # runs that are not counted
    state: int = 0  # in which the machine begins; each number is another
    kernel: str = ""  # a flavour of Ferry's other than the usual one

    def __post_init__(self) -> None:
        choose("engine", [self.engine], ENGINES)
        if kbuild.flavour(self.flavour).patched == (self.engine == rows.VANILLA):
            raise UsageError(f"engine {self.engine} is not for kernel {self.kernel}")

    @property
    def flavour(self) -> str:
        """The kernel that it runs on."""
        return self.kernel or rows.flavour(self.engine)

    @property
    def bytes(self) -> int:
        return parse_size(self.folio) * self.folios

    @property
    def caller(self) -> str:
        """Who moves, what unless it is private memory, and in which order of addresses."""
        memory = f", {self.memory}" if self.memory != "anon" else ""
        return self.call + memory + (f", {self.order}" if self.order != "up" else "")

    @property
    def title(self) -> str:
        """For the progress."""
        many = self.channels or self.threads
        channels = f" x{many}" if many else ""
        batch = f", batches of {self.batch_pages}" if self.batch_pages else ""
        varied = f", {self.varied[0]} {self.varied[1]}" if self.varied else ""
        state = f", state {self.state}" if self.state else ""
        kernel = f", kernel={self.kernel}" if self.kernel else ""
        settings = kernel + "".join(f", {name}={value}" for name, value in self.settings)
        caller = f", {self.caller}" if self.caller != "move_pages" else ""
        writes = f", {self.write_rate} writes a second" if self.write_rate else ""
        how = f"{channels}{batch}{settings}{caller}{varied}{writes}{state}"
        return f"{self.folios} x {self.folio}, {self.engine}{how}"

    def engine_lines(self) -> list[str]:
        """Shell lines that load the engine, as it is to be."""
        if self.engine in ON_CHANNELS:
            # Without batches Ferry's own depth will do.
            depth = min(MAX_DEPTH, max(256, self.batch_pages * PAGE // parse_size(self.folio)))
            of_modules = [
                f"{OF_MODULES[name]}={value}" for name, value in self.settings if name in OF_MODULES
            ]
            return [*of_modules, f"use_dma {self.channels} {depth}"]
        if self.engine in NO_ENGINE:
            return []
        threads = f"echo {self.threads} >/sys/module/mtcopy/parameters/threads"
        return [f"use_engine {self.engine} 0", *([threads] if self.threads else [])]

    def policy_lines(self) -> list[str]:
        """Shell lines that choose how much is in flight."""
        chosen = [
            f"echo {value} >{setting_file(name)}" for name, value in self.settings if name not in OF_MODULES
        ]
        if self.engine in NO_ENGINE:
            return chosen
        stripe = max(PAGE, parse_size(self.folio)) if self.batch_pages else 0
        return [f"use_policy {self.batch_pages} {stripe}", *chosen]

    def bench_lines(self, index: int) -> list[str]:
        """Shell lines that choose the engine, measure, and write a record."""
        args = ["--folio", self.folio, "--bytes", str(self.bytes), "--runs", str(self.runs)]
        if self.call != "move_pages":
            nodes = itertools.chain(*migbench.nodes(self.call).items())
            args += ["--call", self.call, *map(str, nodes)]
        args += ["--order", self.order] if self.order != "up" else []
        args += migbench.of_memory(self.memory) if self.memory != "anon" else []
        args += ["--warmup", str(self.warmup)] if self.warmup != WARMUP else []
        args += ["--faults" if self.call == "promote" else "--latency"] if self.latency else []
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


def setting_file(name: str) -> str:
    """The file of a setting of the copy offload's, or of a sysctl, such as vm.migrate_copy_mapped."""
    return f"/proc/sys/{name.replace('.', '/')}" if "." in name else f"$OFFLOAD/{name}"


@dataclass(frozen=True)
class Measured:
    """A cell, and what was found of it."""

    cell: Cell
    row: rows.Row
    access: dict[str, float] | None = None  # cycles to read a page: uncached, cached, after the move
    cycles: tuple[float, float] | None = None  # of migrate_pages() per page; of the copies, 0 if not known

    @property
    def speed(self) -> float:
        """What ratios are of: throughput, or where it was counted, migrate_pages() per cycle."""
        return 1 / self.cycles[0] if self.cycles else self.row.gbps

    def as_json(self, **more: Any) -> dict[str, Any]:
        """The cell as JSON, with more of it; keys that do not apply are left out."""
        cell, row = self.cell, self.row
        parameter, value = cell.varied or (None, None)
        total, copies = self.cycles or (None, None)
        figures = {
            **{"parameter": parameter, "value": value, "folio_kib": row.folio_kib, "engine": cell.engine},
            "caller": cell.caller if cell.caller != "move_pages" else None,
            **{"channels": cell.channels or None, "threads": cell.threads or None},
            "kernel": cell.kernel or None,
            **{"batch_pages": cell.batch_pages or None, "settings": dict(cell.settings) or None},
            **{"write_rate": cell.write_rate, "writes": row.writes if cell.write_rate else None},
            **{"folios": cell.folios, "bytes": cell.bytes, "runs": row.runs, "gbps": row.gbps},
            "first_folio_us": row.first_folio_us,
            **{
                name: {key: value for key, value in getattr(row, name).items() if value is not None} or None
                for name in rows.SPREADS
            },
            "cpu_ns_per_page": row.cpu_ns_per_page,
            "access_cycles_per_page": self.access,
            "migrate_cycles_per_page": total and round(total, 1),
            "copy_cycles_per_page": copies and round(copies, 1),
            "copy_share": copies / total if copies and total else None,
            **{"verified_bytes": row.verified_bytes, "records": [*filter(None, row.records)] or None},
        }
        return {key: value for key, value in (figures | more).items() if value is not None}


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


def parse(said: str, cells: Sequence[Cell]) -> dict[int, Measured]:
    """What a job found, by the cells' numbers."""
    measured = {}
    for record in records.every(said, "migbench"):
        number, cell = int(record["of"]), cells[int(record["of"])]
        row = rows.from_migbench(record["found"], cell.engine, cell.channels)
        measured[number] = Measured(cell, row, _access(record["found"]))
    for record in records.every(said, "cycles"):
        number, moved = int(record["of"]), record["moved"]
        cell = cells[number]
        if not moved or moved % (cell.bytes // PAGE):
            raise FerryError(f"{cell.title}: migrate_pages() says that it has moved {moved} pages")
        cycles = (record["total"] / moved, record["copies"] / moved)
        measured[number] = replace(measured[number], cycles=cycles)
    return measured


def _access(row: records.Record) -> dict[str, float] | None:
    cycles = row.get("access", {})
    return {name.removesuffix("_cycles_per_page"): each for name, each in cycles.items()} or None


def key(cell: Cell) -> tuple[object, ...]:
    """An order in which neighbours have most in common."""
    return (cell.engine, cell.channels, cell.threads, cell.batch_pages, cell.folio, cell.folios)
