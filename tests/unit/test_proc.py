# SPDX-License-Identifier: GPL-2.0
"""Running programs: output is kept, failures are shown, nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ferry import paths, proc
from ferry.errors import CommandFailed, FerryError


def wait_until_gone(pid: int) -> bool:
    """Whether the process ends within a few seconds; a zombie counts as ended."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_a_failure_shows_the_end_of_the_output_and_the_log() -> None:
    script = "for i in $(seq 40); do echo line $i; done; echo broken >&2; exit 3"
    with pytest.raises(CommandFailed) as caught:
        proc.run(["sh", "-c", script], title="try it")
    assert caught.value.returncode == 3
    assert "line 39" in str(caught.value)
    assert "broken" in str(caught.value)
    assert "line 20" not in str(caught.value)
    log = paths.LOGS / "try-it.log"
    assert str(log) in str(caught.value)
    assert "line 1\n" in log.read_text()


def test_every_line_is_offered_for_progress() -> None:
    seen: list[str] = []
    proc.run(["printf", "a\\nb\\n"], title="print", on_line=seen.append)
    assert seen == ["a\n", "b\n"]


def test_output_returns_stdout_and_reports_stderr() -> None:
    assert proc.output(["cat"], input_text="hello") == "hello"
    with pytest.raises(CommandFailed, match="no luck"):
        proc.output(["sh", "-c", "echo out; echo no luck >&2; exit 1"])


def test_a_missing_program_is_named() -> None:
    with pytest.raises(FerryError, match="cannot run nosuchprogram"):
        proc.output(["nosuchprogram"])
    with pytest.raises(FerryError, match="cannot run nosuchprogram"):
        proc.run(["nosuchprogram"], title="x")


def test_an_interrupt_ends_the_child_and_its_children(tmp_path: Path) -> None:
    """As with Ctrl-C during a build: make and the compilers that it started go away."""
    script = f"sleep 100 & echo $! > {tmp_path}/pid; echo started; wait"

    def interrupt(line: str) -> str | None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        proc.run(["sh", "-c", script], title="sleep", on_line=interrupt)
    assert wait_until_gone(int((tmp_path / "pid").read_text()))


def test_a_child_dies_with_its_parent() -> None:
    code = (
        "from pathlib import Path\nfrom ferry import paths, proc\n"
        f"paths.LOGS = Path({str(paths.LOGS)!r})\n"
        "proc.run(['sh', '-c', 'echo $$; exec sleep 100'], title='x', "
        "on_line=lambda line: print(line, flush=True))"
    )
    env = {**os.environ, "PYTHONPATH": str(paths.ROOT / "lab")}
    parent = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert wait_until_gone(child)
