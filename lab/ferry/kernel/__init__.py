# SPDX-License-Identifier: GPL-2.0
"""Linux with Ferry: its source, config, builds, checks and packages."""
