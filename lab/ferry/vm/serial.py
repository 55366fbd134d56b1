# SPDX-License-Identifier: GPL-2.0
"""A guest that boots from its own disk, may reboot as often as it likes, and does what it is told.

Commands and what they say go over its second serial port, to guest/operator.sh; its console goes to a file.
"""

import base64
import codecs
import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ferry import paths, proc
from ferry.errors import quoted
from ferry.vm import console, qemu, records
from ferry.vm.machine import Machine

CONSOLE_TAIL = 15
SHORT_S = 60.0
_BOOT = re.compile(r"^\[ *0\.0+\] Linux version (\S+)", re.MULTILINE)
# guest/operator.sh's own, between what commands say.
_RECORD = r'\x1e(\{{"record": "{}".*)\n'


@dataclass(frozen=True)
class Said:
    """A command's exit status, and what it wrote."""

    status: int
    text: str


def drive(image: Path, *, keep: bool) -> list[str]:
    """A disk of the guest's; unless it is to keep what is written, that goes when QEMU ends."""
    kept = "off" if keep else "on"
    return ["-drive", f"file={image},format=raw,if=virtio,cache=unsafe,snapshot={kept}"]


class Guest:
    """One QEMU from power on to power off. with Guest(...) as guest: guest.ready(); guest.run("uname -r")"""

    def __init__(self, computer: Machine, qemu_args: Sequence[str], *, name: str, kvm: bool = False) -> None:
        self._machine, self._qemu_args, self._kvm = computer, qemu_args, kvm
        self._open = ExitStack()
        self._heard = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.on_output: Callable[[str], object] = lambda text: None
        self.lost = False
        self.console = paths.LOGS / f"{name}.log"

    def __enter__(self) -> Self:
        qemu.ensure_emulator(self._machine, self._kvm)
        self.console.parent.mkdir(parents=True, exist_ok=True)
        # Where QEMU keeps what is written to a snapshot.
        self._folder = self._open.enter_context(qemu.own_folder())
        self._child = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._folder / "emulator").open("wb"),
            env={**os.environ, "TMPDIR": str(self._folder)},
            process_group=0,
            preexec_fn=proc.die_with_parent,
        )
        assert self._child.stdout
        os.set_blocking(self._child.stdout.fileno(), False)
        return self

    def __exit__(self, *_: object) -> None:
        proc.kill_group(self._child)
        self._open.close()

    def _command(self) -> list[str]:
        return [
            *self._machine.bare(self._kvm),
            *("-device", "virtio-rng-pci", "-chardev", f"file,id=console,path={self.console}"),
            *("-chardev", "stdio,id=operator,signal=off"),
            *("-serial", "chardev:console", "-serial", "chardev:operator", *self._qemu_args),
        ]

    def ready(self, timeout_s: float) -> str:
        """Wait until it can be told something; returns the release of its kernel."""
        return str(self._until("ready", timeout_s)[0]["kernel"])

    def run(self, command: str, timeout_s: float = SHORT_S) -> Said:
        """Let its shell run a command. Raises LostVM if that does not end in time."""
        self._tell(command)
        self._heard = ""
        ended, text = self._until("exit", timeout_s)
        return Said(ended["status"], text)

    def reboot(self, timeout_s: float) -> str:
        """Let it shut down and boot what its disk says; returns the release of that kernel."""
        self._tell("systemctl reboot")
        return self.ready(timeout_s)

    def power_off(self, timeout_s: float) -> None:
        """Let it shut down. Raises LostVM if that takes longer."""
        self._tell("systemctl poweroff")
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired as err:
            raise self._lost("did not power off", timeout_s) from err

    def complaints(self, suffix: str) -> list[str]:
        """What those of its kernels have complained about whose releases end like this."""
        boots = _BOOT.split(self._log())
        pairs = zip(boots[1::2], boots[2::2], strict=True)
        return [
            complaint
            for release, log in pairs
            if release.endswith(suffix)
            for complaint in console.findings(log)
        ]

    def _tell(self, command: str) -> None:
        assert self._child.stdin
        try:
            self._child.stdin.write(base64.b64encode(command.encode()) + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError as err:
            raise self._lost("is gone", 0) from err

    def _until(self, kind: str, timeout_s: float) -> tuple[records.Record, str]:
        """Read until there is a record of a kind. Returns it and what came before, passed on as it came."""
        assert self._child.stdout
        mark = re.compile(_RECORD.format(kind))
        until = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while True:
                if record := mark.search(self._heard):
                    before, self._heard = self._heard[: record.start()], self._heard[record.end() :]
                    return records.of(record[1], kind), before
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise self._lost("said nothing of its end", timeout_s)
                data = self._child.stdout.read()
                if data == b"":
                    raise self._lost("ended", timeout_s)
                text = self._decoder.decode(data or b"")
                self._heard += text
                self.on_output(text)

    def _lost(self, what: str, timeout_s: float) -> qemu.LostVM:
        self.lost = True
        tail = quoted(self._log().splitlines()[-CONSOLE_TAIL:])
        return qemu.LostVM(f"the guest {what} ({timeout_s:.0f} s); {self.console} ends with:{tail}")

    def _log(self) -> str:
        said = self._folder / "emulator"
        return "".join(
            path.read_text(errors="replace").replace("\r", "")
            for path in (self.console, said)
            if path.exists()
        )
