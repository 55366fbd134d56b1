# SPDX-License-Identifier: GPL-2.0
"""/etc/ferry.conf: what it asks for is done, each line that can be; it is never lost, nor half written."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

import ferryctl_change
from ferry import paths
from ferryctl_machine import System
from tests.unit.fake_ferry import ALL, Machine, run


def _conf(machine: System, text: str) -> Path:
    path = machine.root / "etc/ferry.conf"
    path.write_text(text)
    return path


def test_a_boot_restores_what_was_saved(machine: Machine) -> None:
    for words in (["use", "mtcopy"], ["set", "window_pages=1024", "chunk_pages=512", "reasons=damon"]):
        assert run(machine, *words, "--save") == 0
    names = ("active", "window_pages", "chunk_pages", "reasons")
    assert run(machine, "reset") == 0
    assert [machine.get(name) for name in names] == ["none", "0", "0", ALL]
    assert run(machine, "apply") == 0
    assert [machine.get(name) for name in names] == ["mtcopy", "1024", "512", "damon"]


def test_a_setting_of_another_kernel_does_not_stop_the_others(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "window_bytes = 4096\ntarget_us = 300\nmin_bytes = junk\ndeadline_ms = 60001\nengine = mtcopy\n"
    path = _conf(machine, text)
    assert run(machine, "apply", "--json") == 4
    said = capsys.readouterr()
    assert machine.get("target_us") == "300"
    assert machine.get("active") == "mtcopy"
    assert (machine.get("min_bytes"), machine.get("deadline_ms")) == ("0", "0")
    left = json.loads(said.out)["left"]
    assert set(left) == {"window_bytes", "min_bytes", "deadline_ms"}
    assert "has no setting 'window_bytes'; it stays in the file" in left["window_bytes"]
    assert "it takes 0 to 60000 (milliseconds)" in left["deadline_ms"]
    assert said.err.count("ferryctl: left out: ") == 3
    assert path.read_text() == text


def test_a_conf_that_makes_no_sense_is_named_by_its_line(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    _conf(machine, "# fine\nengine mtcopy\n")
    assert run(machine, "apply") == 1
    assert "/etc/ferry.conf, line 2: 'engine mtcopy' is not NAME = VALUE" in capsys.readouterr().err


def test_a_conf_that_cannot_be_read_is_not_empty(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _conf(machine, "engine = mtcopy\n")
    path.write_bytes(b"engine = \xff\n")
    assert run(machine, "use", "cpu", "--save") == 1
    assert "cannot read /etc/ferry.conf: it is not text" in capsys.readouterr().err
    assert path.read_bytes() == b"engine = \xff\n"


def test_the_shipped_conf_changes_nothing(machine: Machine) -> None:
    shutil.copy(paths.ROOT / "tools/ferryctl/ferry.conf", machine.root / "etc/ferry.conf")
    assert run(machine, "apply") == 0
    assert machine.writes == ["active=none"]


def test_a_kernel_without_ferry_fails_only_who_asks_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ferry.service is there on a machine that has only the tools, and is no failed unit then."""
    (tmp_path / "etc").mkdir()
    system = System(tmp_path)
    _conf(system, "# nothing\n")
    assert run(system, "apply") == 0
    _conf(system, "engine = mtcopy\n")
    assert run(system, "apply") == 3
    assert "is without Ferry" in capsys.readouterr().err


# --- the file itself ---


def test_owner_and_mode_stay(machine: Machine) -> None:
    path = _conf(machine, "# mine\n")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    before = path.stat()
    assert run(machine, "use", "cpu", "--save") == 0
    after = path.stat()
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert path.read_text() == "# mine\nengine = cpu\n"


def test_a_link_stays_a_link(machine: Machine, tmp_path: Path) -> None:
    target = tmp_path / "kept/ferry.conf"
    target.parent.mkdir()
    target.write_text("# elsewhere\n")
    link = machine.root / "etc/ferry.conf"
    link.symlink_to(target)
    assert run(machine, "use", "cpu", "--save") == 0
    assert link.is_symlink()
    assert target.read_text() == "# elsewhere\nengine = cpu\n"
    target.unlink()
    assert run(machine, "use", "cpu", "--save") == 0
    assert target.read_text() == "engine = cpu\n"
    assert [path.name for path in target.parent.iterdir()] == ["ferry.conf"]


def test_links_that_go_round_are_named(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    link = machine.root / "etc/ferry.conf"
    link.symlink_to(link)
    assert run(machine, "set", "target_us=300", "--save") == 1
    assert "/etc/ferry.conf: Too many levels of symbolic links" in capsys.readouterr().err
    assert link.is_symlink()


def test_it_is_on_the_disk_before_it_takes_the_old_ones_place(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _conf(machine, "# mine\n")
    order: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(file: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        sync(file)

    def replaced(source: str, target: Path) -> None:
        order.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    assert run(machine, "use", "cpu", "--save") == 0
    assert order == ["file", "replace", "folder"]


def test_a_full_disk_leaves_the_old_file(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _conf(machine, "# mine\n")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert run(machine, "use", "cpu", "--save") == 1
    assert "cannot write /etc/ferry.conf: No space left on device" in capsys.readouterr().err
    assert path.read_text() == "# mine\n"
    assert [each.name for each in path.parent.iterdir()] == ["ferry.conf"]


# --- the engine's device, at boot ---


class Clock:
    """Time that passes only while somebody sleeps; something happens at a moment."""

    def __init__(self) -> None:
        self.now, self.events = 0.0, list[tuple[float, object]]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for at, event in list(self.events):
            if self.now >= at and callable(event):
                self.events.remove((at, event))
                event()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(ferryctl_change, "time", made)
    return made


def _channel(machine: Machine, name: str) -> None:
    (machine.root / "sys/class/dma" / name).mkdir(parents=True)


def test_dcbm_waits_for_its_device_and_for_all_of_its_channels(machine: Machine, clock: Clock) -> None:
    _conf(machine, "engine = dcbm\n")
    seen: list[int] = []

    def both() -> None:
        machine.without_device.remove("dcbm")
        _channel(machine, "dma0chan0")

    clock.events = [
        (3.0, both),
        (3.5, lambda: _channel(machine, "dma0chan1")),
        (4.1, lambda: seen.append(len(machine.loaded))),
    ]
    assert run(machine, "apply", "--wait", "30") == 0
    assert machine.get("active") == "dcbm"
    assert seen == [0]  # it was not loaded while channels came
    assert 4.4 < clock.now < 6.0


def test_the_wait_for_a_device_ends(
    machine: Machine, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    _conf(machine, "engine = dcbm\n")
    assert run(machine, "apply", "--wait", "30") == 1
    assert 29.0 < clock.now < 31.0
    assert "active=dcbm: it finds nothing to copy with" in capsys.readouterr().err


def test_nobody_waits_without_being_told(machine: Machine, clock: Clock) -> None:
    _conf(machine, "engine = dcbm\n")
    assert run(machine, "apply") == 1
    assert clock.now == 0.0
