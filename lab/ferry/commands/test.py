# SPDX-License-Identifier: GPL-2.0
"""build what is needed and run the tests; further arguments go to pytest"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from ferry import paths
from ferry.kernel import kbuild
from ferry.server import emulator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--unit, and anything that pytest understands."""
    parser.add_argument("--unit", action="store_true", help="only the tests that need no VM and no kernel")
    parser.set_defaults(takes_rest=True, develops=True)


def run(args: argparse.Namespace) -> int:
    """Build with progress what the tests would build silently; pytest's exit code is ours."""
    chosen = list(args.rest)
    if args.unit:
        chosen = ["-m", "not vm", *chosen]
    else:
        for name in kbuild.FLAVOURS:
            kbuild.build(name)
        emulator.build()
    env = {**os.environ, "PYTHONPATH": str(paths.ROOT / "lab")}
    return subprocess.run([sys.executable, "-m", "pytest", *chosen], cwd=paths.ROOT, env=env).returncode
