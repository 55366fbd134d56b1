# SPDX-License-Identifier: GPL-2.0
"""The patch series for upstream review: kernel/series.toml says which files make which patch.

    cover = "series/00-cover.msg"            # first paragraph: subject; the rest: text
    checkpatch_ignore = ["FILE_PATH_CHANGES"]

    [[patch]]
    message = "series/01-interface.msg"      # From:, Subject:, empty line, text
    hooks = ["0001-*.patch"]                 # of kernel/patches, goes into the same commit
    files = ["include/linux/*", "mm/migrate_offload/*"]
    omit = { "mm/migrate_offload/Kconfig" = ["KUNIT"] }
    checkpatch_ignore = ["COMPLEX_MACRO"]    # of this patch, with those of all

A patch without a message takes that of its first hook. omit leaves out the lines that contain one
of the words; a later patch that names the file again brings them. What the series makes must be
what build/linux has, or the export fails.
"""

from __future__ import annotations

import fnmatch
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from ferry import paths
from ferry.errors import CommandFailed, FerryError
from ferry.git import git
from ferry.kernel import tree

BRANCH = "series"


@dataclass(frozen=True)
class Patch:
    """One row of the table."""

    message: str | None = None
    hooks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    omit: dict[str, list[str]] = field(default_factory=dict)
    checkpatch_ignore: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """kernel/series.toml; paths in it are relative to its folder."""

    folder: Path
    cover: str
    checkpatch_ignore: tuple[str, ...]
    patches: tuple[Patch, ...]


def load(path: Path = paths.KERNEL / "series.toml") -> Table:
    """Read the table; raises FerryError if it does not make sense."""
    try:
        data = tomllib.loads(path.read_text())
        rows = tuple(
            Patch(
                row.pop("message", None),
                tuple(row.pop("hooks", ())),
                tuple(row.pop("files", ())),
                row.pop("omit", {}),
                tuple(row.pop("checkpatch_ignore", ())),
            )
            for row in data["patch"]
        )
        unknown = [key for row in data["patch"] for key in row]
        if unknown:
            raise FerryError(f"{path}: unknown key '{unknown[0]}' in a [[patch]]")
        return Table(path.parent, data["cover"], tuple(data.get("checkpatch_ignore", ())), rows)
    except (OSError, tomllib.TOMLDecodeError, KeyError) as err:
        raise FerryError(f"cannot read the series from {path}: {err}") from err


class _Index:
    """Commits made in a scratch index of build/linux: no working tree is touched."""

    def __init__(self, places: tree.Places, scratch: Path) -> None:
        self.places = places
        self.scratch = scratch
        self.env = {"GIT_INDEX_FILE": str(scratch / "index")}
        self.head = self.git("rev-parse", f"{tree.BASE}^{{commit}}")
        self.git("read-tree", self.head)

    def git(self, *args: str | Path, input_text: str | None = None, **env: str) -> str:
        return git(self.places.tree, *args, env={**self.env, **env}, input_text=input_text)

    def add_file(self, name: Path, omit: list[str]) -> None:
        """Put a file of kernel/src into the index."""
        path = self.places.src / name
        lines = path.read_text().splitlines(keepends=True)
        text = "".join(line for line in lines if not any(word in line for word in omit))
        blob = self.git("hash-object", "-w", "--stdin", input_text=text)
        mode = "100755" if path.stat().st_mode & 0o100 else "100644"
        self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}")

    def add_hook(self, path: Path) -> None:
        """Put the change of a patch into the index."""
        try:
            self.git("apply", "--cached", path)
        except CommandFailed as err:
            raise FerryError(f"kernel/patches/{path.name} does not apply in the series: {err}") from err

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


def commit(table: Table, places: tree.Places) -> str:
    """Make the series as commits on the base, as branch 'series' of build/linux; returns the last."""
    with tempfile.TemporaryDirectory() as scratch:
        index = _Index(places, Path(scratch))
        for row in table.patches:
            hooks = [hook for pattern in row.hooks for hook in _one_or_more(places.patches, pattern)]
            for hook in hooks:
                index.add_hook(hook)
            for name in _matching(places, row):
                index.add_file(name, row.omit.get(str(name), []))
            if row.message is None and not hooks:
                raise FerryError("kernel/series.toml: a patch has neither a message nor a hook")
            index.commit(table.folder / row.message if row.message else hooks[0])
        _verify_complete(index)
        index.git("update-ref", f"refs/heads/{BRANCH}", index.head)
        return index.head


def _one_or_more(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    if not found:
        raise FerryError(f"kernel/series.toml: no hook {pattern} in kernel/patches")
    return found


def _matching(places: tree.Places, row: Patch) -> list[Path]:
    """The files of kernel/src that a row names."""
    every = places.src_files()
    chosen: list[Path] = []
    for pattern in row.files:
        found = [name for name in every if fnmatch.fnmatch(str(name), pattern)]
        if not found:
            raise FerryError(f"kernel/series.toml: no file {pattern} in kernel/src")
        chosen += found
    return chosen


def _verify_complete(index: _Index) -> None:
    """Raise FerryError naming the files that the series has otherwise than build/linux."""
    made = index.git("write-tree")
    index.git("read-tree", "HEAD")
    for name in index.places.src_files():
        index.add_file(name, [])
    differ = index.git("diff-tree", "-r", "--name-only", made, index.git("write-tree")).split()
    if differ:
        raise FerryError(
            f"the series is not what build/linux has: {', '.join(differ)}; name these files or hooks in "
            "kernel/series.toml, or write them back with './ferry kernel refresh'"
        )


def export(table: Table, folder: Path, places: tree.Places) -> list[Path]:
    """Write the series with its cover letter to an empty folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FerryError(f"{folder} is not empty; name a new folder")
    except OSError as err:
        raise FerryError(f"cannot write to {folder}: {err.strerror}") from err
    commit(table, places)
    cover = (table.folder / table.cover).read_text()
    git(
        places.tree,
        *("-c", f"branch.{BRANCH}.description={cover}"),
        *("format-patch", "-q", "--no-signature", "--cover-letter", "--cover-from-description=subject"),
        *("-o", folder.resolve(), f"{tree.BASE}..{BRANCH}"),
    )
    return sorted(folder.glob("*.patch"))


def checkout(places: tree.Places) -> Path:
    """The worktree build/linux-series, at the last patch of the series as made by commit()."""
    path = places.build / "linux-series"
    if not path.is_dir():
        tree.add_worktree(places, path, BRANCH)
    else:
        git(path, "checkout", "-q", "--force", "--detach", BRANCH)
    return path
