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
# Two files at once, in order, so unit tests come while checkpatch has the tree. Guests mostly keep one CPU
# busy; the CPUs of more of them at once wait for each other's, and their kernels say that they stall.
AT_ONCE = ("--numprocesses", "auto", "--maxprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder")
ALL = (*AT_ONCE, "--durations", "40")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    much = parser.add_mutually_exclusive_group()
    options.add_flag(much, "unit", "only the tests that need no VM and no kernel")
    options.add_flag(
        much, "long", "also under KCSAN, one by one, on arm64, other clients of the models, a first day"
    )
    parser.set_defaults(takes_rest=True, needs=options.DEVELOPS)


def run(args: argparse.Namespace) -> int:
    """Build with progress what the tests would build silently; pytest's exit code is ours."""
    packages.ensure(UNIT)
    if args.unit:
        chosen = ["-m", "not vm"]
    else:
        for name in (*KERNELS, *(LONG_KERNELS if args.long else ())):
            kbuild.build(name)
        base, name = OTHER
        kbuild.build(name, tree.places(base))
        emulator.build()
        chosen = [] if args.long else ["-m", "not long"]
    env = {**os.environ, "PYTHONPATH": str(paths.ROOT / "lab")}
    words = [sys.executable, "-m", "pytest", *chosen, *(args.rest or ALL)]
    return subprocess.run(words, cwd=paths.ROOT, env=env).returncode
