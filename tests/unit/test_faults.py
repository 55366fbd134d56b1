# SPDX-License-Identifier: GPL-2.0
"""./ferry server fault, with a monitor that answers as QEMU's does."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ferry import cli, paths
from ferry.errors import FerryError, UsageError
from ferry.server import faults

OF_OTHERS = ("rearm", "halt-at")  # what the monitor's channels have not


class Monitor:
    """Two channels and the fabrics; the socket takes one client after the other, as QEMU's."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir()
        self.set: list[tuple[str, str, faults.Value]] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            try:
                with client, client.makefile("rw") as stream:
                    self._talk(stream)
            except OSError:  # one that only knocked
                continue

    def _talk(self, stream: Any) -> None:
        print(json.dumps({"QMP": {"version": {}, "capabilities": []}}), file=stream, flush=True)
        for line in stream:
            print(json.dumps({"event": "RTC_CHANGE", "data": {}}), file=stream)
            print(json.dumps(self._answer(**json.loads(line))), file=stream, flush=True)

    def _answer(self, execute: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if execute == "qom-list" and arguments["path"] != faults.TOP:
            return {"return": [{"name": name} for name in faults.NAMES if name not in OF_OTHERS]}
        if execute == "qom-list":
            return {"return": [{"name": n} for n in ("type", "memory", "path0", "dma0", "dma1")]}
        if execute == "qom-get":
            return {"return": arguments["property"] == "stalled" or 7}
        if execute == "qom-set":
            if arguments["value"] == 63:
                return {"error": {"class": "GenericError", "desc": "not this code"}}
            self.set.append((arguments["path"], arguments["property"], arguments["value"]))
        return {"return": {}}

    def close(self) -> None:
        """As when its QEMU ends without a word: the socket stays, and nobody listens."""
        # A thread that waits in accept() would keep it open.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where VMs have their folders."""
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    return tmp_path


@pytest.fixture
def monitor(folder: Path) -> Iterator[Monitor]:
    """One VM that runs."""
    found = Monitor(folder / "vm-one/qmp")
    yield found
    found.close()


def test_all_channels_or_one(monitor: Monitor) -> None:
    assert cli.main(["server", "fault", "error-at=3", "stalled=false", "run=sticky"]) == 0
    assert cli.main(["server", "fault", "bandwidth=1000000", "--channel", "1", "--vm", "one"]) == 0
    both = [
        (f"/machine/peripheral/dma{n}", *pair)
        for n in (0, 1)
        for pair in (("error-at", 3), ("stalled", False), ("run", "sticky"))
    ]
    assert monitor.set == [*both, ("/machine/peripheral/dma1", "bandwidth", 1000000)]


def test_without_arguments_it_lists(monitor: Monitor, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["server", "fault"]) == 0
    said = capsys.readouterr().out
    assert "VM one" in said
    assert all((name in said) == (name not in OF_OTHERS) for name in faults.NAMES)
    assert said.count("true") == 2
    assert monitor.set == []


def test_what_the_engine_has_not_cannot_be_set(monitor: Monitor, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["server", "fault", "halt-at=3"]) == 2
    assert "channel 0 has no halt-at: it has bandwidth, " in capsys.readouterr().err
    assert not monitor.set


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["heat=1"], 2, "'heat=1' is not NAME=VALUE with a name of bandwidth, descriptor-ns, register-ns"),
        (["error-at"], 2, "'error-at' is not NAME=VALUE"),
        (["error-at=-1"], 2, "error-at=-1: must be a number from 0 to 4294967295"),
        (["error-at=4294967296"], 2, "must be a number from 0 to 4294967295"),
        (["error-code=0"], 2, "error-code=0: must be a number from 1 to 4294967295"),
        (["command-error-code=256"], 2, "command-error-code=256: must be a number from 1 to 255"),
        (["head=tail"], 2, "head=tail: must be end or fetch"),
        (["stalled=1"], 2, "stalled=1: must be true or false"),
        (["error-at=1", "--channel", "2"], 2, "no channel 2: there are 0 to 1"),
        (["--vm", "two"], 2, "no VM 'two': those that run are one"),
        (["error-code=63"], 1, "not this code"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(
    monitor: Monitor, capsys: pytest.CaptureFixture[str], words: list[str], code: int, why: str
) -> None:
    assert cli.main(["server", "fault", *words]) == code
    assert why in capsys.readouterr().err
    assert monitor.set == []


def test_codes_are_as_wide_as_the_widest_engine_has_them() -> None:
    """Of I/OAT they are bits of a register; the others refuse theirs by themselves."""
    assert faults.parse(["error-code=512"]) == {"error-code": 512}


def test_no_vm_and_one_that_was_killed(folder: Path) -> None:
    with pytest.raises(FerryError, match="no emulated server runs: start one with"):
        faults.choose(faults.running(), None)
    Monitor(folder / "vm-dead/qmp").close()
    assert (folder / "vm-dead/qmp").exists()
    assert faults.running() == []


def test_several_vms_are_asked_about(folder: Path, monitor: Monitor) -> None:
    other = Monitor(folder / "vm-two/qmp")
    with pytest.raises(UsageError, match="2 emulated servers run: say with --vm which of one, two"):
        faults.choose(faults.running(), None)
    assert faults.choose(faults.running(), "two").path == folder / "vm-two/qmp"
    other.close()


def test_properties_are_those_of_the_device() -> None:
    """One that no device has, or that nobody can set, is a mistake."""
    folder = paths.ROOT / "server/qemu/src/hw/dma"
    shared = (folder / "copy_channel.c").read_text().partition("--- fabric ---")[0]
    text = "".join((folder / f"{engine}.c").read_text() for engine in ("ptdma", "ioat", "dsa")) + shared
    there = set(re.findall(r'property_add\w*\(\w+, "([a-z-]+)"|\{ "([a-z-]+)", &[cs]->', text))
    there = {one or other for one, other in there}
    assert set(faults.NAMES) == there
