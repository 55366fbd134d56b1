# SPDX-License-Identifier: GPL-2.0
"""Virtual machines: what they are made of, how they run a script, what they said."""
