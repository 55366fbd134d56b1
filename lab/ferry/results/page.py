# SPDX-License-Identifier: GPL-2.0
"""All results of a folder in one HTML page, made from their JSON alone. A click on a head sorts its table;
each cell has the records that it is made of; pictures are files beside the page."""

import html
import json
from dataclasses import replace
from pathlib import Path

from ferry import files, paths
from ferry.results import blocks, figures, picture, present
from ferry.results.compare import Json
from ferry.results.grid import Grid
from ferry.tables import experiments

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Ferry: all results</title>
<style>
body { font: 15px/1.45 sans-serif; max-width: 90em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px }
th, td { padding: 2px 8px; text-align: right; border-bottom: 1px solid #ddd }
th { border-bottom: 2px solid #888; cursor: pointer } .word { text-align: left }
tr.end td { border-bottom: 2px solid #888 }
th[aria-sort=ascending]::after { content: " \\2191" } th[aria-sort=descending]::after { content: " \\2193" }
img { max-width: 100% } dl { display: grid; grid-template-columns: max-content auto; gap: 0 1em }
dt { color: #666 } dd { margin: 0 }
</style></head><body>
<h1>Ferry: all results</h1>
<p>Each table says where it was measured, and whether its time is virtual or wall time. In virtual time,
on an emulated server, one instruction is one nanosecond, and a copy by the engine takes modelled time.
Compare ratios to vanilla, never GB/s, with another machine.
<b>dma</b> is the earlier design (unmap a batch, copy it all with whole folios for each channel, wait,
remap), made by Ferry's own kernel with such settings; <b>ferry</b> is Ferry as it is set by default;
<b>cpu</b> copies each batch with the CPU; <b>none</b> is Ferry's kernel without an engine, which a machine
that was measured itself is compared with.
"Of all starts" is the least and the greatest ratio where each cell was measured several times, on machines
that begin otherwise: other random numbers, other memory in use. All else is of the first.
A posted ratio has the standard deviation that follows from those that were posted.
"Residual" is how much the measured ratio exceeds the published one; where it says "fitted", the engine's
parameters were chosen to make it small, everywhere else it tests them.
"Record" names what a guest has said, a file of out/records, from which the figures of that line are made.
Every byte that was moved was verified. A click on a head sorts by that column, another one the other way.</p>
@BODY@
<script>
const key = text => { const n = parseFloat(text.replaceAll(",", "")); return isNaN(n) ? text : n }
const order = (a, b) => typeof a == typeof b ? (a > b) - (a < b) : typeof a == "number" ? -1 : 1
for (const head of document.querySelectorAll("th")) head.onclick = () => {
  const down = head.ariaSort == "ascending", [body] = head.closest("table").tBodies
  for (const other of head.parentNode.cells) other.ariaSort = null
  head.ariaSort = down ? "descending" : "ascending"
  const rows = [...body.rows].map(row => [key(row.cells[head.cellIndex].textContent), row])
  rows.sort((a, b) => order(a[0], b[0]) * (down ? -1 : 1))
  for (const [, row] of rows) { row.className = ""; body.append(row) }
}
</script>
</body></html>
"""


def _section(name: str, result: Json, has_picture: bool) -> str:
    image = f'<img alt="plot of {name}" src="{name}.png">\n' if has_picture else ""
    first, *others = (
        (f"<h2>{html.escape(grid.title)}</h2>\n", _with_records(grid, cells).html())
        for grid, cells in present.grids(result, name)
    )
    tables = "".join(head + table for head, table in others)
    return f"{first[0]}{_introduction(result)}{image}{first[1]}{tables}{_facts(name, result)}"


def _with_records(grid: Grid, cells: list[Json]) -> Grid:
    """The same with a column of records, if there are any."""
    if not any(cell.get("records") for cell in cells):
        return grid
    lines = [[*line, " ".join(cell.get("records", ()))] for line, cell in zip(grid.lines, cells, strict=True)]
    return replace(grid, head=[*grid.head, "record"], lines=lines)


def _introduction(result: Json) -> str:
    """Who has posted what is repeated, and what is to be known of it."""
    clock = "Wall time: it differs from run to run."
    if result["provenance"]["time"] == "virtual":
        clock = "Virtual time: every run gives these figures."
    text = f"<p>{clock} {html.escape(result.get('note', ''))}</p>\n"
    if source := result.get("source"):
        link = f'<a href="{html.escape(source["link"])}">{html.escape(source["title"])}</a>'
        told = f"{html.escape(source['author'])}; {html.escape(source['machine'])}"
        text = f"<p>Published: {link}, {told}.</p>\n{text}"
    return text


def command(name: str, result: Json) -> str:
    """What measures it again, on the Linux that it is of."""
    words = figures.COMMANDS[name] if "table" not in result else _of_table(result)
    if present.is_here(result) or "--base" in words:
        return words
    base = ".".join(blocks.release(result).split(".")[:2])
    return words.replace("./ferry", f"./ferry --base {base}" if base != paths.DEFAULT_BASE else "./ferry")


def _of_table(result: Json) -> str:
    profile = result["profile"].removesuffix(experiments.ONE_BY_ONE)
    usual = (experiments.HERE, experiments.get(result["table"]).profile)
    flags = [
        (f"--profile {profile}", profile not in usual),
        ("--quick", result["quick"]),
        ("--here", present.is_here(result)),
        (f"--states {result['states']}", result["states"] > 1),
        ("--one-by-one", result["profile"].endswith(experiments.ONE_BY_ONE)),
    ]
    return " ".join(["./ferry table", result["table"], *(flag for flag, given in flags if given)])


def _facts(name: str, result: Json) -> str:
    """What a reader needs to measure it again."""
    origin = dict(result["provenance"])
    kernels = {
        f"kernel, {flavour}": f"{kernel['release']}, config {kernel['config']}, {kernel['compiler']}"
        for flavour, kernel in origin.pop("kernels").items()
    }
    facts = {"command": command(name, result), **kernels, **origin}
    facts |= present.residuals(result.get("cells", []))
    facts |= {"not measured": "; ".join(result.get("missing", [])) or "nothing"}
    items = "".join(
        f"<dt>{html.escape(key)}</dt><dd>{html.escape(str(value))}</dd>" for key, value in facts.items()
    )
    return f"<dl>{items}</dl>\n"


def write(folder: Path | None = None, into: Path | None = None) -> list[Path]:
    """The page of all results in a folder, and the picture of each that has one."""
    folder = folder or paths.OUT
    into = into or folder
    written, sections = [], []
    for kept in figures.results(folder):
        result = json.loads(kept.read_text())
        drawn = picture.picture(result)
        if drawn:
            written.append(into / f"{kept.stem}.png")
            files.write_bytes(written[-1], drawn)
        sections.append(_section(kept.stem, result, bool(drawn)))
    page = into / "tables.html"
    files.write(page, _PAGE.replace("@BODY@", "".join(sections)))
    return [*written, page]
