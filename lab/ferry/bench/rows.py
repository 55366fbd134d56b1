# SPDX-License-Identifier: GPL-2.0
"""One row of a result: what migbench said of one configuration, in the form that out/demo.json keeps."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ferry.errors import FerryError

VANILLA = "vanilla"
PERCENTILES = ("p50", "p99", "max")
SPREADS = ("inaccessible_us", "write_wait_us", "fault_us")  # figures that have these


def flavour(engine: str) -> str:
    """The kernel that an engine runs on."""
    return "vanilla" if engine == VANILLA else "ferry"


@dataclass(frozen=True)
class Row:
    """A measured configuration. The names are those of the JSON; GB is 10^9 bytes, medians over runs
    (of several rounds: over the rounds' medians)."""

    call: str
    memory: str
    folio_kib: int
    engine: str
    channels: int
    bytes: int
    runs: int
    threads: int
    busy: int
    folios_per_call: int  # 0: all in one call
    gbps: float
    gbps_min: float
    gbps_max: float
    ratio: float | None  # to vanilla in the same run; None if vanilla was not asked for
    first_folio_us: float | None
    inaccessible_us: dict[str, float | None]  # p50, p99, max
    cpu_ns_per_page: float
    verified_bytes: int
    # Results that were kept from before have none of these.
    minor_faults_per_folio: float | None = None  # of the whole process, its writers included
    tlb_shootdowns_per_folio: float | None = None  # interrupts of the whole machine
    writes: int = 0  # that were made, in all runs
    write_wait_us: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(PERCENTILES))
    fault_us: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(PERCENTILES))
    records: tuple[str, ...] = ()  # what it was made of, by their names in the store

    @property
    def setting(self) -> tuple[object, ...]:
        """What rows must share to be compared."""
        how = (self.threads, self.busy, self.folios_per_call)
        return (self.call, self.memory, self.folio_kib, self.bytes, *how)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def from_migbench(row: dict[str, Any], engine: str, channels: int) -> Row:
    """What migbench found. Raises FerryError unless all bytes arrived and were verified."""
    try:
        if not row["passed"] or row["mismatched_bytes"] or not row["verified_bytes"]:
            raise FerryError(f"{engine}: {row['mismatched_bytes']} bytes differ after the move: {row}")
        spreads: dict[str, Any] = {
            name: {key: row.get(name, {}).get(key) for key in PERCENTILES} for name in SPREADS
        }
        return Row(
            **{key: row[key] for key in ("call", "memory", "folio_kib", "bytes", "threads", "busy")},
            **{key: row[key] for key in ("gbps", "gbps_min", "gbps_max", "cpu_ns_per_page")},
            **{key: row[key] for key in ("minor_faults_per_folio", "tlb_shootdowns_per_folio")},
            engine=engine,
            channels=channels,
            runs=len(row["runs"]),
            folios_per_call=row["per_call"],
            ratio=None,
            first_folio_us=row.get("first_folio_us"),
            writes=row.get("write_wait_us", {}).get("samples", 0),
            **spreads,
            verified_bytes=row["verified_bytes"],
        )
    except (KeyError, TypeError) as err:
        raise FerryError(f"{engine}: migbench's JSON is not as expected ({err!r}): {row}") from err


# What a row has of several rounds: medians of their figures, sums of what was counted in each.
MEDIANS = (
    *("gbps", "first_folio_us", "cpu_ns_per_page"),
    *("minor_faults_per_folio", "tlb_shootdowns_per_folio"),
)
SUMS = ("runs", "writes", "verified_bytes")


def over_rounds(rows: Iterable[Row]) -> list[Row]:
    """One row for all that measured the same."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.setting, row.engine, row.channels), []).append(row)
    return [_over_rounds(rounds) for rounds in groups.values()]


def _median(figures: Iterable[float | None]) -> float | None:
    measured = [figure for figure in figures if figure is not None]
    return statistics.median(measured) if measured else None


def _percentiles(rounds: list[dict[str, float | None]]) -> dict[str, float | None]:
    """Medians of the rounds' percentiles; the longest of all rounds."""
    longest = [figures["max"] for figures in rounds if figures["max"] is not None]
    middle = {key: _median(figures[key] for figures in rounds) for key in ("p50", "p99")}
    return middle | {"max": max(longest, default=None)}


def _over_rounds(rounds: list[Row]) -> Row:
    figures: dict[str, Any] = {name: _median(getattr(row, name) for row in rounds) for name in MEDIANS}
    figures |= {name: sum(getattr(row, name) for row in rounds) for name in SUMS}
    figures |= {name: _percentiles([getattr(row, name) for row in rounds]) for name in SPREADS}
    return replace(
        rounds[0],
        **figures,
        gbps_min=min(row.gbps_min for row in rounds),
        gbps_max=max(row.gbps_max for row in rounds),
        records=tuple(name for row in rounds for name in row.records),
    )


def with_ratios(rows: Iterable[Row]) -> list[Row]:
    """The rows by folio size and setting, vanilla first in each group, each with its ratio to vanilla."""
    rows = list(rows)
    vanilla = {row.setting: row.gbps for row in rows if row.engine == VANILLA}
    ordered = sorted(rows, key=lambda row: (row.folio_kib, row.engine != VANILLA))
    return [
        replace(row, ratio=row.gbps / vanilla[row.setting] if row.setting in vanilla else None)
        for row in ordered
    ]


# What is said of all starts of a machine: the first of these that a cell has.
RANGED = ("ratio", "percent", "lost_ms_per_move", "instructions", "gbps")


def with_range(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A cell as its first state has it, with the least and the greatest figure of all states."""
    cell = states[0]
    name = next((name for name in RANGED if cell.get(name) is not None), "")
    if len(states) < 2 or not name:
        return cell
    figures = [state[name] for state in states]
    passed = {"passed": all(state["passed"] for state in states)} if "passed" in cell else {}
    made_of = {"records": [name for state in states for name in state.get("records", ())]}
    return (
        cell
        | {f"{name}_range": (min(figures), max(figures))}
        | passed
        | (made_of if cell.get("records") else {})
    )
