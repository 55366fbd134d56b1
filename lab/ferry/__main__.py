# SPDX-License-Identifier: GPL-2.0
"""What ./ferry runs."""

import sys

from ferry.cli import main

sys.exit(main(sys.argv[1:]))
