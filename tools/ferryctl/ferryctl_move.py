# SPDX-License-Identifier: GPL-2.0
"""Move the memory of a process, or of all processes of a cgroup, at a pace that others can live with."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from ferryctl_machine import Problem, System
from ferryctl_pages import HUGE, PAGE, Gone, Region
from ferryctl_status import big

CGROUPS = "sys/fs/cgroup"
FIRST_PAGES = 64
MOST_PAGES = 1 << 17
# Of so many calls the slowest says how large the next one may be.
REMEMBERED = 8
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Why a page stayed where it was, and what one can do about it.
REASONS = {
    "EACCES": ("other processes have it, too", "--shared moves such pages as well (root)"),
    "EBUSY": (
        "in use just now: I/O, a lock, or pinned (direct I/O, RDMA, VFIO)",
        "move again later; pins end with the program that has them",
    ),
    "ENOMEM": ("the node has no room", "free memory there, or move less"),
    "EFAULT": ("the kernel does not move such memory: a zero page, or a device's", "nothing to do"),
    "ENOENT": ("it is gone meanwhile", "nothing to do"),
    "EIO": ("its contents could not be written to their file first", "see dmesg"),
    "EINVAL": ("it is dirty, and its file system cannot move such pages", "sync, then move again"),
}


class Pages(Protocol):
    """A process, as ferryctl_pages has it."""

    pid: int

    def regions(self) -> Iterator[Region]: ...

    def nodes(self, addresses: Sequence[int]) -> list[int]: ...

    def move(self, addresses: Sequence[int], node: int, shared: bool) -> list[int]: ...


@dataclass(frozen=True)
class Order:
    """What is to be moved, where to, and how."""

    to: int
    node_from: int | None = None  # any other
    max_ms: float = 20.0  # that one piece may take
    rate: int | None = None  # bytes per second
    shared: bool = False  # also what other processes have, too


@dataclass
class Done:
    """What came of it."""

    processes: int = 0
    gone: int = 0
    moved_bytes: int = 0
    there_bytes: int = 0  # already
    seen_bytes: int = 0
    pieces: int = 0
    longest_ms: float = 0.0
    late: int = 0  # calls that took longer than they were to
    seconds: float = 0.0
    interrupted: bool = False
    not_moved: Counter[str] = field(default_factory=Counter)  # pages, by errno's name
    failed: dict[int, str] = field(default_factory=dict)  # processes, and why

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            **{name: value for name, value in vars(self).items() if name not in ("not_moved", "failed")},
            "not_moved": {
                name: {"pages": pages, "why": _why(name)[0], "what_to_do": _why(name)[1]}
                for name, pages in self.not_moved.items()
            },
            "failed": {str(pid): why for pid, why in self.failed.items()},
        }


def _why(name: str) -> tuple[str, str]:
    return REASONS.get(name, ("the kernel says so", "see move_pages(2)"))


class Mover:
    """Moves one process after the other; the size of a piece follows the time that the last ones took."""

    def __init__(
        self, order: Order, stop: threading.Event, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.order, self.stop, self.clock = order, stop, clock
        self.done = Done()
        self.pages = FIRST_PAGES
        self.costs: deque[float] = deque(maxlen=REMEMBERED)  # milliseconds for a page
        self.total = 0
        self.began = clock()

    def process(self, process: Pages, note: Callable[[Done], None]) -> None:
        """All that it has now. What it gets meanwhile is where its policy puts it."""
        self.done.processes += 1
        try:
            for piece in self._pieces(process):
                self._piece(process, piece)
                note(self.done)
                self._pace()
                if self.stop.is_set():
                    break
        except Gone:
            self.done.gone += 1
        except Problem as problem:
            self.done.failed[process.pid] = str(problem)
        self.done.seconds = self.clock() - self.began
        self.done.interrupted = self.stop.is_set()

    def _pieces(self, process: Pages) -> Iterator[dict[int, int]]:
        """Addresses, and the bytes at each: as many as one piece may have at that moment."""
        piece: dict[int, int] = {}
        size = 0
        for region in process.regions():
            each = HUGE if region.huge else PAGE
            for address in region.addresses():
                piece[address] = each
                size += each
                if size >= self.pages * PAGE:
                    yield piece
                    piece, size = {}, 0
        if piece:
            yield piece

    def _piece(self, process: Pages, piece: dict[int, int]) -> None:
        addresses = list(piece)
        order, to_move = self.order, []
        for address, node in zip(addresses, process.nodes(addresses), strict=True):
            if node == order.to:
                self.done.there_bytes += piece[address]
            elif node >= 0 and order.node_from in (None, node):
                to_move.append(address)
        self.done.seen_bytes += sum(piece.values())
        if to_move:
            self.done.pieces += 1
            self._move(process, to_move, piece)

    def _move(self, process: Pages, addresses: Sequence[int], sizes: dict[int, int]) -> None:
        """Also what a call did not come to: Linux ends it where a page stays that it has tried to move."""
        begin = self.clock()
        status = process.move(addresses, self.order.to, self.order.shared)
        self._took(1e3 * (self.clock() - begin), sum(sizes[address] for address in addresses))
        left = [
            (address, result)
            for address, result in zip(addresses, status, strict=True)
            if result != self.order.to
        ]
        # One page of a large folio brings the others along, for which the call may say that they are busy
        now = process.nodes([address for address, _ in left]) if left else []
        left = [pair for pair, node in zip(left, now, strict=True) if node != self.order.to]
        self.done.moved_bytes += sum(sizes[a] for a in addresses) - sum(sizes[a] for a, _ in left)
        untried = [address for address, result in left if result >= 0]  # UNTRIED, or moved elsewhere
        for address, result in left:
            if result < 0:
                self.done.not_moved[errno.errorcode.get(-result, str(-result))] += sizes[address] // PAGE
        if untried and len(untried) < len(addresses):
            self._move(process, untried, sizes)
        elif len(untried) > 1:
            middle = len(untried) // 2
            self._move(process, untried[:middle], sizes)
            self._move(process, untried[middle:], sizes)
        elif untried:
            self.done.not_moved["EBUSY"] += sizes[untried[0]] // PAGE

    def _took(self, took_ms: float, size: int) -> None:
        """The next piece is what fits into the time at the slowest pace of the last calls; no more than twice
        as large as this one, nor than what the rate allows in a tenth of a second.

        One call says little: on a busy machine a fast one is followed by one that waits for a CPU.
        """
        self.done.longest_ms = max(self.done.longest_ms, took_ms)
        self.done.late += took_ms > self.order.max_ms
        self.costs.append(max(took_ms, 1e-3) * PAGE / size)
        fitting = self.order.max_ms / max(self.costs)
        most = min(MOST_PAGES, (self.order.rate or MOST_PAGES * PAGE * 10) // (PAGE * 10))
        self.pages = max(1, min(round(0.9 * fitting), 2 * self.pages, most))

    def _pace(self) -> None:
        """Wait until what was moved is no more than the rate allows."""
        if self.order.rate:
            due = self.began + self.done.moved_bytes / self.order.rate
            self.stop.wait(max(0.0, due - self.clock()))


# --- whom ---


def cgroup_pids(system: System, path: str) -> list[int]:
    """The processes of a cgroup and of all below it. Raises Problem if there is no such cgroup v2."""
    folder = Path(path) if Path(path).is_absolute() else system.root / CGROUPS / path
    if not (folder / "cgroup.procs").exists():
        raise Problem(
            f"{folder} is no cgroup v2: name one below /{CGROUPS}, as in system.slice/redis.service"
        )
    pids: set[int] = set()
    for cgroup in (folder, *sorted(p for p in folder.rglob("*") if p.is_dir())):
        try:
            pids.update(map(int, (cgroup / "cgroup.procs").read_text().split()))
        except OSError as err:  # of threads, whose process is listed above; or gone
            if err.errno not in (errno.EOPNOTSUPP, errno.ENOENT, errno.ENODEV):
                raise Problem(f"{cgroup}: {err.strerror}") from err
    return sorted(pids)


def move(
    whom: Callable[[], Sequence[int]],
    order: Order,
    find: Callable[[int], Pages],
    note: Callable[[Done], None],
) -> Done:
    """Move all of them, also those that are there only now; until it is done, or told to end."""
    with _told_to_end() as stop:
        mover, seen = Mover(order, stop), set[int]()
        while new := [pid for pid in whom() if pid not in seen and pid != os.getpid()]:
            for pid in new:
                if stop.is_set():
                    break
                seen.add(pid)
                mover.process(find(pid), note)
            if stop.is_set():
                break
        mover.done.interrupted = stop.is_set()
        return mover.done


@contextmanager
def _told_to_end() -> Iterator[threading.Event]:
    """Set by ^C and SIGTERM: the piece that is being moved is finished, and counted."""
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    wanted = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in wanted}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- for people ---


class Progress:
    """One line on a terminal that is written over."""

    def __init__(self) -> None:
        self.shown = 0.0

    def __call__(self, done: Done) -> None:
        now = time.monotonic()
        if sys.stderr.isatty() and now - self.shown >= 0.2:
            self.shown = now
            line = (
                f"process {done.processes}: {big(done.seen_bytes)} looked at, {big(done.moved_bytes)} moved"
            )
            print(f"\r{line:<70}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave nothing of it."""
        if self.shown:
            print(f"\r{'':<70}\r", end="", file=sys.stderr, flush=True)


def show(done: Done, order: Order) -> str:
    """What was moved, what was not and why."""
    speed = f", {done.moved_bytes / 1e9 / done.seconds:.2f} GB/s" if done.seconds > 0 else ""
    out = [
        f"{'interrupted: ' if done.interrupted else ''}{big(done.moved_bytes)} of {done.processes}"
        f" processes moved to node {order.to} in {done.seconds:.1f} s{speed}; {big(done.there_bytes)}"
        " were there already",
        f"  {done.pieces:,} pieces, {done.late} calls longer than {order.max_ms:g} ms,"
        f" the longest {done.longest_ms:.1f} ms",
    ]
    if done.gone:
        out.append(f"  {done.gone} processes ended meanwhile")
    for name, pages in done.not_moved.most_common():
        why, remedy = _why(name)
        out += [f"  not moved {pages:,} pages, {name}: {why}", f"    -> {remedy}"]
    return "\n".join([*out, *(f"  process {pid}: {why}" for pid, why in done.failed.items())])
