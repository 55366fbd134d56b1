# SPDX-License-Identifier: GPL-2.0
"""Tests of the kernel that run in VMs: Linux's own, and the campaign."""
