# SPDX-License-Identifier: GPL-2.0
"""How a VM's start and end are judged, with a shell script in the emulator's place."""

import json
import os
import shlex
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from ferry import cli, paths, proc
from ferry.bench import migbench
from ferry.commands.vm import shell_script
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.kernel.kbuild import Kernel
from ferry.vm import emulator, qemu, records
from ferry.vm.machine import Machine
from tests.unit import said
from tests.unit.conftest import FakeProgram

KERNEL = Kernel("ferry", "6.12.1", Path(), Path(), Path(), Path())
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
    monkeypatch.setattr(qemu, "_write_root", lambda *_: None)
    return qemu.run(KERNEL, qemu.PROBE, qemu.Job("", timeout_s), cancelled=cancelled)


def test_a_job_ends_with_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = shlex.quote(said.record("one") + said.record("exit", status=7))
    result = boot(f"{SAYS_LINUX}; printf %s {says} >$folder/result", monkeypatch, tmp_path)
    assert (result.status, records.of(result.said, "one")) == (7, {"record": "one"})


def test_folders_of_a_killed_lab_are_removed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    (tmp_path / "vm-left").mkdir()
    (tmp_path / "vm-left/initramfs.cpio").touch()
    (tmp_path / "vm-file").touch()
    with qemu.own_folder() as first, qemu.own_folder() as second:
        assert {*tmp_path.iterdir()} == {first, second, tmp_path / "vm-file"}
    assert [path.name for path in tmp_path.iterdir()] == ["vm-file"]


def test_a_lab_that_is_killed_lets_go_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = f"from pathlib import Path; from ferry import paths; paths.BUILD = Path({str(tmp_path)!r})"
    end = "from ferry.vm import qemu; held = qemu.own_folder(); held.__enter__(); os.kill(os.getpid(), 9)"
    env = {**os.environ, "PYTHONPATH": str(paths.ROOT / "lab")}
    subprocess.run([sys.executable, "-c", f"import os; {begin}; {end}"], env=env, check=False)
    (left,) = tmp_path.iterdir()
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    with qemu.own_folder() as folder:
        assert [*tmp_path.iterdir()] == [folder]
    assert left != folder


def test_root_of_a_container_may_have_no_pid_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_program: FakeProgram
) -> None:
    fake_program("unshare", "echo 'unshare failed: Operation not permitted' >&2; exit 1")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    says = shlex.quote(said.record("exit", status=7))
    assert boot(f"{SAYS_LINUX}; printf %s {says} >$folder/result", monkeypatch, tmp_path).status == 7


def test_a_job_that_says_why_it_failed_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = shlex.quote(said.record("error", text="no such engine") + said.record("exit", status=1))
    with pytest.raises(FerryError, match=r"^no such engine$"):
        boot(f"printf %s {says} >$folder/result", monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("status", "record"),
    [
        (0, {"record": "migbench", "of": "cpu", "found": {"a": 1}}),
        (1, {"record": "error", "text": "4K cpu: no such node"}),
    ],
)
def test_a_job_has_one_line_for_the_bench(
    tmp_path: Path, fake_program: FakeProgram, status: int, record: dict[str, object]
) -> None:
    """As it is in all guests, and on a real machine."""
    fake_program(
        "migbench", f'printf \'{{\\n "a": 1}}\\n\' >row\necho "$*" >asked\necho no such node\nexit {status}'
    )
    job = "step 4K cpu; bench cpu --folio 4K --more 'two words'"
    ended, text = said.by_job(tmp_path, job)
    assert (ended, json.loads(text)) == (status, record)
    assert (tmp_path / "asked").read_text() == f"--folio 4K --more two words --json {tmp_path}/row\n"


def test_a_hanging_job_is_lost_and_its_console_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(qemu.LostVM, match=r"still busy after 1 s; its console(.*\n)+.*Linux version"):
        boot(f"{SAYS_LINUX}; sleep 60", monkeypatch, tmp_path, timeout_s=1.0)
    assert not list(tmp_path.glob("vm-*"))


def test_the_console_of_a_vm_that_failed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "LOGS", tmp_path / "log")
    with pytest.raises(qemu.LostVM) as caught:
        boot("echo first >$folder/console", monkeypatch, tmp_path)
    with pytest.raises(qemu.LostVM):
        boot("echo second >$folder/console", monkeypatch, tmp_path)
    test_a_job_ends_with_its_records(tmp_path, monkeypatch)
    kept = {file.read_text().strip(): file for file in (tmp_path / "log").iterdir()}
    assert kept.keys() == {"first", "second", "Linux version 6.12.1"}
    assert str(kept["first"]) in str(caught.value)


def test_a_cancelled_vm_ends_at_once_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(qemu.LostVM, match="was ended"):
        boot("sleep 60", monkeypatch, tmp_path, cancelled=cancelled)


def test_a_shell_on_the_server_is_the_terminal_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    end = shlex.quote(said.record("exit", status=3))

    def command(
        kernel: Kernel, machine: Machine, job: qemu.Job, folder: Path, output: list[str]
    ) -> list[str]:
        assert output[0] == "-chardev"
        return ["sh", "-c", f"echo typed $(cat); echo {end} >{folder}/result"]

    monkeypatch.setattr(qemu, "ensure_emulator", lambda machine: None)
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    monkeypatch.setattr(qemu, "_initramfs_command", command)
    monkeypatch.setattr(qemu, "_write_root", lambda *_: None)
    with (tmp_path / "keys").open("w+") as keys:
        keys.write("uname")
        keys.seek(0)
        monkeypatch.setattr(subprocess, "run", partial(subprocess.run, stdin=keys))
        assert qemu.shell(KERNEL, qemu.PROBE, qemu.Job("", 1.0)) == 3
    assert capfd.readouterr().out == "typed uname\n"


def test_a_profile_without_a_command_is_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[qemu.Job] = []

    def shell(kernel: Kernel, machine: Machine, job: qemu.Job) -> int:
        jobs.append(job)
        return 7

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(emulator, "build", lambda: None)
    monkeypatch.setattr(kbuild, "build", lambda name: KERNEL)
    monkeypatch.setattr(migbench, "build_migbench", Path)
    monkeypatch.setattr(qemu, "shell", shell)
    assert cli.main(["vm", "--profile", "zen3", "--engine", "dcbm", "--channels", "16"]) == 7
    assert jobs[0].controlled
    assert "use_dma 16 32\n" in jobs[0].script
    subprocess.run(["sh", "-n"], input=jobs[0].script, text=True, check=True)


def test_a_shell_on_the_server_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["vm", "--profile", "zen3"]) == 2
    assert "a shell needs a terminal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--channels", "65"], "--channels 65: softdma has 1 to 64"),
        (["--channels", "9", "--profile", "xeon-ioat"], "--channels 9: xeon-ioat has 1 to 8"),
    ],
)
def test_no_more_channels_than_there_are(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "ensure_emulator", None)
    monkeypatch.setattr(kbuild, "build", None)
    assert cli.main(["vm", "--engine", "dcbm", *words, "--", "true"]) == 2
    assert capsys.readouterr().err == f"ferry: {why}\n"


@pytest.mark.parametrize("setup", ["", "use_engine cpu 1\n"])
def test_an_interactive_shell_begins_with_sound_lines(setup: str) -> None:
    text = shell_script(KERNEL, setup)
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    assert text.endswith("exec bash -i\n")
