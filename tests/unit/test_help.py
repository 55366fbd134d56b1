# SPDX-License-Identifier: GPL-2.0
"""Help comes at once, in a clone where nothing is built and on a machine where nothing can be installed."""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferry import cli
from ferry.vm import machine

# What could install something, or ask for it.
INSTALLERS = ("apt", "apt-get", "apt-cache", "dpkg-query", "pip", "pip3", "sudo", "gcc", "git")
VERBS = {"kernel": ("build", "export", "refresh", "drift", "check", "deb"), "server": ("build", "fit")}
# Not the one of the tests, which has everything.
PYTHON = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
NAMES = list(cli.COMMANDS)
QUESTIONS = [
    ["--help"],
    *([name, "--help"] for name in NAMES),
    *([name, verb, "--help"] for name, verbs in VERBS.items() for verb in verbs),
]


@pytest.fixture
def poor(tmp_path: Path) -> dict[str, str]:
    """An environment in which every installer only leaves a trace, and fails."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in INSTALLERS:
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/called\nexit 1\n')
        (folder / name).chmod(0o755)
    (folder / "python3").symlink_to(PYTHON)
    return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path), "PIP_NO_INDEX": "1"}


def ask(clone: Path, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run the launcher with a Python that has no site-packages."""
    args = [str(PYTHON), "-S", "-E", str(clone / "ferry"), *words]
    return subprocess.run(args, env=env, cwd=clone, capture_output=True, text=True, check=False)


def untouched(clone: Path, env: dict[str, str]) -> bool:
    """Whether nothing was installed, and nothing tried."""
    return not Path(env["HOME"], "called").exists() and not (clone / "build/venv").exists()


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_help_needs_nothing(fresh_clone: Path, poor: dict[str, str], words: list[str]) -> None:
    done = ask(fresh_clone, poor, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(" ".join(["usage: ./ferry", *words[:-1]]))
    assert untouched(fresh_clone, poor)


def test_machines_and_examples_are_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["bench"], ["table"], ["vm"], ["torture"], ["tier"], ["kernel", "deb"]):
        with pytest.raises(SystemExit):
            cli.parse([*words, "--help"])
        said = capsys.readouterr().out
        examples = said.partition("examples:\n")[2].splitlines()
        assert examples, words
        for line in examples:
            example = shlex.split(line, comments=True)
            assert example[: 1 + len(words)] == ["./ferry", *words]
            cli.parse(example[1:])
        if words == ["vm"]:
            assert ",".join(machine.MACHINES) in "".join(said.split())


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    """All that a command has, and those of its verbs."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _options(verb)
        for name in action.option_strings:
            yield name, action


def test_an_option_means_the_same_in_each_command() -> None:
    """What it takes, and how that is read. --engine names one where a guest has one, and else several."""
    kinds: dict[str, dict[str, object]] = {}
    for name, command in cli.COMMANDS.items():
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        for option, action in _options(parser):
            one_engine = option == "--engine" and name in ("vm", "torture")
            kind = (type(action), action.type, action.metavar, action.const)
            kinds.setdefault(f"{option} of one" if one_engine else option, {})[name] = kind
    differing = {option: found for option, found in kinds.items() if len(set(found.values())) > 1}
    assert not differing
    assert len(kinds["--json"]) > 8
    assert len(kinds["--engine"]) > 3


@pytest.mark.parametrize(
    "words", [[], ["nosuch"], ["kernel"], ["cost", "--nosuch"], ["bench", "--runs", "x"]]
)
def test_what_nobody_understands_is_refused_before_anything_is_installed(
    fresh_clone: Path, poor: dict[str, str], words: list[str]
) -> None:
    done = ask(fresh_clone, poor, *words)
    assert done.returncode == 2
    assert "ferry" in done.stderr
    assert untouched(fresh_clone, poor)


def test_make_help_needs_nothing(fresh_clone: Path, poor: dict[str, str]) -> None:
    env = {**os.environ, **poor}
    done = subprocess.run(
        ["make", "help"], env=env, cwd=fresh_clone, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "make clean" in done.stdout
    assert untouched(fresh_clone, poor)
