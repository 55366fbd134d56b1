# SPDX-License-Identifier: GPL-2.0
"""./ferry: makes its own Python environment, and never trusts half of one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ferry import paths, progress


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with the launcher and a lab that only says hello."""
    root = tmp_path / "clone"
    (root / "lab/ferry").mkdir(parents=True)
    shutil.copy(paths.ROOT / "ferry", root / "ferry")
    for name in ("requirements.txt", "requirements-dev.txt"):
        (root / "lab" / name).write_text("")
    (root / "lab/ferry/__init__.py").write_text("")
    (root / "lab/ferry/cli.py").write_text(
        "from types import SimpleNamespace\n"
        "NEEDS = {'build': (), 'develop': ('requirements.txt', 'requirements-dev.txt')}\n"
        "def parse(argv):\n    return SimpleNamespace(needs=NEEDS.get(argv[0], ('requirements.txt',)))\n"
    )
    (root / "lab/ferry/__main__.py").write_text("import sys\nprint('hello', *sys.argv[1:])\nsys.exit(5)\n")
    return root


def run(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    args = [sys.executable, str(clone / "ferry"), *(words or ("a", "b c"))]
    return subprocess.run(args, capture_output=True, text=True, check=False)


def test_arguments_and_exit_code_pass_through(clone: Path) -> None:
    first, second = run(clone), run(clone)
    assert (first.returncode, first.stdout) == (second.returncode, second.stdout) == (5, "hello a b c\n")
    assert "making build/venv" in first.stderr
    assert second.stderr == ""


def test_on_a_terminal_nothing_is_needed_that_is_not_there_yet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """./ferry itself runs on Debian's Python, which may be without rich."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.Step("install python3-venv") as step:
        step.update("1/2")
    assert capsys.readouterr().err == "install python3-venv ...\ninstall python3-venv: done (0:00)\n"


def test_an_interrupted_environment_is_made_anew(clone: Path) -> None:
    broken = clone / "build/venv/bin"
    broken.mkdir(parents=True)
    (broken / "python").write_text("#!/bin/sh\nexit 99\n")
    (broken / "python").chmod(0o755)
    assert run(clone).stdout == "hello a b c\n"


def test_a_failed_installation_is_said_and_not_trusted(clone: Path) -> None:
    (clone / "lab/requirements.txt").write_text("./nosuch.whl\n")
    for _ in range(2):
        done = run(clone)
        assert done.returncode == 1
        assert "ferry: cannot make" in done.stderr
    (clone / "lab/requirements.txt").write_text("")
    assert run(clone).returncode == 5


def test_changed_requirements_are_installed(clone: Path) -> None:
    run(clone)
    (clone / "lab/requirements.txt").write_text("# changed\n")
    assert "making build/venv" in run(clone).stderr


def test_what_developers_need_is_installed_for_them_alone(clone: Path) -> None:
    """A list that cannot be installed is not looked at until a command needs it."""
    (clone / "lab/requirements-dev.txt").write_text("./nosuch.whl\n")
    assert run(clone).returncode == 5
    assert run(clone, "develop").returncode == 1
    assert run(clone).returncode == 5
    (clone / "lab/requirements-dev.txt").write_text("")
    done = run(clone, "develop")
    assert done.returncode == 5
    assert "making build/venv" not in done.stderr


def test_who_needs_no_package_gets_no_environment(clone: Path) -> None:
    """Be the lists such that none could be made. One that is there is used."""
    (clone / "lab/requirements.txt").write_text("./nosuch.whl\n")
    done = run(clone, "build")
    assert (done.returncode, done.stdout, done.stderr) == (5, "hello build\n", "")
    assert not (clone / "build/venv").exists()
    (clone / "lab/requirements.txt").write_text("")
    (clone / "lab/ferry/__main__.py").write_text("import sys\nprint(sys.prefix)\n")
    assert run(clone).stdout == run(clone, "build").stdout == f"{clone / 'build/venv'}\n"


def test_a_folder_that_cannot_be_written_is_one_clear_line(clone: Path) -> None:
    (clone / "build").write_text("")
    done = run(clone)
    assert done.returncode == 1
    assert done.stderr.startswith("ferry: cannot make")
    assert len(done.stderr.splitlines()) == 1


def test_make_clean_leaves_nothing_that_was_made(tmp_path: Path) -> None:
    made = ["bench/migbench", "bench/migbench-sanitize", "bench/iova_stress/iova_stress"]
    made += ["bench/tierbench/tierbench", "build/x", "out/x"]
    for name in ("Makefile", "bench/Makefile", "bench/iova_stress/Makefile", "bench/tierbench/Makefile"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths.ROOT / name, tmp_path / name)
    for name in made:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run(["make", "-C", tmp_path, "clean"], check=True)
    assert not [name for name in (*made, "build", "out") if (tmp_path / name).exists()]
