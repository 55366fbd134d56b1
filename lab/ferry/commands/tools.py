# SPDX-License-Identifier: GPL-2.0
"""make the Debian package of ferryctl, migbench and iova_stress, into out/deb"""

import argparse

from ferry import tools


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(needs=())


def run(args: argparse.Namespace) -> int:
    print(tools.build())
    return 0
