# SPDX-License-Identifier: GPL-2.0
"""A first day as an operator has it, in a Debian guest; half an hour and more."""

from pathlib import Path

import pytest

from ferry import cli

pytestmark = [pytest.mark.vm, pytest.mark.long]


def test_the_first_day(tmp_path: Path) -> None:
    log = tmp_path / "day.log"
    args = cli.parse(["day", "--log", str(log), "--json", str(tmp_path / "day.json")])
    assert args.run(args) == 0, log.read_text()
