# SPDX-License-Identifier: GPL-2.0
"""Every command of README and of the docs is one, and needs nothing that it does not build itself."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ferry import cli, paths
from ferry.kernel import series

PAGES = [paths.ROOT / "README.md", *sorted((paths.ROOT / "docs").glob("*.md"))]
LINES = [line.partition("#")[0].strip() for page in PAGES for line in page.read_text().splitlines()]
INDENTED = [line for page in PAGES for line in page.read_text().splitlines() if line.startswith("    ")]
COMMANDS = sorted(
    {line.partition("#")[0].strip() for line in INDENTED if line.strip().startswith(("./ferry", "make "))}
    | {found for line in LINES for found in re.findall(r"`(\./ferry [a-z][^`]*)`", line)}
)
FERRY = [line for line in COMMANDS if line.startswith("./ferry")]
# Those that measure or build: with what building leaves there only after it was built. Their shortest form.
SHORT = {
    "./ferry table v5-batch": "table v5-batch --quick",
    "./ferry vm --kernel ferry": "vm --kernel ferry true",
    "./ferry vm --profile zen3": "vm --profile zen3 true",
}
MEASURE = ("bench", "cost", "table")
RUN = ("bench", "cost", "table", "vm", "kernel build", "server build")


def _words(line: str) -> list[str]:
    return shlex.split(line.replace("NAME", "v5-batch").replace(" N", " 1"))[1:]


def _can_be_run(line: str) -> bool:
    """--here needs a kernel with Ferry: tests/vm/test_here.py."""
    return line.removeprefix("./ferry ").startswith(RUN) and "--here" not in line


def test_there_are_commands() -> None:
    assert len(FERRY) >= 10
    assert {"make demo", "make test"} <= set(COMMANDS)


@pytest.mark.parametrize("line", FERRY)
def test_arguments_are_understood(line: str) -> None:
    if "--help" in line:
        with pytest.raises(SystemExit, match="0"):
            cli.parse(_words(line))
    else:
        cli.parse(_words(line))


@pytest.mark.parametrize("line", [line for line in COMMANDS if re.match("make (?!-C)", line)])
def test_target_exists(line: str) -> None:
    makefile = (paths.ROOT / "Makefile").read_text()
    targets = " ".join(re.findall(r"^([a-z][a-z -]*):", makefile, re.MULTILINE)).split()
    assert {word for word in shlex.split(line, comments=True)[1:] if "=" not in word} <= {*targets}


def test_readme_counts_the_series() -> None:
    small = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    words = (*small, "eleven", "twelve", "thirteen")
    bases = paths.ROOT / "kernel/bases"
    here, there = (words[len(series.load(bases / name / "series.toml").series)] for name in ("7.3", "6.12"))
    told = f"{here} series of patches for [Linux 7.3](docs/bases.md), {there} of them for Linux 6.12 LTS too"
    assert told in (paths.ROOT / "README.md").read_text()


def test_the_demo_ends_with_its_tables(fresh_clone: Path) -> None:
    for name in ("build", "out"):
        shutil.rmtree(fresh_clone / name, ignore_errors=True)
    env = {**os.environ, "PYTHONPATH": str(fresh_clone / "lab"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, str(fresh_clone / "tests/unit/fresh.py"), "demo"]
    done = subprocess.run(command, cwd=fresh_clone, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("GB/s") == 2
    assert [Path(line).name for line in done.stdout.splitlines()[-2:]] == ["demo.json", "tables.html"]
    cells = json.loads((fresh_clone / "out/demo.json").read_text())["runs"]
    assert {cell["engine"] for cell in cells} == {"vanilla", "cpu", "mtcopy", "dcbm"}
    assert ">./ferry demo<" in (fresh_clone / "out/tables.html").read_text()
