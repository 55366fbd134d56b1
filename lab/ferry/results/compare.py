# SPDX-License-Identifier: GPL-2.0
"""What differs between two results: where they come from, which cells they have, and each figure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ferry.errors import FerryError

Json = dict[str, Any]
MOST_SHOWN = 20  # of what differs between two runs

# Where results keep what was measured, a cell each.
LISTS = ("cells", "runs", "profiles", "costs", "classes", "tests", "steps")
# What a cell is, and not what was found of it.
WORDS = (
    *("test", "name", "step", "caller", "case", "call", "memory", "folio", "folio_kib", "engine", "kernel"),
    *("channels", "threads", "busy", "folios_per_call", "batch_pages", "settings", "write_rate"),
    *("parameter", "value", "folios", "bytes"),
)
# Neither: how often it was measured, what others have posted, where it is kept.
ASIDE = ("runs", "records", "fitted", "functions", "verified_bytes")


@dataclass(frozen=True)
class Difference:
    """A figure of a cell that both results have, A and B."""

    cell: str
    figure: str
    a: float | None
    b: float | None

    @property
    def percent(self) -> float | None:
        """How much more B has; None if one of them has no such figure, or nothing."""
        return (self.b / self.a - 1) * 100 if self.a and self.b is not None else None


def parts(result: Json) -> list[Json]:
    """A result, and those that are within it."""
    return [result, *result.get("tables", []), *filter(None, [result.get("headline")])]


def lists(result: Json) -> list[list[Json]]:
    """The lists of cells that a result has, without those within it."""
    return [result[name] for name in LISTS if result.get(name)]


def cells(result: Json) -> list[Json]:
    return [cell for part in parts(result) for some in lists(part) for cell in some]


def name(cell: Json) -> str:
    """What is measured, in words."""
    return ", ".join(f"{word} {cell[word]}" for word in WORDS if cell.get(word) not in (None, "", 0))


def figures(cell: Json) -> dict[str, float]:
    """All numbers of a cell that were measured, those within lists and objects by their path."""
    plain = {key: value for key, value in cell.items() if key not in (*WORDS, *ASIDE)}
    numbers = ((path, value) for path, value in _leaves(plain) if type(value) in (int, float))
    return {".".join(path): value for path, value in numbers if not path[0].startswith("published")}


def _leaves(
    value: Any, path: tuple[str, ...] = (), lists: bool = True
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What is within objects, and within lists unless these are to stay whole, each with its path."""
    if isinstance(value, Mapping):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif lists and isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        yield path, value
        return
    for key, inner in items:
        yield from _leaves(inner, (*path, str(key)), lists)


def differences(first: Sequence[Json], second: Sequence[Json]) -> list[Difference]:
    """Each figure that is not the same in both, of the cells that both have."""
    named = {name(cell): cell for cell in second}
    differing = []
    for cell in first:
        if twin := named.get(name(cell)):
            before, after = figures(cell), figures(twin)
            differing += [
                Difference(name(cell), key, before.get(key), after.get(key))
                for key in before | after
                if before.get(key) != after.get(key)
            ]
    return differing


def must_be_same(first: Sequence[Json], second: Sequence[Json]) -> None:
    """Raise FerryError, naming what differs, unless the cells of two runs have the same figures."""
    lines = [f"{each.cell}: {each.figure} {each.a} and {each.b}" for each in differences(first, second)]
    lines += [f"{cell}: in one run alone" for cell in (*only(first, second), *only(second, first))]
    if lines:
        shown = "".join(f"\n  {line}" for line in lines[:MOST_SHOWN])
        raise FerryError(
            f"two runs differ in {len(lines)} figures: something in the VM depends on the host{shown}"
        )


def only(first: Sequence[Json], second: Sequence[Json]) -> list[str]:
    names = {name(cell) for cell in second}
    return [name(cell) for cell in first if name(cell) not in names]


def origins(first: Json, second: Json) -> list[tuple[str, str, str]]:
    """What differs of where they come from: kernels, host, machine, commit, date."""
    before, after = (
        {", ".join(path): str(value) for path, value in _leaves(result.get("provenance", {}), lists=False)}
        for result in (first, second)
    )
    return [
        (key, before.get(key, "-"), after.get(key, "-"))
        for key in before | after
        if before.get(key) != after.get(key)
    ]
