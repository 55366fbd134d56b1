# SPDX-License-Identifier: GPL-2.0
"""The kernel tree: whole or not there, and nobody's work is lost."""

import dataclasses
from pathlib import Path

import pytest

from ferry import paths
from ferry.errors import FerryError
from ferry.git import git
from ferry.kernel import tree
from ferry.kernel.base import Base
from ferry.kernel.tree import Places
from tests.unit.conftest import commit_a_copy, linux_of, patch


def test_the_tree_is_base_plus_patches_plus_links(linux: Base, places: Places) -> None:
    root = tree.assemble(linux, places)
    assert git(root, "log", "--format=%s").splitlines() == ["mm: hook", "linux-source-6.12 6.12.1-1"]
    assert "line ten" in (root / "mm/migrate.c").read_text()
    assert (root / "mm/offload/core.c").resolve() == (places.src / "mm/offload/core.c").resolve()
    assert git(root, "status", "--porcelain") == ""
    assert "line 10\n" in (tree.vanilla(places) / "mm/migrate.c").read_text()
    assert not (places.vanilla / "mm/offload").exists()


def test_assembling_twice_touches_nothing(linux: Base, places: Places) -> None:
    root = tree.assemble(linux, places)
    before = (root / "mm/migrate.c").stat().st_mtime_ns, git(root, "rev-parse", "HEAD")
    tree.assemble(linux, places)
    assert ((root / "mm/migrate.c").stat().st_mtime_ns, git(root, "rev-parse", "HEAD")) == before


def test_equal_input_gives_equal_commits(linux: Base, places: Places, tmp_path: Path) -> None:
    other = dataclasses.replace(places, build=tmp_path / "elsewhere")
    heads = [git(tree.assemble(linux, p), "rev-parse", "HEAD") for p in (places, other)]
    assert heads[0] == heads[1]


def test_every_patch_that_does_not_apply_is_named_with_its_file(linux: Base, places: Places) -> None:
    root = tree.assemble(linux, places)
    head = git(root, "rev-parse", "HEAD")
    (places.patches / "0002-bad.patch").write_text(patch("mm: bad", "line 10", "line X"))
    (places.patches / "0003-worse.patch").write_text(
        patch("mm: worse", "line 14", "x").replace("migrate", "gone")
    )
    (places.patches / "0004-good.patch").write_text(patch("mm: good", "line 16", "line Y"))
    with pytest.raises(FerryError, match=r"apply to .* 6\.12\.1-1:\n[^$]*is at http://archive") as caught:
        tree.assemble(linux, places)
    assert [line.strip() for line in str(caught.value).splitlines()[1:-1]] == [
        "0002-bad.patch: mm/migrate.c",
        "0003-worse.patch: mm/gone.c",
    ]
    assert git(root, "rev-parse", "HEAD") == head, "the tree is as it was"
    (places.patches / "0003-worse.patch").unlink()
    (places.patches / "0002-bad.patch").write_text(patch("mm: good, too", "line 5", "line X"))
    tree.assemble(linux, places)
    assert "line X" in (root / "mm/migrate.c").read_text()


def test_a_patch_goes_by_three_way_where_its_context_has_changed(
    linux: Base, places: Places, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new base keeps what a three-way merge wants of the old one."""
    root = tree.assemble(linux, places)
    tree.refresh(places)  # with the names of what the patch changes
    newer = linux_of(tmp_path, "6.12.2-1", {12: "line twelve"})
    tried = tree.drift(newer, places)
    assert (tried.merged, tried.failed) == (["0001-mm-hook.patch"], {})
    assert "by three-way" not in capsys.readouterr().err
    tree.assemble(newer, places)
    assert "by three-way into linux-source-6.12 6.12.2-1: 0001-mm-hook.patch" in capsys.readouterr().err
    text = (root / "mm/migrate.c").read_text()
    assert "line ten\n" in text
    assert "line twelve\n" in text
    tree.refresh(places)
    assert not tree.drift(newer, places).merged


def test_a_conflict_hides_no_later_patch(linux: Base, places: Places, tmp_path: Path) -> None:
    root = tree.assemble(linux, places)
    (root / "mm/Kconfig").write_text("config MIGRATION\n\tbool\n\tdefault y\n")
    git(root, "commit", "-q", "-a", "-m", "mm: default")
    tree.refresh(places)
    tried = tree.drift(linux_of(tmp_path, "6.12.2-1", {10: "line 10.5"}), places)
    assert tried.failed == {"0001-mm-hook.patch": "mm/migrate.c"}
    assert git(root, "show", f"{tried.head}:mm/Kconfig").endswith("default y")
    assert "line 10.5" in git(root, "show", f"{tried.head}:mm/migrate.c")


def test_what_the_base_has_already_is_named(linux: Base, places: Places, tmp_path: Path) -> None:
    tree.assemble(linux, places)
    tree.refresh(places)
    newer = linux_of(tmp_path, "6.12.2-1", {10: "line ten"})
    assert tree.drift(newer, places).failed == {"0001-mm-hook.patch": "the base has it already"}


def test_an_interrupted_unpacking_is_not_trusted(linux: Base, places: Places) -> None:
    half = places.build / "linux.new"
    half.mkdir(parents=True)
    (half / "garbage").write_text("from an interrupted run")
    root = tree.assemble(linux, places)
    assert not (root / "garbage").exists()
    assert not half.exists()


def test_a_full_disk_is_said_before_anything_is_unpacked(
    linux: Base, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "ROOM", 1 << 60)
    with pytest.raises(FerryError, match=r"the kernels need 1\d+ GB in .*, where [\d.]+ GB are free: "):
        tree.assemble(linux, places)
    assert not list(places.build.glob("linux*"))


@pytest.mark.parametrize("name", ["linux-vanilla.new", "linux-am"])
def test_an_interrupted_checkout_is_not_trusted(linux: Base, places: Places, name: str) -> None:
    """git locks a worktree while it makes it; killed then, it stays locked."""
    root = tree.assemble(linux, places)
    half = places.build / name
    git(root, "worktree", "add", "-q", "--lock", "--detach", half, tree.BASE)
    (half / "mm/migrate.c").unlink()
    (places.patches / "0002-new.patch").write_text(patch("mm: new", "line 15", "line X"))
    tree.assemble(linux, places)
    assert "line 10\n" in (tree.vanilla(places) / "mm/migrate.c").read_text()
    assert "line X" in (root / "mm/migrate.c").read_text()
    assert not half.exists()


def test_a_damaged_tarball_leaves_no_tree(linux: Base, places: Places) -> None:
    with pytest.raises(FerryError, match="damaged"):
        tree.assemble(dataclasses.replace(linux, sha256="0"), places)
    assert not places.tree.exists()


def test_a_new_base_replaces_the_tree(linux: Base, places: Places) -> None:
    root = tree.assemble(linux, places)
    tree.vanilla(places)
    tree.add_worktree(places, places.series, tree.BASE)
    tree.assemble(dataclasses.replace(linux, version="6.12.2-1"), places)
    assert "6.12.2-1" in git(root, "log", "--format=%s", tree.BASE)
    for path in (places.vanilla, places.series):
        assert not path.exists(), "it is checked out anew when needed"


@pytest.mark.parametrize("committed", [False, True])
def test_work_in_the_tree_is_not_overwritten(linux: Base, places: Places, committed: bool) -> None:
    root = tree.assemble(linux, places)
    (root / "mm/migrate.c").write_text("my work\n")
    if committed:
        git(root, "commit", "-q", "-a", "-m", "my work")
    tree.assemble(linux, places)
    (places.patches / "0002-new.patch").write_text(patch("mm: new", "line 15", "line X"))
    with pytest.raises(FerryError, match="refresh"):
        tree.assemble(linux, places)
    assert (root / "mm/migrate.c").read_text() == "my work\n"


def test_refresh_writes_commits_back_and_is_stable(linux: Base, places: Places) -> None:
    root = tree.assemble(linux, places)
    (root / "mm/Kconfig").write_text("config MIGRATION\n\tbool\n\tdefault y\n")
    git(root, "commit", "-q", "-a", "-m", "mm: default")
    first = {path.name: path.read_text() for path in tree.refresh(places)}
    assert list(first) == ["0001-mm-hook.patch", "0002-mm-default.patch"]
    head = git(root, "rev-parse", "HEAD")
    tree.assemble(linux, places)
    assert git(root, "rev-parse", "HEAD") == head
    assert {path.name: path.read_text() for path in tree.refresh(places)} == first


def test_refresh_keeps_the_numbers_of_patches(linux: Base, places: Places) -> None:
    (places.patches / "0001-mm-hook.patch").rename(places.patches / "0040-hook.patch")
    root = tree.assemble(linux, places)
    (root / "mm/Kconfig").write_text("config MIGRATION\n\tbool\n\tdefault y\n")
    git(root, "commit", "-q", "-a", "-m", "mm: default")
    assert [path.name for path in tree.refresh(places)] == ["0040-hook.patch", "0041-mm-default.patch"]
    (root / "mm/Kconfig").write_text("config MIGRATION\n\tbool\n")
    git(root, "commit", "-q", "-a", "-m", "mm: other")
    (places.patches / "0041-mm-default.patch").rename(places.patches / "0039-mm-default.patch")
    tree.record(places)
    with pytest.raises(FerryError, match="no number is free"):
        tree.refresh(places)
    assert [path.name for path in places.patch_files()] == ["0039-mm-default.patch", "0040-hook.patch"]


def test_refresh_writes_a_copy_as_what_differs_from_its_original(
    linux: Base, places: Places, tmp_path: Path
) -> None:
    root = tree.assemble(linux, places)
    copy = commit_a_copy(places)
    text = tree.refresh(places)[-1].read_text()
    assert "copy from mm/migrate.c\ncopy to mm/copy.c\n" in text
    added = [line for line in text.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added == ["+line of the copy"]
    other = dataclasses.replace(places, build=tmp_path / "elsewhere")
    assert (tree.assemble(linux, other) / "mm/copy.c").read_text() == copy.read_text()
    assert git(other.tree, "rev-parse", "HEAD:") == git(root, "rev-parse", "HEAD:")


@pytest.mark.parametrize(
    ("line", "failed"), [(13, {}), (15, {"0002-mm-split-migrate.c.patch": "mm/migrate.c"})]
)
def test_a_copy_is_of_the_new_base_or_not_made(
    linux: Base, places: Places, tmp_path: Path, line: int, failed: dict[str, str]
) -> None:
    """A three-way merge would copy the file as it was, without what the new base has mended there."""
    tree.assemble(linux, places)
    commit_a_copy(places)
    tree.refresh(places)
    tried = tree.drift(linux_of(tmp_path, "6.12.2-1", {line: "mended"}), places)
    assert tried.failed == failed
    assert failed or "mended\n" in git(places.tree, "show", f"{tried.head}:mm/copy.c")


@pytest.mark.parametrize("name", tree.bases())
def test_patches_make_new_files_only_as_copies(name: str) -> None:
    """Linux's own code is never among the added lines; and what is Ferry's alone is in kernel/src."""
    for path in tree.places(name).patch_files():
        assert "\nnew file mode" not in path.read_text(), path.name


def test_refresh_wants_commits(linux: Base, places: Places) -> None:
    root = tree.assemble(linux, places)
    (root / "mm/migrate.c").write_text("not committed\n")
    with pytest.raises(FerryError, match="not committed"):
        tree.refresh(places)


def test_links_follow_the_files_of_src(linux: Base, places: Places) -> None:
    root = tree.assemble(linux, places)
    (places.src / "mm/offload/core.c").rename(places.src / "mm/offload/pipeline.c")
    tree.assemble(linux, places)
    assert not (root / "mm/offload/core.c").is_symlink()
    assert (root / "mm/offload/pipeline.c").read_text() == "int core;\n"


def test_src_may_not_hide_a_file_of_linux(linux: Base, places: Places) -> None:
    (places.src / "mm/migrate.c").write_text("mine\n")
    with pytest.raises(FerryError, match="change it by a patch"):
        tree.assemble(linux, places)


def test_the_fingerprint_sees_every_kind_of_change(linux: Base, places: Places) -> None:
    root = tree.assemble(linux, places)
    seen = {tree.fingerprint(root, places)}
    for path in (root / "mm/migrate.c", root / "mm/new.c", places.src / "mm/offload/core.c"):
        path.write_text("changed\n")
        seen.add(tree.fingerprint(root, places))
    git(root, "commit", "-q", "-a", "-m", "change")
    seen.add(tree.fingerprint(root, places))
    assert len(seen) == 5


def test_what_a_base_has_otherwise_wins(linux: Base, places: Places) -> None:
    """A new file, and a fragment; what only this base has is there as well."""
    (places.own_src / "mm/offload").mkdir(parents=True)
    (places.own_src / "mm/offload/core.c").write_text("int other;\n")
    (places.own_src / "mm/offload/compat.h").write_text("#define OLD new\n")
    root = tree.assemble(linux, places)
    assert (root / "mm/offload/core.c").read_text() == "int other;\n"
    assert (root / "mm/offload/compat.h").is_symlink()
    common, own = places.src.parent / "config/common.config", places.base / "config/common.config"
    assert places.fragments(["common"]) == [common]
    own.parent.mkdir()
    own.touch()
    assert places.fragments(["common"]) == [common, own]


def test_bases_do_not_share_a_tree() -> None:
    assert paths.DEFAULT_BASE in tree.bases()
    assert {name: tree.places(name).tree for name in tree.bases()} == {
        name: paths.BUILD / name / "linux" for name in tree.bases()
    }
