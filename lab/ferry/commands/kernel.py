# SPDX-License-Identifier: GPL-2.0
"""build, check and export the kernel; write patches back; make Debian packages"""

import argparse
from pathlib import Path

from ferry import packages
from ferry.commands import options
from ferry.kernel import base, check, deb, kbuild, series, tree
from ferry.progress import note


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(needs=())
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    verb = verbs.add_parser("build", help="build kernels (default: vanilla and ferry)")
    verb.add_argument("flavours", nargs="*", metavar="FLAVOUR", help=", ".join(kbuild.FLAVOURS))
    verb.set_defaults(run=_build)

    verb = verbs.add_parser("export", help="write everything as series for 'git am', each with its letter")
    verb.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")
    verb.set_defaults(run=_export)

    verb = verbs.add_parser(
        "refresh", help="write the commits of build/BASE/linux back to the base's patches"
    )
    verb.set_defaults(run=_refresh)

    verb = verbs.add_parser(
        "drift", help="try all patches on linux-source as it is installed; name each that fails"
    )
    verb.set_defaults(run=_drift)

    verb = verbs.add_parser("check", help="checkpatch, sparse, kernel-doc over what would be exported")
    verb.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(check.CHECKS))
    verb.set_defaults(run=_check)

    verb = verbs.add_parser("deb", help="make Debian packages of a kernel with Ferry, into out/deb")
    start = f"start from this, or '{deb.DEBIAN}', or '{deb.CLOUD}' for virtual machines"
    verb.add_argument("--config", metavar="FILE", help=f"{start} (default: /boot/config-*)")
    which = verb.add_mutually_exclusive_group()
    options.add_flag(which, "all-modules", "not only the modules that are loaded now")
    which.add_argument(
        "--modules", default=deb.LOADED, metavar="FILE",
        help="those that this lists, such as lsmod of another machine (default: /proc/modules)",
    )  # fmt: skip
    options.add_flag(verb, "with-tests", "with softdma and the modules that test")
    verb.add_argument(
        "--sign", metavar="KEY", help="sign it for Secure Boot: a PEM file with a key and its certificate"
    )
    verb.set_defaults(run=_deb)
    options.examples(
        verb,
        "kernel deb                            # from the running kernel's config",
        "kernel deb --config debian            # from Debian's",
    )


def _build(args: argparse.Namespace) -> int:
    names = args.flavours or ["vanilla", "ferry"]
    for name in names:
        kbuild.flavour(name)  # complain about the last name before the first is built
    for name in names:
        kernel = kbuild.build(name)
        print(f"{kernel.release}  {kernel.image}")
    return 0


def _export(args: argparse.Namespace) -> int:
    tree.assemble_current()
    for paths in series.export(series.load(), args.folder, tree.HERE).values():
        for path in paths:
            print(path)
    return 0


def _refresh(args: argparse.Namespace) -> int:
    for path in tree.refresh(tree.HERE):
        print(path)
    return 0


def _drift(args: argparse.Namespace) -> int:
    linux = base.find(tree.HERE.base / "base.toml", tree.HERE.build)
    if linux.suite:
        note(f"to try what {linux.suite} has now, remove {tree.HERE.build / 'package'}")
    elif (newest := packages.candidate(linux.package)) != linux.version:
        note(f"apt has {newest}: to try that, run apt-get install {linux.package}")
    applied = tree.drift(linux, tree.HERE)
    for name in applied.merged:
        print(f"by three-way only: {name}")
    tree.refuse_drift(linux, applied)
    print(f"all patches apply to {linux.package} {linux.version}")
    return 0


def _check(args: argparse.Namespace) -> int:
    check.run(args.checks or ["checkpatch", "kernel-doc", "sparse"], series.load())
    return 0


def _deb(args: argparse.Namespace) -> int:
    for path in deb.build(options.plan(deb.Choice, args, tests=args.with_tests)):
        print(path)
    return 0
