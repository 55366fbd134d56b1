# SPDX-License-Identifier: GPL-2.0
"""Linux's own tests of mm: all that are named are there in this base, and two of them run."""

import pytest

from ferry.kernel import kbuild
from ferry.suites import mmtests

pytestmark = pytest.mark.vm


def test_each_test_is_built() -> None:
    programs = mmtests.build(kbuild.build("vanilla"), mmtests.TESTS)
    assert {test.split()[0] for test in mmtests.TESTS} <= {path.name for path in programs.iterdir()}


def test_two_of_them_run_with_an_engine() -> None:
    tests = ("mremap_dontunmap", "mkdirty")
    outcomes, copied = mmtests.run(mmtests.Plan(tests, ("dcbm",)))
    assert [(outcome["test"], outcome["verdict"]) for outcome in outcomes] == [(test, "ok") for test in tests]
    assert copied.keys() == {"dcbm"}
