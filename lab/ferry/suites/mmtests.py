# SPDX-License-Identifier: GPL-2.0
"""Linux's own tests of memory management that move pages, with a copy engine active or without one.

They come with the kernel's source (tools/testing/selftests/mm), and know nothing of Ferry. Some fail or
skip on an unchanged kernel too, or fail now and then: so each result stands beside that one's, and what fails
is tried again.
"""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from ferry import files, packages, paths
from ferry.bench import migbench, rows
from ferry.errors import FerryError, choose
from ferry.kernel import kbuild
from ferry.kernel.kbuild import Kernel
from ferry.suites import kselftest, ktap
from ferry.vm import boots, machine, qemu, records
from ferry.vm.boots import Boot, Said
from ferry.vm.machine import Machine
from ferry.vm.records import Record
from ferry.vm.store import Store

# What not all bases have, or call so. khugepaged.c of 6.12.117 does not compile.
OF_BASE = {
    "6.12": ("hugepage-mremap",),
    "7.3": ("hugetlb-mremap", "hugetlb-soft-offline", "rmap", "folio_split_race_test"),
}
# Command lines, as run_vmtests.sh has them.
TESTS = (
    *("migration", "cow", "uffd-unit-tests", "ksm_functional_tests", "ksm_tests -P -s 100"),
    *("ksm_tests -M -p 10", "ksm_tests -N -m 1", "ksm_tests -N -m 0", "mremap_test", "mremap_dontunmap"),
    *("split_huge_page_test", "madv_populate", "mkdirty", "transhuge-stress -d 10"),
    *OF_BASE.get(paths.BASE, ()),
)
KSFT_SKIP = 4
TEST_S = 600
TRIES = 3
BOOT_S = 120.0
# cow, ksm and those of hugetlb want some of 2 MiB.
HUGE_PAGES = 160
# However small a call is, whoever makes it, and be the engine slower than the CPU.
ANY_CALL = (
    "for set in 'reasons all' 'min_bytes 4096' 'engine_always 1'; do echo ${set#* } >$OFFLOAD/${set% *}; done"
)


@dataclass(frozen=True)
class Plan:
    """Which tests, with which engines."""

    tests: tuple[str, ...] = TESTS
    engines: tuple[str, ...] = (rows.VANILLA, "none", "dcbm")

    @property
    def machine(self) -> Machine:
        """Two nodes; `migration` wants three CPUs."""
        return replace(machine.get("smp", 4), node_mib=1536)

    def check(self) -> None:
        """Raise UsageError for what can be known to fail without a boot."""
        choose("test", self.tests, TESTS)
        choose("engine", self.engines, migbench.ENGINES)


def build(kernel: Kernel, tests: tuple[str, ...]) -> Path:
    packages.ensure(["gcc", "libc6-dev", "make", "libnuma-dev", "libcap-dev"])
    return kselftest.build_folder(kernel, "mm", sorted({test.split()[0] for test in tests}))[0].parent


def script(plan: Plan, engine: str, programs: Path) -> str:
    """The job that runs all tests with one engine; vanilla and none need no word."""
    lines = [f"cd {shlex.quote(str(programs))}", f"echo {HUGE_PAGES} >/proc/sys/vm/nr_hugepages"]
    if engine != rows.VANILLA:
        lines += [f"use_engine {engine} 4", ANY_CALL]
    for test in plan.tests:
        name = shlex.quote(test)
        lines += [
            f"step {test}",
            f"for try in $(seq {TRIES}); do",
            f"timeout -k 5 {TEST_S} ./{test} >$WORK/said 2>&1 </dev/null; status=$?",
            f"case $status in 0 | {KSFT_SKIP}) break ;; esac; done",
            f"output {name} <$WORK/said; record ended test {name} status: $status tries: $try",
        ]
    if engine not in (rows.VANILLA, "none"):
        lines.append('record copied folios: "$(cat "$OFFLOAD/migrators/$(cat $OFFLOAD/active)/folios")"')
    return "\n".join(lines)


def run(plan: Plan, store: Store | None = None) -> tuple[list[Record], dict[str, int]]:
    """All outcomes, engine by engine, and how many folios each engine copied.

    Raises DirtyConsole if a kernel complained, FerryError if a guest did not say how a test ended.
    """
    programs = build(kbuild.build(rows.flavour(plan.engines[0])), plan.tests)
    limit = BOOT_S + TEST_S * TRIES * len(plan.tests)
    jobs = {name: qemu.Job(script(plan, name, programs), limit, host_root=True) for name in plan.engines}
    all_boots = [Boot(f"mm, {name}", rows.flavour(name), plan.machine, job) for name, job in jobs.items()]
    copied: dict[str, int] = {}

    def parsed(index: int, said: Said) -> list[Record]:
        engine = plan.engines[index]
        outcomes = parse(said.text, engine)
        if len(outcomes) != len(plan.tests):
            raise FerryError(f"{len(outcomes)} of {len(plan.tests)} tests ended on {engine}")
        texts = kselftest.outputs(said.text)
        for test in plan.tests:
            files.write(log(test, engine), texts.get(test, ""))
        copied.update((engine, record["folios"]) for record in records.every(said.text, "copied"))
        return [outcome | ({"records": [said.record]} if said.record else {}) for outcome in outcomes]

    of_engines, _ = boots.run("Linux's tests of mm", all_boots, parsed, store)
    return [outcome for outcomes in of_engines for outcome in outcomes], copied


def log(test: str, engine: str) -> Path:
    return paths.LOGS / f"{test.replace(' ', '')}-on-{engine}.log"


def parse(said: str, engine: str) -> list[Record]:
    """Of each test that ended the last try: its exit status, what run_vmtests.sh would say of that, and what
    its cases said if it speaks TAP."""
    outcomes = []
    texts = kselftest.outputs(said)
    for end in records.every(said, "ended"):
        text = texts.get(end["test"], "")
        # Not all of them speak TAP; then there is but the status.
        cases = ktap.parse(text) if "1.." in text else []
        outcomes.append(
            {
                **{"test": end["test"], "engine": engine, "status": end["status"], "tries": end["tries"]},
                "passed": sum(case.outcome == "ok" for case in cases),
                **{"skipped": ktap.skipped(cases), "failed": ktap.failed(cases)},
                "verdict": {0: "ok", KSFT_SKIP: "skip"}.get(end["status"], "fail"),
            }
        )
    return outcomes


def worse(outcomes: list[Record]) -> list[str]:
    """What fails with Ferry and not on the unchanged kernel, if that was asked for."""
    vanilla = {outcome["test"]: outcome for outcome in outcomes if outcome["engine"] == rows.VANILLA}
    lines = []
    for outcome in outcomes:
        test, engine = outcome["test"], outcome["engine"]
        if engine == rows.VANILLA:
            continue
        before = vanilla.get(test, {"verdict": "ok", "failed": ()})
        if outcome["verdict"] == "fail" != before["verdict"]:
            lines.append(f"{test}, {engine}: status {outcome['status']}; see {log(test, engine)}")
        lines += [f"{test}, {engine}: {case}" for case in outcome["failed"] if case not in before["failed"]]
    return lines
