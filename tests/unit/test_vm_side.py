# SPDX-License-Identifier: GPL-2.0
"""The lab's logic around a VM that needs no VM: archive, console, machine, rows, TAP, sizes."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ferry import paths
from ferry.bench import migbench, rows
from ferry.errors import FerryError, UsageError
from ferry.kernel.kbuild import Kernel
from ferry.results import present, report
from ferry.suites import ktap
from ferry.vm import console, emulator, initramfs, machine, qemu
from ferry.vm.initramfs import CHARACTERS, FILE, FOLDER, LINK, Entry
from ferry.vm.machine import ARM64, MACHINES, ONE_BY_ONE
from tests import suites

MIGBENCH = {
    "call": "move_pages", "memory": "anon", "folio_kib": 4, "bytes": 4096, "threads": 1, "busy": 0,
    "gbps": 2.0, "gbps_min": 1.0, "gbps_max": 3.0, "cpu_ns_per_page": 10.0, "runs": [{}, {}],
    "minor_faults_per_folio": 0.5, "tlb_shootdowns_per_folio": 0.0,
    "per_call": 0, "first_folio_us": 5.0,
    "inaccessible_us": {"p50": 1.0, "p99": 2.0, "max": 3.0, "samples": 9},
    "verified_bytes": 8192, "mismatched_bytes": 0, "passed": True,
}  # fmt: skip


def row(engine: str, gbps: float, folio_kib: int = 4) -> rows.Row:
    """A row as migbench would have given it."""
    return replace(rows.from_migbench(MIGBENCH, engine, 0), gbps=gbps, folio_kib=folio_kib)


@pytest.mark.skipif(not shutil.which("cpio"), reason="needs cpio(1)")
def test_archive_is_what_cpio_reads(tmp_path: Path) -> None:
    entries = [Entry("a/b/odd", FILE, b"12345"), Entry("a/l", LINK, b"b/odd"), Entry("z", FOLDER)]
    data = initramfs.cpio(initramfs.with_parents(entries))
    subprocess.run(["cpio", "-idm", "--quiet"], cwd=tmp_path, input=data, check=True)
    assert (tmp_path / "a/b/odd").read_bytes() == b"12345"
    assert (tmp_path / "a/l").readlink() == Path("b/odd")
    assert (tmp_path / "z").is_dir()


def test_archive_has_parents_first_and_is_repeatable() -> None:
    entries = [Entry("b/c/d", FILE, b"x"), Entry("a", FILE, b"y")]
    names = [entry.name for entry in initramfs.with_parents(entries)]
    assert names == ["a", "b", "b/c", "b/c/d"]
    one, other = (initramfs.cpio(initramfs.with_parents(some)) for some in (entries, entries[::-1]))
    assert one == other


def test_archive_members_are_aligned() -> None:
    data = initramfs.cpio([Entry("dev/console", CHARACTERS, device=(5, 1)), Entry("f", FILE, b"abcde")])
    assert len(data) % 4 == 0
    assert data.startswith(b"070701")
    assert data.index(b"070701", 6) % 4 == 0
    assert b"TRAILER!!!" in data


@pytest.mark.parametrize(
    "line",
    [
        "[    1.0] WARNING: CPU: 1 PID: 0 at mm/migrate.c:7 f+0x1/0x2",
        "[    1.0] WARNING: possible circular locking dependency detected",
        "[    1.0][    T1] BUG: KASAN: slab-use-after-free in f+0x1/0x2",
        "[    1.0] INFO: task kworker/0:1:9 blocked for more than 120 seconds.",
        "[    1.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "[    1.0] watchdog: BUG: soft lockup - CPU#0 stuck for 22s!",
        "[    1.0] Kernel panic - not syncing: sysrq triggered crash",
        "[    1.0] Oops: general protection fault, probably for non-canonical address",
        "[    1.0] page dumped because: still mapped when deleted",
        "[    1.0] DMA-API: cacheline tracking EEXIST, overlapping mappings aren't supported",
        "[    1.0] traps: python3[251] general protection fault ip:4feee4 sp:7fff error:0 in python3.11",
        "[    1.0] bench[52]: segfault at 7f0000000000 ip 0000000000401000 sp 00007fff error 4 in bench",
    ],
)
def test_console_complaint_is_found_with_its_step(line: str) -> None:
    (found,) = console.findings(f"[    0.5] ferry: 4K dcbm\n{line}\n[    2.0] fine")
    assert found.startswith("[4K dcbm] ")


def test_console_is_quiet_about_what_is_usual() -> None:
    usual = "[    1.0] Spectre V2 : WARNING: eBPF\nWARNING: from vng\n[    1.0] softdma: for tests only"
    assert console.findings(usual) == []


@pytest.mark.parametrize(
    "line",
    [
        "page dumped because: migration failure",
        "page dumped because: isolation failed",
        "page dumped because: unmovable page",
        "DMA-API: cacheline tracking ENOMEM, dma-debug disabled",
    ],
)
def test_console_is_quiet_about_what_tests_provoke(line: str) -> None:
    assert console.findings(f"[    1.0] {line}") == []


@pytest.mark.parametrize(
    ("race", "counts"),
    [
        ("pipeline_flow / lapic_cal_handler", True),
        ("lapic_cal_handler / pipeline_flow.isra.0", True),
        ("pipeline_flow.constprop.0", True),
        ("dma_of_another [module] / pipeline_flow", True),
        ("lapic_cal_handler / setup_boot_APIC_clock", False),
        ("pipeline_flow_of_another / lapic_cal_handler", False),
    ],
)
def test_data_races_count_if_they_are_ours(race: str, counts: bool) -> None:
    log = f"[    1.0] BUG: KCSAN: data-race in {race}"
    assert console.has_races(log)
    assert bool(console.findings(log, frozenset({"pipeline_flow"}))) == counts
    assert console.findings(log)


def test_our_functions_are_those_of_our_files() -> None:
    files = console.sources()
    assert {"mm/migrate_offload/pipeline.c", "mm/migrate.c", "drivers/iommu/iommufd/io_pagetable.c"} <= set(
        files
    )
    assert not [name for name in files if not name.endswith(".c")]


def test_machine_places_cpus_and_memory() -> None:
    smp = MACHINES["smp"].qemu_args()
    assert "node,nodeid=1,memdev=ram1,cpus=1-1" in smp
    assert "tcg,thread=multi,tb-size=128" in smp
    assert MACHINES["smp"].smp == "2,sockets=2,cores=1,maxcpus=2"
    assert "node,nodeid=1,memdev=ram1,initiator=0" in MACHINES["cxl"].qemu_args()
    assert "shift=0,sleep=off" in MACHINES["icount"].qemu_args()
    assert MACHINES["smp"].with_cpus(1).cpu_nodes == 1


def test_a_board_for_arm64_has_the_ports_of_a_pc() -> None:
    """The job's and the result's, by the names that guest/run.sh knows; its console has another."""
    kernel = Kernel("arm64", "6.12-arm64", *[Path("built")] * 4)
    words = qemu._initramfs_command(kernel, ARM64, qemu.Job("", 1.0), Path("vm"))
    assert words[:1] == ["qemu-system-aarch64"]
    assert "console=ttyAMA0" in words[words.index("-append") + 1].split()
    assert words.count("-serial") == 1
    assert "pci-serial-4x,chardev2=chardev2,chardev3=chardev3" in words
    assert "file,id=chardev3,path=vm/result" in words


def test_a_machine_that_counts_does_not_wait_for_a_timer_that_it_cannot_use() -> None:
    assert MACHINES["icount"].one_by_one().command_line == ("nolapic_timer", ONE_BY_ONE)
    assert MACHINES["smp"].one_by_one().command_line == (ONE_BY_ONE,)


def test_threads_are_run_by_the_labs_own_emulator() -> None:
    """It has no KVM, and counts as Debian's does."""
    debian = ("qemu-system-x86_64",)
    assert MACHINES["smp"].command() == tuple(emulator.command())
    assert MACHINES["smp"].command(kvm=True) == MACHINES["icount"].command() == debian
    assert replace(MACHINES["smp"], program=("mine", "-x")).command() == ("mine", "-x")


def test_machine_takes_what_the_host_has() -> None:
    assert MACHINES["smp"].fitted(64 * 1024).node_mib == 2048
    assert MACHINES["smp"].fitted(3 * 1024).node_mib == 1024
    with pytest.raises(FerryError, match="free some"):
        MACHINES["smp"].fitted(1500)
    with pytest.raises(UsageError, match="no machine"):
        machine.get("mainframe")
    with pytest.raises(UsageError, match="--kvm"):
        MACHINES["icount"].qemu_args(kvm=True)


@pytest.mark.parametrize("name", [name for name, each in MACHINES.items() if each.icount])
def test_a_machine_that_counts_never_has_less_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures would depend on what the host has free."""
    need = MACHINES[name].node_mib * MACHINES[name].nodes + machine.HOST_RESERVE_MIB
    monkeypatch.setattr(machine, "available_mib", lambda: need)
    assert machine.get(name).node_mib == MACHINES[name].node_mib
    monkeypatch.setattr(machine, "available_mib", lambda: need - 1)
    with pytest.raises(FerryError, match=f"a VM needs {need}: free some"):
        machine.get(name)


def test_a_machine_that_counts_has_what_it_says() -> None:
    odd = machine.Machine("odd", node_mib=1000, icount=True)
    assert odd.fitted(1000 * odd.nodes + machine.HOST_RESERVE_MIB).node_mib == 1000


def test_rows_get_their_ratio_to_vanilla_of_the_same_folio() -> None:
    found = rows.with_ratios([row("mtcopy", 3.0), row("vanilla", 8.0, 2048), row("vanilla", 2.0)])
    assert [(r.folio_kib, r.engine, r.ratio) for r in found] == [
        (4, "vanilla", 1.0),
        (4, "mtcopy", 1.5),
        (2048, "vanilla", 1.0),
    ]
    assert rows.with_ratios([row("cpu", 1.0)])[0].ratio is None


def test_rounds_become_one_row_of_medians() -> None:
    away: list[dict[str, float | None]] = [{"p50": 1.0 * i, "p99": None, "max": 3.0 * i} for i in (3, 1, 2)]
    rounds = [
        replace(row("cpu", gbps), inaccessible_us=each)
        for gbps, each in zip((3.0, 9.0, 2.0), away, strict=True)
    ]
    found, other = rows.over_rounds([*rounds, row("cpu", 5.0, 64)])
    assert (found.gbps, found.runs, found.verified_bytes) == (
        3.0,
        3 * rounds[0].runs,
        3 * rounds[0].verified_bytes,
    )
    assert found.inaccessible_us == {"p50": 2.0, "p99": None, "max": 9.0}
    assert other == row("cpu", 5.0, 64)


@pytest.mark.parametrize(
    "wrong", [{"passed": False}, {"mismatched_bytes": 1}, {"verified_bytes": 0}, {"gbps": None}]
)
def test_row_of_a_failed_move_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(FerryError):
        rows.from_migbench(MIGBENCH | wrong if wrong != {"gbps": None} else {}, "dcbm", 4)


def test_row_has_the_documented_keys() -> None:
    wanted = {"call", "folio_kib", "engine", "channels", "bytes", "gbps", "ratio", "first_folio_us"}
    wanted |= {"inaccessible_us", "cpu_ns_per_page", "verified_bytes", "write_wait_us", "writes"}
    wanted |= {"minor_faults_per_folio", "tlb_shootdowns_per_folio"}
    found = row("cpu", 1.0).as_json()
    assert wanted <= found.keys()
    assert set(found["inaccessible_us"]) == {"p50", "p99", "max"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"engines": ("warp",)}, "no engine 'warp'"),
        ({"folios": ("8K",)}, "no folio size '8K'"),
        ({"size": "4Q"}, "is no size"),
        ({"size": "0K"}, "is no size"),
        ({"size": "2G"}, "do not fit"),
        ({"channels": 65}, "1 to 64"),
        ({"rounds": 0}, "0 rounds"),
    ],
)
def test_plan_refuses_nonsense_before_a_boot(change: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        replace(migbench.Plan(), **change).check(MACHINES["smp"])  # type: ignore[arg-type]


def test_plan_needs_a_second_node() -> None:
    with pytest.raises(UsageError, match="no second node"):
        migbench.Plan().check(replace(MACHINES["smp"], nodes=1, cpu_nodes=1))


def test_plan_sends_each_engine_to_its_kernel() -> None:
    vanilla, ferry = migbench.Plan(ferry="unbatched").parts()
    assert (vanilla.engines, vanilla.flavour) == (("vanilla",), "vanilla")
    assert (ferry.engines, ferry.flavour) == (("cpu", "mtcopy", "dcbm"), "unbatched")
    assert [part.flavour for part in migbench.Plan(engines=("none",)).parts()] == ["ferry"]
    assert "use_engine" not in migbench.script(vanilla)
    assert migbench.script(ferry).count("use_engine dcbm 4") == 3


def test_direct_reads_are_of_a_device_as_large_as_the_memory() -> None:
    (part,) = migbench.Plan(engines=("cpu",), size="96M", direct=True).parts()
    lines = migbench.script(part).splitlines()
    assert lines[0] == "loop_device /dev/loop0 96M"
    benches = [line for line in lines if line.startswith("bench ")]
    assert benches
    assert all("--direct-from /dev/loop0 --allow-partial" in line for line in benches)


def test_waits_of_writers_are_shown_beside_the_others() -> None:
    told = MIGBENCH | {"write_wait_us": {"p50": 5.0, "p99": 393.0, "max": 666.0, "samples": 3}}
    written = rows.from_migbench(told, "dcbm", 4)
    table = present.grid("", [written.as_json()])
    assert "5.0 / 393.0 / 666.0" in table.lines[0]
    assert len(present.grid("", [row("cpu", 1.0).as_json()]).head) < len(table.head)


def test_faults_of_a_promotion_are_shown_beside_the_others() -> None:
    told = MIGBENCH | {"fault_us": {"p50": 1.6, "p99": 75.0, "max": 80.0, "samples": 3}}
    promoted = rows.from_migbench(told, "none", 0)
    assert "1.6 / 75.0 / 80.0" in present.grid("", [promoted.as_json()]).lines[0]


def test_unwritable_output_is_refused_early(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    report.check_writable(tmp_path / "new.json")
    assert not (tmp_path / "new.json.new").exists()
    for bad in (tmp_path, tmp_path / "file/x.json", Path("/proc/ferry.json")):
        with pytest.raises(UsageError):
            report.check_writable(bad)


def test_ktap_reads_nested_results() -> None:
    inner = "    KTAP version 1\n    1..2\n    ok 1 a\n    ok 2 b # SKIP no disk\n"
    text = f"KTAP version 1\n1..1\n{inner}ok 1 suite"
    found = ktap.parse(text)
    assert [(c.name, c.outcome) for c in found] == [("a", "ok"), ("b", "skip"), ("suite", "ok")]
    assert ktap.skipped(found) == ["b: SKIP no disk"]


@pytest.mark.parametrize(
    "text", ["", "1..2\nok 1 a", "1..1\nnot ok 1 a", "1..1\n    1..2\n    ok 1 a\nok 1 s"]
)
def test_ktap_missing_or_failed_case_fails(text: str) -> None:
    assert ktap.failed(ktap.parse(text))


def test_a_program_that_says_nothing_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel("ferry", "6.12.1", Path(), Path(), Path(), Path())
    monkeypatch.setattr(qemu, "run", lambda *args: qemu.Result(0, "", "", ""))
    cases = suites.run(kernel, MACHINES["smp"], [tmp_path / "silent"], kunit=False)
    assert ktap.failed(cases["silent"])


def test_complaints_are_what_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads of a failure elsewhere has nothing but the message."""
    monkeypatch.setattr(paths, "LOGS", tmp_path)
    log = suites.log(machine.get("smp"), "x")
    log.write_text(
        "#  RUN           f.a ...\n# x.c:9:a:Expected 0\n#  FAIL  f.a\nnot ok 1 f.a\n#            OK  f.b\n"
    )
    assert suites.complaints(machine.get("smp"), "x").splitlines() == [
        str(log), "# x.c:9:a:Expected 0", "#  FAIL  f.a",
    ]  # fmt: skip
