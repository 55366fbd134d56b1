# SPDX-License-Identifier: GPL-2.0
"""The series for upstream review: a base's series.toml says which files make which patch of which.

    [[series]]
    name = "offload"                         # of its folder and branch
    cover = "series/offload-cover.msg"       # first paragraph: subject; the rest: text
    needs = ["iommu"]                        # the series before it without which it does not apply

    [series.checkpatch_ignore]               # of all its patches: a type, and why it is ignored
    FILE_PATH_CHANGES = "MAINTAINERS comes last"

    [[series.patch]]
    message = "series/01-interface.msg"      # From:, Subject:, empty line, text
    hooks = ["0001-*.patch"]                 # of the base's patches, goes into the same commit
    files = ["include/linux/*", "mm/migrate_offload/*"]
    omit = { "mm/migrate_offload/Kconfig" = ["KUNIT"] }

    [series.patch.checkpatch_ignore]         # of this patch alone

A patch without a message takes that of its first hook. omit leaves out the lines that contain one
of the words; a later patch that names the file again brings them. What all series make together
must be what the tree has, and each must apply on the base and what it needs, or the export
fails. The end of a cover letter, what the series stands on and what checkpatch is told to ignore,
is made from this table, so that it is true.
"""

import fnmatch
import re
import tempfile
import textwrap
import tomllib
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from ferry import paths
from ferry.errors import CommandFailed, FerryError
from ferry.git import git
from ferry.kernel import tree

BRANCH = "series"  # all of them; each has a branch of its own, series-NAME
WIDTH = 72  # of a letter's lines

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Patch:
    """One row of a series."""

    message: str | None = None
    hooks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    omit: dict[str, list[str]] = field(default_factory=dict)
    checkpatch_ignore: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Series:
    """What is sent at once, to one list of reviewers."""

    name: str
    cover: str
    patches: tuple[Patch, ...]
    needs: tuple[str, ...] = ()
    checkpatch_ignore: dict[str, str] = field(default_factory=dict)

    @property
    def branch(self) -> str:
        return f"{BRANCH}-{self.name}"


@dataclass(frozen=True)
class Table:
    """A base's series.toml; paths in it are relative to the folder, which is kernel/."""

    folder: Path
    series: tuple[Series, ...]


_Row = TypeVar("_Row", Patch, Series)


def load(path: Path | None = None, folder: Path = paths.KERNEL) -> Table:
    """Read a table, by default the chosen base's; raises FerryError if it does not make sense."""
    path = path or tree.HERE.base / "series.toml"
    try:
        return _table(path, folder, tomllib.loads(path.read_text()))
    except (OSError, tomllib.TOMLDecodeError, AttributeError, TypeError) as err:
        raise FerryError(f"cannot read the series from {path}: {err}") from err


def _table(path: Path, folder: Path, data: dict[str, Any]) -> Table:
    rows = data.pop("series", [])
    if data or not rows:
        raise FerryError(f"{path}: all is in [[series]], but there is {', '.join(data) or 'none'}")
    read: list[Series] = []
    for row in rows:
        where = f"{path}: series '{row.get('name', '')}'"
        patches = [_row(Patch, patch, f"{where}, a patch") for patch in row.pop("patch", [])]
        series = _row(Series, {**row, "patches": patches}, where)
        if not _NAME.fullmatch(series.name):
            raise FerryError(f"{where}: a name is of small letters, digits and '-'")
        before = [other.name for other in read]
        if series.name in before:
            raise FerryError(f"{where} is there twice")
        if strange := [name for name in series.needs if name not in before]:
            raise FerryError(f"{where} needs '{strange[0]}', which is none before it")
        read.append(series)
    return Table(folder, tuple(read))


def _row(kind: type[_Row], row: dict[str, Any], where: str) -> _Row:
    """A row as a dataclass; its keys are the dataclass's fields."""
    columns = {column.name: column for column in fields(kind)}
    for key in row:
        if key not in columns:
            raise FerryError(f"{where}: unknown key '{key}'")
    for name, column in columns.items():
        if not row.get(name) and column.default is MISSING and column.default_factory is MISSING:
            raise FerryError(f"{where}: no '{name}'")
    ignore = row.get("checkpatch_ignore", {})
    if not isinstance(ignore, dict) or not all(isinstance(why, str) and why for why in ignore.values()):
        raise FerryError(f"{where}: checkpatch_ignore needs a reason for each type")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    return kind(**values)


class _Index:
    """Commits made in a scratch index of the tree: no working tree is touched."""

    def __init__(self, places: tree.Places, scratch: Path) -> None:
        self.places = places
        self.scratch = scratch
        self.env = {"GIT_INDEX_FILE": str(scratch / "index")}
        self.head = self.git("rev-parse", f"{tree.BASE}^{{commit}}")
        self.git("read-tree", self.head)

    def git(self, *args: str | Path, input_text: str | None = None, **env: str) -> str:
        return git(self.places.tree, *args, env={**self.env, **env}, input_text=input_text)

    def add_file(self, name: Path, omit: list[str]) -> None:
        path = self.places.source(name)
        lines = path.read_text().splitlines(keepends=True)
        text = "".join(line for line in lines if not any(word in line for word in omit))
        blob = self.git("hash-object", "-w", "--stdin", input_text=text)
        mode = "100755" if path.stat().st_mode & 0o100 else "100644"
        self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}")

    def add_hook(self, path: Path) -> None:
        try:
            self.git("apply", "--cached", path)
        except CommandFailed as err:
            raise FerryError(f"{path.name} does not apply in the series: {err}") from err

    def commit(self, message: Path) -> None:
        """Commit the index with author, subject and text of a mail."""
        before, after = self.git("rev-parse", f"{self.head}^{{tree}}"), self.git("write-tree")
        if before == after:
            raise FerryError(f"{message.name}: this patch of the series changes nothing")
        body = self.scratch / "body"
        info = self.git("mailinfo", body, self.scratch / "rest", input_text=message.read_text())
        mail = dict(line.partition(": ")[::2] for line in info.splitlines())
        if not mail.get("Email") or not mail.get("Subject"):
            raise FerryError(f"{message} needs the lines 'From: NAME <EMAIL>' and 'Subject: ...' at its top")
        text = f"{mail['Subject']}\n\n{body.read_text().strip()}\n"
        who = {"GIT_AUTHOR_NAME": mail["Author"], "GIT_AUTHOR_EMAIL": mail["Email"]}
        if mail.get("Date"):
            who["GIT_AUTHOR_DATE"] = mail["Date"]
        self.head = self.git("commit-tree", after, "-p", self.head, input_text=text, **who)


def commit(table: Table, places: tree.Places) -> None:
    """Make the series as commits on the base, one after the other, as branches of the tree."""
    with tempfile.TemporaryDirectory() as scratch:
        index = _Index(places, Path(scratch))
        ends = {}
        for series in table.series:
            for row in series.patches:
                hooks = _matching("hook", row.hooks, places.patch_files(), places.patches)
                for hook in hooks:
                    index.add_hook(hook)
                for name in _matching("file", row.files, places.src_files(), "kernel/src"):
                    index.add_file(name, row.omit.get(str(name), []))
                if row.message is None and not hooks:
                    raise FerryError("series.toml: a patch has neither a message nor a hook")
                index.commit(table.folder / row.message if row.message else hooks[0])
            ends[series.branch] = ends[BRANCH] = index.head
        _verify_complete(index)
        for branch, head in ends.items():
            index.git("update-ref", f"refs/heads/{branch}", head)


def _matching(kind: str, patterns: Sequence[str], candidates: Sequence[Path], place: object) -> list[Path]:
    """The paths that a row of the table names, those of each pattern in turn; a hook by its file's name."""
    chosen: list[Path] = []
    for pattern in patterns:
        paths = [
            path
            for path in candidates
            if fnmatch.fnmatch(path.name if kind == "hook" else str(path), pattern)
        ]
        if not paths:
            raise FerryError(f"series.toml: no {kind} {pattern} in {place}")
        chosen += paths
    return chosen


def _verify_complete(index: _Index) -> None:
    """Raise FerryError naming the files that the series has otherwise than the tree."""
    made = index.git("write-tree")
    index.git("read-tree", "HEAD")
    for name in index.places.src_files():
        index.add_file(name, [])
    differ = index.git("diff-tree", "-r", "--name-only", made, index.git("write-tree")).split()
    if differ:
        raise FerryError(
            f"the series is not what the tree has: {', '.join(differ)}; name these files or hooks in "
            "series.toml, or write them back with './ferry kernel refresh'"
        )


def export(table: Table, folder: Path, places: tree.Places) -> dict[str, list[Path]]:
    """Write each series to a folder of its own in an empty one: a cover letter, and the patches."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FerryError(f"{folder} is not empty; name a new folder")
    except OSError as err:
        raise FerryError(f"cannot write to {folder}: {err.strerror}") from err
    commit(table, places)
    written = {}
    ends = [tree.BASE, *(series.branch for series in table.series)]
    for number, (series, (start, end)) in enumerate(zip(table.series, pairwise(ends), strict=True), 1):
        own_folder = folder / f"{number}-{series.name}"
        git(
            places.tree,
            *("-c", f"branch.{end}.description={cover_letter(table, series, places)}"),
            *("format-patch", "-q", "--no-signature", "--cover-letter", "--cover-from-description=subject"),
            *(tree.COPIES, "-o", own_folder.resolve(), f"{start}..{end}"),
        )
        written[series.name] = sorted(own_folder.glob("*.patch"))
    _verify_needs(table, written, places)
    return written


def _verify_needs(table: Table, written: dict[str, list[Path]], places: tree.Places) -> None:
    """Raise FerryError naming a series that needs more than the base and what it says."""
    for series in table.series:
        names = [*series.needs, series.name]
        patches = [
            path.resolve()
            for other in table.series
            if other.name in names
            for path in written[other.name][1:]
        ]
        with tempfile.TemporaryDirectory() as scratch:
            try:
                _Index(places, Path(scratch)).git("apply", "--cached", *patches)
            except CommandFailed as err:
                stands_on = " and ".join(["the base", *series.needs])
                raise FerryError(f"series '{series.name}' does not apply on {stands_on}: {err}") from err


def cover_letter(table: Table, series: Series, places: tree.Places) -> str:
    """The text of its file, with what the series stands on and what checkpatch is told to ignore."""
    text = _text(table, series)
    base = git(places.tree, "log", "-1", "--format=%s", tree.BASE)
    if series.needs:
        needed = [other for other in table.series if other.name in series.needs]
        subjects = [f'{other.name}, "{_text(table, other).splitlines()[0]}"' for other in needed]
        stands = f"The patches apply to Debian's {base} after:\n\n"
        stands += "\n".join(_wrap(subject, "  ", "    ") for subject in subjects)
    else:
        stands = _wrap(f"The patches apply to Debian's {base} alone; they need no other series.")
    return f"{text}\n\n{_titled('Base', stands)}\n\n{_titled('checkpatch', _ignored(series))}\n"


def _text(table: Table, series: Series) -> str:
    try:
        return (table.folder / series.cover).read_text().strip()
    except OSError as err:
        raise FerryError(f"cannot read {table.folder / series.cover}: {err.strerror}") from err


def _titled(title: str, text: str) -> str:
    return f"{title}\n{'-' * len(title)}\n\n{text}"


def _wrap(text: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _ignored(series: Series) -> str:
    """What checkpatch is told to ignore in a series, and why."""
    of = {"all patches": series.checkpatch_ignore}
    of |= {f"patch {number}": row.checkpatch_ignore for number, row in enumerate(series.patches, 1)}
    lines = []
    for where, ignore in of.items():
        for why in dict.fromkeys(ignore.values()):
            types = ", ".join(name for name, reason in ignore.items() if reason == why)
            lines += [_wrap(f"{where}: {types}", "  ", "    "), _wrap(why, "    ", "    ")]
    if not lines:
        return _wrap("scripts/checkpatch.pl --strict has nothing to say, and is told to ignore nothing.")
    text = _wrap("scripts/checkpatch.pl --strict has nothing to say but for what it is told to ignore:")
    return "\n".join([text, "", *lines])


def checkout(places: tree.Places) -> Path:
    """The worktree build/BASE/linux-series, at the last patch of the series as made by commit()."""
    path = places.series
    if not path.is_dir():
        tree.add_worktree(places, path, BRANCH)
    else:
        git(path, "checkout", "-q", "--force", "--detach", BRANCH)
    return path
