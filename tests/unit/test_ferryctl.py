# SPDX-License-Identifier: GPL-2.0
"""ferryctl, on a tree that looks like sysfs."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
from pathlib import Path

import pytest

import ferryctl
from ferry import paths
from ferryctl_machine import System
from tests.unit.fake_ferry import Machine, machine_in


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with Ferry, nothing active."""
    return machine_in(tmp_path)


def _run(machine: System, *words: str) -> int:
    return ferryctl.main(words, machine)


def test_status_says_what_each_setting_means(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(machine, "status") == 0
    said = capsys.readouterr().out
    assert "engine    none (Linux copies as it always did); loaded: cpu" in said
    for name in machine.settings():
        assert f"  {name}" in said
        assert ferryctl.SETTINGS[name] in said
    assert "1,000 folios (4.1 MB) moved by engines in 3 calls" in said


def test_each_cause_comes_with_what_one_can_do(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    _run(machine, "status")
    said = capsys.readouterr().out
    assert "fallback_refs 2: somebody held the folio" in said
    assert "-> move again when the I/O is over" in said
    assert "left 7:" in said
    assert "fallback_kind" not in said


def test_causes_are_those_that_the_kernel_counts() -> None:
    """A cause that nobody explains, or explains in vain, is a mistake."""
    text = (paths.KERNEL / "src/mm/migrate_offload/sysfs.c").read_text()
    counted = {
        line.split("(")[1].split(",")[0] for line in text.splitlines() if line.startswith("STAT_ATTR(")
    }
    assert set(ferryctl.CAUSES) == {
        name for name in counted if name.startswith("fallback_") or name == "left"
    }


def test_settings_are_those_of_the_kernel() -> None:
    """deadline_ms may come with a later kernel."""
    text = (paths.KERNEL / "src/Documentation/ABI/testing/sysfs-kernel-mm-migrate-offload").read_text()
    known = {line.rpartition("/")[2] for line in text.splitlines() if line.startswith("What:")}
    assert set(ferryctl.SETTINGS) - {"deadline_ms"} <= known


def test_histogram_shows_what_is_filled(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    _run(machine, "status")
    bars = [line for line in capsys.readouterr().out.splitlines() if " us " in line]
    assert [line.split()[1:4:2] for line in bars] == [["4", "10"], ["8", "5"]]
    assert bars[0].count("#") == 2 * bars[1].count("#")


def test_a_module_with_other_parameters_is_loaded_anew(machine: Machine) -> None:
    """dcbm's cannot be changed while it is loaded."""
    (machine.root / "etc/ferry.conf").write_text("mtcopy.threads = 4\n")
    loaded = machine.root / "sys/module/mtcopy/parameters/threads"
    loaded.parent.mkdir(parents=True)
    for threads, calls in (("4", []), ("0", [["-r", "mtcopy"], ["mtcopy", "threads=4"]])):
        assert _run(machine, "use", "none") == 0
        _run(machine, "use", "mtcopy")
        machine.loaded.clear()
        loaded.write_text(f"{threads}\n")
        assert _run(machine, "use", "mtcopy") == 0
        assert machine.loaded == calls
        assert machine.get("active") == "mtcopy"


def test_a_module_that_cannot_be_unloaded_goes_on(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as dcbm, while an engine has copies that it does not end. modprobe of this machine says no."""
    (machine.root / "etc/ferry.conf").write_text("mtcopy.threads = 4\n")
    _run(machine, "use", "mtcopy")
    loaded = machine.root / "sys/module/mtcopy/parameters/threads"
    loaded.parent.mkdir(parents=True)
    loaded.write_text("0\n")
    busy = dataclasses.replace(machine, modprobe=lambda args: 1)
    assert _run(busy, "use", "mtcopy") == 1
    assert "cannot be unloaded" in capsys.readouterr().err
    assert machine.get("active") == "mtcopy"


@pytest.mark.parametrize(
    "words",
    [["status"], ["use", "cpu"], ["set", "chunk_pages=8"], ["reset"], ["causes"], ["watch", "--count", "0"]],
)
def test_every_command_has_json(
    machine: Machine, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert _run(machine, words[0], "--json", *words[1:]) == 0
    for line in capsys.readouterr().out.splitlines():
        assert isinstance(json.loads(line), dict)


def test_watch_shows_rates_by_engine_and_cause(machine: Machine) -> None:
    before = ferryctl.status(machine)
    for name, text in (
        ("migrators/cpu/bytes", "2004096000"),
        ("stats/left", "9"),
        ("inaccessible_us", "0 0 14 5 1"),
    ):
        (machine.offload / name).chmod(0o644)
        (machine.offload / name).write_text(f"{text}\n")
    found = ferryctl.rates(before, ferryctl.status(machine), 2.0)
    assert found["gbps"] == {"cpu": 1.0}
    assert found["not_by_engine"] == {"fallback_kind": 0, "fallback_refs": 0, "left": 2}
    assert found["inaccessible_us"] == {"1": 0, "2": 0, "4": 4, "8": 0, "inf": 1}
    assert "cpu 1.00 GB/s" in ferryctl.show_rates(found)


def test_an_engine_is_loaded_with_the_parameters_of_the_file(machine: Machine) -> None:
    (machine.root / "etc/ferry.conf").write_text("# why\nmtcopy.threads = 4 # all\ndcbm.channels = 8\n")
    assert _run(machine, "use", "mtcopy", "--save") == 0
    assert machine.loaded == [["mtcopy", "threads=4"]]
    assert machine.get("active") == "mtcopy"
    text = (machine.root / "etc/ferry.conf").read_text()
    assert text == "# why\nmtcopy.threads = 4 # all\ndcbm.channels = 8\nengine = mtcopy\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["use", "warp"], "no engine 'warp'; there are: none, cpu, and to load: mtcopy, dcbm"),
        (["use", "dcbm"], "cannot load dcbm: is there a DMA engine with free channels?"),
        (["set", "speed=9"], "this kernel has no setting 'speed'; it has: chunk_pages, "),
        (["set", "chunk_pages"], "'chunk_pages' is not NAME=VALUE"),
        (["set", "min_bytes=1", "reasons=junk"], "reasons=junk: the kernel refuses that value"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(
    machine: Machine, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    before = {**machine.settings(), "active": machine.get("active")}
    assert _run(machine, *words, "--save" if words[0] == "set" else "--json") == 1
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert {**machine.settings(), "active": machine.get("active")} == before
    assert not (machine.root / "etc/ferry.conf").exists()


@pytest.mark.parametrize(("window", "chunk"), [(16, 8), (1024, 512), (0, 0), (8, 8)])
def test_window_and_chunk_are_changed_in_an_order_that_the_kernel_takes(
    machine: Machine, window: int, chunk: int
) -> None:
    assert _run(machine, "set", "window_pages=96", "chunk_pages=32") == 0
    assert _run(machine, "set", f"window_pages={window}", f"chunk_pages={chunk}") == 0
    assert (machine.get("window_pages"), machine.get("chunk_pages")) == (str(window), str(chunk))


def test_a_boot_restores_what_was_saved(machine: Machine) -> None:
    for words in (["use", "mtcopy"], ["set", "window_pages=1024", "chunk_pages=512", "reasons=damon"]):
        assert _run(machine, *words, "--save") == 0
    assert _run(machine, "reset") == 0
    assert (machine.get("active"), machine.get("window_pages"), machine.get("reasons")) == (
        "none",
        "0",
        "all",
    )
    assert _run(machine, "apply") == 0
    assert (machine.get("active"), machine.get("window_pages"), machine.get("reasons")) == (
        *("mtcopy", "1024"),
        "damon",
    )


def test_a_conf_that_makes_no_sense_is_named_by_its_line(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine.root / "etc/ferry.conf").write_text("# fine\nengine mtcopy\n")
    assert _run(machine, "apply") == 1
    assert "/etc/ferry.conf, line 2: 'engine mtcopy' is not NAME = VALUE" in capsys.readouterr().err


def test_the_shipped_conf_changes_nothing(machine: Machine) -> None:
    shutil.copy(paths.ROOT / "tools/ferryctl/ferry.conf", machine.root / "etc/ferry.conf")
    assert _run(machine, "apply") == 0
    assert machine.writes == ["active=none"]


@pytest.mark.parametrize("contained", [False, True])
@pytest.mark.parametrize(
    "words", [["status"], ["use", "cpu"], ["set", "min_bytes=1"], ["watch"], ["reset"], ["apply"]]
)
def test_a_kernel_without_ferry_is_said_clearly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], contained: bool
) -> None:
    if contained:
        (tmp_path / ".dockerenv").touch()
    assert _run(System(tmp_path), *words) == 1
    said = capsys.readouterr().err
    assert "is without Ferry: boot one that has it" in said
    assert ("run ferryctl on the host" in said) == contained


def test_without_root_is_said_clearly(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert _run(machine, "use", "cpu") == 1
    assert "changing active needs root: use sudo" in capsys.readouterr().err


def test_an_engine_without_channels_is_said_clearly(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, flags: int) -> int:
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(os, "open", refuse)
    assert _run(machine, "use", "cpu") == 1
    assert "active=cpu: it finds nothing to copy with; dmesg says more" in capsys.readouterr().err


def test_an_engine_out_of_service_is_said(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    (machine.offload / "in_service").write_text("0\n")
    _run(machine, "status")
    assert "OUT OF SERVICE" not in capsys.readouterr().out
    _run(machine, "use", "cpu")
    _run(machine, "status")
    assert "OUT OF SERVICE" in capsys.readouterr().out


def test_channels_are_listed(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    path = machine.root / "sys/kernel/debug/dcbm/channels"
    path.parent.mkdir(parents=True)
    path.write_text("channel device node state\ndma0chan0 pci 0 live\ndma0chan1 pci 0 stuck\n")
    _run(machine, "status")
    assert "1 DMA channels of 2 serve dcbm" in capsys.readouterr().out
