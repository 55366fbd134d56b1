# SPDX-License-Identifier: GPL-2.0
"""ferryctl, on a tree that looks like sysfs."""

import dataclasses
import json
import os
import re
from pathlib import Path

import pytest

import ferryctl
import ferryctl_machine
from ferry import paths
from ferryctl_machine import Problem, System
from ferryctl_settings import REASONS, SETTINGS, ULONG_MAX
from ferryctl_status import CAUSES, MAPPED, status
from ferryctl_watch import rates, show_rates
from tests.unit.conftest import FakeProgram
from tests.unit.fake_ferry import CHANNELS, Machine, run


def test_status_says_what_each_setting_means(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(machine, "status") == 0
    said = capsys.readouterr().out
    assert "engine    none (Linux copies as it always did); loaded: cpu" in said
    for name in machine.settings():
        assert f"  {name}" in said
        assert SETTINGS[name].means in said
    assert "1,000 folios (4.1 MB) moved by engines in 3 calls" in said
    assert (
        "  folios of 64 KiB: copied while mapped: 90; written to meanwhile and copied again: 10;"
        " given up for a second, since many were written to: 1\n"
        "  folios of 2,048 KiB: copied while mapped: 5\n"
    ) in said


def test_each_cause_comes_with_what_one_can_do(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    run(machine, "status")
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
    assert set(CAUSES) == {name for name in counted if name.startswith("fallback_") or name == "left"}


KERNEL = paths.KERNEL / "src/mm/migrate_offload"


def test_the_tree_looks_like_the_kernels(machine: Machine) -> None:
    """Files, which of them can be written, and what they say after boot."""
    text = (KERNEL / "sysfs.c").read_text()
    listed = re.findall(r"&(\w+)_attr\.attr", text.partition("root_attrs[] = {")[2].partition("NULL")[0])
    there = {path.name for path in machine.offload.iterdir() if path.is_file()}
    assert there == set(listed)
    writable = set(re.findall(r"SETTING_ATTR\((\w+)\)", text)) | set(re.findall(r"__ATTR_RW\((\w+)\)", text))
    assert {*machine.settings(), "active"} == writable - {"_name"}
    counted = set(re.findall(r"^STAT_ATTR\((\w+),", text, re.MULTILINE)) | {"window_max_pages"}
    assert set(machine.folder("stats")) == counted
    each = set(re.findall(r"^MIGRATOR_ATTR\((\w+)\)", text, re.MULTILINE))
    assert set(machine.folder("migrators/cpu")) == each


def test_large_folios_are_counted_as_the_kernel_does() -> None:
    patch = next((paths.BASES / paths.DEFAULT_BASE / "patches").glob("0064-*")).read_text()
    assert set(MAPPED) == set(re.findall(r"^\+DEFINE_MTHP_STAT_ATTR\((\w+),", patch, re.MULTILINE))


def test_settings_are_those_of_the_kernel(machine: Machine) -> None:
    """None more, none less."""
    assert set(SETTINGS) == set(machine.settings())


def test_ranges_are_those_of_the_kernel() -> None:
    text = (paths.KERNEL / "src/Documentation/ABI/testing/sysfs-kernel-mm-migrate-offload").read_text()
    for name, setting in SETTINGS.items():
        about = " ".join(text.partition(f"migrate_offload/{name}\n")[2].partition("What:")[0].split())
        assert about, name
        if setting.unit not in ("bytes", "words", "flag"):
            assert f"0 to {setting.most}" in about
        if setting.unit == "words":
            assert all(f"{reason}," in about or f"{reason}." in about for reason in REASONS)
        assert (setting.most == ULONG_MAX) == (setting.unit == "bytes")


def test_histogram_shows_what_is_filled(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    run(machine, "status")
    bars = [line for line in capsys.readouterr().out.splitlines() if " us " in line]
    assert [line.split()[1:4:2] for line in bars] == [["4", "10"], ["8", "5"]]
    assert bars[0].count("#") == 2 * bars[1].count("#")


def test_a_module_with_other_parameters_is_loaded_anew(machine: Machine) -> None:
    """dcbm's cannot be changed while it is loaded."""
    (machine.root / "etc/ferry.conf").write_text("mtcopy.threads = 4\n")
    loaded = machine.root / "sys/module/mtcopy/parameters/threads"
    loaded.parent.mkdir(parents=True)
    for threads, calls in (("4", []), ("0", [["-r", "mtcopy"], ["mtcopy", "threads=4"]])):
        assert run(machine, "use", "none") == 0
        run(machine, "use", "mtcopy")
        machine.loaded.clear()
        loaded.write_text(f"{threads}\n")
        assert run(machine, "use", "mtcopy") == 0
        assert machine.loaded == calls
        assert machine.get("active") == "mtcopy"


def test_a_module_that_cannot_be_unloaded_goes_on(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as dcbm, while an engine has copies that it does not end. modprobe of this machine says no."""
    (machine.root / "etc/ferry.conf").write_text("mtcopy.threads = 4\n")
    run(machine, "use", "mtcopy")
    loaded = machine.root / "sys/module/mtcopy/parameters/threads"
    loaded.parent.mkdir(parents=True)
    loaded.write_text("0\n")
    busy = dataclasses.replace(machine, modprobe=lambda args: 1)
    assert run(busy, "use", "mtcopy") == 1
    assert "cannot be unloaded" in capsys.readouterr().err
    assert machine.get("active") == "mtcopy"


@pytest.mark.parametrize(
    "words",
    [["status"], ["use", "cpu"], ["set", "chunk_pages=8"], ["reset"], ["causes"], ["watch", "--count", "0"]],
)
def test_every_command_has_json(
    machine: Machine, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert run(machine, words[0], "--json", *words[1:]) == 0
    for line in capsys.readouterr().out.splitlines():
        assert isinstance(json.loads(line), dict)


def test_watch_shows_rates_by_engine_and_cause(machine: Machine) -> None:
    before = status(machine)
    for name, text in (
        ("migrators/cpu/bytes", "2004096000"),
        ("stats/left", "9"),
        ("inaccessible_us", " ".join(["0", "0", "14", "5", *["0"] * 19, "1"])),
    ):
        machine.says(name, text)
    found = rates(before, status(machine), 2.0)
    assert found["gbps"] == {"cpu": 1.0}
    assert {name: count for name, count in found["not_by_engine"].items() if count} == {"left": 2}
    assert {bound: count for bound, count in found["inaccessible_us"].items() if count} == {"4": 4, "inf": 1}
    assert "cpu 1.00 GB/s" in show_rates(found)


def test_an_engine_is_loaded_with_the_parameters_of_the_file(machine: Machine) -> None:
    (machine.root / "etc/ferry.conf").write_text("# why\nmtcopy.threads = 4 # all\ndcbm.channels = 8\n")
    assert run(machine, "use", "mtcopy", "--save") == 0
    assert machine.loaded == [["mtcopy", "threads=4"]]
    assert machine.get("active") == "mtcopy"
    text = (machine.root / "etc/ferry.conf").read_text()
    assert text == "# why\nmtcopy.threads = 4 # all\ndcbm.channels = 8\nengine = mtcopy\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["use", "warp"], "no engine 'warp'; there are: none, cpu, and to load: mtcopy, dcbm"),
        (["use", "dcbm"], "active=dcbm: it finds nothing to copy with: see 'ferryctl engines' and dmesg"),
        (["set", "speed=9"], "this kernel has no setting 'speed'; it has: chunk_pages, "),
        (["set", "chunk_pages"], "'chunk_pages' is not NAME=VALUE"),
        (["set", "min_bytes=1", "reasons=junk"], "reasons=junk: the kernel refuses that value"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(
    machine: Machine, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    before = {**machine.settings(), "active": machine.get("active")}
    assert run(machine, *words, "--save" if words[0] == "set" else "--json") == 1
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert {**machine.settings(), "active": machine.get("active")} == before
    assert not (machine.root / "etc/ferry.conf").exists()


@pytest.mark.parametrize(("window", "chunk"), [(16, 8), (1024, 512), (0, 0), (8, 8)])
def test_window_and_chunk_are_changed_in_an_order_that_the_kernel_takes(
    machine: Machine, window: int, chunk: int
) -> None:
    assert run(machine, "set", "window_pages=96", "chunk_pages=32") == 0
    assert run(machine, "set", f"window_pages={window}", f"chunk_pages={chunk}") == 0
    assert (machine.get("window_pages"), machine.get("chunk_pages")) == (str(window), str(chunk))


@pytest.mark.parametrize("contained", [False, True])
@pytest.mark.parametrize("words", [["status"], ["use", "cpu"], ["set", "min_bytes=1"], ["watch"], ["reset"]])
def test_a_kernel_without_ferry_is_said_clearly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], contained: bool
) -> None:
    if contained:
        (tmp_path / ".dockerenv").touch()
    assert run(System(tmp_path), *words) == 3
    said = capsys.readouterr().err
    assert "is without Ferry: boot one that has it" in said
    assert ("run ferryctl on the host" in said) == contained


def test_without_root_is_said_clearly(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert run(machine, "use", "cpu") == 1
    assert "changing active needs root: use sudo" in capsys.readouterr().err


def test_an_engine_that_is_gone_is_called_that(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Its module was unloaded after 'available' was read: the kernel says ENOENT, and it is no setting."""
    gone = dataclasses.replace(machine, modprobe=lambda args: 0)
    assert run(gone, "use", "mtcopy") == 1
    said = capsys.readouterr().err
    assert said == "ferryctl: active=mtcopy: there is no such engine; there are: none, cpu\n"


def test_modprobe_is_found_outside_path(
    tmp_path: Path, fake_program: FakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root shell that 'su' has opened has a user's PATH."""
    fake_program("modprobe", f"echo $@ >{tmp_path}/loaded")
    assert System().modprobe(["mtcopy", "threads=2"]) == 0
    assert (tmp_path / "loaded").read_text() == "mtcopy threads=2\n"
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(ferryctl_machine, "SBIN", f"{tmp_path}/bin")
    assert System().modprobe(["dcbm"]) == 0
    monkeypatch.setattr(ferryctl_machine, "SBIN", "/nonexistent")
    with pytest.raises(Problem, match="install the package kmod"):
        System().modprobe(["dcbm"])


@pytest.mark.parametrize(
    ("text", "value"), [("1M", "1048576"), ("256K", "262144"), ("1GiB", str(1 << 30)), ("4096", "4096")]
)
def test_sizes_may_have_a_suffix(machine: Machine, text: str, value: str) -> None:
    assert run(machine, "set", f"min_bytes={text}", "--save") == 0
    assert machine.get("min_bytes") == value
    assert f"min_bytes = {value}\n" in (machine.root / "etc/ferry.conf").read_text()


@pytest.mark.parametrize(
    ("word", "takes"),
    [
        ("min_bytes=x", "a number of bytes, also with K, M or G"),
        ("target_us=2000000", "it takes 0 to 1000000 (microseconds)"),
        ("target_us=1M", "it takes 0 to 1000000 (microseconds)"),
        ("window_pages=-1", "it takes 0 to 262144 (pages of 4 KiB)"),
        ("deadline_ms=60001", "it takes 0 to 60000 (milliseconds)"),
        ("engine_always=2", "it takes 0 or 1"),
        ("stripe_bytes=4097", "a number of bytes"),
        ("reasons=junk", "it takes all, none, or some of: compaction memory_failure"),
    ],
)
def test_a_refusal_says_the_range(
    machine: Machine, capsys: pytest.CaptureFixture[str], word: str, takes: str
) -> None:
    before = machine.settings()
    assert run(machine, "set", word) == 1
    assert takes in capsys.readouterr().err
    assert machine.settings() == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["tune", "--rounds", "x"], "'x' is no whole number from 3 to 1000: with fewer"),
        (["tune", "--rounds", "2"], "'2' is no whole number from 3 to 1000"),
        (["watch", "--interval", "x"], "'x' is no number of seconds from 0.01 to 3600"),
        (["watch", "--interval", "nan"], "'nan' is no number of seconds"),
        (["watch", "--count", "-1"], "'-1' is no whole number from 0"),
        (["move", "--pid", "1", "--to", "1", "--rate", "9"], "'9' is no rate: bytes per second, at least 1M"),
        (["move", "--to", "1"], "one of the arguments --pid --cgroup is required"),
    ],
)
def test_arguments_that_make_no_sense_say_what_would(
    machine: Machine, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(machine, *words)
    said = capsys.readouterr().err
    assert why in said
    assert "invalid _" not in said


def test_without_a_command_it_is_status(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(machine) == 0
    assert "engine    none" in capsys.readouterr().out


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        ferryctl.main(["--version"])
    assert capsys.readouterr().out == f"ferryctl {(paths.ROOT / 'VERSION').read_text()}"


def test_an_engine_out_of_service_is_said_and_is_no_success(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(machine, "status") == 0
    assert "OUT OF SERVICE" not in capsys.readouterr().out
    assert run(machine, "use", "cpu") == 0
    assert run(machine, "status") == 0
    machine.says("in_service", "0")
    capsys.readouterr()
    assert run(machine, "status") == 1
    said = capsys.readouterr().out
    assert "OUT OF SERVICE" in said
    assert "degraded: engine cpu is out of service" in said
    assert run(machine, "status", "--json") == 1
    assert json.loads(capsys.readouterr().out)["problems"] == ["engine_out_of_service"]


def test_channels_are_listed(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    path = machine.root / "sys/kernel/debug/dcbm/channels"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"{CHANNELS}dma0chan0 0000:01:00.1 0 9 9 0 0 live\ndma0chan1 0000:01:00.1 0 9 5 4 1 stuck\n"
    )
    run(machine, "status")
    said = capsys.readouterr().out
    assert "1 DMA channels of 2 serve dcbm" in said
    assert "dma0chan1 of 0000:01:00.1 is stuck: 4 errors, 1 copies in flight" in said


def test_channels_that_cannot_be_read_are_not_none(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.says("available", "cpu dcbm")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    run(machine, "status")
    assert "channels  those of dcbm: needs root" in capsys.readouterr().out
    run(machine, "status", "--json")
    assert json.loads(capsys.readouterr().out)["channels"] is None


def test_the_header_of_channels_is_the_kernels() -> None:
    text = (paths.KERNEL / "src/drivers/migrate_offload/dcbm/channels.c").read_text()
    assert CHANNELS.strip() in text
