# SPDX-License-Identifier: GPL-2.0
"""An access that lies in two pages reaches both, whatever the TLB holds: server/qemu/patches/0003."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ferry import proc
from ferry.kernel import kbuild
from ferry.vm import emulator, machine, qemu, records

pytestmark = pytest.mark.vm

SOURCE = Path(__file__).with_name("boundary.c")


@pytest.mark.parametrize("name", ["smp", "icount"])
def test_access_to_two_pages_reaches_both(tmp_path: Path, name: str) -> None:
    program = tmp_path / "boundary"
    proc.run(["gcc", "-O2", "-Wall", "-Werror", "-static", "-o", program, SOURCE], title="build boundary")
    script = 'boundary >/tmp/said 2>&1 || fail "$(cat /tmp/said)"; cat /tmp/said >&3\n'
    job = qemu.Job(script, 120.0, programs={"bin/boundary": program})
    where = replace(machine.get(name), program=tuple(emulator.command()))
    found = records.of(qemu.run(kbuild.build("vanilla"), where, job).said, "boundary")
    assert found["checks"] > 400
    assert found["wrong"] == 0
