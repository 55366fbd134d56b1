# SPDX-License-Identifier: GPL-2.0
"""Ferry's lab: assemble and build kernels, boot them, measure, report, export."""
