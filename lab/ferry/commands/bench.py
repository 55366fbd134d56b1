# SPDX-License-Identifier: GPL-2.0
"""measure configurations of your choice in VMs: a table, or JSON like that of ./ferry demo"""

import argparse
from typing import Any

from ferry.bench import migbench
from ferry.commands import options
from ferry.errors import UsageError
from ferry.results import provenance, report
from ferry.results.compare import Json
from ferry.vm import machine

# What is passed on to migbench: least value, default, and what it is.
PASSED = {
    "per-call": (0, 0, "folios in each call; 0: all"),
    "threads": (1, 1, "that move, each its own share"),
    "busy": (0, 0, "threads that burn CPU"),
    "writers": (0, 0, "threads that write to it while it moves; on one CPU, when the mover waits"),
    "write-rate": (0, 0, "their writes a second; 0: all they can"),
    "write-share": (1, 100, "of the memory, percent"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    plan = migbench.Plan()
    options.add_machine(parser)
    options.add_kernel(parser, plan.ferry)
    options.add_list(parser, "folio", ("4K", "2M"), migbench.FOLIOS)
    options.add_list(parser, "engine", plan.engines, migbench.ENGINES)
    options.add_number(parser, "channels", plan.channels, "of softdma, for dcbm")
    options.add_bytes(parser, plan.size, "moved per run")
    options.add_number(parser, "runs", plan.runs, "figures are medians over runs")
    options.add_number(parser, "rounds", plan.rounds, "boots of each kernel in turns, each with so many runs")
    _add_how(parser, plan)
    options.add_measured(parser)
    options.examples(
        parser,
        "bench --folio 2M --engine vanilla,mtcopy --runs 5 --json -",
        "bench --machine icount --folio 4K,64K --engine vanilla,none --runs 1   # counted",
    )


def _add_how(parser: argparse.ArgumentParser, plan: migbench.Plan) -> None:
    parser.add_argument("--call", default=plan.call, choices=migbench.CALLS)
    parser.add_argument("--memory", default=plan.memory, choices=migbench.MEMORY)
    parser.add_argument("--from", dest="source", type=int, metavar="NODE", help="default: 0; for promote 1")
    parser.add_argument("--to", dest="target", type=int, metavar="NODE", help="default: 1; for promote 0")
    parser.add_argument(
        "--order",
        default="up",
        choices=migbench.ORDERS,
        help="in which they move; scattered: random, and so are their frames (default: up)",
    )
    options.add_flag(parser, "apart", "each thread's share in mappings and page tables of its own")
    what = "the target node has no free block for a large folio; what does not arrive whole is accepted"
    options.add_flag(parser, "fragmented", what)
    options.add_one_by_one(parser)
    for name, (_, default, what) in PASSED.items():
        options.add_number(parser, name, default, what)
    options.add_flag(parser, "direct", "they write by direct reads, which need the folios' locks")


def _passed(args: argparse.Namespace, nodes: int) -> list[str]:
    """migbench's words. Raises UsageError for what it would refuse in the VM."""
    words = []
    for name, (least, _, _) in PASSED.items():
        value = getattr(args, name.replace("-", "_"))
        if value < least:
            raise UsageError(f"--{name} {value}: choose {least} or more")
        words += [f"--{name}", str(value)]
    if args.write_share > 100:
        raise UsageError(f"--write-share {args.write_share}: choose 100 or less")
    if args.write_rate and not args.writers:
        raise UsageError(f"--write-rate {args.write_rate}: needs --writers")
    if args.direct and not args.writers:
        raise UsageError("--direct: needs --writers")
    return [*_nodes(args, nodes), *words]


def _nodes(args: argparse.Namespace, nodes: int) -> list[str]:
    """migbench's words for where memory is and where it is to go."""
    places = migbench.nodes(args.call)
    for name, node in (("--from", args.source), ("--to", args.target)):
        if node is not None and name not in places:
            raise UsageError(f"{name} {node}: --call {args.call} stays on its node")
        if node is not None:
            places[name] = node
    for name, node in places.items():
        if not 0 <= node < nodes:
            raise UsageError(f"{name} {node}: the machine has nodes 0 to {nodes - 1}")
    if len(set(places.values())) < len(places):
        raise UsageError(f"--to {places['--to']}: must differ from --from")
    return [str(word) for pair in places.items() for word in pair]


def run(args: argparse.Namespace) -> int:
    computer = machine.get(args.machine, args.cpus)
    computer = computer.one_by_one() if args.one_by_one else computer
    extra = (
        *_passed(args, computer.nodes),
        *("--order", args.order, *(["--apart"] if args.apart else [])),
        *(["--fragmented", "--allow-partial"] if args.fragmented else []),
    )
    plan = options.plan(migbench.Plan, args, extra=extra, ferry=args.kernel)
    plan.check(computer)
    if args.twice and not computer.icount:
        raise UsageError(
            f"--twice is for virtual time: that of machine {computer.name} is never the same twice"
        )
    options.check_states(args, "" if computer.icount else f"machine {computer.name}")
    output = report.output(args)
    measured, kernels = options.measured(
        args,
        lambda store, state: _cells(plan, computer.in_state(state), kvm=args.kvm, store=store),
    )
    name = f"{computer.name}, folios one by one" if args.one_by_one else computer.name
    order = f", {args.order} order" if args.order != "up" else ""
    how = f"{plan.call}{order}{', threads apart' * args.apart}{', fragmented target' * args.fragmented}"
    origin = provenance.of_vms(computer, kernels, kvm=args.kvm)
    output.tell(as_json(measured, origin, f"{name}: {plan.size} per run, {how}"))
    return 0


def _cells(plan: migbench.Plan, computer: machine.Machine, **how: Any) -> tuple[list[Json], dict[str, str]]:
    measured, kernels = migbench.measure(plan, computer, **how)
    return [row.as_json() for row in measured], kernels


def as_json(measured: list[Json], origin: Json, title: str) -> Json:
    return {"provenance": origin, "title": title, "runs": measured}
