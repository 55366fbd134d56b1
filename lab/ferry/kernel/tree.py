# SPDX-License-Identifier: GPL-2.0
"""The kernel tree of a base, in build/BASE: Debian's Linux as one commit, Ferry's patches as commits on it.

linux           base + its patches; the files of kernel/src are linked in, and those of its own
linux-vanilla   base alone, a worktree of the same repository

A developer edits kernel/src or the links, edits and commits hooks in linux, and writes them
back with './ferry kernel refresh'. The tree is only assembled anew when the base or the patches
change, and only files that differ are touched, so that make builds little.
"""

import email
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ferry import files, paths, proc
from ferry.errors import CommandFailed, FerryError
from ferry.git import git
from ferry.kernel import base
from ferry.progress import Step, note

APPLIED = "ferry"  # the branch in the tree
BASE = "base"  # the tag of the first commit
# A file that Linux has elsewhere is written as a copy of that one: only what differs is in the patch.
COPIES = "--find-copies"
ROOM = 6 << 30  # bytes for a base's sources, their repository, and what is built of them for all tests
_STATE = Path(".git/ferry-state.json")
_ORIGINAL = re.compile(r"^index ([0-9a-f]+)\.\.", re.MULTILINE)
_COPY = re.compile(r"^copy from ", re.MULTILINE)
_FAILED_AT = re.compile(r"error: (?:patch failed: )?(\S+?)(?::\d+$|: )", re.MULTILINE)


@dataclass(frozen=True)
class Places:
    """Where the tree of a base comes from and where it goes; tests use their own."""

    build: Path
    base: Path  # the base's folder: base.toml, series.toml, and what is for this base alone
    src: Path  # new files, for every base

    @property
    def patches(self) -> Path:
        return self.base / "patches"

    @property
    def own_src(self) -> Path:
        """New files that only this base has, or has otherwise than kernel/src."""
        return self.base / "src"

    @property
    def tree(self) -> Path:
        return self.build / "linux"

    @property
    def vanilla(self) -> Path:
        return self.build / "linux-vanilla"

    @property
    def series(self) -> Path:
        """A worktree of the tree's repository, at the last patch of all series."""
        return self.build / "linux-series"

    def patch_files(self) -> list[Path]:
        return sorted(self.patches.glob("*.patch"))

    def src_files(self) -> list[Path]:
        """The new files, relative to the tree."""
        listed = {
            p.relative_to(top) for top in (self.src, self.own_src) for p in top.rglob("*") if p.is_file()
        }
        return sorted(p for p in listed if p.suffix not in (".o", ".swp"))

    def source(self, name: Path | str) -> Path:
        """Where a new file is: that of this base alone wins."""
        own = self.own_src / name
        return own if own.is_file() else self.src / name

    def fragments(self, names: Iterable[str]) -> list[Path]:
        """The config fragments of these names, each followed by what this base has otherwise."""
        folders = (self.src.parent / "config", self.base / "config")
        listed = [folder / f"{name}.config" for name in names for folder in folders]
        return [path for path in listed if path.parent == folders[0] or path.is_file()]


@dataclass(frozen=True)
class Applied:
    """How the patches went onto the base."""

    head: str
    merged: list[str]  # by three-way only: the base has changed beside what they change
    failed: dict[str, str]  # and where


def places(name: str) -> Places:
    return Places(paths.BUILD / name, paths.BASES / name, paths.KERNEL / "src")


def bases() -> list[str]:
    return sorted(path.parent.name for path in paths.BASES.glob("*/base.toml"))


HERE = places(paths.BASE)


def assemble(linux: base.Base, places: Places) -> Path:
    """Bring the tree up to date with the base, the patches and kernel/src; returns it."""
    with files.locked(places.build / "tree.lock"):
        _ensure_base(linux, places)
        if _state(places).get("patches") != _patches_digest(places):
            _refuse_to_lose_work(places)
            applied = _apply(places)
            refuse_drift(linux, applied)
            if applied.merged:
                note(
                    f"merged by three-way into {linux.package} {linux.version}: {', '.join(applied.merged)}; "
                    "'./ferry kernel refresh' writes them as they apply now"
                )
            git(places.tree, "checkout", "-q", "-B", APPLIED, applied.head)
            record(places)
        link(places)
    return places.tree


def assemble_current(places: Places | None = None) -> Path:
    """assemble() from the package that apt has, by default that of the chosen base."""
    places = places or HERE
    return assemble(base.find(places.base / "base.toml", places.build), places)


def drift(linux: base.Base, places: Places) -> Applied:
    """Try all patches on a base; they, and what the tree has of them, stay as they are."""
    with files.locked(places.build / "tree.lock"):
        _ensure_base(linux, places)
        return _apply(places)


def refuse_drift(linux: base.Base, applied: Applied) -> None:
    """Raise FerryError naming every patch that does not apply."""
    if applied.failed:
        lines = "".join(f"\n  {name}: {where}" for name, where in applied.failed.items())
        raise FerryError(
            f"the patches do not all apply to {linux.package} {linux.version}:{lines}\n"
            f"rebase them, or install a version that its base.toml knows, {linux.tested}: "
            f"what mirrors no longer have is at {linux.archive}"
        )


def vanilla(places: Places) -> Path:
    """The tree without patches, checked out when first asked for."""
    with files.locked(places.build / "tree.lock"):
        if not places.vanilla.is_dir():
            add_worktree(places, places.vanilla, BASE)
    return places.vanilla


def record(places: Places) -> None:
    """Remember that the tree and the base's patches are equal now."""
    head = git(places.tree, "rev-parse", "HEAD")
    state = {**_state(places), "patches": _patches_digest(places), "head": head}
    files.write(places.tree / _STATE, json.dumps(state))


def _state(places: Places) -> dict[str, str]:
    state: dict[str, str] = json.loads(files.read(places.tree / _STATE) or "{}")
    return state


def _patches_digest(places: Places) -> str:
    return files.digest(*(part for p in places.patch_files() for part in (p.name, p)))


def _refuse_to_lose_work(places: Places) -> None:
    """Raise if the tree has changes that the base's patches do not have."""
    head = _state(places).get("head")
    if head is None:
        return
    dirty = git(places.tree, "status", "--porcelain", "--untracked-files=no")
    if dirty or git(places.tree, "rev-parse", "HEAD") != head:
        raise FerryError(
            f"the base or its patches changed, but {places.tree} has changes of its own; keep them "
            "with './ferry kernel refresh' (commit them there first), or drop them with "
            f"'git -C {places.tree} reset --hard {head[:12]}'"
        )


def _ensure_base(linux: base.Base, places: Places) -> None:
    if _state(places).get("base") != linux.identity:
        _refuse_to_lose_work(places)
        _unpack(linux, places)


def _unpack(linux: base.Base, places: Places) -> None:
    """Replace the tree by the pristine source as one commit; all or nothing."""
    _require_room(places)
    scratch = places.build / "linux.new"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    base.verify(linux)
    unxz = ["-I", "xz -T0", "--strip-components=1", "--no-same-owner"]
    proc.run(["tar", *unxz, "-xf", linux.tarball, "-C", scratch], title=f"unpack {linux.package}")
    with Step("make it a git repository"):
        git(scratch, "init", "-q", "-b", APPLIED)
        for key, value in (("core.compression", "1"), ("core.fsync", "none"), ("gc.auto", "0")):
            git(scratch, "config", key, value)
        git(scratch, "add", "--all", "--force")
        git(scratch, "commit", "-q", "-m", f"{linux.package} {linux.version}")
        git(scratch, "tag", BASE)
        _keep_originals(places, scratch)
    files.write(scratch / _STATE, json.dumps({"base": linux.identity}))
    for old in (places.vanilla, places.series, places.tree):
        shutil.rmtree(old, ignore_errors=True)
    scratch.replace(places.tree)


def _require_room(places: Places) -> None:
    """Raise FerryError where the disk would be full before the kernels of this base are built."""
    free = shutil.disk_usage(places.build).free
    if free < ROOM:
        raise FerryError(
            f"the kernels need {ROOM >> 30} GB in {places.build}, where {free / (1 << 30):.1f} GB are free: "
            "make room there, or link it to a larger disk"
        )


def _keep_originals(places: Places, new: Path) -> None:
    """Give a new repository what the old one has of the files that patches change, for three-way merges."""
    if not places.tree.is_dir():
        return
    names = [name for path in places.patch_files() for name in _ORIGINAL.findall(path.read_text())]
    listed = git(
        places.tree, "cat-file", "--batch-check=%(objecttype) %(objectname)", input_text="\n".join(names)
    )
    blobs = [line.removeprefix("blob ") for line in listed.splitlines() if line.startswith("blob ")]
    pack = new.resolve() / ".git/objects/pack/pack"
    git(places.tree, "pack-objects", "-q", pack, input_text="\n".join(blobs))


def add_worktree(places: Places, path: Path, commit: str) -> None:
    """Check a commit out beside the tree; an interrupted checkout is not found again."""
    scratch = path.with_name(f"{path.name}.new")
    with Step(f"check out {path.name}"):
        _scratch_worktree(places, scratch, commit)
        git(scratch, "reset", "-q", "--hard")
        git(places.tree, "worktree", "move", scratch, path)


def _scratch_worktree(places: Places, path: Path, commit: str) -> None:
    """Make an empty worktree, also where an interrupted run left one: git keeps that one locked."""
    shutil.rmtree(path, ignore_errors=True)
    git(places.tree, "worktree", "prune")
    git(places.tree, "worktree", "add", "-q", "-f", "-f", "--no-checkout", "--detach", path, commit)


def _apply(places: Places) -> Applied:
    """Apply the patches to the base as commits, without touching the tree. What fails is left out."""
    scratch = places.build / "linux-am"
    head, merged, failed = BASE, [], {}
    try:
        _indexed_worktree(places, scratch, head)
        for patch in places.patch_files():
            before = git(scratch, "rev-parse", "HEAD")
            try:
                if not _am(scratch, patch):
                    merged.append(patch.name)
                if git(scratch, "rev-parse", "HEAD") == before:
                    failed[patch.name] = "the base has it already"
            except CommandFailed as err:
                failed[patch.name] = str(err)
                _indexed_worktree(places, scratch, before)
        head = git(scratch, "rev-parse", "HEAD")
    finally:
        git(places.tree, "worktree", "remove", "--force", scratch)
    return Applied(head, merged, failed)


def _indexed_worktree(places: Places, path: Path, commit: str) -> None:
    """A worktree without files: git am fetches those that it needs from the index."""
    _scratch_worktree(places, path, commit)
    git(path, "read-tree", "HEAD")


def _am(tree: Path, patch: Path) -> bool:
    """Commit a patch; False if it took a three-way merge. Raises CommandFailed with the files in its way."""
    command = ("am", "-q", "--committer-date-is-author-date")
    try:
        git(tree, *command, patch)
        return True
    except CommandFailed as err:
        files_in_its_way = ", ".join(dict.fromkeys(_FAILED_AT.findall(str(err)))) or "its text"
        git(tree, "am", "--quit")
        if _COPY.search(patch.read_text()):
            # It would copy the file as it was once, without what the base has changed in it since.
            raise CommandFailed(files_in_its_way, err.returncode) from err
    try:
        git(tree, *command, "--3way", patch)
    except CommandFailed as err:
        raise CommandFailed(files_in_its_way, err.returncode) from err
    return False


def link(places: Places) -> None:
    """Link each file of kernel/src to its place in the tree; remove links that lead nowhere."""
    listing = places.tree / ".git/info/exclude"
    names = places.src_files()
    for line in (files.read(listing) or "").splitlines():
        old = places.tree / line.lstrip("/")
        if line.startswith("/") and old.is_symlink() and not old.exists():
            old.unlink()
    for name in names:
        place, source = places.tree / name, places.source(name)
        if place.exists() and not place.is_symlink():
            raise FerryError(f"{source} is a file that Linux has: change it by a patch instead")
        place.parent.mkdir(parents=True, exist_ok=True)
        files.link(place, source)
    files.write(listing, "".join(f"/{name}\n" for name in names) + "/out-*/\n")


def fingerprint(tree: Path, places: Places) -> str:
    """Changes whenever a build from this tree could come out otherwise."""
    parts: list[str | bytes | Path] = [git(tree, "rev-parse", "HEAD"), git(tree, "diff", "HEAD")]
    new = git(tree, "ls-files", "--others", "--exclude-standard").splitlines()
    parts += [part for name in new for part in (name, tree / name)]
    if tree == places.tree:
        parts += [part for name in places.src_files() for part in (str(name), places.source(name))]
    return files.digest(*parts)


def refresh(places: Places) -> list[Path]:
    """Write the commits of the tree back to the base's patches; returns these."""
    if git(places.tree, "status", "--porcelain", "--untracked-files=no"):
        raise FerryError(f"{places.tree} has changes that are not committed; commit them there first")
    scratch = places.build / "patches.new"
    shutil.rmtree(scratch, ignore_errors=True)
    options = ("--zero-commit", "--no-signature", "-q", "--no-numbered", COPIES, "-o", str(scratch))
    git(places.tree, "format-patch", *options, f"{BASE}..HEAD")
    places.patches.mkdir(parents=True, exist_ok=True)
    patches = sorted(scratch.glob("*.patch"))
    names = _keep_names(patches, {_subject(old): old.name for old in places.patch_files()})
    for old in places.patch_files():
        old.unlink()
    for new, name in zip(patches, names, strict=True):
        shutil.copyfile(new, places.patches / name)
    shutil.rmtree(scratch, ignore_errors=True)
    record(places)
    return places.patch_files()


def _subject(patch: Path) -> str:
    """In one line, however it was folded."""
    return " ".join(str(email.message_from_string(patch.read_text())["subject"]).split())


def _keep_names(patches: Sequence[Path], old_names: Mapping[str, str]) -> list[str]:
    """The names of patches: the old one where its subject has one, else the number after the last."""
    names: list[str] = []
    for patch in patches:
        number = int(names[-1][:4]) + 1 if names else 1
        names.append(old_names.get(_subject(patch), f"{number:04}{patch.name[4:]}"))
    if names != sorted(set(names)):
        raise FerryError(
            "no number is free in the base's patches where a commit is new: rename the patches "
            "behind it, or give the commits the order of the patches"
        )
    return names
