# SPDX-License-Identifier: GPL-2.0
"""migbench on the machine at hand: no VM, no second node, no root."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
NODES = list(Path("/sys/devices/system/node").glob("node[0-9]*"))


@pytest.fixture(scope="session")
def migbench() -> Path:
    """The static binary, as it goes into a VM."""
    subprocess.run(["make", "-C", str(BENCH)], check=True, capture_output=True)
    return BENCH / "migbench"


@pytest.fixture(scope="session")
def sanitized() -> Path:
    """The same sources under ASan and UBSan: any finding ends the process."""
    subprocess.run(["make", "-C", str(BENCH), "sanitize"], check=True, capture_output=True)
    return BENCH / "migbench-sanitize"


def run(program: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *args], capture_output=True, text=True, timeout=120)


def test_help_gives_every_option_with_default_and_example(sanitized: Path) -> None:
    result = run(sanitized, "--help")
    assert result.returncode == 0
    options = re.findall(r"^  --(\S+).*\n +\S.*\n +default .+; example: --(\S+)", result.stdout, re.MULTILINE)
    source = (BENCH / "options.c").read_text()
    table = re.findall(r'^\t\{ "([a-z-]+)",', source, re.MULTILINE)
    assert [name for name, _ in options] == table
    assert all(name == example for name, example in options)
    assert max(map(len, result.stdout.splitlines())) <= 90


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--nonsense"], "--nonsense: no such option"),
        (["stray"], "stray: no such option"),
        (["--call", "splice"], "--call splice: must be one of move_pages|"),
        (["--folio", "8K"], "--folio 8K: must be one of 4K|16K|"),
        (["--folio", "4K|16K"], "--folio 4K|16K: must be one of"),
        (["--memory", "disk"], "--memory disk: must be one of anon|"),
        (["--memory", "file"], "--memory file: needs --file PATH"),
        (["--memory", "weights", "--stall"], "--stall: writes, so --memory must not be weights"),
        (["--memory", "weights", "--writers", "1"], "--writers: writes, so --memory must not be weights"),
        (["--file", "/tmp/x"], "--file /tmp/x: only goes with --memory file"),
        (["--memory", "hugetlb"], "--folio 4K: must be 2M or 1G with --memory hugetlb"),
        (["--folio", "1G", "--bytes", "1G"], "--folio 1048576K: must be 2M or 1G with --memory hugetlb"),
        (["--bytes", "64Q"], "--bytes 64Q: must be a size"),
        (["--bytes", "0"], "--bytes 0: must be a size"),
        (["--bytes", "99999999999G"], "--bytes 99999999999G: must be a size"),
        (["--bytes", "3M", "--folio", "2M"], "--bytes 3145728: must be a multiple"),
        (["--from", "-1"], "--from -1: must be a number from 0"),
        (["--from", "1", "--to", "1"], "--to 1: must differ from --from 1"),
        (["--runs", "0"], "--runs 0: must be a number from 1"),
        (["--runs", "100001"], "--runs 100001: must be a number from 1 to 100000"),
        (["--runs"], "--runs: needs a value, N"),
        (["--warmup", "x"], "--warmup x: must be a number"),
        (["--threads", "0"], "--threads 0: must be a number from 1"),
        (["--threads", "3", "--bytes", "8K"], "--threads 3: must be at most the 2 folios"),
        (["--per-call", ""], "--per-call : must be a number"),
        (["--write-rate", "9"], "--write-rate 9: needs --writers"),
        (["--direct-from", "/tmp/x"], "--direct-from /tmp/x: needs --writers"),
        (["--write-share", "0"], "--write-share 0: must be a number from 1 to 100"),
        (["--busy", "4097"], "--busy 4097: must be a number from 0 to 4096"),
        (["--seed", "99999999999999999999"], "--seed 99999999999999999999: must be"),
        (["--latency=1"], "--latency: takes no value"),
        (["--null", "--latency"], "--latency: cannot go with --null"),
        (["--faults"], "--faults: needs --call promote"),
        (["--null", "--call", "promote", "--faults"], "--faults: needs --call promote, which"),
        (["--call", "migrate_pages", "--per-call", "1"], "leave out --per-call"),
        (["--call", "migrate_pages", "--threads", "2"], "leave out --threads"),
        (["--call", "damon", "--per-call", "1"], "leave out --per-call"),
        (["--call", "damon", "--threads", "2"], "leave out --threads"),
        (["--order", "down"], "--order down: must be one of up|random|scattered"),
        (["--order", "random", "--call", "mbind"], "--order random: cannot go with --call mbind"),
        (["--order", "random", "--call", "compact"], "--order random: cannot go with --call compact"),
        (["--call", "promote", "--per-call", "8"], "leave out --per-call"),
        (["--call", "demote", "--threads", "2"], "leave out --threads"),
        (["--call", "demote", "--memory", "shared"], "--call demote: needs --memory anon"),
        (["--call", "compact", "--folio", "2M"], "--call compact: moves folios smaller than 2M"),
        (["--call", "compact", "--fragmented"], "--call compact: moves folios smaller than 2M, and not"),
        (["--apart", "--threads", "3"], "--apart: needs --memory anon, and as many folios for each"),
        (["--apart", "--memory", "shared"], "--apart: needs --memory anon"),
        (["--apart", "--access"], "--access: cannot go with --apart"),
        (["--null", "--fragmented"], "--fragmented: cannot go with --null"),
        (["--null", "--cpus", "9999"], "--cpus 9999: must be CPUs"),
        (["--null", "--json", "/nowhere/x"], "--json /nowhere/x: No such file"),
        (["--null", "--memory", "file", "--file", "/nowhere/x"], "--file /nowhere/x: No such"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(sanitized: Path, args: list[str], told: str) -> None:
    result = run(sanitized, *args)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(len(NODES) > 1, reason="needs a machine with one memory node")
def test_one_node_is_exit_4_and_says_what_to_do(sanitized: Path) -> None:
    result = run(sanitized)
    assert result.returncode == 4
    assert "no second memory node" in result.stderr
    assert "numa=fake=2" in result.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--from", "1023"], "--from 1023: node is offline"),
        (["--to", "1023"], "--to 1023: node is offline"),
        (["--bytes", "65536G"], "bytes free"),
    ],
)
def test_what_the_machine_lacks_is_exit_4(sanitized: Path, args: list[str], told: str) -> None:
    result = run(sanitized, "--null", *args)
    assert result.returncode == 4, result.stderr
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("memory", ["anon", "shared", "file"])
def test_null_runs_clean_under_sanitizers(sanitized: Path, tmp_path: Path, memory: str) -> None:
    args = f"--null --bytes 4M --runs 2 --threads 3 --per-call 7 --busy 1 --stall --access --memory {memory}"
    file = ["--file", str(tmp_path / "new")] if memory == "file" else []
    result = run(sanitized, *args.split(), *file)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "28 MiB, 0 bytes differ" in result.stdout
    assert not list(tmp_path.iterdir())


def test_threads_apart_run_clean_under_sanitizers(sanitized: Path) -> None:
    """Their memory is in several pieces, and moves in any order: each byte is where it was."""
    args = "--null --bytes 4M --runs 2 --threads 4 --per-call 7 --stall --apart --order random"
    result = run(sanitized, *args.split())
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "20 MiB, 0 bytes differ" in result.stdout
    assert "addresses: random, threads apart" in result.stdout


def test_each_write_is_verified_and_timed(sanitized: Path) -> None:
    args = "--null --bytes 4M --runs 9 --stall --writers 2 --write-share 50 --json -"
    # What moves nothing is over at once, and writers have no more than the idle time of a CPU.
    for _ in range(9):
        result = run(sanitized, *args.split())
        assert result.returncode == 0, result.stderr
        waits = json.loads(result.stdout)["write_wait_us"]
        if waits["samples"]:
            break
    assert waits["samples"] > 0
    assert 0 < waits["p50"] <= waits["p99"] <= waits["max"]


@pytest.mark.skipif(os.geteuid() != 0, reason="direct readers have a real-time priority")
def test_each_direct_read_is_verified_and_timed(sanitized: Path, tmp_path: Path) -> None:
    device = tmp_path / "device"
    device.touch()
    args = "--null --bytes 4M --runs 9 --writers 2 --json -"
    # As above: what moves nothing is over at once.
    for _ in range(9):
        result = run(sanitized, *args.split(), "--direct-from", str(device))
        assert result.returncode == 0, result.stderr
        waits = json.loads(result.stdout)["write_wait_us"]
        if waits["samples"]:
            break
    assert waits["samples"] > 0
    assert device.stat().st_size == 4 << 20


def test_json_has_the_documented_keys(migbench: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = run(migbench, "--null", "--bytes", "1M", "--json", str(out), "--seed", "7")
    assert result.returncode == 0, result.stderr
    row = json.loads(out.read_text())
    assert row["tool"] == "migbench"
    assert row["command"][1:3] == ["--null", "--bytes"]
    assert row["kernel"] == os.uname().release
    assert row["host"]["cpus"] >= 1
    assert 0 in row["host"]["nodes"]
    assert (row["seed"], row["folio_kib"], row["bytes"], row["folios"]) == (7, 4, 1 << 20, 256)
    assert [r["moved_pages"] for r in row["runs"]] == [0] * 5
    assert row["verified_bytes"] == 6 << 20
    assert row["mismatched_bytes"] == 0
    absent = {"gbps", "first_folio_us", "inaccessible_us", "access", "stall"}
    assert not absent & set(row)


def test_json_to_stdout_is_json_only(migbench: Path) -> None:
    result = run(migbench, "--null", "--bytes", "64K", "--json=-")
    assert json.loads(result.stdout)["passed"] is True


def _mapping(pid: int, size: int) -> int | None:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        if end - begin == size and " rw-p " in line:
            return begin
    return None


def test_one_wrong_byte_is_exit_1_and_its_offset_is_shown(migbench: Path) -> None:
    """Another process writes one byte into the memory until migbench sees it."""
    size, offset = 1028 << 10, 70_003
    with subprocess.Popen(
        [migbench, "--null", "--bytes", str(size), "--runs", "100000"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as bench:
        deadline = time.monotonic() + 60
        while bench.poll() is None and time.monotonic() < deadline:
            try:
                base = _mapping(bench.pid, size)
                if base is not None:
                    with Path(f"/proc/{bench.pid}/mem").open("r+b", buffering=0) as memory:
                        memory.seek(base + offset)
                        memory.write(b"\x5a")
            except OSError:
                continue  # it has just ended, or is between two mappings
        bench.kill()
        out, err = bench.communicate()
    assert bench.returncode == 1, err
    assert "FAILED: 1 bytes differ" in err
    assert f"offset {offset // 8 * 8:#x}:" in err
    assert out.endswith("FAILED\n")


def test_signals_end_it_between_runs(migbench: Path) -> None:
    with subprocess.Popen(
        [migbench, "--null", "--bytes", "64K", "--runs", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as bench:
        deadline = time.monotonic() + 30
        while _mapping(bench.pid, 64 << 10) is None and time.monotonic() < deadline:
            pass
        bench.send_signal(signal.SIGINT)
        _, err = bench.communicate(timeout=60)
    assert bench.returncode == 128 + signal.SIGINT
    assert b"stopped by signal 2" in err
