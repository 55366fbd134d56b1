# SPDX-License-Identifier: GPL-2.0
"""The emulated server: its parameters."""
