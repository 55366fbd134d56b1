# SPDX-License-Identifier: GPL-2.0
"""DPDK's own test of DMA devices, dmadev_autotest, on a modelled function that vfio-pci has in a guest.

The guest counts instructions. DPDK's driver of I/OAT restarts the engine before it tells of a failed copy. If
the engine has done the next one by then, it loses that; where CPUs are threads of a busy host that happens.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ferry import packages
from ferry.kernel import kbuild
from ferry.suites import kselftest
from ferry.vm import emulator, machine, qemu

SLOT = 0x10  # virtme-ng has those before it for its own
FUNCTION = f"0000:00:{SLOT:02x}.0"
# Linux's config of the lab is without remapping of interrupts, and vfio-pci leaves DSA alone by itself.
WORDS = (
    "intel_iommu=on",
    "vfio_iommu_type1.allow_unsafe_interrupts=1",
    "vfio_pci.disable_denylist=1",
)
# A line of progress comes again and again, and ends with a carriage return: the last of them is kept.
SCRIPT = f"""
at=/sys/bus/pci/devices/{FUNCTION}
[ ! -e $at/driver ] || echo {FUNCTION} >$at/driver/unbind
echo vfio-pci >$at/driver_override && echo {FUNCTION} >/sys/bus/pci/drivers_probe
[ -e /sys/bus/pci/drivers/vfio-pci/{FUNCTION} ] || fail 'vfio-pci does not take the function'
mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages && echo 128 >/proc/sys/vm/nr_hugepages
echo dmadev_autotest |
	dpdk-test -l 0 --iova-mode=va -a {FUNCTION}@MORE@ >/tmp/said 2>&1 || fail "$(tail -n 3 /tmp/said)"
tr '\\r' '\\n' </tmp/said | awk '
	/^Ops submitted/ {{ last = $0; next }}
	last != "" {{ print last; last = "" }}
	{{ print }}' | output dpdk
dmesg | output log
"""
_INSTANCE = re.compile(r"^### Test dmadev instance \d+ \[(\S+)\]$", re.MULTILINE)
_PART = re.compile(r"^DMA Dev \d+: (.*?) *$", re.MULTILINE)

COPY, BURST, ERRORS, FILL = (
    "Running copy Tests",
    "Running burst capacity Tests",
    "Running error handling Tests (errors expected)",
    "Running fill Tests",
)
NO_ERRORS = "device does not report errors, skipping error handling tests"


@dataclass(frozen=True)
class Said:
    """What dpdk-test and the guest's kernel have said."""

    text: str
    log: str

    @property
    def passed(self) -> bool:
        """The test as a whole."""
        return bool(re.search(r"^Test OK$", self.text, re.MULTILINE))

    @property
    def parts(self) -> Mapping[str, list[str]]:
        """Of each instance that was tested, by its name, the parts that were run, or why they were not.

        DPDK tests its driver without hardware, too, and that alone if it finds no other.
        """
        pieces = _INSTANCE.split(self.text)
        return {name: _PART.findall(text) for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def autotest(device: str, more: str = "") -> Said:
    """Boot, and run it on a function: QEMU's device, and what DPDK is told of it."""
    packages.ensure(["dpdk-dev"])
    there = replace(machine.get("icount"), program=tuple(emulator.command()), iommu=True)
    there = replace(there, devices=("-machine", "q35", "-device", f"{device},id=dma0,addr={SLOT:#x}"))
    job = qemu.Job(SCRIPT.replace("@MORE@", more), 400.0, host_root=True, kernel_args=WORDS)
    outputs = kselftest.outputs(qemu.run(kbuild.build("vanilla"), there, job).said)
    return Said(outputs["dpdk"], outputs["log"])
