# SPDX-License-Identifier: GPL-2.0
"""A first day as an operator has it, in a Debian guest; half an hour and more.

It is with Linux 6.12, which Debian 12 updates, too.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.vm, pytest.mark.long]


def test_the_first_day(tmp_path: Path) -> None:
    log = tmp_path / "day.log"
    words = ["day", "--log", str(log), "--json", str(tmp_path / "day.json")]
    command = [sys.executable, "-m", "ferry", "--base", "6.12", *words]
    done = subprocess.run(command, env=os.environ | {"FERRY_BASE": "6.12"}, check=False)
    assert done.returncode == 0, log.read_text()
