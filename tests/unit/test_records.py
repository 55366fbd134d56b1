# SPDX-License-Identifier: GPL-2.0
"""Records: what a guest's shell writes is what the lab reads, whatever else is said meanwhile."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from ferry import paths
from ferry.bench import clients, iommu, rows, steps
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.suites import kselftest, mmtests
from ferry.vm import qemu, records
from tests.unit import said
from tests.unit.conftest import FakeProgram

AWKWARD = (
    *("", " ", "7", "007", "-n", "-e", "--", "two  words", "*", "%s\\n", "$HOME `id`", "it's", '"', '\\"'),
    *("\\", "\\\\n", "a\tb", '{"record": "exit", "status": 0}', "/&\\1", "ü €", "x" * 9000),
)
shells = pytest.mark.parametrize("shell", [each for each in said.SHELLS if shutil.which(each.split()[0])])


@shells
def test_any_text_arrives_as_it_was(shell: str, tmp_path: Path) -> None:
    texts = [*AWKWARD, "one\ntwo\n\nfour", "cr\r", "\n"]
    script = "".join(f"record text is {shlex.quote(text)} number: 7\n" for text in texts)
    _, text = said.by_job(tmp_path, script, shell=shell)
    found = records.every(text, "text")
    assert found == [json.loads(line) for line in text.splitlines()]
    assert found == [{"record": "text", "is": each, "number": 7} for each in texts]


@shells
def test_output_arrives_line_by_line(shell: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes("\n".join([*AWKWARD, "a\x1b[1m\x01b"]).encode())
    script = "for name in 'a -s 1' '/&\\\"'; do output \"$name\" <text; done"
    text = "\n".join([*AWKWARD, "a\ufffd[1m\ufffdb"])
    _, found = said.by_job(tmp_path, script, shell=shell)
    assert kselftest.outputs(found) == {"a -s 1": text, '/&\\"': text}


@shells
def test_a_record_may_have_json_or_nothing(shell: str, tmp_path: Path) -> None:
    script = "words='pairs: 5 ns: 70'; record bench of x $words; record none; fail no such 'node  1'"
    status, text = said.by_job(tmp_path, f"record row found: '{{\"runs\": [1, 2.5]}}'\n{script}", shell=shell)
    assert status == 1
    assert records.of(text, "row")["found"] == {"runs": [1, 2.5]}
    assert records.of(text, "bench") == {"record": "bench", "of": "x", "pairs": 5, "ns": 70}
    assert records.of(text, "none") == {"record": "none"}
    assert records.of(text, "error")["text"] == "no such node  1"


@shells
@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (
            "migbench: FAILED: nothing has moved\n  verified  5 MiB\nFAILED\n",
            "migbench: FAILED: nothing has moved",
        ),
        ("using 2 movers\nmigbench: cannot move\n", "migbench: cannot move"),
    ],
)
def test_a_benchmark_that_failed_says_why(shell: str, printed: str, why: str, tmp_path: Path) -> None:
    script = f"migbench() {{ printf %s {shlex.quote(printed)}; return 4; }}\nstep move; bench row --runs 3"
    status, text = said.by_job(tmp_path, script, shell=shell)
    assert status == 1
    assert records.of(text, "error")["text"] == f"move: {why}"


def test_what_else_is_said_is_passed_over() -> None:
    one, two = (said.record("move", us=us).strip() for us in (1, 2))
    noise = f"[    1.0] a message{one}[    1.1] and another\n{two[:20]}[    1.2] within\n{two[20:]}\n"
    text = f'{noise}{two}{two}\n{{"record": "moves"}}\n{said.record("other", text=one)}{one[:-1]}'
    for ends in ("\n", "\r\n"):
        assert [each["us"] for each in records.every(text.replace("\n", ends), "move")] == [1, 2, 2]


@pytest.mark.parametrize(("count", "text"), [(0, "one\ntwo\nthree"), (2, said.record("row") * 2 + "three")])
def test_what_is_missing_or_twice_is_named_with_the_end_of_all(count: int, text: str) -> None:
    with pytest.raises(FerryError, match=rf"^{count} records 'row' instead of one; .*:\n(.*\n)*  \| three$"):
        records.of(text, "row")


# --- what jobs write is what their readers read ---


@shells
def test_a_job_ends_with_its_exit_status(shell: str, tmp_path: Path, fake_program: FakeProgram) -> None:
    fake_program("stty", "")
    text = (qemu.GUEST / "run.sh").read_text().replace("/dev/ttyS", f"{tmp_path}/port")
    (tmp_path / "job.sh").write_text("echo shown; exit 7")
    script = f"FERRY_JOB={tmp_path}/job.sh\n{text}"
    subprocess.run([*shell.split(), "-c", script], check=True)
    assert records.of((tmp_path / "port2").read_text(), "exit")["status"] == 7
    assert (tmp_path / "port1").read_text() == "shown\n"


@shells
def test_cycles_are_those_of_the_trace(shell: str, tmp_path: Path) -> None:
    trace = (
        "x-1 [0] ... 100 : mm_migrate_pages_start: mode\nx-1 [0] ... 150 : set_migration_pte: a\n"
        "x-1 [0] ... 170 : migrate_offload_remap: b\nx-1 [0] ... 400 : mm_migrate_pages: nr_succeeded=512 x\n"
    )
    (tmp_path / "given").write_text(trace)
    folders = (
        "migrate/set_migration_pte migrate/set_migration_run migrate_offload/migrate_offload_remap "
        "migrate/mm_migrate_pages migrate/mm_migrate_pages_start"
    )
    script = f"""
TRACE=$WORK/trace OFFLOAD=$WORK
mkdir() {{
	for one in {folders}; do command mkdir -p $TRACE/events/$one; done
	cp given $TRACE/trace
}}
cycles 3 true"""
    _, text = said.by_job(tmp_path, script, shell=shell)
    assert records.of(text, "cycles") == {
        "record": "cycles", "of": "3", "total": 300, "moved": 512, "copies": 20
    }  # fmt: skip


@shells
def test_a_server_that_is_moved_is_read(shell: str, tmp_path: Path, fake_program: FakeProgram) -> None:
    done = "total_commands_processed:5"
    fake_program("redis-cli", f'case "$*" in *DIGEST) echo 0f ;; *TIME) echo 7 0 ;; *) echo {done} ;; esac')
    fake_program("redis-benchmark", """printf '"a","rps"\\n"GET k","9.5","1","2","3","4","5","6.5"\\n'""")
    for name in ("redis-server", "migratepages"):
        fake_program(name, "")
    (tmp_path / "pages").touch()
    cell, plan = clients.Cell("4K", "none"), clients.Plan(keys=1, trips=1)
    # There is a page more whenever they are counted. The load need not last.
    there = "on_node() { echo x >>pages; wc -l <pages; }; pidof() { echo self; }"
    there += "; activate() { :; }; sleep() { :; }; kill() { :; }\nstep redis"
    status, text = said.by_job(tmp_path, clients.script(plan, cell).replace("step redis", there), shell=shell)
    found = clients.parse(text, cell, plan)
    assert status == 0
    assert [*found["still"].values()] == [*found["moved"].values()] == [9.5, 3, 5, 6.5]
    assert found["moves"] == [{"us": 0, "requests": 0, "bytes": 4096}] * 2


@shells
def test_figures_of_the_iommu_are_read(shell: str, tmp_path: Path) -> None:
    script = """
RUN=run
# The module answers in the file where it is asked.
echo() { printf 'pairs=10 ns=7000 errors=0\\n'; }
tables() { printf 40; }
disk_reads() { :; }
insmod() { :; }
rmmod() { :; }
awk() { printf 50; }
record start kib: 8
measure same_4k 1 20000
api api_ring 4 1000
disk 30000"""
    _, text = said.by_job(tmp_path, script, shell=shell, libraries=("iommu.sh",))
    seen = iommu.parse(text)
    assert seen.insn == {"driver_4k": 700.0}
    assert seen.left == {
        "api_ring 4": {"pairs": 4000, "early": 32, "late": 32},
        "disk 4": {"pairs": 50, "early": 32, "late": 32},
    }


@shells
def test_linuxs_own_tests_are_read(shell: str, tmp_path: Path) -> None:
    plan = mmtests.Plan(("ksm_tests -N -m 1", "cow"), ("none",))
    for name, text in (("ksm_tests", "exit 4"), ("cow", "printf '1..2\\nok 1 \"a\"\\nnot ok 2 b'; exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = mmtests.script(plan, rows.VANILLA, tmp_path).replace("/proc/sys/vm", str(tmp_path))
    skipped, failed = mmtests.parse(said.by_job(tmp_path, script, shell=shell)[1], "none")
    assert (skipped["test"], skipped["verdict"], skipped["tries"]) == ("ksm_tests -N -m 1", "skip", 1)
    assert failed.items() >= {"verdict": "fail", "tries": mmtests.TRIES, "passed": 1, "failed": ["b"]}.items()


def test_symbols_of_modules_are_read(tmp_path: Path) -> None:
    """Not those of the kernel itself, and no data."""
    lines = (
        "ffffffff81000000 T _stext\nffffffffc0000008 t a.part.0\t[dcbm]\nffffffffc0000010 d data\t[dcbm]\n"
    )
    (tmp_path / "kallsyms").write_text(lines)
    symbols = steps.script(steps.Plan(), rows.VANILLA, "4K").splitlines()[0].replace("/proc/", "")
    _, text = said.by_job(tmp_path, symbols, shell="sh")
    assert records.of(text, "symbol") == {
        "record": "symbol",
        "address": "ffffffffc0000008",
        "name": "a.part.0",
    }


def test_what_a_lost_guest_recorded_last_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody knows how far it came: its end alone may be what is missing."""
    monkeypatch.setattr(paths, "LOGS", tmp_path / "log")
    (tmp_path / "console").write_text("reboot: Power down\n")
    (tmp_path / "result").write_text('{"record": "a"}\n{"record": "remap", "wrong": 0}\n{"rec')
    here = tmp_path
    kernel = kbuild.Kernel("ferry", "6.12.1", here, here, here, here)
    with pytest.raises(qemu.LostVM, match=r'Power down\nand what it recorded with:\n  \| \{"rec$') as caught:
        qemu._judge(kernel, tmp_path, qemu.Job("", 1.0), in_time=True)
    assert records.every(caught.value.said, "remap") == [{"record": "remap", "wrong": 0}]
