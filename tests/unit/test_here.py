# SPDX-License-Identifier: GPL-2.0
"""table --here: what a machine lacks is left out and said, and its job may put things back."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ferry import paths
from ferry.bench.cell import Cell
from ferry.errors import FerryError
from ferry.tables import experiments, here
from ferry.tables.experiments import Scale
from ferry.vm import qemu


def test_cells_that_do_not_fit_are_left_out_with_the_reason() -> None:
    cells = [
        Cell("vanilla", "2M", 8),
        Cell("ferry", "2M", 8, 16),
        Cell("ferry", "2M", 8, 4),
        Cell("cpu", "2M", 512),
        Cell("none", "2M", 8, call="promote"),
    ]
    possible, missing = here.split(cells, channels=4, free=256 << 20)
    assert possible == [cells[0], cells[2]]
    assert missing == [
        "1 cells, for which it takes more DMA channels: this machine has 4 free",
        "1 cells, for which it takes more memory: a node has room for 256 MiB",
        "1 cells, for which it takes an emulated server with a slow node, and an unchanged kernel",
    ]


def test_what_has_no_engine_is_not_called_vanilla() -> None:
    cells = [{"engine": "vanilla", "gbps": 1.0}, {"engine": "ferry", "gbps": 2.0}]
    assert [here.named(cell) for cell in cells] == [{"engine": "none", "gbps": 1.0}, cells[1]]


@pytest.mark.parametrize("name", experiments.TABLES)
def test_here_has_the_sizes_and_repetitions_of_the_source(name: str) -> None:
    table = experiments.get(name)
    cells, emulated = (table.cells(table.posted_figures, Scale(here=here)) for here in (True, False))
    assert max(each.bytes for each in cells) >= 1 << 30
    assert {each.runs for each in cells} == {10}
    assert len(cells) >= len(emulated)
    assert all(cell.runs == 3 for cell in table.cells(table.posted_figures, Scale(quick=True, here=True)))


def test_kernel_without_ferry_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(here, "OFFLOAD", tmp_path / "nosuch")
    with pytest.raises(FerryError, match="boot a kernel with Ferry"):
        here.measure([])


def test_what_could_not_be_put_back_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    library = (qemu.GUEST / "lib.sh").read_text()
    monkeypatch.setattr(here, "job", lambda script: library + script)
    with pytest.raises(FerryError, match="no such engine"):
        here._run("record lost what 'reasons, which was all'; fail no such engine", "x", tmp_path)
    assert "cannot put back reasons, which was all" in capsys.readouterr().err
    assert not list(tmp_path.glob("here-*"))


def test_a_killed_ferry_lets_its_job_put_things_back(tmp_path: Path) -> None:
    """SIGKILL cannot be caught; the kernel then sends the job the signal that was asked for."""
    job = f"trap 'echo back >{tmp_path}/back; exit 1' TERM; echo on >{tmp_path}/on; sleep 2"
    program = (
        "import signal\nfrom pathlib import Path\nfrom ferry import paths, proc\n"
        f"paths.LOGS = Path({str(tmp_path)!r})\n"
        f"proc.run(['sh', '-c', {job!r}], title='job', on_death=signal.SIGTERM)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(paths.ROOT / "lab")}
    with subprocess.Popen([sys.executable, "-c", program], env=env, stderr=subprocess.DEVNULL) as child:
        _until(tmp_path / "on")
        child.send_signal(signal.SIGKILL)
    _until(tmp_path / "back")


def _until(path: Path) -> None:
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} never came"
        time.sleep(0.05)
