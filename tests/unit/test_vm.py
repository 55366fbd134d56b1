# SPDX-License-Identifier: GPL-2.0
"""How a VM's start and end are judged, with a shell script in the emulator's place."""

import subprocess
import threading
from pathlib import Path

import pytest

from ferry import paths, proc
from ferry.commands.vm import shell_script
from ferry.kernel.kbuild import Kernel
from ferry.vm import qemu
from ferry.vm.machine import Machine

KERNEL = Kernel("ferry", "6.12.1", Path(), Path(), Path(), Path(), "")
SAYS_LINUX = 'echo "Linux version 6.12.1" >$folder/console'


def boot(
    script: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    timeout_s: float = 20.0,
    cancelled: threading.Event | None = None,
) -> qemu.Result:
    """What comes of an emulator that runs this script, with $folder for its ports' files."""

    def command(kernel: Kernel, machine: Machine, job: qemu.Job, folder: Path, kvm: bool) -> list[str]:
        return ["sh", "-c", f"folder={folder}; {script}"]

    monkeypatch.setattr(qemu, "ensure_emulator", lambda machine, kvm: None)
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    monkeypatch.setattr(proc, "TERM_GRACE_S", 0.2)
    monkeypatch.setattr(qemu, "_initramfs_command", command)
    return qemu.run(KERNEL, qemu.PROBE, qemu.Job("", timeout_s), cancelled=cancelled)


def test_a_job_ends_with_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = boot(f"{SAYS_LINUX}; printf 'one\\nexit 7\\n' >$folder/result", monkeypatch, tmp_path)
    assert (result.status, result.records) == (7, ["one"])


def test_a_hanging_job_is_lost_and_its_console_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(qemu.LostVM, match=r"still busy after 1 s; its console(.*\n)+.*Linux version"):
        boot(f"{SAYS_LINUX}; sleep 60", monkeypatch, tmp_path, timeout_s=1.0)
    assert not list(tmp_path.glob("vm-*"))


def test_a_cancelled_vm_ends_at_once_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(qemu.LostVM, match="was ended"):
        boot("sleep 60", monkeypatch, tmp_path, cancelled=cancelled)


@pytest.mark.parametrize("setup", ["", "use_engine cpu 1\n"])
def test_an_interactive_shell_begins_with_sound_lines(setup: str) -> None:
    text = shell_script(KERNEL, setup)
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    assert text.endswith("bash -i\n")
