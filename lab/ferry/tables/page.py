# SPDX-License-Identifier: GPL-2.0
"""All tables in one HTML page, each with its plot: made from kept JSON alone, without measuring again."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Container
from pathlib import Path

from ferry import files, paths
from ferry.tables import experiments, plots, show
from ferry.tables.show import Json

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Ferry: published tables, repeated</title>
<style>
body { font: 15px/1.45 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px }
th, td { padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd }
th { border-bottom: 2px solid #888 } td:nth-child(-n+2), th:nth-child(-n+2) { text-align: left }
tr.vanilla, tr.none { background: #f2f2f2 } tr.ferry { font-weight: bold }
tr.first td { border-top: 2px solid #888 }
img { max-width: 100% } dl { display: grid; grid-template-columns: max-content auto; gap: 0 1em }
dt { color: #666 } dd { margin: 0 }
</style></head><body>
<h1>Ferry: published tables, repeated</h1>
<p>Each table says where it was measured, and whether its time is virtual or wall time. In virtual time,
on an emulated server, one instruction is one nanosecond, and a copy by the engine takes modelled time.
Compare ratios to vanilla, never GB/s, with another machine.
<b>dma</b> is the earlier design (unmap a batch, copy it all with whole folios for each channel, wait,
remap), made by Ferry's own kernel with such settings; <b>ferry</b> is Ferry as it is set by default;
<b>cpu</b> copies each batch with the CPU. A machine that was measured itself
has no vanilla: <b>none</b> is Ferry's kernel without an engine, which batches page tables.
"Of all starts" is the least and the greatest ratio where each cell was measured several times, on machines
that begin otherwise: other random numbers, other memory in use. All else is of the first.
A posted ratio has the standard deviation that follows from those that were posted.
"Residual" is how much the measured ratio exceeds the published one; where it says "fitted", the engine's
parameters were chosen to make it small, everywhere else it tests them.
Every byte that was moved was verified.</p>
@BODY@
</body></html>
"""


def _section(result: Json, picture: bytes) -> str:
    shown = show.columns(result)
    head = "".join(f"<th>{html.escape(name)}</th>" for name, _ in shown)
    rows, before = [], None
    for cell in result["cells"]:
        kind = f"{cell['engine']}{'' if cell['folio_kib'] == before else ' first'}"
        before = cell["folio_kib"]
        data = "".join(f"<td>{html.escape(text(cell))}</td>" for _, text in shown)
        rows.append(f'<tr class="{kind}">{data}</tr>')
    source = result["source"]
    link = f'<a href="{html.escape(source["link"])}">{html.escape(source["title"])}</a>'
    image = base64.b64encode(picture).decode()
    return (
        f"<h2>{html.escape(show.title(result))}</h2>\n"
        f"<p>Published: {link}, {html.escape(source['author'])}; {html.escape(source['machine'])}.</p>\n"
        f"<p>{_clock(result)} {html.escape(result['note'])}</p>\n"
        f'<img alt="plot of {result["table"]}" src="data:image/png;base64,{image}">\n'
        f"<table><tr>{head}</tr>\n" + "\n".join(rows) + "</table>\n" + _facts(result)
    )


def _clock(result: Json) -> str:
    if result["provenance"]["time"] == "virtual":
        return "Virtual time: every run gives these figures."
    return "Wall time: it differs from run to run."


def _facts(result: Json) -> str:
    """What a reader needs to measure it again."""
    states = result.get("states", 1)
    profile = result["profile"].removesuffix(experiments.ONE_BY_ONE)
    usual = (experiments.HERE, experiments.get(result["table"]).profile)
    flags = [
        (f"--profile {profile}", profile not in usual),
        ("--quick", result["quick"]),
        ("--here", show.is_here(result)),
        (f"--states {states}", states > 1),
        ("--one-by-one", result["profile"].endswith(experiments.ONE_BY_ONE)),
    ]
    known = dict(result["provenance"])
    kernels = {
        f"kernel, {name}": f"{each['release']}, config {each['config']}, {each['compiler']}"
        for name, each in known.pop("kernels").items()
    }
    command = " ".join(["./ferry table", result["table"], *(flag for flag, given in flags if given)])
    facts = {
        "command": command,
        **kernels,
        **known,
        **show.residuals(result),
        "not measured": "; ".join(result["missing"]) or "nothing",
    }
    items = "".join(
        f"<dt>{html.escape(key)}</dt><dd>{html.escape(str(value))}</dd>" for key, value in facts.items()
    )
    return f"<dl>{items}</dl>"


def write(
    folder: Path | None = None, into: Path | None = None, pictures: Container[str] | None = None
) -> list[Path]:
    """The page with all results in a folder, and the plots of those that are named, or of all."""
    folder = folder or paths.OUT
    found = [path for name in experiments.TABLES for path in sorted(folder.glob(f"table-{name}*.json"))]
    made, parts = [], []
    for kept in found:
        result = json.loads(kept.read_text())
        picture = plots.picture(result)
        path = (into or folder) / f"{kept.stem}.png"
        if pictures is None or path.name in pictures:
            files.write_bytes(path, picture)
            made.append(path)
        parts.append(_section(result, picture))
    page = (into or folder) / "tables.html"
    files.write(page, _PAGE.replace("@BODY@", "\n".join(parts)))
    return [*made, page]
