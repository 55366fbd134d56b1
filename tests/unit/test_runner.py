# SPDX-License-Identifier: GPL-2.0
"""Several VMs at once: if one fails, the others are ended, and no later ones."""

import threading

import pytest

from ferry.bench.cell import Found
from ferry.errors import FerryError
from ferry.tables import runner

PLAN = [runner.Shard(number, "ferry", ()) for number in range(2)]


def test_a_failure_ends_the_others() -> None:
    seen: list[threading.Event] = []

    def measure(shard: runner.Shard, cancelled: threading.Event) -> dict[int, Found]:
        seen.append(cancelled)
        if shard.number:
            raise FerryError("one failed")
        assert cancelled.wait(60), "nobody ended this one"
        return {}

    with pytest.raises(FerryError, match="one failed"):
        list(runner._all(measure, PLAN, at_once=2))
    assert all(each.is_set() for each in seen)


def test_the_next_measurement_is_not_ended() -> None:
    def fail(shard: runner.Shard, cancelled: threading.Event) -> dict[int, Found]:
        raise FerryError("one failed")

    def measure(shard: runner.Shard, cancelled: threading.Event) -> dict[int, Found]:
        assert not cancelled.is_set()
        return {}

    with pytest.raises(FerryError):
        list(runner._all(fail, PLAN, at_once=1))
    assert list(runner._all(measure, PLAN, at_once=1)) == [{}, {}]
