# SPDX-License-Identifier: GPL-2.0
"""Where things are. Everything that Ferry makes is under BUILD (to be kept) or OUT (results)."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "kernel"
BUILD = ROOT / "build"
OUT = ROOT / "out"
LOGS = BUILD / "log"
