# SPDX-License-Identifier: GPL-2.0
"""The version of Ferry, from the file VERSION, which everything that has one reads."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def version() -> str:
    """As in 1.1: beside this file, where the package has it, or at the top of a checkout."""
    places = (FOLDER / "VERSION", FOLDER.parents[1] / "VERSION")
    return next((path.read_text().strip() for path in places if path.is_file()), "unknown")
