# SPDX-License-Identifier: GPL-2.0
"""./ferry in a fresh clone, as if building and booting took no time: what a build leaves is there only
after that build, and a guest says what its job asks for. Run by test_readme.py and test_resume.py.

$FERRY_BOOTS names a file that gets a line for each boot; with $FERRY_KILLED a number, that boot kills all.
"""

import json
import os
import re
import signal
import sys
import threading
from pathlib import Path

from ferry import cli, packages, paths
from ferry.bench import migbench
from ferry.bench.sizes import parse_size
from ferry.errors import FerryError
from ferry.kernel import kbuild, tree
from ferry.kernel.kbuild import Kernel
from ferry.vm import emulator, machine, qemu, records

ROW = {
    "call": "move_pages", "memory": "anon", "folio_kib": 4, "bytes": 4096, "threads": 1, "busy": 0,
    "gbps": 2.0, "gbps_min": 1.0, "gbps_max": 3.0, "cpu_ns_per_page": 10.0, "runs": [{}], "per_call": 0,
    "minor_faults_per_folio": 0.5, "tlb_shootdowns_per_folio": 0.0,
    "first_folio_us": 5.0, "inaccessible_us": {"p50": 1.0, "p99": 2.0, "max": 3.0},
    "verified_bytes": 4096, "mismatched_bytes": 0, "passed": True,
}  # fmt: skip
_COUNTED = threading.Lock()


def _kernel(name: str, places: tree.Places | None = None) -> Kernel:
    kbuild.flavour(name)
    out = (places or tree.HERE).build / f"kernel-{name}"
    (out / "include/config").mkdir(parents=True, exist_ok=True)
    (out / "include/config/kernel.release").write_text(f"7.3-{name}\n")
    (out / ".config").write_text('CONFIG_CC_VERSION_TEXT="gcc 12"\n')
    (out / "bzImage").touch()
    return Kernel(name, f"7.3-{name}", out / "bzImage", out, out, paths.BUILD)


def _emulator() -> Path:
    _program(emulator.BINARY, "echo QEMU of this clone")
    return emulator.BINARY


def _migbench() -> Path:
    return _program(paths.ROOT / "bench/migbench", "exit 1")


def _program(path: Path, line: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def _run(kernel: Kernel, where: machine.Machine, job: qemu.Job, **more: object) -> qemu.Result:
    for path in (kernel.image, *job.programs.values()):
        if not path.is_file():
            raise FerryError(f"{path} was never built")
    _count()
    qemu.ensure_emulator(where)
    program = where.command()[0]
    if program.startswith("/") and not Path(program).is_file():
        raise FerryError(f"{program} was never built")
    found = re.findall(r"^(bench|cycles) (\S+) .*--folio (\S+) --bytes (\S+)", job.script, re.MULTILINE)
    said = [
        _row(name, folio) if what == "bench" else _cycles(name, size) for what, name, folio, size in found
    ]
    return qemu.Result(0, "\n".join(map(json.dumps, said)), "", "")


def _count() -> None:
    if not (place := os.environ.get("FERRY_BOOTS")):
        return
    with _COUNTED:  # two boots at once would both be the seventh
        with Path(place).open("a") as boots:
            boots.write("booted\n")
        if len(Path(place).read_text().split()) == int(os.environ.get("FERRY_KILLED", "0")):
            os.kill(os.getpid(), signal.SIGKILL)


def _row(name: str, folio: str) -> records.Record:
    """What migbench would say, with the folio size that it is asked for; Ferry has to be the faster one."""
    found = ROW | {"folio_kib": parse_size(folio) // 1024, "gbps": 1.0 if name == "vanilla" else 2.0}
    return {"record": "migbench", "of": name, "found": found}


def _cycles(name: str, size: str) -> records.Record:
    """Cycles, the pages that were moved, and cycles of their copies."""
    moved = int(size) // 4096
    return {"record": "cycles", "of": name, "total": 10 * moved, "moved": moved, "copies": moved}


def main() -> int:
    """Run one command."""
    packages.ensure = lambda names: None
    kbuild.build = _kernel
    emulator.build = _emulator  # type: ignore[assignment]
    migbench.build_migbench = _migbench
    qemu.run = _run  # type: ignore[assignment]
    machine.available_mib = lambda: 1 << 16
    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
