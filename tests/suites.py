# SPDX-License-Identifier: GPL-2.0
"""The kernel's own tests of Ferry, in a guest: KUnit suites and kselftests, all in one boot."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

from ferry import files, paths
from ferry.kernel.kbuild import Kernel
from ferry.suites import kselftest, ktap
from ferry.vm import machine as machines
from ferry.vm import qemu
from ferry.vm.machine import Machine

MODULES = ("softdma", "dcbm", "mtcopy")
AGAIN = "one-by-one"  # what runs there has run in ranges before
# What each machine is for, in this order: sysfs wants to see the defaults. What callers needs, no one
# machine has; it skips the rest.
# The poisons come last: what is poisoned stays so until the next boot, also where Linux lost track of it.
PROGRAMS = {
    "smp": (
        *("sysfs", "data", "concurrent", "extra_refs", "faults", "inflight", "providers", "helpers"),
        *("writers", "writers_tables", "unload", "memory", "move_calls", "mbind_calls", "huge_calls"),
        *("run_state", "run_races"),
        *("run_mapped", "run_files", "run_poison", "poison"),
    ),
    # Once more what moves anonymous memory, where folios are not unmapped in ranges.
    AGAIN: (
        *("data", "concurrent", "extra_refs", "faults", "inflight", "memory", "move_calls"),
        *("mbind_calls", "huge_calls"),
        *("run_state", "run_races", "run_files", "torture", "run_poison", "poison"),
    ),
    "movable": ("callers", "torture"),
    "cxl": ("callers", "promote", "tiering"),
}
KUNIT = "/sys/kernel/debug/kunit"
TEST_S = 600


def get(name: str) -> Machine:
    """A machine of PROGRAMS. The logs of the one without ranges have a name of their own."""
    return machines.get(name) if name != AGAIN else replace(machines.get("smp").one_by_one(), name=AGAIN)


def script(kunit: bool, programs: list[Path]) -> str:
    """The job: loading a module runs its KUnit suites; each kselftest has a time limit."""
    lines = []
    if kunit:
        lines += [f"modprobe {name} || fail 'cannot load {name}'" for name in MODULES]
        lines += [
            f"for suite in {KUNIT}/*; do step KUnit ${{suite##*/}}",
            'output "${suite##*/}" <$suite/results; done',
            f"modprobe -r {' '.join(MODULES[::-1])} || fail 'the modules cannot be unloaded'",
        ]
    for program in programs:
        lines += [
            f"step kselftest {program.name}",
            f"timeout -k 5 {TEST_S} {shlex.quote(str(program))} 2>&1 </dev/null | output {program.name}",
        ]
    return "\n".join(["cd /dev/shm", *lines])


def run(kernel: Kernel, machine: Machine, programs: list[Path], *, kunit: bool) -> dict[str, list[ktap.Case]]:
    """The cases of each suite by its name. Raises DirtyConsole if the kernel complained meanwhile."""
    return cases(boot(kernel, machine, programs, kunit=kunit), machine, programs)


def boot(kernel: Kernel, machine: Machine, programs: list[Path], *, kunit: bool, first: str = "") -> str:
    """What is said in one boot, where a script may do something first. Raises as run()."""
    limit = 120.0 + TEST_S * (len(programs) + kunit + bool(first))
    args = ("kunit.enable=1",) if kunit else ()
    # What is built for another architecture cannot run on this one's root.
    given = {str(program): program for program in programs} if machine.arm64 else {}
    text = first + script(kunit, programs)
    job = qemu.Job(text, limit, host_root=not machine.arm64, programs=given, kernel_args=args)
    return qemu.run(kernel, machine, job).said


def cases(said: str, machine: Machine, programs: list[Path]) -> dict[str, list[ktap.Case]]:
    """Of what is said in a boot the cases of each suite by its name."""
    # None is left out because it says nothing.
    texts = {program.name: "" for program in programs} | kselftest.outputs(said)
    for name, text in texts.items():
        files.write(log(machine, name), text)
    return {name: ktap.parse(text) for name, text in texts.items()}


def log(machine: Machine, name: str) -> Path:
    """Where the output of a suite is kept: the cases do not say which line failed."""
    return paths.LOGS / f"{name}-on-{machine.name}.log"


def complaints(machine: Machine, name: str) -> str:
    """What a suite said in its last run beside the results: which conditions were not met, where."""
    lines = log(machine, name).read_text().splitlines()
    said = [line for line in lines if line.startswith("# ") and not re.match(r"# +(RUN|OK) ", line)]
    return "\n".join([str(log(machine, name)), *said])
