# SPDX-License-Identifier: GPL-2.0
"""What runs below reclaim and compaction, and may nest there, takes little of the kernel's stack."""

import re

import pytest

from ferry import packages, proc
from ferry.kernel import kbuild

pytestmark = pytest.mark.vm

# Of an unchanged kernel shrink_folio_list() has 424, writeout(), which migrate_pages() may call, 392.
LIMIT = 400
OBJECTS = (
    "migrate",
    "migrate_runs",
    *(f"migrate_bulk/{name}" for name in ("batch", "range", "target", "isolate")),
)
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
FRAME = re.compile(r"\bsub +\$0x([0-9a-f]{1,8}),%rsp$")


def _frames(disassembly: str) -> dict[str, int]:
    """How many bytes each function takes beside the registers that it saves."""
    frames: dict[str, int] = {}
    name = ""
    for line in disassembly.splitlines():
        if found := FUNCTION.match(line):
            name = found[1]
        elif found := FRAME.search(line):
            frames[name] = max(frames.get(name, 0), int(found[1], 16))
    return frames


@pytest.mark.parametrize("name", OBJECTS)
def test_frames_are_small(name: str) -> None:
    packages.ensure(["binutils"])
    made = kbuild.build("ferry").build_dir / f"mm/{name}.o"
    frames = _frames(proc.output(["objdump", "-d", "--no-show-raw-insn", made]))
    assert frames, "no function has a frame: the disassembly is not as it was"
    assert not {function: size for function, size in frames.items() if size > LIMIT}
