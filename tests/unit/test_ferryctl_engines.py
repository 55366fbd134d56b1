# SPDX-License-Identifier: GPL-2.0
"""ferryctl engines: each DMA device, with or without Ferry, and whether dcbm can use it."""

import json
import re
from pathlib import Path

import pytest

import ferryctl
import ferryctl_engines as engines
from ferry import paths
from ferryctl_machine import System
from tests.unit.conftest import FakeProgram
from tests.unit.fake_ferry import CHANNELS, machine_in


@pytest.fixture(autouse=True)
def log(fake_program: FakeProgram) -> None:
    """A kernel's log that has nothing to say."""
    fake_program("dmesg", "echo '[ 1.0] nothing of ours'")


def _pci(system: System, name: str, ids: str, driver: str | None, channels: int = 0, node: int = 0) -> None:
    """A PCI device, with the channels that its driver offers."""
    path = system.root / "sys/devices/pci0000:00" / name
    path.mkdir(parents=True)
    vendor, device = ids.split(":")
    for key, text in (("vendor", vendor), ("device", device), ("numa_node", str(node))):
        (path / key).write_text(f"{text}\n")
    listed = system.root / "sys/bus/pci/devices" / name
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.symlink_to(path)
    if driver:
        place = system.root / "sys/bus/pci/drivers" / driver
        place.mkdir(parents=True, exist_ok=True)
        (path / "driver").symlink_to(place)
    for i in range(channels):
        channel = system.root / "sys/class/dma" / f"dma{len(list_dma(system))}chan0"
        channel.mkdir(parents=True)
        (channel / "device").symlink_to(path)
        (channel / "in_use").write_text(f"{int(i == 0)}\n")


def list_dma(system: System) -> list[Path]:
    """The channels that there are."""
    return list((system.root / "sys/class/dma").glob("*"))


def _found(system: System, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert ferryctl.main(["engines", "--json"], system) == 0
    return {each["device"]: each for each in json.loads(capsys.readouterr().out)["devices"]}


def test_a_kernel_without_ferry_says_what_one_with_it_could_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system = System(tmp_path)
    _pci(system, "0000:01:00.1", "0x1022:0x1498", None)
    _pci(system, "0000:02:00.0", "0x8086:0x2021", "ioatdma", 2, node=1)
    _pci(system, "0000:03:00.0", "0x10b5:0x87d0", "plx_dma", 1)
    _pci(system, "0000:04:00.0", "0x1234:0x0001", "warp_dma", 1)
    _pci(system, "0000:05:00.0", "0x8086:0x10fb", "ixgbe")
    _pci(system, "0000:7b:00.0", "0x19e5:0xa122", "hisi_dma", 1)
    _pci(system, "0000:0a:00.1", "0x11f8:0x4000", "switchtec_dma", 1)
    _pci(system, "0000:0b:00.1", "0x1022:0x149b", "ae4dma", 1)
    _pci(system, "0000:0c:00.1", "0x1022:0x149b", None)
    found = _found(system, capsys)
    assert {name: each["verdict"] for name, each in found.items()} == {
        "0000:01:00.1": engines.PATCHED,
        "0000:02:00.0": engines.DRIVERS["ioatdma"].verdict,
        "0000:03:00.0": engines.PATCHED,
        "0000:04:00.0": engines.UNKNOWN,
        "0000:7b:00.0": engines.PATCHED,
        "0000:0a:00.1": engines.REFUSED,
        "0000:0b:00.1": engines.REFUSED,
        "0000:0c:00.1": engines.REFUSED,
    }
    assert (found["0000:02:00.0"]["channels"], found["0000:02:00.0"]["in_use"]) == (2, 1)
    assert found["0000:02:00.0"]["node"] == 1
    assert found["0000:01:00.1"]["how"] == "'modprobe ptdma'"
    assert "dcbm.allow = warp_dma" in str(found["0000:04:00.0"]["how"])
    assert ferryctl.main(["engines"], system) == 0
    said = capsys.readouterr().out
    assert "0000:02:00.0 (ioatdma, node 1): 2 channels, 1 in use: " in said
    assert "is without Ferry: none of it is used before one with it boots" in said


@pytest.mark.parametrize(
    ("device", "driver"),
    [
        *((device, "ioatdma") for device in ("0x3c20", "0x0e2f", "0x2f27", "0x6f20", "0x6f53", "0x0c50")),
        *((device, "idxd") for device in ("0x11fb", "0x1212")),
    ],
)
def test_a_device_without_a_driver_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str, driver: str
) -> None:
    system = System(tmp_path)
    _pci(system, "0000:00:04.0", f"0x8086:{device}", None)
    assert _found(system, capsys)["0000:00:04.0"]["verdict"] == engines.DRIVERS[driver].verdict


def test_a_dsa_without_queues_is_told_how_to_get_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the commands that docs/operator.md has, which tests/vm/test_dsa_clients.py types."""
    system = System(tmp_path)
    _pci(system, "0000:00:04.0", "0x8086:0x0b25", "idxd")
    _pci(system, "0000:00:05.0", "0x8086:0x0b25", "idxd", 1)
    found = _found(system, capsys)
    typed = str(found["0000:00:04.0"]["how"]).split("'")[1].split(" && ")
    pattern = r"^    (accel-config (?:config|enable)-.*)$"
    told = re.findall(pattern, (paths.ROOT / "docs/operator.md").read_text(), re.MULTILINE)
    assert typed == ["modprobe idxd", *told]
    assert len(told) == 4
    assert str(found["0000:00:05.0"]["how"]).startswith("'ferryctl use dcbm'")


def test_what_dcbm_says_counts_more_than_what_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fake_program: FakeProgram
) -> None:
    system = machine_in(tmp_path / "machine")
    _pci(system, "0000:01:00.1", "0x1022:0x1498", "ptdma", 1)
    _pci(system, "0000:02:00.0", "0x8086:0x2021", "ioatdma", 1)
    fake_program(
        "dmesg", "echo '[ 9.1] ptdma 0000:01:00.1: dcbm: channels of ptdma are not used: it would bounce'"
    )
    path = system.root / "sys/kernel/debug/dcbm/channels"
    path.parent.mkdir(parents=True)
    path.write_text(f"{CHANNELS}dma1chan0 0000:02:00.0 0 9 9 0 0 live\n")
    found = _found(system, capsys)
    assert found["0000:01:00.1"]["verdict"] == engines.REFUSED
    assert found["0000:01:00.1"]["why"] == "dcbm says: it would bounce"
    assert found["0000:02:00.0"]["verdict"] == engines.WORKS


def test_without_any_device_it_says_what_to_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ferryctl.main(["engines"], machine_in(tmp_path)) == 0
    assert capsys.readouterr().out == (
        "no DMA device that could copy pages: mtcopy copies with idle CPUs instead\n"
    )
