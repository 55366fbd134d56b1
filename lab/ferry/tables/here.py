# SPDX-License-Identifier: GPL-2.0
"""Measure cells on this machine itself, which runs a Ferry kernel. It has no vanilla to compare with, but
the same kernel without an engine, whose page tables are batched.

The administrator's engine and settings are put back however it ends. Even if this program is killed:
its job then gets a signal from the kernel.
"""

import os
import re
import signal
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ferry import files, paths, proc
from ferry.bench import cell as cell_job
from ferry.bench import migbench, rows
from ferry.bench.cell import Cell, Measured
from ferry.errors import CommandFailed, FerryError
from ferry.progress import note
from ferry.vm import qemu, records

OFFLOAD = Path("/sys/kernel/mm/migrate_offload")
NODES = Path("/sys/devices/system/node")
# To unload and load modules, and to let migrations end.
PUT_BACK_S = 60.0


def job(script: str) -> str:
    """A script between what keeps the machine's settings and what puts them back."""
    library = "".join((qemu.GUEST / name).read_text() for name in ("lib.sh", "here.sh"))
    return f"{library}\nkeep\n{script}\n"


def measure(cells: Sequence[Cell]) -> tuple[list[Measured], list[str]]:
    """Measure the cells that this machine can have, and say why it cannot have others. Raises FerryError."""
    check()
    program = migbench.build_migbench()
    on_dma = any(cell.channels for cell in cells)
    counted = _run("count_dma", "count DMA channels", program) if on_dma else ""
    channels = records.of(counted, "channels")["free"] if on_dma else 0
    # Part of what the fuller of migbench's two nodes has free.
    possible, missing = split(cells, channels, min(_free()[:2]) * 3 // 4)
    if not possible:
        raise FerryError(f"this machine can have none of the cells: {missing[0]}")
    numbered = sorted(enumerate(possible), key=lambda pair: cell_job.key(pair[1]))
    said = _run(cell_job.script(numbered), f"measure {len(possible)} cells on this machine", program)
    measured = cell_job.parse(said, possible)
    return [measured[number] for number in range(len(possible))], missing


def named(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell's JSON, with the name of what was measured in the place of vanilla."""
    return cell | {"engine": "none"} if cell["engine"] == rows.VANILLA else cell


def check() -> None:
    """Raise FerryError for what can be known beforehand."""
    if not OFFLOAD.is_dir():
        raise FerryError(f"{OFFLOAD} is missing: boot a kernel with Ferry (make deb), or leave out --here")
    if os.geteuid():
        raise FerryError("choosing an engine needs root: run ./ferry table --here as root")
    if len(_free()) < 2:
        raise FerryError("this machine has no second memory node to move memory to")


def split(cells: Sequence[Cell], channels: int, free: int) -> tuple[list[Cell], list[str]]:
    """The cells that fit, and what the others lack, with their number."""
    possible: list[Cell] = []
    lacks: Counter[str] = Counter()
    for cell in cells:
        if cell.varied or cell.kernel or not cell_job.OF_MODULES.keys().isdisjoint(dict(cell.settings)):
            lacks["an emulated server, whose parameters and kernel can be chosen"] += 1
        elif cell.caller != "move_pages":
            lacks["an emulated server with a slow node, and an unchanged kernel"] += 1
        elif cell.channels > channels:
            lacks[f"more DMA channels: this machine has {channels} free"] += 1
        elif cell.bytes > free:
            lacks[f"more memory: a node has room for {free >> 20} MiB"] += 1
        else:
            possible.append(cell)
    return possible, [f"{count} cells, for which it takes {what}" for what, count in lacks.items()]


def _free() -> list[int]:
    """Free bytes of each node with memory."""
    sizes = []
    for path in sorted(NODES.glob("node[0-9]*/meminfo"), key=lambda path: int(path.parent.name[4:])):
        text = path.read_text()
        total, free = (re.search(rf"{name}:\s+(\d+) kB", text) for name in ("MemTotal", "MemFree"))
        if total and free and int(total[1]):
            sizes.append(int(free[1]) << 10)
    return sizes


def _run(script: str, title: str, migbench: Path) -> str:
    """What a job records; what it could not put back is told. Raises FerryError if it ended early."""
    with tempfile.TemporaryDirectory(prefix="here-", dir=paths.BUILD) as folder:
        text, result = Path(folder, "job.sh"), Path(folder, "result")
        text.write_text(job(script))
        env = {"PATH": f"{migbench.parent}:{os.environ['PATH']}", "WORK": folder}
        command: list[str | Path] = ["sh", "-c", 'exec 3>"$1"; . "$2"', "sh", result, text]
        try:
            proc.run(command, title=title, log="here", env=env, on_death=signal.SIGTERM, grace_s=PUT_BACK_S)
        except CommandFailed as err:
            whys = records.every(files.read(result) or "", "error")
            raise (FerryError(whys[0]["text"]) if whys else err) from None
        finally:
            said = files.read(result) or ""
            for lost in records.every(said, "lost"):
                note(f"warning: cannot put back {lost['what']}")
        return said
