# SPDX-License-Identifier: GPL-2.0
"""Which of the data races that KCSAN reports are Ferry's: Linux has many of its own."""

from __future__ import annotations

import re

from ferry import proc
from ferry.kernel import tree
from ferry.kernel.kbuild import Kernel

_PATCHED = re.compile(r"^\+\+\+ b/(\S+\.c)$", re.MULTILINE)
_SYMBOL = re.compile(r" [tT] (\w+)")


def sources() -> list[str]:
    """The C files of the kernel that are Ferry's, or that it changes."""
    new = {str(name) for name in tree.HERE.src_files() if name.suffix == ".c"}
    changed = {name for patch in tree.HERE.patch_files() for name in _PATCHED.findall(patch.read_text())}
    return sorted(new | changed)


def functions(kernel: Kernel) -> frozenset[str]:
    """The functions in them, as far as they are built in this kernel."""
    objects = [(kernel.build_dir / name).with_suffix(".o") for name in sources()]
    built = [str(path) for path in objects if path.exists()]
    # What the compiler made of f() is f.isra.0 or the like.
    return frozenset(_SYMBOL.findall(proc.output(["nm", *built])))
