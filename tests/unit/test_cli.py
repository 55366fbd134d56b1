# SPDX-License-Identifier: GPL-2.0
"""The command line: errors are one line and an exit code."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ferry import cli, packages, paths
from ferry.commands import test as runner
from ferry.errors import FerryError
from ferry.kernel import kbuild, tree
from ferry.vm import emulator


def test_an_error_is_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str) -> None:
        error = FerryError("no disk; buy one")
        error.exit_code = 7
        raise error

    monkeypatch.setattr(kbuild, "build", fail)
    assert cli.main(["kernel", "build", "vanilla"]) == 7
    assert capsys.readouterr().err == "ferry: no disk; buy one\n"


def test_an_unknown_flavour_is_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kbuild, "build", lambda name: pytest.fail("built"))
    assert cli.main(["kernel", "build", "vanilla", "nosuch"]) == 2
    assert "no kernel flavour 'nosuch': choose from vanilla, ferry, debug, " in capsys.readouterr().err


def test_the_kernels_that_tests_boot_are_built_first() -> None:
    """All of them, where progress is shown, and no other: each takes minutes."""
    texts = [path.read_text() for path in (paths.ROOT / "tests/vm").glob("*.py")]
    booted = {name for name in kbuild.FLAVOURS for text in texts if f'"{name}"' in text}
    assert {*runner.KERNELS, *runner.LONG_KERNELS, runner.OTHER[1]} == booted


@pytest.mark.parametrize(
    ("words", "long"), [([], False), (["-x"], False), (["tests/vm", "-v"], False), (["--long", "-x"], True)]
)
def test_long_tests_run_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, words: list[str], long: bool
) -> None:
    ran: list[list[str]] = []

    def note(command: list[str], **_: object) -> SimpleNamespace:
        ran.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(packages, "ensure", lambda names: None)
    monkeypatch.setattr(kbuild, "build", lambda *_: None)
    monkeypatch.setattr(emulator, "build", lambda: None)
    monkeypatch.setattr(subprocess, "run", note)
    assert cli.main(["test", *words]) == 0
    assert ("not long" not in ran[0]) == long
    assert [word for word in words if word != "--long"] == [word for word in ran[0] if word in words]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--runs", "0"], "0 runs"),
        (["--threads", "0"], "--threads 0"),
        (["--busy", "-1"], "--busy -1"),
        (["--writers", "-1"], "--writers -1"),
        (["--write-rate", "9"], "--write-rate 9: needs --writers"),
        (["--direct"], "--direct: needs --writers"),
        (["--writers", "1", "--write-share", "101"], "--write-share 101"),
        (["--per-call", "-1"], "--per-call -1"),
        (["--from", "7"], "nodes 0 to 1"),
        (["--to", "0"], "must differ"),
        (["--call", "promote", "--to", "1"], "--to 1: must differ"),
        (["--kernel", "vanilla"], "a vanilla kernel has no engines"),
        (["--call", "promote"], "machine smp has no slow node"),
        (["--call", "demote", "--machine", "icount"], "machine icount has no slow node"),
    ],
)
def test_bench_refuses_what_makes_no_sense_before_it_builds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    def build(*_: object) -> None:
        raise AssertionError("nothing is to be built for this")

    monkeypatch.setattr(kbuild, "build", build)
    monkeypatch.setattr(emulator, "build", build)
    assert cli.main(["bench", *words]) == 2
    assert said in capsys.readouterr().err


def test_ctrl_c_exits_as_a_shell_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kbuild, "build", interrupt)
    assert cli.main(["kernel", "build", "vanilla"]) == 130


def test_unknown_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["lint", "--nosuch"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--base", "1", "kernel", "build"], ["--base", "1", "kernel", "build"]),
        (["kernel", "build", "ferry", "--base", "1"], ["--base", "1", "kernel", "build", "ferry"]),
        (["kernel", "build", "--base=1", "ferry"], ["--base=1", "kernel", "build", "ferry"]),
        (["vm", "--", "x", "--base", "1"], ["vm", "--", "x", "--base", "1"]),
        (["kernel", "build", "--base"], ["--base", "kernel", "build"]),
    ],
)
def test_the_base_may_stand_anywhere(words: list[str], said: list[str]) -> None:
    assert cli.base_first(words) == said


def test_an_unknown_base_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.parse(["kernel", "build", "--base", "1.0"])
    assert caught.value.code == 2
    assert "no base '1.0'; there are: 6.12" in capsys.readouterr().err


def test_the_launcher_tells_python_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRY_BASE", paths.BASE)
    monkeypatch.setattr(tree, "bases", lambda: ["1.0", paths.BASE])
    cli.parse(["kernel", "build", "--base", "1.0"])
    assert os.environ["FERRY_BASE"] == "1.0"


@pytest.mark.parametrize(("base", "folder"), [("6.12", "out/6.12"), (paths.DEFAULT_BASE, "out")])
def test_results_of_another_base_replace_none(base: str, folder: str) -> None:
    env = os.environ | {"FERRY_BASE": base, "PYTHONPATH": str(paths.ROOT / "lab")}
    words = [sys.executable, "-c", "from ferry import paths; print(paths.OUT.relative_to(paths.ROOT))"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{folder}\n"


def test_every_command_has_help() -> None:
    text = cli.make_parser().format_help()
    for name, command in cli.COMMANDS.items():
        assert command.__doc__
        assert name in text


@pytest.mark.parametrize(
    ("body", "code", "closing"), [("assert False", 1, "1 failed"), ("pass", 0, "1 passed")]
)
def test_the_test_runner_exits_as_its_tests_do(tmp_path: Path, body: str, code: int, closing: str) -> None:
    test = tmp_path / "test_one.py"
    test.write_text(f"def test_one():\n    {body}\n")
    run = [sys.executable, "-m", "ferry", "test", "--unit", str(test)]
    done = subprocess.run(run, cwd=paths.ROOT, env=_env(), capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert closing in done.stdout.splitlines()[-1]


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(paths.ROOT / "lab")}
