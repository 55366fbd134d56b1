# SPDX-License-Identifier: GPL-2.0
"""make a release: packages, checksums and notes in out/release, and a tag"""

import argparse
import re
import shutil
from pathlib import Path

from ferry import files, paths, proc, tools
from ferry.errors import FerryError, UsageError
from ferry.git import git
from ferry.kernel import deb

TARGET = paths.OUT / "release"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(needs=())
    parser.add_argument("--sign", metavar="KEY", help="sign the kernel, as 'kernel deb' does")


def run(args: argparse.Namespace) -> int:
    version = (paths.ROOT / "VERSION").read_text().strip()
    notes = check(paths.ROOT, version)
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    made = [tools.build(), *deb.build(deb.Choice(deb.DEBIAN, all_modules=True, sign=args.sign), TARGET)]
    listed = [path if path.parent == TARGET else Path(shutil.copy(path, TARGET)) for path in made]
    sums = proc.output(["sha256sum", *sorted(path.name for path in listed)], cwd=TARGET)
    files.write(TARGET / "SHA256SUMS", f"{sums.rstrip()}\n")
    files.write(TARGET / "NOTES.md", notes)
    tag(paths.ROOT, version, notes)
    for path in sorted(TARGET.iterdir()):
        print(path)
    return 0


def check(root: Path, version: str) -> str:
    """The notes of a release; raises UsageError unless everything agrees about it."""
    if git(root, "status", "--porcelain"):
        raise UsageError("there are changes that are not committed: a release is of a commit")
    first = (root / "tools/debian/changelog").read_text().partition("\n")[0]
    if f"({version})" not in first:
        raise UsageError(f"VERSION is {version}, and tools/debian/changelog begins with: {first}")
    text = (root / "CHANGELOG.md").read_text()
    section = re.search(
        rf"^## {re.escape(version)}, (\d{{4}}-\d\d-\d\d)\n(.*?)(?=^## |\Z)", text, re.M | re.S
    )
    if not section:
        raise UsageError(f"CHANGELOG.md has no heading '## {version}, YEAR-MONTH-DAY'")
    return section[2].strip() + "\n"


def tag(root: Path, version: str, notes: str) -> None:
    """An annotated tag of this commit, as its author; one that is there must be of it."""
    name = f"v{version}"
    head = git(root, "rev-parse", "HEAD")
    if git(root, "tag", "--list", name):
        if git(root, "rev-parse", f"{name}^{{commit}}") != head:
            raise FerryError(f"the tag {name} is of another commit: a new release needs a new VERSION")
        return
    who, address, when = git(root, "log", "-1", "--format=%an%n%ae%n%cI").split("\n")
    env = {"GIT_COMMITTER_NAME": who, "GIT_COMMITTER_EMAIL": address, "GIT_COMMITTER_DATE": when}
    git(root, "tag", "-a", name, "-F", "-", env=env, input_text=f"Ferry {version}\n\n{notes}")
