# SPDX-License-Identifier: GPL-2.0
"""build what is needed and run the tests; further arguments go to pytest"""

import argparse
import os
import subprocess
import sys

from ferry import packages, paths
from ferry.commands import options
from ferry.kernel import kbuild, tree
from ferry.vm import emulator

KERNELS = ("vanilla", "ferry", "debug")  # that tests boot
LONG_KERNELS = ("iommu-kcsan", "arm64")  # that those marked "long" boot
OTHER = ("6.12", "kunit")  # the base that is not the default, and what tests boot of it
# Compilers and programs that unit tests run; the kernels' and the emulator's builds install theirs.
UNIT = ("gcc", "libc6-dev", "libnuma-dev", "make", "xz-utils", "cpio", "groff", "busybox-static")
# One at a time: a guest whose CPUs wait for another guest's says that they stall.
ALL = ("--durations", "40")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    much = parser.add_mutually_exclusive_group()
    options.add_flag(much, "unit", "only the tests that need no VM and no kernel")
    options.add_flag(much, "long", "also under KCSAN, folios one by one, on arm64, and a first day")
    parser.set_defaults(takes_rest=True, needs=options.DEVELOPS)


def run(args: argparse.Namespace) -> int:
    """Build with progress what the tests would build silently; pytest's exit code is ours."""
    chosen = list(args.rest)
    packages.ensure(UNIT)
    if args.unit:
        chosen = ["-m", "not vm", *chosen]
    else:
        for name in (*KERNELS, *(LONG_KERNELS if args.long else ())):
            kbuild.build(name)
        base, name = OTHER
        kbuild.build(name, tree.places(base))
        emulator.build()
        chosen = [*([] if args.long else ["-m", "not long"]), *(chosen or ALL)]
    env = {**os.environ, "PYTHONPATH": str(paths.ROOT / "lab")}
    return subprocess.run([sys.executable, "-m", "pytest", *chosen], cwd=paths.ROOT, env=env).returncode
