# SPDX-License-Identifier: GPL-2.0
"""The campaign's outcomes: read, summed, and never taken for better than they are."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ferry import cli, paths
from ferry.errors import FerryError, UsageError
from ferry.kernel import kbuild
from ferry.suites import kselftest, torture
from ferry.vm import qemu, store
from ferry.vm.machine import Machine
from ferry.vm.store import Store
from tests.unit import said

FIGURES = (
    "seconds=2 moved=30 folios=10 pages=20 struck=3 bytes=4096"
    " kind=1 refs=2 busy=3 error=4 left=5 quarantined=0"
)
TEXT = f"""TAP version 13
1..4
# nothing {FIGURES}
ok 1 nothing
# stall {FIGURES}
# stall: 3 words are wrong
# stall: a process ended with status 0x9
not ok 2 stall
ok 3 # SKIP memory_unplug: no block
# Totals: pass:1 fail:1 xfail:0 xpass:0 skip:1 error:0
"""


def test_figures_and_mistakes_belong_to_their_class() -> None:
    outcomes = torture.parse(TEXT)
    assert outcomes["nothing"].passed
    assert outcomes["nothing"].figures["bytes"] == 4096
    assert tuple(outcomes["nothing"].figures) == torture.FIGURES
    assert outcomes["stall"].mistakes == ("3 words are wrong", "a process ended with status 0x9")
    assert not outcomes["stall"].passed


def test_what_was_skipped_or_is_missing_proves_nothing() -> None:
    found = torture.parse(TEXT)
    assert found["memory_unplug"].skipped == "no block"
    assert not found["memory_unplug"].passed
    assert not found["(plan)"].passed


def test_engines_are_in_slots_that_virtme_leaves_free() -> None:
    """It adds devices of its own, as many as it has streams that are files."""
    plan = torture.Plan(ptdma=("head=end", "head=fetch"))
    slots = re.findall(r",addr=(0x[0-9a-f]+)", " ".join(plan.machine.devices))
    assert [int(slot, 16) for slot in slots] == [15, 16]


def test_each_modelled_engine_is_taken_whole() -> None:
    plans = {"ptdma depth=1": torture.Plan(ptdma=("", "")), "ioatdma": torture.Plan(ioat=("", ""))}
    for driver, plan in plans.items():
        assert f"modprobe {driver} && modprobe dcbm" in plan.script(Path("torture"), ["nothing"])
        assert "-eq 2 ]" in plan.script(Path("torture"), ["nothing"])
    dsa = torture.Plan(dsa=("error-at=5", ""))
    assert "use_queues 8 && modprobe dcbm" in dsa.script(Path("torture"), ["nothing"])
    devices = [word for word in dsa.machine.devices if word.startswith("intel-dsa")]
    assert devices == ["intel-dsa,id=dma0,addr=0xf,error-at=5", "intel-dsa,id=dma1,addr=0x10"]


def test_one_modelled_engine_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["torture", "--ptdma", "head=end", "--dsa", "error-at=5"]) == 2
    assert "--ptdma and --dsa: choose one engine" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "most"), [("ptdma", 16), ("ioat", 8), ("dsa", 8)])
def test_no_more_of_an_engine_than_have_a_place(name: str, most: int) -> None:
    few: dict[str, Any] = {name: ("",) * most}
    many: dict[str, Any] = {name: ("",) * (most + 1)}
    torture.Plan(**few).check()
    with pytest.raises(UsageError, match=f"{most + 1} times --{name}: choose at most {most}"):
        torture.Plan(**many).check()


def test_a_sum_keeps_each_complaint() -> None:
    good = torture.parse(TEXT)["nothing"]
    lost = torture.Outcome("nothing", complaints=("BUG: here",))
    total = torture.Outcome("nothing") + good + good + lost
    assert total.figures["folios"] == 20
    assert total.complaints == ("BUG: here",)
    assert not total.passed
    assert torture.Outcome("nothing") + lost == lost


def test_half_of_the_time_is_for_ranges() -> None:
    one_by_one, ranges = torture.Plan(minutes=3).machines
    assert ranges.one_by_one() == one_by_one
    assert torture.Plan(minutes=3).seconds == 90


def _fake(monkeypatch: pytest.MonkeyPatch, boot: Callable[..., object], classes: list[str]) -> None:
    """Nothing is built, and guests are what boot says."""
    monkeypatch.setattr(kbuild, "build", lambda name: SimpleNamespace(release=name))
    monkeypatch.setattr(kselftest, "build", lambda kernel: [Path("/bin/torture")])
    monkeypatch.setattr(torture, "classes", lambda program: classes)
    monkeypatch.setattr(qemu, "ensure_emulator", lambda *_: None)
    monkeypatch.setattr(qemu, "run", boot)


@pytest.mark.parametrize("one_boot", [False, True])
def test_each_class_has_its_boots_or_all_have_the_same(
    monkeypatch: pytest.MonkeyPatch, one_boot: bool
) -> None:
    booted = []

    def boot(kernel: object, where: Machine, job: qemu.Job, **_: object) -> object:
        booted.append(job)
        if len(booted) > 2:
            raise qemu.LostVM("it is gone")
        return SimpleNamespace(said=said.output(torture.PROGRAM, TEXT), status=0)

    _fake(monkeypatch, boot, ["nothing", "stall", "fork"])
    told: list[int] = []
    found = {
        outcome.name: outcome
        for outcome in torture.run(
            torture.Plan(one_boot=one_boot), lambda outcomes: told.append(len(outcomes))
        )
    }
    assert told == ([3] if one_boot else [1, 2, 3])
    assert len(booted) == (2 if one_boot else 6)
    assert len({job.name for job in booted}) == len(booted)  # and so have their logs
    assert booted[0].timeout_s == torture.SPARE_S + (3 if one_boot else 1) * (30 + torture.CLASS_S)
    assert found["nothing"].passed
    assert found["nothing"].figures["folios"] == 20
    assert not found["stall"].passed
    assert found["fork"].complaints == (() if one_boot else ("it is gone",) * 2)
    assert found["fork"].mistakes[:1] == ("it ended without a result; it said:",)


def test_a_class_has_the_records_of_its_boots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def boot(kernel: object, where: Machine, job: qemu.Job, **_: object) -> object:
        return SimpleNamespace(said=said.output(torture.PROGRAM, TEXT), status=0)

    _fake(monkeypatch, boot, ["nothing", "stall"])
    monkeypatch.setattr(paths, "OUT", tmp_path)
    nothing, stall = torture.run(torture.Plan(one_boot=True), store=Store())
    assert len(set(nothing.records)) == 2
    assert nothing.records == stall.records
    assert all(store.load(name) for name in nothing.records)


def test_what_a_class_has_done_is_kept_though_the_kernel_complained(monkeypatch: pytest.MonkeyPatch) -> None:
    def boot(kernel: object, where: Machine, job: qemu.Job, **_: object) -> object:
        raise qemu.DirtyConsole("BUG: here", said.output(torture.PROGRAM, TEXT))

    _fake(monkeypatch, boot, ["nothing", "fork"])
    nothing, fork = torture.run(torture.Plan(one_boot=True))
    assert nothing.figures["folios"] == 20
    assert nothing.complaints == ("BUG: here",) * 2
    assert not nothing.passed
    assert fork.mistakes
    assert not fork.passed


@pytest.mark.parametrize("minutes", ["0", "-1", "1441"])
def test_minutes_out_of_bounds(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["torture", "--minutes", minutes]) == 2
    assert "choose more than 0" in capsys.readouterr().err


def test_what_is_no_fault_of_a_class_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def boot(*_: object, **__: object) -> object:
        raise FerryError("no ptdma")

    _fake(monkeypatch, boot, ["nothing", "fork"])
    with pytest.raises(FerryError, match="no ptdma"):
        torture.run(torture.Plan())


def test_an_unknown_class() -> None:
    with pytest.raises(UsageError, match=r"no class .poisson.: choose from .*, poison,"):
        torture.Plan(classes=("poisson",)).check()


def test_an_unknown_kernel() -> None:
    with pytest.raises(UsageError, match="no kernel flavour 'fast'"):
        torture.Plan(flavour="fast").check()


def test_an_engine_of_ones_own_is_loaded_from_its_file(tmp_path: Path) -> None:
    module = tmp_path / "mine.ko"
    module.touch()
    plan = torture.Plan(engine="my_migrator", module=str(module))
    plan.check()
    lines = plan.script(Path("/bin/torture"), ["fork"]).splitlines()
    assert lines[1].startswith(f"insmod {module} || fail ")
    assert "-s 30 -e my_migrator fork" in lines[-1]
    assert "-e" not in torture.Plan().script(Path("/bin/torture"), ["fork"]).splitlines()[-1].split()
    assert "modprobe -q mtcopy" in torture.Plan(engine="mtcopy").script(Path("/bin/torture"), ["fork"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--module", "/nosuch.ko"], "say with --engine what its migrator is called"),
        (["--engine", "mine", "--module", "/nosuch.ko"], "no module /nosuch.ko"),
    ],
)
def test_a_module_that_is_not_there_or_has_no_name(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["torture", *words]) == 2
    assert why in capsys.readouterr().err
