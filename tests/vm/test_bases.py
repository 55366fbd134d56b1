# SPDX-License-Identifier: GPL-2.0
"""KUnit and kselftests on the base that is not the default one, in one boot of one kernel."""

from dataclasses import replace

import pytest

from ferry.kernel import kbuild, tree
from ferry.suites import kselftest, ktap
from ferry.vm import machine

pytestmark = pytest.mark.vm

BASE = "7.3"
# Those of the driver of PTDMA and of VT-d are of 6.12 alone.
SUITES = [
    *("migrate_offload", "migrate_offload_quota", "migrate_offload_choice", "migrate_offload_eligible"),
    *("migrate_offload_registry", "migrate_offload_overdue"),
    *("migrate_runs", "migrate_ranges", "migrate_batches", "migrate_mapped"),
    *("softdma", "dcbm", "mtcopy", "mtcopy_cpus"),
]
# This kernel has nothing that is told of changes to page tables: the debug kernel of 6.12 has.
SKIPPED = {"migrate_mapped": ["order 4", "order 9", "secondary_mmus_hear_of_it"]}
PROGRAMS = [
    *("data", "memory", "move_calls", "mbind_calls"),
    *("run_state", "run_races", "run_mapped", "run_files"),
]


@pytest.fixture(scope="session")
def results() -> dict[str, list[ktap.Case]]:
    """What each says, with a third CPU that stays offline."""
    where = replace(machine.get("smp", 3), kernel_args=("maxcpus=2",))
    kernel = kbuild.build("kunit", tree.places(BASE))
    built = {program.name: program for program in kselftest.build(kernel)}
    return kselftest.run(kernel, where, [built[name] for name in PROGRAMS], kunit=True)


@pytest.mark.parametrize("suite", SUITES)
def test_suite_passes(results: dict[str, list[ktap.Case]], suite: str) -> None:
    """A suite that is missing fails as well."""
    assert not ktap.failed(results[suite])
    skipped = [case.name for case in results[suite] if case.outcome == "skip"]
    assert skipped == SKIPPED.get(suite, [])


@pytest.mark.parametrize("program", PROGRAMS)
def test_kselftest(results: dict[str, list[ktap.Case]], program: str) -> None:
    """No case fails, and at least one is not skipped."""
    cases = results[program]
    assert not ktap.failed(cases), kselftest.complaints(machine.get("smp"), program)
    assert any(case.outcome == "ok" for case in cases)


def test_every_suite_is_looked_at(results: dict[str, list[ktap.Case]]) -> None:
    assert set(results) == {*SUITES, *PROGRAMS}
