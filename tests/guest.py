# SPDX-License-Identifier: GPL-2.0
"""A guest that does what a test's script says, and what it has recorded."""

import shlex
from pathlib import Path

from ferry import paths
from ferry.bench import migbench
from ferry.kernel import kbuild
from ferry.vm import machine, qemu, records
from ferry.vm.machine import Machine

FERRYCTL = paths.ROOT / "tools/ferryctl/ferryctl.py"


def says(
    script: str,
    where: Machine | None = None,
    *,
    flavour: str = "ferry",
    limit_s: float = 300.0,
    host_root: bool = False,
) -> str:
    """What a script records on a machine, by default the one with two CPUs. Unless it has the host's files
    it has migbench."""
    programs = {} if host_root else migbench.programs()
    job = qemu.Job(script, limit_s, host_root=host_root, programs=programs)
    return qemu.run(kbuild.build(flavour), where or machine.get("smp"), job).said


def with_paths(script: str, **places: Path) -> str:
    """A script for the host's files, where @NAME@ stands for a place of that name, and @CTL@ for ferryctl."""
    for name, place in ({"CTL": FERRYCTL} | places).items():
        script = script.replace(f"@{name}@", shlex.quote(str(place)))
    return script


def texts(said: str) -> dict[str, str]:
    """The texts of the records "said", by what each is of."""
    return {record["of"]: record["text"] for record in records.every(said, "said")}
