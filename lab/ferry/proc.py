# SPDX-License-Identifier: GPL-2.0
"""Running other programs: argument lists only, output to a log, no child left behind."""

import ctypes
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ferry import paths
from ferry.errors import CommandFailed, FerryError, quoted
from ferry.progress import Step

Args = Sequence[str | Path]

TAIL_LINES = 15
TERM_GRACE_S = 5.0
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


def die_with_parent(signum: int = signal.SIGKILL) -> None:
    """For preexec_fn: the kernel ends this process when the thread that started it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signum)


def kill_group(child: subprocess.Popen[str] | subprocess.Popen[bytes], grace_s: float = TERM_GRACE_S) -> None:
    """End a child that leads its own process group, and all that it started."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, sig)
        except ProcessLookupError:
            break
        try:
            child.wait(grace_s)
        except subprocess.TimeoutExpired:
            continue
    child.wait()


def spawn(
    args: Args,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_death: int = signal.SIGKILL,
) -> subprocess.Popen[str]:
    """Start a command with a process group of its own, which ends with us. Raises FerryError."""
    try:
        return subprocess.Popen(
            [str(a) for a in args],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,
            preexec_fn=lambda: die_with_parent(on_death),
        )
    except FileNotFoundError as err:
        raise FerryError(f"cannot run {args[0]}: {err.strerror}: {err.filename}") from err


def run(
    args: Args,
    *,
    title: str,
    log: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], str | None] | None = None,
    on_death: int = signal.SIGKILL,
    grace_s: float = TERM_GRACE_S,
) -> None:
    """Run a command with a line of progress; its output goes to LOG.log in this run's folder of logs.

    title is what the user sees; log defaults to the title with dashes. env is added to ours.
    on_line gets each line of output and may return a text to show as the progress. A command that has
    something to put back gets on_death if this process is killed, and grace_s if it is interrupted.
    Raises CommandFailed, with the end of the output and the log's path, if it fails.
    """
    path = paths.LOGS / f"{log or title.replace(' ', '-')}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    tail: list[str] = []
    with Step(title) as step, path.open("w") as out:
        out.write(f"$ {shlex.join(str(a) for a in args)}\n")
        child = spawn(args, cwd, env, on_death)
        assert child.stdout
        try:
            for line in child.stdout:
                out.write(line)
                out.flush()
                tail = [*tail, line.rstrip("\n")][-TAIL_LINES:]
                text = on_line(line) if on_line else line.strip()[:60]
                if text:
                    step.update(text)
            returncode = child.wait()
        except BaseException:
            kill_group(child, grace_s)
            raise
        if returncode:
            raise CommandFailed(
                f"{title} failed (exit {returncode}); all output is in {path}; it ends with:{quoted(tail)}",
                returncode,
            )


def output(
    args: Args,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input_text: str | None = None,
) -> str:
    """Run a short command and return what it wrote to stdout. Raises CommandFailed."""
    try:
        done = subprocess.run(
            [str(a) for a in args],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            input=input_text if input_text is not None else "",
            capture_output=True,
            text=True,
            errors="replace",
            preexec_fn=die_with_parent,
        )
    except FileNotFoundError as err:
        raise FerryError(f"cannot run {args[0]}: {err.strerror}: {err.filename}") from err
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or "no output"
        raise CommandFailed(
            f"{shlex.join(str(a) for a in args[:4])} failed (exit {done.returncode}): "
            + "\n  ".join(said.splitlines()[-TAIL_LINES:]),
            done.returncode,
            said,
        )
    return done.stdout
