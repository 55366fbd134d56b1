# SPDX-License-Identifier: GPL-2.0
"""The exported series: complete, ordered, true about themselves, and git am takes them."""

from pathlib import Path

import pytest

from ferry import paths
from ferry.errors import FerryError
from ferry.git import git
from ferry.kernel import check, series, tree
from ferry.kernel.base import Base
from ferry.kernel.tree import Places
from tests.unit.conftest import commit_a_copy, patch

MESSAGE = "From: A Developer <dev@ferry.invalid>\nSubject: {}\n\nWhy.\n\nSigned-off-by: A <a@b>\n"
COVER = "mm: the {}\n\nThe text.\n"
CORE = '[[series.patch]]\nmessage = "core.msg"\nfiles = ["mm/offload/core.c"]\n'
TEST = '[[series.patch]]\nmessage = "test.msg"\nfiles = ["mm/offload/*"]\n'
CORE_WITH_MAKEFILE = """
[[series.patch]]
message = "core.msg"
files = ["mm/offload/core.c", "mm/offload/Makefile"]
omit = { "mm/offload/Makefile" = ["test"] }
"""
HOOK = '[[series.patch]]\nhooks = ["0001-*.patch"]\n'
SECOND = '[[series.patch]]\nhooks = ["0002-*.patch"]\n'
HOOK_IGNORING = HOOK + '[series.patch.checkpatch_ignore]\nSPACING = "as it was"\nVOLATILE = "as it was"\n'
OFFLOAD = '[[series]]\nname = "offload"\ncover = "cover.msg"\n'
FIRST = '[[series]]\nname = "first"\ncover = "first.msg"\n'
IGNORED = '[series.checkpatch_ignore]\nFILE_PATH_CHANGES = "MAINTAINERS comes last"\n'


@pytest.fixture
def kernel(linux: Base, places: Places) -> Path:
    """The kernel folder, with messages and a second file."""
    (places.src / "mm/offload/Makefile").write_text("obj-y += core.o\nobj-y += test.o\n")
    (places.src / "mm/offload/test.c").write_text("int test;\n")
    folder = places.src.parent
    (folder / "cover.msg").write_text(COVER.format("subject"))
    (folder / "first.msg").write_text(COVER.format("first of all"))
    for name in ("core", "test"):
        (folder / f"{name}.msg").write_text(MESSAGE.format(f"mm: {name}"))
    tree.assemble(linux, places)
    return folder


@pytest.fixture
def second_hook(kernel: Path, linux: Base, places: Places) -> str:
    """A change beside that of the first hook: it applies after that one only."""
    text = patch("mm: second", "line 12", "line twelve").replace(" line 10\n", " line ten\n")
    (places.patches / "0002-mm-second.patch").write_text(text)
    tree.assemble(linux, places)
    return SECOND


def read(kernel: Path, text: str) -> series.Table:
    path = kernel / "series.toml"
    path.write_text(text)
    return series.load(path, kernel)


def table(kernel: Path, patches: str) -> series.Table:
    """One series of these patches."""
    return read(kernel, OFFLOAD + patches)


def letters(written: dict[str, list[Path]]) -> list[str]:
    """The cover letters, each on one line."""
    return [" ".join(patches[0].read_text().split()) for patches in written.values()]


def test_git_am_takes_the_export_and_gives_the_same_tree(
    kernel: Path, places: Places, tmp_path: Path
) -> None:
    rows = table(kernel, CORE_WITH_MAKEFILE + HOOK + TEST)
    patches = series.export(rows, tmp_path / "out", places)["offload"]
    assert [str(path.relative_to(tmp_path / "out"))[:14] for path in patches] == [
        f"1-offload/000{number}" for number in range(4)
    ]
    assert "Subject: [PATCH 0/3] mm: the subject" in patches[0].read_text()
    tree.add_worktree(places, tmp_path / "am", tree.BASE)
    git(tmp_path / "am", "am", "-q", *patches[1:])
    subjects = git(tmp_path / "am", "log", "--format=%s", "--reverse", f"{tree.BASE}..").splitlines()
    assert subjects == ["mm: core", "mm: hook", "mm: test"]
    for name in places.src_files():
        assert (tmp_path / "am" / name).read_text() == (places.src / name).read_text()
    early = git(tmp_path / "am", "show", "HEAD~2:mm/offload/Makefile")
    assert early == "obj-y += core.o"


def test_a_copy_is_exported_as_one(kernel: Path, places: Places, tmp_path: Path) -> None:
    copy = commit_a_copy(places)
    tree.refresh(places)
    written = series.export(table(kernel, HOOK + SECOND + TEST), tmp_path / "out", places)["offload"]
    assert "copy from mm/migrate.c\ncopy to mm/copy.c\n" in written[2].read_text()
    tree.add_worktree(places, tmp_path / "am", tree.BASE)
    git(tmp_path / "am", "am", "-q", *written[1:])
    assert (tmp_path / "am/mm/copy.c").read_text() == copy.read_text()


def test_each_series_has_its_letter_its_numbers_and_applies_to_the_base(
    kernel: Path, places: Places, tmp_path: Path
) -> None:
    written = series.export(read(kernel, FIRST + HOOK + OFFLOAD + CORE + TEST), tmp_path / "out", places)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["1-first", "2-offload"]
    assert {name: len(patches) for name, patches in written.items()} == {"first": 2, "offload": 3}
    subjects = [patches[0].read_text().split("Subject: ")[1].splitlines()[0] for patches in written.values()]
    assert subjects == ["[PATCH 0/1] mm: the first of all", "[PATCH 0/2] mm: the subject"]
    for name, patches in written.items():
        tree.add_worktree(places, tmp_path / name, tree.BASE)
        git(tmp_path / name, "am", "-q", *patches[1:])
    assert "line ten" in (tmp_path / "first/mm/migrate.c").read_text()
    assert "line ten" not in (tmp_path / "offload/mm/migrate.c").read_text()


def test_a_series_that_needs_another_says_so_in_its_letter(
    kernel: Path, places: Places, tmp_path: Path, second_hook: str
) -> None:
    needs = FIRST + HOOK + OFFLOAD + 'needs = ["first"]\n' + second_hook + TEST
    written = series.export(read(kernel, needs), tmp_path / "out", places)
    first, second = letters(written)
    assert "apply to Debian's linux-source-6.12 6.12.1-1 alone; they need no other series." in first
    assert """Debian's linux-source-6.12 6.12.1-1 after: first, "mm: the first of all" checkpatch""" in second


def test_a_series_that_does_not_apply_alone_must_say_what_it_needs(
    kernel: Path, places: Places, tmp_path: Path, second_hook: str
) -> None:
    claims_too_much = read(kernel, FIRST + HOOK + OFFLOAD + second_hook + TEST)
    with pytest.raises(
        FerryError, match=r"series 'offload' does not apply on the base: (.|\n)*mm/migrate\.c"
    ):
        series.export(claims_too_much, tmp_path / "out", places)


def test_the_letter_says_what_checkpatch_is_told_to_ignore_and_why(
    kernel: Path, places: Places, tmp_path: Path
) -> None:
    text = FIRST + IGNORED + HOOK_IGNORING + OFFLOAD + TEST
    written = series.export(read(kernel, text), tmp_path / "out", places)
    first, second = letters(written)
    ignored = "all patches: FILE_PATH_CHANGES MAINTAINERS comes last patch 1: SPACING, VOLATILE as it was"
    assert ignored in first
    assert "told to ignore nothing" in second
    assert "FILE_PATH_CHANGES" not in second


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (CORE + HOOK, "not what the tree has: mm/offload/Makefile, mm/offload/test.c"),
        (TEST, "not what the tree has: mm/migrate.c"),
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


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "there is none"),
        ("cover = 1 2", r"cannot read the series from .*/series\.toml: "),
        ('cover = "cover.msg"\n' + OFFLOAD + TEST, "but there is cover"),
        ("series = 1\n", r"cannot read the series from .*/series\.toml: "),
        (OFFLOAD + "patch = 1\n", r"cannot read the series from .*/series\.toml: "),
        (OFFLOAD, "series 'offload': no 'patches'"),
        (OFFLOAD + 'nosuch = "x"\n' + TEST, "series 'offload': unknown key 'nosuch'"),
        (OFFLOAD + '[[series.patch]]\nnosuch = "x"\n', "series 'offload', a patch: unknown key 'nosuch'"),
        ('[[series]]\ncover = "cover.msg"\n' + TEST, "series '': no 'name'"),
        ('[[series]]\nname = "offload"\n' + TEST, "series 'offload': no 'cover'"),
        ('[[series]]\nname = "../x"\ncover = "cover.msg"\n' + TEST, "series '../x': a name is of"),
        (OFFLOAD + HOOK + OFFLOAD + TEST, "series 'offload' is there twice"),
        (OFFLOAD + 'needs = ["first"]\n' + TEST + FIRST + HOOK, "needs 'first', which is none before it"),
        (OFFLOAD + 'checkpatch_ignore = ["SPACING"]\n' + TEST, "needs a reason for each type"),
        (OFFLOAD + TEST + 'checkpatch_ignore = { SPACING = "" }\n', "needs a reason for each type"),
    ],
)
def test_an_unreadable_table_is_explained(kernel: Path, text: str, complaint: str) -> None:
    with pytest.raises(FerryError, match=complaint):
        read(kernel, text)


def test_a_cover_letter_that_is_not_there_is_explained(kernel: Path, places: Places, tmp_path: Path) -> None:
    rows = read(kernel, OFFLOAD.replace("cover.msg", "nosuch.msg") + HOOK + TEST)
    with pytest.raises(FerryError, match=r"cannot read .*nosuch\.msg"):
        series.export(rows, tmp_path / "out", places)


def judged(said: list[str]) -> tuple[list[str], str]:
    """What becomes of these lines of checkpatch's where three types are to be ignored."""
    ignoring = series.Patch(checkpatch_ignore={"SPACING": "why", "VOLATILE": "why"})
    one = series.Series("x", "x.msg", (ignoring,), checkpatch_ignore={"FILE_PATH_CHANGES": "why"})
    return check.judge(one, {"0001-x.patch": said})


def test_checkpatch_is_clean_but_for_what_it_was_told_to_ignore_and_that_is_counted() -> None:
    said = [
        "mm/x.c:1: CHECK:SPACING: spaces preferred",
        "mm/x.c:2: CHECK:SPACING: spaces preferred",
        "mm/x.c:3: WARNING:VOLATILE: Use of volatile",
        "mm/x.c:4: WARNING:FILE_PATH_CHANGES: added",
    ]
    clean = "x: 1 patches are clean; ignored: 1 FILE_PATH_CHANGES, 2 SPACING, 1 VOLATILE"
    assert judged(said) == ([], clean)
    bad, _ = judged([*said, "mm/x.c:5: ERROR:COMPLEX_MACRO: enclose it", "perl: not what was hoped for"])
    assert bad == [
        "x, 0001-x.patch: mm/x.c:5: ERROR:COMPLEX_MACRO: enclose it",
        "x, 0001-x.patch: perl: not what was hoped for",
    ]


def test_a_letter_must_not_name_a_type_that_checkpatch_does_not_find() -> None:
    bad, _ = judged(["mm/x.c:3: WARNING:VOLATILE: Use of volatile"])
    assert bad == ["x, 0001-x.patch: has no SPACING to ignore", "x: has no FILE_PATH_CHANGES to ignore"]
    assert check.judge(series.Series("x", "x.msg", ()), {})[1].endswith("ignored: nothing")


def test_our_own_letters_are_as_mailing_lists_want_them() -> None:
    for one in series.load().series:
        text = (paths.KERNEL / one.cover).read_text()
        assert text.isascii()
        assert max(len(line) for line in text.splitlines()) <= series.WIDTH, one.cover


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
