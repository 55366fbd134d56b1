# SPDX-License-Identifier: GPL-2.0
"""The emulated server: every run is the same, and what it lacks is named."""

from dataclasses import replace

import pytest

from ferry import paths
from ferry.bench.cell import Cell
from ferry.errors import FerryError
from ferry.server import profile
from ferry.tables import runner
from ferry.vm.machine import Machine

pytestmark = pytest.mark.vm

CELLS = [
    Cell("vanilla", "2M", 4, latency=True),
    Cell("dma", "2M", 8, 4, 4096, latency=True),
    Cell("ferry", "2M", 8, 16, latency=True),
    Cell("ferry", "4K", 512, 16),
    Cell("cpu", "4K", 512, batch_pages=512, cycles=True),
]


def _server(channels: int = 16) -> Machine:
    server = profile.load("zen3")
    return replace(server, dma=replace(server.dma, channels=channels)).as_machine()


def test_repeats_are_the_same_to_the_last_digit() -> None:
    one, two = ([each.as_json() for each in runner.in_vms(CELLS, _server())[0]] for _ in range(2))
    assert one == two
    assert all(each["verified_bytes"] for each in one)
    assert one[-1]["migrate_cycles_per_page"] > one[-1]["copy_cycles_per_page"] > 0


def test_what_is_varied_is_so_in_the_vm_and_costs() -> None:
    """An IOMMU translates, a dear register is waited for, and neither is there without."""
    server = profile.load("zen3")
    changes: list[runner.Varied] = [("register_ns", 3000), ("iommu", "strict")]
    plain = Cell("ferry", "64K", 256, 16)
    cells = [plain, *(replace(plain, varied=change) for change in changes)]
    others = {change: server.varied(*change).as_machine() for change in changes}
    found, _ = runner.in_vms(cells, _server(), others)
    free, *dear = (each.row.gbps for each in found)
    assert all(gbps < 0.9 * free for gbps in dear)
    consoles = [path.read_text() for path in paths.LOGS.glob("256-x-64K-ferry-x16*.log")]
    assert len(consoles) == len(cells)
    assert sum("DMA domain TLB invalidation policy: strict" in text for text in consoles) == 1
    assert sum("DMAR: Intel(R) Virtualization Technology" in text for text in consoles) == 1


def test_channels_that_are_not_there_are_counted() -> None:
    with pytest.raises(FerryError, match="16 DMA channels were asked for, and 4 are there"):
        runner.in_vms([Cell("ferry", "2M", 4, 16)], _server(channels=4))
