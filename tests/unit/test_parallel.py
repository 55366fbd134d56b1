# SPDX-License-Identifier: GPL-2.0
"""Several VMs at once: if one fails, the others are ended, and no later ones."""

import threading

import pytest

from ferry.errors import FerryError
from ferry.vm import parallel


def test_a_failure_ends_the_others() -> None:
    seen: list[threading.Event] = []

    def measure(number: int, cancelled: threading.Event) -> int:
        seen.append(cancelled)
        if number:
            raise FerryError("one failed")
        assert cancelled.wait(60), "nobody ended this one"
        return number

    with pytest.raises(FerryError, match="one failed"):
        list(parallel.run(measure, [0, 1], at_once=2))
    assert all(each.is_set() for each in seen)


def test_the_next_measurement_is_not_ended() -> None:
    def fail(number: int, cancelled: threading.Event) -> int:
        raise FerryError("one failed")

    def measure(number: int, cancelled: threading.Event) -> int:
        assert not cancelled.is_set()
        return number

    with pytest.raises(FerryError):
        list(parallel.run(fail, [0, 1], at_once=1))
    assert list(parallel.run(measure, [0, 1], at_once=1)) == [0, 1]
