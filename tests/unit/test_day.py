# SPDX-License-Identifier: GPL-2.0
"""The first day without its guest: what counts as left over, what a failed step does, how a guest is told."""

import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferry import packages, paths, proc
from ferry.errors import FerryError, UsageError
from ferry.suites import day
from ferry.vm import disk, qemu, serial
from ferry.vm.machine import Machine
from ferry.vm.records import Record
from ferryctl_watch import show_rates
from tests.unit.said import record


def differences(*sides: str) -> str:
    """What diff says of two inventories, of "< KIND NAME" and the like."""
    return "".join(f"{each[:2]}{record('have', what=each[2:], how=each[0])}" for each in sides)


def test_what_is_left_is_named_with_what_became_of_it() -> None:
    said = differences(
        *("< file /usr/bin/x y", "> file /usr/bin/x y", "> file /etc/ferry.conf", "< package zstd"),
        *("< file /var/lib/dpkg/status", "> file /var/lib/dpkg/status"),
    )
    assert day.left(said) == ["file /etc/ferry.conf new", "file /usr/bin/x y changed", "package zstd gone"]
    assert day.left("") == []


def test_nothing_of_ferrys_may_be_left() -> None:
    for name in (
        "file /lib/modules/6.12-ferry", "content /boot/grub/grub.cfg", "file /etc/ferry.conf",
        "unit ferry.service", "package ferry-tools", "content /etc/modules", "module mtcopy",
    ):  # fmt: skip
        assert day.left(differences(f"> {name}")) == [f"{name} new"]


def test_what_watch_shows_is_counted() -> None:
    """As ferryctl writes it, with the time."""
    blank = {"time": "2026-11-26T04:00:00+0000", "in_service": True, "overdue": 0, "held_bytes": 0,
             "not_by_engine": {}, "inaccessible_us": {}}  # fmt: skip
    none = blank | {"active": "none", "calls": 9, "folios": 9, "gbps": {}}
    mtcopy = blank | {"active": "mtcopy", "calls": 2, "folios": 1024, "gbps": {"mtcopy": 0.1}}
    assert day.seen(f"{show_rates(none)}\n{show_rates(mtcopy)}\n") == 1024
    assert day.seen(show_rates(none)) == 0


def test_what_was_written_over_is_not_shown() -> None:
    assert day.on_screen("one\r\nread 5%\rread 50%\rread 100%\r\nand\ntwo\n") == "one\nread 100%\nand\ntwo\n"


FAKE = """\
#!/bin/sh
# Stands for QEMU: its stdio is the serial port of the operator.
{before}
exec bash {operator} /
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    return tmp_path


def _guest(folder: Path, before: str = "") -> serial.Guest:
    fake = folder / "qemu"
    fake.write_text(FAKE.format(before=before, operator=qemu.GUEST / "operator.sh"))
    fake.chmod(0o755)
    return serial.Guest(Machine("day", program=(str(fake),)), [], name="day")


@pytest.fixture
def guest(build: Path) -> Iterator[serial.Guest]:
    with _guest(build) as made:
        assert made.ready(10.0) == platform.release()
        yield made


def test_a_guest_does_what_it_is_told(guest: serial.Guest) -> None:
    assert guest.run("echo one; echo 'two  words' >&2; exit 3") == serial.Said(3, "one\ntwo  words\n")
    assert guest.run("printf '%s' 'no newline'; pwd >/dev/null") == serial.Said(0, "no newline")
    assert guest.run("cat; for i in 1 2\ndo echo $i; done") == serial.Said(0, "1\n2\n")


def test_a_letter_may_come_in_two_parts(guest: serial.Guest) -> None:
    assert guest.run(r"printf 'a \342\224'; sleep 0.2; printf '\203 b'") == serial.Said(0, "a \u2503 b")


def test_a_guest_that_takes_too_long_is_lost(guest: serial.Guest) -> None:
    with pytest.raises(qemu.LostVM, match="said nothing of its end"):
        guest.run("sleep 30", 0.2)
    assert guest.lost


def test_a_guest_that_ends_is_lost_and_its_last_words_are_shown(build: Path) -> None:
    with _guest(build, "echo no such disk >&2; exit 1") as guest, pytest.raises(qemu.LostVM) as caught:
        guest.ready(10.0)
    assert "no such disk" in str(caught.value)
    assert not [path for path in build.iterdir() if path.is_dir() and path.name.startswith("vm-")]


def test_complaints_are_those_of_ferrys_kernel(guest: serial.Guest) -> None:
    guest.console.write_text(
        "[    0.000000] Linux version 6.1.0-cloud (debian) 1\n[    1.0] WARNING: CPU: 0 PID: 1 at theirs\n"
        "[    0.000000] Linux version 6.12.1-ferry (root) 2\n[    1.0] WARNING: CPU: 0 PID: 1 at ours\n"
    )
    assert guest.complaints("-ferry") == ["[boot] WARNING: CPU: 0 PID: 1 at ours"]


# --- the steps ---


def _systemctl(monkeypatch: pytest.MonkeyPatch, folder: Path, state: str, failed: str) -> None:
    """Stands for systemctl in the guest."""
    (folder / "bin").mkdir(exist_ok=True)
    fake = folder / "bin/systemctl"
    fake.write_text(f"#!/bin/sh\ncase $1 in --failed) printf '{failed}' ;; *) echo {state} ;; esac\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("failed", "allowed", "wrong"),
    [
        ("", "", None),
        ("ferry.service loaded failed failed Copy engine\\n", "ferry.service", None),
        ("ferry.service loaded failed failed Copy engine\\n", "", "where '' was to fail: ferry.service"),
        ("", "ferry.service", "where 'ferry.service' was to fail"),
        ("ferry.service loaded\\nssh.service loaded\\n", "ferry.service", "was to fail: ssh.service"),
    ],
)
def test_a_boot_is_well_if_no_other_unit_fails(
    build: Path, monkeypatch: pytest.MonkeyPatch, failed: str, allowed: str, wrong: str | None
) -> None:
    _systemctl(monkeypatch, build, "degraded" if failed else "running", failed)
    with _guest(build) as guest:
        guest.ready(10.0)
        by = day.Operator(guest, lambda text: None)
        if wrong:
            with pytest.raises(day.Wrong, match=wrong):
                by.booted("6.12.1", ferry=False, failed=allowed)
        else:
            by.booted("6.12.1", ferry=False, failed=allowed)


def test_a_command_must_end_with_its_status(guest: serial.Guest) -> None:
    by = day.Operator(guest, lambda text: None)
    assert by.do("echo gone; exit 3", status=3) == "gone\n"
    with pytest.raises(day.Wrong, match="'exit 1' ended with status 1"):
        by.do("exit 1", status=3)
    with pytest.raises(day.Wrong, match="ended with status 0"):
        by.do("true", status=3)


def _follow(guest: serial.Guest, monkeypatch: pytest.MonkeyPatch, *steps: str) -> tuple[list[Record], str]:
    """Steps of one command each, with its output as their title."""
    said: list[str] = []

    def step(command: str) -> day.DayStep:
        def run(by: day.Operator) -> None:
            by.do(command, 0.5)

        run.__doc__ = f"It says {command}"
        return run

    monkeypatch.setattr(day, "STEPS", tuple(step(command) for command in steps))
    return day.follow(day.Operator(guest, said.append)), "".join(said)


def test_a_failed_step_does_not_end_the_day(guest: serial.Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes, said = _follow(guest, monkeypatch, "echo bad; false", "echo good")
    bad, *others = (outcome["wrong"] for outcome in outcomes)
    assert (bad, others) == ("'echo bad; false' ended with status 1: bad", [None, None])
    assert "=== 1. It says echo bad; false\n$ echo bad; false\nbad\n[exit status 1]\nWRONG: " in said
    assert said.endswith("=== 2. It says echo good\n$ echo good\ngood\n")


def test_after_the_loss_of_the_guest_nothing_is_tried(
    guest: serial.Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes, _ = _follow(guest, monkeypatch, "sleep 30", "true")
    assert "said nothing of its end" in outcomes[0]["wrong"]
    assert outcomes[1]["wrong"] == day.NOT_TRIED


class Answers(day.Operator):
    """Stands for an operator: what is typed is kept, and what comes is known before."""

    def __init__(self, known: dict[str, str]) -> None:
        self.known, self.typed, self.kernels = known, list[str](), ["7.3.4-ferry"]

    def do(self, command: str, timeout_s: float = 0.0, *, status: int = 0) -> str:
        self.typed.append(command)
        return next((said for words, said in self.known.items() if command.startswith(words)), "")

    def reboot(self, *, ferry: bool, failed: str = "") -> None:
        self.typed.append(f"reboot {'to Ferry' if ferry else 'to Debian'}")


HAS_SETTINGS = f'{{"active": "mtcopy", "settings": {json.dumps(day.SETTINGS)}}}'


@pytest.mark.parametrize(
    ("base", "told", "boots"),
    [
        ("6.12", "Debian's next, which is without Ferry", ["reboot to Debian", "reboot to Ferry"]),
        ("7.3", "next boot: 7.3.4-ferry, with Ferry", ["reboot to Ferry"]),
    ],
)
def test_an_update_counts_as_newer_only_than_a_kernel_of_its_linux(
    monkeypatch: pytest.MonkeyPatch, base: str, told: str, boots: list[str]
) -> None:
    monkeypatch.setattr(paths, "BASE", base)
    said = f"{told}; boot 7.3.4-ferry, which is installed; {day.OF_ANOTHER_VERSION}"
    by = Answers({"apt install": told, "ferryctl status": HAS_SETTINGS, "ferryctl check": said})
    day.update(by)
    assert [line for line in by.typed if line.startswith("reboot")] == boots
    assert any(line.startswith("grub-set-default") for line in by.typed) == (len(boots) == 2)
    with pytest.raises(day.Wrong, match="it does not say"):
        day.update(Answers(by.known | {"apt install": "next boot: another"}))


@pytest.mark.parametrize(
    ("base", "purged"),
    [("6.12", "'linux-image-6.12*'"), ("7.3", "'linux-image-6.12*' 'linux-image-7.3*'")],
)
def test_debians_update_and_ferrys_kernel_are_removed(
    monkeypatch: pytest.MonkeyPatch, base: str, purged: str
) -> None:
    monkeypatch.setattr(paths, "BASE", base)
    by = Answers({})
    day.remove(by)
    assert f"apt purge -y {purged}" in by.typed


# --- what it is made of ---


def test_a_disk_needs_root(monkeypatch: pytest.MonkeyPatch, build: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(FerryError, match="needs root"):
        disk._make(build / "disk.img")


@pytest.mark.parametrize("cpus", [0, 65])
def test_a_machine_that_cannot_be_is_refused(cpus: int) -> None:
    with pytest.raises(UsageError, match=f"{cpus} CPUs"):
        day.guest_machine(cpus)


def test_one_cpu_needs_no_emulator_of_the_labs() -> None:
    assert not day.guest_machine(1).needs_own_emulator(kvm=False)
    assert day.guest_machine(2).needs_own_emulator(kvm=False)
    assert (day.guest_machine(1).nodes, day.guest_machine(2).nodes) == (2, 2)


def test_packages_that_were_made_are_taken(tmp_path: Path) -> None:
    names = ("ferry-tools_1.0_amd64.deb", "linux-image-6.12.1-ferry_6.12.1-1_amd64.deb")
    for name in (*names, "linux-headers-6.12.1-ferry_6.12.1-1_amd64.deb"):
        (tmp_path / name).touch()
    assert [path.name for path in day.packages_in(tmp_path)] == list(names)
    (tmp_path / "linux-image-6.12.2-ferry_6.12.2-1_amd64.deb").touch()
    with pytest.raises(UsageError, match="has 2 packages linux-image"):
        day.packages_in(tmp_path)
    with pytest.raises(UsageError, match="has 0 packages ferry-tools"):
        day.packages_in(tmp_path / "nosuch")


def test_an_update_is_debians_newest_kernel_and_is_fetched_once(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "linux-image-6.12.9+deb12-cloud-amd64"
    fetched: list[object] = []

    def fetch(command: list[str], *, cwd: Path, **_: object) -> None:
        fetched.append(command[-1])
        (cwd / f"{name}_6.12.9-1_amd64.deb").touch()

    shown = f"Package: {day.UPDATE}\nDepends: {name} (= 6.12.9-1)\nRecommends: nothing\n"
    monkeypatch.setattr(proc, "output", lambda command, env: shown)
    monkeypatch.setattr(packages, "candidate", lambda package: "6.12.9-1")
    monkeypatch.setattr(proc, "run", fetch)
    for _ in range(2):
        assert [path.name for path in day.update_of_debian()] == [f"{name}_6.12.9-1_amd64.deb"]
    assert fetched == [name]
    shown = ""
    with pytest.raises(FerryError, match="apt-get update"):
        day.update_of_debian()


def test_an_update_that_apt_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "candidate", lambda package: None)
    monkeypatch.setattr(proc, "output", lambda *_, **__: pytest.fail("apt-cache fails at an unknown name"))
    with pytest.raises(FerryError, match="run apt-get update; the guest is Debian 12"):
        day.update_of_debian()


def test_the_kernel_has_what_the_guest_has_loaded() -> None:
    assert {"ext4", "virtio_blk", "virtio_pci"} <= set(disk.MODULES)
