# SPDX-License-Identifier: GPL-2.0
"""Measuring: what each program says of one configuration."""
