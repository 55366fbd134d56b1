# SPDX-License-Identifier: GPL-2.0
"""check the lab's Python (ruff, mypy --strict) and shell (shellcheck)"""

import argparse
import subprocess
import sys

from ferry import packages, paths, proc
from ferry.commands import options
from ferry.kernel import kbuild


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(needs=options.DEVELOPS)


def run(args: argparse.Namespace) -> int:
    """Run every linter; the exit code is 1 if one complains."""
    packages.ensure(["git", "shellcheck"])
    python = [sys.executable, "-m"]
    shell = ("*.sh", "*.bash", ".ci/run", "tools/debian/kernel-hook", str(kbuild.COMPILER))
    listed = proc.output(["git", "ls-files", "-co", "--exclude-standard", *shell], cwd=paths.ROOT)
    checks = [
        [*python, "ruff", "check", "."],
        [*python, "ruff", "format", "--check", "."],
        [*python, "mypy"],
        ["shellcheck", *listed.split()],
    ]
    codes = [subprocess.run(check, cwd=paths.ROOT).returncode for check in checks]
    return int(any(codes))
