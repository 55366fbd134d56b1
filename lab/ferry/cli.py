# SPDX-License-Identifier: GPL-2.0
"""The command line: a row of modules, one per subcommand."""

import argparse
import importlib
import os
import shutil
import signal
import sys
from collections.abc import Sequence

from ferry import paths
from ferry.commands import options
from ferry.errors import FerryError
from ferry.kernel import tree

KEPT_LOGS = 50


# In the order of the help; each is a module in ferry/commands, the first line of whose docstring is its help.
# It has add_arguments(), and run(), or its parser's verbs have one each.
NAMES = (
    "demo", "bench", "cost", "profile", "table", "redis", "tier", "iommu", "compare", "report", "vm",
    "kernel", "server", "tools", "torture", "mmtests", "day", "test", "lint", "release",
)  # fmt: skip
COMMANDS = {name: importlib.import_module(f"ferry.commands.{name}") for name in NAMES}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./ferry", description="Move memory between NUMA nodes by copy engines: build, boot, measure."
    )
    version = (paths.ROOT / "VERSION").read_text().strip()
    parser.add_argument("--version", action="version", version=f"ferry {version}")
    parser.add_argument(
        "--base",
        metavar="NAME",
        default=paths.BASE,
        help=f"which Linux, {' or '.join(tree.bases())} (default: $FERRY_BASE, or {paths.DEFAULT_BASE}); "
        "may also stand behind the command",
    )
    table = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        text = (command.__doc__ or "").splitlines()[0]
        sub = table.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.set_defaults(run=getattr(command, "run", None), takes_rest=False, needs=options.RUNS)
        command.add_arguments(sub)
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, understood; exits after a question for help, or what cannot be understood.

    The launcher calls this with Debian's Python alone, so neither this module nor what it imports
    may import at their top what has to be installed.
    """
    parser = make_parser()
    args, rest = parser.parse_known_args(base_first(argv))
    args.rest = rest
    if args.base not in tree.bases():
        parser.error(f"no base '{args.base}'; there are: {', '.join(tree.bases())}")
    os.environ["FERRY_BASE"] = args.base
    if rest and not args.takes_rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def base_first(argv: Sequence[str]) -> list[str]:
    """The words with --base before the command, wherever it stood; what is behind -- stays as it is."""
    end = argv.index("--") if "--" in argv else len(argv)
    words = list(argv[:end])
    base: list[str] = []
    for at in reversed([n for n, word in enumerate(words) if word == "--base" or word.startswith("--base=")]):
        after = at + (1 if "=" in words[at] else 2)
        base = words[at:after] + base
        del words[at:after]
    return [*base, *words, *argv[end:]]


def main(argv: Sequence[str]) -> int:
    """Run one subcommand; the exit code is its own, or that of its error."""
    args = parse(argv)
    if args.base != paths.BASE:
        raise SystemExit(f"ferry: start it by ./ferry, or with FERRY_BASE={args.base} in the environment")
    for old in sorted(paths.LOGS.parent.glob("2*-*-*"))[:-KEPT_LOGS]:
        shutil.rmtree(old, ignore_errors=True)
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.default_int_handler)  # KeyboardInterrupt
    try:
        code: int = args.run(args)
        return code
    except FerryError as err:
        print(f"ferry: {err}", file=sys.stderr)
        return err.exit_code
    except KeyboardInterrupt:
        print(
            "ferry: interrupted; what was finished is kept, nothing unfinished will be trusted",
            file=sys.stderr,
        )
        return 128 + signal.SIGINT
