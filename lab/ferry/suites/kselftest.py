# SPDX-License-Identifier: GPL-2.0
"""Linux's kselftests, built beside a kernel, and what they say in a guest."""

from collections.abc import Iterable
from pathlib import Path

from ferry import packages, proc
from ferry.errors import FerryError
from ferry.kernel import kbuild
from ferry.kernel.kbuild import Kernel
from ferry.vm import records

FOLDERS = ("migrate_offload", "migrate_bulk", "migrate_runs")


def build(kernel: Kernel) -> list[Path]:
    """The kselftests of Ferry, built beside the kernel."""
    packages.ensure(["gcc", "libc6-dev", "make", "e2fsprogs", "xfsprogs"])
    return sorted(program for folder in FOLDERS for program in build_folder(kernel, folder))


def build_folder(kernel: Kernel, folder: str, names: Iterable[str] = ()) -> list[Path]:
    """The programs of one folder of selftests, or some of them."""
    arch = kbuild.flavour(kernel.flavour).arch
    # Debian 12's own headers are older than what the functions of selftests/mm use.
    kbuild.make(kernel.build_dir, *arch.words, "headers", title="make the headers for kselftests")
    source = kernel.source_dir / "tools/testing/selftests" / folder
    kind = f"selftests-{arch.name}" if arch.cross else "selftests"
    output = kernel.source_dir.parent / kind / folder
    output.mkdir(parents=True, exist_ok=True)
    words = (*arch.words, f"OUTPUT={output}", f"KHDR_INCLUDES=-isystem {kernel.build_dir}/usr/include")
    targets = [output / name for name in names]
    proc.run(["make", "-C", source, *words, *targets], title=f"build kselftests of {folder}")
    programs = [p for p in output.iterdir() if p.is_file() and not p.suffix]
    if not programs:
        raise FerryError(f"{source} built no test into {output}")
    return programs


def outputs(said: str) -> dict[str, str]:
    """What each suite of a job says, by its name."""
    texts: dict[str, list[str]] = {}
    for record in records.every(said, "output"):
        texts.setdefault(record["of"], []).append(record["line"])
    return {name: "\n".join(lines) for name, lines in texts.items()}
