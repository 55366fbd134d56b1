# SPDX-License-Identifier: GPL-2.0
"""Ferry's lab: assemble and build kernels, boot them, measure, report, export.

docs/design.md says what each folder has, and which others it knows.
"""
