# SPDX-License-Identifier: GPL-2.0
"""The exported series: complete, ordered, and git am takes it."""

from pathlib import Path

import pytest

from ferry.errors import FerryError
from ferry.git import git
from ferry.kernel import check, series, tree
from ferry.kernel.base import Base
from ferry.kernel.tree import Places
from tests.unit.conftest import patch

MESSAGE = "From: A Developer <dev@ferry.invalid>\nSubject: {}\n\nWhy.\n\nSigned-off-by: A <a@b>\n"
CORE = '[[series.patch]]\nmessage = "core.msg"\nfiles = ["mm/offload/core.c"]\n'
TEST = '[[series.patch]]\nmessage = "test.msg"\nfiles = ["mm/offload/*"]\n'
CORE_WITH_MAKEFILE = """
[[series.patch]]
message = "core.msg"
files = ["mm/offload/core.c", "mm/offload/Makefile"]
omit = { "mm/offload/Makefile" = ["test"] }
"""
SERIES = '[[series]]\nname = "{}"\ncover = "cover.msg"\n'
HOOK = '[[series.patch]]\nhooks = ["0001-*.patch"]\n'


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
    path.write_text(f"{SERIES.format('one')}{text}")
    return series.load(path)


def test_git_am_takes_the_export_and_gives_the_same_tree(
    kernel: Path, places: Places, tmp_path: Path
) -> None:
    rows = table(kernel, CORE_WITH_MAKEFILE + HOOK + TEST)
    patches = series.export(rows, tmp_path / "out", places)["one"]
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
        ('[[series.patch]]\nhooks = ["9-*.patch"]\n', "no hook 9-"),
        ('[[series.patch]]\nmessage = "core.msg"\nfiles = ["nosuch"]\n', "no file nosuch"),
        ('[[series.patch]]\nfiles = ["mm/offload/*"]\n', "neither a message nor a hook"),
    ],
)
def test_a_wrong_table_is_explained(kernel: Path, places: Places, text: str, complaint: str) -> None:
    with pytest.raises(FerryError, match=complaint):
        series.commit(table(kernel, text), places)


TWICE = HOOK + SERIES.format("one") + TEST
CAPITAL = HOOK + SERIES.format("Two") + TEST
NEEDS = HOOK + SERIES.format("two") + 'needs = ["three"]\n' + TEST


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no 'patches'"),
        ("cover = 1 2", "cannot read"),
        ('[[series.patch]]\nnosuch = "x"\n', "unknown key 'nosuch'"),
        (HOOK + 'checkpatch_ignore = ["A"]\n', "a reason for each type"),
        (TWICE, "'one' is there twice"),
        (CAPITAL, "small letters"),
        (NEEDS, "needs 'three', which is none before it"),
        ("[[patch]]\n" + HOOK, "all is in"),
    ],
)
def test_an_unreadable_table_is_explained(kernel: Path, text: str, complaint: str) -> None:
    with pytest.raises(FerryError, match=complaint) as raised:
        table(kernel, text)
    assert "series.toml" in str(raised.value)


def test_each_series_is_a_folder_with_a_letter_of_its_own(
    kernel: Path, places: Places, tmp_path: Path
) -> None:
    (kernel / "second.msg").write_text("mm: the second\n\nMore.\n")
    ignore = '[series.patch.checkpatch_ignore]\nSPACING = "the macro wants it"\n'
    second = SERIES.format("two").replace("cover.msg", "second.msg") + 'needs = ["one"]\n'
    written = series.export(table(kernel, HOOK + second + TEST + ignore), tmp_path / "out", places)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["1-one", "2-two"]
    letters = [" ".join(written[name][0].read_text().split()) for name in ("one", "two")]
    assert "Subject: [PATCH 0/1] mm: the subject" in letters[0]
    assert "told to ignore nothing" in letters[0]
    assert "need no other series" in letters[0]
    assert "Subject: [PATCH 0/1] mm: the second" in letters[1]
    assert 'one, "mm: the subject"' in letters[1]
    assert "patch 1: SPACING the macro wants it" in letters[1]


def test_a_series_that_does_not_say_what_it_needs_is_refused(
    linux: Base, kernel: Path, places: Places, tmp_path: Path
) -> None:
    (places.patches / "0002-again.patch").write_text(patch("mm: again", "line 11", "line eleven"))
    text = (places.patches / "0002-again.patch").read_text().replace(" line 10\n", " line ten\n")
    (places.patches / "0002-again.patch").write_text(text)
    tree.assemble(linux, places)
    again = '[[series.patch]]\nhooks = ["0002-*.patch"]\n'
    alone = table(kernel, HOOK + TEST + SERIES.format("two") + again)
    with pytest.raises(FerryError, match="series 'two' does not apply on the base"):
        series.export(alone, tmp_path / "out", places)
    told = table(kernel, HOOK + TEST + SERIES.format("two") + 'needs = ["one"]\n' + again)
    assert list(series.export(told, tmp_path / "told", places)) == ["one", "two"]


SAID = "mm/x.c:{}: WARNING:{}: text"


def test_only_what_is_said_to_be_ignored_is_ignored() -> None:
    row = series.Patch(checkpatch_ignore={"SPACING": "why"})
    one = series.Series("one", "cover", (row, series.Patch()), checkpatch_ignore={"ENOSYS": "why"})
    said = {"1": [SAID.format(3, "SPACING"), SAID.format(4, "ENOSYS")], "2": [SAID.format(5, "SPACING")]}
    bad, _ = check.judge(one, said)
    assert bad == [f"one, 2: {SAID.format(5, 'SPACING')}"]
    bad, summary = check.judge(one, {**said, "2": []})
    assert not bad
    assert summary == "one: 2 patches are clean; ignored: 1 ENOSYS, 1 SPACING"


def test_what_is_ignored_for_nothing_is_complained_about() -> None:
    row = series.Patch(checkpatch_ignore={"SPACING": "why"})
    one = series.Series("one", "cover", (row,), checkpatch_ignore={"ENOSYS": "why"})
    bad, _ = check.judge(one, {"1": []})
    assert bad == ["one, 1: has no SPACING to ignore", "one: has no ENOSYS to ignore"]


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
