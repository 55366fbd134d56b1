# SPDX-License-Identifier: GPL-2.0
"""Ferry's state as OpenMetrics text, for a file that node_exporter's textfile collector reads.

That collector reads the older text format of Prometheus: so there are gauges and counters only, which both
have. Inaccessible time is a counter with the label le, as a histogram's buckets have it: histogram_quantile()
takes it, and no sum of all times has to be made up, for the kernel keeps none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ferryctl_check import PROBLEMS, Finding
from ferryctl_machine import NONE, System
from ferryctl_status import CAUSES, MAPPED, status

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """One metric, with all of its samples."""

    name: str  # of a counter without _total
    kind: str
    means: str
    samples: tuple[tuple[Labels, int], ...]

    def lines(self) -> Iterator[str]:
        """As text."""
        suffix = "_total" if self.kind == "counter" else ""
        yield f"# TYPE {self.name} {self.kind}"
        yield f"# HELP {self.name} {self.means}"
        for labels, value in self.samples:
            words = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            yield f"{self.name}{suffix}{f'{{{words}}}' if words else ''} {value:d}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def render(families: Iterable[Family]) -> str:
    """All of it; a metric without a sample is left out."""
    lines = [line for family in families if family.samples for line in family.lines()]
    return "\n".join([*lines, "# EOF", ""])


def families(system: System, findings: list[Finding], version: str) -> list[Family]:
    """What there is to tell, on a kernel with Ferry and on one without."""
    wrong = Counter(finding.problem for finding in findings)
    always = [
        _gauge("ferry_kernel", "1 if the kernel that runs has Ferry.", {"": int(system.has_ferry)}),
        Family(
            "ferry_running", "gauge", "Always 1; its labels are the kernel and the version of ferryctl.",
            (({"kernel": system.release, "ferryctl": version}, 1),),
        ),
        _gauge("ferry_problem", "What 'ferryctl check' finds wrong: how often.",
               {name: wrong[name] for name in PROBLEMS}, "problem"),
    ]  # fmt: skip
    return [*always, *_of_ferry(status(system))] if system.has_ferry else always


def _of_ferry(state: Mapping[str, Any]) -> list[Family]:
    stats, engines = state["stats"], state["engines"]
    states = Counter(channel.get("state", "") for channel in state["channels"] or [])
    numbers = {name: int(value) for name, value in state["settings"].items() if value.isdigit()}
    active = {name: int(name == state["active"]) for name in [NONE, *state["available"]]}
    service = {} if state["in_service"] is None else {state["active"]: int(state["in_service"])}
    causes = {name: stats[name] for name in CAUSES if name in stats}
    return [
        _gauge("ferry_engine_active", "1 for the engine that copies.", active, "engine"),
        _gauge("ferry_engine_in_service", "1 if the active engine takes copies.", service, "engine"),
        *(
            _counter(f"ferry_engine_{key}", means, _by_name(engines, key), "engine")
            for key, means in ENGINE_COUNTERS.items()
        ),
        _gauge("ferry_engine_overdue_copies", "Copies that missed the deadline and have not ended.",
               _by_name(engines, "overdue"), "engine"),
        _gauge("ferry_dma_channels", "Channels of dcbm by state; not without root.", dict(states), "state"),
        *(
            _counter(f"ferry_{key}", means, {"": stats[key]})
            for key, means in COUNTERS.items()
            if key in stats
        ),
        _counter("ferry_not_copied_folios", "Folios not copied by the engine, by cause.", causes, "cause"),
        _gauge("ferry_window_max_pages", "Most pages that one call had unmapped at one moment.",
               {"": stats["window_max_pages"]} if "window_max_pages" in stats else {}),
        _gauge("ferry_setting", "Settings that are numbers; 0: the kernel chooses.", numbers, "name"),
        _counter("ferry_inaccessible_folios", "Folios by inaccessible time, less than le seconds.",
                 _cumulative(state["inaccessible_us"]), "le"),
        *(
            _counter(f"ferry_{key}", f"Large folios, by size in KiB: {means}.",
                     _by_name(state["copied_mapped"], key), "kib")
            for key, means in MAPPED.items()
        ),
    ]  # fmt: skip


ENGINE_COUNTERS = {
    "folios": "Folios that the engine copied and that moved.",
    "bytes": "The same in bytes.",
    "errors": "Folios whose copies the engine failed.",
}
COUNTERS = {
    "calls": "Calls of migrate_pages() that used an engine.",
    "folios": "Folios that an engine copied and that moved.",
    "bytes": "The same in bytes.",
    "quarantined_bytes": "Memory that was given up, since a stuck engine may write there.",
}


def _by_name(engines: Mapping[str, Mapping[str, int]], key: str) -> dict[str, int]:
    return {name: counters[key] for name, counters in engines.items() if key in counters}


def _cumulative(buckets: Mapping[str, int]) -> dict[str, int]:
    """As Prometheus has buckets: each also counts what is in those before it."""
    out, total = {}, 0
    for bound, count in buckets.items():
        total += count
        out["+Inf" if bound == "inf" else f"{int(bound) / 1e6:g}"] = total
    return out


def _samples(values: Mapping[str, int], label: str) -> tuple[tuple[Labels, int], ...]:
    return tuple(({label: key} if label else {}, value) for key, value in values.items())


def _gauge(name: str, means: str, values: Mapping[str, int], label: str = "") -> Family:
    return Family(name, "gauge", means, _samples(values, label))


def _counter(name: str, means: str, values: Mapping[str, int], label: str = "") -> Family:
    return Family(name, "counter", means, _samples(values, label))
