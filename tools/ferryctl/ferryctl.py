#!/usr/bin/python3 -B
# SPDX-License-Identifier: GPL-2.0
"""ferryctl: see and choose what copies the memory that Linux moves between NUMA nodes.

Everything is read from and written to /sys/kernel/mm/migrate_offload; see ferryctl(8).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ferryctl_advice as advice
import ferryctl_tune as tune
from ferryctl_machine import (
    CONF,
    DEFAULTS,
    MODULES,
    NONE,
    Problem,
    System,
    apply,
    change,
    load_conf,
    parameters,
    reset,
    save_conf,
    use,
)

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
    counts = [int(count) for count in (system.get("inaccessible_us") or "").split()]
    bounds = [str(1 << i) for i in range(len(counts) - 1)]
    return dict(zip([*bounds, "inf"], counts, strict=True)) if counts else {}


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
    use(system, args.engine, parameters(load_conf(system), args.engine))
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


def _tune(system: System, args: argparse.Namespace) -> int:
    """Measure, with consent, and say which engine to choose; write it down only if told to."""
    plan = tune.Plan(
        tuple(args.folio.split(",")),
        tuple(args.engine.split(",")) if args.engine else (),
        *(args.bytes, args.rounds, args.node_from, args.node_to, args.target_us),
    )
    plan = tune.prepare(system, plan)
    tune.consent(system, plan, args.yes)
    found = tune.measure(system, plan, lambda line: print(line, file=sys.stderr, flush=True))
    advised = advice.advise(found.samples, found.target_us)
    table = advice.cells(found.samples, found.target_us)
    values = {"engine": advised.engine} | tune.to_save(system, found.settings)
    result = {
        "kernel": system.read("proc/sys/kernel/osrelease") or platform.release(),
        **{"from": plan.node_from, "to": plan.node_to, "bytes": plan.bytes, "rounds": plan.rounds},
        "settings": found.settings,
        "measured": [advice.as_json(cell) for cell in table],
        "not_measured": found.skipped,
        "recommended": {"engine": advised.engine, "conf": values, "why": advised.why},
        "warnings": advised.warnings,
    }
    print(json.dumps(result) if args.json else _show_tune(table, found, advised, values), flush=True)
    if args.write:
        save_conf(system, values)
        print(f"written to /{CONF}; 'ferryctl apply' does it now, ferry.service at boot", file=sys.stderr)
    return 0


def _show_tune(
    table: Sequence[advice.Cell], found: tune.Measured, advised: advice.Advice, values: Mapping[str, str]
) -> str:
    left = sum(cell.left for cell in table)
    return "\n".join(
        [
            *advice.show(table),
            *(f"not measured: {why}" for why in found.skipped.values()),
            *([f"{left:,} pages were not moved: somebody had them"] if left else []),
            "",
            f"recommended: {' '.join(f'{name}={value}' for name, value in values.items())}",
            f"  {advised.why}",
            *(f"  warning: {each}" for each in advised.warnings),
        ]
    )


def _tune_arguments(parser: argparse.ArgumentParser) -> None:
    plan = tune.Plan()
    parser.add_argument("--yes", action="store_true", help="consent; else it is asked for")
    parser.add_argument("--write", action="store_true", help=f"write what is recommended into /{CONF}")
    parser.add_argument("--engine", metavar="E,...", help="compare these with none (default: all)")
    parser.add_argument(
        "--folio", default=",".join(plan.folios), metavar="SIZE,...", help="default: 4K,64K,2M"
    )
    parser.add_argument("--bytes", default=plan.size, metavar="SIZE", help="of each move (default: 64M)")
    parser.add_argument("--rounds", type=_rounds, default=plan.rounds, metavar="N", help="default: 5")
    parser.add_argument("--from", type=int, dest="node_from", metavar="NODE", help="default: the first")
    parser.add_argument("--to", type=int, dest="node_to", metavar="NODE", help="default: the second")
    parser.add_argument("--target-us", type=int, metavar="US", help="default: as it is set")


def _rounds(text: str) -> int:
    value = int(text)
    if not 3 <= value <= 1000:
        raise argparse.ArgumentTypeError("3 to 1000: with fewer nobody knows by how much they differ")
    return value


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
    _tune_arguments(verb("tune", _tune, "measure the engines of this machine, and say which to choose"))
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
