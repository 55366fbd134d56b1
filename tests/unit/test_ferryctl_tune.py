# SPDX-License-Identifier: GPL-2.0
"""ferryctl tune, on a tree that looks like sysfs and with a migbench that makes its figures up."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ferryctl
from ferryctl_machine import System
from tests.unit.conftest import FakeProgram
from tests.unit.fake_ferry import ALL, Machine, Terminal, machine_in

MEMINFO = "Node {0} MemTotal:  1048576 kB\nNode {0} MemFree:  524288 kB\n"
# SPEED is GB/s by engine, to which each call adds a little noise; P99 is us by engine.
MIGBENCH = """
import json, os, pathlib, sys, time
root = pathlib.Path({root!r})
folder = root / "sys/kernel/mm/migrate_offload"
LOGGED = ("reasons", "min_bytes", "chunk_pages", "stripe_bytes", "window_pages", "target_us")
engine = (folder / "active").read_text().strip()
args = dict(zip(sys.argv[1:], sys.argv[2:]))
with open(root / "calls", "a") as log:
    settings = {{n: (folder / n).read_text().strip() for n in LOGGED}}
    said = {{"engine": engine, "folio": args["--folio"], **settings}}
    log.write(json.dumps(said) + "\\n")
calls = len((root / "calls").read_text().splitlines())
factor, copied = 1.0, 3 * (64 << 20)
{more}
speed, p99 = {speed!r}, {p99!r}
count = folder / "migrators" / engine / "bytes"
if count.exists():
    count.chmod(0o644)
    count.write_text(str(int(count.read_text()) + copied) + "\\n")
print(json.dumps({{
    "gbps": (speed.get(engine, 1.0) + 0.01 * (calls % 3)) * factor, "cpu_ns_per_page": 1500.0,
    "runs": [{{"ns": 1, "cpu_ns": 1, "moved_pages": 16384 - {left}}}],
    "inaccessible_us": {{"p50": 100.0, "p99": p99.get(engine, 200.0)}},
}}))
"""


class Bench:
    """What the made-up migbench says, and what it was asked."""

    def __init__(self, root: Path, program: FakeProgram) -> None:
        self.root, self._program = root, program
        self.says()

    def says(
        self,
        speed: dict[str, float] | None = None,
        p99: dict[str, float] | None = None,
        more: str = "",
        left: int = 0,
    ) -> None:
        """From now on."""
        text = MIGBENCH.format(root=str(self.root), speed=speed or {}, p99=p99 or {}, more=more, left=left)
        (self.root / "migbench.py").write_text(text)
        self._program("migbench", f'exec {sys.executable} {self.root}/migbench.py "$@"')

    @property
    def calls(self) -> list[dict[str, str]]:
        """Each with what was set at that moment."""
        path = self.root / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with two nodes."""
    system = machine_in(tmp_path / "machine")
    folder = system.root / "sys/devices/system/node"
    for node in (0, 1):
        (folder / f"node{node}").mkdir(parents=True)
        (folder / f"node{node}/meminfo").write_text(MEMINFO.format(node))
    (folder / "has_memory").write_text("0-1\n")
    return system


@pytest.fixture
def bench(machine: Machine, fake_program: FakeProgram) -> Bench:
    """As fast with any engine."""
    return Bench(machine.root, fake_program)


def _tune(machine: System, *words: str) -> int:
    return ferryctl.main(["tune", "--rounds", "3", *words], machine)


def _json(machine: System, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert _tune(machine, "--yes", "--json", *words) == 0
    return json.loads(capsys.readouterr().out)


def _state(machine: Machine) -> dict[str, str | None]:
    return {**machine.settings(), "active": machine.get("active")}


PARTS = "stripe_bytes=262144 window_pages=2048"
FASTER = "if settings['stripe_bytes'] == '262144': factor = 1.5"


def test_settings_that_are_better_are_named_and_written(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.says(speed={"mtcopy": 2.0}, more=FASTER)
    found = _json(machine, capsys, "--engine", "mtcopy", "--write")
    conf = {"engine": "mtcopy", "stripe_bytes": "262144", "window_pages": "2048"}
    assert found["recommended"]["conf"] == conf
    assert f"{PARTS}: 1.5" in found["recommended"]["why"]
    tried = {each["engine"] for each in found["measured_settings"]}
    assert tried == {"as set", "target_us=1000", "engine_always=1", PARTS}
    text = (machine.root / "etc/ferry.conf").read_text()
    assert text == "".join(f"{name} = {value}\n" for name, value in conf.items())
    # Each against the settings that there are, alone
    assert {call["target_us"] for call in bench.calls if call["stripe_bytes"] != "0"} == {"0"}
    assert machine.get("stripe_bytes") == "0"


def test_settings_that_keep_folios_for_longer_are_a_hint_alone(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.says(speed={"mtcopy": 2.0, "long": 2.0}, p99={"long": 900.0}, more=f"{FASTER}; engine = 'long'")
    found = _json(machine, capsys, "--engine", "mtcopy")
    assert found["recommended"]["conf"] == {"engine": "mtcopy"}
    assert f"{PARTS} would be 1.5" in found["warnings"][-1]
    assert "is inaccessible for 900 us or more, and now for 200" in found["warnings"][-1]


def test_settings_may_be_left_as_they_are(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.says(speed={"mtcopy": 2.0}, more=FASTER)
    found = _json(machine, capsys, "--engine", "mtcopy", "--engines-only")
    assert (found["measured_settings"], found["recommended"]["conf"]) == ([], {"engine": "mtcopy"})
    assert {call["stripe_bytes"] for call in bench.calls} == {"0"}


def test_the_engine_that_is_faster_in_every_round_is_recommended(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.says(speed={"cpu": 1.2, "mtcopy": 2.0})
    found = _json(machine, capsys)
    assert found["recommended"]["engine"] == "mtcopy"
    assert "1.9" in found["recommended"]["why"]
    assert "was faster in each of 3 rounds" in found["recommended"]["why"]
    assert "cpu" not in found["recommended"]["why"]
    assert found["not_measured"]["dcbm"].startswith("active=dcbm: it finds nothing to copy with")
    cell = next(each for each in found["measured"] if (each["engine"], each["folio"]) == ("mtcopy", "2M"))
    assert 1.9 < cell["ratio"]["least"] <= cell["ratio"]["median"] <= cell["ratio"]["most"] < 2.1
    assert len(found["measured"]) == 3 * 3


@pytest.mark.parametrize(
    ("speed", "why"),
    [
        ({"cpu": 1.0}, "The rounds differ by more than any engine from Linux without one: "),
        ({"cpu": 1.03}, "No engine gains as much as 1.05: "),
        ({"cpu": 0.7, "mtcopy": 0.6}, "Every engine is slower than Linux without one: cpu"),
    ],
)
def test_no_engine_is_recommended_where_none_is_worth_it(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str], speed: dict[str, float], why: str
) -> None:
    bench.says(speed=speed)
    found = _json(machine, capsys, "--engine", ",".join(speed))
    assert found["recommended"]["engine"] == "none"
    assert found["recommended"]["why"].startswith(why)


def test_one_bad_round_is_enough_to_doubt(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.says(speed={"cpu": 1.5})
    assert _json(machine, capsys, "--engine", "cpu", "--folio", "4K")["recommended"]["engine"] == "cpu"
    (bench.root / "calls").unlink()
    bench.says(speed={"cpu": 1.5}, more="if calls == 6: engine = 'none'")
    assert _json(machine, capsys, "--engine", "cpu", "--folio", "4K")["recommended"]["engine"] == "none"


def test_a_machine_that_slows_down_slows_down_all(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each round is compared within itself."""
    bench.says(speed={"cpu": 1.2}, more="factor = 4.0 ** -((calls - 1) // 2)")
    found = _json(machine, capsys, "--engine", "cpu", "--folio", "4K")
    assert found["recommended"]["engine"] == "cpu"
    cell = found["measured"][1]
    assert cell["gbps"]["most"] > 10 * cell["gbps"]["least"]
    assert cell["ratio"]["most"] < 1.1 * cell["ratio"]["least"]


def test_an_engine_that_is_as_good_is_named(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.says(speed={"cpu": 2.0, "mtcopy": 2.0})
    assert "the rounds differ by more than these engines do" in _json(machine, capsys)["recommended"]["why"]


def test_a_target_that_is_exceeded_and_a_slower_size_are_warned_of(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "if engine == 'cpu' and args['--folio'] == '4K': engine = 'slow'"
    bench.says(speed={"cpu": 4.0, "slow": 0.5}, p99={"cpu": 900.0}, more=more)
    assert _tune(machine, "--yes", "--engine", "cpu") == 0
    said = capsys.readouterr().out
    assert "warning: cpu is slower at 4K: 0.5" in said
    assert "warning: target_us is exceeded at 2M: " in said
    assert "for 900 us or more, and the target is 500" in said
    assert "exceeded at 4K" not in said
    assert "900!" in said


def test_an_engine_that_leaves_the_copies_to_the_cpu_is_warned_of(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.says(speed={"cpu": 2.0}, more="if args['--folio'] == '4K': copied = 64 << 20")
    warnings = _json(machine, capsys, "--engine", "cpu")["warnings"]
    assert [each.partition(",")[0] for each in warnings] == ["cpu copied 33 % of the bytes at 4K"]


def test_engines_take_turns_and_nobody_is_always_first(machine: Machine, bench: Bench) -> None:
    assert _tune(machine, "--yes", "--engine", "cpu", "--folio", "4K,2M") == 0
    order = [(call["folio"], call["engine"]) for call in bench.calls]
    one, two = ("none", "cpu"), ("cpu", "none")
    assert order == [(folio, e) for turn in (one, two, one) for folio in ("4K", "2M") for e in turn]


def test_it_measures_what_is_set_but_for_what_would_keep_the_engine_away(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    for setting in ("reasons=damon", "min_bytes=999", "chunk_pages=8"):
        assert ferryctl.main(["set", setting], machine) == 0
    capsys.readouterr()
    found = _json(machine, capsys)
    for call in bench.calls:
        assert (call["reasons"], call["min_bytes"], call["chunk_pages"]) == (ALL, "0", "8")
    assert (machine.get("reasons"), machine.get("min_bytes")) == ("damon", "999")
    assert found["settings"]["chunk_pages"] == "8"


def test_the_machine_is_afterwards_as_it_was(machine: Machine, bench: Bench) -> None:
    assert ferryctl.main(["use", "cpu"], machine) == 0
    before = _state(machine)
    assert _tune(machine, "--yes") == 0
    assert _state(machine) == before
    assert ["mtcopy"] in machine.loaded
    assert machine.loaded[-2:] == [["-r", "mtcopy"], ["-r", "dcbm"]]


@pytest.fixture
def heard(number: int) -> Iterator[None]:
    """A shell has SIGINT ignored by what it runs in the background, and tune leaves that so."""
    before = signal.signal(number, signal.SIG_DFL)
    yield
    signal.signal(number, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")])
def test_a_signal_ends_it_and_all_is_put_back(
    machine: Machine, bench: Bench, number: int, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signal comes while migbench runs, which is told to end, and puts back what is its own."""
    assert ferryctl.main(["set", "reasons=damon"], machine) == 0
    before = _state(machine)
    bench.says(
        more=f"import signal\n"
        f"def end(number, frame):\n    (root / 'ended').touch(); sys.exit(9)\n"
        f"signal.signal(signal.SIGTERM, end)\n"
        f"if calls == 5: os.kill(os.getppid(), {int(number)}); time.sleep(30)"
    )
    began = time.monotonic()
    assert _tune(machine, "--yes", "--write") == 1
    assert time.monotonic() - began < 20
    assert f"ended by {name}; engine and settings are as they were" in capsys.readouterr().err
    assert (machine.root / "ended").exists()
    assert len(bench.calls) == 5
    assert _state(machine) == before
    assert machine.loaded[-2:] == [["-r", "mtcopy"], ["-r", "dcbm"]]
    assert not (machine.root / "etc/ferry.conf").exists()
    assert signal.getsignal(number) != signal.SIG_IGN


def test_a_byte_that_differs_ends_it_and_all_is_put_back(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _state(machine)
    bench.says(more="if calls == 4: sys.exit('migbench: FAILED: 8 bytes differ') or sys.exit(1)")
    assert _tune(machine, "--yes") == 1
    assert "FAILED: 8 bytes differ" in capsys.readouterr().err
    assert _state(machine) == before


def test_a_folio_size_that_is_not_to_be_had_is_left_out(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "if args['--folio'] == '2M': print('migbench: fragmented', file=sys.stderr); sys.exit(4)"
    bench.says(more=more)
    found = _json(machine, capsys)
    assert found["not_measured"]["2M"] == "2M: fragmented"
    assert {each["folio"] for each in found["measured"]} == {"4K", "64K"}
    assert sum(call["folio"] == "2M" for call in bench.calls) == 1


def test_an_engine_out_of_service_is_not_recommended(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "(folder / 'in_service').write_text('0' if engine == 'mtcopy' and calls > 6 else '1')"
    bench.says(speed={"mtcopy": 9.0}, more=more)
    found = _json(machine, capsys)
    assert "out of service" in found["not_measured"]["mtcopy"]
    assert found["recommended"]["engine"] == "none"
    assert "mtcopy" not in {each["engine"] for each in found["measured"]}


def test_somebody_elses_choice_is_not_measured_as_ours(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.says(more="if calls == 3: (folder / 'active').write_text('cpu')")
    assert _tune(machine, "--yes", "--engine", "cpu", "--folio", "4K") == 0
    (bench.root / "calls").unlink()
    bench.says(more="if calls == 2: (folder / 'active').write_text('other')")
    assert _tune(machine, "--yes", "--engine", "cpu", "--folio", "4K") == 1
    assert "somebody else chose other meanwhile" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["none", "mtcopy"])
def test_what_is_recommended_is_written_as_use_would(machine: Machine, bench: Bench, engine: str) -> None:
    (machine.root / "etc/ferry.conf").write_text("# why\nengine = cpu # old\ndcbm.channels = 8\n")
    bench.says(speed={engine: 2.0} if engine != "none" else {})
    assert ferryctl.main(["set", "chunk_pages=8"], machine) == 0
    assert _tune(machine, "--yes", "--write") == 0
    text = (machine.root / "etc/ferry.conf").read_text()
    assert text == f"# why\nengine = {engine}\ndcbm.channels = 8\nchunk_pages = 8\n"
    assert machine.get("active") == "none"
    assert ferryctl.main(["apply"], machine) == 0
    assert machine.get("active") == engine


def test_nothing_is_written_unless_told_to(machine: Machine, bench: Bench) -> None:
    assert _tune(machine, "--yes") == 0
    assert not (machine.root / "etc/ferry.conf").exists()


@pytest.mark.parametrize(("answer", "goes_on"), [("y\n", True), ("yes\n", True), ("\n", False), ("", False)])
def test_it_asks_before_it_begins(
    machine: Machine,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    goes_on: bool,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert _tune(machine) == (0 if goes_on else 1)
    said = capsys.readouterr().err
    assert "Moves 64M of its own memory from node 0 to node 1" in said
    assert "with each of: none, cpu, mtcopy, dcbm" in said
    assert "put back however it ends" in said
    assert bool(bench.calls) == goes_on
    assert goes_on or machine.writes == []


def _one_node(machine: Machine) -> None:
    (machine.root / "sys/devices/system/node/has_memory").write_text("0\n")


def _little_memory(machine: Machine) -> None:
    path = machine.root / "sys/devices/system/node/node1/meminfo"
    path.write_text(path.read_text().replace("524288", "102400"))


def _container(machine: Machine) -> None:
    (machine.root / ".dockerenv").touch()


@pytest.mark.parametrize(
    ("broken", "words", "why"),
    [
        (None, [], "there is no terminal to ask for consent: say --yes"),
        (_one_node, ["--yes"], "no second node: all memory of this machine is on node 0"),
        (_little_memory, ["--yes"], "node 1 has 100 MiB free, and 128 MiB are needed to move 64M"),
        (_container, ["--yes"], "this is a container, whose kernel is its host's: run ferryctl on the host"),
        (None, ["--yes", "--engine", "warp"], "no engine 'warp'; there are: cpu, mtcopy, dcbm"),
        (None, ["--yes", "--from", "7"], "--from 7: nodes with memory are 0, 1"),
        (None, ["--yes", "--from", "1", "--to", "1"], "--to 1: must differ from --from"),
        (None, ["--yes", "--bytes", "1X"], "'1X' is no size: write a number and K, M or G"),
        (None, ["--yes", "--bytes", "1M"], "1M cannot be moved in folios of 2M"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_touched(
    machine: Machine,
    bench: Bench,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    broken: Any,
    words: list[str],
    why: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    if broken:
        broken(machine)
    assert _tune(machine, *words) == 1
    assert why in capsys.readouterr().err
    assert (machine.writes, machine.loaded, bench.calls) == ([], [], [])


def test_without_root_or_migbench_it_says_so(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert _tune(machine, "--yes") == 1
    assert "migbench is not in PATH; the package ferry-tools has it" in capsys.readouterr().err
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert _tune(machine, "--yes") == 1
    assert "needs root: use sudo" in capsys.readouterr().err


def test_without_ferry_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _tune(System(tmp_path), "--yes") == 3
    assert "is without Ferry: boot one that has it" in capsys.readouterr().err


def test_two_do_not_measure_each_other(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = f"import fcntl, os, time; f = os.open({str(machine.offload)!r}, os.O_RDONLY)"
    other = [sys.executable, "-c", f"{lock}; fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); input()"]
    with subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline()
        assert _tune(machine, "--yes") == 1
        child.kill()
    assert "another 'ferryctl tune' is measuring" in capsys.readouterr().err
    assert machine.writes == []


def test_pages_that_stay_behind_are_said(
    machine: Machine, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.says(left=2)
    assert _tune(machine, "--yes", "--engine", "cpu", "--folio", "4K") == 0
    assert "12 pages were not moved" in capsys.readouterr().out
