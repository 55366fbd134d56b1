# SPDX-License-Identifier: GPL-2.0
"""What the clients of a running redis-server notice of its moves, counted: one CPU, virtual time.

The server, its clients and who moves it share that CPU. So what a client waits for is the CPU's time,
whoever has it, and a copy that the engine makes leaves more of it.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ferry import packages, proc
from ferry.bench import rows
from ferry.bench.sizes import PAGE
from ferry.errors import FerryError
from ferry.vm import boots, qemu, records
from ferry.vm.boots import Boot, Said
from ferry.vm.machine import Machine
from ferry.vm.records import Record
from ferry.vm.store import Store

PACKAGES = ("redis-server", "redis-tools", "numactl")
PROGRAMS = ("redis-server", "redis-cli", "redis-benchmark", "migratepages")
FOLIOS = ("4K", "THP")
ENGINES = (rows.VANILLA, "none", "cpu", "dcbm")
CHANNELS, DEPTH = 16, 32  # of the engine, and descriptors in flight on each
TIMEOUT_S = 900.0
_LIBRARY = re.compile(r"(?:=> |^\s*)(/\S+) \(0x", re.MULTILINE)


@dataclass(frozen=True)
class Plan:
    """How large the server is, what its clients ask for, and how often it moves there and back."""

    keys: int = 16384
    value_bytes: int = 4096
    requests: int = 60000
    trips: int = 2


@dataclass(frozen=True)
class Cell:
    """A server to be moved."""

    folio: str  # 4K, or THP: as large as Linux makes them
    engine: str


def with_libraries(names: Sequence[str]) -> dict[str, Path]:
    """Programs of the host and the libraries they are linked to, by path in the guest."""
    paths_in_guest: dict[str, Path] = {}
    for name in names:
        program = Path("/usr/bin", name)
        libraries = _LIBRARY.findall(proc.output(["ldd", program]))
        paths_in_guest |= {path.lstrip("/"): Path(path).resolve() for path in (str(program), *libraries)}
    return paths_in_guest


def engine_line(engine: str, channels: int, depth: int) -> str:
    """The shell line that lets an engine copy."""
    lines = {rows.VANILLA: ":", "dcbm": f"use_dma {channels} {depth}"}
    return lines.get(engine, f"activate {shlex.quote(engine)}")


def script(plan: Plan, cell: Cell) -> str:
    huge = "no" if cell.folio == "4K" else "yes"
    load = f"{plan.keys} {plan.requests}"
    lines = [
        (qemu.GUEST / "redis.sh").read_text(),
        f"step redis, {cell.folio}, {shlex.quote(cell.engine)}",
        engine_line(cell.engine, CHANNELS, DEPTH),
        f"start_redis {plan.keys} {plan.value_bytes} {huge}",
        f"under_load still {load} there_and_back 0 0 {plan.trips}",
        f"under_load moved {load} there_and_back 0 1 {plan.trips}",
        "digest",
    ]
    return "\n".join(lines)


def measure(
    plan: Plan, machine: Machine, cells: Sequence[Cell], store: Store | None = None
) -> tuple[list[Record], dict[str, str]]:
    """Each cell in a boot of its own. Returns what was found, in order, and the kernels' releases.

    Raises FerryError if the server's data has changed, or less of it was moved than it has.
    """
    packages.ensure(PACKAGES)
    programs = with_libraries(PROGRAMS)

    def boot(cell: Cell) -> Boot:
        job = qemu.Job(script(plan, cell), TIMEOUT_S, programs=programs)
        return Boot(f"redis on {cell}", rows.flavour(cell.engine), machine, job)

    def parsed(index: int, said: Said) -> Record:
        return parse(said.text, cells[index], plan) | {"records": [said.record]}

    title = f"move redis-server in {len(cells)} VMs ({machine.name})"
    return boots.run(title, [*map(boot, cells)], parsed, store)


def parse(said: str, cell: Cell, plan: Plan) -> Record:
    """What a guest has recorded, if the data is whole and was moved: what the clients say of their requests
    while the server moves, and while it is only asked to stay. Raises FerryError otherwise."""
    digests = [digest["hex"] for digest in records.every(said, "digest")]
    if len(digests) != 2 or digests[0] != digests[1]:
        raise FerryError(f"redis on {cell}: the dataset's digest was {digests[:1]} and is {digests[1:]}")
    moves = [
        {"us": move["us"], "requests": move["requests"], "bytes": move["pages"] * PAGE}
        for move in records.every(said, "move")
    ]
    moves = moves[2 * plan.trips :]  # the first stayed where they were
    # A few keys were never set.
    least = plan.keys * plan.value_bytes * 3 // 4
    if len(moves) != 2 * plan.trips or min(move["bytes"] for move in moves) < least:
        raise FerryError(f"redis on {cell}: not all was moved each time: {moves}")
    # Of redis-benchmark's figures: requests a second, mean, least, 50 %, 95 %, 99 %, longest.
    places = {"per_second": 0, "median_ms": 3, "p99_ms": 5, "longest_ms": 6}
    loads = {
        load["of"]: {name: load["figures"][place] for name, place in places.items()}
        for load in records.every(said, "load")
    }
    huge = records.of(said, "huge")["kib"]
    if (huge > 0) != (cell.folio != "4K"):
        raise FerryError(f"redis on {cell}: {huge} KiB of it are huge pages")
    still, moved = loads["still"], loads["moved"]
    # How much later the last request was done for each move
    lost_s = plan.requests * (1 / moved["per_second"] - 1 / still["per_second"]) / len(moves)
    return {
        **asdict(cell),
        **{"huge_bytes": huge << 10, "still": still, "moved": moved, "moves": moves},
        "lost_ms_per_move": lost_s * 1e3,
    }
