# SPDX-License-Identifier: GPL-2.0
"""KUnit, kselftests, and dcbm on PTDMA, I/OAT and DSA, on the base that is not the default: one kernel."""

from dataclasses import replace

import pytest

from ferry.bench import migbench
from ferry.kernel import kbuild, tree
from ferry.server import profile
from ferry.suites import kselftest, ktap
from ferry.vm import emulator, machine, qemu, records
from tests import suites
from tests.vm import test_ptdma_driver

pytestmark = pytest.mark.vm

BASE = "6.12"
SUITES = [
    *("migrate_offload", "migrate_offload_quota", "migrate_offload_choice", "migrate_offload_eligible"),
    *("migrate_offload_registry", "migrate_offload_overdue"),
    *("migrate_runs", "migrate_ranges", "migrate_batches", "migrate_promote", "migrate_mapped"),
    *("softdma", "dcbm", "mtcopy", "mtcopy_cpus", "ptdma", "hisi_dma", "intel_iommu_empty_tables"),
]
# This kernel has nothing that is told of changes to page tables: the debug kernel has.
SKIPPED = {"migrate_mapped": ["order 4", "order 9", "secondary_mmus_hear_of_it"]}
# Functions of PTDMA for its KUnit tests, each with its fault, and behind them those that dcbm gets.
FAULTY = test_ptdma_driver.SLOTS | {
    "sweeping": "descriptor-ns=1200,bandwidth=3000000000,error-at=81,error-every=81",
}
CHANNELS = 4
FOLIOS = ("4K", "64K", "2M")
# A device of I/OAT has as many.
FUNCTIONS = 8
DRIVERS = {"ioat": "ioatdma", "dsa": "idxd"}
BYTES = 32 << 20
PROGRAMS = [
    *("data", "memory", "move_calls", "mbind_calls"),
    *("run_state", "run_races", "run_mapped", "run_files"),
]


def _function(number: int) -> str:
    return f"0000:00:{profile.SLOT_BESIDE_VIRTME + number:02x}.0"


def _ptdma() -> str:
    """The job's first part. It ends without a driver of PTDMA: the rest is about softdma's channels."""
    names = [f"{name}={_function(i)}" for i, name in enumerate(FAULTY)]
    lines = [
        "step ptdma",
        f"PATH={migbench.build_migbench().parent}:$PATH",
        "modprobe ptdma depth=$PTDMA_DEPTH && modprobe ptdma_test " + " ".join(names) + " || fail 'no tests'",
        "output ptdma </sys/kernel/debug/kunit/ptdma/results",
        "modprobe -r ptdma_test || fail 'ptdma_test stays'",
        *(f"echo {_function(i)} >/sys/bus/pci/drivers/ptdma/unbind" for i in range(len(FAULTY))),
        f"use_dma {CHANNELS} 256",
        "echo 60000 >$OFFLOAD/deadline_ms; echo 1 >$OFFLOAD/engine_always",
    ]
    for folio in FOLIOS:
        lines += [
            "before=$(cat $OFFLOAD/migrators/dcbm/bytes)",
            f"bench {folio} --folio {folio} --bytes {BYTES} --runs 2",
            f"record engine of {folio} bytes: $(($(cat $OFFLOAD/migrators/dcbm/bytes) - before))"
            " errors: $(cat $OFFLOAD/migrators/dcbm/errors)",
        ]
    lines += [
        "echo 0 >$OFFLOAD/engine_always; echo 0 >$OFFLOAD/deadline_ms; echo none >$OFFLOAD/active",
        "modprobe -r dcbm ptdma || fail 'dcbm and ptdma stay'",
    ]
    return "\n".join([*lines, ""])


@pytest.fixture(scope="session")
def boot() -> tuple[str, dict[str, list[ktap.Case]]]:
    """What is said, and the cases of each suite, with a third CPU that stays offline."""
    engine = profile.ENGINES["ptdma"].devices(
        *FAULTY.values(), *[""] * CHANNELS, slot=profile.SLOT_BESIDE_VIRTME
    )
    where = replace(machine.get("smp", 3), kernel_args=("maxcpus=2",), devices=engine)
    kernel = kbuild.build("kunit", tree.places(BASE))
    built = {program.name: program for program in kselftest.build(kernel)}
    programs = [built[name] for name in PROGRAMS]
    said = suites.boot(kernel, where, programs, kunit=True, first=_ptdma())
    return said, suites.cases(said, where, programs)


@pytest.fixture(scope="session")
def results(boot: tuple[str, dict[str, list[ktap.Case]]]) -> dict[str, list[ktap.Case]]:
    return boot[1]


@pytest.mark.parametrize("suite", SUITES)
def test_suite_passes(results: dict[str, list[ktap.Case]], suite: str) -> None:
    """A suite that is missing fails as well."""
    assert not ktap.failed(results[suite])
    assert [case.name for case in results[suite] if case.outcome == "skip"] == SKIPPED.get(suite, [])


@pytest.mark.parametrize("program", PROGRAMS)
def test_kselftest(results: dict[str, list[ktap.Case]], program: str) -> None:
    """No case fails, and at least one is not skipped."""
    cases = results[program]
    assert not ktap.failed(cases), suites.complaints(machine.get("smp"), program)
    assert any(case.outcome == "ok" for case in cases)


def test_every_suite_is_looked_at(results: dict[str, list[ktap.Case]]) -> None:
    assert set(results) == {*SUITES, *PROGRAMS}


@pytest.mark.parametrize("folio", FOLIOS)
def test_dcbm_moves_by_ptdma(boot: tuple[str, dict[str, list[ktap.Case]]], folio: str) -> None:
    """Every byte is compared, and the engine copied nearly all of them: both ways, twice."""
    found = {each["of"]: each["found"] for each in records.every(boot[0], "migbench")}[folio]
    engine = {each["of"]: each for each in records.every(boot[0], "engine")}[folio]
    assert found["passed"]
    assert found["verified_bytes"] >= 2 * BYTES
    assert engine["bytes"] >= 2 * BYTES * 9 // 10
    assert engine["errors"] == 0


@pytest.mark.parametrize("engine", ["ioat", "dsa"])
def test_dcbm_moves_by_an_engine_that_fails(engine: str) -> None:
    """It takes channels of a driver that reports errors, so the CPU copies what they have not."""
    devices = profile.ENGINES[engine].devices(*["error-at=5,error-every=7"] * FUNCTIONS)
    where = replace(machine.get("smp"), program=tuple(emulator.command()), devices=devices)
    script = (
        f"use_dma {FUNCTIONS} 32; cd $OFFLOAD; echo 60000 >deadline_ms; echo 1 >engine_always\n"
        f"bench failing --folio 2M --bytes {BYTES} --runs 2\n"
        "record counted failed: $(cat stats/fallback_error) moved: $(cat migrators/dcbm/bytes)\n"
        f"cd /; echo none >$OFFLOAD/active; modprobe -r dcbm {DRIVERS[engine]} || fail 'they stay'\n"
    )
    kernel = kbuild.build("kunit", tree.places(BASE))
    said = qemu.run(kernel, where, qemu.Job(script, 120.0, programs=migbench.programs())).said
    found, counted = records.of(said, "migbench")["found"], records.of(said, "counted")
    assert found["passed"]
    assert found["verified_bytes"] >= 2 * BYTES
    assert counted["failed"] > 0
    assert counted["moved"] > 0
