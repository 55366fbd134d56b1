# SPDX-License-Identifier: GPL-2.0
"""Measure the engines of this machine with migbench, one after the other, and leave it as it was."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import ferryctl_variants as variants
from ferryctl_advice import Sample, advise
from ferryctl_change import change
from ferryctl_conf import load_conf, parameters
from ferryctl_machine import MODULES, NONE, Problem, System, use
from ferryctl_settings import DEFAULTS, differing

NODES = "sys/devices/system/node"
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
PAGE_BYTES = 4096
SPARE_BYTES = 64 << 20  # what migbench wants free beside what it moves
DEFAULT_TARGET_US = 500  # the kernel's, where target_us is 0
MOVES = 3  # of one migbench: warm-up, timed, under tracepoints
# To tell how long it takes: filled, moved and verified on a server, and a start of migbench.
BYTES_PER_S = 0.5e9
START_S = 0.3
CANNOT_RUN = 4  # migbench's exit code
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# What is measured is the engine; for what it may be used, and from which size on, is not asked.
OPEN = {"reasons": DEFAULTS["reasons"], "min_bytes": "0"}


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([1-9]\d*)([KMG])", text)
    if not found:
        raise Problem(f"'{text}' is no size: write a number and K, M or G, as in 64M")
    return int(found[1]) * SIZES[found[2]]


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    folios: tuple[str, ...] = ("4K", "64K", "2M")
    engines: tuple[str, ...] = ()  # all, if there is none
    size: str = "64M"
    rounds: int = 5
    node_from: int | None = None  # the first with memory
    node_to: int | None = None  # the second
    target_us: int | None = None  # what is set
    with_settings: bool = True  # try other settings of the best engine, too

    @property
    def bytes(self) -> int:
        """Of each move."""
        return _bytes(self.size)

    def check(self) -> None:
        """Raise Problem for sizes that make no sense."""
        for folio in self.folios:
            if _bytes(folio) % PAGE_BYTES or self.bytes % _bytes(folio):
                raise Problem(f"{self.size} cannot be moved in folios of {folio}: choose a multiple of it")

    @property
    def seconds(self) -> float:
        """About how long it takes on a server."""
        each = START_S + MOVES * self.bytes / BYTES_PER_S
        settings = 1 + len(variants.candidates("", 1)) if self.with_settings else 0
        return self.rounds * len(self.folios) * (len(self.engines) + settings) * each


@dataclass
class Measured:
    """What came of a plan."""

    samples: list[Sample] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # engine or folio size, and why
    settings: dict[str, str] = field(default_factory=dict)  # that it was measured with
    tried: list[Sample] = field(default_factory=list)  # other settings of the best engine

    @property
    def target_us(self) -> int:
        """In effect."""
        return int(self.settings.get("target_us") or 0) or DEFAULT_TARGET_US


class Stop:
    """^C and SIGTERM, while something has to be put back: they end migbench, and are asked for.

    Nothing is raised in a handler, so nothing that puts back can be interrupted.
    """

    def __init__(self) -> None:
        self.number = 0
        self.child: subprocess.Popen[str] | None = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        if self.child:
            self.child.terminate()

    @contextmanager
    def held(self) -> Iterator[None]:
        """While this lasts, signals end nothing by themselves."""
        # One that is ignored, as SIGHUP under nohup, stays ignored.
        wanted = [n for n in SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._handle) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Raise Problem if it is time to end."""
        if self.number:
            name = signal.Signals(self.number).name
            raise Problem(f"ended by {name}; engine and settings are as they were")

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """A program to its end, or until it is told to end, which it may do in its own time."""
        self.check()
        pipe = subprocess.PIPE
        # A group of its own: ^C comes to us, and from us.
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, process_group=0) as child:
            self.child = child
            if self.number:  # since the check
                child.terminate()
            out, err = child.communicate()
            self.child = None
        self.check()
        return subprocess.CompletedProcess(command, child.returncode, out, err)


# --- beforehand ---


def prepare(system: System, plan: Plan) -> Plan:
    """The plan with nodes and engines filled in. Raises Problem for what can be known beforehand."""
    plan.check()
    system.need_ferry()
    if system.in_container():
        raise Problem("this is a container, whose kernel is its host's: run ferryctl on the host")
    if not os.access(system.offload / "active", os.W_OK):
        raise Problem("measuring changes the engine, which needs root: use sudo")
    if not shutil.which("migbench"):
        raise Problem("migbench is not in PATH; the package ferry-tools has it")
    load_conf(system)
    plan = replace(plan, engines=_engines(system, plan))
    return _check_room(system, _choose_nodes(system, plan))


def _engines(system: System, plan: Plan) -> tuple[str, ...]:
    available = [*(system.get("available") or "").split()]
    available += [name for name in MODULES if name not in available]
    for name in plan.engines:
        if name not in (NONE, *available):
            raise Problem(f"no engine '{name}'; there are: {', '.join(available)}")
    chosen = [name for name in plan.engines if name != NONE]
    return (NONE, *(chosen or available))


def nodes(system: System) -> list[int]:
    """Those that have memory."""
    numbers: list[int] = []
    for part in (system.read(f"{NODES}/has_memory") or "0").split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def _choose_nodes(system: System, plan: Plan) -> Plan:
    present = nodes(system)
    if len(present) < 2:
        raise Problem(
            f"no second node: all memory of this machine is on node {present[0]}, and nothing can be moved"
        )
    for name, node in (("--from", plan.node_from), ("--to", plan.node_to)):
        if node is not None and node not in present:
            raise Problem(f"{name} {node}: nodes with memory are {', '.join(map(str, present))}")
    start = plan.node_from
    if start is None:
        start = next(node for node in present if node != plan.node_to)
    end = plan.node_to
    if end is None:
        end = next(node for node in present if node != start)
    if start == end:
        raise Problem(f"--to {end}: must differ from --from")
    return replace(plan, node_from=start, node_to=end)


def _check_room(system: System, plan: Plan) -> Plan:
    need = plan.bytes + SPARE_BYTES
    for node in (plan.node_from, plan.node_to):
        found = re.search(r"MemFree:\s+(\d+) kB", system.read(f"{NODES}/node{node}/meminfo") or "")
        if found and int(found[1]) * 1024 < need:
            raise Problem(
                f"node {node} has {int(found[1]) >> 10} MiB free, and {need >> 20} MiB are needed to move"
                f" {plan.size}: free memory there, or choose less with --bytes"
            )
    return plan


def consent(system: System, plan: Plan, yes: bool) -> None:
    """Say what will be done, and raise Problem unless somebody says yes to it."""
    active = system.get("active") or NONE
    lines = [
        f"Moves {plan.size} of its own memory from node {plan.node_from} to node {plan.node_to}, again and"
        f" again, for about {_duration(plan.seconds)} on a server, with each of: {', '.join(plan.engines)}.",
        "Whatever else migrates on this machine meanwhile is copied by the same engine. Modules are loaded"
        f" and unloaded as needed, and folios of {', '.join(plan.folios)} are switched on while measured.",
        f"The engine ({active}) and all settings are put back however it ends, also by ^C.",
    ]
    print("\n".join(lines), file=sys.stderr)
    if yes:
        return
    if not sys.stdin.isatty():
        raise Problem("there is no terminal to ask for consent: say --yes")
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise Problem("without consent; nothing was done")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"


# --- measuring ---


def to_save(system: System, measured: dict[str, str]) -> dict[str, str]:
    """The settings that it was measured with and that /etc/ferry.conf has otherwise."""
    conf = load_conf(system)
    mine = {name: value for name, value in measured.items() if name not in (*OPEN, "inaccessible_enabled")}
    return differing({name: conf.get(name, DEFAULTS.get(name, "0")) for name in mine}, mine)


@contextmanager
def _alone(system: System) -> Iterator[None]:
    """Two that measure would measure each other."""
    folder = os.open(system.offload, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as err:
        raise Problem("another 'ferryctl tune' is measuring") from err
    finally:
        os.close(folder)


@contextmanager
def _put_back(system: System) -> Iterator[None]:
    """Engine, settings and modules are afterwards as they were. Raises Problem for what could not be."""
    engine = system.get("active") or NONE
    settings = system.settings()
    loaded = (system.get("available") or "").split()
    try:
        yield
    finally:
        _try_all(
            [
                lambda: system.put("active", NONE),
                lambda: change(system, differing(system.settings(), settings)),
                lambda: use(system, engine, parameters(load_conf(system), engine)),
                lambda: _unload(system, loaded),
            ]
        )


def _try_all(steps: Sequence[Callable[[], None]]) -> None:
    """Each, also if one before has failed; then raise Problem with all that went wrong."""
    wrong = []
    for step in steps:
        try:
            step()
        except Problem as problem:
            wrong.append(str(problem))
    if wrong:
        raise Problem(f"not all could be put back: {'; '.join(wrong)}")


def _unload(system: System, keep: Sequence[str]) -> None:
    """The modules that were loaded to be measured."""
    for name in (system.get("available") or "").split():
        if name in MODULES and name not in keep:
            system.modprobe(["-r", name])


def measure(system: System, plan: Plan, note: Callable[[str], None]) -> Measured:
    """Each engine with each folio size, in so many rounds; engines take turns.

    Raises Problem if a byte is lost, or if it is ended by a signal; the machine is as it was then, too.
    """
    stop, measured = Stop(), Measured()
    with _alone(system), stop.held(), _put_back(system):
        change(system, differing(system.settings(), _kernel_settings(plan)))
        measured.settings = system.settings()
        plan = replace(plan, engines=_startable(system, plan, measured, stop))
        for number in range(plan.rounds):
            began = time.monotonic()
            for folio in plan.folios:
                if folio not in measured.skipped:
                    _row(system, plan, number, folio, measured, stop)
            note(f"round {number + 1} of {plan.rounds}: {_duration(time.monotonic() - began)}")
        _only_whole_rounds(measured)
        if plan.with_settings:
            _settings(system, plan, measured, stop, note)
    return measured


def _only_whole_rounds(measured: Measured) -> None:
    # One that fell out halfway has been measured in fewer rounds than the others
    measured.samples = [
        sample
        for sample in measured.samples
        if sample.engine not in measured.skipped and sample.folio not in measured.skipped
    ]
    if not measured.samples:
        raise Problem(f"nothing could be measured: {'; '.join(measured.skipped.values())}")


def _settings(
    system: System, plan: Plan, measured: Measured, stop: Stop, note: Callable[[str], None]
) -> None:
    """Other settings of the engine that is best with those that there are."""
    engine = advise(measured.samples, measured.target_us).engine
    if engine == NONE:
        return
    note(f"other settings of {engine}")
    use(system, engine, parameters(load_conf(system), engine))

    def once(number: int, name: str, settings: Mapping[str, str], folio: str) -> Sample | None:
        change(system, differing(system.settings(), measured.settings | dict(settings)))
        if system.get("in_service") == "0":
            raise Problem(f"{engine} went out of service with {name}; see dmesg")
        sample = _once(system, plan, Sample(number, engine, folio, 0, None, None, 0), measured, stop)
        return sample and replace(sample, engine=name)

    folios = [folio for folio in plan.folios if folio not in measured.skipped]
    tried = variants.measure(engine, measured.target_us, folios, plan.rounds, once)
    # A size that was not to be had in one round has no sample to compare the others with
    measured.tried = [sample for sample in tried if sample.folio not in measured.skipped]


def _kernel_settings(plan: Plan) -> dict[str, str]:
    return OPEN if plan.target_us is None else OPEN | {"target_us": str(plan.target_us)}


def _startable(system: System, plan: Plan, measured: Measured, stop: Stop) -> tuple[str, ...]:
    """The engines that can be made active; why not, of the others."""
    startable = []
    for name in plan.engines:
        stop.check()
        try:
            use(system, name, parameters(load_conf(system), name))
            startable.append(name)
        except Problem as problem:
            measured.skipped[name] = str(problem)
    return tuple(startable)


def _row(system: System, plan: Plan, number: int, folio: str, measured: Measured, stop: Stop) -> None:
    """A folio size with each engine; who begins changes with the round, for what comes first is special."""
    engines = [name for name in plan.engines if name not in measured.skipped]
    first = number % len(engines)
    for engine in (*engines[first:], *engines[:first]):
        try:
            use(system, engine, parameters(load_conf(system), engine))
        except Problem as problem:
            measured.skipped[engine] = str(problem)
            continue
        sample = _once(system, plan, Sample(number, engine, folio, 0, None, None, 0), measured, stop)
        if sample is None:
            return
        if system.get("active") != engine:
            raise Problem(f"somebody else chose {system.get('active')} meanwhile: measure again")
        if engine != NONE and system.get("in_service") == "0":
            measured.skipped[engine] = f"{engine} went out of service while it was measured; see dmesg"
        measured.samples.append(sample)


def _once(system: System, plan: Plan, sample: Sample, measured: Measured, stop: Stop) -> Sample | None:
    """One migbench; None if it cannot have this folio size here."""
    before = _copied(system, sample.engine)
    done = stop.run(
        [
            *("migbench", "--folio", sample.folio, "--bytes", plan.size, "--runs", "1", "--latency"),
            *("--from", str(plan.node_from), "--to", str(plan.node_to), "--allow-partial", "--json", "-"),
        ]
    )
    last_line = (done.stderr.strip().splitlines() or ["it said nothing"])[-1].removeprefix("migbench: ")
    if done.returncode == CANNOT_RUN:
        measured.skipped[sample.folio] = f"{sample.folio}: {last_line}"
        return None
    if done.returncode:
        raise Problem(f"migbench, {sample.folio} with {sample.engine}: {last_line}")
    return _read(json.loads(done.stdout), sample, _copied(system, sample.engine) - before, plan)


def _copied(system: System, engine: str) -> int:
    return int(system.get(f"migrators/{engine}/bytes") or 0)


def _read(figures: dict[str, Any], sample: Sample, copied: int, plan: Plan) -> Sample:
    if "gbps" not in figures:
        raise Problem(f"migbench, {sample.folio} with {sample.engine}: nothing was moved")
    away = figures.get("inaccessible_us", {})
    moved = sum(run["moved_pages"] for run in figures["runs"])
    return replace(
        sample,
        gbps=figures["gbps"],
        p50_us=away.get("p50"),
        p99_us=away.get("p99"),
        cpu_ns_per_page=figures["cpu_ns_per_page"],
        # What others move meanwhile counts as well
        by_engine=None if sample.engine == NONE else min(1.0, copied / (MOVES * plan.bytes)),
        left=len(figures["runs"]) * plan.bytes // PAGE_BYTES - moved,
    )
