# SPDX-License-Identifier: GPL-2.0
"""write the figures, pictures and tables of README and docs from the results kept in docs/results"""

import argparse
import json
from pathlib import Path

from ferry import files, paths
from ferry.commands import options
from ferry.errors import FerryError, UsageError
from ferry.progress import note
from ferry.results import compare, figures, grid, lines, page, picture, present, trace
from ferry.results import report as report_files
from ferry.results.grid import Grid
from ferry.vm import store

DOCS = paths.ROOT / "docs"
HEADLINE = "headline.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    options.add_flag(how, "keep", "first keep what was measured into out/, as docs/results")
    how.add_argument(
        "--trace", metavar="PAGE:LINE", help="write nothing; say which results and records a line is made of"
    )
    options.examples(parser, "report --trace README.md:16           # where its figures come from")


def run(args: argparse.Namespace) -> int:
    """Write what differs, and name it."""
    kept = figures.Kept()
    if args.trace:
        return _trace(args.trace, kept)
    if args.keep:
        keep()
    for path in figures.PAGES:
        if files.write(path, figures.fill(path.read_text(), kept)):
            print(path)
    files.write_bytes(DOCS / HEADLINE, _headline(kept))
    for made in (DOCS / HEADLINE, *page.write(kept.folder, DOCS)):
        print(made)
    return 0


def _trace(line: str, kept: figures.Kept) -> int:
    """A table of what a line is made of, each figure with its records."""
    name, _, number = line.rpartition(":")
    if not number.isdigit() or not Path(name).is_file() or not name.endswith(".md"):
        raise UsageError(f"--trace {line}: name a page and a line, as in README.md:16")
    rows = []
    for source in trace.sources(Path(name).read_text(), int(number), kept):
        figure = (source.result, source.cell, source.figure, f"{source.value:,.6g}")
        rows.append((", ".join(source.shown), *figure, _records(source, kept)))
    head = ("figure", "docs/results", "cell", "its figure", "value", "measured")
    grid.show(Grid(line, head, rows, left=len(head)))
    return 0


def _records(source: trace.Source, kept: figures.Kept) -> str:
    """Where a figure comes from: its records, if there are any, when, and how it is measured again."""
    result = kept[source.result]
    origin = result["provenance"]
    names = source.records
    records = f"record {', '.join(names)}, {_place(source, kept)}" if names else "before there were records"
    return f"{records}; {origin['date']}, {origin['commit']}; {page.command(source.result, result)}"


def _place(source: trace.Source, kept: figures.Kept) -> str:
    """Where the records of a figure are."""
    result = kept.folder / f"{source.result}.json"
    if set(source.records) <= lines.kept(result).keys():
        return f"in {lines.place(result).relative_to(kept.folder.parent.parent)}"
    return "in out/records" if all(map(store.load, source.records)) else "which nobody kept"


def _headline(kept: figures.Kept) -> bytes:
    """What README begins with: what channels give, and what it costs."""
    result = kept[figures.LIKELY]
    cells = [
        cell
        for cell in present.on_usual_kernels(result["cells"])
        if cell.get("channels", figures.MOST_CHANNELS) == figures.MOST_CHANNELS
    ]
    title = (
        f"Moving memory by {figures.MOST_CHANNELS} DMA channels, likely server, emulated, by size of folio"
    )
    return picture.trade(result, cells, title)


def keep() -> None:
    """Copy the results that out/ has, and their records. Raises FerryError if one is of files that no commit
    has, or a cell does not say what it is made of, or that is lost, and UsageError for those of another base,
    which no page shows."""
    if paths.BASE != paths.DEFAULT_BASE:
        raise UsageError(f"--keep is for results of base {paths.DEFAULT_BASE}: leave out --base")
    # What is of a part of the cells, or of another machine, has another name.
    results = {}
    for path in (paths.OUT / f"{name}.json" for name in figures.COMMANDS):
        if not path.is_file():
            note(f"not measured since: {path.stem}")
            continue
        result = json.loads(path.read_text())
        if result["provenance"]["commit"].endswith("-changed"):
            raise FerryError(f"{path} was measured with changes that no commit has: commit, measure again")
        if lacking := [compare.name(cell) for cell in compare.cells(result) if not cell.get("records")]:
            raise FerryError(f"{path}: {len(lacking)} without records, first {lacking[0]}: measure it again")
        for profile in result.get("profiles", []):
            del profile["functions"]  # thousands, which no page shows
        results[figures.FOLDER / path.name] = result
    said = {target: lines.of(target, lines.names(result)) for target, result in results.items()}
    for target, result in results.items():
        files.write_bytes(lines.place(target), said[target])
        report_files.write_json(target, result)
