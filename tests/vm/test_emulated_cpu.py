# SPDX-License-Identifier: GPL-2.0
"""What an emulated CPU does with instructions and accesses that server/qemu/patches are about."""

from dataclasses import replace
from pathlib import Path

import pytest

from ferry import proc
from ferry.kernel import kbuild
from ferry.vm import emulator, machine, qemu, records

pytestmark = pytest.mark.vm

# MOVDIR64B takes a descriptor to a device (0008). An access to two pages reaches both, whatever the TLB
# holds (0003).
PROGRAMS = ("movdir64b", "boundary")


@pytest.mark.parametrize("name", ["smp", "icount"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_all_checks_of_the_program_are_good(tmp_path: Path, program: str, name: str) -> None:
    binary, source = tmp_path / program, Path(__file__).with_name(f"{program}.c")
    proc.run(["gcc", "-O2", "-Wall", "-Werror", "-static", "-o", binary, source], title=f"build {program}")
    script = f'{program} >/tmp/said 2>&1 || fail "$(cat /tmp/said)"; cat /tmp/said >&3\n'
    job = qemu.Job(script, 120.0, programs={f"bin/{program}": binary})
    where = replace(machine.get(name), program=tuple(emulator.command()))
    found = records.of(qemu.run(kbuild.build("vanilla"), where, job).said, program)
    assert found["checks"] > 200
