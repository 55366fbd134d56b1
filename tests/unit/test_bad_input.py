# SPDX-License-Identifier: GPL-2.0
"""What a command cannot use ends with one line that says why, before anything is built or booted."""

import json
from pathlib import Path
from typing import Any

import pytest

from ferry import cli, packages
from ferry.bench import migbench
from ferry.kernel import kbuild, tree
from ferry.vm import emulator, qemu

GOOD: dict[str, Any] = {"cells": [{"engine": "cpu", "gbps": 1.0}]}
RESULTS = {
    "good": GOOD,
    "list": [],
    "number": {"cells": 3},
    "numbers": {"cells": [1]},
    "none": {"cells": []},
    "tables": {"tables": 5},
    "headline": GOOD | {"headline": 7},
}


@pytest.fixture
def folder(no_vms: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with files of several kinds; nothing can be built or booted."""
    for name, result in RESULTS.items():
        (no_vms / f"{name}.json").write_text(json.dumps(result))
    (no_vms / "bytes").write_bytes(b"\xff\xfe\x00")
    (no_vms / "config.xz").write_bytes(b"none")
    (no_vms / "dir").mkdir()
    monkeypatch.setattr(packages, "ensure", lambda names: None)
    whatever = (kbuild, "build"), (emulator, "build"), (qemu, "run"), (tree, "assemble_current")
    for module, name in (*whatever, (migbench, "build_migbench")):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("something is built or booted"))
    return no_vms


def _says(words: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words.split()) != 0
    said = capsys.readouterr().err
    assert said.startswith(f"ferry: {why}"), said
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", [name for name in RESULTS if name not in ("good", "headline")])
@pytest.mark.usefixtures("folder")
def test_a_file_that_is_no_result(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _says(f"compare good.json {name}.json", f"{name}.json is no result: it has no cells", capsys)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("compare headline.json good.json", "headline.json is no result"),
        ("compare bytes good.json", "bytes is no result"),
        ("compare --within nan good.json good.json", "--within nan: choose 0 percent or more"),
        ("compare --within -1 good.json good.json", "--within -1: choose 0 percent or more"),
        ("report --trace bytes:1", "--trace bytes:1: name a page and a line"),
        ("kernel deb --config bytes", "bytes is no config"),
        ("kernel deb --config config.xz", "config.xz is no config"),
        ("kernel deb --config debian --sign bytes", "bytes has no PRIVATE KEY and no CERTIFICATE in PEM"),
        ("kernel deb --config debian --sign dir", "dir has no PRIVATE KEY and no CERTIFICATE in PEM"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_file_that_is_something_else(words: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    _says(words, why, capsys)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("bench --bytes 1M --folio 2M", "--bytes 1M: choose a multiple of 2M"),
        ("bench --call compact --to 1", "--to 1: --call compact stays on its node"),
        ("profile --bytes 5K", "--bytes 5K: choose a multiple of 4K"),
        ("profile --bytes 100G", "100G do not fit: a node of machine zen3 has 2048 MiB"),
        ("profile --folio 1G", "no folio size '1G'"),
        ("vm --profile zen3 --cpus 65 -- true", "65 CPUs: choose 1 to 64"),
        ("vm --profile zen3 --machine smp -- true", "--machine smp: leave it out, profile zen3 is a machine"),
        (
            "server fit --profile v1",
            "profile v1 cannot be fitted: what was posted is of 16 channels of PTDMA",
        ),
        ("server fit --profile xeon-dsa", "profile xeon-dsa cannot be fitted"),
        ("vm --machine icount --kvm -- true", "machine icount counts instructions, which KVM cannot"),
        ("torture --kernel vanilla", "kernel vanilla is without Ferry"),
        ("torture --engine nosuch", "no engine 'nosuch': choose from cpu, mtcopy, dcbm"),
        ("torture --deadline -1", "--deadline -1: choose 1 ms or more"),
        ("torture --ptdma x", "'x' is not NAME=VALUE"),
        ("torture --dsa error-at=1,command-error-code=256", "command-error-code=256: must be a number from"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_value_that_nothing_can_have(words: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    _says(words, why, capsys)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["vm", "bench", "torture"])
def test_kernels_of_another_architecture_are_not_offered(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--kernel", "arm64"])
    assert "invalid choice: 'arm64'" in capsys.readouterr().err
