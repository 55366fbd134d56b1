# SPDX-License-Identifier: GPL-2.0
"""Where figures come from: kernels, compiler, emulator, machine, host, date, and whose time it was."""

from __future__ import annotations

import gzip
import os
import platform
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ferry import files, paths
from ferry.errors import FerryError
from ferry.git import git
from ferry.kernel import config, tree
from ferry.vm import emulator
from ferry.vm.machine import Machine
from ferry.vm.store import Store

_COMPILER = re.compile(r"\((\S+-?gcc[^()]*(?:\([^()]*\)[^(),]*)?|clang[^,()]*)")


def of_vms(machine: Machine, flavours: Iterable[str], *, kvm: bool = False) -> dict[str, Any]:
    """For figures of an emulated machine; its kernels are built."""
    program = shutil.which(machine.command(kvm)[0])
    return {
        **everywhere(),
        "kernels": {name: _built(tree.HERE.build / f"kernel-{name}") for name in flavours},
        "machine": machine.name,
        "cpus": machine.cpus,
        "nodes": machine.nodes,
        "node_mib": machine.node_mib,
        "kernel_args": list(machine.command_line),
        "time": "virtual" if machine.icount else "wall",
        "accelerator": "kvm" if kvm else "tcg, icount" if machine.icount else "tcg",
        "qemu": emulator.version(program) if program else "unknown",
    }


def of_here() -> dict[str, Any]:
    """For figures of this machine itself."""
    return {
        **everywhere(),
        "kernels": {"here": _running()},
        "machine": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))),
        "time": "wall",
    }


def small_print(origin: dict[str, Any]) -> str:
    """Three lines of it, for a picture."""
    kernels = [f"{kernel['release']} (config {kernel['config']})" for kernel in origin["kernels"].values()]
    compilers = dict.fromkeys(kernel["compiler"] for kernel in origin["kernels"].values())
    machine = f"{origin['machine']}, {origin['cpus']} CPU{'s' * (origin['cpus'] != 1)}, {origin['time']} time"
    emulator = origin["qemu"].replace("emulator version ", "") if "qemu" in origin else ""
    lines = (
        (f"Linux {', '.join(kernels)}", f"Ferry {origin['commit']}"),
        (machine, emulator, origin["date"]),
        (f"host: {origin['host']}", *compilers),
    )
    return "\n".join("; ".join(filter(None, line)) for line in lines)


def store(anew: bool = False) -> Store:
    """Where records are kept, which say where they come from."""
    return Store(everywhere(), anew)


def everywhere() -> dict[str, str]:
    """When it is, of which files, and on what host."""
    return {
        "commit": _commit(),
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC",
        "host": f"{_cpu()}, {len(os.sched_getaffinity(0))} CPUs, Linux {platform.release()}",
    }


def _commit() -> str:
    """Ferry's commit, and whether files differ from it or are not in it; a tarball has none."""
    try:
        head = git(paths.ROOT, "rev-parse", "--short=12", "HEAD")
        return head + ("-changed" if git(paths.ROOT, "status", "--porcelain") else "")
    except FerryError:
        return "unknown"


def _built(folder: Path) -> dict[str, str]:
    """A kernel that was built here."""
    text = (folder / ".config").read_text()
    compiler = config.parse(text).get("CONFIG_CC_VERSION_TEXT", "unknown").strip('"')
    release = (folder / "include/config/kernel.release").read_text().strip()
    return {"release": release, "config": files.digest(text)[:12], "compiler": compiler}


def _running() -> dict[str, str]:
    """The kernel that runs."""
    release = platform.release()
    compiler = _COMPILER.search(Path("/proc/version").read_text())
    options = files.read(Path(f"/boot/config-{release}"))
    if options is None and Path("/proc/config.gz").exists():
        options = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    hashed = files.digest(options)[:12] if options is not None else "unknown"
    return {"release": release, "config": hashed, "compiler": compiler[1] if compiler else "unknown"}


def _cpu() -> str:
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()
