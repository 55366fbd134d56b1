# SPDX-License-Identifier: GPL-2.0
"""Who waits for dcbm looks at engines that write to memory what they have done, as their drivers promise."""

import pytest

from ferry.server import profile
from ferry.vm import records
from tests import guest

pytestmark = pytest.mark.vm


@pytest.mark.parametrize(
    ("server", "channels", "interrupt"), [("xeon-ioat", 8, "ioat"), ("xeon-dsa", 16, "idxd-portal")]
)
def test_who_waits_ends_copies_by_looking(server: str, channels: int, interrupt: str) -> None:
    """In virtual time no copy is overdue, though few parts interrupt."""
    script = (
        f"use_dma {channels} 256; echo 1 >$OFFLOAD/engine_always\n"
        "bench good --folio 2M --bytes 32M --runs 2\n"
        f"interrupts=$(awk '/{interrupt}/ {{ sum += $2 }} END {{ print sum }}' /proc/interrupts)\n"
        "cd $OFFLOAD/migrators/dcbm\n"
        "record counted interrupts: $interrupts moved: $(cat bytes) overdue: $(cat overdue)\n"
    )
    said = guest.says(script, profile.load(server).as_machine())
    counted = records.of(said, "counted")
    assert records.of(said, "migbench")["found"]["passed"]
    assert counted["overdue"] == 0
    assert counted["moved"] >= 2 * (32 << 20)
    assert counted["interrupts"] < counted["moved"] >> 17, "fewer than parts of 128 KiB"
