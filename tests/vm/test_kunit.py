# SPDX-License-Identifier: GPL-2.0
"""KUnit, and what page tables say, on the debug kernel: KASAN, lockdep and DEBUG_VM watch."""

from dataclasses import replace

import pytest

from ferry import paths
from ferry.kernel import kbuild
from ferry.suites import kselftest, ktap
from ferry.vm import machine
from tests import suites

pytestmark = pytest.mark.vm

KSELFTEST = "run_state"
SUITES = [
    *("migrate_offload", "migrate_offload_quota", "migrate_offload_choice", "migrate_offload_eligible"),
    *("migrate_offload_registry", "migrate_offload_overdue"),
    *("migrate_runs", "migrate_ranges", "migrate_batches", "migrate_promote", "migrate_mapped"),
    *("softdma", "dcbm", "mtcopy", "mtcopy_cpus", "hisi_dma"),
]
# tests/vm/test_iommu.py looks at VT-d's page tables: in 6.12 they are VT-d's own. 7.3 has suites of each
# format of the generic page table, which take long and are left out here.
ELSEWHERE = {"6.12": {"intel_iommu_empty_tables"}, "7.3": set()}[paths.BASE]
FORMATS = ("amdv1", "riscv64", "vtdss", "x86_64")
LEFT_OUT = "kunit.filter=" + ",".join(f"module!=kunit_iommu_{name}" for name in FORMATS)


@pytest.fixture(scope="session")
def results() -> dict[str, list[ktap.Case]]:
    """All suites in one boot, with a third CPU that stays offline."""
    where = replace(machine.get("smp", 3), kernel_args=("maxcpus=2", LEFT_OUT))
    kernel = kbuild.build("debug")
    programs = [p for p in kselftest.build(kernel) if p.name == KSELFTEST]
    return suites.run(kernel, where, programs, kunit=True)


@pytest.mark.parametrize("suite", SUITES)
def test_suite_passes(results: dict[str, list[ktap.Case]], suite: str) -> None:
    """A suite that is missing fails as well."""
    assert not ktap.failed(results[suite])
    assert not ktap.skipped(results[suite])


def test_every_suite_is_looked_at(results: dict[str, list[ktap.Case]]) -> None:
    """A suite that nobody names here could fail unseen."""
    assert set(results) == {*SUITES, *ELSEWHERE, KSELFTEST}


@pytest.mark.long
def test_folios_one_by_one() -> None:
    """The same page tables, where folios are not unmapped in ranges."""
    kernel = kbuild.build("debug")
    programs = [p for p in kselftest.build(kernel) if p.name == KSELFTEST]
    where = suites.get(suites.AGAIN)
    cases = suites.run(kernel, where, programs, kunit=False)[KSELFTEST]
    assert not ktap.failed(cases), suites.complaints(where, KSELFTEST)
    assert not ktap.skipped(cases)


def test_runs_of_page_table_entries(results: dict[str, list[ktap.Case]]) -> None:
    """Nothing is skipped: this kernel has soft-dirty."""
    assert not ktap.failed(results[KSELFTEST])
    assert not ktap.skipped(results[KSELFTEST])
