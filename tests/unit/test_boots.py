# SPDX-License-Identifier: GPL-2.0
"""A run goes on where it was interrupted, and what determines a record is all in its name."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ferry import paths
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.kernel.kbuild import Kernel
from ferry.vm import boots, initramfs, qemu, store
from ferry.vm.boots import Boot, Said
from ferry.vm.machine import MACHINES, Machine
from ferry.vm.store import Store

ICOUNT, SMP = MACHINES["icount"], MACHINES["smp"]


class Lab:
    """Kernels and programs that are files, and guests that say which job they had."""

    def __init__(self, folder: Path) -> None:
        self.booted: list[str] = []
        self.bad: dict[str, BaseException] = {}
        self.program = folder / "program"
        self.kernel = Kernel("ferry", "6.12", folder / "image", folder, folder, folder)
        module = folder / "lib/modules/6.12/dcbm.ko"
        module.parent.mkdir(parents=True)
        for path in (self.program, self.kernel.image, module):
            path.write_text("as it was")

    def boot(self, kernel: Kernel, machine: Machine, job: qemu.Job, **_: object) -> qemu.Result:
        self.booted.append(job.script)
        if job.script in self.bad:
            raise self.bad[job.script]
        return qemu.Result(int(job.script == "fail"), f"said {job.script}", "no memory", "")

    def run(self, machine: Machine, words: str, kept: Store | None, **more: object) -> list[str]:
        """Boot a machine for each word."""
        every = [Boot(word, "ferry", machine, qemu.Job(word, 9.0)) for word in words.split()]
        parse: Callable[[int, Said], str] = lambda _, said: said.text  # noqa: E731
        return boots.run("test", every, parse, kept, **more)[0]  # type: ignore[arg-type]

    def name(self, machine: Machine = ICOUNT, **job: object) -> str:
        """What the record of a job would be called."""
        words = {"script": "job", "timeout_s": 9.0, "programs": {"bin/program": self.program}} | job
        return qemu.identity(self.kernel, machine, qemu.Job(**words))  # type: ignore[arg-type]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    made = Lab(tmp_path)
    monkeypatch.setattr(paths, "OUT", tmp_path / "out")
    monkeypatch.setattr(qemu, "ensure_emulator", lambda *_: None)
    monkeypatch.setattr(qemu, "run", made.boot)
    monkeypatch.setattr(kbuild, "build", lambda name: made.kernel)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    return made


@pytest.mark.parametrize("machine", [ICOUNT, SMP])
@pytest.mark.parametrize("why", [KeyboardInterrupt(), FerryError("lost")])
def test_it_goes_on_where_it_ended(lab: Lab, machine: Machine, why: BaseException) -> None:
    lab.bad["c"] = why
    with pytest.raises(type(why)):
        lab.run(machine, "a b c", Store())
    assert lab.booted == ["a", "b", "c"]
    lab.bad, lab.booted = {}, []
    assert lab.run(machine, "a b c", Store()) == ["said a", "said b", "said c"]
    assert lab.booted == ["c"]


def test_virtual_time_is_not_measured_again_unless_that_is_asked_for(lab: Lab) -> None:
    for kept, booted in ((Store(), 2), (Store(), 2), (Store(anew=True), 4), (None, 6)):
        assert lab.run(ICOUNT, "a b", kept) == ["said a", "said b"]
        assert len(lab.booted) == booted


def test_wall_time_is_measured_again_once_it_is_whole(lab: Lab) -> None:
    lab.run(SMP, "a b", Store())
    lab.bad["b"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        lab.run(SMP, "a b", Store())
    lab.bad = {}
    lab.run(SMP, "a b", Store())
    assert lab.booted == ["a", "b", "a", "b", "b"]


def test_a_job_on_the_hosts_root_is_kept_and_never_found(lab: Lab) -> None:
    """Nobody can say what it depends on: its record only serves to be looked at."""
    every = [Boot("a", "ferry", ICOUNT, qemu.Job("a", 9.0, host_root=True))]
    for _ in range(2):
        (name,), _ = boots.run("test", every, lambda _, said: said.record, Store())
        record = store.load(name)
        assert name
        assert record
        assert record["said"] == "said a"
    assert lab.booted == ["a", "a"]


def test_a_machine_in_another_state_begins_otherwise(lab: Lab) -> None:
    for state in (0, 2):
        assert lab.run(ICOUNT.in_state(state), "a", Store())
    assert lab.booted == ["a", "perturb 2\na"]
    assert len(list(store.folder().glob("*"))) == 2


def test_a_record_of_another_base_is_found(lab: Lab, tmp_path: Path) -> None:
    lab.run(ICOUNT, "a", Store())
    (path,) = store.folder().glob("*")
    other = tmp_path / "out/7.0/records"
    other.mkdir(parents=True)
    path.rename(other / path.name)
    assert store.load(path.stem)


def test_a_job_that_fails_is_no_measurement(lab: Lab) -> None:
    with pytest.raises(qemu.BadGuest, match="fail ended early: no memory") as caught:
        lab.run(ICOUNT, "fail", Store())
    assert caught.value.said == "said fail"
    assert not list(store.folder().glob("*"))


def test_what_nobody_understands_is_not_kept(lab: Lab) -> None:
    def parse(_: int, said: Said) -> str:
        raise FerryError(f"a byte differs: {said.text}")

    every = [Boot("a", "ferry", ICOUNT, qemu.Job("a", 9.0))]
    with pytest.raises(FerryError, match="a byte differs"):
        boots.run("test", every, parse, Store())
    assert not list(store.folder().glob("*"))


def test_others_go_on_if_that_is_asked_for(lab: Lab) -> None:
    lab.bad["a"] = FerryError("lost")
    assert lab.run(ICOUNT, "a b", None, failed=lambda index, err: f"{index} {err}") == ["0 lost", "said b"]


def test_a_record_says_what_it_is_and_is_one_line(lab: Lab) -> None:
    lab.run(ICOUNT, "a", Store({"commit": "c0ffee"}))
    (path,) = store.folder().glob("*.json")
    assert path.read_text().count("\n") == 1
    record = json.loads(path.read_text())
    assert record == store.load(path.stem)
    assert record == {
        **{"name": path.stem, "title": "a", "kernel": "6.12", "machine": "icount"},
        **{"commit": "c0ffee", "said": "said a"},
    }


def test_all_that_determines_a_boot_is_in_its_name(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine, the job and its programs, the kernel and its modules, the guest's own scripts."""
    was = lab.name()
    assert was == lab.name(name="another-log", timeout_s=10.0)
    plugin = qemu.Plugin(lab.program, "f")
    other = {
        lab.name(replace(ICOUNT, node_mib=1024)),
        lab.name(replace(ICOUNT, program=("/bin/true",))),
        lab.name(script="another"),
        lab.name(kernel_args=("nokaslr",)),
        lab.name(programs={"bin/other": lab.program}),
        lab.name(plugin=plugin),
        lab.name(plugin=replace(plugin, table="g")),
    }
    assert len(other - {was}) == 7
    for path in (lab.program, lab.kernel.image, lab.kernel.modules_dir / "lib/modules/6.12/dcbm.ko"):
        before = lab.name()
        path.write_text("as it is now")
        assert lab.name() != before, path
    before = lab.name()
    monkeypatch.setattr(initramfs, "BUSYBOX", lab.program)
    assert lab.name() != before


def test_wall_time_is_of_a_host_and_a_turn() -> None:
    one, other = Store({"host": "one"}), Store({"host": "other"})
    assert one.name("x", 0, wall_time=False) == other.name("x", 0, wall_time=False)
    assert len({each.name("x", turn, wall_time=True) for each in (one, other) for turn in (0, 1)}) == 4


def test_a_failure_ends_the_others() -> None:
    seen: list[threading.Event] = []

    def measure(number: int, cancelled: threading.Event) -> int:
        seen.append(cancelled)
        if number:
            raise FerryError("one failed")
        assert cancelled.wait(60), "nobody ended this one"
        return number

    with pytest.raises(FerryError, match="one failed"):
        list(boots._beside_each_other(measure, [0, 1], at_once=2))
    assert all(each.is_set() for each in seen)


def test_the_next_measurement_is_not_ended() -> None:
    def fail(number: int, cancelled: threading.Event) -> int:
        raise FerryError("one failed")

    def measure(number: int, cancelled: threading.Event) -> int:
        assert not cancelled.is_set()
        return number

    with pytest.raises(FerryError):
        list(boots._beside_each_other(fail, [0, 1], at_once=1))
    assert list(boots._beside_each_other(measure, [0, 1], at_once=1)) == [0, 1]
