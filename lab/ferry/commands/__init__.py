# SPDX-License-Identifier: GPL-2.0
"""One module per subcommand of ./ferry: add_arguments(parser) and run(args) -> exit code."""
