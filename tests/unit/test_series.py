# SPDX-License-Identifier: GPL-2.0
"""The exported series: complete, ordered, and git am takes it."""

from pathlib import Path

import pytest

from ferry.errors import FerryError
from ferry.git import git
from ferry.kernel import series, tree
from ferry.kernel.base import Base
from ferry.kernel.tree import Places

MESSAGE = "From: A Developer <dev@ferry.invalid>\nSubject: {}\n\nWhy.\n\nSigned-off-by: A <a@b>\n"
CORE = '[[patch]]\nmessage = "core.msg"\nfiles = ["mm/offload/core.c"]\n'
TEST = '[[patch]]\nmessage = "test.msg"\nfiles = ["mm/offload/*"]\n'
CORE_WITH_MAKEFILE = """
[[patch]]
message = "core.msg"
files = ["mm/offload/core.c", "mm/offload/Makefile"]
omit = { "mm/offload/Makefile" = ["test"] }
"""
HOOK = '[[patch]]\nhooks = ["0001-*.patch"]\n'


@pytest.fixture
def kernel(linux: Base, places: Places) -> Path:
    """The kernel folder, with messages and a second file."""
    (places.src / "mm/offload/Makefile").write_text("obj-y += core.o\nobj-y += test.o\n")
    (places.src / "mm/offload/test.c").write_text("int test;\n")
    folder = places.src.parent
    (folder / "cover.msg").write_text("mm: the subject\n\nThe text.\n")
    for name in ("core", "test"):
        (folder / f"{name}.msg").write_text(MESSAGE.format(f"mm: {name}"))
    tree.assemble(linux, places)
    return folder


def table(kernel: Path, text: str) -> series.Table:
    path = kernel / "series.toml"
    path.write_text(f'cover = "cover.msg"\n{text}')
    return series.load(path)


def test_git_am_takes_the_export_and_gives_the_same_tree(
    kernel: Path, places: Places, tmp_path: Path
) -> None:
    rows = table(kernel, CORE_WITH_MAKEFILE + HOOK + TEST)
    patches = series.export(rows, tmp_path / "out", places)
    assert [path.name[:4] for path in patches] == ["0000", "0001", "0002", "0003"]
    assert "Subject: [PATCH 0/3] mm: the subject" in patches[0].read_text()
    tree.add_worktree(places, tmp_path / "am", tree.BASE)
    git(tmp_path / "am", "am", "-q", *patches[1:])
    subjects = git(tmp_path / "am", "log", "--format=%s", "--reverse", f"{tree.BASE}..").splitlines()
    assert subjects == ["mm: core", "mm: hook", "mm: test"]
    for name in places.src_files():
        assert (tmp_path / "am" / name).read_text() == (places.src / name).read_text()
    early = git(tmp_path / "am", "show", "HEAD~2:mm/offload/Makefile")
    assert early == "obj-y += core.o"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (CORE + HOOK, "not what build/linux has: mm/offload/Makefile, mm/offload/test.c"),
        (TEST, "not what build/linux has: mm/migrate.c"),
        (TEST + CORE + HOOK, "core.msg: this patch of the series changes nothing"),
        (HOOK + HOOK, "0001-mm-hook.patch does not apply in the series"),
        ('[[patch]]\nhooks = ["9-*.patch"]\n', "no hook 9-"),
        ('[[patch]]\nmessage = "core.msg"\nfiles = ["nosuch"]\n', "no file nosuch"),
        ('[[patch]]\nfiles = ["mm/offload/*"]\n', "neither a message nor a hook"),
    ],
)
def test_a_wrong_table_is_explained(kernel: Path, places: Places, text: str, complaint: str) -> None:
    with pytest.raises(FerryError, match=complaint):
        series.commit(table(kernel, text), places)


@pytest.mark.parametrize("text", ["", "cover = 1 2", '[[patch]]\nnosuch = "x"\n'])
def test_an_unreadable_table_is_explained(kernel: Path, text: str) -> None:
    with pytest.raises(FerryError, match=r"series\.toml"):
        table(kernel, text)


def test_a_message_needs_an_author(kernel: Path, places: Places) -> None:
    (kernel / "test.msg").write_text("Subject: mm: nobody\n\nWhy.\n")
    with pytest.raises(FerryError, match="From: NAME"):
        series.commit(table(kernel, TEST), places)


def test_only_an_empty_folder_is_written_to(kernel: Path, places: Places, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("precious")
    for folder, complaint in ((tmp_path / "full", "is not empty"), (tmp_path / "full/file", "cannot write")):
        with pytest.raises(FerryError, match=complaint):
            series.export(table(kernel, HOOK + TEST), folder, places)


def test_checkout_follows_the_series(kernel: Path, places: Places) -> None:
    rows = table(kernel, HOOK + TEST)
    series.commit(rows, places)
    assert (series.checkout(places) / "mm/offload/core.c").read_text() == "int core;\n"
    (places.src / "mm/offload/core.c").write_text("int better;\n")
    series.commit(rows, places)
    assert (series.checkout(places) / "mm/offload/core.c").read_text() == "int better;\n"
