# SPDX-License-Identifier: GPL-2.0
"""A kernel maintainer's tools have nothing to say about Ferry's files and patches."""

import pytest

from ferry.kernel import check, series

pytestmark = pytest.mark.vm


@pytest.mark.parametrize("name", ["checkpatch", "kernel-doc", "sparse"])
def test_clean(name: str) -> None:
    check.run([name], series.load())
