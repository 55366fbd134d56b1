# SPDX-License-Identifier: GPL-2.0
"""KUnit on the debug kernel: KASAN, lockdep and DEBUG_VM watch while each suite runs."""

from dataclasses import replace

import pytest

from ferry import kbuild, ktap, machine, selftests

pytestmark = pytest.mark.vm

SUITES = ["migrate_offload", "softdma", "dcbm", "mtcopy", "mtcopy_cpus"]


@pytest.fixture(scope="session")
def results() -> dict[str, list[ktap.Case]]:
    """All suites in one boot, with a third CPU that stays offline."""
    where = replace(machine.get("smp", 3), kernel_args=("maxcpus=2",))
    return selftests.run(kbuild.build("debug"), where, [], kunit=True)


@pytest.mark.parametrize("suite", SUITES)
def test_suite_passes(results: dict[str, list[ktap.Case]], suite: str) -> None:
    """A suite that is missing fails as well."""
    assert not ktap.failed(results[suite])
    assert not ktap.skipped(results[suite])
