# SPDX-License-Identifier: GPL-2.0
"""What several tests of one device begin with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import dsa as d


@pytest.fixture
def cold(tmp_path: Path) -> Iterator[d.Device]:
    """A DSA device of 1 byte per ns and engine, as a reset leaves it."""
    with d.machine(tmp_path, d.device(f",bandwidth=1000000000,descriptor-ns={d.DESCRIPTOR_NS}")) as qtest:
        yield d.Device(qtest)


@pytest.fixture
def dsa(cold: d.Device) -> d.Device:
    """The same with a queue of 16 entries and one engine, enabled."""
    cold.start()
    return cold
