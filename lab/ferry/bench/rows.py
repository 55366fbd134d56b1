# SPDX-License-Identifier: GPL-2.0
"""One row of a result: what migbench said of one configuration, in the form that out/demo.json keeps."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ferry.errors import FerryError

VANILLA = "vanilla"
PERCENTILES = ("p50", "p99", "max")


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
    records: tuple[str, ...] = ()  # what it was made of, by their names in the store

    @property
    def setting(self) -> tuple[object, ...]:
        """What rows must share to be compared."""
        how = (self.threads, self.busy, self.folios_per_call)
        return (self.call, self.memory, self.folio_kib, self.bytes, *how)

    def as_json(self) -> dict[str, Any]:
        """The row as JSON."""
        return asdict(self)


def from_migbench(found: dict[str, Any], engine: str, channels: int) -> Row:
    """What migbench found. Raises FerryError unless all bytes arrived and were verified."""
    try:
        if not found["passed"] or found["mismatched_bytes"] or not found["verified_bytes"]:
            raise FerryError(f"{engine}: {found['mismatched_bytes']} bytes differ after the move: {found}")
        away, waits = found.get("inaccessible_us", {}), found.get("write_wait_us", {})
        return Row(
            **{key: found[key] for key in ("call", "memory", "folio_kib", "bytes", "threads", "busy")},
            **{key: found[key] for key in ("gbps", "gbps_min", "gbps_max", "cpu_ns_per_page")},
            **{key: found[key] for key in ("minor_faults_per_folio", "tlb_shootdowns_per_folio")},
            engine=engine,
            channels=channels,
            runs=len(found["runs"]),
            folios_per_call=found["per_call"],
            ratio=None,
            first_folio_us=found.get("first_folio_us"),
            inaccessible_us={key: away.get(key) for key in PERCENTILES},
            writes=waits.get("samples", 0),
            write_wait_us={key: waits.get(key) for key in PERCENTILES},
            verified_bytes=found["verified_bytes"],
        )
    except (KeyError, TypeError) as err:
        raise FerryError(f"{engine}: migbench's JSON is not as expected ({err!r}): {found}") from err


def over_rounds(rows: Iterable[Row]) -> list[Row]:
    """One row for all that measured the same: medians of their figures, the extremes of all runs."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.setting, row.engine, row.channels), []).append(row)
    return [_over_rounds(group) for group in groups.values()]


def _median(figures: Iterable[float | None]) -> float | None:
    known = [each for each in figures if each is not None]
    return statistics.median(known) if known else None


def _percentiles(group: list[dict[str, float | None]]) -> dict[str, float | None]:
    """Medians of the rounds' percentiles; the longest of all rounds."""
    longest = [each["max"] for each in group if each["max"] is not None]
    middle = {key: _median(each[key] for each in group) for key in ("p50", "p99")}
    return middle | {"max": max(longest, default=None)}


def _over_rounds(group: list[Row]) -> Row:
    return replace(
        group[0],
        runs=sum(each.runs for each in group),
        gbps=statistics.median(each.gbps for each in group),
        gbps_min=min(each.gbps_min for each in group),
        gbps_max=max(each.gbps_max for each in group),
        first_folio_us=_median(each.first_folio_us for each in group),
        inaccessible_us=_percentiles([each.inaccessible_us for each in group]),
        cpu_ns_per_page=statistics.median(each.cpu_ns_per_page for each in group),
        minor_faults_per_folio=_median(each.minor_faults_per_folio for each in group),
        tlb_shootdowns_per_folio=_median(each.tlb_shootdowns_per_folio for each in group),
        writes=sum(each.writes for each in group),
        write_wait_us=_percentiles([each.write_wait_us for each in group]),
        verified_bytes=sum(each.verified_bytes for each in group),
        records=tuple(name for each in group for name in each.records),
    )


def with_ratios(rows: Iterable[Row]) -> list[Row]:
    """The rows by folio size and setting, vanilla first in each group, each with its ratio to vanilla."""
    rows = list(rows)
    base = {row.setting: row.gbps for row in rows if row.engine == VANILLA}
    ordered = sorted(rows, key=lambda row: (row.folio_kib, row.engine != VANILLA))
    return [
        replace(row, ratio=row.gbps / base[row.setting] if row.setting in base else None) for row in ordered
    ]
