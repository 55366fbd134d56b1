# SPDX-License-Identifier: GPL-2.0
"""What a register and an interrupt cost a CPU, to the nanosecond, with a guest of a few instructions."""

import subprocess
from pathlib import Path

import pytest

from ferry import proc
from ferry.vm import emulator, records

pytestmark = pytest.mark.vm

SOURCE = Path(__file__).with_name("stall.c")
LIMIT_S = 300
# As in stall.c.
ACCESSES, COPIES, BYTES = 100, 4, 500
DESCRIPTOR_NS = 1000
# All that the guest's copies take, at a byte per ns.
COPIES_NS = COPIES * (DESCRIPTOR_NS + BYTES)


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    emulator.build()
    path = tmp_path_factory.mktemp("stall") / "stall.elf"
    flags = [
        "-m32",
        "-O2",
        "-Wall",
        "-Werror",
        "-ffreestanding",
        "-fno-pic",
        "-fno-asynchronous-unwind-tables",
    ]
    link = ["-nostdlib", "-static", "-no-pie", "-Wl,-Ttext=0x200000,--build-id=none,-z,noexecstack"]
    proc.run(["gcc", *flags, *link, "-o", path, SOURCE], title="build stall.elf")
    return path


def _run(guest: Path, folder: Path, **costs: int) -> dict[str, int]:
    """What the guest says."""
    own = "".join(f",{name.replace('_', '-')}={value}" for name, value in costs.items())
    device = f"amd-ptdma,addr=0x10,bandwidth=1000000000,descriptor-ns={DESCRIPTOR_NS}{own}"
    command = [
        *emulator.command(),
        *("-M", "pc", "-m", "64M", "-nodefaults", "-display", "none", "-icount", "shift=0,sleep=off"),
        *("-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-debugcon", f"file:{folder / 'said'}"),
        *("-kernel", str(guest), "-device", device),
    ]
    done = subprocess.run(command, timeout=LIMIT_S, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    said = (folder / "said").read_text()
    return {each["of"]: each["is"] for each in records.every(said, "count")}


def test_an_access_costs_what_it_is_said_to(guest: Path, tmp_path: Path) -> None:
    free = _run(guest, tmp_path)
    for cost in (1, 700, 100_000):
        found = _run(guest, tmp_path, register_ns=cost)
        assert found["reads"] - free["reads"] == ACCESSES * cost
        assert found["writes"] - free["writes"] == ACCESSES * cost
    posted = _run(guest, tmp_path, register_ns=700, write_percent=15)
    assert posted["reads"] - free["reads"] == ACCESSES * 700
    assert posted["writes"] - free["writes"] == ACCESSES * 105


def test_an_engine_goes_on_while_a_cpu_waits(guest: Path, tmp_path: Path) -> None:
    """Each copy begins when the one before ends, not when the CPU has time again."""
    cost = 700
    found = _run(guest, tmp_path, register_ns=cost)
    assert found["polls"] == -(-COPIES_NS // cost)
    assert COPIES_NS <= found["copies"] < COPIES_NS + 2 * cost


def test_an_interrupt_is_paid_for_once(guest: Path, tmp_path: Path) -> None:
    free = _run(guest, tmp_path)
    assert free["messages"] == 1
    assert free["first"] == free["second"]
    found = _run(guest, tmp_path, interrupt_ns=5000)
    assert found["first"] == free["first"] + 5000
    assert found["second"] == free["second"]
    both = _run(guest, tmp_path, register_ns=300, interrupt_ns=5000)
    assert both["first"] - both["second"] == 5000
    assert both["second"] - free["second"] == 300


def test_repeats_are_the_same(guest: Path, tmp_path: Path) -> None:
    one, two = (_run(guest, tmp_path, register_ns=333, interrupt_ns=777) for _ in range(2))
    assert one == two
