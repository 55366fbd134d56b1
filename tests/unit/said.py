# SPDX-License-Identifier: GPL-2.0
"""What a guest says, without a guest: records as they come, and what a job writes that is run here."""

import json
import subprocess
from pathlib import Path

from ferry.vm import qemu

# On Debian's files, in an initramfs, and what a user may have as sh.
SHELLS = ("dash", "busybox sh", "bash")
# Nothing is said to this machine's kernel.
QUIET = "\nstep() { STEP=$*; }\n"


def record(kind: str, **values: object) -> str:
    """One record."""
    return json.dumps({"record": kind, **values}) + "\n"


def output(name: str, text: str) -> str:
    """Those of what a program says."""
    return "".join(record("output", of=name, line=line) for line in text.splitlines())


def by_job(
    folder: Path, script: str, *, shell: str = "sh", libraries: tuple[str, ...] = ()
) -> tuple[int, str]:
    """The exit status of a job that is run here, and what it writes for the host."""
    library = "".join((qemu.GUEST / name).read_text() for name in ("lib.sh", *libraries))
    (folder / "job.sh").write_text(f"{library}{QUIET}{script}\n")
    command = ["sh", "-c", f'cd "$0"; WORK=$PWD; export WORK; exec {shell} job.sh 3>result', str(folder)]
    done = subprocess.run(command, check=False, capture_output=True)
    return done.returncode, (folder / "result").read_text()
