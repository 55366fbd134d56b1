# SPDX-License-Identifier: GPL-2.0
"""ferryctl watch: what moves, and whether the engine still takes copies, with the time of each line."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ferryctl
from ferryctl_status import status
from ferryctl_watch import CLEAR, rates, show_screen
from tests.unit.fake_ferry import CHANNELS, Machine, Terminal, machine_in

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with Ferry, its CPU active."""
    system = machine_in(tmp_path)
    system.put("active", "cpu")
    return system


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """What happens in the interval."""

    def set_it(happen: Callable[[], None]) -> None:
        monkeypatch.setattr("ferryctl_watch.time.sleep", lambda seconds: happen())

    return set_it


def _fails(machine: Machine) -> Callable[[], None]:
    def happen() -> None:
        machine.says("in_service", "0")
        machine.says("migrators/cpu/overdue", "3")
        machine.says("stats/quarantined_bytes", "2097152")
        machine.says("stats/fallback_error", "512")

    return happen


def test_an_engine_that_fails_is_seen(
    machine: Machine, meanwhile: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """It would look idle: 0 calls, 0 folios."""
    meanwhile(_fails(machine))
    assert ferryctl.main(["watch", "--count", "1"], machine) == 0
    said = capsys.readouterr().out.splitlines()
    assert re.match(rf"{TIME} engine cpu OUT OF SERVICE: 0 calls, 0 folios", said[0])
    assert "  fallback_error 512" in said
    assert "  3 copies have missed the deadline and have not ended" in said
    assert "  2.1 MB given up since boot, until the stuck engine ends its copies; see dmesg" in said


@pytest.mark.parametrize("command", [["watch", "--count", "1"], ["status"]])
def test_memory_that_an_engine_has_let_go_is_told_no_more(
    machine: Machine,
    meanwhile: Callable[[Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    """The counter of it only grows."""
    _fails(machine)()
    machine.says("in_service", "1")
    machine.says("migrators/cpu/overdue", "0")
    meanwhile(lambda: None)
    assert ferryctl.main(command, machine) == 0
    assert "given up since boot" not in capsys.readouterr().out


def test_metrics_count_the_same_overdue_copies(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    _fails(machine)()
    assert ferryctl.main(["metrics"], machine) == 0
    assert 'ferry_engine_overdue_copies{engine="cpu"} 3\n' in capsys.readouterr().out


def test_programs_see_the_same(
    machine: Machine, meanwhile: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    meanwhile(_fails(machine))
    assert ferryctl.main(["watch", "--count", "2", "--json"], machine) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 2
    for found in lines:
        assert re.fullmatch(TIME, found["time"])
        assert (found["in_service"], found["overdue"], found["quarantined_bytes"]) == (False, 3, 2097152)


def test_on_a_terminal_it_is_a_screen_that_is_drawn_again(
    machine: Machine, meanwhile: Callable[[Callable[[], None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(_fails(machine))
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    assert ferryctl.main(["watch", "--count", "2"], machine) == 0
    drawn = screen.getvalue().split(CLEAR)
    assert len(drawn) == 3
    assert not drawn[0]
    assert re.match(rf"ferryctl watch   {TIME}   kernel ", drawn[1])
    assert "engine    cpu (OUT OF SERVICE)" in drawn[1]
    assert "stuck     3 copies have missed the deadline" in drawn[2]


def test_a_screen_is_no_longer_than_the_terminal(
    machine: Machine, meanwhile: Callable[[Callable[[], None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(_fails(machine))
    monkeypatch.setenv("LINES", "6")
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    assert ferryctl.main(["watch", "--count", "1"], machine) == 0
    assert screen.getvalue().count("\n") == 5


def test_the_screen_has_channels_or_says_why_not(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.says("available", "cpu dcbm")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    before = status(machine)
    assert "channels  those of dcbm: needs root" in show_screen(rates(before, before, 1.0), before)
    path = machine.root / "sys/kernel/debug/dcbm/channels"
    path.parent.mkdir(parents=True)
    path.write_text(f"{CHANNELS}dma0chan0 0000:01:00.1 0 9 9 0 0 live\n")
    found = status(machine)
    assert "channels  1 DMA channels of 1 serve dcbm" in show_screen(rates(before, found, 1.0), found)


def test_ctrl_c_ends_it(
    machine: Machine, meanwhile: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    meanwhile(interrupt)
    assert ferryctl.main(["watch"], machine) == 0
