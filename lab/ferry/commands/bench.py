# SPDX-License-Identifier: GPL-2.0
"""measure configurations of your choice in VMs: a table, or JSON like that of ./ferry demo"""

from __future__ import annotations

import argparse
from typing import Any

from ferry.bench import migbench
from ferry.commands.vm import add_machine_arguments
from ferry.errors import UsageError
from ferry.help import examples
from ferry.results import provenance, report
from ferry.vm import machine

LEAST = {"threads": 1, "busy": 0, "per_call": 0, "writers": 0, "write_rate": 0, "write_share": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, where, and where to put it."""
    plan = migbench.Plan()
    add_machine_arguments(parser)
    parser.add_argument("--folio", default="4K,2M", metavar="LIST", help="folio sizes (default: 4K,2M)")
    parser.add_argument(
        "--engine", default=",".join(plan.engines), metavar="LIST",
        help=f"of {', '.join(migbench.ENGINES)} (default: all but none)",
    )  # fmt: skip
    parser.add_argument(
        "--channels", type=int, default=plan.channels, help="of softdma, for dcbm (default: 4)"
    )
    parser.add_argument("--bytes", default=plan.size, metavar="SIZE", help="moved per run (default: 64M)")
    parser.add_argument(
        "--runs", type=int, default=plan.runs, help="figures are medians over runs (default: 5)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=plan.rounds,
        help="boots of each kernel, in turns, each with so many runs (default: 1)",
    )
    _add_how(parser, plan)
    report.add_json_argument(parser)
    report.add_anew_argument(parser)
    examples(
        parser,
        "bench --folio 2M --engine vanilla,mtcopy --runs 5 --json -",
        "bench --machine icount --folio 4K,64K --engine vanilla,none --runs 1   # counted",
    )


def _add_how(parser: argparse.ArgumentParser, plan: migbench.Plan) -> None:
    """What moves, and how."""
    parser.add_argument("--call", default=plan.call, choices=migbench.CALLS)
    parser.add_argument("--memory", default=plan.memory, choices=("anon", "shared", "file"))
    parser.add_argument("--from", dest="source", type=int, metavar="NODE", help="default: 0; for promote 1")
    parser.add_argument("--to", dest="target", type=int, metavar="NODE", help="default: 1; for promote 0")
    parser.add_argument(
        "--per-call", type=int, default=0, metavar="N", help="folios per call (default: 0, all)"
    )
    parser.add_argument(
        "--order",
        default="up",
        choices=migbench.ORDERS,
        help="in which they move; scattered: random, and so are their frames (default: up)",
    )
    parser.add_argument(
        "--apart", action="store_true", help="each thread's share in mappings and page tables of its own"
    )
    parser.add_argument(
        "--fragmented",
        action="store_true",
        help="the target node has no free block for a large folio; what does not arrive whole is accepted",
    )
    parser.add_argument(
        "--one-by-one", action="store_true", help="with vm.migrate_ranges=0 on Ferry's kernel"
    )
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="that move, each its own share (default: 1)"
    )
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="threads that burn CPU (default: 0)")
    parser.add_argument(
        "--writers", type=int, default=0, metavar="N",
        help="threads that write to it while it moves; on one CPU, when the mover waits (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--write-rate",
        type=int,
        default=0,
        metavar="N",
        help="their writes a second (default: 0, all they can)",
    )
    parser.add_argument(
        "--write-share", type=int, default=100, metavar="PERCENT", help="of the memory (default: 100)"
    )
    parser.add_argument(
        "--direct", action="store_true", help="they write by direct reads, which need the folios' locks"
    )


def _check_how(args: argparse.Namespace, nodes: int) -> None:
    """Raise UsageError for what migbench would refuse in the VM."""
    for name, least in LEAST.items():
        if getattr(args, name) < least:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(args, name)}: choose {least} or more")
    if args.write_share > 100:
        raise UsageError(f"--write-share {args.write_share}: choose 100 or less")
    if args.write_rate and not args.writers:
        raise UsageError(f"--write-rate {args.write_rate}: needs --writers")
    if args.direct and not args.writers:
        raise UsageError("--direct: needs --writers")
    chosen = _nodes(args)
    for name, node in chosen.items():
        if not 0 <= node < nodes:
            raise UsageError(f"{name} {node}: the machine has nodes 0 to {nodes - 1}")
    if len(set(chosen.values())) < len(chosen):
        raise UsageError(f"--to {chosen['--to']}: must differ from --from")


def _nodes(args: argparse.Namespace) -> dict[str, int]:
    given = {"--from": args.source, "--to": args.target}
    return {
        name: node if given[name] is None else given[name] for name, node in migbench.nodes(args.call).items()
    }


def run(args: argparse.Namespace) -> int:
    """Print a table unless JSON goes to stdout."""
    where = machine.get(args.machine, args.cpus)
    where = where.one_by_one() if args.one_by_one else where
    _check_how(args, where.nodes)
    more = (
        *(str(word) for pair in _nodes(args).items() for word in pair),
        *("--per-call", str(args.per_call), "--threads", str(args.threads), "--busy", str(args.busy)),
        *("--writers", str(args.writers), "--write-rate", str(args.write_rate)),
        *("--write-share", str(args.write_share)),
        *("--order", args.order, *(["--apart"] if args.apart else [])),
        *(["--fragmented", "--allow-partial"] if args.fragmented else []),
    )
    plan = migbench.Plan(
        folios=tuple(args.folio.split(",")),
        engines=tuple(args.engine.split(",")),
        channels=args.channels,
        size=args.bytes,
        runs=args.runs,
        rounds=args.rounds,
        call=args.call,
        memory=args.memory,
        more=more,
        direct=args.direct,
    )
    plan.check(where)
    output = report.Output(args.json)
    output.check()
    measured = migbench.measure(plan, where, kvm=args.kvm, store=provenance.store(args.anew))
    output.write(as_json(measured, args.kvm))
    if not output.is_stdout:
        name = f"{where.name}, folios one by one" if args.one_by_one else where.name
        how = f"{plan.call}{', random order' * (args.order == 'random')}{', threads apart' * args.apart}"
        how += ", fragmented target" * args.fragmented
        report.show(report.table(measured.rows, f"{name}: {plan.size} per run, {how}"))
    return 0


def as_json(measured: migbench.Measured, kvm: bool) -> dict[str, Any]:
    """Rows, and where they come from."""
    return {
        "provenance": provenance.of_vms(measured.machine, measured.kernels, kvm=kvm),
        "runs": [row.as_json() for row in measured.rows],
    }
