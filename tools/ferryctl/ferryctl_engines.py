# SPDX-License-Identifier: GPL-2.0
"""The DMA devices of this machine: whether dcbm can copy pages with them, and what that takes.

It works on any kernel. Where dcbm has looked at a device, what it said of it counts; elsewhere what is
known of the driver does.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ferryctl_machine import System
from ferryctl_status import channels

CLASS = "sys/class/dma"
WORKS, PATCHED, REFUSED, UNKNOWN = "works", "works with patches", "refused", "unknown"


@dataclass(frozen=True)
class Driver:
    """What is known of a driver of Linux 6.12 and 7.3."""

    verdict: str
    why: str
    how: str


_ENABLE = "'modprobe {driver}', then 'ferryctl use dcbm'"
DRIVERS = {
    "ptdma": Driver(PATCHED, "Ferry's kernel has the patches", _ENABLE),
    "plx_dma": Driver(PATCHED, "Ferry's kernel has the patches", _ENABLE),
    "softdma": Driver(WORKS, "for tests: the CPU copies", "'ferryctl use dcbm'; mtcopy is faster"),
    "ioatdma": Driver(PATCHED, "Ferry's kernel has the patches", _ENABLE),
    "idxd": Driver(
        PATCHED, "Ferry's kernel has the patches",
        "'ferryctl use dcbm'; each queue is a channel (docs/operator.md, Queues of DSA)",
    ),
    "ccp": Driver(REFUSED, "it does not report errors", "where the device is a PTDMA: 'modprobe ptdma'"),
    "hisi_dma": Driver(
        PATCHED, "Ferry's kernel has the patches, for PCI revision 0x30 and later; nobody has run them",
        _ENABLE,
    ),
    "ae4dma": Driver(REFUSED, "it reports a failed copy as made", "mtcopy is there instead"),
    "switchtec_dma": Driver(REFUSED, "it may report a failed copy as made", "mtcopy is there instead"),
    "hidma": Driver(REFUSED, "it may sleep when a copy is submitted", "mtcopy is there instead"),
    "fsl-qdma": Driver(REFUSED, "it waits while it prepares a copy", "mtcopy is there instead"),
}  # fmt: skip
# idxd offers a channel for each queue that somebody has configured for it.
QUEUE = (
    "'modprobe idxd && accel-config config-engine dsa0/engine0.0 --group-id=0 && accel-config config-wq "
    "dsa0/wq0.0 --group-id=0 --mode=dedicated --wq-size=32 --priority=10 --type=kernel "
    "--driver-name=dmaengine --name=ferry --max-transfer-size=2097152 --block-on-fault=0 && "
    "accel-config enable-device dsa0 && accel-config enable-wq dsa0/wq0.0', then 'ferryctl use dcbm' "
    "(docs/operator.md, Queues of DSA)"
)
ASIDE = Driver(
    UNKNOWN, "nobody has read this driver for it",
    "'dcbm.allow = {driver}' in /etc/ferry.conf uses it at your own risk",
)  # fmt: skip
# Bound to them instead of the driver that makes DMA channels: PCI IDs of devices that could copy.
# As in Linux's tables: Sandy Bridge, Ivy Bridge, Haswell and Broadwell have I/OAT devices 0 to 7, 14 and 15;
# Xeon D and Atoms have four.
IOAT = (
    *(base + number for base in (0x3C20, 0x0E20, 0x2F20, 0x6F20) for number in (*range(8), 0xE, 0xF)),
    *(base + number for base in (0x6F50, 0x0C50) for number in range(4)),
    *(0x2021, 0x0B00),
)
DSA = (0x0B25, 0x11FB, 0x1212)
CANDIDATES = {
    "0x1022:0x1498": "ptdma",
    "0x1022:0x149b": "ae4dma",
    "0x19e5:0xa122": "hisi_dma",
    **{f"0x8086:{device:#06x}": "ioatdma" for device in IOAT},
    **{f"0x8086:{device:#06x}": "idxd" for device in DSA},
}


@dataclass(frozen=True)
class Device:
    """A device that has DMA channels, or could."""

    device: str
    driver: str | None
    node: int | None
    channels: int
    in_use: int
    verdict: str
    why: str
    how: str


def devices(system: System) -> list[Device]:
    """All of them."""
    refusals, served = _refusals(system), _served(system)
    by_device: dict[Path, list[Path]] = {}
    for channel in sorted((system.root / CLASS).glob("*")):
        by_device.setdefault((channel / "device").resolve(), []).append(channel)
    have = [_device(path, chans, refusals, served) for path, chans in by_device.items()]
    return [*have, *_without_channels(system, {path.name for path in by_device})]


def _device(path: Path, chans: Sequence[Path], refusals: dict[str, str], served: set[str]) -> Device:
    driver = _link(path / "driver")
    known = DRIVERS.get(driver or "", ASIDE)
    verdict, why, how = known.verdict, known.why, known.how.format(driver=driver)
    if path.name in served:
        verdict, why, how = WORKS, "dcbm uses it now", "'ferryctl status' counts its channels"
    elif path.name in refusals:
        verdict, why = REFUSED, f"dcbm says: {refusals[path.name]}"
    in_use = sum((_text(chan / "in_use") or "0") != "0" for chan in chans)
    return Device(path.name, driver, _node(path), len(chans), in_use, verdict, why, how)


def _without_channels(system: System, names: set[str]) -> list[Device]:
    """Devices of PCI that could copy and whose driver is not there, or offers no channel."""
    out = []
    for path in sorted((system.root / "sys/bus/pci/devices").glob("*")):
        module = CANDIDATES.get(f"{_text(path / 'vendor')}:{_text(path / 'device')}")
        if not module or path.name in names:
            continue
        driver = _link(path / "driver")
        about = DRIVERS[module]
        has = f"its driver is {driver}, and offers no channel" if driver else "no driver is bound to it"
        begin = QUEUE if module == "idxd" else f"'modprobe {module}'"
        how = begin if about.verdict != REFUSED else about.how
        out.append(Device(path.name, driver, _node(path), 0, 0, about.verdict, f"{has}; {about.why}", how))
    return out


def _refusals(system: System) -> dict[str, str]:
    """What dcbm wrote into the kernel's log of devices that it does not use: the last word of each."""
    try:
        done = subprocess.run(["dmesg"], capture_output=True, text=True, check=False)
    except OSError:
        return {}
    pattern = r"(\S+): dcbm: channels of \S+ are not used: (.*)"
    return dict(re.findall(pattern, done.stdout))


def _served(system: System) -> set[str]:
    """The devices whose channels dcbm has."""
    return {each["device"] for each in channels(system) or [] if "device" in each}


def _link(path: Path) -> str | None:
    return path.resolve().name if path.is_symlink() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _node(path: Path) -> int | None:
    text = _text(path / "numa_node")
    return int(text) if text and text != "-1" else None


def as_json(listed: Sequence[Device]) -> list[dict[str, Any]]:
    """For programs."""
    return [asdict(device) for device in listed]


def show(listed: Sequence[Device], system: System) -> list[str]:
    """As text: what there is, and what to do without any."""
    out = []
    for device in listed:
        place = "" if device.node is None else f", node {device.node}"
        head = f"{device.device} ({device.driver or 'no driver'}{place}): {device.channels} channels"
        busy = f", {device.in_use} in use" if device.in_use else ""
        out += [f"{head}{busy}: {device.verdict}", f"  {device.why}", f"  -> {device.how}"]
    if not listed:
        out.append("no DMA device that could copy pages: mtcopy copies with idle CPUs instead")
    if not system.has_ferry:
        out.append(f"kernel {system.release} is without Ferry: none of it is used before one with it boots")
    return out
