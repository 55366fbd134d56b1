# SPDX-License-Identifier: GPL-2.0
"""Every result says where it comes from, and two runs at once do not overwrite each other's files."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferry import files, git, paths
from ferry.commands import table
from ferry.kernel import tree
from ferry.results import figures, provenance
from ferry.vm import emulator
from ferry.vm.machine import MACHINES


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder with a kernel."""
    folder = tmp_path / "kernel-ferry"
    (folder / "include/config").mkdir(parents=True)
    (folder / "include/config/kernel.release").write_text("6.12.1-ferry\n")
    (folder / ".config").write_text('CONFIG_CC_VERSION_TEXT="gcc (Debian 12.2.0-14) 12.2.0"\n')
    monkeypatch.setattr(tree, "HERE", replace(tree.HERE, build=tmp_path))
    # What is in build/ may be of another container, and its libraries not here.
    monkeypatch.setattr(emulator, "version", lambda _program: "QEMU emulator version 7.2")
    return folder


def test_all_is_said_of_a_vm(built: Path) -> None:
    origin = provenance.of_vms(MACHINES["icount"], ["ferry"])
    kernel = origin["kernels"]["ferry"]
    assert kernel["release"] == "6.12.1-ferry"
    assert kernel["compiler"] == "gcc (Debian 12.2.0-14) 12.2.0"
    assert kernel["config"] == files.digest(built / ".config")[:12]
    assert (origin["machine"], origin["cpus"], origin["time"]) == ("icount", 1, "virtual")
    assert {"commit", "date", "host"} <= origin.keys()
    assert origin["qemu"].startswith(("QEMU", "unknown"))
    first, second, third = provenance.small_print(origin).splitlines()
    assert first == f"Linux 6.12.1-ferry (config {kernel['config']}); Ferry {origin['commit']}"
    assert second.startswith("icount, 1 CPU, virtual time; ")
    assert second.endswith(origin["date"])
    assert third == f"host: {origin['host']}; gcc (Debian 12.2.0-14) 12.2.0"


def test_small_print_has_the_cpus_and_the_emulator() -> None:
    known = json.loads((figures.FOLDER / "demo.json").read_text())["provenance"]
    said = provenance.small_print(known)
    assert "smp, 2 CPUs, wall time; QEMU 7.2" in said
    assert known["kernels"]["vanilla"]["config"] in said
    assert "None" not in provenance.small_print(provenance.of_here())


def test_cpus_are_those_of_the_machine_that_was_booted(built: Path) -> None:
    known = provenance.of_vms(MACHINES["smp"].with_cpus(3).one_by_one(), ["ferry"])
    assert known["kernel_args"] == ["sysctl.vm.migrate_ranges=0"]
    assert (known["cpus"], known["time"]) == (3, "wall")


def test_an_emulator_that_was_never_built_is_no_error(built: Path) -> None:
    import dataclasses

    machine = dataclasses.replace(MACHINES["icount"], program=("/nosuch/qemu",))
    assert provenance.of_vms(machine, ["ferry"])["qemu"] == "unknown"


def test_this_machine_says_its_kernel_and_compiler() -> None:
    known = provenance.of_here()
    assert known["kernels"]["here"]["release"] == os.uname().release
    assert (known["time"], known["cpus"]) == ("wall", len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("profile", "quick", "name"),
    [
        ("zen3", False, "table-v5-throughput.json"),
        ("zen3", True, "table-v5-throughput-quick.json"),
        ("cxl", False, "table-v5-throughput-cxl.json"),
        ("here", True, "table-v5-throughput-here-quick.json"),
        ("v1", False, "table-v5-throughput-v1.json"),
    ],
)
def test_another_machine_or_a_part_has_a_file_of_its_own(profile: str, quick: bool, name: str) -> None:
    result: dict[str, Any] = {"table": "v5-throughput", "profile": profile, "quick": quick}
    assert table.place(result).name == name


def test_a_file_that_no_commit_has_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is built of all files of kernel/src, also of those that git was not told of."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    git.git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("/out/\n")
    git.git(tmp_path, "add", ".")
    git.git(tmp_path, "commit", "-q", "-m", "all")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/demo.json").touch()
    head = git.git(tmp_path, "rev-parse", "--short=12", "HEAD")
    assert provenance.everywhere()["commit"] == head
    (tmp_path / "kernel/src").mkdir(parents=True)
    (tmp_path / "kernel/src/new.c").touch()
    assert provenance.everywhere()["commit"] == f"{head}-changed"


def test_two_runs_have_logs_of_their_own() -> None:
    say = [sys.executable, "-c", "from ferry import paths; print(paths.LOGS)"]
    env = {**os.environ, "PYTHONPATH": str(paths.ROOT / "lab")}
    one, two = (
        subprocess.run(say, env=env, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert one != two


def test_two_writers_do_not_share_a_scratch_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process writes the same result between the first one's writing and its rename."""
    target, replace = tmp_path / "x.json", Path.replace

    def other_first(self: Path, to: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace)
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: 1)
            files.write(target, "other")
        return replace(self, to)

    monkeypatch.setattr(Path, "replace", other_first)
    files.write(target, "mine")
    assert target.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
