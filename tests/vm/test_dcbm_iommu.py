# SPDX-License-Identifier: GPL-2.0
"""dcbm with an IOMMU and without: folios that lie anywhere share a descriptor, and no byte is lost by it."""

from dataclasses import replace

import pytest

from ferry.server import profile
from ferry.vm import emulator, machine, records
from tests import guest

pytestmark = pytest.mark.vm

# They do not adjoin. In random order alone frames adjoin again, since move_pages(2) sorts addresses.
BENCH = "bench dcbm --folio 4K --bytes 16M --runs 3 --order scattered"
FOLIOS = 4 * 4096


def _server(*functions: str, iommu: bool = True) -> machine.Machine:
    """Two CPUs, Intel's IOMMU, and one PTDMA function per text, which has its properties."""
    devices = [
        word
        for i, properties in enumerate(functions)
        for word in ("-device", f"{emulator.DEVICE},addr={profile.FIRST_SLOT + i:#x}{properties}")
    ]
    there = replace(machine.get("smp"), program=tuple(emulator.command()), devices=tuple(devices))
    return replace(there, iommu=iommu, kernel_args=(*there.kernel_args, "iommu.strict=1"))


def _move(
    where: machine.Machine,
    *,
    flavour: str = "debug",
    load: str = "modprobe ptdma",
    bench: str = BENCH,
    option: str = "",
    then: str = "",
) -> tuple[records.Record, records.Record]:
    """What migbench found, and what was counted; the latter after what is to be done then."""
    script = (
        f"{load} && modprobe dcbm timeout_ms=500 || fail 'cannot load dcbm'\n"
        # dcbm is to notice what is wrong, not the core, which would give the engine up
        "echo 60000 >$OFFLOAD/deadline_ms; echo 1 >$OFFLOAD/engine_always; echo dcbm >$OFFLOAD/active\n"
        f"{bench} {option}\n"
        "cd $OFFLOAD/stats; folios=$(cat folios) failed=$(cat fallback_error) kept=$(cat quarantined_bytes)\n"
        "submitted=$(awk 'NR > 1 { n += $4 } END { print n }' /sys/kernel/debug/dcbm/channels)\n"
        f"{then}"
        "record counted moved: $folios failed: $failed kept: $kept descriptors: $submitted gone: ${gone:-0}\n"
    )
    said = guest.says(script, where, flavour=flavour)
    return records.of(said, "migbench")["found"], records.of(said, "counted")


def _channels_of_one_device(fault: str = "", option: str = "") -> tuple[records.Record, records.Record]:
    """Folios of 2 MiB by eight channels of softdma, which lends the IOMMU of a PCI device.

    So few in a call that none is given to a channel in whole.
    """
    where = replace(machine.get("smp"), iommu=True, devices=machine.EDU)
    load = (
        "modprobe softdma channels=8 && echo softdma.0 >/sys/bus/platform/drivers/softdma/unbind\n"
        "dev=$(grep -l 0x11e8 /sys/bus/pci/devices/*/device) dev=${dev%/device}\n"
        "echo softdma >$dev/driver_override && echo ${dev##*/} >/sys/bus/pci/drivers_probe\n"
        f"cd /sys/module/softdma/parameters\n{fault}\n"
        "[ -e $dev/driver ] && [ -e $dev/iommu_group ]"
    )
    bench = "bench dcbm --folio 2M --bytes 30M --runs 3"
    strict = replace(where, kernel_args=(*where.kernel_args, "iommu.strict=1"))
    return _move(strict, load=load, bench=bench, option=option)


LARGE_FOLIOS = 4 * 15


def test_parts_of_a_folio_share_a_mapping() -> None:
    """It stays until the last of the device's channels is done with its part of the folio."""
    found, counted = _channels_of_one_device()
    assert found["passed"]
    assert (counted["failed"], counted["kept"]) == (0, 0)
    assert LARGE_FOLIOS // 2 < counted["moved"] <= LARGE_FOLIOS
    assert counted["descriptors"] == 8 * counted["moved"]


@pytest.mark.parametrize(
    ("fault", "option"),
    [
        ("echo 11 >read_error_every", ""),
        pytest.param("echo 5 >swap_every", "", marks=pytest.mark.long),
        pytest.param("echo 13 >prep_null_every", "", marks=pytest.mark.long),
        pytest.param("echo 20 >late_ms; echo 9 >late_every", "", marks=pytest.mark.long),
        ("echo 11 >stall_every", "--allow-partial"),
    ],
)
def test_shared_mapping_outlives_what_is_wrong_with_one_part(fault: str, option: str) -> None:
    """Parts that fail, overtake, are refused or lost; the others of the folio still use the mapping."""
    found, counted = _channels_of_one_device(fault, option)
    assert found["passed"]
    assert found["verified_bytes"] >= 4 * 30 << 20
    assert counted["moved"] > 0
    assert (counted["failed"] > 0) == ("error" in fault or "stall" in fault)
    assert (counted["kept"] > 0) == bool(option)


@pytest.mark.parametrize("iommu", [True, False])
def test_folios_that_lie_anywhere_share_a_descriptor(iommu: bool) -> None:
    """All are unmapped as they were mapped, or DMA_API_DEBUG says so."""
    row, counted = _move(_server("", "", iommu=iommu))
    assert row["passed"]
    assert (counted["failed"], counted["kept"]) == (0, 0)
    # A busy guest may leave a few to Linux's own path, which moves them as well.
    assert FOLIOS - FOLIOS // 64 < counted["moved"] <= FOLIOS
    assert counted["descriptors"] < FOLIOS // 8


def test_driver_that_takes_no_lists_has_a_descriptor_for_each() -> None:
    """Folios that do not adjoin share none then, without an IOMMU."""
    load = "modprobe softdma channels=2 lists=0"
    row, counted = _move(_server(iommu=False), flavour="ferry", load=load)
    assert row["passed"]
    assert counted["descriptors"] > FOLIOS // 2


@pytest.mark.parametrize("iommu", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize(("fault", "option"), [("error-at=5", ""), ("stall-at=5", "--allow-partial")])
def test_faulty_channel_loses_no_byte(fault: str, option: str, iommu: bool) -> None:
    """One descriptor is many folios: the CPU copies them all, or all stay and their pages are kept."""
    found, counted = _move(_server("", f",{fault}", iommu=iommu), option=option)
    assert found["passed"]
    assert found["verified_bytes"] >= 4 * 16 << 20
    assert counted["moved"] > FOLIOS // 2
    assert counted["failed"] > 1
    assert (counted["kept"] > 4096) == bool(option)


@pytest.mark.parametrize("size", ["16M", "256K"])
def test_lost_copies_are_given_back_when_they_end(size: str) -> None:
    """Each is lost and ends later, with all its folios; then the module goes, and nothing is mapped.

    The engine gets all folios of a small call, so that none of them moves.
    """
    then = (
        "cd /; echo none >$OFFLOAD/active\n"
        "for try in $(seq 100); do rmmod dcbm 2>/dev/null && break; sleep 0.1; done\n"
        "[ ! -d /sys/module/dcbm ] && gone=1\n"
        "cd /sys/bus/pci/drivers/ptdma; for dev in 0*; do echo $dev >unbind; done\n"
    )
    where = _server(",descriptor-ns=1500000000")
    bench = BENCH.replace("16M", size)
    found, counted = _move(where, bench=bench, option="--allow-partial", then=then)
    assert found["passed"]
    assert counted["failed"] > 1
    assert counted["kept"] > 4096
    assert counted["gone"]
