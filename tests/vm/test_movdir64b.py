# SPDX-License-Identifier: GPL-2.0
"""MOVDIR64B on an emulated CPU, which takes a descriptor to a device: server/qemu/patches/0008."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ferry import proc
from ferry.kernel import kbuild
from ferry.vm import emulator, machine, qemu, records

pytestmark = pytest.mark.vm

SOURCE = Path(__file__).with_name("movdir64b.c")


@pytest.mark.parametrize("name", ["smp", "icount"])
def test_stores_64_bytes_or_none(tmp_path: Path, name: str) -> None:
    program = tmp_path / "movdir64b"
    proc.run(["gcc", "-O2", "-Wall", "-Werror", "-static", "-o", program, SOURCE], title="build movdir64b")
    script = 'movdir64b >/tmp/said 2>&1 || fail "$(cat /tmp/said)"; cat /tmp/said >&3\n'
    job = qemu.Job(script, 120.0, programs={"bin/movdir64b": program})
    where = replace(machine.get(name), program=tuple(emulator.command()))
    found = records.of(qemu.run(kbuild.build("vanilla"), where, job).said, "movdir64b")
    assert found["checks"] > 200
