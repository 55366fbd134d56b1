# SPDX-License-Identifier: GPL-2.0
"""Linux's own tests: what a job says of them is read, and compared with the unchanged kernel."""

import pytest

from ferry import cli
from ferry.suites import mmtests
from ferry.vm.records import Record
from tests.unit.said import output, record

COW = """TAP version 13
1..3
ok 1 No leak from parent into child
not ok 2 Leak from child into parent
ok 3 # SKIP no swap"""
FAILED = record("ended", test="cow", status=1, tries=3)
SAID = (
    f"{output('cow', COW)}{FAILED}{record('ended', test='mremap_test', status=0, tries=1)}"
    f"{record('ended', test='ksm_tests -N -m 1', status=4, tries=1)}{output('migration', '1..2')}"
)


def outcomes(engine: str) -> dict[str, Record]:
    return {outcome["test"]: outcome for outcome in mmtests.parse(SAID, engine)}


def test_what_a_test_says() -> None:
    by_test = outcomes("dcbm")
    cow = {"test": "cow", "engine": "dcbm", "status": 1, "tries": 3, "passed": 1, "verdict": "fail"}
    lists = {"skipped": [": SKIP no swap"], "failed": ["Leak from child into parent"]}
    assert by_test["cow"] == cow | lists
    assert by_test["mremap_test"]["verdict"] == "ok"
    assert by_test["ksm_tests -N -m 1"]["verdict"] == "skip"


def test_what_did_not_end_is_missing() -> None:
    assert "migration" not in outcomes("dcbm")


def test_what_vanilla_fails_too_is_not_held_against_ferry() -> None:
    both = mmtests.parse(SAID, "vanilla") + mmtests.parse(SAID, "dcbm")
    assert not mmtests.worse(both)


def test_what_only_ferry_fails() -> None:
    good = SAID.replace("not ok", "ok").replace(FAILED, record("ended", test="cow", status=0, tries=1))
    said = mmtests.worse(mmtests.parse(good, "vanilla") + mmtests.parse(SAID, "dcbm"))
    assert said[0].startswith("cow, dcbm: status 1; see ")
    assert said[1:] == ["cow, dcbm: Leak from child into parent"]


def test_without_vanilla_each_failure_counts() -> None:
    assert mmtests.worse(mmtests.parse(SAID, "none"))


@pytest.mark.parametrize("args", [["--test", "cows"], ["--engine", "fast"]])
def test_unknown_names(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["mmtests", *args]) == 2
    assert "choose from" in capsys.readouterr().err
