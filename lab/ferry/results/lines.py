# SPDX-License-Identifier: GPL-2.0
"""The records that kept results are made of: what each guest said, in a compressed file beside the result.

They are there to be looked at. No run takes one of them for its own: that looks into out/records alone.
"""

import json
import lzma
from collections.abc import Iterable
from pathlib import Path

from ferry.errors import FerryError
from ferry.results import compare
from ferry.results.compare import Json
from ferry.vm import store

FOLDER = "records"
SUFFIX = ".jsonl.xz"


def place(result: Path) -> Path:
    """Where the records of a kept result are; result: its path."""
    return result.parent / FOLDER / f"{result.stem}{SUFFIX}"


def names(result: Json) -> list[str]:
    """Of all records that the cells of a result name, each once."""
    return sorted({name for cell in compare.cells(result) for name in cell.get("records", ())})


def kept(result: Path) -> dict[str, str]:
    """The records of a kept result by their names, each a line of JSON; none if they are not there."""
    try:
        text = lzma.decompress(place(result).read_bytes()).decode()
    except FileNotFoundError:
        return {}
    return {json.loads(line)["name"]: line for line in text.splitlines()}


def of(result: Path, wanted: Iterable[str]) -> bytes:
    """What is to be in the file of a result: each of the wanted records, from out/records or the file that
    there is. Raises FerryError if one is in neither."""
    before = kept(result)
    lines = []
    for name in wanted:
        record = store.load(name)
        line = json.dumps(record) if record else before.get(name)
        if line is None:
            raise FerryError(f"{result.stem}: record {name} is lost: measure it again, with --anew")
        lines.append(f"{line}\n")
    return lzma.compress("".join(lines).encode(), preset=9)
