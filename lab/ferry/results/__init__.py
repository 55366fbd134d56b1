# SPDX-License-Identifier: GPL-2.0
"""What was measured, for people and for programs, and where it comes from."""
