# SPDX-License-Identifier: GPL-2.0
"""Where things are. Everything that Ferry makes is under BUILD (to be kept) or OUT (results)."""

import os
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "kernel"
BUILD = ROOT / "build"
# Which Linux of kernel/bases: './ferry --base NAME' puts it into the environment, and starts Python then.
BASES = KERNEL / "bases"
DEFAULT_BASE = "7.3"
BASE = os.environ.get("FERRY_BASE") or DEFAULT_BASE
# Results of another base are in a folder of their own, so that none replaces another.
OUT = ROOT / "out" / (BASE if BASE != DEFAULT_BASE else "")
# Of this run alone: two at once do not overwrite each other's.
LOGS = BUILD / "log" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
