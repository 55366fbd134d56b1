# SPDX-License-Identifier: GPL-2.0
"""A release is of one commit, one version, and has all of its packages."""

import argparse
from pathlib import Path

import pytest

from ferry import paths, tools
from ferry.commands import release
from ferry.errors import FerryError, UsageError
from ferry.git import git
from ferry.kernel import deb


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that is ready for 1.2, and packages that are made at once."""
    folder = tmp_path / "repository"
    (folder / "tools/debian").mkdir(parents=True)
    (folder / "VERSION").write_text("1.2\n")
    (folder / "tools/debian/changelog").write_text("ferry-tools (1.2) unstable; urgency=medium\n")
    (folder / "CHANGELOG.md").write_text("# Changes\n\n## 1.2, 2026-12-01\n\n- New.\n\n## 1.1\n\n- Old.\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "all")
    made = tmp_path / "out/deb/ferry-tools_1.2_amd64.deb"
    made.parent.mkdir(parents=True)
    made.write_text("tools")

    def kernel(choice: deb.Choice, target: Path) -> list[Path]:
        assert choice.config == deb.DEBIAN
        (target / "linux-image-6.12-ferry.deb").write_text("kernel")
        return [target / "linux-image-6.12-ferry.deb"]

    monkeypatch.setattr(paths, "ROOT", folder)
    monkeypatch.setattr(release, "TARGET", tmp_path / "out/release")
    monkeypatch.setattr(tools, "build", lambda: made)
    monkeypatch.setattr(deb, "build", kernel)
    return folder


def _run() -> int:
    return release.run(argparse.Namespace(sign=None))


def test_a_release_has_packages_sums_notes_and_a_tag(root: Path, tmp_path: Path) -> None:
    assert _run() == 0
    names = {path.name for path in (tmp_path / "out/release").iterdir()}
    assert names == {"ferry-tools_1.2_amd64.deb", "linux-image-6.12-ferry.deb", "SHA256SUMS", "NOTES.md"}
    assert (tmp_path / "out/release/NOTES.md").read_text() == "- New.\n"
    assert (tmp_path / "out/release/SHA256SUMS").read_text().count("\n") == 2
    assert git(root, "rev-parse", "v1.2^{commit}") == git(root, "rev-parse", "HEAD")
    assert "Ferry 1.2" in git(root, "tag", "-l", "-n9", "v1.2")
    assert _run() == 0  # again, of the same commit


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("CHANGELOG.md", "# Changes\n\n## 1.2, not released\n", "has no heading '## 1.2, YEAR-MONTH-DAY'"),
        ("tools/debian/changelog", "ferry-tools (1.1) unstable\n", "begins with: ferry-tools \\(1.1\\)"),
    ],
)
def test_a_version_that_is_not_everywhere_is_refused(root: Path, name: str, text: str, why: str) -> None:
    (root / name).write_text(text)
    with pytest.raises(UsageError, match="not committed"):
        _run()
    git(root, "commit", "-qam", "changed")
    with pytest.raises(UsageError, match=why):
        _run()
    assert git(root, "tag") == ""


def test_a_tag_is_never_moved(root: Path) -> None:
    assert _run() == 0
    (root / "new").write_text("x")
    git(root, "add", ".")
    git(root, "commit", "-qm", "more")
    with pytest.raises(FerryError, match=r"v1\.2 is of another commit"):
        _run()


def test_the_versions_of_this_checkout_agree() -> None:
    version = (paths.ROOT / "VERSION").read_text().strip()
    assert f"({version})" in (paths.ROOT / "tools/debian/changelog").read_text().splitlines()[0]
    assert f"\n## {version}, " in (paths.ROOT / "CHANGELOG.md").read_text()
