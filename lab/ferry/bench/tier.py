# SPDX-License-Identifier: GPL-2.0
"""What applications gain where memory has two tiers, counted: one CPU, virtual time.

The emulated server's node 0 has the CPU, node 1 is memory alone, which ACPI calls slower. But a virtual
nanosecond is an instruction, wherever its data lies: that far memory is slower is not in any figure. So
they say what it costs an application to have its memory moved, and not what it gives to have it near.
"""

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferry import packages, paths, proc
from ferry.bench import clients, rows
from ferry.bench.cell import PROMOTE_BATCH, setting_file
from ferry.bench.sizes import PAGE, parse_size
from ferry.errors import FerryError
from ferry.vm import boots, qemu, records
from ferry.vm.boots import Boot, Said
from ferry.vm.machine import Machine
from ferry.vm.records import Record
from ferry.vm.store import Store

APPLICATIONS = ("pool", "redis", "arena")
# Who decides what moves: as ever an application that moves its own, or NUMA balancing and reclaim; or DAMON.
BALANCING, DAMON = TIERINGS = ("balancing", "damon")
# DAMON of that base knows no goal of a node's free memory.
WITHOUT_DAMON = ("6.12",)
ENGINES = (rows.VANILLA, "none", "cpu", "dcbm")
CHANNELS, DEPTH = 16, 256  # of the engine, and descriptors in flight on each
PACKAGES = ("gcc", "libc6-dev", "make")
TIMEOUT_S = 3600.0
DISTANCE = "Far memory is as fast as near memory here: figures are of the moves alone."
# Less is not called a gain.
GAIN_PERCENT = 1.0


@dataclass(frozen=True)
class Pool:
    """Buffers of a size, how many of them the near node may have, and how many one call moves."""

    folio: str
    buffers: int
    near: int
    batch: int
    requests: int
    warmup: int


@dataclass(frozen=True)
class LeftPool:
    """A pool that leaves it to DAMON which buffers are on the near node, and how much of it both may have."""

    folio: str
    buffers: int
    near_mib: int
    requests: int
    warmup: int
    traced: int


@dataclass(frozen=True)
class Arena:
    """Folios that are moved whole, by a call or by the application's own copy."""

    folio: str
    folios: int
    mover: str


@dataclass(frozen=True)
class Plan:
    """How large each application is, and what is asked of it."""

    pools: tuple[Pool, ...] = (
        *(Pool("4K", 16384, 4096, batch, 400000, 100000) for batch in (64, 512, 2048)),
        Pool("2M", 128, 32, 8, 20000, 5000),
    )
    left_pools: tuple[LeftPool, ...] = (
        LeftPool("4K", 16384, 80, 2000000, 500000, 500000),
        LeftPool("2M", 128, 128, 4000000, 500000, 500000),
    )
    keys: int = 24576
    value_bytes: int = 4096
    near_mib: int = 112  # that redis may have of node 0, before Linux demotes
    redis_requests: int = 60000
    redis_warmup: int = 10000
    traced_requests: int = 20000
    arenas: tuple[Arena, ...] = (
        *(Arena("4K", 16384, mover) for mover in ("memcpy", "move_pages")),
        *(Arena("2M", 32, mover) for mover in ("memcpy", "move_pages")),
    )
    arena_moves: int = 4

    @property
    def redis_load(self) -> str:
        """Requests that count, those before them, and those that are traced, for the guest's functions."""
        return f"{self.redis_requests} {self.redis_warmup} {self.traced_requests}"


@dataclass(frozen=True)
class Cell:
    """An application on a kernel."""

    application: str
    case: str
    folio: str
    engine: str
    script: str  # that measures it, once the engine is chosen
    settings: tuple[tuple[str, int], ...] = ()  # of the kernel's, other than their defaults
    folios: int = 0  # that it has, if it says so
    rival: str = ""  # the case that it is compared with on vanilla, if not its own
    tiering: str = BALANCING

    @property
    def channels(self) -> int:
        return CHANNELS if self.engine == "dcbm" else 0

    def __str__(self) -> str:
        settings = "".join(f", {name}={value}" for name, value in self.settings)
        return f"{self.case}, {self.folio}, {self.engine}{settings}"


def speed(figures: Record) -> float:
    """What ratios are of: requests, or moves."""
    if moves := figures.get("moves"):
        return 1e6 * len(moves) / sum(float(move["us"]) for move in moves)
    return float(figures["per_second"])


def tierings(base: str) -> tuple[str, ...]:
    """Those that a base has."""
    return TIERINGS[:1] if base in WITHOUT_DAMON else TIERINGS


def cells(
    plan: Plan, applications: Sequence[str], engines: Sequence[str], chosen: Sequence[str] = TIERINGS
) -> list[Cell]:
    """Each application on each engine; vanilla first, which the others are compared with."""
    made = {
        ("pool", BALANCING): _pools,
        ("pool", DAMON): _left_pools,
        ("redis", BALANCING): _redis,
        ("redis", DAMON): _redis_by_damon,
        ("arena", BALANCING): _arenas,
    }
    ways = [made[way] for way in itertools.product(applications, chosen) if way in made]
    return [cell for way in ways for cell in way(plan, engines)]


def _pools(plan: Plan, engines: Sequence[str]) -> list[Cell]:
    return [
        Cell(
            *("pool", f"pool, {pool.batch} buffers a call", pool.folio, engine),
            f"of_folios {parse_size(pool.folio)} pool --items {pool.buffers} --near {pool.near} "
            f"--batch {pool.batch} --requests {pool.requests} --warmup {pool.warmup}",
            folios=pool.buffers,
        )
        for pool in plan.pools
        for engine in engines
    ]


def _redis(plan: Plan, engines: Sequence[str]) -> list[Cell]:
    """What NUMA balancing finds misplaced moves in its fault, or several pages at once."""
    job = f"tiered_redis {plan.value_bytes} {plan.keys} {plan.near_mib} {plan.redis_load}"
    return [
        Cell("redis", "redis", "4K", engine, job, way)
        for engine in engines
        for way in (((), (PROMOTE_BATCH,)) if engine in ("none", "dcbm") else ((),))
    ]


def _redis_by_damon(plan: Plan, engines: Sequence[str]) -> list[Cell]:
    job = f"damon_redis {plan.value_bytes} {plan.keys} {plan.near_mib} {plan.redis_load}"
    return [Cell("redis", "redis, DAMON", "4K", engine, job, tiering=DAMON) for engine in engines]


def _left_pools(plan: Plan, engines: Sequence[str]) -> list[Cell]:
    return [
        Cell(
            *("pool", "pool, DAMON", pool.folio, engine),
            f"damon_pool {parse_size(pool.folio)} {pool.near_mib} {pool.traced} --items {pool.buffers} "
            f"--near 1 --requests {pool.requests} --warmup {pool.warmup}",
            folios=pool.buffers,
            tiering=DAMON,
        )
        for pool in plan.left_pools
        for engine in engines
    ]


def _arenas(plan: Plan, engines: Sequence[str]) -> list[Cell]:
    """The application's own copy needs no engine, so it is made on one kernel alone."""
    return [
        Cell(
            *("arena", f"arena, {arena.mover}", arena.folio, engine),
            f"of_folios {parse_size(arena.folio)} arena --items {arena.folios} --by {arena.mover} "
            f"--moves {plan.arena_moves}",
            folios=arena.folios,
            rival="arena, move_pages",
        )
        for arena in plan.arenas
        for engine in (engines if arena.mover == "move_pages" else engines[:1])
    ]


def script(cell: Cell) -> str:
    libraries = ("redis.sh", "tier.sh", *(("damon.sh",) if cell.tiering == DAMON else ()))
    lines = [
        *((qemu.GUEST / name).read_text() for name in libraries),
        f"step {shlex.quote(str(cell))}",
        clients.engine_line(cell.engine, CHANNELS, DEPTH),
        *(f"echo {value} >{setting_file(name)}" for name, value in cell.settings),
        cell.script,
    ]
    return "\n".join(lines)


def programs(application: str) -> dict[str, Path]:
    """What a guest has: nothing that another cell needs, so that no cell depends on what else is measured."""
    packages.ensure(PACKAGES)
    folder = paths.ROOT / "bench/tierbench"
    proc.run(["make", "-C", folder], title="build tierbench")
    paths_in_guest = {"bin/tierbench": folder / "tierbench"}
    if application == "redis":
        packages.ensure(clients.PACKAGES)
        paths_in_guest |= clients.with_libraries(clients.PROGRAMS)
    return paths_in_guest


def measure(
    machine: Machine, chosen: Sequence[Cell], store: Store | None = None
) -> tuple[list[Record], dict[str, str]]:
    """Each cell in a boot of its own. Returns what was found, in order, and the kernels' releases.

    Raises FerryError if a byte is wrong, or nothing was promoted or demoted; DAMON may find one of it alone.
    """
    files = {name: programs(name) for name in {cell.application for cell in chosen}}

    def boot(cell: Cell) -> Boot:
        job = qemu.Job(script(cell), TIMEOUT_S, programs=files[cell.application])
        return Boot(str(cell), rows.flavour(cell.engine), machine, job)

    def parsed(index: int, said: Said) -> Record:
        return parse(said.text, chosen[index], said.record)

    title = f"tier memory in {len(chosen)} VMs ({machine.name})"
    found, kernels = boots.run(title, [*map(boot, chosen)], parsed, store)
    return with_ratios(chosen, found), kernels


def parse(said: str, cell: Cell, record: str = "") -> Record:
    """What a guest has recorded, if all bytes are right and memory has moved. Raises FerryError otherwise."""
    figures = records.of(said, "tier")["found"]
    wrong = {name: figures[name] for name in ("mismatches", "misplaced", "left") if figures.get(name)}
    if wrong or not figures["verified_bytes"]:
        raise FerryError(f"{cell}: {wrong}, {figures['verified_bytes']} bytes verified")
    moves = [figures.get(way) for way in ("promoted", "demoted")]
    if cell.application != "arena" and not (any if cell.tiering == DAMON else all)(moves):
        raise FerryError(f"{cell}: {figures['promoted']} promoted, {figures['demoted']} demoted")
    if cell.folio != "4K" and (large := records.of(said, "large")["folios"]) < cell.folios:
        raise FerryError(f"{cell}: {large} large folios instead of {cell.folios}")
    what: Record = {"case": cell.case, "folio": cell.folio, "engine": cell.engine}
    what |= {"tiering": cell.tiering} if cell.tiering == DAMON else {}
    what |= {"channels": cell.channels} if cell.channels else {}
    what |= {"settings": dict(cell.settings)} if cell.settings else {}
    if cell.tiering == DAMON:
        # The kernel counts pages.
        moved = {name: figures[name] * PAGE // parse_size(cell.folio) for name in ("promoted", "demoted")}
        figures = figures | moved
    what |= figures | _of_moves(cell, figures, said)
    return what | ({"records": [record]} if record else {})


def _of_moves(cell: Cell, figures: dict[str, Any], said: str) -> dict[str, float]:
    """The CPU's time for each folio: in the caller's moves, or in migrate_pages() as it was traced."""
    if cell.application == "redis" or cell.tiering == DAMON:
        traced = records.of(said, "migration")["found"]
        if not traced["pages"]:
            raise FerryError(f"{cell}: nothing has moved while migrate_pages() was traced")
        thread = "kdamond" if cell.tiering == DAMON else "kswapd"
        folios = traced["pages"] * PAGE / parse_size(cell.folio)
        return {
            "move_us_per_folio": traced["ns"] / folios / 1e3,
            "pages_per_call": traced["pages"] / traced["calls"],
            f"{thread}_ms": figures[f"{thread}_ns"] / 1e6,
        }
    if cell.application == "arena":
        moved = cell.folios * len(figures["moves"])
    else:
        moved = figures["promoted"] + figures["demoted"]
    return {"move_us_per_folio": figures["move_ns"] / moved / 1e3, "move_ms": figures["move_ns"] / 1e6}


def with_ratios(chosen: Sequence[Cell], found: Sequence[Record]) -> list[Record]:
    """Each with its ratio to vanilla in the same case, or in that of its rival."""
    pairs = [*zip(chosen, found, strict=True)]
    vanillas = {(cell.case, cell.folio): row for cell, row in pairs if cell.engine == rows.VANILLA}
    compared = []
    for cell, row in pairs:
        vanilla = vanillas.get((cell.rival or cell.case, cell.folio))
        ratio = speed(row) / speed(vanilla) if vanilla else None
        told = {"ratio": ratio, "gain": gain(ratio) if ratio and vanilla is not row else None}
        compared.append(row | {name: value for name, value in told.items() if value is not None})
    return compared


def gain(ratio: float) -> str:
    """Whether an application is served better than on vanilla, in words."""
    percent = (ratio - 1) * 100
    return f"{percent:+.1f} %" if percent >= GAIN_PERCENT else f"nothing ({percent:+.1f} %)"
