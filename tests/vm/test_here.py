# SPDX-License-Identifier: GPL-2.0
"""table --here on a machine that somebody uses: none is without an engine, and all is put back."""

from pathlib import Path

import pytest

from ferry.bench import cell, migbench
from ferry.bench.cell import Cell, Measured
from ferry.kernel import kbuild
from ferry.tables import here
from ferry.vm import machine, qemu, records
from tests import guest

pytestmark = pytest.mark.vm

CELLS = (
    Cell("vanilla", "4K", 2048, latency=True),
    Cell("cpu", "4K", 2048, latency=True),
    Cell("dma", "2M", 8, 2, 512),
    Cell("vanilla", "2M", 8),
)
# What an administrator may have set; the DMA channels are softdma's.
USED = """
modprobe softdma channels=4
modprobe dcbm channels=3 queue_depth=8
modprobe mtcopy
echo 5 >/sys/module/mtcopy/parameters/threads
echo 96 >$OFFLOAD/window_pages
echo 32 >$OFFLOAD/chunk_pages
echo 8192 >$OFFLOAD/stripe_bytes
echo 4096 >$OFFLOAD/min_bytes
echo "syscall_or_cpuset damon" >$OFFLOAD/reasons
echo 1 >$OFFLOAD/inaccessible_enabled
echo cpu >$OFFLOAD/active
"""
SAY = """
say() {
	for name in active window_pages chunk_pages stripe_bytes min_bytes reasons inaccessible_enabled; do
		record is when "$1" what "$name $(cat $OFFLOAD/$name)"
	done
	for name in dcbm/parameters/channels dcbm/parameters/queue_depth mtcopy/parameters/threads; do
		record is when "$1" what "$name $(cat /sys/module/$name 2>/dev/null)"
	done
	record is when "$1" what "files $(ls /tmp)"
}
"""
RUN = "mkdir /ferry/work; WORK=/ferry/work sh /ferry/here.sh"


def _boot(folder: Path, script: str, body: str) -> str:
    """What a script records, in a guest that has here's job with a body as /ferry/here.sh."""
    (folder / "here.sh").write_text(here.job(body))
    programs = {"ferry/here.sh": folder / "here.sh", "bin/migbench": migbench.build_migbench()}
    job = qemu.Job(f"{SAY}{script}", 240.0, programs=programs)
    return qemu.run(kbuild.build("ferry"), machine.get("icount"), job).said


def _measured(said: str) -> list[Measured]:
    found = cell.parse(said, CELLS)
    return [found[i] for i in sorted(found)]


def _settings(said: str, when: str) -> list[str]:
    return [each["what"] for each in records.every(said, "is") if each["when"] == when]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A machine with cpu active and everything set, measured, the engine before the vanilla cells."""
    body = cell.script(sorted(enumerate(CELLS), key=lambda each: cell.key(each[1])))
    folder = tmp_path_factory.mktemp("here")
    return _boot(folder, f"{USED}\nsay before\n{RUN}\nsay after", body)


def test_none_is_that_of_a_fresh_machine(said: str, tmp_path: Path) -> None:
    """Under icount a nanosecond is an instruction; with cpu the first folio is usable twice as soon."""
    ours = {measurement.cell: measurement for measurement in _measured(said)}
    assert len(ours) == len(CELLS)
    vanilla = [(i, candidate) for i, candidate in enumerate(CELLS) if candidate.engine == "vanilla"]
    theirs = _measured(guest.says(cell.script(vanilla), machine.get("icount"), limit_s=240.0))
    for measurement in theirs:
        assert ours[measurement.cell].row.gbps == pytest.approx(measurement.row.gbps, rel=0.01)
    one, cpu = CELLS[:2]
    first = {measurement.cell: measurement.row.first_folio_us for measurement in theirs}[one]
    assert first is not None
    assert ours[one].row.first_folio_us == pytest.approx(first, rel=0.02)
    assert (ours[cpu].row.first_folio_us or 0.0) < 0.8 * first


def test_all_is_put_back(said: str) -> None:
    before = _settings(said, "before")
    assert "active cpu" in before
    assert "window_pages 96" in before
    assert "dcbm/parameters/channels 3" in before
    assert _settings(said, "after") == before
    assert not records.every(said, "lost")


@pytest.mark.parametrize("signal", ["HUP", "TERM"])
def test_all_is_put_back_after_a_signal(tmp_path: Path, signal: str) -> None:
    """In the middle of a cell, with another engine and other settings."""
    long = f"{cell.script([(0, CELLS[2])])}\necho middle >/ferry/middle\nsleep 30"
    start = "mkdir /ferry/work; WORK=/ferry/work setsid sh /ferry/here.sh &"
    wait = "while [ ! -e /ferry/middle ]; do sleep 0.1; done"
    end = f"kill -{signal} -$!; wait"
    found = _boot(tmp_path, f"{USED}\nsay before\n{start}\n{wait}\nsay middle\n{end}\nsay after", long)
    assert "active dcbm" in _settings(found, "middle")
    assert _settings(found, "after") == _settings(found, "before")


def test_free_channels_are_counted_and_left_free(tmp_path: Path) -> None:
    script = f"modprobe softdma channels=4\nsay before\n{RUN}\nsay after"
    found = _boot(tmp_path, script, "count_dma")
    assert records.of(found, "channels")["free"] == 4
    assert _settings(found, "after") == _settings(found, "before")
