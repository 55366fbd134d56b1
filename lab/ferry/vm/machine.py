# SPDX-License-Identifier: GPL-2.0
"""Emulated machines: frozen rows in a table, and how each looks on QEMU's command line."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from ferry.errors import FerryError, UsageError, choose
from ferry.vm import emulator

MEMINFO = Path("/proc/meminfo")
# Left to the host beside a guest's memory.
HOST_RESERVE_MIB = 1024
LEAST_NODE_MIB = 512

# TCG copies byte by byte under erms; random numbers would make two runs under icount differ.
TCG_CPU = "max,-erms,-fsrm"
# Linux 7.3 forgets for a moment what its first CPU can (identify_cpu()), also that page tables have five
# levels. KASAN takes what an interrupt reads then for a wild access.
SMP_CPU = f"{TCG_CPU},-la57"
# QEMU translates code again at each address where a process has it, and keeps 1 GiB of that by default.
# A store to a page that was code drops its translations one by one from a list. If they are many, the guest
# stands still.
TRANSLATED_MIB = 128
ICOUNT_CPU = f"{TCG_CPU},-rdrand,-rdseed"
# The host's date takes the guest's kernel a few instructions more or less to read and write.
ICOUNT_DATE = "2026-01-01"
# Linux would find that this timer does not keep time there, and not use it. To find out it waits for 0.4 s of
# virtual time in a loop of PAUSE, at each of which TCG leaves its code: eight seconds of a boot's ten.
ICOUNT_ARGS = ("nolapic_timer",)

# Its board for arm64. Pointers are signed in a way of QEMU's own, which costs less.
ARM64_PROGRAM = "qemu-system-aarch64"
ARM64_ARGS = ("-machine", "virt,gic-version=3,mte=on", "-cpu", "max,pauth-impdef=on")

# QEMU's device that can do DMA to any address, for a program to drive.
EDU = ("-device", "edu,dma_mask=0xffffffffffffffff")

ONE_BY_ONE = "sysctl.vm.migrate_ranges=0"


@dataclass(frozen=True)
class Machine:
    """A NUMA server. The first cpu_nodes nodes share the CPUs, the others have memory only."""

    name: str
    cpus: int = 2
    nodes: int = 2
    cpu_nodes: int = 2
    node_mib: int = 2048
    icount: bool = False  # one instruction is one virtual nanosecond, and every run is the same
    iommu: bool = False  # Intel's
    invalidation_ns: int = 0  # that dropping addresses from its cache takes, in virtual time
    slow_nodes: bool = False  # ACPI says that nodes without CPUs are slower, so Linux demotes to them
    kernel_args: tuple[str, ...] = ()
    state: int = 0  # in which it begins; each number is another
    arm64: bool = False
    program: tuple[str, ...] = ()  # an emulator's command, instead of the one that command() chooses
    devices: tuple[str, ...] = ()

    def with_cpus(self, cpus: int) -> Self:
        if not 1 <= cpus <= 64:
            raise UsageError(f"{cpus} CPUs: choose 1 to 64")
        return replace(self, cpus=cpus, cpu_nodes=min(self.cpu_nodes, cpus))

    def fitted(self, available_mib: int) -> Self:
        """The same machine with as much memory as the host can give. One that counts instructions never has
        less than it says: its figures would depend on the host.
        """
        least = self.node_mib if self.icount else LEAST_NODE_MIB
        fits = (available_mib - HOST_RESERVE_MIB) // self.nodes
        if fits < least:
            need = least * self.nodes + HOST_RESERVE_MIB
            raise FerryError(f"{available_mib} MiB of memory are free and a VM needs {need}: free some")
        return self if self.icount else replace(self, node_mib=min(self.node_mib, fits - fits % 128))

    def one_by_one(self) -> Self:
        """The same machine, where Ferry's kernel unmaps folios one by one and not in ranges."""
        return replace(self, kernel_args=(*self.kernel_args, ONE_BY_ONE))

    def in_state(self, state: int) -> Self:
        """The same machine, which begins otherwise: Linux seeds its random numbers, and with them where
        programs and free memory lie, with its command line. State 0 is the machine itself.
        """
        return replace(self, state=state)

    def needs_own_emulator(self, kvm: bool) -> bool:
        """Whether it is the lab's QEMU that runs it, because its CPUs are threads of an emulator.

        In Debian's they can run code that another has replaced, and it depends on luck, how fast a huge
        page is copied (server/qemu/patches says why).
        """
        return not (self.arm64 or self.program or self.icount or kvm)

    def command(self, kvm: bool = False) -> tuple[str, ...]:
        """The emulator: what its command line begins with."""
        if self.arm64:
            return (ARM64_PROGRAM,)
        own = emulator.command() if self.needs_own_emulator(kvm) else ["qemu-system-x86_64"]
        return self.program or tuple(own)

    @property
    def console(self) -> str:
        """What Linux calls its first serial port."""
        return "ttyAMA0" if self.arm64 else "ttyS0"

    @property
    def command_line(self) -> tuple[str, ...]:
        """What its kernel is told."""
        state = (f"ferry_state={self.state}",) if self.state else ()
        return (*(ICOUNT_ARGS if self.icount else ()), *self.kernel_args, *state)

    @property
    def smp(self) -> str:
        """QEMU's -smp: one socket per node that has CPUs, because Linux warns of a shared cache."""
        limit = self._cores * self.cpu_nodes
        return f"{self.cpus},sockets={self.cpu_nodes},cores={self._cores},maxcpus={limit}"

    @property
    def memory(self) -> str:
        return f"{self.node_mib * self.nodes}M"

    def bare(self, kvm: bool = False) -> list[str]:
        """QEMU's command line for the machine, without any port, disk or kernel."""
        words = ("-nodefaults", "-no-user-config", "-display", "none", "-smp", self.smp, "-m", self.memory)
        return [*self.command(kvm), *words, *self.qemu_args(kvm)]

    @property
    def _cores(self) -> int:
        return -(-self.cpus // self.cpu_nodes)

    def qemu_args(self, kvm: bool = False) -> list[str]:
        """Processor, nodes, clock and devices; not -smp, -m, nor the ports of the lab."""
        if kvm and self.icount:
            raise UsageError(f"machine {self.name} counts instructions, which KVM cannot: leave out --kvm")
        if self.icount:
            date = f"base={ICOUNT_DATE},clock=vm"
            args = ["-cpu", ICOUNT_CPU, "-icount", "shift=0,sleep=off", "-rtc", date]
        elif kvm:
            args = ["-cpu", "host", "-accel", "kvm"]
        else:
            cpu = ARM64_ARGS if self.arm64 else ("-cpu", SMP_CPU)
            args = [*cpu, "-accel", f"tcg,thread=multi,tb-size={TRANSLATED_MIB}"]
        if self.slow_nodes:
            args += ["-machine", "hmat=on"]
        if self.iommu:
            # Other emulators than the lab's do not have it.
            price = f",x-invalidation-ns={self.invalidation_ns}" if self.invalidation_ns else ""
            args += ["-machine", "q35", "-device", f"intel-iommu,aw-bits=48{price}"]
        for node in range(self.nodes):
            args += ["-object", f"memory-backend-ram,id=ram{node},size={self.node_mib}M"]
            args += ["-numa", f"node,nodeid={node},memdev=ram{node}{self._placement(node)}"]
        if self.slow_nodes:
            args += self._distances()
        return [*args, *self.devices]

    def _placement(self, node: int) -> str:
        if node >= self.cpu_nodes:
            return ",initiator=0" if self.slow_nodes else ""
        return f",cpus={node * self._cores}-{(node + 1) * self._cores - 1}"

    def _distances(self) -> list[str]:
        """The ACPI table HMAT: memory without CPUs has three times the latency."""
        args = []
        for initiator in range(self.cpu_nodes):
            for target in range(self.nodes):
                slow = target >= self.cpu_nodes
                pair = f"hmat-lb,initiator={initiator},target={target},hierarchy=memory"
                latency, bandwidth = (300, "10G") if slow else (100, "30G")
                args += ["-numa", f"{pair},data-type=access-latency,latency={latency}"]
                args += ["-numa", f"{pair},data-type=access-bandwidth,bandwidth={bandwidth}"]
        return args


MACHINES = {
    machine.name: machine
    for machine in (
        Machine("smp"),
        Machine("icount", cpus=1, cpu_nodes=1, icount=True),
        Machine("cxl", cpu_nodes=1, slow_nodes=True),
        Machine("cxl-icount", cpus=1, cpu_nodes=1, slow_nodes=True, icount=True),
        # Half of node 1 can be unplugged; most of node 0 can be had in one piece, so movable pages go there.
        Machine("movable", kernel_args=("movablecore=1G", "cma=1280M@0-2G")),
        Machine("iommu", cpus=1, nodes=1, cpu_nodes=1, icount=True, iommu=True, devices=EDU),
        Machine("iommu-smp", cpus=4, nodes=1, cpu_nodes=1, iommu=True, devices=EDU),
    )
}

# Apart from these: it boots kernels of the flavour arm64 alone.
ARM64 = Machine("arm64", node_mib=1024, arm64=True)


def available_mib() -> int:
    """How much memory the host can give without swapping."""
    for line in MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    raise FerryError(f"{MEMINFO} has no MemAvailable: is this Linux?")


def get(name: str, cpus: int | None = None) -> Machine:
    """A machine of the table, fitted to this host, with cpus CPUs if that is said."""
    choose("machine", [name], MACHINES)
    machine = MACHINES[name].fitted(available_mib())
    return machine.with_cpus(cpus) if cpus is not None else machine
