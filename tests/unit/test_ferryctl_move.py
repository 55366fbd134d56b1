# SPDX-License-Identifier: GPL-2.0
"""ferryctl move, on processes that are made up, and the pages of one that is real."""

from __future__ import annotations

import errno
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import ferryctl
import ferryctl_move as moving
import ferryctl_pages as pages
from ferryctl_machine import Problem
from ferryctl_pages import HUGE, PAGE, UNTRIED, Gone, Region
from tests.unit.fake_ferry import Machine, machine_in

BASE = 0x7F0000000000


class Fake:
    """A process whose pages are on nodes, and whose kernel takes a time for each page."""

    def __init__(self, regions: Sequence[Region], clock: Clock, us_per_page: float = 10.0) -> None:
        self.pid, self.clock, self.us = 4711, clock, us_per_page
        self.all = list(regions)
        self.node = {address: 0 for region in regions for address in region.addresses()}
        self.stuck: dict[int, int] = {}  # an errno that the call says of a page
        self.wedged: set[int] = set()  # pages at which a call ends
        self.calls: list[int] = []
        self.gone_after = 1 << 30

    def regions(self) -> Iterator[Region]:
        yield from self.all

    def nodes(self, addresses: Sequence[int]) -> list[int]:
        return [self.node.get(address, -errno.ENOENT) for address in addresses]

    def move(self, addresses: Sequence[int], node: int, shared: bool) -> list[int]:
        if len(self.calls) >= self.gone_after:
            raise Gone
        self.calls.append(len(addresses))
        self.clock.now += self.us * 1e-6 * len(addresses)
        if self.wedged & set(addresses):
            first = next(i for i, address in enumerate(addresses) if address in self.wedged)
            for address in addresses[:first]:
                self.node[address] = node  # Linux moved them, and does not say so
            return [UNTRIED] * len(addresses)
        out = []
        for address in addresses:
            if address not in self.stuck:
                self.node[address] = node
            out.append(-self.stuck[address] if address in self.stuck else node)
        return out


class Clock:
    """Time that passes only where a fake says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Stop(threading.Event):
    """Waiting takes the time of a clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.waited = clock, 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.clock.now += timeout or 0.0
        self.waited += timeout or 0.0
        return self.is_set()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _small(count: int, start: int = BASE) -> Region:
    return Region(start, start + count * PAGE, False)


def _moved(fake: Fake, order: moving.Order, clock: Clock) -> tuple[moving.Done, Stop]:
    stop = Stop(clock)
    mover = moving.Mover(order, stop, clock)
    mover.process(fake, lambda done: None)
    return mover.done, stop


def test_all_is_moved_in_pieces_that_follow_the_time_of_the_last(clock: Clock) -> None:
    """10 us a page: 20 ms are 2,000 pages; it begins with 64 and doubles at most."""
    fake = Fake([_small(50000)], clock)
    done, _ = _moved(fake, moving.Order(1, max_ms=20.0), clock)
    assert fake.calls[:6] == [64, 128, 256, 512, 1024, 1800]
    assert max(fake.calls) == 1800
    assert set(fake.node.values()) == {1}
    assert (done.moved_bytes, done.pieces) == (50000 * PAGE, len(fake.calls))
    assert (done.longest_ms <= 20.0, done.late) == (True, 0)
    assert not done.not_moved


def test_a_kernel_that_slows_down_gets_smaller_pieces(clock: Clock) -> None:
    fake = Fake([_small(20000)], clock)
    stop = Stop(clock)
    mover = moving.Mover(moving.Order(1, max_ms=5.0), stop, clock)

    def slower(done: moving.Done) -> None:
        fake.us = 100.0 if done.pieces > 5 else 10.0

    mover.process(fake, slower)
    assert fake.calls[5] > 400
    assert set(fake.calls[8:]) == {45} | {fake.calls[-1]}


def test_a_fast_call_is_not_taken_for_all(clock: Clock) -> None:
    """On a busy machine every fourth call waits for a CPU: only the first ones may be longer than 20 ms."""

    class Busy(Fake):
        def move(self, addresses: Sequence[int], node: int, shared: bool) -> list[int]:
            self.us = 40.0 if len(self.calls) % 4 == 3 else 10.0
            return super().move(addresses, node, shared)

    done, _ = _moved(Busy([_small(50000)], clock), moving.Order(1, max_ms=20.0), clock)
    assert done.pieces > 100
    assert done.late <= 1
    assert f"{done.late} calls longer than 20 ms" in moving.show(done, moving.Order(1, max_ms=20.0))


def test_a_huge_page_has_one_address(clock: Clock) -> None:
    fake = Fake([Region(BASE, BASE + 8 * HUGE, True)], clock, us_per_page=500.0)
    done, _ = _moved(fake, moving.Order(1), clock)
    assert sum(fake.calls) == 8
    assert done.moved_bytes == 8 * HUGE


def test_only_what_is_on_the_node_is_moved(clock: Clock) -> None:
    fake = Fake([_small(400)], clock)
    for i in range(100):
        fake.node[BASE + i * PAGE] = 2
        fake.node[BASE + (100 + i) * PAGE] = 1
    done, _ = _moved(fake, moving.Order(1, node_from=0), clock)
    assert (done.moved_bytes, done.there_bytes) == (200 * PAGE, 100 * PAGE)
    assert list(fake.node.values()).count(2) == 100


def test_what_stays_is_counted_by_its_cause(clock: Clock) -> None:
    fake = Fake([_small(300)], clock)
    for i in range(7):
        fake.stuck[BASE + i * PAGE] = errno.EACCES
    fake.stuck[BASE + 299 * PAGE] = errno.EBUSY
    order = moving.Order(1)
    done, _ = _moved(fake, order, clock)
    assert done.not_moved == {"EACCES": 7, "EBUSY": 1}
    assert done.moved_bytes == 292 * PAGE
    said = moving.show(done, order)
    assert "not moved 7 pages, EACCES: other processes have it, too" in said
    assert "--shared moves such pages as well" in said


def test_a_page_that_ends_the_call_keeps_no_other_from_its_node(clock: Clock) -> None:
    """Linux ends move_pages at the first batch of which a page stays, and says nothing of the others."""
    fake = Fake([_small(256)], clock)
    fake.wedged = {BASE + i * PAGE for i in (0, 100, 101, 255)}
    done, _ = _moved(fake, moving.Order(1), clock)
    assert done.not_moved == {"EBUSY": 4}
    assert done.moved_bytes == 252 * PAGE
    assert len(fake.calls) < 80


def test_a_rate_is_kept(clock: Clock) -> None:
    fake = Fake([_small(25600)], clock, us_per_page=1.0)
    done, stop = _moved(fake, moving.Order(1, rate=100 << 20), clock)
    assert done.moved_bytes == 100 << 20
    assert 0.99 < done.seconds < 1.01
    assert max(fake.calls) * PAGE <= 10 << 20
    assert stop.waited > 0.9


def test_a_process_that_ends_meanwhile_is_no_error(clock: Clock) -> None:
    fake = Fake([_small(10000)], clock)
    fake.gone_after = 3
    done, _ = _moved(fake, moving.Order(1), clock)
    assert (done.gone, done.failed) == (1, {})
    assert done.moved_bytes == (64 + 128 + 256) * PAGE


def test_one_that_nobody_may_move_keeps_no_other_from_it(clock: Clock) -> None:
    class Refused(Fake):
        def nodes(self, addresses: Sequence[int]) -> list[int]:
            raise Problem("it needs root")

    first, second = Refused([_small(9)], clock), Fake([_small(9)], clock)
    mover = moving.Mover(moving.Order(1), Stop(clock), clock)
    for each in (first, second):
        mover.process(each, lambda done: None)
    assert mover.done.failed == {4711: "it needs root"}
    assert mover.done.moved_bytes == 9 * PAGE


# --- whom ---


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with two nodes and a cgroup v2 with another in it."""
    system = machine_in(tmp_path)
    nodes = system.root / "sys/devices/system/node/has_memory"
    nodes.parent.mkdir(parents=True)
    nodes.write_text("0-1\n")
    for name, pids in (("app.slice", "11\n12\n"), ("app.slice/db.service", "30\n"), ("app.slice/x", "")):
        folder = system.root / "sys/fs/cgroup" / name
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(pids)
    return system


def test_a_cgroup_is_all_below_it(machine: Machine) -> None:
    assert moving.cgroup_pids(machine, "app.slice") == [11, 12, 30]
    assert moving.cgroup_pids(machine, f"{machine.root}/sys/fs/cgroup/app.slice/db.service") == [30]
    with pytest.raises(Problem, match=r"is no cgroup v2: name one below /sys/fs/cgroup"):
        moving.cgroup_pids(machine, "nosuch")


def test_processes_that_come_meanwhile_are_moved_too(
    machine: Machine, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moved: list[int] = []

    def find(pid: int) -> Fake:
        moved.append(pid)
        if pid == 30:
            (machine.root / "sys/fs/cgroup/app.slice/x/cgroup.procs").write_text("40\n")
        return Fake([_small(10)], clock)

    monkeypatch.setattr(pages, "Process", find)
    assert ferryctl.main(["move", "--cgroup", "app.slice", "--to", "1", "--json"], machine) == 0
    assert moved == [11, 12, 30, 40]
    found = json.loads(capsys.readouterr().out)
    assert (found["processes"], found["moved_bytes"], found["not_moved"]) == (4, 40 * PAGE, {})


def test_what_stays_is_an_exit_status_of_its_own(
    machine: Machine, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Fake([_small(10)], clock)
    fake.stuck[BASE] = errno.EBUSY
    monkeypatch.setattr(pages, "Process", lambda pid: fake)
    assert ferryctl.main(["move", "--pid", "30", "--to", "1"], machine) == 4
    assert "not moved 1 pages, EBUSY" in capsys.readouterr().out


def test_ctrl_c_ends_it_after_a_piece_and_says_what_was_moved(
    machine: Machine, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(Fake):
        def move(self, addresses: Sequence[int], node: int, shared: bool) -> list[int]:
            if len(self.calls) == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return super().move(addresses, node, shared)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        fake = Interrupted([_small(100000)], clock)
        monkeypatch.setattr(pages, "Process", lambda pid: fake)
        assert ferryctl.main(["move", "--pid", "30", "--to", "1", "--json"], machine) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    found = json.loads(capsys.readouterr().out)
    assert found["interrupted"]
    assert found["moved_bytes"] == sum(fake.calls) * PAGE
    assert len(fake.calls) == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--pid", "30", "--to", "7"], "no node 7 with memory; there are: 0, 1"),
        (["--pid", "30", "--to", "1", "--from", "9"], "no node 9 with memory"),
        (["--cgroup", "nosuch", "--to", "1"], "is no cgroup v2"),
    ],
)
def test_what_cannot_be_moved_is_said(
    machine: Machine, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert ferryctl.main(["move", *words], machine) == 1
    assert why in capsys.readouterr().err


def test_a_process_that_is_not_there_is_said(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert ferryctl.main(["move", "--pid", str(child.pid), "--to", "1"], machine) == 1
    assert f"there is no process {child.pid}, or it has ended" in capsys.readouterr().err


# --- a real process ---


@pytest.mark.parametrize("scan", [True, False])
def test_pages_that_are_there_are_found(monkeypatch: pytest.MonkeyPatch, scan: bool) -> None:
    """Of 64 pages those that were written to, by each way to ask the kernel."""
    with Path("/proc/self/pagemap").open("rb") as file:
        if scan and not pages._can_scan(file.fileno()):
            pytest.skip("this kernel has no PAGEMAP_SCAN")
    if not scan:
        monkeypatch.setattr(pages, "_can_scan", lambda pagemap: False)
    with mmap.mmap(-1, 64 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        start = _address(memory)
        written = {0, 1, 2, 17, 63}
        for i in written:
            memory[i * PAGE] = 1
        found = {
            (address - start) // PAGE
            for region in pages.Process(os.getpid()).regions()
            for address in region.addresses()
            if start <= address < start + 64 * PAGE
        }
    assert found == written


def _address(memory: mmap.mmap) -> int:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_the_node_of_a_page_is_asked_of_the_kernel() -> None:
    process = pages.Process(os.getpid())
    region = next(process.regions())
    try:
        assert process.nodes([region.start, 0])[0] >= 0
    except Problem as problem:
        pytest.skip(f"move_pages is not to be had here: {problem}")
    assert process.nodes([region.start, 0])[1] < 0


def test_a_zombie_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        try:
            process = pages.Process(child.pid)
        except Problem as problem:
            pytest.skip(f"move_pages is not to be had here: {problem}")
        with pytest.raises(Gone):
            list(process.regions())
