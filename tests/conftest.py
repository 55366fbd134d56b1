# SPDX-License-Identifier: GPL-2.0
"""What all tests share."""

from pathlib import Path

import pytest

from ferry import paths


@pytest.fixture(autouse=True)
def _own_logs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unit tests leave nothing in build/log; VM tests do, for whoever looks into a failure."""
    if not request.node.get_closest_marker("vm"):
        monkeypatch.setattr(paths, "LOGS", tmp_path / "log")
