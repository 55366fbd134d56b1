# SPDX-License-Identifier: GPL-2.0
"""The profile against the clock: under icount an instruction is a nanosecond, so the two must agree."""

import pytest

from ferry.bench import cost, migbench, steps
from ferry.vm import machine

pytestmark = pytest.mark.vm


def test_profile_and_clock_agree() -> None:
    """Nothing is lost, and nothing counted twice: within 3 %, for the call's first and last lines."""
    found, _ = steps.measure(steps.Plan(folios=("4K",), engines=("vanilla",), size="16M"))
    plan = migbench.Plan(folios=("4K",), engines=("vanilla",), latency=False, size="16M", runs=1)
    row = migbench.measure(plan, machine.get("icount"))[0][0]
    assert found[0]["instructions"] == pytest.approx(cost.instructions(row), rel=0.03)
    by_step = found[0]["steps"]
    # What nobody can migrate without.
    for step in ("front end", "allocate", "lru", "unmap", "copy", "restore", "free", "statistics"):
        assert by_step[step] > 100, by_step


def test_ranges_do_without_walks() -> None:
    """With them nearly no folio of plain memory has its reverse mapping walked."""
    plan = steps.Plan(folios=("4K",), engines=("none",), size="16M")
    by_function = steps.by_function(steps.measure(plan)[0][0])
    assert by_function.get("rmap_walk_anon", 0) < 5
    assert by_function.get("migrate_unmap_whole", 0) > 50, sorted(by_function)


def test_folios_one_by_one_are_walked_to() -> None:
    """The switch works: what compares both ways compares two ways."""
    plan = steps.Plan(folios=("4K",), engines=("none",), size="16M", one_by_one=True)
    by_function = steps.by_function(steps.measure(plan)[0][0])
    assert by_function.get("rmap_walk_anon", 0) > 50, sorted(by_function)
