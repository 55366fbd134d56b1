# SPDX-License-Identifier: GPL-2.0
"""What ./ferry cost makes of what it has counted, and of what it could not count."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from ferry import cli
from ferry.bench import cost, migbench, rows
from ferry.bench.sizes import parse_size
from ferry.kernel import kbuild
from ferry.results import provenance
from ferry.vm import qemu, store
from ferry.vm.machine import Machine

from .test_vm_side import row


def test_cost_is_relative_and_limited() -> None:
    measured = [row("vanilla", 2.0), row("none", 2.0), row("cpu", 1.9)]
    none, cpu = cost.costs(cost.Case("move_pages", ("4K",)), measured, cost.LIMITS)
    assert none["percent"] == 0
    assert none["passed"]
    assert cpu["percent"] == pytest.approx(5.263, abs=0.01)
    assert not cpu["passed"]


@pytest.mark.parametrize(("none_gbps", "passed"), [(2.13, True), (2.11, False)])
def test_who_has_gained_may_not_lose_it(none_gbps: float, passed: bool) -> None:
    """Faster than vanilla is not enough."""
    case = cost.Case("move_pages", ("4K",), "random", gains={"4K": (1.06, 1.0)})
    none, cpu = cost.costs(case, [row("vanilla", 2.0), row("none", none_gbps), row("cpu", 2.0)], cost.LIMITS)
    assert none["passed"] is passed
    assert cpu["passed"]


@pytest.mark.parametrize("call", ["move_pages", "demote"])
def test_what_is_in_order_may_not_lose_more_than_what_is_not(call: str) -> None:
    cases = [case for case in cost.CASES if case.call == call and not case.per_call]
    assert {case.order for case in cases} == {"up", "random"}
    (gains,) = {tuple(case.gains.items()) for case in cases}
    assert gains


@pytest.mark.parametrize(("cpu_gbps", "passed"), [(2.95, True), (2.85, False)])
def test_an_engine_may_not_take_back_what_was_gained(cpu_gbps: float, passed: bool) -> None:
    """Compaction is compared with Ferry's kernel without an engine: faster than vanilla is not enough."""
    (case,) = [each for each in cost.CASES if each.title == "compact"]
    measured = [row("vanilla", 2.0), row("none", 3.0), row("cpu", cpu_gbps)]
    none, cpu = cost.costs(case, measured, cost.LIMITS)
    assert none["limit_percent"] == cost.LIMITS["none"]
    assert cpu["passed"] is passed


def _run(kernel: SimpleNamespace, where: Machine, job: qemu.Job, **_: object) -> SimpleNamespace:
    """promote with two CPUs ends early on vanilla, after its first row; in state 1 demote."""
    fails = kernel.release == "vanilla" and where.cpus == 2
    fails &= f"--call {'demote' if where.state else 'promote'}" in job.script
    output = "migbench: NUMA balancing has looked at [0] pages\n"
    return SimpleNamespace(said="one" if fails else "all", status=int(fails), output=output)


def _parse(said: str, plan: migbench.Plan) -> list[rows.Row]:
    found = [row(engine, 2.0, parse_size(folio) >> 10) for folio in plan.folios for engine in plan.engines]
    return found[:1] if said == "one" else found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each case is counted without a boot, but one."""
    monkeypatch.setattr(qemu, "ensure_emulator", lambda *_: None)
    monkeypatch.setattr(kbuild, "build", lambda name: SimpleNamespace(release=name))
    monkeypatch.setattr(migbench, "build_migbench", lambda: tmp_path)
    monkeypatch.setattr(migbench, "parse", _parse)
    monkeypatch.setattr(qemu, "run", _run)
    monkeypatch.setattr(provenance, "of_vms", lambda *_: {})
    monkeypatch.setattr(qemu, "identity", lambda *_: "")
    monkeypatch.setattr(store, "load", lambda _: None)
    monkeypatch.setattr(store.Store, "keep", lambda *_: None)


@pytest.mark.usefixtures("counted")
def test_a_case_that_fails_loses_no_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["cost", "--json", str(tmp_path / "cost.json")]) == 1
    table, _, failures = capsys.readouterr().out.partition("Not counted")
    assert "compact, 2 CPUs" in table
    assert re.search(
        r"promote, 2 CPUs\W+vanilla\W+promote, .*: migbench: NUMA .* looked at \[0\] pages",
        failures,
    )
    found = json.loads((tmp_path / "cost.json").read_text())
    assert [(each["case"], each["kernel"]) for each in found["failures"]] == [("promote, 2 CPUs", "vanilla")]
    cells = {(each["case"], each["folio_kib"]) for each in found["costs"]}
    every = {(case.title, parse_size(folio) >> 10) for case in cost.CASES for folio in case.folios}
    assert every - cells == {("promote, 2 CPUs", 64)}


@pytest.mark.usefixtures("counted")
def test_a_state_that_fails_loses_no_other(tmp_path: Path) -> None:
    assert cli.main(["cost", "--states", "2", "--json", str(tmp_path / "cost.json")]) == 1
    found = json.loads((tmp_path / "cost.json").read_text())
    other = "demote, random order, 2 CPUs"
    assert [each["case"] for each in found["failures"]] == ["promote, 2 CPUs", f"{other}, state 1"]
    in_one_state = [each for each in found["costs"] if "percent_range" not in each]
    assert {(each["case"], each["folio_kib"]) for each in in_one_state} == {(other, 64)}
