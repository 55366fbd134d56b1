# SPDX-License-Identifier: GPL-2.0
"""Ferry on arm64: its kernel is built there, passes its KUnit suites, and moves memory. Linux has other page
tables there, flushes TLBs page by page, and keeps tags beside the memory.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from ferry.errors import FerryError
from ferry.kernel import config, kbuild, tree
from ferry.suites import kselftest, ktap
from ferry.vm import machine
from tests import suites

pytestmark = [pytest.mark.vm, pytest.mark.long]

SUITES = [
    *("migrate_offload", "migrate_offload_quota", "migrate_offload_choice", "migrate_offload_eligible"),
    *("migrate_offload_registry", "migrate_offload_overdue"),
    *("migrate_runs", "migrate_ranges", "migrate_batches", "migrate_promote"),
    *("softdma", "dcbm", "mtcopy", "mtcopy_cpus"),
]
PROGRAMS = ["data", "move_calls", "mbind_calls", "run_state", "run_races"]
Results = dict[str, list[ktap.Case]]


@pytest.fixture(scope="session")
def results() -> Results:
    """All suites and programs in one boot, with a third CPU that stays offline."""
    kernel = kbuild.build("arm64")
    where = machine.ARM64.fitted(machine.available_mib()).with_cpus(3)
    where = replace(where, kernel_args=("maxcpus=2",))
    built = {program.name: program for program in kselftest.build(kernel)}
    programs = [built[name] for name in PROGRAMS]
    # The root of an initramfs has no such folder.
    said = suites.boot(kernel, where, programs, kunit=True, first="mkdir /mnt\n")
    return suites.cases(said, where, programs)


@pytest.mark.parametrize("suite", SUITES)
def test_suite_passes(results: Results, suite: str) -> None:
    """A suite that is missing fails as well."""
    assert not ktap.failed(results[suite])
    assert not ktap.skipped(results[suite])


@pytest.mark.parametrize("program", PROGRAMS)
def test_memory_moves(results: Results, program: str) -> None:
    """No case fails, and at least one is not skipped."""
    cases = results[program]
    assert not ktap.failed(cases), suites.complaints(machine.ARM64, program)
    assert any(case.outcome == "ok" for case in cases)


def test_every_suite_is_looked_at(results: Results) -> None:
    assert set(results) == {*SUITES, *PROGRAMS}


def test_copying_while_mapped_is_refused(tmp_path: Path) -> None:
    """Its rule, that who writes takes a fault, was shown for x86-64 alone."""
    row, places = kbuild.flavour("arm64"), tree.HERE
    out, place = kbuild.prepare(row, places), tmp_path / ".config"
    wanted = config.merge(places.fragments(row.fragments)) | {"CONFIG_MIGRATE_MAPPED": "y"}
    kbuild.set_options(out, wanted, *row.arch.words, f"KCONFIG_CONFIG={place}")
    with pytest.raises(FerryError, match=r"lost CONFIG_MIGRATE_MAPPED=y \(is n\); "):
        config.verify(wanted, config.parse(place.read_text()))
