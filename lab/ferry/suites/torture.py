# SPDX-License-Identifier: GPL-2.0
"""The campaign: memory moves and is checked all the time, while one class of trouble after the other strikes.

Each class has a boot of its own, so that what the kernel complains about is that class's, and what one
class left behind is not the next one's trouble.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ferry import paths, proc
from ferry.errors import FerryError, UsageError, choose
from ferry.kernel import kbuild
from ferry.server import faults, profile
from ferry.suites import kselftest, ktap
from ferry.vm import boots, emulator, machine, qemu
from ferry.vm.boots import Boot, Said
from ferry.vm.machine import Machine
from ferry.vm.store import Store

PROGRAM = "torture"
SOURCE = paths.KERNEL / "src/tools/testing/selftests/migrate_offload"
# Trouble ends the guest at once, and is the end of its log.
KERNEL_ARGS = ("hung_task_panic=1",)
# Not where KCSAN is: it reports Linux's own races, too.
PANIC_ON_WARN = "panic_on_warn=1"
# Errors are what some classes are about: no channel is given up for them.
DCBM = "max_errors=1000000"
CHANNELS = "/sys/kernel/debug/dcbm/channels"
ACTIVE = "/sys/kernel/mm/migrate_offload/active"
OWN_ENGINES = ("cpu", "mtcopy", "dcbm")  # Ferry's, which need no --module
# Of ptdma's ring.
MAX_DEPTH = 31
# To boot, and for each class to set up and until all processes have ended.
SPARE_S = 300.0
CLASS_S = 180.0
# What torture.c counts, in its order. Folios and bytes may be summed, seconds too.
FIGURES = (
    *("seconds", "moved", "folios", "pages", "struck", "bytes"),
    *("kind", "refs", "busy", "error", "left", "quarantined"),
)

_LINE = re.compile(r"^# (\w+) (seconds=\d.*)", re.MULTILINE)
_SKIP = re.compile(r"^ok \d+ # SKIP (\w+): (.*)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """One class, or the sum of its boots."""

    name: str
    figures: dict[str, int] = field(default_factory=dict)  # by FIGURES; empty if it was not told
    skipped: str = ""  # why
    mistakes: tuple[str, ...] = ()  # what was wrong, as the program said it
    complaints: tuple[str, ...] = ()  # the kernel's
    records: tuple[str, ...] = ()  # of its boots, by their names in the store

    @property
    def passed(self) -> bool:
        """Nothing was wrong, and the kernel did not complain; a class that was skipped proves nothing."""
        return not (self.mistakes or self.complaints or self.skipped)

    @property
    def verdict(self) -> str:
        if self.mistakes or self.complaints:
            return "FAILED"
        return f"not here: {self.skipped}" if self.skipped else "passed"

    def __add__(self, other: Outcome) -> Outcome:
        told = FIGURES if self.figures or other.figures else ()
        figures = {name: self.figures.get(name, 0) + other.figures.get(name, 0) for name in told}
        wrong = (self.mistakes + other.mistakes, self.complaints + other.complaints)
        records = self.records + other.records
        return Outcome(self.name, figures, self.skipped or other.skipped, *wrong, records)


@dataclass(frozen=True)
class Plan:
    """What to run: each class for so long, with folios unmapped one by one and in ranges."""

    minutes: float = 1.0  # for each class, in sum
    classes: tuple[str, ...] = ()  # all, if there is none
    flavour: str = "debug"
    engine: str = ""  # instead of dcbm on softdma; what strikes these is left out then
    module: str = ""  # its file, built against the same kernel; else it is one of Ferry's
    one_boot: bool = False  # all classes in one, each way; a complaint is then all classes'
    # Properties of functions of an emulated engine, which dcbm uses then; of DSA those of devices.
    ptdma: tuple[str, ...] = ()
    ioat: tuple[str, ...] = ()
    dsa: tuple[str, ...] = ()
    depth: int = 1  # copies at once in the ring of each of PTDMA
    deadline_ms: int = 0  # that of a user, with another engine than dcbm on softdma; 0: a patient one

    @property
    def modelled(self) -> str:
        """Which emulated engine, by its name in the profiles."""
        return next((name for name in profile.ENGINES if getattr(self, name)), "")

    @property
    def channels(self) -> tuple[str, ...]:
        """The properties of each channel of the emulated engine; a device of DSA has several."""
        properties = (*self.ptdma, *self.ioat, *self.dsa)
        return tuple(text for text in properties for _ in range(profile.DSA_QUEUES if self.dsa else 1))

    @property
    def machine(self) -> Machine:
        """The one whose memory can be unplugged."""
        movable = machine.get("movable")
        args = KERNEL_ARGS if "kcsan" in self.flavour else (*KERNEL_ARGS, PANIC_ON_WARN)
        movable = replace(movable, kernel_args=(*movable.kernel_args, *args))
        if not self.channels:
            return movable
        # Only under icount has an access to a register its price; two CPUs would take turns there, and the
        # debug kernel's second one does not come up.
        program = tuple(emulator.command())
        devices = profile.ENGINES[self.modelled].devices(*self.channels, slot=profile.SLOT_BESIDE_VIRTME)
        return replace(movable.with_cpus(1), icount=True, program=program, devices=devices)

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Folios are unmapped one by one, and in ranges."""
        return self.machine.one_by_one(), self.machine

    @property
    def seconds(self) -> int:
        """Of one boot."""
        return max(1, round(self.minutes * 60 / len(self.machines)))

    def check(self) -> None:
        """Raise UsageError for what can be known to fail without a kernel."""
        choose("class", self.classes, named())
        if not 0 < self.minutes <= 24 * 60:
            raise UsageError(f"{self.minutes:g} minutes: choose more than 0, at most a day")
        if not kbuild.flavour(self.flavour).patched:
            raise UsageError(f"kernel {self.flavour} is without Ferry: choose another --kernel")
        if self.deadline_ms < 0:
            raise UsageError(f"--deadline {self.deadline_ms}: choose 1 ms or more, or 0 for a patient one")
        if self.module and not self.engine:
            raise UsageError(f"--module {self.module}: say with --engine what its migrator is called")
        if self.module and not Path(self.module).is_file():
            raise UsageError(f"no module {self.module}: name the .ko file of the engine")
        self._check_engine()

    def _check_engine(self) -> None:
        given = [name for name in profile.ENGINES if getattr(self, name)]
        if len(given) > 1:
            raise UsageError(f"--{' and --'.join(given)}: choose one engine")
        if given and (self.engine or self.module):
            raise UsageError(f"--{given[0]} is for dcbm: leave out --engine and --module")
        for name in given:
            if len(getattr(self, name)) > (most := profile.ENGINES[name].most):
                raise UsageError(f"{len(getattr(self, name))} times --{name}: choose at most {most}")
        if not 1 <= self.depth <= MAX_DEPTH:
            raise UsageError(f"--depth {self.depth}: choose 1 to {MAX_DEPTH}")
        for text in filter(None, (*self.ptdma, *self.ioat, *self.dsa)):
            faults.parse(text.split(","))
        if self.engine and not self.module:
            choose("engine", [self.engine], OWN_ENGINES)

    def boot(self, program: Path, names: Sequence[str], computer: Machine) -> Boot:
        """A guest for some classes, on one of the machines."""
        how = "one by one" if machine.ONE_BY_ONE in computer.kernel_args else "in ranges"
        limit = SPARE_S + len(names) * (self.seconds + CLASS_S)
        job = qemu.Job(self.script(program, names), limit, host_root=True)
        title = f"{PROGRAM}, {'all' if self.one_boot else names[0]}, {how}"
        return Boot(title, self.flavour, computer, job)

    def script(self, program: Path, names: Sequence[str]) -> str:
        """The job of one boot: classes of the program, with the engine."""
        lines, args = ["cd /dev/shm"], f" -d {self.deadline_ms}" if self.deadline_ms else ""
        engine = "dcbm" if self.channels else self.engine
        drivers = {
            "ptdma": f"modprobe ptdma depth={self.depth}",
            "ioat": "modprobe ioatdma",
            "dsa": f"use_queues {len(self.channels)}",
        }
        if self.modelled:
            lines.append(f"{drivers[self.modelled]} && modprobe dcbm {DCBM} || fail 'no {self.modelled}'")
        elif self.module:
            file = shlex.quote(str(Path(self.module).resolve()))
            why = f"cannot load {self.module}: is it built against build/{paths.BASE}/kernel-{self.flavour}?"
            lines.append(f"insmod {file} || fail {shlex.quote(why)}")
        elif engine:
            lines.append(f"modprobe -q {shlex.quote(engine)}")
        if engine:
            args += f" -e {shlex.quote(engine)}"
        command = f"{shlex.quote(str(program))} -s {self.seconds}{args} {' '.join(names)}"
        lines += [
            f"step {PROGRAM} {names[0]}",
            f"{command} 2>&1 </dev/null | output {PROGRAM}",
        ]
        if number := len(self.channels):
            # It has given all back. What stands still with a copy in hand is not live when it is taken again.
            lines += [
                f"echo dcbm >{ACTIVE} || fail 'dcbm cannot be chosen again'",
                f"live=$(grep -c ' 0 live$' {CHANNELS})",
                f'[ "$live" -eq {number} ] || fail "$live of {number} channels are live"',
                f"echo none >{ACTIVE}",
            ]
        return "\n".join(lines)


def run(
    plan: Plan, tell: Callable[[list[Outcome]], None] = lambda outcomes: None, store: Store | None = None
) -> list[Outcome]:
    """The outcome of each class. tell gets those that there are, each time that a class is through."""
    program = next(path for path in kselftest.build(kbuild.build(plan.flavour)) if path.name == PROGRAM)
    names = classes(program)
    chosen = plan.classes or names
    groups = [[*chosen]] if plan.one_boot else [[name] for name in chosen]
    parts = [(names, computer) for names in groups for computer in plan.machines]
    sums: dict[str, Outcome] = {}

    def ended(index: int, said: Said, complaints: tuple[str, ...] = ()) -> None:
        made_of = (said.record,) if said.record else ()
        for name, outcome in _outcomes(said.text, parts[index][0], complaints).items():
            sums[name] = sums.get(name, Outcome(name)) + replace(outcome, records=made_of)
        if (index + 1) % len(plan.machines) == 0:
            tell([*sums.values()])

    def failed(index: int, err: FerryError) -> None:
        if not isinstance(err, qemu.BadGuest):
            raise err
        ended(index, Said(err.said), tuple(str(err).splitlines()))

    all_boots = [plan.boot(program, names, computer) for names, computer in parts]
    boots.run("torture", all_boots, ended, store, failed=failed)
    return [*sums.values()]


def named() -> list[str]:
    """The classes of the program by its source: who misspells one need not wait for a kernel."""
    texts = [path.read_text() for path in sorted(SOURCE.glob(f"{PROGRAM}*.c"))]
    return [name for text in texts for name in re.findall(r'\{ \.name = "(\w+)"', text)]


def classes(program: Path) -> list[str]:
    """The same, in the order in which it runs them."""
    return proc.output([str(program), "-l"]).split()


def _outcomes(said: str, names: Sequence[str], complaints: tuple[str, ...]) -> dict[str, Outcome]:
    """What a boot tells of its classes; a complaint of its kernel is about each."""
    text = kselftest.outputs(said).get(PROGRAM, "")
    # It may have died of wrong bytes itself.
    mistakes = ("it ended without a result; it said:", *text.splitlines()[-5:])
    told = parse(text)
    return {
        name: replace(told.get(name, Outcome(name, mistakes=mistakes)), complaints=complaints)
        for name in names
    }


def parse(text: str) -> dict[str, Outcome]:
    """What a run of the program said, by class."""
    figures = {
        told[1]: {key: int(value) for key, value in (pair.split("=") for pair in told[2].split())}
        for told in _LINE.finditer(text)
    }
    outcomes = {}
    for case in ktap.parse(text):
        if case.outcome == "skip":  # its name is in its note
            continue
        said = re.findall(rf"^(?:# {re.escape(case.name)}|{PROGRAM}): (.*)", text, re.MULTILINE)
        wrong = tuple(said or ["it failed"]) if case.outcome == "fail" else ()
        outcomes[case.name] = Outcome(case.name, figures.get(case.name, {}), "", wrong)
    for skip in _SKIP.finditer(text):
        outcomes[skip[1]] = Outcome(skip[1], skipped=skip[2])
    return outcomes


def as_json(plan: Plan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    told = [asdict(outcome) | {"passed": outcome.passed, "verdict": outcome.verdict} for outcome in outcomes]
    return {"plan": asdict(plan), "classes": told}
