# SPDX-License-Identifier: GPL-2.0
"""Emulated servers: server/NAME.toml, checked, and how each looks on QEMU's command line."""

import dataclasses
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, get_type_hints

from ferry import paths
from ferry.errors import UsageError, choose
from ferry.vm import emulator, machine

FOLDER = paths.ROOT / "server"
# The PCI slot of the first function; QEMU's own devices are below, and where the guest has the host's root
# those that virtme-ng adds: of these there are more or fewer, as its streams are a terminal or files.
FIRST_SLOT = 8
DSA_QUEUES = 4  # of a device, each with an engine of its own
IOAT_FUNCTIONS = 8  # of a socket's device; by the last one a guest knows that there is one
SLOT_BESIDE_VIRTME = 15
_MACHINE = {
    "cpus": range(1, 65),
    "nodes": range(2, 9),
    "cpu_nodes": range(1, 9),
    "node_mib": range(512, (1 << 20) + 1),
    "invalidation_ns": range(1_000_001),
}
_OF_COMPUTER = ("node_mib", "invalidation_ns")  # what else of a computer can be varied
# What a profile may say of its engine.
Count = Annotated[int, range(1, 17)]
Rate = Annotated[int, range(1, 1_000_001)]
Nanoseconds = Annotated[int, range(1_000_001)]
# What an IOMMU does with what the engine's driver has mapped, by the kernel's arguments.
IOMMU = {
    "off": (),
    "lazy": ("iommu.strict=0",),  # drops addresses from its cache many at a time
    "strict": ("iommu.strict=1",),  # each as soon as it is unmapped
}


@dataclass(frozen=True)
class Engine:
    """How an engine looks to QEMU."""

    device: str
    place: str  # of one, by its number and its slot
    of_machine: tuple[str, ...] = ()
    queues: int = 1  # channels of a device; they have the properties of the first of them
    most: int = 16  # functions, or of DSA devices

    def devices(self, *properties: str, slot: int = FIRST_SLOT) -> tuple[str, ...]:
        """QEMU's words for channels, each with its properties."""
        words = self.of_machine
        for i, text in enumerate(properties[:: self.queues]):
            device = f"{self.device},id=dma{i},{self.place.format(i=i, first=slot, slot=slot + i)}"
            words += ("-device", ",".join(filter(None, (device, text))))
        return words


PCI_EXPRESS = ("-machine", "q35")
ENGINES = {
    "ptdma": Engine(emulator.DEVICE, "addr={slot:#x}"),
    # Functions of one device.
    "ioat": Engine(emulator.IOAT, "addr={first:#x}.{i},multifunction=on", PCI_EXPRESS, most=IOAT_FUNCTIONS),
    "dsa": Engine(emulator.DSA, "addr={slot:#x}", PCI_EXPRESS, DSA_QUEUES, most=8),
}


@dataclass(frozen=True)
class Dma:
    """A server's engine. MB is 10^6 bytes; all in virtual time. The last six are off by default."""

    channels: Count
    channels_per_path: Count
    channel_mb_s: Rate
    path_mb_s: Rate
    total_mb_s: Rate
    descriptor_ns: Nanoseconds
    register_ns: Nanoseconds = 0  # that a read of a register costs the CPU
    write_percent: Annotated[int, range(101)] = 100  # a write, of that
    interrupt_ns: Nanoseconds = 0  # that an interrupt costs it, beyond its handler
    latency_ns: Nanoseconds = 0  # from the last byte to the completion record, which DSA has
    small_bytes: Annotated[int, range((1 << 30) + 1)] = 0  # copies of less have small_percent of the rate
    small_percent: Annotated[int, range(1, 101)] = 100

    def qemu_args(self, engine: str) -> tuple[str, ...]:
        """The engine as devices, a function for each channel; neighbours share a path."""
        args = ["-device", f"copy-fabric,id=memory,bandwidth={self.total_mb_s}000000"]
        for path in range(-(-self.channels // self.channels_per_path)):
            limit = f"bandwidth={self.path_mb_s}000000"
            args += ["-device", f"copy-fabric,id=path{path},parent=memory,{limit}"]
        own = f"bandwidth={self.channel_mb_s}000000,descriptor-ns={self.descriptor_ns}"
        own += f",register-ns={self.register_ns},write-percent={self.write_percent}"
        own += f",interrupt-ns={self.interrupt_ns}"
        own += f",small-bytes={self.small_bytes},small-percent={self.small_percent}"
        if engine == "dsa":
            own += f",latency-ns={self.latency_ns}"
        of_channels = (f"fabric=path{i // self.channels_per_path},{own}" for i in range(self.channels))
        return (*args, *ENGINES[engine].devices(*of_channels))


@dataclass(frozen=True)
class Profile:
    """A server: its machine and its engine."""

    name: str
    summary: str
    computer: machine.Machine
    engine: str  # of ENGINES
    dma: Dma

    def varied(self, parameter: str, value: int | str) -> Self:
        """The same server but for one thing: a parameter of the engine, "iommu", one of the computer, or
        for "several" such things at once, as in "register_ns=300 iommu=lazy"."""
        if parameter == "several":
            server = self
            for name, _, its in (word.partition("=") for word in str(value).split()):
                server = server.varied(name, int(its) if its.isdecimal() else its)
            return server
        if parameter in _OF_COMPUTER:
            computer = dataclasses.replace(self.computer, **{parameter: value})  # type: ignore[arg-type]
            return dataclasses.replace(self, computer=computer)
        if parameter != "iommu":
            dma = dataclasses.replace(self.dma, **{parameter: value})  # type: ignore[arg-type]
            return dataclasses.replace(self, dma=dma)
        args = IOMMU[str(value)]
        kernel_args = (*self.computer.kernel_args, *args)
        computer = dataclasses.replace(self.computer, iommu=bool(args), kernel_args=kernel_args)
        return dataclasses.replace(self, computer=computer)

    def as_machine(self) -> machine.Machine:
        """What the emulator is to be. Its size never depends on the host: the figures would, too."""
        computer = self.computer.fitted(machine.available_mib())
        program = tuple(emulator.command())
        return dataclasses.replace(computer, program=program, devices=self.dma.qemu_args(self.engine))

    def as_threads(self) -> machine.Machine:
        """The same with a CPU for each of the host's, in parallel and in wall time: for ratios only."""
        cpus = max(2, len(os.sched_getaffinity(0)))
        return dataclasses.replace(self.as_machine(), icount=False, cpus=cpus)

    def parameters(self) -> dict[str, Any]:
        """For the record beside a result: of the engine, where the memory is, and what lies between."""
        keys = ("cpu_nodes", "slow_nodes", "invalidation_ns")
        iommu = {"iommu": "on" if self.computer.iommu else "off"}
        where = {key: getattr(self.computer, key) for key in keys} | iommu
        return where | {"engine": self.engine} | dataclasses.asdict(self.dma)


def names(folder: Path = FOLDER) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.toml"))


def load(name: str, folder: Path = FOLDER) -> Profile:
    """Read and check a profile; raises UsageError naming the key that is wrong."""
    choose("profile", [name], names(folder))
    path = folder / f"{name}.toml"
    table = _read(path)
    of_machine = {"invalidation_ns": 0, **table["machine"]}
    of_dma = {"latency_ns": 0, **table["dma"]}
    slow, iommu = of_machine.pop("slow_nodes", False), of_machine.pop("iommu", "off")
    if not isinstance(slow, bool):
        raise UsageError(f"{path}: machine.slow_nodes must be true or false")
    choose(f"engine in {path},", [table["engine"]], ENGINES)
    choose(f"machine.iommu in {path},", [str(iommu)], IOMMU)
    _check(path, "machine", of_machine, _MACHINE)
    hints = get_type_hints(Dma, include_extras=True)
    _check(path, "dma", of_dma, {name: hint.__metadata__[0] for name, hint in hints.items()})
    shared, rest = of_dma["channels_per_path"], of_dma["channels"] % DSA_QUEUES
    if table["engine"] == "dsa" and (rest or shared != DSA_QUEUES):
        raise UsageError(f"{path}: each device of DSA is a path of its own, with {DSA_QUEUES} channels")
    if table["engine"] == "ioat" and of_dma["channels"] != IOAT_FUNCTIONS:
        raise UsageError(f"{path}: dma.channels must be {IOAT_FUNCTIONS}, which a device of I/OAT has")
    if of_machine["cpu_nodes"] > min(of_machine["nodes"], of_machine["cpus"]):
        raise UsageError(f"{path}: machine.cpu_nodes must be at most machine.nodes and machine.cpus")
    computer = machine.Machine(name, icount=True, slow_nodes=slow, **of_machine)
    return Profile(name, table["summary"], computer, table["engine"], Dma(**of_dma)).varied("iommu", iommu)


def _read(path: Path, may_be_like: bool = True) -> dict[str, Any]:
    """A profile's parts. What one does not say that is like another, which is like none, that one says."""
    try:
        table = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as err:
        raise UsageError(f"{path}: {err}") from err
    shape = {"summary": str, "engine": str, "machine": dict, "dma": dict}
    if may_be_like and "like" in table:
        name = table.pop("like")
        others = [profile for profile in names(path.parent) if profile != path.stem]
        choose(f"profile for 'like' in {path}:", [str(name)], others)
        other = _read(path.with_name(f"{name}.toml"), may_be_like=False)
        table = other | table | {key: other[key] | table.get(key, {}) for key in ("machine", "dma")}
    table.setdefault("engine", "ptdma")
    for key in [*shape, *table]:
        if key not in shape or not isinstance(table.get(key), shape[key]):
            raise UsageError(f"{path}: '{key}' is missing, unknown, or not what it should be")
    return table


def _check(path: Path, part: str, values: dict[str, Any], ranges: dict[str, range]) -> None:
    """Raise UsageError unless exactly the keys of ranges are there, each within its range."""
    for key in [*values, *ranges]:
        if key not in ranges:
            raise UsageError(f"{path}: {part}.{key} is not known: it has {', '.join(ranges)}")
        value, allowed = values.get(key), ranges[key]
        if type(value) is not int or value not in allowed:
            most = allowed.stop - 1
            raise UsageError(f"{path}: {part}.{key} must be a whole number from {allowed.start} to {most}")


def store_dma(name: str, dma: Dma, folder: Path = FOLDER) -> None:
    """Write fitted parameters into a profile, leaving its comments alone."""
    path = folder / f"{name}.toml"
    text = path.read_text()
    for key, value in dataclasses.asdict(dma).items():
        text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
    path.write_text(text)
