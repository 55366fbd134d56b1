# SPDX-License-Identifier: GPL-2.0
"""A machine without a guest: the test is its processor. Its clock moves only when the test says so."""

import json
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ferry import proc
from ferry.vm import emulator

WAIT_S = 60.0


class _Lines:
    """A socket that QEMU connects to, one line at a time."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._listener.settimeout(WAIT_S)

    def accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(WAIT_S)
        self._file = connection.makefile("rw")

    def ask(self, line: str) -> str:
        self._file.write(line + "\n")
        self._file.flush()
        return self.next()

    def next(self) -> str:
        answer = self._file.readline()
        assert answer, "QEMU has ended"
        return answer.rstrip("\n")


class Qtest:
    """QEMU under a test's control: memory, I/O ports, clock, and QMP."""

    def __init__(self, folder: Path, *args: str) -> None:
        self._test = _Lines(folder / "qtest")
        self._qmp = _Lines(folder / "qmp")
        command = [
            *emulator.command(),
            *("-M", "pc", "-m", "64M", "-nodefaults", "-display", "none", "-S"),
            *("-accel", "qtest", "-qtest", f"unix:{folder / 'qtest'}"),
            *("-qtest-log", "none", "-qmp", f"unix:{folder / 'qmp'}", *args),
        ]
        self._child = subprocess.Popen(command, text=True, process_group=0, preexec_fn=proc.die_with_parent)

    def __enter__(self) -> Self:
        self._test.accept()
        self._qmp.accept()
        self._qmp.next()  # the greeting
        self.qmp("qmp_capabilities")
        self.qmp("cont")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        proc.kill_group(self._child)

    def qmp(self, command: str, **arguments: Any) -> Any:
        """What a QMP command returns; AssertionError with its description if it fails."""
        answer = json.loads(self._qmp.ask(json.dumps({"execute": command, "arguments": arguments})))
        while "event" in answer:
            answer = json.loads(self._qmp.next())
        assert "error" not in answer, answer["error"]["desc"]
        return answer["return"]

    def _do(self, *words: str | int) -> int | None:
        line = " ".join(hex(word) if isinstance(word, int) else word for word in words)
        answer = self._test.ask(line).split()
        while answer[0] == "IRQ":
            answer = self._test.next().split()
        assert answer[0] == "OK", f"{line}: {' '.join(answer)}"
        return int(answer[1], 0) if len(answer) > 1 else None

    def readl(self, address: int) -> int:
        """32 bits of memory."""
        value = self._do("readl", address)
        assert value is not None
        return value

    def writel(self, address: int, value: int) -> None:
        """32 bits of memory."""
        self._do("writel", address, value)

    def outl(self, port: int, value: int) -> None:
        """32 bits of an I/O port."""
        self._do("outl", port, value)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of memory."""
        answer = self._test.ask(f"read {address:#x} {size:#x}").split()
        assert answer[0] == "OK", answer
        return bytes.fromhex(answer[1].removeprefix("0x"))

    def write(self, address: int, data: bytes) -> None:
        """Bytes of memory."""
        self._do("write", address, len(data), f"0x{data.hex()}")

    def step(self, nanoseconds: int) -> None:
        """Let virtual time pass."""
        self._do("clock_step", f"{nanoseconds}")


class Function:
    """A PCI function of the machine, by its configuration space, its first BAR and its properties."""

    REGISTER_BYTES = 4  # of a register, unless it is said

    def __init__(self, qtest: Qtest, slot: int, bar: int, path: str) -> None:
        self.q, self.slot, self.bar, self.path = qtest, slot, bar, path

    def config(self, offset: int, value: int) -> None:
        """Write 32 bits of the configuration space."""
        self.q.outl(0xCF8, 0x80000000 | self.slot << 11 | offset)
        self.q.outl(0xCFC, value)

    def set(self, name: str, value: object) -> None:
        """Change a property of QEMU's device."""
        self.q.qmp("qom-set", path=self.path, property=name, value=value)

    def reg(self, offset: int, size: int = 0) -> int:
        """So many bytes of registers."""
        return int.from_bytes(self.q.read(self.bar + offset, size or self.REGISTER_BYTES), "little")

    def set_reg(self, offset: int, value: int, size: int = 0) -> None:
        """Write so many bytes of registers."""
        self.q.write(self.bar + offset, value.to_bytes(size or self.REGISTER_BYTES, "little"))
