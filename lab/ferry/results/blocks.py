# SPDX-License-Identifier: GPL-2.0
"""Blocks of kept figures: how they are written, and those that are of no published table."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ferry.results import present
from ferry.results.compare import Json
from ferry.results.grid import Grid
from ferry.results.present import Show, number, several

Results = Mapping[str, Json]  # kept ones, by their names
Block = Callable[[Results], str]

IOMMU = "iommu-7.3"  # of one base, as out/iommu.json is
MOST_CHANNELS = 16  # of the emulated server


def folio(kib: int) -> str:
    return f"{kib // 1024} MiB" if kib % 1024 == 0 else f"{kib} KiB"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return Grid("", head, rows).markdown()


ratio = number("ratio", ".2f")
first = number("first_folio_us")
away = several("inaccessible_us", ("p50", "p99"))


def lines(cells: Iterable[Json], columns: Mapping[str, Show]) -> str:
    """A table with a line for each cell."""
    return table([*columns], [[show(cell) for show in columns.values()] for cell in cells])


def by_engine(cells: Iterable[Json], *keys: str) -> dict[Any, dict[str, Json]]:
    """What engines have beside each other, by what else a cell has: one thing, or several."""
    groups: dict[Any, dict[str, Json]] = {}
    for cell in cells:
        values = tuple(cell[key] for key in keys)
        groups.setdefault(values if len(keys) > 1 else values[0], {})[cell["engine"]] = cell
    return groups


def origin(result: Json) -> str:
    """When, and of what Ferry and Linux: for the sentence beside a table."""
    made = result["provenance"]
    return f"{made['date'][:10]}, commit {made['commit']}, Linux {release(result)}"


def release(result: Json) -> str:
    releases = (kernel["release"].partition("-")[0] for kernel in result["provenance"]["kernels"].values())
    return ", ".join(dict.fromkeys(releases))


def no_engine(kept: Results) -> str:
    result = kept["no-engine"]
    rows = [
        [
            folio(kib),
            *(f"{4096 / engines[name]['gbps']:,.0f}" for name in ("vanilla", "none")),
            *(ratio(engines[name]) for name in ("none", "cpu")),
            *(away(engines[name]) for name in ("vanilla", "none", "cpu")),
        ]
        for kib, engines in by_engine(result["runs"], "folio_kib").items()
    ]
    head = (
        *("folio", "instructions per page: vanilla", "Ferry, no engine", "ratio", "ratio with `cpu` active"),
        *("inaccessible, median / 99th, us: vanilla", "no engine", "`cpu` active"),
    )
    return f"{origin(result)}:\n\n{table(head, rows)}"


def cost(kept: Results) -> str:
    result = kept["cost"]
    rows = [
        [
            *(caller, folio(kib), f"{engines['none']['vanilla']:,.0f}"),
            *(f"{cost['instructions']:,.0f} ({cost['percent']:+.1f} %)" for cost in engines.values()),
            f"{engines['none']['limit_percent']:+.1f} %, {engines['cpu']['limit_percent']:+.1f} %",
        ]
        for (caller, kib), engines in by_engine(result["costs"], "case", "folio_kib").items()
    ]
    head = ("caller", "folio", "vanilla", "Ferry, no engine", "`cpu` active", "limits")
    return f"{origin(result)}, instructions per folio:\n\n{table(head, rows)}"


def demo(kept: Results) -> str:
    result = kept["demo"]
    columns = {
        **{"folio": lambda row: folio(row["folio_kib"]), "engine": present.engine},
        **{"GB/s": number("gbps", ".2f"), "ratio": ratio, "first folio, us": first},
        "inaccessible, median / 99th, us": away,
        "caller's CPU, ns per page": number("cpu_ns_per_page"),
    }
    rounds = result["runs"][0]["runs"]
    return (
        f"One `make demo` of {origin(result)}, on {result['provenance']['cpus']} emulated CPUs, "
        f"medians of {rounds} boots of each kernel:\n\n{lines(result['runs'], columns)}"
    )


def clients(kept: Results) -> str:
    result = kept["redis"]
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
    return f"{origin(result)}:\n\n{lines(result['cells'], columns)}"


def tier(kept: Results, application: str) -> str:
    """The cells of one application, with what it has; or of all whose memory DAMON has moved."""
    result = kept["tier"]
    cells = [cell for cell in result["cells"] if application == _tier_block(cell)]
    if not cells:
        return f"{origin(result)}: not measured."
    # Not of COLUMNS, where a step of a migration is called as the engine is
    columns = dict((*present.CLIENTS, *present.TIERS, *present.WORDS)) | {
        "application": lambda cell: cell["case"].partition(",")[0],
        "buffers a call": lambda cell: cell["case"].partition(", ")[2].removesuffix(" buffers a call"),
        "moved by": lambda cell: cell["case"].partition(", ")[2],
        "ratio": ratio,
    }
    shown = {name: columns[name] for name in TIER_COLUMNS[application]}
    return f"{origin(result)}:\n\n{lines(cells, shown)}"


def _tier_block(cell: Json) -> str:
    return str(cell.get("tiering") or cell["case"].partition(",")[0])


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
    "damon": (
        *("application", "folio", "engine", "requests/s", "gains", "99.9th, us", "longest, us"),
        *("promoted", "demoted", "DAMON's CPU, ms", "CPU a folio moved, us", "pages a call"),
    ),
}


def steps(kept: Results) -> str:
    result = kept["profile"]
    profiles = result["profiles"]
    vanilla = next(
        profile for profile in profiles if (profile["folio_kib"], profile["engine"]) == (4, "vanilla")
    )
    steps = sorted(vanilla["steps"].items(), key=lambda step: -step[1])
    parts = [f"{name} {count:,.0f}" for name, count in steps if count >= 1]
    whole = f"{vanilla['instructions']:,.0f} for a folio of 4 KiB"
    return f"{origin(result)}, of vanilla's {whole}: {', '.join(parts)}."


def profile(kept: Results) -> str:
    """Instructions of each step, but for 16 KiB, for which a page has no room."""
    result = kept["profile"]
    profiles = [profile for profile in result["profiles"] if profile["folio_kib"] != 16]
    names = {"none": "no engine", "dcbm": f"{MOST_CHANNELS} channels"}
    head = [
        "step",
        *(
            f"{folio(profile['folio_kib'])}: {names.get(profile['engine'], profile['engine'])}"
            for profile in profiles
        ),
    ]
    rows = [
        [step, *(f"{profile['steps'][step]:,.0f}" for profile in profiles)] for step in profiles[0]["steps"]
    ]
    rows.append(["all", *(f"{profile['instructions']:,.0f}" for profile in profiles)])
    return f"{origin(result)}, instructions per folio:\n\n{table(head, rows)}"


def campaign(kept: Results) -> str:
    """What each class of trouble moved, and how much of it the engine; and the sums."""
    result = kept["torture"]
    columns = {name: show for name, show in present.TESTS if name in CAMPAIGN_COLUMNS}
    rows = [
        [f"`{outcome['name']}`", *(show(outcome) for show in columns.values())]
        for outcome in result["classes"]
    ]
    told = [outcome["figures"] for outcome in result["classes"] if outcome["figures"]]
    sums = {"figures": {name: sum(figures[name] for figures in told) for name in told[0]}}
    rows.append(["all", *("" if name == "struck" else show(sums) for name, show in columns.items())])
    verdicts = Counter(outcome["verdict"] for outcome in result["classes"])
    ended = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    return f"{origin(result)}; classes: {ended}.\n\n{table(['class', *columns], rows)}"


CAMPAIGN_COLUMNS = (
    *("s", "folios moved", "by engine", "struck", "MiB verified"),
    *("kind", "refs", "busy", "error", "left", "KiB kept"),
)


def iommu_costs(kept: Results) -> str:
    """Instructions of each loop, and how many more than vanilla's they are."""
    result = kept[IOMMU]
    base = release(result)
    columns: dict[str, Show] = {
        "instructions per map and unmap": present.words("case"),
        f"{base}, vanilla": number("vanilla"),
        f"{base}, Ferry": lambda cell: f"{cell['instructions']:,.0f} ({cell['percent']:+.2f} %)",
    }
    return f"{origin(result)}:\n\n{lines(result['costs'], columns)}"


def iommu_memory(kept: Results) -> str:
    """KiB in page tables when all is unmapped, and at the most on the way."""
    result = kept[IOMMU]
    base = release(result)
    columns: dict[str, Show] = {
        "KiB in page tables, left / peak": present.words("case"),
        f"{base}, vanilla": several("vanilla_kib", ("left", "peak")),
        f"{base}, Ferry": several("kib", ("left", "peak")),
    }
    return f"{result['iova_gib']} GiB of addresses:\n\n{lines(result['tables'][0]['cells'], columns)}"


BLOCKS: dict[str, Block] = {
    "no-engine": no_engine,
    "cost": cost,
    "demo": demo,
    "clients": clients,
    **{f"tier-{name}": functools.partial(tier, application=name) for name in TIER_COLUMNS},
    "steps": steps,
    "profile": profile,
    "campaign": campaign,
    "iommu-costs": iommu_costs,
    "iommu-memory": iommu_memory,
}
