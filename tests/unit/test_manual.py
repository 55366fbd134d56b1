# SPDX-License-Identifier: GPL-2.0
"""The manual pages hold all that the programs have, and nothing else; they are read by man without a word."""

import argparse
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import ferryctl
from ferry import paths
from ferryctl_arguments import make_parser
from ferryctl_check import PROBLEMS
from ferryctl_machine import FAILED, IN_PART, INTERRUPTED, NO_FERRY, USAGE, WELL
from ferryctl_move import Done
from ferryctl_settings import SETTINGS
from ferryctl_status import CAUSES
from tests.unit.fake_ferry import Machine, machine_in

MAN = paths.ROOT / "tools/man"
PAGES = sorted(MAN.iterdir())


def _page(name: str) -> str:
    """A page without its escapes."""
    return (MAN / name).read_text().replace("\\-", "-").replace(r"\fR", "").replace(r"\fP", "")


def _section(page: str, head: str, kind: str = "SH") -> str:
    """What is under a heading."""
    ends = r"^\.SH " if kind == "SH" else r"^\.S[HS] "
    after = page.partition(f".{kind} {head}\n")[2]
    assert after, head
    return re.split(ends, after, flags=re.MULTILINE)[0]


def _verbs() -> dict[str, argparse.ArgumentParser]:
    parser = make_parser("1")
    choices = next(action.choices for action in parser._actions if action.choices)
    return dict(choices)


def _options(parser: argparse.ArgumentParser) -> set[str]:
    found = {word for action in parser._actions for word in action.option_strings}
    return found - {"-h", "--help", "--json"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_is_well_formed(page: Path) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    command = ["groff", "-man", "-ww", "-z", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_option_is_in_the_manual_and_in_the_completion() -> None:
    described = _section(_page("ferryctl.8"), "DESCRIPTION")
    completion = (paths.ROOT / "tools/ferryctl/ferryctl.bash").read_text()
    for verb, parser in _verbs().items():
        assert re.search(rf"\b{verb}\b", completion), verb
        about = re.search(rf"^\.TP\n\.B {verb}\b.*?(?=^\.TP\n\.B (?:{'|'.join(_verbs())})\b|\Z)", described,
                          re.MULTILINE | re.DOTALL)  # fmt: skip
        assert about, verb
        for word in _options(parser) - {"--save"}:
            assert word in about[0], f"{verb} {word}"
            assert word in completion, f"{verb} {word}"
        if "--save" in _options(parser):
            assert "--save" in about[0].splitlines()[1]
    said = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", described))
    assert said <= set().union(*map(_options, _verbs().values()))


def test_every_setting_is_in_ferry_conf() -> None:
    section = _section(_page("ferry.conf.5"), "SETTINGS")
    about = dict(re.findall(r"^\.TP\n\.B (\w+)\n(.*?)(?=^\.TP|\Z)", section, re.MULTILINE | re.DOTALL))
    assert set(about) == set(SETTINGS)
    for name, setting in SETTINGS.items():
        assert about[name] == f"{setting.means[0].upper()}{setting.means[1:]}.\nIt takes {setting.range}.\n"


def test_problems_and_exit_statuses_are_those_that_there_are() -> None:
    page = _page("ferryctl.8")
    assert re.findall(r"^\.TP\n\.B (\w+)$", _section(page, "PROBLEMS"), re.MULTILINE) == list(PROBLEMS)
    codes = re.findall(r"^\.TP\n\.B (\d+)$", _section(page, "EXIT STATUS"), re.MULTILINE)
    assert list(map(int, codes)) == [WELL, FAILED, USAGE, NO_FERRY, IN_PART, INTERRUPTED]


# --- JSON ---


def _keys(verb: str) -> set[str]:
    """Those that the manual has."""
    section = _section(_section(_page("ferryctl.8"), "JSON"), verb, "SS")
    return set(re.findall(r"^\.IP (\w+)$", section, re.MULTILINE))


@pytest.mark.parametrize(
    "words", [["status"], ["check"], ["watch", "--count", "1", "--interval", "0.01"], ["engines"],
              ["use", "cpu"], ["apply"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_keys_are_those_of_the_manual(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    machine: Machine = machine_in(tmp_path)
    assert ferryctl.main([words[0], "--json", *words[1:]], machine) == 0
    assert set(json.loads(capsys.readouterr().out)) == _keys(words[0])


def test_keys_of_what_takes_long_are_those_of_the_manual() -> None:
    assert set(Done().as_json()) == _keys("move")
    text = (paths.ROOT / "tools/ferryctl/ferryctl.py").read_text().partition("def _tune(")[2]
    made = text.partition("result = {")[2].partition("\n    }")[0]
    assert set(re.findall(r'^ {8}(?:\*\*\{)?"(\w+)":', made, re.MULTILINE)) | {
        "to",
        "bytes",
        "rounds",
    } == _keys("tune")


# --- the programs in C ---


def test_migbench_has_each_option_as_its_table_has_it() -> None:
    """Name, what it takes, help and default."""
    text = (paths.ROOT / "bench/options.c").read_text()
    words = dict(re.findall(r'^#define (\w+) ("[^"]+")$', text, re.MULTILINE))
    table = re.findall(
        r'\{ "([\w-]+)", \w+, AT\(\w+\), (\w+|"[^"]*"), [^,]+, [^,]+,\s*"([^"]*)",'
        r' (?:NULL|"[^"]*"),\s*"([^"]*)" \}',
        text,
    )
    assert len(table) == text.count(", AT(")
    wanted = []
    for name, takes, default, about in table:
        arg = words.get(takes, takes).strip('"')
        head = f".B --{name}" if arg == "NULL" else f'.BI --{name} " {arg}"'
        wanted.append(f"{head}\n{about[0].upper()}{about[1:]}. Default: {default.strip('()')}.\n")
    page = _section(_page("migbench.1"), "OPTIONS").split(".TP\n")[1:]
    assert page[: len(wanted)] == wanted
    assert [each.splitlines()[0] for each in page[len(wanted) :]] == [".B --help", ".B --version"]


def test_iova_stress_has_each_option() -> None:
    text = (paths.ROOT / "bench/iova_stress/iova_stress.c").read_text()
    letters = set(re.findall(r"[a-z]", re.search(r'getopt\(argc, argv, "([^"]+)"', text)[1]))  # type: ignore[index]
    page = _section(_page("iova_stress.8"), "OPTIONS")
    assert set(re.findall(r"^\.TP\n\.BI? -([a-z])\b", page, re.MULTILINE)) == letters


def test_causes_are_all_explained_by_the_program() -> None:
    """The manual leaves them to 'ferryctl causes', which cannot be out of date."""
    assert ".B causes\n" in _page("ferryctl.8")
    assert all(why and remedy for why, remedy in CAUSES.values())
