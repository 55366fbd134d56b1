# SPDX-License-Identifier: GPL-2.0
"""What a kernel maintainer's tools say about Ferry: checkpatch, sparse, kernel-doc, a build per patch."""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ferry import files, packages, proc
from ferry.errors import CommandFailed, FerryError, choose
from ferry.git import git
from ferry.kernel import config, kbuild, series, tree
from ferry.kernel.tree import Places
from ferry.progress import note

# Debian 12's sparse is too old for Linux 7.3, so sparse has this base, whichever is chosen. Nearly all
# new files are the same on both.
SPARSE_BASE = "6.12"
_BUILT = ("arch/", "block/", "drivers/", "fs/", "kernel/", "lib/", "mm/")
_INCLUDE_C = re.compile(r'^#include "(\w+\.c)"', re.MULTILINE)
_PATCHED = re.compile(r'^\+\+\+ b/(\S+)|^\+#include "(\w+\.c)"', re.MULTILINE)
_NOT_RUN = "sparse is not available or not up to date"  # so says Kbuild, and goes on without it
_WARNING = re.compile(rf"(?:warning|error): |{_NOT_RUN}")
_TYPE = re.compile(r":\d+: (?:ERROR|WARNING|CHECK):([A-Z0-9_]+): ")
# ccache has gcc compile what is preprocessed already, where macros of Linux compare with themselves.
_QUIET = "KCFLAGS=-Wno-tautological-compare"
# Linux's own tools call "python3" and mean Debian's, which has the packages they need.
_ENV = {"PATH": f"/usr/bin:{os.environ['PATH']}"}
# sparse follows no lock that is taken or left under a condition, nor one that a function of Linux's
# returns with (folio_walk_start, folio_lruvec_lock_irq): in these it finds an imbalance, and none is.
_CONDITIONAL_LOCKS = re.compile(
    r"context imbalance in "
    r"'(lru_run_lock|lru_run_unlock|queue_table|queue_one|promote_leave_table|promote_find)'"
)


def checkpatch(table: series.Table) -> None:
    """checkpatch.pl --strict over the exported series; raises FerryError with what it says.

    It asks spdxcheck.py and get_maintainer.pl of each file, which takes most of its time: all files are given
    to the former at once, and who maintains them is not asked.
    """
    packages.ensure(["perl", "python3-ply", "python3-git"])
    style = (
        *("--terse", "--showfile", "--show-types", "--no-summary", "--quiet", "--color=never"),
        # The tree is one commit: it has no history to look up what a Fixes: line names.
        "--ignore=UNKNOWN_COMMIT_ID",
    )
    complaints, clean = [], []
    root = tree.HERE.tree

    _spdxcheck(root)

    def listen(patch: Path) -> list[str]:
        place = root / "scripts/checkpatch.pl"
        return _complaints([place, f"--root={alone}", "--strict", *style, patch], root).splitlines()

    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        alone = _root_for_checkpatch(root, Path(scratch) / "root")
        written = series.export(table, Path(scratch) / "series", tree.HERE)
        for checked in table.series:
            patches = written[checked.name][1:]
            said = dict(zip((patch.name for patch in patches), pool.map(listen, patches), strict=True))
            bad, summary = judge(checked, said)
            complaints += bad
            clean.append(summary)
    if complaints:
        raise FerryError("checkpatch complains:\n  " + "\n  ".join(complaints))
    for summary in clean:
        note(f"checkpatch --strict: {summary}")


def _spdxcheck(root: Path) -> None:
    """Whether the licenses that Ferry's files name are known; raises FerryError with those that are not."""
    # It ends well whatever it says.
    said = proc.output([root / "scripts/spdxcheck.py", *tree.HERE.src_files()], cwd=root, env=_ENV)
    if said:
        raise FerryError(f"spdxcheck complains:\n{said}")


def _root_for_checkpatch(root: Path, place: Path) -> Path:
    """The same tree by links, without the programs that checkpatch starts for each file."""
    (place / "scripts").mkdir(parents=True)
    for path in root.iterdir():
        if path.name != "scripts":
            (place / path.name).symlink_to(path)
    for path in (root / "scripts").iterdir():
        if path.name not in ("spdxcheck.py", "get_maintainer.pl"):
            (place / "scripts" / path.name).symlink_to(path)
    return place


def judge(checked: series.Series, said: dict[str, list[str]]) -> tuple[list[str], str]:
    """What is to be mended of what checkpatch said to each patch, and a line on a series that is clean.

    It is to be mended as well that something is to be ignored which checkpatch does not say: the
    cover letter, which tells reviewers what was ignored, would be wrong.
    """
    bad: list[str] = []
    ignored: Counter[str] = Counter()
    for row, (patch, lines) in zip(checked.patches, said.items(), strict=True):
        of_patch: Counter[str] = Counter()
        for line in lines:
            complaint = _TYPE.search(line)
            if complaint and complaint[1] in row.checkpatch_ignore:
                of_patch[complaint[1]] += 1
            elif complaint and complaint[1] in checked.checkpatch_ignore:
                ignored[complaint[1]] += 1
            else:
                bad.append(f"{checked.name}, {patch}: {line}")
        unused = sorted(row.checkpatch_ignore.keys() - of_patch)
        bad += [f"{checked.name}, {patch}: has no {kind} to ignore" for kind in unused]
        ignored += of_patch
    unused = sorted(checked.checkpatch_ignore.keys() - ignored)
    bad += [f"{checked.name}: has no {kind} to ignore" for kind in unused]
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items())) or "nothing"
    return bad, f"{checked.name}: {len(said)} patches are clean; ignored: {told}"


def kernel_doc() -> None:
    """kernel-doc over Ferry's files; raises FerryError with what it says."""
    root = tree.HERE.tree
    names = [n for n in tree.HERE.src_files() if n.suffix in (".c", ".h") and n.parts[0] != "tools"]
    said = _complaints([root / "scripts/kernel-doc", "-none", "-Wall", "-Werror", *names], root)
    if said:
        raise FerryError(f"kernel-doc complains:\n{said}")
    note(f"kernel-doc: {len(names)} files are clean")


def sparse(places: Places) -> None:
    """sparse over Ferry's objects, with the debug flavour's config, which has the most of them."""
    packages.ensure([*kbuild.PACKAGES, "sparse"])
    out = kbuild.prepare(kbuild.flavour("debug"), places)
    names = [str(name) for name in places.src_files()]
    included = {name for path in names for name in _included(path, places)} | _included_by_patches(places)
    sources = [n for n in names if n.endswith(".c") and n.startswith(_BUILT) and n not in included]
    said = _make_and_listen(out, ["C=2", *(f"{name[:-2]}.o" for name in sources)], "sparse")
    if any(_NOT_RUN in line for line in said):
        raise FerryError("sparse was not run: Linux's scripts/checker-valid.sh finds this version too old")
    complaints = [
        line for line in said if line.startswith(tuple(names)) and not _CONDITIONAL_LOCKS.search(line)
    ]
    if complaints:
        raise FerryError("sparse complains:\n  " + "\n  ".join(complaints))
    note(f"sparse: {len(sources)} files are clean on Linux {places.base.name}")


def _included(name: str, places: Places) -> list[str]:
    """The .c files that a file includes: tests that are compiled with what they test."""
    text = places.source(name).read_text()
    return [str(Path(name).with_name(included)) for included in _INCLUDE_C.findall(text)]


def _included_by_patches(places: Places) -> set[str]:
    """The same for files of Linux's that a patch lets include them."""
    included: set[str] = set()
    for patch in places.patch_files():
        folder = Path()
        for path, name in _PATCHED.findall(patch.read_text()):
            if path:
                folder = Path(path).parent
            else:
                included.add(str(folder / name))
    return included


def each_patch(table: series.Table) -> None:
    """Build after every patch of the series; raises FerryError naming the first that fails."""
    packages.ensure(kbuild.PACKAGES)
    series.commit(table, tree.HERE)
    root = series.checkout(tree.HERE)
    out = root / "out-ferry"
    out.mkdir(exist_ok=True)
    options = config.merge(tree.HERE.fragments(("common", "ferry", "test")))
    for commit in git(root, "rev-list", "--reverse", f"{tree.BASE}..{series.BRANCH}").split():
        subject = git(root, "log", "-1", "--format=%s", commit)
        git(root, "checkout", "-q", "--force", commit)
        kbuild.set_options(out, options)
        try:
            said = _make_and_listen(out, [_QUIET, "bzImage", "modules"], f"build {commit[:12]}")
        except CommandFailed as err:
            raise FerryError(f"the series does not build at '{subject}': {err}") from err
        if said:
            raise FerryError(f"'{subject}' builds with warnings:\n  " + "\n  ".join(said))
        note(f"builds: {subject}")


def _make_and_listen(out: Path, targets: list[str], title: str) -> list[str]:
    """Run make; returns its warnings, with paths as in the source tree."""
    said: list[str] = []

    def listen(line: str) -> str | None:
        if _WARNING.search(line):
            said.append(line.strip().removeprefix("../"))
        return kbuild.step(line)

    kbuild.make(out, *targets, title=title, on_line=listen)
    return said


def _complaints(args: proc.Args, cwd: Path) -> str:
    """What one of Linux's own tools says if it is not content."""
    try:
        proc.output(args, cwd=cwd, env=_ENV)
    except CommandFailed as err:
        return err.output
    return ""


def run(names: Sequence[str], table: series.Table) -> None:
    """Run the named checks, each on an assembled tree; raises FerryError at the first complaint."""
    choose("check", names, CHECKS)
    for name in names:
        places = tree.places(SPARSE_BASE) if name == "sparse" else tree.HERE
        # Trees and build folders are also those of who builds and packages kernels.
        with files.locked(places.build / "kernel.lock"):
            tree.assemble_current(places)
            CHECKS[name](table)


CHECKS: dict[str, Callable[[series.Table], None]] = {
    "checkpatch": checkpatch,
    "kernel-doc": lambda table: kernel_doc(),
    "sparse": lambda table: sparse(tree.places(SPARSE_BASE)),
    "each-patch": each_patch,
}
