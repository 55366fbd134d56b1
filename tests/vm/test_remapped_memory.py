# SPDX-License-Identifier: GPL-2.0
"""A device that one emulated CPU maps does not take another's accesses to the next device."""

from dataclasses import replace
from pathlib import Path

import pytest

from ferry import proc
from ferry.kernel import kbuild
from ferry.server import profile
from ferry.vm import emulator, machine, qemu, records

pytestmark = pytest.mark.vm

SOURCE = Path(__file__).with_name("remap.c")
SECONDS = 15


def test_memory_can_be_mapped_while_all_cpus_access_devices(tmp_path: Path) -> None:
    """Without server/qemu/patches/0006 one read in a million is of another device, or QEMU dies."""
    program = tmp_path / "remap"
    proc.run(["gcc", "-O2", "-Wall", "-Werror", "-static", "-o", program, SOURCE], title="build remap")
    slots = [profile.FIRST_SLOT + i for i in range(2)]
    devices = [word for slot in slots for word in ("-device", f"{emulator.DEVICE},addr={slot:#x}")]
    where = replace(machine.get("smp", 4), program=tuple(emulator.command()), devices=tuple(devices))
    names = [f"0000:00:{slot:02x}.0" for slot in slots]
    script = "".join(f"echo 1 >/sys/bus/pci/devices/{name}/enable\n" for name in names)
    script += f"remap {SECONDS} {' '.join(names)} >/tmp/said; cat /tmp/said >&3\n"
    job = qemu.Job(script, 180.0, programs={"bin/remap": program})
    found = records.of(qemu.run(kbuild.build("ferry"), where, job).said, "remap")
    assert found["remapped"] > 100
    assert found["reads"] > 100_000
    assert found["wrong"] == 0
