# SPDX-License-Identifier: GPL-2.0
"""Building the emulator: what is tried where, without building it."""

import dataclasses
from pathlib import Path

import pytest

from ferry import packages, proc
from ferry.errors import CommandFailed, FerryError
from ferry.vm import emulator
from tests.unit.conftest import digest_of


def test_apt_is_not_configured_for_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "Debian|http://mirror/debian/ bookworm main\nOther|http://other/ x y\n" * 2
    monkeypatch.setattr(proc, "output", lambda *args, **more: lines)
    options = packages.apart(tmp_path, "deb-src", packages.mirrors())
    assert (tmp_path / "sources.list").read_text().splitlines() == [
        f"deb-src [signed-by={packages.KEYRING}] http://mirror/debian/ bookworm main"
    ]
    assert f"Dir::State::Lists={tmp_path / 'lists'}" in options
    assert not [word for word in options if "/etc/apt" in word or "/var/lib/apt" in word]


def test_no_mirror_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "output", lambda *args, **more: "")
    with pytest.raises(FerryError, match="apt knows no mirror of Debian"):
        packages.mirrors()


def test_no_network_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **more: object) -> None:
        raise CommandFailed("no route", 100)

    monkeypatch.setattr(emulator, "PLACE", tmp_path)
    monkeypatch.setattr(packages, "mirrors", lambda: ["http://mirror x main"])
    monkeypatch.setattr(proc, "run", fail)
    with pytest.raises(FerryError, match="cannot fetch the source of qemu; is there a network"):
        emulator._download(emulator.base())


def test_another_version_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(args: list[str], **more: object) -> None:
        (tmp_path / "download/qemu_9.0-1.dsc").touch()

    monkeypatch.setattr(emulator, "PLACE", tmp_path)
    monkeypatch.setattr(packages, "mirrors", lambda: ["http://mirror x main"])
    monkeypatch.setattr(proc, "run", fetch)
    with pytest.raises(
        FerryError, match=r"apt gave qemu_9.0-1.dsc for qemu, but the device is for 7.2: .*snapshot"
    ):
        emulator._download(emulator.base())


def test_source_is_what_the_pin_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    description = tmp_path / "qemu_7.2+dfsg-1.dsc"
    description.write_text("as released")
    wanted = dataclasses.replace(emulator.base(), sha256={"7.2+dfsg-1": digest_of(description)})
    emulator._verify(wanted, description)
    assert not capsys.readouterr().err
    description.write_text("as changed")
    with pytest.raises(FerryError, match="is not what Debian has"):
        emulator._verify(wanted, description)
    emulator._verify(wanted, description.rename(tmp_path / "qemu_7.2+dfsg-2.dsc"))
    assert "qemu 7.2+dfsg-2 is new to Ferry, which knows 7.2+dfsg-1" in capsys.readouterr().err


def test_qemu_without_the_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "output", lambda *args, **more: 'name "e1000"')
    with pytest.raises(FerryError, match="was built without the device amd-ptdma"):
        emulator._check_device()


def test_progress_counts_steps() -> None:
    progress = emulator._progress
    line = "[12/1428] Compiling C object libcommon.fa.p/hw_dma_ptdma.c.o"
    assert progress(line) == "12/1428 hw_dma_ptdma.c.o"
    assert progress("warning: something") is None


def test_packages_are_all_named() -> None:
    assert len(set(emulator.PACKAGES)) == len(emulator.PACKAGES)
    assert packages.is_installed("dpkg")
