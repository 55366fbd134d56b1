# SPDX-License-Identifier: GPL-2.0
"""The kernel's own tests of Ferry: the kselftests on the ferry kernel, one boot per machine."""

import functools
import warnings

import pytest

from ferry.kernel import kbuild
from ferry.suites import kselftest, ktap, torture
from tests import suites

pytestmark = pytest.mark.vm

PLAN = [(name, program) for name, programs in suites.PROGRAMS.items() for program in programs]


@functools.cache
def kselftests(name: str) -> dict[str, list[ktap.Case]]:
    """The cases of all programs that are meant for this machine."""
    kernel = kbuild.build("ferry")
    built = {p.name: p for p in kselftest.build(kernel)}
    programs = [built[program] for program in suites.PROGRAMS[name]]
    return suites.run(kernel, suites.get(name), programs, kunit=False)


@pytest.mark.parametrize(
    ("name", "program"),
    [pytest.param(*each, marks=pytest.mark.long if each[0] == suites.AGAIN else ()) for each in PLAN],
)
def test_kselftest(name: str, program: str) -> None:
    """No case fails, and at least one is not skipped."""
    cases = kselftests(name)[program]
    if skipped := ktap.skipped(cases):
        warnings.warn(f"{program} on {name} skips {'; '.join(skipped)}", stacklevel=1)
    assert not ktap.failed(cases), suites.complaints(suites.get(name), program)
    assert any(case.outcome == "ok" for case in cases)


def test_every_kselftest_has_a_machine() -> None:
    """A program that is built is also run."""
    built = {p.name for p in kselftest.build(kbuild.build("ferry"))}
    assert built == {program for _, program in PLAN}


def test_classes_of_torture_are_those_of_its_source() -> None:
    program = next(p for p in kselftest.build(kbuild.build("ferry")) if p.name == torture.PROGRAM)
    assert sorted(torture.named()) == sorted(torture.classes(program))
