# SPDX-License-Identifier: GPL-2.0
"""The IOMMU's empty page tables are freed: through VFIO, iommufd and below, under every sanitizer.

The emulated IOMMU has an IOTLB but no paging-structure cache. So that the hardware is told to forget
the way to a table is tested by what the driver puts into the invalidation queue, not by what a device
reads after a flush that is missing.
"""

from dataclasses import dataclass, replace

import pytest

from ferry import paths
from ferry.bench import iommu
from ferry.kernel import kbuild
from ferry.suites import kselftest, ktap
from ferry.vm import emulator, machine, qemu, records

pytestmark = pytest.mark.vm

SANITIZED = ("debug", pytest.param("iommu-kcsan", marks=pytest.mark.long))
APIS = ("vfio", "iommufd")
STRESS_OPS = 30000  # per thread
THREAD_PAIRS = 2000
DMA_ROUNDS = 40
BOOT_S = 900.0
LONG_BOOT_S = 3600.0
TRACING = "/sys/kernel/tracing"
# KUnit suites, by base: 7.3 has three for each format of the generic page table, of which Linux has two.
FORMATS = ("amdv1", "riscv_64", "vtdss", "x86_64")
SUITES = {"6.12": ["intel_iommu_empty_tables"], "7.3": [f"{name}_empty_tables" for name in FORMATS]}
LINUX_SUITES = {"6.12": [], "7.3": [f"{name}_{of}_test" for name in FORMATS for of in ("fmt", "iommu")]}
FIRST = 4 << 30  # iova_stress begins here
TABLE = 2 << 20


def run(flavour: str, lines: list[str], cpus: int = 4, edus: int = 1) -> qemu.Result:
    """A job with the bench's module and iova_stress in a kernel, on a machine with an IOMMU."""
    kernel = kbuild.build(flavour)
    programs = {iommu.MODULE: iommu.build_module(kernel), iommu.STRESS: iommu.build_stress(kernel)}
    job = qemu.Job(iommu.script(lines), BOOT_S, programs=programs)
    result = qemu.run(kernel, replace(machine.get("iommu-smp", cpus), devices=machine.EDU * edus), job)
    # Its default is to sleep until somebody wakes it.
    assert flavour != "iommu-kcsan" or "kcsan: enabled early" in result.console
    return result


def bench(flavour: str, workload: str, cpus: int = 4) -> records.Record:
    """The figures of one workload of iommu_bench, and the interrupts of DMA faults meanwhile."""
    lines = [
        "load_bench",
        f"count='/dmar/ {{ for (i = 2; i < {cpus + 2}; i++) n += $i }} END {{ print n + 0 }}'",
        'faults() { awk "$count" /proc/interrupts; }',
        "before=$(faults)",
        f"found=$(run {workload})",
        "record found $found faults: $(($(faults) - before))",
        "rmmod iommu_bench",
    ]
    return records.of(run(flavour, lines, cpus).said, "found")


def test_an_invalidation_takes_its_time() -> None:
    """Each unmap has one, and who unmaps waits for it; a machine for which none is said waits for nothing."""
    kernel = kbuild.build("ferry")
    programs = {iommu.MODULE: iommu.build_module(kernel)}
    lines = ["load_bench", "found=$(run same_4k 1 1000)", "record found $found"]
    found = []
    for ns in (0, 3000):
        where = replace(machine.get("iommu"), invalidation_ns=ns, program=tuple(emulator.command()))
        result = qemu.run(kernel, where, qemu.Job(iommu.script(lines), BOOT_S, programs=programs))
        found.append(records.of(result.said, "found"))
    free, dear = (each["ns"] / each["pairs"] for each in found)
    assert dear - free == pytest.approx(3000, rel=0.01)


def left(result: qemu.Result) -> dict[str, int]:
    """KiB of tables that each run of iova_stress left."""
    return {each["of"]: each["found"]["iommu_kib"] for each in records.every(result.said, "stress")}


def test_memory_returns_to_its_level() -> None:
    """Many small unmaps in every order, and large ranges whose pages are unmapped one by one."""
    lines = ["bind_vfio"]
    for api in APIS:
        lines += [f"stress {api} {api}_{order} -k -o {order} -s 2" for order in iommu.ORDERS]
        lines.append(f"stress {api} {api}_pairs -o random -s 2")
        lines.append(f"stress {api} {api}_large -d 262144 -s 2")
    found = left(run("ferry", lines))
    assert len(found) == 10
    assert not {name: kib for name, kib in found.items() if kib > iommu.LEFT_LIMIT_KIB}


@pytest.mark.parametrize("flavour", ["ferry", pytest.param("debug", marks=pytest.mark.long)])
def test_map_that_fails_leaves_nothing(flavour: str) -> None:
    """Pages are mapped up to one that has no access; the same places can be mapped after that.

    iommufd maps after it has pinned some thousand pages, so a small range fails before its first map.
    """
    lines = ["bind_vfio"]
    lines += [f"stress {api} {api}_{kib} -f -d {kib}" for api in APIS for kib in (1024, 32768)]
    found = left(run(flavour, lines))
    assert len(found) == 4
    assert not {name: kib for name, kib in found.items() if kib > iommu.LEFT_LIMIT_KIB}


@dataclass(frozen=True)
class Flush:
    """An IOTLB invalidation; with_tables: of the paging-structure caches as well."""

    start: int
    size: int
    with_tables: bool

    def covers(self, start: int, size: int) -> bool:
        """Whether the hardware forgets all of a range."""
        return self.start <= start and start + size <= self.start + self.size


def flush(qw0: int, qw1: int) -> Flush:
    """From a descriptor, as the VT-d specification has it: granularity, address, mask and hint."""
    if (qw0 >> 4) & 3 != 3:  # not page-selective: all of the domain
        return Flush(0, 1 << 64, True)
    size = 4096 << (qw1 & 0x3F)
    return Flush((qw1 & ~0xFFF) & ~(size - 1), size, not qw1 & 0x40)


def flushes(args: str) -> list[Flush]:
    """What is in the invalidation queue while iova_stress runs through VFIO."""
    record = r'{"record": "flush", "qw0": "\1", "qw1": "\2"}'
    lines = [
        "bind_vfio",
        f"[ -d {TRACING}/events ] || mount -t tracefs tracefs {TRACING}",
        f"echo 1 >{TRACING}/events/intel_iommu/qi_submit/enable",
        f"stress vfio traced {args}",
        # By one process: thousands of record() would take long.
        f"sed -nE 's/.*: iotlb_inv [^:]*: (\\S+) (\\S+).*/{record}/p' {TRACING}/trace >&3",
    ]
    found = records.every(run("ferry", lines).said, "flush")
    return [flush(int(each["qw0"], 16), int(each["qw1"], 16)) for each in found]


@pytest.mark.parametrize(("args", "step"), [("", TABLE), ("-o random", TABLE), ("-k -d 32768", 16 * TABLE)])
def test_tables_are_forgotten_by_the_hardware(args: str, step: int) -> None:
    """All of their range, with the ways to them: by the flush of the next unmap, or by one beside it."""
    # Not what is flushed when the device comes and goes.
    found = [each for each in flushes(f"{args} -s 1") if each.with_tables and each.size <= 16 * TABLE]
    places = range(FIRST, FIRST + (1 << 30), step)
    missed = [f"{at:#x}" for at in places if not any(each.covers(at, step) for each in found)]
    assert len(missed) <= 2, missed  # the last two may be kept


def test_one_place_is_flushed_alone() -> None:
    """No table comes or goes, and the neighbours' translations stay in the cache."""
    found = [each for each in flushes("-n 100") if each.covers(FIRST, 4096) and not each.with_tables]
    assert len(found) == 100
    assert {each.size for each in found} == {4096}


@pytest.mark.parametrize("cpus", [2, 4])
@pytest.mark.parametrize("flavour", SANITIZED)
def test_stress_with_shadow_model(flavour: str, cpus: int) -> None:
    """Every translation is as the shadow says while tables come and go, large pages in their place."""
    found = bench(flavour, f"stress {cpus} {STRESS_OPS}", cpus)
    assert found["errors"] == 0
    assert found["freed"] > 100


@pytest.mark.parametrize("edus", [1, 2])
@pytest.mark.parametrize("flavour", SANITIZED)
def test_threads_of_one_process(flavour: str, edus: int) -> None:
    """Four threads in the same 64 tables of a container, then of an IOAS with two domains; or of two."""
    lines = ["bind_vfio", f"stress vfio vfio -t 4 -n {THREAD_PAIRS}"]
    lines.append(f"stress iommufd iommufd -i {edus} -t 4 -n {THREAD_PAIRS}")
    found = left(run(flavour, lines, edus=edus))
    assert found.keys() == set(APIS)
    assert max(found.values()) <= iommu.LEFT_LIMIT_KIB


def test_dma_sees_the_right_page_or_none() -> None:
    """The device reads and writes while its neighbours' pages come and go, and tables with them."""
    found = bench("debug", f"dma 3 {DMA_ROUNDS}")
    assert found["errors"] == 0
    assert found["transfers"] == 2 * DMA_ROUNDS
    assert found["unmapped"] > 0
    assert found["faults"] > 0
    assert found["freed"] > 0


def kunit(flavour: str, suites: list[str], which: str, limit_s: float) -> dict[str, list[ktap.Case]]:
    """The cases of each suite, in a boot that runs those which a parameter of KUnit names."""
    script = "\n".join(f"output {name} </sys/kernel/debug/kunit/{name}/results" for name in suites)
    job = qemu.Job(script, limit_s, kernel_args=("kunit.enable=1", which))
    said = kselftest.outputs(qemu.run(kbuild.build(flavour), machine.get("iommu-smp"), job).said)
    return {name: ktap.parse(said.get(name, "")) for name in suites}


@pytest.mark.parametrize("flavour", SANITIZED)
def test_kunit(flavour: str) -> None:
    """Every edge of a hole, the flush and the spare table, in every format of tables."""
    for cases in kunit(flavour, SUITES[paths.BASE], "kunit.filter_glob=*_empty_tables", BOOT_S).values():
        assert not ktap.failed(cases)
        assert len(cases) > 10


@pytest.mark.long
def test_linux_own_tests_of_page_tables() -> None:
    """A format skips what it does not have."""
    found = kunit("debug", LINUX_SUITES[paths.BASE], "kunit.filter_glob=*_test", LONG_BOOT_S)
    for cases in found.values():
        assert not ktap.failed(cases)
        assert len(ktap.skipped(cases)) < len(cases) / 2
