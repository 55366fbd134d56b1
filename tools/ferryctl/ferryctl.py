#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""ferryctl: see and choose what copies the memory that Linux moves between NUMA nodes.

Everything is read from and written to /sys/kernel/mm/migrate_offload; see ferryctl(8).
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONF = "etc/ferry.conf"
# The kernel's engines that are modules.
MODULES = ("mtcopy", "dcbm")
NONE = "none"

# What each setting means; 0 lets the kernel choose.
SETTINGS = {
    "reasons": "why memory is moved, for the engine to be used: all, none, or words of the kernel's list",
    "min_bytes": "smaller calls are left to Linux's own path; 0: what the engine says, at least 256 KiB",
    "target_us": "about how long pages are away while they move; the window follows from it; 0: 500",
    "window_pages": "for experiments: pages that one call may have unmapped, whatever target_us is; 0: auto",
    "chunk_pages": "most pages that are unmapped, copied and remapped together; 0: 128",
    "stripe_bytes": "large folios are cut into parts of at least this size, one per channel; 0: the engine's",
    "deadline_ms": "how long the copies of a chunk may take before it does without them; 0: 100",
    "engine_always": "1: the engine copies even where it is measured to be slower than the CPU",
    "inaccessible_enabled": "1: measure how long folios cannot be accessed; costs a little",
}
DEFAULTS = {"reasons": "all"}

# Why the engine did not copy a folio, and what one can do about it.
CAUSES = {
    "fallback_kind": (
        "a kind of memory that is not safe to copy early: hugetlb, buffer heads, a file system's own way",
        "nothing to do: Linux moved it; file systems on iomap (xfs) do not have it",
    ),
    "fallback_refs": (
        "somebody held the folio: direct I/O, pinned memory (RDMA, VFIO), or a busy page cache",
        "move again when the I/O is over; long pins end with the program that has them",
    ),
    "fallback_busy": (
        "the engine's queue was full, or too many calls moved memory at once",
        "give dcbm more channels (dcbm.channels, dcbm.queue_depth), or move from fewer threads",
    ),
    "fallback_error": (
        "the engine failed, or was too late",
        "see dmesg and 'ferryctl status' for channels that are retired; choose another engine if it goes on",
    ),
    "left": (
        "locked, under writeback or otherwise in use when the engine's call came by",
        "nothing to do: Linux tried again by its own path; many mean that the memory is busy with I/O",
    ),
}


class Problem(Exception):
    """One clear line for the administrator."""


@dataclass(frozen=True)
class System:
    """A machine, below a folder; modprobe loads its modules."""

    root: Path = Path("/")
    modprobe: Callable[[Sequence[str]], int] = lambda args: subprocess.run(["modprobe", *args]).returncode

    @property
    def offload(self) -> Path:
        """Ferry's folder in sysfs."""
        return self.root / "sys/kernel/mm/migrate_offload"

    def read(self, name: str) -> str | None:
        """A file below the root, without its last newline; None if it cannot be read."""
        try:
            return (self.root / name).read_text().rstrip("\n")
        except OSError:
            return None

    def get(self, name: str) -> str | None:
        """A file of Ferry's."""
        return self.read(f"sys/kernel/mm/migrate_offload/{name}")

    def put(self, name: str, value: str) -> None:
        """Write one of Ferry's files. Raises Problem saying what the kernel did not like."""
        try:
            file = os.open(self.offload / name, os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(file, f"{value}\n".encode())
            finally:
                os.close(file)
        except PermissionError as err:
            raise Problem(f"changing {name} needs root: use sudo{self._contained()}") from err
        except FileNotFoundError as err:
            raise Problem(
                f"this kernel has no setting '{name}'; it has: {', '.join(self.settings())}"
            ) from err
        except OSError as err:
            why = {errno.EINVAL: "the kernel refuses that value", errno.ENOENT: "there is no such engine"}
            said = why.get(err.errno or 0, err.strerror)
            raise Problem(f"{name}={value}: {said}{self._contained(err.errno == errno.EROFS)}") from err

    def settings(self) -> dict[str, str]:
        """What can be set, and its value: the files that their owner may write."""
        if not self.offload.is_dir():
            return {}
        names = [path.name for path in sorted(self.offload.iterdir()) if path.is_file()]
        can = [name for name in names if (self.offload / name).stat().st_mode & 0o200 and name != "active"]
        return {name: self.get(name) or "" for name in can}

    def folder(self, name: str) -> dict[str, int]:
        """The counters in a folder of Ferry's."""
        path = self.offload / name
        found = {
            file.name: self.get(f"{name}/{file.name}") for file in sorted(path.glob("*")) if file.is_file()
        }
        return {key: int(text) for key, text in found.items() if text and text.lstrip("-").isdigit()}

    def need_ferry(self) -> None:
        """Raise Problem on a kernel without Ferry."""
        if not self.offload.is_dir():
            release = self.read("proc/sys/kernel/osrelease") or platform.release()
            raise Problem(
                f"kernel {release} is without Ferry: boot one that has it (CONFIG_MIGRATE_OFFLOAD)"
                f"{self._contained()}"
            )

    def in_container(self) -> bool:
        """Whether this is a container, whose kernel is the host's."""
        inside = any((self.root / name).exists() for name in (".dockerenv", "run/.containerenv"))
        return inside or self.read("run/systemd/container") is not None

    def _contained(self, sure: bool = False) -> str:
        if self.in_container() or sure:
            return "; this is a container, whose kernel is its host's: run ferryctl on the host"
        return ""


# --- what is seen ---


def status(system: System) -> dict[str, Any]:
    """Everything about Ferry on this machine."""
    system.need_ferry()
    active = system.get("active") or NONE
    names = sorted(path.name for path in (system.offload / "migrators").glob("*"))
    in_service = system.get("in_service")
    return {
        "kernel": system.read("proc/sys/kernel/osrelease") or platform.release(),
        "active": active,
        "available": (system.get("available") or "").split(),
        "in_service": None if in_service is None or active == NONE else in_service == "1",
        "channels": channels(system),
        "settings": system.settings(),
        "stats": system.folder("stats"),
        "engines": {name: system.folder(f"migrators/{name}") for name in names},
        "inaccessible_us": histogram(system),
    }


def channels(system: System) -> list[dict[str, str]]:
    """dcbm's DMA channels, if it is loaded and debugfs may be read."""
    lines = (system.read("sys/kernel/debug/dcbm/channels") or "").splitlines()
    return [dict(zip(lines[0].split(), line.split(), strict=False)) for line in lines[1:]] if lines else []


def histogram(system: System) -> dict[str, int]:
    """Folios by the time for which nobody could access them: upper bound in us, and how many."""
    pairs = [line.split() for line in (system.get("inaccessible_us") or "").splitlines()]
    return {bound: int(count) for bound, count in (pair for pair in pairs if len(pair) == 2)}


def since(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """How much counters have grown; one that is new, or began anew, counts from zero."""
    return {key: n - before.get(key, 0) if n >= before.get(key, 0) else n for key, n in now.items()}


def rates(before: Mapping[str, Any], now: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """What happened between two statuses."""
    engines = {
        name: since(before["engines"].get(name, {}), counters).get("bytes", 0) / 1e9 / seconds
        for name, counters in now["engines"].items()
    }
    stats = since(before["stats"], now["stats"])
    return {
        "seconds": round(seconds, 3),
        "active": now["active"],
        "gbps": {name: round(rate, 3) for name, rate in engines.items()},
        "calls": stats.get("calls", 0),
        "folios": stats.get("folios", 0),
        "not_by_engine": {name: stats[name] for name in CAUSES if name in stats},
        "inaccessible_us": since(before["inaccessible_us"], now["inaccessible_us"]),
    }


# --- what is changed ---


def use(system: System, engine: str, parameters: Mapping[str, str] | None = None) -> None:
    """Load an engine, if it is not there, and let it copy; "none" lets Linux copy as it always did."""
    system.need_ferry()
    known = (system.get("available") or "").split()
    if engine != NONE and engine not in known:
        if engine not in MODULES:
            raise Problem(
                f"no engine '{engine}'; there are: {', '.join([NONE, *known])}, and to load: {_more(known)}"
            )
        words = [f"{key}={value}" for key, value in (parameters or {}).items()]
        if system.modprobe([engine, *words]):
            hint = (
                ": is there a DMA engine with free channels? See /sys/class/dma" if engine == "dcbm" else ""
            )
            raise Problem(f"cannot load {engine}{hint}; dmesg says more")
    system.put("active", engine)


def _more(known: Sequence[str]) -> str:
    return ", ".join(name for name in MODULES if name not in known) or NONE


def change(system: System, settings: Mapping[str, str]) -> None:
    """Change settings, all or none: what was changed before a refusal is put back."""
    system.need_ferry()
    before = system.settings()
    for name in settings:
        if name not in before:
            raise Problem(f"this kernel has no setting '{name}'; it has: {', '.join(before)}")
    try:
        for name, value in _writes(settings):
            system.put(name, value)
    except Problem:
        for name, value in _writes({name: before[name] for name in settings}):
            system.put(name, value)
        raise


def _writes(settings: Mapping[str, str]) -> list[tuple[str, str]]:
    """A chunk must fit into the window, and any fits into one of 0: so that comes first, the window last."""
    both = {"chunk_pages", "window_pages"} <= settings.keys()
    ordered = sorted(settings.items(), key=lambda pair: (pair[0] == "window_pages", pair[0]))
    return [("window_pages", "0"), *ordered] if both else ordered


def reset(system: System) -> None:
    """As after boot: no engine, every setting the kernel's own choice."""
    system.need_ferry()
    system.put("active", NONE)
    change(system, {name: DEFAULTS.get(name, "0") for name in system.settings()})


# --- /etc/ferry.conf ---


def load_conf(system: System) -> dict[str, str]:
    """NAME = VALUE lines. Raises Problem naming the line that is none."""
    found: dict[str, str] = {}
    for number, line in enumerate((system.read(CONF) or "").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", name):
            raise Problem(f"/{CONF}, line {number}: '{text}' is not NAME = VALUE")
        found[name] = value
    return found


def save_conf(system: System, values: Mapping[str, str]) -> None:
    """Write values into the file; its comments and other lines stay."""
    lines = (system.read(CONF) or "").splitlines()
    for name, value in values.items():
        place = next(
            (i for i, line in enumerate(lines) if re.match(rf"\s*{re.escape(name)}\s*=", line)), None
        )
        if place is None:
            lines.append(f"{name} = {value}")
        else:
            lines[place] = f"{name} = {value}"
    path = system.root / CONF
    scratch = path.with_name(f"{path.name}.new")
    try:
        scratch.write_text("".join(f"{line}\n" for line in lines))
        scratch.replace(path)
    except OSError as err:
        raise Problem(f"cannot write /{CONF}: {err.strerror}; it needs root") from err


def apply(system: System) -> None:
    """Do what the file says: settings first, then the engine, with the parameters of its module."""
    conf = load_conf(system)
    engine = conf.pop("engine", NONE)
    mine = {key.partition(".")[2]: value for key, value in conf.items() if key.startswith(f"{engine}.")}
    change(system, {key: value for key, value in conf.items() if "." not in key})
    use(system, engine, mine)


# --- for people ---


def _big(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"


def show_status(found: Mapping[str, Any]) -> str:
    """A status as text."""
    out = [f"kernel    {found['kernel']}, with Ferry"]
    more = "" if found["in_service"] in (None, True) else ", OUT OF SERVICE: the kernel copies; see dmesg"
    copies = "Linux copies as it always did" if found["active"] == NONE else "copies"
    out.append(f"engine    {found['active']} ({copies}{more}); loaded: {' '.join(found['available'])}")
    if found["channels"]:
        live = sum(channel.get("state") == "live" for channel in found["channels"])
        out.append(f"channels  {live} DMA channels of {len(found['channels'])} serve dcbm")
    out.append("settings")
    width = max(map(len, found["settings"]), default=0)
    for name, value in found["settings"].items():
        out.append(f"  {name:<{width}}  {value or '(empty)'}")
        out.append(f"  {'':<{width}}  {SETTINGS.get(name, 'see the documentation of this kernel')}")
    stats = found["stats"]
    out.append("since boot")
    out.append(
        f"  {stats.get('folios', 0):,} folios ({_big(stats.get('bytes', 0))}) moved by engines"
        f" in {stats.get('calls', 0):,} calls"
    )
    for name, counters in found["engines"].items():
        figures = ", ".join(f"{key} {count:,}" for key, count in counters.items())
        out.append(f"  {name}: {figures}")
    out += show_causes(stats)
    if stats.get("quarantined_bytes"):
        out.append(
            f"  {_big(stats['quarantined_bytes'])} given up: a stuck engine may still write there; see dmesg"
        )
    out += show_histogram(found["inaccessible_us"])
    return "\n".join(out)


def show_causes(stats: Mapping[str, int]) -> list[str]:
    """What the engine did not copy, why, and what to do."""
    out = []
    for name, (why, remedy) in CAUSES.items():
        if stats.get(name):
            out += [f"  {name} {stats[name]:,}: {why}", f"    -> {remedy}"]
    return ["not copied by an engine", *out] if out else []


def show_histogram(buckets: Mapping[str, int]) -> list[str]:
    """Bars, of the buckets between the first and the last that have something."""
    filled = [i for i, count in enumerate(buckets.values()) if count]
    if not filled:
        return []
    most = max(buckets.values())
    shown = list(buckets.items())[filled[0] : filled[-1] + 1]
    bars = [f"  < {bound:>8} us  {count:>10,}  {'#' * round(40 * count / most)}" for bound, count in shown]
    return ["folios by the time for which they could not be accessed", *bars]


def show_rates(found: Mapping[str, Any]) -> str:
    """One interval of watch."""
    speeds = "  ".join(f"{name} {rate:.2f} GB/s" for name, rate in found["gbps"].items())
    out = [f"engine {found['active']}: {found['calls']:,} calls, {found['folios']:,} folios   {speeds}"]
    left = [f"  {name} {count:,}" for name, count in found["not_by_engine"].items() if count]
    return "\n".join([*out, *left, *show_histogram(found["inaccessible_us"])])


# --- the command line ---


def _status(system: System, args: argparse.Namespace) -> int:
    found = status(system)
    print(json.dumps(found) if args.json else show_status(found))
    return 0


def _causes(system: System, args: argparse.Namespace) -> int:
    known = {name: {"why": why, "what_to_do": remedy} for name, (why, remedy) in CAUSES.items()}
    lines = [f"{name}\n  {why}\n  -> {remedy}" for name, (why, remedy) in CAUSES.items()]
    print(json.dumps(known) if args.json else "\n".join(lines))
    return 0


def _use(system: System, args: argparse.Namespace) -> int:
    conf = load_conf(system)
    prefix = f"{args.engine}."
    use(system, args.engine, {key[len(prefix) :]: conf[key] for key in conf if key.startswith(prefix)})
    if args.save:
        save_conf(system, {"engine": args.engine})
    return _said(system, args)


def _set(system: System, args: argparse.Namespace) -> int:
    pairs = [word.partition("=") for word in args.settings]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise Problem(f"'{name}' is not NAME=VALUE, as in window_pages=1024")
    settings = {name: value for name, _, value in pairs}
    change(system, settings)
    if args.save:
        save_conf(system, settings)
    return _said(system, args)


def _reset(system: System, args: argparse.Namespace) -> int:
    reset(system)
    if args.save:
        save_conf(system, {"engine": NONE} | {name: DEFAULTS.get(name, "0") for name in system.settings()})
    return _said(system, args)


def _apply(system: System, args: argparse.Namespace) -> int:
    apply(system)
    return _said(system, args)


def _said(system: System, args: argparse.Namespace) -> int:
    """What is set now, after a change."""
    now = {"active": system.get("active"), "settings": system.settings()}
    if args.json:
        print(json.dumps(now))
    else:
        print(" ".join([f"engine={now['active']}", *(f"{k}={v}" for k, v in system.settings().items())]))
    return 0


def _watch(system: System, args: argparse.Namespace) -> int:
    """Until it is interrupted, or as often as was asked."""
    before, then = status(system), time.monotonic()
    if not args.json and system.get("inaccessible_enabled") == "0":
        print("inaccessible time is not measured: ferryctl set inaccessible_enabled=1", file=sys.stderr)
    count = 0
    try:
        while args.count is None or count < args.count:
            time.sleep(args.interval)
            now, clock = status(system), time.monotonic()
            found = rates(before, now, clock - then)
            print(json.dumps(found) if args.json else show_rates(found), flush=True)
            before, then, count = now, clock, count + 1
    except KeyboardInterrupt:
        pass
    return 0


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.01 <= value <= 3600:
        raise argparse.ArgumentTypeError("0.01 to 3600 seconds")
    return value


def make_parser() -> argparse.ArgumentParser:
    """The commands."""
    parser = argparse.ArgumentParser(
        prog="ferryctl",
        description="See and choose what copies the memory that Linux moves between NUMA nodes.",
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="for programs")
    save = argparse.ArgumentParser(add_help=False)
    save.add_argument("--save", action="store_true", help=f"also in /{CONF}, for the next boot")
    verbs = parser.add_subparsers(metavar="COMMAND", required=True)

    def verb(name: str, run: Callable[[System, argparse.Namespace], int], text: str, *more: Any) -> Any:
        sub = verbs.add_parser(name, help=text, description=text, parents=[common, *more])
        sub.set_defaults(run=run)
        return sub

    verb("status", _status, "kernel, engine, channels, settings and what they mean, counters")
    verb("use", _use, "let an engine copy; none: Linux as it always was", save).add_argument(
        "engine", metavar="ENGINE", help=f"{NONE}, cpu, {', '.join(MODULES)}, or another that is loaded"
    )
    verb("set", _set, "change settings, all or none", save).add_argument(
        "settings", nargs="+", metavar="NAME=VALUE", help=", ".join(SETTINGS)
    )
    watch = verb("watch", _watch, "what moves now: GB/s by engine, what was left to Linux, inaccessible time")
    watch.add_argument("--interval", type=_seconds, default=1.0, metavar="S", help="seconds (default: 1)")
    watch.add_argument("--count", type=int, metavar="N", help="end after N intervals (default: never)")
    verb("causes", _causes, "why an engine does not copy something, and what to do about it")
    verb("apply", _apply, f"do what /{CONF} says; done at boot by ferry.service")
    verb("reset", _reset, "no engine, and every setting the kernel's own choice", save)
    return parser


def main(argv: Sequence[str], system: System | None = None) -> int:
    """Run one command: 0, 1 if it could not be done, 2 if it was not understood."""
    args = make_parser().parse_args(argv)
    try:
        code: int = args.run(system or System(), args)
        return code
    except Problem as problem:
        print(json.dumps({"error": str(problem)}) if args.json else f"ferryctl: {problem}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
