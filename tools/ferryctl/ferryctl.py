#!/usr/bin/python3 -B
# SPDX-License-Identifier: GPL-2.0
"""ferryctl: see and choose what copies the memory that Linux moves between NUMA nodes.

Everything is read from and written to /sys/kernel/mm/migrate_offload; see ferryctl(8).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ferryctl_advice as advice
import ferryctl_check as checking
import ferryctl_engines as engines
import ferryctl_metrics as metrics
import ferryctl_move as moving
import ferryctl_pages as pages
import ferryctl_tune as tune
import ferryctl_variants as variants
from ferryctl_arguments import make_parser
from ferryctl_change import apply, change, reset
from ferryctl_conf import CONF, load_conf, parameters, replace_file, save_conf
from ferryctl_machine import IN_PART, INTERRUPTED, NONE, WELL, Problem, System, use
from ferryctl_settings import DEFAULTS, parse
from ferryctl_status import CAUSES, now, show_status, status
from ferryctl_version import version
from ferryctl_watch import watch

# --- what is seen ---


def _status(system: System, args: argparse.Namespace) -> int:
    found = status(system)
    wrong = checking.check(system)
    problems = [finding.problem for finding in wrong]
    print(json.dumps(found | {"problems": problems}) if args.json else show_status(found))
    if wrong and not args.json:
        print(checking.show(system, wrong))
    return checking.code(wrong)


def _check(system: System, args: argparse.Namespace) -> int:
    if args.next_boot:
        said, findings = checking.next_boot(system)
        print(
            json.dumps({"next_boot": said, "problems": [finding.problem for finding in findings]})
            if args.json
            else said
        )
        return checking.code(findings)
    findings = checking.check(system)
    code = checking.code(findings)
    unsaved = checking.unsaved(system) if code == WELL else {}
    if args.json:
        lines = [{"problem": finding.problem, "what": finding.what, "do": finding.do} for finding in findings]
        about = {"time": now(), "kernel": system.release, "status": code}
        print(json.dumps({**about, "problems": lines, "unsaved": unsaved}))
        return code
    changed = f"; changed since boot, and not saved: {', '.join(unsaved)}" if unsaved else ""
    print(f"{checking.show(system, findings)}{changed}")
    return code


def _metrics(system: System, args: argparse.Namespace) -> int:
    text = metrics.render(metrics.families(system, checking.check(system), version()))
    if not args.output:
        print(text, end="")
        return WELL
    try:
        replace_file(Path(args.output), text)
    except OSError as err:
        raise Problem(f"cannot write {args.output}: {err.strerror}") from err
    return WELL


def _causes(system: System, args: argparse.Namespace) -> int:
    known = {name: {"why": why, "what_to_do": remedy} for name, (why, remedy) in CAUSES.items()}
    lines = [f"{name}\n  {why}\n  -> {remedy}" for name, (why, remedy) in CAUSES.items()]
    print(json.dumps(known) if args.json else "\n".join(lines))
    return WELL


def _engines(system: System, args: argparse.Namespace) -> int:
    found = engines.devices(system)
    if args.json:
        print(json.dumps({"ferry": system.has_ferry, "devices": engines.as_json(found)}))
    else:
        print("\n".join(engines.show(found, system)))
    return WELL


def _watch(system: System, args: argparse.Namespace) -> int:
    watch(system, args.interval, args.count, args.json)
    return WELL


# --- what is changed ---


def _use(system: System, args: argparse.Namespace) -> int:
    use(system, args.engine, parameters(load_conf(system), args.engine))
    if args.save:
        save_conf(system, {"engine": args.engine})
    return _show_set(system, args)


def _set(system: System, args: argparse.Namespace) -> int:
    pairs = [word.partition("=") for word in args.settings]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise Problem(f"'{name}' is not NAME=VALUE, as in window_pages=1024")
    settings = {name: value for name, _, value in pairs}
    change(system, settings)
    if args.save:
        save_conf(system, {name: parse(name, value) for name, value in settings.items()})
    return _show_set(system, args)


def _reset(system: System, args: argparse.Namespace) -> int:
    reset(system)
    if args.save:
        save_conf(system, {"engine": NONE} | {name: DEFAULTS.get(name, "0") for name in system.settings()})
    return _show_set(system, args)


def _apply(system: System, args: argparse.Namespace) -> int:
    done = apply(system, args.wait)
    for why in done.left.values():
        print(f"ferryctl: left out: {why}", file=sys.stderr)
    _show_set(system, args, {"left": done.left})
    return IN_PART if done.left else WELL


def _show_set(system: System, args: argparse.Namespace, extra: dict[str, Any] | None = None) -> int:
    """What is set now, after a change."""
    settings, active = system.settings(), system.get("active") or NONE
    if args.json:
        print(json.dumps({"active": active, "settings": settings} | (extra or {})))
    else:
        print(" ".join([f"engine={active}", *(f"{name}={value}" for name, value in settings.items())]))
    return WELL


def _move(system: System, args: argparse.Namespace) -> int:
    order = moving.Order(args.node_to, args.node_from, args.max_ms, args.rate, args.shared)
    progress = moving.Progress()

    def whom() -> Sequence[int]:
        return [args.pid] if args.pid else moving.cgroup_pids(system, args.cgroup)

    nodes = tune.nodes(system)
    for node in {order.to, order.to if order.node_from is None else order.node_from}:
        if node not in nodes:
            raise Problem(f"no node {node} with memory; there are: {', '.join(map(str, nodes))}")
    done = moving.move(whom, order, pages.Process, progress)
    progress.end()
    print(json.dumps(done.as_json()) if args.json else moving.show(done, order))
    if done.interrupted:
        return INTERRUPTED
    if args.pid and done.gone:
        raise Problem(f"there is no process {args.pid}, or it has ended")
    return IN_PART if done.not_moved or done.failed else WELL


def _tune(system: System, args: argparse.Namespace) -> int:
    """Measure, with consent, and say which engine to choose; write it down only if told to."""
    plan = tune.Plan(
        tuple(args.folio.split(",")),
        tuple(args.engine.split(",")) if args.engine else (),
        *(args.bytes, args.rounds, args.node_from, args.node_to, args.target_us),
        with_settings=not args.engines_only,
    )
    plan = tune.prepare(system, plan)
    tune.consent(system, plan, args.yes)
    measured = tune.measure(system, plan, lambda line: print(line, file=sys.stderr, flush=True))
    advised = advice.advise(measured.samples, measured.target_us)
    table = advice.cells(measured.samples, measured.target_us)
    chosen = variants.choose(measured.tried, advised.engine, measured.target_us)
    tried = advice.cells(measured.tried, measured.target_us, variants.AS_SET)
    values = {"engine": advised.engine} | tune.to_save(system, measured.settings | chosen.settings)
    why = " ".join(filter(None, (advised.why, chosen.why)))
    advised = replace(advised, why=why, warnings=(*advised.warnings, *chosen.hints))
    result = {
        "kernel": system.release,
        **{"from": plan.node_from, "to": plan.node_to, "bytes": plan.bytes, "rounds": plan.rounds},
        "settings": measured.settings,
        "measured": [advice.as_json(cell) for cell in table],
        "measured_settings": [advice.as_json(cell) for cell in tried],
        "not_measured": measured.skipped,
        "recommended": {"engine": advised.engine, "conf": values, "why": advised.why},
        "warnings": advised.warnings,
    }
    print(
        json.dumps(result) if args.json else advice.report(table, tried, measured.skipped, advised, values),
        flush=True,
    )
    if args.write:
        save_conf(system, values)
        print(f"written to /{CONF}; 'ferryctl apply' does it now, ferry.service at boot", file=sys.stderr)
    return WELL


RUN = {
    "status": _status, "check": _check, "watch": _watch, "metrics": _metrics, "causes": _causes,
    "engines": _engines, "use": _use, "set": _set, "reset": _reset, "apply": _apply, "move": _move,
    "tune": _tune,
}  # fmt: skip


def main(argv: Sequence[str], system: System | None = None) -> int:
    """Run one command; its exit status is in ferryctl(8)."""
    args = make_parser(version()).parse_args(argv or ["status"])
    try:
        return RUN[args.command](system or System(), args)
    except Problem as problem:
        print(json.dumps({"error": str(problem)}) if args.json else f"ferryctl: {problem}", file=sys.stderr)
        return problem.code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
