# SPDX-License-Identifier: GPL-2.0
"""How a VM's start and end are judged, with a shell script in the emulator's place."""

import subprocess
from pathlib import Path

import pytest

from ferry import packages, paths, proc, vm
from ferry.commands.vm import shell_script
from ferry.kbuild import Kernel
from ferry.machine import Machine

KERNEL = Kernel("ferry", "6.12.1", Path(), Path(), Path(), Path(), "")
SAYS_LINUX = 'echo "Linux version 6.12.1" >$folder/console'


def boot(script: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, timeout_s: float = 20.0) -> vm.Result:
    """What comes of an emulator that runs this script, with $folder for its ports' files."""

    def command(kernel: Kernel, machine: Machine, job: vm.Job, folder: Path, kvm: bool) -> list[str]:
        return ["sh", "-c", f"folder={folder}; {script}"]

    monkeypatch.setattr(packages, "ensure", lambda names: None)
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    monkeypatch.setattr(proc, "TERM_GRACE_S", 0.2)
    monkeypatch.setattr(vm, "SILENCE_S", 0.5)
    monkeypatch.setattr(vm, "_initramfs_command", command)
    return vm.run(KERNEL, vm.PROBE, vm.Job("", timeout_s))


def test_a_job_ends_with_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = boot(f"{SAYS_LINUX}; printf 'one\\nexit 7\\n' >$folder/result", monkeypatch, tmp_path)
    assert (result.status, result.records) == (7, ["one"])


def test_an_emulator_without_a_kernel_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    first = f"[ -e {tmp_path}/again ] || {{ touch {tmp_path}/again; exec sleep 60; }}"
    result = boot(f"{first}; {SAYS_LINUX}; echo exit 0 >$folder/result", monkeypatch, tmp_path)
    assert result.status == 0
    assert "starting it once more" in capfd.readouterr().err
    assert not list(tmp_path.glob("vm-*"))


def test_a_second_start_without_a_kernel_is_a_lost_vm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(vm.LostVM, match="still busy after 1 s"):
        boot(f"echo start >>{tmp_path}/starts; sleep 60", monkeypatch, tmp_path, timeout_s=1.0)
    assert (tmp_path / "starts").read_text() == "start\nstart\n"


def test_a_kernel_that_hangs_is_not_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(vm.LostVM, match="Linux version"):
        boot(f"echo start >>{tmp_path}/starts; {SAYS_LINUX}; sleep 60", monkeypatch, tmp_path, timeout_s=1.5)
    assert (tmp_path / "starts").read_text() == "start\n"


def test_virtme_s_output_is_the_console_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "echo 'Linux version 6.12.1'; sleep 1; echo exit 0 >$folder/result"
    boot(f"echo start >>{tmp_path}/starts; {said}", monkeypatch, tmp_path)
    assert (tmp_path / "starts").read_text() == "start\n"


@pytest.mark.parametrize("setup", ["", "use_engine cpu 1\n"])
def test_an_interactive_shell_begins_with_sound_lines(setup: str) -> None:
    text = shell_script(KERNEL, setup)
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    assert text.endswith("bash -i\n")
