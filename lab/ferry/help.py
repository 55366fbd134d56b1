# SPDX-License-Identifier: GPL-2.0
"""What help says beside the arguments."""

from __future__ import annotations

import argparse


def examples(parser: argparse.ArgumentParser, *lines: str) -> None:
    """Let a command's help end with examples, each on a line of its own."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["examples:", *(f"  ./ferry {line}" for line in lines)])
